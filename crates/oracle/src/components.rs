//! The real Kubernetes components as child processes.
//!
//! Start with [`ControlPlane::start`], which builds the components if necessary, runs etcd and kube-apiserver, and
//! waits until both serve requests. All calls block. Dropping a component stops its process.

mod api_client;
mod browser;
mod chromium;
mod component;
mod control_plane;
mod endpoint;
mod flags;
mod go_build;
mod go_mod_file;
mod go_module;
mod go_substitute;
mod go_versions;
mod line_process;
mod ports;
mod real_binary;
mod scheduler_config;
mod source;

pub use api_client::{ApiClient, unchecked_tls};
pub use browser::{Browser, Key};
pub use component::Component;
pub use control_plane::{ControlPlane, ControlPlaneOptions};
pub use endpoint::Endpoint;
pub(crate) use line_process::LineProcess;
pub use ports::free_ports;
pub use real_binary::{
    FamilyBinary, Helm, HelmVersion, Kubectl, KubectlVersion, RealBinary, Rendered, YamlLibrary,
};

pub use source::kubernetes_source;

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason a real component could not be built, started or reached. `Debug` prints the message, so a failed `unwrap`
/// in a test shows what to do.
#[derive(thiserror::Error)]
pub enum Error {
    /// The Go toolchain is not installed. Install it and try again.
    #[error(
        "the real Kubernetes is built with Go, but no `go` command was found.\n\
         Install Go 1.26 or newer (https://go.dev/doc/install, your distribution's `golang` package, \
         or `brew install go`), check that `go version` works in this shell, and try again.\n\
         The build takes about 4 minutes on 2 cores and needs 4 GiB of disk. \
         The first build downloads modules from the network."
    )]
    GoMissing,

    /// `go build` failed.
    #[error("building the Go program in {} failed ({status}):\n{output}", directory.display())]
    Build {
        /// Directory of the Go module.
        directory: PathBuf,
        /// Exit status of `go build`.
        status: String,
        /// The last lines that `go build` printed.
        output: String,
    },

    /// The module proxy has neither the pinned version nor a substitute.
    #[error(
        "the module proxy serves neither {module} {version} nor a version that could replace it; it serves {}.\n\
         Use another proxy (`GOPROXY`), or pin one of these versions in {}.",
        list(served),
        go_mod.display()
    )]
    NotServed {
        /// The Go module.
        module: String,
        /// The pinned version.
        version: String,
        /// The versions that the proxy lists, oldest first.
        served: Vec<String>,
        /// The file that requires the module.
        go_mod: PathBuf,
    },

    /// The sources of a module could not be downloaded.
    #[error("downloading the sources of {module} failed:\n{output}")]
    Source {
        /// The Go module and its version.
        module: String,
        /// Messages of Go.
        output: String,
    },

    /// There is no browser, and none can be installed.
    #[error(
        "the page is tested in a browser, but there is no `chromium` command, and it cannot be installed ({0}): \
         install the package `chromium` and try again"
    )]
    BrowserMissing(String),

    /// The browser did not do what a test asked for.
    #[error("the browser: {action}: {problem}")]
    Browser {
        /// The failed action.
        action: String,
        /// Description of the problem.
        problem: String,
    },

    /// A component exited or did not become ready in time.
    #[error("{component} {problem}; the end of its log:\n{log}")]
    NotReady {
        /// The component's name.
        component: String,
        /// Description of the problem.
        problem: String,
        /// The end of the component's log.
        log: String,
    },

    /// A scheduler configuration starts with a brace but is not JSON.
    #[error("the kube-scheduler configuration starts with a brace but is not JSON: {0}")]
    SchedulerConfig(#[source] serde_json::Error),

    /// kube-apiserver could not be reached.
    #[error("{method} {path}: {source}")]
    Unreachable {
        /// The HTTP method.
        method: &'static str,
        /// The requested path.
        path: String,
        /// Error of the HTTP client.
        #[source]
        source: Box<ureq::Error>,
    },

    /// kube-apiserver refused the request.
    #[error("{method} {path}: HTTP {status}: {body}")]
    Refused {
        /// The HTTP method.
        method: &'static str,
        /// The requested path.
        path: String,
        /// The HTTP status, for example 404 or 409.
        status: u16,
        /// The body, usually a Kubernetes `Status` object.
        body: String,
    },

    /// An operation on a local file or process failed.
    #[error("{action}: {source}")]
    Io {
        /// The failed action.
        action: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the newest of `versions`.
fn list(versions: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = &versions[versions.len().saturating_sub(SHOWN)..];
    match shown.len() {
        0 => "none".to_owned(),
        all if all == versions.len() => shown.join(", "),
        _ => format!("…, {}", shown.join(", ")),
    }
}

/// Adds the failed action to an I/O error.
fn io_error(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::Io { action, source }
}
