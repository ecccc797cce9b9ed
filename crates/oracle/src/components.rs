//! The original components as child processes.
//!
//! Start with [`ControlPlane::start`]: it builds the program if need be, runs
//! etcd and kube-apiserver and waits until they serve. Everything is blocking
//! and ends with the value that stands for it.

mod api_client;
mod component;
mod control_plane;
mod endpoint;
mod flags;
mod go_build;
mod go_mod_file;
mod go_module;
mod go_substitute;
mod go_versions;
mod ports;
mod real_binary;
mod scheduler_config;

pub use api_client::{ApiClient, unchecked_tls};
pub use component::Component;
pub use control_plane::{ControlPlane, ControlPlaneOptions};
pub use endpoint::Endpoint;
pub use ports::free_ports;
pub use real_binary::{Helm, HelmVersion, Kubectl, KubectlVersion, RealBinary, Rendered, YamlLibrary};

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a real component could not be built, started or asked. `Debug` prints
/// the message too: a test that unwraps then tells a person what to do.
#[derive(thiserror::Error)]
pub enum Error {
    /// The Go toolchain is not installed. Install it and try again.
    #[error(
        "the real Kubernetes is built with Go, and no `go` command was found.\n\
         Install Go 1.26 or newer (https://go.dev/doc/install, or your distribution's `golang` package, \
         or `brew install go`), see that `go version` works in this shell, and run this again.\n\
         The build needs about 4 minutes on 2 cores, 4 GiB of disk, and once a network to download the modules."
    )]
    GoMissing,

    /// `go build` ended with an error; what it printed is included.
    #[error("building the Go program in {} failed ({status}):\n{output}", directory.display())]
    Build {
        /// Where the Go module lies.
        directory: PathBuf,
        /// How `go build` ended.
        status: String,
        /// The end of what `go build` printed.
        output: String,
    },

    /// Neither the version that is pinned nor one that could stand in for it
    /// can be had.
    #[error(
        "{module} {version} is not served by the module proxy, nor is a version that could stand in for it; \
         served are {}.\nAsk another proxy (`GOPROXY`), or pin one of these in {}.",
        list(served),
        go_mod.display()
    )]
    NotServed {
        /// The Go module.
        module: String,
        /// Its version.
        version: String,
        /// The versions that the proxy lists, the oldest first.
        served: Vec<String>,
        /// The file that asks for it.
        go_mod: PathBuf,
    },

    /// A component ended or did not answer in time. The end of its log says why.
    #[error("{component} {problem}; the end of its log:\n{log}")]
    NotReady {
        /// The component's name.
        component: String,
        /// What went wrong.
        problem: String,
        /// The last lines it logged.
        log: String,
    },

    /// The scheduler configuration given is not JSON although it begins like it.
    #[error("the kube-scheduler configuration begins with a brace but is not JSON: {0}")]
    SchedulerConfig(#[source] serde_json::Error),

    /// kube-apiserver could not be reached.
    #[error("{method} {path}: {source}")]
    Unreachable {
        /// The HTTP method.
        method: &'static str,
        /// The path asked for.
        path: String,
        /// What the HTTP client reports.
        #[source]
        source: Box<ureq::Error>,
    },

    /// kube-apiserver refused the request.
    #[error("{method} {path}: HTTP {status}: {body}")]
    Refused {
        /// The HTTP method.
        method: &'static str,
        /// The path asked for.
        path: String,
        /// The HTTP status, for instance 404 or 409.
        status: u16,
        /// The body, most often a Kubernetes `Status` object.
        body: String,
    },

    /// A file or a process of the local machine.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: String,
        /// What the operating system reports.
        #[source]
        source: io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The newest of `versions`, for people.
fn list(versions: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = &versions[versions.len().saturating_sub(SHOWN)..];
    match shown.len() {
        0 => "none".to_owned(),
        all if all == versions.len() => shown.join(", "),
        _ => format!("…, {}", shown.join(", ")),
    }
}

/// Names the action that an I/O error belongs to.
fn io_error(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::Io { action, source }
}
