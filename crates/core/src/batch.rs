//! Opportunistic batching (KEP-5598), for parity with kube-scheduler.
//!
//! After a pod was placed, the rest of its ranking is kept. If the next pod has the same signature and the chosen node
//! is now full for it, the next node of the ranking is taken without scoring again. Here this is no optimisation (what
//! does not change is not computed again anyway); it exists because the choice can differ from a fresh ranking.

use std::time::Duration;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{plugin::SignFragment, window::Ranking};

/// A ranking older than this is not used.
const MAX_AGE: Duration = Duration::from_millis(500);

/// What one profile keeps between attempts.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    kept: Option<Kept>,
    last_cycle: u64,
    last_node: Str,
    /// Why what was kept is of no use, if that is news; in kube-scheduler's words.
    flushed: Option<&'static str>,
}

#[derive(Debug)]
struct Kept {
    signature: Vec<SignFragment>,
    nodes: Vec<Str>,
    ranking: Ranking,
    since: Timestamp,
}

impl Batch {
    /// Why what was kept is of no use, if that was found since the last call.
    pub(crate) fn take_flushed(&mut self) -> Option<&'static str> {
        self.flushed.take()
    }

    /// The next node of the kept ranking, if it holds for this pod. `is_full` tells whether a node rejects the pod; `None` if it
    /// is gone.
    pub(crate) fn hint(
        &mut self,
        signature: Option<&[SignFragment]>,
        cycle: u64,
        now: Timestamp,
        is_full: impl FnOnce(&Str) -> Option<bool>,
    ) -> Option<Str> {
        let kept = self.kept.as_mut().filter(|kept| !kept.ranking.is_empty())?;
        self.flushed = if cycle != self.last_cycle + 1 {
            Some("pod_skipped")
        } else if signature != Some(kept.signature.as_slice()) {
            Some("pod_incompatible")
        } else if now.since(kept.since) > MAX_AGE {
            Some("expired")
        } else {
            match is_full(&self.last_node) {
                None => Some("node_missing"),
                Some(false) => Some("node_not_full"),
                Some(true) => None,
            }
        };
        if self.flushed.is_some() {
            return None;
        }
        kept.ranking.pop().and_then(|at| kept.nodes.get(at).cloned())
    }

    /// A node was chosen.
    pub(crate) fn chosen(
        &mut self,
        node: &Str,
        hint: Option<&Str>,
        signature: Option<Vec<SignFragment>>,
        ranking: Option<(Vec<Str>, Ranking)>,
        cycle: u64,
        now: Timestamp,
    ) {
        self.last_cycle = cycle;
        self.last_node = node.clone();
        if hint == Some(node) {
            return;
        }
        self.kept = match (signature, ranking) {
            (Some(signature), Some((nodes, ranking))) if !ranking.is_empty() => {
                Some(Kept { signature, nodes, ranking, since: now })
            }
            (_, Some((_, ranking))) if !ranking.is_empty() => {
                self.flushed = Some("pod_not_batchable");
                None
            }
            _ => {
                self.flushed = Some("empty_list");
                None
            }
        };
    }
}
