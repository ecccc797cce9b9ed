//! Opportunistic batching (KEP-5598), for parity with kube-scheduler.
//!
//! After a pod is placed, the rest of its node ranking is cached. If the next pod has the same signature but does not
//! fit on the node that was just chosen, the next node in the ranking is tried first. If the pod fits there, that
//! node is taken without scoring. Batching does not save time here, because unchanged answers are cached anyway. It
//! is implemented only because it can choose a different node than a new ranking would.

use std::time::Duration;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{plugin::SignFragment, window::Ranking};

/// Maximum age of a cached ranking.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Opportunistic batching for one profile.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    cached: Option<CachedRanking>,
    last_cycle: u64,
    last_node: Str,
    /// Reason for discarding the cached ranking, in kube-scheduler's words; `None` once it has been taken.
    flush_reason: Option<&'static str>,
}

#[derive(Debug)]
struct CachedRanking {
    signature: Vec<SignFragment>,
    nodes: Vec<Str>,
    ranking: Ranking,
    since: Timestamp,
}

impl Batch {
    /// Takes the reason for discarding the cached ranking, if it was discarded since the last call.
    pub(crate) fn take_flush_reason(&mut self) -> Option<&'static str> {
        self.flush_reason.take()
    }

    /// Returns the next node of the cached ranking if the ranking is valid for the pod. `is_full` returns
    /// `Some(true)` if the given node rejects the pod, and `None` if that node no longer exists.
    pub(crate) fn hint(
        &mut self,
        signature: Option<&[SignFragment]>,
        cycle: u64,
        now: Timestamp,
        is_full: impl FnOnce(&Str) -> Option<bool>,
    ) -> Option<Str> {
        let cached = self.cached.as_mut().filter(|cached| !cached.ranking.is_empty())?;
        // Members of a group share a cycle.
        self.flush_reason = if !(self.last_cycle..=self.last_cycle + 1).contains(&cycle) {
            Some("pod_skipped")
        } else if signature != Some(cached.signature.as_slice()) {
            Some("pod_incompatible")
        } else if now.since(cached.since) > MAX_AGE {
            Some("expired")
        } else {
            match is_full(&self.last_node) {
                None => Some("node_missing"),
                Some(false) => Some("node_not_full"),
                Some(true) => None,
            }
        };
        if self.flush_reason.is_some() {
            return None;
        }
        cached.ranking.pop().and_then(|at| cached.nodes.get(at).cloned())
    }

    /// Records the chosen node. Unless the node came from the cached ranking, the new ranking replaces the cached one;
    /// if the new ranking cannot be cached, nothing is cached.
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
        self.cached = match (signature, ranking) {
            (Some(signature), Some((nodes, ranking))) if !ranking.is_empty() => {
                Some(CachedRanking { signature, nodes, ranking, since: now })
            }
            (_, Some((_, ranking))) if !ranking.is_empty() => {
                self.flush_reason = Some("pod_not_batchable");
                None
            }
            _ => {
                self.flush_reason = Some("empty_list");
                None
            }
        };
    }
}
