//! One plugin, asked directly.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{
    cluster::Cluster,
    cycle::Cycle,
    events::{Change, ClusterEvent, Hint},
    index::{Indexes, Known},
    nodeset::{NodeIdx, NodeSet},
    outcome::{Normalize, PluginResult, Reject, Verdict},
    plugin::{ErasedPlugin, Plugin, PreFilterAnswer, Scope, Slot},
    pod::PodInfo,
    points::install,
    sweep::{PluginIdx, Sweep, Verdicts},
};

/// A plugin on its own. Every question runs what comes before it: Filter after PreFilter, Score after PreScore.
#[derive(Clone)]
pub struct Trial {
    plugin: Arc<dyn ErasedPlugin>,
}

impl Trial {
    /// Tries that plugin.
    pub fn of<P: Plugin>(plugin: P) -> Self {
        Self { plugin: install(plugin) }
    }

    /// Tries a plugin that a registry made.
    pub fn of_made(plugin: Arc<dyn ErasedPlugin>) -> Self {
        Self { plugin }
    }

    /// The plugin, its type erased.
    pub fn plugin(&self) -> &Arc<dyn ErasedPlugin> {
        &self.plugin
    }

    /// The plugin's index, made anew from the cluster and ready for questions about the pod.
    ///
    /// # Panics
    /// When the plugin fails.
    pub fn indexes(&self, nodes: &Cluster, pod: &PodInfo) -> Indexes {
        let mut indexes = Indexes::default();
        if let Some(kind) = self.plugin.index() {
            let known = Known { nodes: nodes.nodes(), objects: nodes.objects() };
            indexes.add(kind, known);
            let prepared = self.plugin.prepare(&mut indexes, known, pod);
            prepared.unwrap_or_else(|e| panic!("{}: {e}", self.plugin.name()));
        }
        indexes
    }

    /// What PreFilter says.
    ///
    /// # Errors
    /// As the plugin fails.
    pub fn pre_filter(&self, nodes: &Cluster, pod: &PodInfo) -> PluginResult<PreFilterAnswer> {
        Ok(self.pre_filtered(nodes, pod)?.0)
    }

    pub(crate) fn pre_filtered(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
    ) -> PluginResult<(PreFilterAnswer, Slot)> {
        let mut slot = self.plugin.default_filter_slot();
        if !self.plugin.implements(ExtensionPoint::PreFilter) {
            return Ok((PreFilterAnswer::Continue(None), slot));
        }
        let answer =
            self.plugin.pre_filter(&Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod), &mut slot)?;
        Ok((answer, slot))
    }

    /// The verdict on one node, PreFilter included.
    ///
    /// # Errors
    /// As the plugin fails.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn verdict(&self, nodes: &Cluster, pod: &PodInfo, node: &str) -> PluginResult<Verdict> {
        let row = nodes.find(node).unwrap_or_else(|| panic!("no node {node:?}"));
        let (answer, slot) = self.pre_filtered(nodes, pod)?;
        match answer {
            PreFilterAnswer::Reject(reject) => Ok(Err(reject)),
            PreFilterAnswer::Continue(Some(only)) if !only.contains(row) => {
                Ok(Err(Reject::unresolvable("outside of PreFilter's nodes")))
            }
            _ => self.plugin.filter(&Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod), &slot, row),
        }
    }

    /// The verdicts on `rows` by the batch method.
    ///
    /// # Errors
    /// As the plugin fails.
    pub fn batch_verdicts(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
        rows: &NodeSet,
    ) -> PluginResult<Vec<(NodeIdx, Verdict)>> {
        let (_, slot) = self.pre_filtered(nodes, pod)?;
        let mut verdicts = Verdicts::default();
        verdicts.resize(nodes.rows());
        let mut fits = rows.clone();
        let mut sweep = Sweep::new(PluginIdx(0), rows, &mut fits, &mut verdicts);
        self.plugin.filter_batch(
            &Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod),
            &slot,
            &mut sweep,
        )?;
        let verdict = |row: NodeIdx| match verdicts.get(row) {
            Some((_, reject)) => Err(reject.clone()),
            None => Ok(()),
        };
        for row in rows {
            assert_eq!(fits.contains(row), verdict(row).is_ok(), "the sweep is at odds with itself");
        }
        Ok(nodes.live().iter().map(|row| (row, verdict(row))).collect())
    }

    /// The state that PreScore makes for these candidates.
    ///
    /// # Errors
    /// As the plugin fails.
    pub fn pre_score(&self, nodes: &Cluster, pod: &PodInfo, candidates: &NodeSet) -> PluginResult<Slot> {
        let mut slot = self.plugin.default_score_slot();
        if self.plugin.implements(ExtensionPoint::PreScore) {
            let none = NodeSet::default();
            let shown = if self.plugin.scope() == Scope::Row { &none } else { candidates };
            self.plugin.pre_score(
                &Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod),
                shown,
                &mut slot,
            )?;
        }
        Ok(slot)
    }

    /// The raw scores of all nodes in walking order; `None` when PreScore skips.
    ///
    /// # Errors
    /// As the plugin fails.
    pub fn raw_scores(&self, nodes: &Cluster, pod: &PodInfo) -> PluginResult<Option<Vec<i64>>> {
        let slot = self.pre_score(nodes, pod, nodes.live())?;
        if slot.is_none() {
            return Ok(None);
        }
        let indexes = self.indexes(nodes, pod);
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        nodes
            .order()
            .iter()
            .map(|row| self.plugin.score(&cx, &slot, *row))
            .collect::<PluginResult<_>>()
            .map(Some)
    }

    /// The normalised scores of all nodes in walking order; `None` when PreScore skips.
    ///
    /// # Errors
    /// As the plugin fails.
    pub fn scores(&self, nodes: &Cluster, pod: &PodInfo) -> PluginResult<Option<Vec<i64>>> {
        let Some(mut scores) = self.raw_scores(nodes, pod)? else { return Ok(None) };
        match self.plugin.normalization() {
            Normalize::AsIs => {}
            Normalize::Proportional { reverse } => {
                let max = scores.iter().copied().max().unwrap_or(0).max(0);
                let share = |raw: i64| if max == 0 { raw } else { 100 * raw / max };
                scores.iter_mut().for_each(|s| *s = if reverse { 100 - share(*s) } else { share(*s) });
            }
            Normalize::Custom => {
                let slot = self.pre_score(nodes, pod, nodes.live())?;
                let mut column = vec![0; nodes.rows()];
                nodes.order().iter().zip(&scores).for_each(|(row, s)| column[row.at()] = *s);
                self.plugin.normalize(
                    &Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod),
                    &slot,
                    nodes.live(),
                    &mut column,
                )?;
                scores = nodes.order().iter().map(|row| column[row.at()]).collect();
            }
        }
        Ok(Some(scores))
    }

    /// Whether the plugin wants the pod to be tried again after that event: as the queue decides it, but for this
    /// plugin alone. `None` when the plugin does not listen.
    pub fn hint(&self, event: ClusterEvent, pod: &PodInfo, change: &Change<'_>) -> Option<Hint> {
        let heard: Vec<_> =
            self.plugin.clone().events()?.into_iter().filter(|r| r.event.hears(event)).collect();
        if heard.is_empty() {
            return None;
        }
        let queues = heard.iter().any(|r| match &r.hint {
            None => true,
            Some(hint) => !matches!(hint(pod, change), Ok(Hint::Skip)),
        });
        Some(if queues { Hint::Queue } else { Hint::Skip })
    }
}

/// The result of a future that never waits for anything outside, as plugins' futures are in tests.
///
/// # Panics
/// When the future does wait.
pub fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("the future waits for something"),
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::prelude::*;

    use super::*;
    use crate::{clusters::cluster, nodes::node, pods::pod};

    /// How many pods are known, and of which pod it was asked last.
    #[derive(Default)]
    struct Census {
        pods: usize,
        asked_for: String,
    }

    impl Index for Census {
        fn pod_joined(&mut self, _: Known<'_>, _: NodeIdx, _: &PodInfo) {
            self.pods += 1;
        }
    }

    struct Counting;

    impl Plugin for Counting {
        const NAME: &'static str = "Counting";
        type FilterState = ();
        type ScoreState = ();
        fn points(points: &mut Points<Self>) {
            points.filter().indexed();
        }
    }

    impl Indexed for Counting {
        type Index = Census;
        fn prepare(&self, index: &mut Census, _: Known<'_>, pod: &PodInfo) {
            index.asked_for = pod.name.to_string();
        }
    }

    impl Filter for Counting {
        fn filter(&self, cx: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<Verdict> {
            let census: &Census = cx.index()?;
            Ok(Err(Reject::evictable(format!("{} pods before {}", census.pods, census.asked_for))))
        }
    }

    #[test]
    fn a_plugin_with_an_index_finds_it_made_of_the_cluster_and_ready_for_the_pod() {
        let trial = Trial::of(Counting);
        let nodes = cluster([node("n")], [pod("a").on("n"), pod("b").on("n")]);
        let verdict = trial.verdict(&nodes, &pod("p").info(), "n").expect("no plugin fails");
        assert_eq!(verdict, Err(Reject::evictable("2 pods before p")));
        assert!(nodes.indexes().get::<Census>().is_err(), "the cluster itself keeps none");
    }
}
