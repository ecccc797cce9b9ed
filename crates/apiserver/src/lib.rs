//! A Kubernetes API server in memory: for trying Harbormaster with kubectl and no cluster, as a test double, and for
//! benchmarks.
//!
//! Reading order: `kinds` (what is served: the table of `harbormaster-validation`, and definitions), `object` and `shelf`
//! (what is stored, and how watchers read it), `store` (what requests do; its rules are those of `harbormaster-validation`),
//! `apply` (server-side apply, and who wrote what), `server` (HTTP), `serve` (sockets), `read` (lists and watches on the
//! wire), `discovery` and `table` (what kubectl needs besides).
//!
//! An object is encoded once, when it is written; lists and watches send those bytes. Watchers have no queues: each
//! reads one bounded history at its own pace, and is cut when it falls behind it, or does not read at all.
//!
//! There are no controllers and no kubelets, with these exceptions: deleting a namespace removes what is in it, each
//! namespace has a service account `default`, definitions of custom resources are established at once, and take their
//! objects with them. What is not there says so: answers in protobuf, logs and exec, quotas, authorization.

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
pub use discovery::VERSION;
pub use object::StoredObject;
pub use serve::Running;
pub use server::ApiServer;
pub use status::Failure;
pub use store::Store;
pub use watch::{Event, EventType, Expired, Watch};

use harbormaster_validation::{admission, ownership, schema, value};

/// How a server behaves. The defaults suit tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token that clients must have; without one everybody may do everything.
    pub token: Option<String>,
    /// How many changes of each resource are remembered: how far a watcher may fall behind, and how old the version of
    /// a list may be.
    pub history: usize,
    /// How many events are kept, of about 2 KiB each; a cluster keeps those of an hour.
    pub events: usize,
    /// Pods tolerate nodes that are not ready or unreachable for 300 s, as the admission plugin DefaultTolerationSeconds
    /// sees to.
    pub default_tolerations: bool,
    /// New nodes are tainted as not ready, as the admission plugin TaintNodesByCondition sees to. Something must then
    /// remove the taint.
    pub taint_new_nodes: bool,
    /// Why requests are refused that need the containers of a pod, by default those that only kubelets could answer:
    /// logs, exec and the like. With a reason debug containers are refused as well.
    pub no_containers: Option<String>,
    /// Makes generated names and identities the same in every run.
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
            seed: None,
        }
    }
}
