//! Runs a single plugin.

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{
    api_call::{Api, ApiCall},
    assume::Assume,
    attempt::{AttemptError, valid},
    cluster::Cluster,
    cycle::{BindCycle, Cycle, Placement, Reservation},
    events::{Action, Change, ClusterEvent, EventResource, Hint, HintCycle},
    fetch::Web,
    guard::{GuardedPlugin, PointError, Stopped},
    index::{ClusterView, Indexes},
    nodeset::{NodeIdx, NodeSet},
    normalize::normalize,
    objects::Objects,
    outcome::{PreFiltered, Reject},
    plugin::{Plugin, Queued, Rank, Scope, Turn, TurnCycle},
    pod::PodInfo,
    points::Slot,
    resource::{Custom, RawObject, Resource},
    sweep::{PluginIdx, Sweep, Verdicts},
};

use crate::words::Words;

/// A single plugin. Public methods that run Filter run PreFilter first, and those that run Score run PreScore first.
#[derive(Clone)]
pub struct Trial {
    plugin: GuardedPlugin,
    words: Words,
}

impl Trial {
    /// Returns a trial of the plugin.
    ///
    /// # Panics
    /// If a scheduler would reject the plugin, for example because it registers for an event that never happens.
    pub fn of<P: Plugin>(plugin: P) -> Self {
        Self::of_made(GuardedPlugin::new(plugin))
    }

    /// Returns a trial of a plugin that a registry built.
    ///
    /// # Panics
    /// Like [`Self::of`].
    pub fn of_made(plugin: GuardedPlugin) -> Self {
        plugin.check().unwrap_or_else(|e| panic!("{e}"));
        Self { plugin, words: Words::default() }
    }

    /// Adds names and values that the plugin reads, so that the checks vary them.
    #[must_use]
    pub fn knowing(self, words: Words) -> Self {
        Self { words, ..self }
    }

    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// Returns the type-erased plugin.
    pub fn plugin(&self) -> &GuardedPlugin {
        &self.plugin
    }

    /// Returns the plugin's index, rebuilt from the cluster and prepared for the pod.
    ///
    /// # Panics
    /// If the plugin fails.
    pub fn indexes(&self, nodes: &Cluster, pod: &PodInfo) -> Indexes {
        let mut indexes = Indexes::default();
        if let Some(kind) = self.plugin.index() {
            let view = ClusterView { nodes: nodes.nodes(), objects: nodes.objects() };
            let prepared =
                indexes.add(kind, view).and_then(|()| self.plugin.prepare(&mut indexes, view, pod));
            prepared.unwrap_or_else(|e| panic!("{e}"));
        }
        indexes
    }

    /// Runs PreFilter.
    ///
    /// # Errors
    /// If the plugin rejects the pod or fails.
    pub fn pre_filter(&self, nodes: &Cluster, pod: &PodInfo) -> Result<PreFiltered<()>, Stopped> {
        Ok(self.pre_filtered(nodes, pod)?.0)
    }

    pub(crate) fn pre_filtered(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
    ) -> Result<(PreFiltered<()>, Slot), Stopped> {
        let mut slot = self.plugin.default_filter_slot();
        if !self.plugin.points().contains(ExtensionPoint::PreFilter) {
            return Ok((PreFiltered::state(()), slot));
        }
        let answer =
            self.plugin.pre_filter(&Cycle::with_indexes(nodes, &self.indexes(nodes, pod), pod), &mut slot)?;
        Ok((answer, slot))
    }

    /// Runs PreFilter, then Filter for every node. Returns the state, or `None` if there is no state, or if PreFilter
    /// rejects the pod or fails.
    fn filtered(&self, nodes: &Cluster, pod: &PodInfo) -> Slot {
        let Ok((_, slot)) = self.pre_filtered(nodes, pod) else { return None };
        let indexes = self.indexes(nodes, pod);
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        for row in nodes.order() {
            // Only the state matters here.
            let _ = self.plugin.filter(&cx, &slot, *row);
        }
        slot
    }

    /// Reserves the node for the pod, after PreFilter and Filter. Afterwards, `nodes` contains the assumed changes.
    ///
    /// # Errors
    /// If the plugin rejects the pod or fails.
    ///
    /// # Panics
    /// If the node does not exist.
    pub fn reserve(&self, nodes: &mut Cluster, pod: &Arc<PodInfo>, node: &str) -> Result<Placement, Stopped> {
        let row = nodes.find(node).unwrap_or_else(|| panic!("no node {node:?}"));
        let slot = self.filtered(nodes, pod);
        let indexes = self.indexes(nodes, pod);
        let mut assume = Assume::by(self.plugin.name());
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        let made = self.plugin.reserve(&cx, &slot, row, &mut assume)?;
        nodes.assume(&pod.uid, assume)?;
        let mut reservation = Reservation::new(pod.clone(), node.into());
        reservation.set(PluginIdx(0), made);
        Ok(reservation.of(PluginIdx(0)))
    }

    /// Runs Unreserve and reverts the assumed changes. Returns the plugin's API calls.
    ///
    /// # Panics
    /// If the plugin panics.
    pub fn unreserve(&self, nodes: &mut Cluster, placement: &Placement) -> Vec<ApiCall> {
        let mut calls = Vec::new();
        self.plugin.unreserve(placement, &mut calls).unwrap_or_else(|e| panic!("{e}"));
        nodes.revert_assumptions(&placement.pod.uid);
        calls
    }

    /// Runs PreBind.
    ///
    /// # Errors
    /// If the plugin rejects the pod or fails.
    pub async fn pre_bind(&self, placement: &Placement, api: &Api) -> Result<(), Stopped> {
        self.plugin.pre_bind(&BindCycle { placement: placement.clone(), api: api.clone() }).await
    }

    /// Runs PostBind.
    ///
    /// # Panics
    /// If the plugin panics.
    pub async fn post_bind(&self, placement: &Placement, api: &Api) {
        let cx = BindCycle { placement: placement.clone(), api: api.clone() };
        self.plugin.post_bind(&cx).await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Runs PreFilter, then Filter for one node.
    ///
    /// # Errors
    /// If the plugin rejects the node or the pod; the error is the rejection.
    ///
    /// # Panics
    /// If the node does not exist, or the plugin fails.
    pub fn verdict(&self, nodes: &Cluster, pod: &PodInfo, node: &str) -> Result<(), Reject> {
        let row = nodes.find(node).unwrap_or_else(|| panic!("no node {node:?}"));
        let (answer, slot) = self.pre_filtered(nodes, pod).map_err(rejection)?;
        match answer {
            PreFiltered::Continue { only: Some(only), .. } if !only.contains(row) => {
                Err(Reject::unresolvable("not among PreFilter's nodes"))
            }
            _ => self.judge(nodes, &self.indexes(nodes, pod), pod, &slot, row),
        }
    }

    /// Returns the verdict that one node would get if some pods were removed. `gone` lists these pods, each as a
    /// node name and a pod name. Restores the cluster afterwards.
    ///
    /// # Errors
    /// If the plugin rejects the node or the pod; the error is the rejection.
    ///
    /// # Panics
    /// If a node or pod does not exist, PreFilter skips the pod, or the plugin fails.
    pub fn verdict_without(
        &self,
        nodes: &mut Cluster,
        pod: &PodInfo,
        node: &str,
        gone: &[(&str, &str)],
    ) -> Result<(), Reject> {
        let row = nodes.find(node).unwrap_or_else(|| panic!("no node {node:?}"));
        let indexes = self.indexes(nodes, pod);
        let (_, mut slot) = self.pre_filtered(nodes, pod).map_err(rejection)?;
        let mut before = Vec::new();
        for (from, name) in gone {
            let from = nodes.find(from).unwrap_or_else(|| panic!("no node {from:?}"));
            let pods = nodes.node(from).pods();
            let victim = pods.iter().find(|pod| pod.name == *name).cloned();
            let victim = victim.unwrap_or_else(|| panic!("no pod {name:?} on that node"));
            before.push((from, victim.clone(), pods.to_vec()));
            nodes.what_if().dry_run_remove(from, &victim.uid);
            let cx = Cycle::with_indexes(nodes, &indexes, pod);
            self.plugin.remove_pod(&cx, &mut slot, &victim, from).unwrap_or_else(|e| panic!("{e}"));
        }
        let verdict = self.judge(nodes, &indexes, pod, &slot, row);
        for (from, victim, pods) in before.into_iter().rev() {
            nodes.what_if().dry_run_add(from, victim);
            nodes.what_if().dry_run_end(from, pods);
        }
        verdict
    }

    /// Runs Filter for one row.
    pub(crate) fn judge(
        &self,
        nodes: &Cluster,
        indexes: &Indexes,
        pod: &PodInfo,
        slot: &Slot,
        row: NodeIdx,
    ) -> Result<(), Reject> {
        self.plugin.filter(&Cycle::with_indexes(nodes, indexes, pod), slot, row).map_err(rejection)
    }

    /// Runs the batch method for `rows`. Returns the verdicts of all nodes; nodes that are not in `rows` fit.
    ///
    /// # Errors
    /// If PreFilter rejects the pod, or the plugin fails.
    pub fn batch_verdicts(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
        rows: &NodeSet,
    ) -> Result<Vec<(NodeIdx, Result<(), Reject>)>, Stopped> {
        self.batch_verdicts_on_parts(nodes, pod, std::slice::from_ref(rows))
    }

    /// Like [`Self::batch_verdicts`], but runs the batch method once for each of several subsets of the rows.
    pub(crate) fn batch_verdicts_on_parts(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
        parts: &[NodeSet],
    ) -> Result<Vec<(NodeIdx, Result<(), Reject>)>, Stopped> {
        let (_, slot) = self.pre_filtered(nodes, pod)?;
        let indexes = self.indexes(nodes, pod);
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        let mut verdicts = Verdicts::default();
        let mut rows = NodeSet::empty(nodes.rows());
        parts.iter().for_each(|part| rows.unite(part));
        let mut fits = rows.clone();
        for part in parts {
            let mut sweep = Sweep::new(PluginIdx(0), part, &mut fits, &mut verdicts);
            self.plugin.filter_batch(&cx, &slot, &mut sweep)?;
        }
        let verdict = |row: NodeIdx| match verdicts.get(row) {
            Some((_, reject)) => Err(reject.clone()),
            None => Ok(()),
        };
        for row in &rows {
            assert_eq!(fits.contains(row), verdict(row).is_ok(), "the sweep is inconsistent");
        }
        Ok(nodes.live().iter().map(|row| (row, verdict(row))).collect())
    }

    /// Runs PreScore for the given candidates.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn pre_score(
        &self,
        nodes: &Cluster,
        pod: &PodInfo,
        candidates: &NodeSet,
    ) -> Result<Slot, PointError> {
        let mut slot = self.plugin.default_score_slot();
        if self.plugin.points().contains(ExtensionPoint::PreScore) {
            let none = NodeSet::default();
            let shown = if self.plugin.scope() == Scope::Row { &none } else { candidates };
            let indexes = self.indexes(nodes, pod);
            let cx = Cycle::with_indexes(nodes, &indexes, pod);
            self.plugin.pre_score(&cx, &self.filtered(nodes, pod), shown, &mut slot)?;
        }
        Ok(slot)
    }

    /// Returns the raw scores of all nodes, in the order in which an attempt visits them, or `None` if PreScore skips
    /// the pod.
    ///
    /// # Errors
    /// If the plugin fails.
    pub fn raw_scores(&self, nodes: &Cluster, pod: &PodInfo) -> Result<Option<Vec<i64>>, PointError> {
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
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Returns the normalized scores of all nodes, in the order in which an attempt visits them, or `None` if PreScore
    /// skips the pod.
    ///
    /// # Errors
    /// If the plugin fails or returns a score outside 0..=100, either of which ends an attempt.
    pub fn scores(&self, nodes: &Cluster, pod: &PodInfo) -> Result<Option<Vec<i64>>, AttemptError> {
        let Some(scores) = self.raw_scores(nodes, pod)? else { return Ok(None) };
        let slot = self.pre_score(nodes, pod, nodes.live())?;
        let mut column = vec![0; nodes.rows()];
        nodes.order().iter().zip(&scores).for_each(|(row, score)| column[row.at()] = *score);
        let (indexes, all) = (self.indexes(nodes, pod), nodes.live());
        normalize(&self.plugin, &Cycle::with_indexes(nodes, &indexes, pod), &slot, all, &mut column)?;
        let scores = nodes.order().iter().map(|row| valid(self.plugin.name(), column[row.at()]));
        scores.collect::<Result<_, _>>().map(Some)
    }

    /// Returns the plugin's rank of a pod in the queue.
    ///
    /// # Panics
    /// If the plugin panics.
    pub fn rank(&self, nodes: &Cluster, queued: Queued<'_>) -> Rank {
        self.plugin.rank(queued, nodes.objects()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns when the pods of a namespace have their turn.
    ///
    /// # Panics
    /// If the plugin or its index fails.
    pub fn turn(&self, nodes: &mut Cluster, namespace: &str) -> Turn {
        self.plugin.index().into_iter().for_each(|kind| nodes.add_index(kind));
        self.plugin.turn(namespace, TurnCycle::new(nodes)).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Fetches the plugin's object.
    ///
    /// # Errors
    /// If fetching fails.
    ///
    /// # Panics
    /// If the plugin fetches nothing.
    pub async fn fetch(&self, web: &Web) -> Result<RawObject, PointError> {
        let source = self.plugin.source().unwrap_or_else(|e| panic!("{e}"));
        source.unwrap_or_else(|| panic!("the plugin fetches nothing")).fetch(web, 1).await
    }

    /// Returns whether the plugin would requeue the pod after an event, or `None` if it does not register for the
    /// event. The answer is the one that the queue would get for a pod that only this plugin rejected.
    pub fn hint(&self, event: ClusterEvent, pod: &PodInfo, change: &Change<'_>) -> Option<Hint> {
        self.hint_with_objects(&Objects::default(), event, pod, change)
    }

    /// Like [`Self::hint`], for a plugin whose hints read other objects.
    pub fn hint_with_objects(
        &self,
        objects: &Objects,
        event: ClusterEvent,
        pod: &PodInfo,
        change: &Change<'_>,
    ) -> Option<Hint> {
        let events = self.plugin.events().unwrap_or_else(|e| panic!("{e}"));
        let heard: Vec<_> = events?.into_iter().filter(|r| r.event.matches(event)).collect();
        if heard.is_empty() {
            return None;
        }
        let queues = heard.iter().any(|r| match &r.hint {
            None => true,
            Some(hint) => {
                !matches!(self.plugin.hint(hint, HintCycle { pod, objects }, change), Ok(Hint::Skip))
            }
        });
        Some(if queues { Hint::Queue } else { Hint::Skip })
    }

    /// Like [`Self::hint`], for a custom object that is created, changed or deleted.
    ///
    /// # Panics
    /// If the object exists neither before nor after the change.
    pub fn custom_hint<R: Resource>(
        &self,
        pod: &PodInfo,
        old: Option<&Custom<R>>,
        new: Option<&Custom<R>>,
    ) -> Option<Hint> {
        let action = match (old, new) {
            (None, Some(_)) => Action::ADD,
            (Some(_), Some(_)) => Action::UPDATE,
            (Some(_), None) => Action::DELETE,
            (None, None) => panic!("no {} before or after the change", R::KIND),
        };
        self.hint(ClusterEvent::new(EventResource::of::<R>(), action), pod, &Change::custom(old, new))
    }
}

/// Returns the plugin's rejection.
///
/// # Panics
/// If the plugin failed instead of rejecting the pod.
pub fn rejection(stopped: Stopped) -> Reject {
    match stopped {
        Stopped::Reject(_, reject) => reject,
        Stopped::Error(error) => panic!("{error}"),
    }
}

/// Returns the result of a future that is ready immediately, as plugins' futures are in tests.
///
/// # Panics
/// If the future is pending.
pub fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("the future is pending"),
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::prelude::*;

    use super::*;
    use crate::{clusters::cluster, nodes::node, pods::pod};

    /// Number of pods, and the pod for which the index was last prepared.
    #[derive(Default)]
    struct Census {
        pods: usize,
        asked_for: String,
    }

    impl Index for Census {
        fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, _: &PodInfo) {
            self.pods += 1;
        }
    }

    struct Counting;

    impl Plugin for Counting {
        const NAME: &'static str = "Counting";
        implemented_points!();
    }

    impl Indexed for Counting {
        type Index = Census;
        fn prepare(&self, index: &mut Census, _: ClusterView<'_>, pod: &PodInfo) {
            index.asked_for = pod.name.to_string();
        }
    }

    impl Filter for Counting {
        fn filter(&self, cx: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
            let census: &Census = self.index(cx)?;
            Err(Reject::evictable(format!("{} pods before {}", census.pods, census.asked_for)).into())
        }
    }

    #[test]
    fn the_index_of_a_plugin_is_built_from_the_cluster_and_prepared_for_the_pod() {
        let trial = Trial::of(Counting);
        let nodes = cluster([node("n")], [pod("a").on("n"), pod("b").on("n")]);
        let verdict = trial.verdict(&nodes, &pod("p").info(), "n");
        assert_eq!(verdict, Err(Reject::evictable("2 pods before p")));
        assert!(nodes.indexes().get::<Census>().is_err(), "the cluster itself keeps no index");
    }
}
