//! Programs built from the real Kubernetes, kubectl and Helm.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use harbormaster_api::Release;

use super::Error;
use super::go_build::{Versions, progress};
use super::go_module::{GoModule, Program};

/// Returns the module with the components of a release.
pub(super) fn components(release: Release) -> GoModule {
    let (name, versions) = match release {
        Release::V1_36 => ("components-1.36", Versions::MAIN),
        Release::V1_37 => ("components-1.37", Versions { go_mod: "kube1.37.mod", tag: "kube1.37" }),
    };
    GoModule {
        directory: "tests/real",
        package: ".",
        name,
        versions,
        reference: "k8s.io/kubernetes",
        description: "the real Kubernetes components",
        minutes: 4,
    }
}

/// The Go program that contains all real components of one release, built as `target/real/components-RELEASE-KEY` under
/// the workspace. Its first argument selects the role: `etcd`, `kube-apiserver`, `kube-controller-manager`,
/// `kube-scheduler`, `types`, `verdicts`, `selectors`, `service-account-key`.
#[derive(Debug, Clone)]
pub struct RealBinary(Program);

impl RealBinary {
    /// Returns the release's program that belongs to the current content of `tests/real`, and builds it if it does not
    /// exist yet. Concurrent processes build it once. Progress is written to stderr, bypassing the capture of test
    /// output.
    pub fn ensure(release: Release) -> Result<Self, Error> {
        let program = components(release).ensure()?;
        static ANNOUNCED: Mutex<Vec<Release>> = Mutex::new(Vec::new());
        let mut announced = ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner);
        if !announced.contains(&release) {
            announced.push(release);
            progress(&format!("comparing with Kubernetes {}", program.version));
        }
        Ok(Self(program))
    }

    /// The Kubernetes version of the program: the version that `tests/real` pins for the release, or the nearest one
    /// that the module proxy serves.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A program with the plugins of kubernetes-sigs/scheduler-plugins.
#[derive(Debug, Clone)]
pub struct FamilyBinary(PathBuf);

impl FamilyBinary {
    /// Returns the program that answers questions about the plugins. It is built if necessary, as by
    /// [`RealBinary::ensure`].
    pub fn ensure() -> Result<Self, Error> {
        Self::build(".", "family", "the plugins of scheduler-plugins")
    }

    /// Returns the scheduler of scheduler-plugins, which is built in the same way.
    pub fn scheduler() -> Result<Self, Error> {
        let package = "sigs.k8s.io/scheduler-plugins/cmd/scheduler";
        Self::build(package, "family-scheduler", "the scheduler of scheduler-plugins")
    }

    fn build(package: &'static str, name: &'static str, description: &'static str) -> Result<Self, Error> {
        let module = GoModule {
            directory: "tests/family",
            package,
            name,
            versions: Versions::MAIN,
            reference: "k8s.io/kubernetes",
            description,
            minutes: 3,
        };
        module.ensure().map(|program| Self(program.path))
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Versions of kubectl that are tested: the oldest and the newest in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubectlVersion {
    /// 1.27.
    Oldest,
    /// 1.37.
    Newest,
}

impl KubectlVersion {
    fn module(self) -> GoModule {
        let (directory, name, description) = match self {
            Self::Oldest => ("tests/kubectl/1.27", "kubectl-1.27", "kubectl"),
            Self::Newest => ("tests/kubectl/1.37", "kubectl-1.37", "kubectl"),
        };
        GoModule {
            directory,
            package: ".",
            name,
            versions: Versions::MAIN,
            reference: "k8s.io/kubectl",
            description,
            minutes: 2,
        }
    }

    /// Returns the minor version, for example `1.27`.
    #[must_use]
    pub fn minor(self) -> &'static str {
        match self {
            Self::Oldest => "1.27",
            Self::Newest => "1.37",
        }
    }
}

/// A real kubectl.
#[derive(Debug, Clone)]
pub struct Kubectl {
    path: PathBuf,
    version: KubectlVersion,
}

impl Kubectl {
    /// Returns kubectl, which is built if necessary, as by [`RealBinary::ensure`].
    pub fn ensure(version: KubectlVersion) -> Result<Self, Error> {
        version.module().ensure().map(|program| Self { path: program.path, version })
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version of kubectl.
    #[must_use]
    pub fn version(&self) -> KubectlVersion {
        self.version
    }
}

/// A program that wraps the YAML library of Kubernetes and kubectl.
#[derive(Debug, Clone)]
pub struct YamlLibrary(PathBuf);

impl YamlLibrary {
    /// Returns the program, which is built if necessary, as by [`RealBinary::ensure`].
    pub fn ensure() -> Result<Self, Error> {
        let module = GoModule {
            directory: "tests/yaml",
            package: ".",
            name: "yaml",
            versions: Versions::MAIN,
            reference: "sigs.k8s.io/yaml",
            description: "Kubernetes' YAML library",
            minutes: 1,
        };
        module.ensure().map(|program| Self(program.path))
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Versions of Helm that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelmVersion {
    /// 3, which compares the installed release with the cluster and sends patches.
    Three,
    /// 4, which uses server-side apply.
    Four,
}

impl HelmVersion {
    fn module(self) -> GoModule {
        let three = GoModule {
            directory: "tests/helm/3",
            package: "helm.sh/helm/v3/cmd/helm",
            name: "helm-3",
            versions: Versions::MAIN,
            reference: "helm.sh/helm/v3",
            description: "Helm",
            minutes: 3,
        };
        match self {
            Self::Three => three,
            Self::Four => GoModule {
                directory: "tests/helm/4",
                package: ".",
                name: "helm-4",
                reference: "helm.sh/helm/v4",
                ..three
            },
        }
    }
}

/// A real Helm.
#[derive(Debug, Clone)]
pub struct Helm {
    path: PathBuf,
    version: HelmVersion,
}

impl Helm {
    /// Returns Helm, which is built if necessary, as by [`RealBinary::ensure`].
    pub fn ensure(version: HelmVersion) -> Result<Self, Error> {
        version.module().ensure().map(|program| Self { path: program.path, version })
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version of Helm.
    #[must_use]
    pub fn version(&self) -> HelmVersion {
        self.version
    }

    /// Renders a chart with `values` (YAML). Returns the manifests, or Helm's error.
    pub fn render(&self, chart: &Path, release: &str, namespace: &str, values: &str) -> io::Result<Rendered> {
        let mut child = Command::new(&self.path)
            .args(["template", release])
            .arg(chart)
            // Without this flag, this build of Helm assumes a very old Kubernetes.
            .args(["--namespace", namespace, "--values", "-", "--kube-version", RENDERED_FOR])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(values.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
    }
}

/// Kubernetes version for which charts are rendered.
const RENDERED_FOR: &str = "1.36";

/// Manifests, or Helm's error.
pub type Rendered = Result<String, String>;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::go_mod_file::required;
    use super::*;

    #[test]
    fn a_version_of_every_release_is_pinned() {
        for &release in Release::ALL {
            let module = components(release);
            let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let path = workspace.join(module.directory).join(module.versions.go_mod);
            let go_mod = fs::read_to_string(path).unwrap();
            let version = required(&go_mod, module.reference).unwrap_or_default();
            assert!(version.starts_with(&format!("v{release}.")), "{release}: {version:?}");
        }
    }
}
