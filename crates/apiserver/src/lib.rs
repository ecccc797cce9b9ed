//! An in-memory Kubernetes API server: for trying Harbormaster with kubectl but without a cluster, as a test double,
//! and for benchmarks.
//!
//! Reading order: `kinds` (served kinds, from the table of `harbormaster-validation` and from custom resource
//! definitions), `object` and `shelf` (storage, and how watchers read it), `store` (operations without HTTP, under the
//! rules of `harbormaster-validation`), `apply` (server-side apply and field ownership), `server` (HTTP), `serve`
//! (sockets), `read` (lists and watches on the wire), `discovery` and `table` (other endpoints and formats that kubectl
//! needs).
//!
//! Each object is encoded once, when it is written; lists and watches send those bytes. Watchers have no queues: each
//! reads a shared, bounded history at its own pace, and is disconnected when it falls behind that history or stops
//! reading altogether.
//!
//! There are no controllers and no kubelets. The server itself does only three of their jobs: it removes the contents
//! of a deleted namespace, creates the `default` service account in each namespace, and establishes custom resource
//! definitions immediately and deletes their objects along with them. Protobuf responses, logs and exec are not
//! implemented, and requests for them are refused. Quotas and authorization are not implemented either: every
//! authenticated client may do everything.

mod apply;
mod certificate;
mod discovery;
mod extent;
mod forms;
mod kinds;
mod object;
mod openapi;
mod patch;
mod pods;
mod protobuf;
mod random;
mod read;
mod reply;
mod request;
mod reviews;
mod scale;
mod selector;
mod serve;
mod server;
mod shelf;
mod status;
mod store;
mod table;
mod time;
mod tokens;
mod watch;

pub use certificate::{Certificate, kubeconfig_yaml};
pub use object::StoredObject;
pub use serve::Running;
pub use server::ApiServer;
pub use status::Failure;
pub use store::Store;
pub use watch::{Event, EventType, Expired, Watch};

use harbormaster_api::{Release, features::Features};
use harbormaster_validation::{admission, ownership, schema, value};

/// Configuration of a server. The defaults suit tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bearer token that clients must present. If `None`, clients need no token.
    pub token: Option<String>,
    /// Number of changes to remember per resource. It limits how far a watcher may fall behind, and how old the
    /// resource version of a list may be.
    pub history: usize,
    /// Number of events to keep, at about 2 KiB each. A real cluster keeps the events of the last hour.
    pub events: usize,
    /// True if pods by default tolerate unready and unreachable nodes for 300 s, as with the DefaultTolerationSeconds
    /// admission plugin.
    pub default_tolerations: bool,
    /// True if new nodes are tainted as not ready, as with the TaintNodesByCondition admission plugin. A controller
    /// must then remove the taint.
    pub taint_new_nodes: bool,
    /// Reason given when requests that need a pod's containers are refused. Without a reason, only requests that a
    /// kubelet would have to answer are refused: logs, exec and the like. With a reason, debug containers are refused
    /// too.
    pub no_containers: Option<String>,
    /// Minor version of Kubernetes 1 that the server reports as its own. The version does not change what is served.
    pub minor_version: u32,
    /// Release and feature gates that determine which kinds are served, and by which rules. Pod groups and workloads
    /// are served by release 1.37 with the gate GenericWorkload.
    pub features: Features,
    /// Seed that makes generated names and UIDs the same in every run.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            history: 1 << 14,
            events: 200_000,
            default_tolerations: true,
            taint_new_nodes: false,
            no_containers: None,
            minor_version: Release::default().minor(),
            features: Features::default(),
            seed: None,
        }
    }
}

impl Options {
    /// Returns the full version that the server reports, for example `v1.36.1`.
    pub(crate) fn kubernetes_version(&self) -> String {
        let minor = self.minor_version;
        match Release::ALL.iter().find(|release| release.minor() == minor) {
            Some(release) => release.version().to_owned(),
            None => format!("v1.{minor}.0"),
        }
    }
}
