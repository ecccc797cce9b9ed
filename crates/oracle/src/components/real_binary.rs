//! Programs built from the real Kubernetes, kubectl and Helm.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use super::Error;
use super::go_build::progress;
use super::go_module::{GoModule, Program};

const COMPONENTS: GoModule = GoModule {
    directory: "tests/real",
    package: ".",
    name: "components",
    reference: "k8s.io/kubernetes",
    description: "the real Kubernetes components",
    minutes: 4,
};

/// The Go program that contains all real components, built as `target/real/components-KEY` under the workspace. Its
/// first argument selects the role: `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `types`,
/// `verdicts`, `service-account-key`.
#[derive(Debug, Clone)]
pub struct RealBinary(Program);

impl RealBinary {
    /// Returns the program, and builds it if it does not exist for the current
    /// content of `tests/real`. Concurrent processes build it once. Progress is
    /// written to stderr, bypassing the capture of test output.
    pub fn ensure() -> Result<Self, Error> {
        let program = COMPONENTS.ensure()?;
        static ANNOUNCED: Once = Once::new();
        ANNOUNCED.call_once(|| progress(&format!("comparing with Kubernetes {}", program.version)));
        Ok(Self(program))
    }

    /// The Kubernetes version of the program: the version in `tests/real/go.mod`, or the nearest one that the module
    /// proxy serves.
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
        GoModule { directory, package: ".", name, reference: "k8s.io/kubectl", description, minutes: 2 }
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
