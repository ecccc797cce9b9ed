//! What must not happen.

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Something that must not happen, and did.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Violation {
    /// The API server has answered more than one binding of a pod with success.
    #[error("pod {pod} was bound {times} times")]
    BoundTwice {
        /// Its name.
        pod: String,
        /// How often.
        times: usize,
    },
    /// A pod has changed its node.
    #[error("pod {pod} went from node {from} to {to:?}")]
    Moved {
        /// Its name.
        pod: String,
        /// Where it was.
        from: String,
        /// Where it is.
        to: String,
    },
    /// A pod was bound to a node that there is not.
    #[error("pod {pod} was bound to node {node}, which there is not")]
    NoSuchNode {
        /// Its name.
        pod: String,
        /// The node.
        node: String,
    },
    /// A node has more than it can hold.
    #[error("pod {pod} brought node {node} to {taken} {what} of {has}")]
    Overfull {
        /// The pod that was one too many.
        pod: String,
        /// The node.
        node: String,
        /// Of what there is too much.
        what: &'static str,
        /// How much its pods take.
        taken: u64,
        /// How much it has.
        has: u64,
    },
    /// A pod has no node although there was time and room.
    #[error("pod {pod} had no node after {seconds:.0} s")]
    LeftBehind {
        /// Its name.
        pod: String,
        /// How long it has waited.
        seconds: f64,
    },
    /// A replica has written something after another had the lease.
    #[error("{replica} wrote ({what}) at {at}, {seconds:.3} s after {leader} had the lease")]
    WroteWithoutLease {
        /// Who wrote.
        replica: String,
        /// What.
        what: String,
        /// When the API server received it.
        at: String,
        /// Who led.
        leader: String,
        /// How long it had led by then.
        seconds: f64,
    },
    /// A replica has written something before any had the lease.
    #[error("{replica} wrote ({what}) at {at}, before anybody had the lease")]
    WroteBeforeLease {
        /// Who wrote.
        replica: String,
        /// What.
        what: String,
        /// When the API server received it.
        at: String,
    },
    /// Nobody took over in time.
    #[error("after {killed} was killed at {at}, it took {}", took.map_or("for ever".to_owned(), |s| format!("{s:.1} s, more than {limit:.1} s, until another led")))]
    LateTakeOver {
        /// Who was killed.
        killed: String,
        /// When.
        at: String,
        /// How many seconds it took; `None` if nobody did.
        took: Option<f64>,
        /// How many it may take.
        limit: f64,
    },
    /// A replica has ended, and had no reason to.
    #[error("{replica} ended by itself ({how}):\n{log}")]
    Ended {
        /// Which.
        replica: String,
        /// Its exit status.
        how: String,
        /// The end of its log.
        log: String,
    },
    /// A replica's log tells of a panic.
    #[error("{replica} panicked: {line}")]
    Panicked {
        /// Which.
        replica: String,
        /// What its log says.
        line: String,
    },
}

impl Serialize for Violation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
