//! Violations of guarantees.

use serde::{Serialize, Serializer};
use thiserror::Error;

/// A violation of a guarantee.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Violation {
    /// The API server has accepted more than one binding of a pod.
    #[error("pod {pod} was bound {times} times")]
    BoundTwice {
        /// Name of the pod.
        pod: String,
        /// Number of bindings.
        times: usize,
    },
    /// A pod's node changed.
    #[error("pod {pod} moved from node {from} to {to:?}")]
    Moved {
        /// Name of the pod.
        pod: String,
        /// The old node.
        from: String,
        /// The new node.
        to: String,
    },
    /// A pod was bound to a node that does not exist.
    #[error("pod {pod} was bound to node {node}, which does not exist")]
    NoSuchNode {
        /// Name of the pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// Pods on a node requested more than its capacity.
    #[error("pod {pod} overcommitted node {node}: {used} of {capacity} {resource}")]
    Overcommitted {
        /// The pod that exceeded the capacity.
        pod: String,
        /// The node.
        node: String,
        /// The resource.
        resource: &'static str,
        /// Total requests of the node's pods.
        used: u64,
        /// Capacity of the node.
        capacity: u64,
    },
    /// A pod has no node, or got one too late, although there was time and capacity.
    #[error("pod {pod} had no node after {seconds:.0} s")]
    LeftBehind {
        /// Name of the pod.
        pod: String,
        /// Time that the pod has waited, in seconds.
        seconds: f64,
    },
    /// A replica wrote after another replica had acquired the lease.
    #[error("{replica} wrote ({what}) at {at}, {seconds:.3} s after {leader} acquired the lease")]
    WroteWithoutLease {
        /// Replica that wrote.
        replica: String,
        /// Verb and resource.
        what: String,
        /// Time at which the API server received the write.
        at: String,
        /// Replica that held the lease.
        leader: String,
        /// Seconds between the acquisition of the lease by that replica and the write.
        seconds: f64,
    },
    /// A replica wrote before any replica had acquired the lease.
    #[error("{replica} wrote ({what}) at {at}, before any replica acquired the lease")]
    WroteBeforeLease {
        /// Replica that wrote.
        replica: String,
        /// Verb and resource.
        what: String,
        /// Time at which the API server received the write.
        at: String,
    },
    /// No other replica led in time after a leader was killed.
    #[error("after {killed} was killed at {at}, {}", took.map_or("no other replica led".to_owned(), |s| format!("it took {s:.1} s until another led, more than {limit:.1} s")))]
    LateFailover {
        /// Replica that was killed.
        killed: String,
        /// Time at which the replica was killed.
        at: String,
        /// Seconds until another replica led; `None` if none did.
        took: Option<f64>,
        /// Time limit in seconds.
        limit: f64,
    },
    /// A replica exited for a reason other than a lost lease.
    #[error("{replica} exited unexpectedly ({how}):\n{log}")]
    Ended {
        /// Name of the replica.
        replica: String,
        /// Exit status.
        how: String,
        /// The end of its log.
        log: String,
    },
    /// A replica's log contains a panic.
    #[error("{replica} panicked: {line}")]
    Panicked {
        /// Name of the replica.
        replica: String,
        /// Line of its log.
        line: String,
    },
}

impl Serialize for Violation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
