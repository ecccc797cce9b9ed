//! The programs that hold the original Kubernetes.

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
    what: "the real Kubernetes components",
    minutes: 4,
};

/// The built program, `target/real/components-KEY` under the workspace. Its
/// first argument chooses the role: `etcd`, `kube-apiserver`,
/// `kube-controller-manager`, `kube-scheduler`, `types`, `verdicts`,
/// `service-account-key`.
#[derive(Debug, Clone)]
pub struct RealBinary(Program);

impl RealBinary {
    /// Returns the program, building it first when it does not exist for the
    /// present content of `tests/real`. Processes that run side by side build
    /// it once. Progress goes to stderr, past the capture of test output.
    pub fn ensure() -> Result<Self, Error> {
        let program = COMPONENTS.ensure()?;
        static TOLD: Once = Once::new();
        TOLD.call_once(|| progress(&format!("comparing with Kubernetes {}", program.version)));
        Ok(Self(program))
    }

    /// The version of Kubernetes that it is: that of `tests/real/go.mod`, or
    /// the nearest that is served.
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

/// The kubectls that are tried: the oldest and the newest that users have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubectlVersion {
    /// 1.27.
    Oldest,
    /// 1.37.
    Newest,
}

impl KubectlVersion {
    fn module(self) -> GoModule {
        let (directory, name, what) = match self {
            Self::Oldest => ("tests/kubectl/1.27", "kubectl-1.27", "kubectl"),
            Self::Newest => ("tests/kubectl/1.37", "kubectl-1.37", "kubectl"),
        };
        GoModule { directory, package: ".", name, reference: "k8s.io/kubectl", what, minutes: 2 }
    }

    /// `1.27`, say.
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
    /// Returns kubectl of that version, building it first as
    /// [`RealBinary::ensure`] does.
    pub fn ensure(version: KubectlVersion) -> Result<Self, Error> {
        version.module().ensure().map(|program| Self { path: program.path, version })
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version of helm.
    #[must_use]
    pub fn version(&self) -> KubectlVersion {
        self.version
    }
}

/// The library with which Kubernetes reads and kubectl writes YAML, as a program.
#[derive(Debug, Clone)]
pub struct YamlLibrary(PathBuf);

impl YamlLibrary {
    /// Returns the program, building it first as [`RealBinary::ensure`] does.
    pub fn ensure() -> Result<Self, Error> {
        let module = GoModule {
            directory: "tests/yaml",
            package: ".",
            name: "yaml",
            reference: "sigs.k8s.io/yaml",
            what: "Kubernetes' YAML",
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

/// The Helms that are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelmVersion {
    /// 3, which compares what it has installed with what there is, and patches.
    Three,
    /// 4, which applies on the side of the server.
    Four,
}

impl HelmVersion {
    fn module(self) -> GoModule {
        let three = GoModule {
            directory: "tests/helm/3",
            package: "helm.sh/helm/v3/cmd/helm",
            name: "helm-3",
            reference: "helm.sh/helm/v3",
            what: "Helm",
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

/// A real helm.
#[derive(Debug, Clone)]
pub struct Helm {
    path: PathBuf,
    version: HelmVersion,
}

impl Helm {
    /// Returns helm of that version, building it first as
    /// [`RealBinary::ensure`] does.
    pub fn ensure(version: HelmVersion) -> Result<Self, Error> {
        version.module().ensure().map(|program| Self { path: program.path, version })
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version of helm.
    #[must_use]
    pub fn version(&self) -> HelmVersion {
        self.version
    }

    /// The manifests of a chart, or what helm says against the values, which
    /// are YAML.
    pub fn render(&self, chart: &Path, release: &str, namespace: &str, values: &str) -> io::Result<Rendered> {
        let mut child = Command::new(&self.path)
            .args(["template", release])
            .arg(chart)
            // Built this way it takes Kubernetes for a very old one.
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

/// The version of Kubernetes for which charts are rendered.
const RENDERED_FOR: &str = "1.36";

/// Manifests, or why there are none.
pub type Rendered = Result<String, String>;
