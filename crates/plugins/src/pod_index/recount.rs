//! Compares the index with a recount of the cluster. Slow; for tests and debugging.

use std::collections::BTreeMap;

use harbormaster_framework::prelude::*;

use super::{PodIndex, RowCounts, held_terms::HeldTerms};

type Rows = BTreeMap<NodeIdx, i64>;

impl PodIndex {
    /// Recounts every pod of every row and compares the result with the index.
    ///
    /// # Errors
    /// If they differ. The error names the selector, term or topology key.
    pub fn check(&self, known: ClusterView<'_>) -> Result<(), String> {
        self.groups.check(known.objects, pods(known))?;
        self.selectors.check()?;
        self.held.check()?;
        for (selector, kept) in self.selectors.iter() {
            let matches = |pod: &PodInfo| {
                let counts = !selector.live_only || !pod.is_terminating();
                counts && selector.all_of.iter().all(|term| term.matches_pod(known.objects, &pod.pod))
            };
            same(kept, &recount(known, |pod| i64::from(matches(pod))), || format!("pods of {selector:?}"))?;
        }
        let mut rebuilt = HeldTerms::default();
        for (row, pod) in pods(known) {
            rebuilt.joined(row, pod);
        }
        for term in rebuilt.iter() {
            let Some(kept) = self.held.iter().find(|kept| kept.term == term.term) else {
                return Err(format!("missing term {:?}", term.term));
            };
            let lists = [(&kept.anti, &term.anti), (&kept.affinity, &term.affinity)];
            for (kept, counted) in lists.into_iter().chain([(&kept.preferred, &term.preferred)]) {
                same(kept, &counted.iter().collect(), || format!("holders of {:?}", term.term))?;
            }
        }
        let (held, counted) = (self.held.iter().count(), rebuilt.iter().count());
        if held != counted {
            return Err(format!("the index has {held} terms, the cluster {counted}"));
        }
        self.topology.check_held(self.held.iter().map(|held| held.key()))?;
        self.topology.check(known.nodes)
    }
}

fn pods(known: ClusterView<'_>) -> impl Iterator<Item = (NodeIdx, &PodInfo)> {
    let rows = (0..known.nodes.rows()).map(NodeIdx::from);
    rows.flat_map(move |row| known.nodes.node(row).pods().iter().map(move |pod| (row, &**pod)))
}

fn recount(known: ClusterView<'_>, count: impl Fn(&PodInfo) -> i64) -> Rows {
    let mut rows = Rows::new();
    for (row, pod) in pods(known) {
        match count(pod) {
            0 => {}
            n => *rows.entry(row).or_default() += n,
        }
    }
    rows
}

fn same(kept: &RowCounts, counted: &Rows, what: impl Fn() -> String) -> Result<(), String> {
    let kept: Rows = kept.iter().collect();
    if kept == *counted { Ok(()) } else { Err(format!("{}: recorded {kept:?}, counted {counted:?}", what())) }
}
