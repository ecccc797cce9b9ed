//! What every plugin must hold to, as checks that panic with the pod and node that break the rule.

use std::{collections::HashMap, fmt::Debug, ops::Range, sync::Arc};

use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_framework::{
    cluster::Cluster,
    cycle::Cycle,
    index::{ClusterView, Index, IndexKind, Indexes},
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
    pod::{PodInfo, SpecTable},
    points::Slot,
    scores::Scores,
};

use crate::{
    nodes::NodeBuilder,
    pods::PodBuilder,
    random::Dice,
    trial::{Trial, rejection},
};

/// A value that no plugin writes: shows which scores were written.
const UNTOUCHED: i64 = i64::MIN + 7;

/// Every batch method must give the answers of its single method, on all nodes, on any part of them and on several
/// parts one after another, and must not touch other rows.
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn batch_equals_single(trial: &Trial, nodes: &Cluster, pod: &PodInfo) {
    let every_other: NodeSet = nodes.live().iter().filter(|row| row.0.is_multiple_of(2)).collect();
    for rows in [nodes.live().clone(), every_other, NodeSet::default()] {
        for ranges in [1, 3].map(|parts| ranges(nodes.rows(), parts)) {
            if trial.plugin().points().contains(ExtensionPoint::Filter) {
                filter_batch_equals_single(trial, nodes, pod, &rows, &ranges);
            }
            if trial.plugin().points().contains(ExtensionPoint::Score) {
                score_batch_equals_single(trial, nodes, pod, &rows, &ranges);
            }
        }
    }
}

/// The table in as many ranges of rows, the last one first.
fn ranges(rows: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).rev().map(|at| rows * at / parts..rows * (at + 1) / parts).collect()
}

/// Those of `rows` that are in the range.
fn part(rows: &NodeSet, range: &Range<usize>) -> NodeSet {
    rows.iter().filter(|row| range.contains(&row.at())).collect()
}

fn failed<T>(trial: &Trial, pod: &PodInfo, result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|e| panic!("{} fails for {pod:?}: {e}", trial.plugin().name()))
}

/// What Filter says of one row.
type Judged = (NodeIdx, Result<(), Reject>);

/// PreFilter's state; `None` if it rejects the pod.
fn filter_state(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Option<Slot> {
    match trial.pre_filtered(nodes, pod) {
        Ok((_, slot)) => Some(slot),
        Err(stopped) => {
            rejection(stopped);
            None
        }
    }
}

fn single_verdicts(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Option<Vec<Judged>> {
    let (slot, indexes) = (filter_state(trial, nodes, pod)?, trial.indexes(nodes, pod));
    let ask = |row: NodeIdx| (row, trial.judge(nodes, &indexes, pod, &slot, row));
    Some(nodes.live().iter().map(ask).collect())
}

fn filter_batch_equals_single(
    trial: &Trial,
    nodes: &Cluster,
    pod: &PodInfo,
    rows: &NodeSet,
    ranges: &[Range<usize>],
) {
    let Some(single) = single_verdicts(trial, nodes, pod) else { return };
    let parts: Vec<NodeSet> = ranges.iter().map(|range| part(rows, range)).collect();
    let batch = trial.batch_verdicts_on_parts(nodes, pod, &parts);
    let batch = batch.unwrap_or_else(|stopped| panic!("{stopped:?}"));
    for ((row, one), (_, many)) in single.iter().zip(&batch) {
        let expected = if rows.contains(*row) { one } else { &Ok(()) };
        let name = nodes.node(*row).name();
        assert_eq!(
            many,
            expected,
            "{}: filter_batch for {pod:?} on {name}, asked in {} parts",
            trial.plugin().name(),
            ranges.len()
        );
    }
}

fn score_batch_equals_single(
    trial: &Trial,
    nodes: &Cluster,
    pod: &PodInfo,
    rows: &NodeSet,
    ranges: &[Range<usize>],
) {
    let indexes = trial.indexes(nodes, pod);
    let slot = failed(trial, pod, trial.pre_score(nodes, pod, rows));
    if slot.is_none() {
        return;
    }
    let cx = Cycle::with_indexes(nodes, &indexes, pod);
    let mut out = vec![UNTOUCHED; nodes.rows()];
    for range in ranges {
        let part = part(rows, range);
        let mut scores = Scores::new(&part, NodeIdx::from(range.start), &mut out[range.clone()]);
        failed(trial, pod, trial.plugin().score_batch(&cx, &slot, &mut scores));
    }
    for (at, many) in out.iter().enumerate() {
        let row = NodeIdx::from(at);
        let one = if rows.contains(row) {
            failed(trial, pod, trial.plugin().score(&cx, &slot, row))
        } else {
            UNTOUCHED
        };
        let name = nodes.node(row).name();
        assert_eq!(
            *many,
            one,
            "{}: score_batch for {pod:?} on {name}, asked in {} parts",
            trial.plugin().name(),
            ranges.len()
        );
    }
}

/// Adding a pod to a node and removing it again must leave every verdict as it was ("what if" questions rely on it).
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn adding_and_removing_is_neutral(
    trial: &Trial,
    nodes: &mut Cluster,
    pod: &PodInfo,
    other: &Arc<PodInfo>,
) {
    let indexes = trial.indexes(nodes, pod);
    let Some(before) = single_verdicts(trial, nodes, pod) else { return };
    let Some(mut slot) = filter_state(trial, nodes, pod) else { return };
    for (row, _) in &before {
        nodes.what_if().what_if_added(*row, other.clone());
        failed(
            trial,
            pod,
            trial.plugin().add_pod(&Cycle::with_indexes(nodes, &indexes, pod), &mut slot, other, *row),
        );
        nodes.what_if().end_what_if(*row, &other.uid);
        failed(
            trial,
            pod,
            trial.plugin().remove_pod(&Cycle::with_indexes(nodes, &indexes, pod), &mut slot, other, *row),
        );
    }
    for (row, verdict) in &before {
        let after = trial.judge(nodes, &indexes, pod, &slot, *row);
        assert_eq!(after, *verdict, "{}: {pod:?} after {other:?} came and went", trial.plugin().name());
    }
}

/// A plugin of [`harbormaster_framework::plugin::Scope::Row`] must answer alike for two pods of one spec, and must not
/// look at other rows: the verdicts and scores of `nodes` stay as they are when `elsewhere` is on some other row.
///
/// # Panics
/// When they do not, or when the plugin fails.
pub fn row_scope_holds(trial: &Trial, nodes: &mut Cluster, pod: &PodInfo, elsewhere: &Arc<PodInfo>) {
    let twin = {
        let mut twin = harbormaster_api::Pod::clone(&pod.pod);
        twin.uid = "uid-twin".into();
        twin.name = "twin".into();
        twin.namespace = "elsewhere".into();
        twin.labels = crate::pods::labels(&[("twin", "yes")]);
        PodInfo::standalone(twin)
    };
    let verdicts = single_verdicts(trial, nodes, pod);
    let scores = failed(trial, pod, trial.raw_scores(nodes, pod));
    assert_eq!(single_verdicts(trial, nodes, &twin), verdicts, "{}: twins differ", trial.plugin().name());
    assert_eq!(
        failed(trial, pod, trial.raw_scores(nodes, &twin)),
        scores,
        "{}: twins",
        trial.plugin().name()
    );
    for row in nodes.live().clone().iter() {
        nodes.what_if().what_if_added(row, elsewhere.clone());
        let now = single_verdicts(trial, nodes, pod);
        let scored = failed(trial, pod, trial.raw_scores(nodes, pod));
        nodes.what_if().end_what_if(row, &elsewhere.uid);
        let others = |all: &Option<Vec<Judged>>| {
            all.clone().map(|all| all.into_iter().filter(|(r, _)| *r != row).collect::<Vec<_>>())
        };
        assert_eq!(others(&now), others(&verdicts), "{}: looks at other rows", trial.plugin().name());
        let unmoved = |all: &Option<Vec<i64>>| {
            let in_order = all.iter().flatten().zip(nodes.order());
            in_order.filter(|(_, r)| **r != row).map(|(s, _)| *s).collect::<Vec<_>>()
        };
        assert_eq!(unmoved(&scored), unmoved(&scores), "{}: looks at other rows", trial.plugin().name());
    }
}

/// A plugin of [`harbormaster_framework::plugin::Scope::Row`] must answer alike for pods of which it
/// [reads](harbormaster_framework::plugin::Plugin::reads) the same: what it said of one is told of the others. Only pods that
/// differ in what it forgot to read show that it did. Returns how many pods read like an earlier one, and were compared
/// with it.
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn reads_are_complete(trial: &Trial, nodes: &Cluster, pods: &[Arc<PodInfo>]) -> usize {
    let name = trial.plugin().name();
    let mut known = HashMap::new();
    for pod in pods {
        let reads = failed(trial, pod, trial.plugin().reads(pod));
        let said = (single_verdicts(trial, nodes, pod), failed(trial, pod, trial.raw_scores(nodes, pod)));
        let (first, expected) = known.entry(reads).or_insert_with(|| (pod, said.clone()));
        assert_eq!(
            said, *expected,
            "{name}: reads the same of {first:?} and {pod:?}, and answers differently"
        );
    }
    pods.len() - known.len()
}

/// An index must equal one that is made anew, after any sequence of changes: pods that come and go, nodes that appear,
/// change and go (pods too). Tries a random one, the same for the same seed, of the nodes and pods that `node` and `pod` make of a name.
///
/// # Panics
/// When it does not, or when the index does.
pub fn index_equals_one_made_anew<I: Index + PartialEq + Debug>(
    seed: u64,
    node: impl Fn(&mut Dice, &str) -> NodeBuilder,
    pod: impl Fn(&mut Dice, &str) -> PodBuilder,
) {
    let kind = IndexKind::of::<I>();
    let (mut dice, mut cluster, mut specs) = (Dice::new(seed), Cluster::default(), SpecTable::default());
    let mut placed: Vec<(Str, String, Str)> = Vec::new();
    for step in 0..200 {
        if step == 20 {
            cluster.keep(kind);
        }
        let name = format!("n{}", dice.below(5));
        match dice.below(6) {
            0 => {
                cluster.set_node(node(&mut dice, &name).into());
            }
            1 => {
                cluster.remove_node(&name);
            }
            2 | 3 => {
                let pod_name = format!("p{step}");
                let pod = pod(&mut dice, &pod_name).on(&name).build();
                placed.push((name.as_str().into(), pod_name, pod.uid.clone()));
                cluster.add_pod(&name.into(), Arc::new(PodInfo::new(pod, &mut specs)));
            }
            _ if placed.is_empty() => {}
            4 => {
                let (node, name, uid) = &placed[dice.below(placed.len() as u64) as usize];
                let pod = pod(&mut dice, name).uid(uid).on(node).build();
                cluster.replace_pod(node, &Arc::new(PodInfo::new(pod, &mut specs)));
            }
            _ => {
                let (node, _, uid) = placed.swap_remove(dice.below(placed.len() as u64) as usize);
                cluster.remove_pod(&node, &uid);
            }
        }
        if let Some(trouble) = cluster.take_troubles().first() {
            panic!("seed {seed}, step {step}: {trouble}");
        }
        if step >= 20 {
            let mut anew = Indexes::default();
            let made = anew.add(kind, ClusterView { nodes: cluster.nodes(), objects: cluster.objects() });
            made.unwrap_or_else(|trouble| panic!("seed {seed}, step {step}: {trouble}"));
            let (kept, anew) = (cluster.indexes().get::<I>(), anew.get::<I>());
            assert_eq!(kept.ok(), anew.ok(), "kept, and made anew; seed {seed}, step {step}");
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::prelude::*;

    use super::*;
    use crate::{clusters::cluster, nodes::node, pods::pod};

    /// Breaks one rule at a time.
    #[derive(Clone, Copy, Default)]
    struct Broken {
        forgets_a_reject: bool,
        forgets_a_score: bool,
        goes_by_its_first_row: bool,
        reads_labels: bool,
        reads_nothing: bool,
        looks_around: bool,
        keeps_added_pods: bool,
    }

    impl Plugin for Broken {
        const NAME: &'static str = "Broken";
        const SCOPE: Scope = Scope::Row;
        type FilterState = usize;
        type ScoreState = ();
        fn points(points: &mut Points<Self>) {
            points.pre_filter().filter().score();
        }
        fn reads(&self, pod: &PodInfo, reads: &mut Reads) {
            reads.of(&(pod.priority() * i32::from(!self.reads_nothing)));
        }
    }

    impl PreFilter for Broken {
        fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<usize>, Stop> {
            Ok(PreFiltered::state(0))
        }
        fn add_pod(&self, _: &Cycle<'_>, state: &mut usize, _: &PodInfo, _: NodeRef<'_>) -> PluginResult<()> {
            *state += 1;
            Ok(())
        }
        fn remove_pod(
            &self,
            _: &Cycle<'_>,
            state: &mut usize,
            _: &PodInfo,
            _: NodeRef<'_>,
        ) -> PluginResult<()> {
            *state -= usize::from(!self.keeps_added_pods);
            Ok(())
        }
    }

    impl Filter for Broken {
        fn filter(&self, cx: &Cycle<'_>, added: &usize, node: NodeRef<'_>) -> Verdict {
            let pods: i64 = cx.nodes.columns().used_pods.iter().sum();
            let disturbed = (self.reads_labels && !cx.pod.labels.is_empty())
                || (self.looks_around && pods > 0)
                || cx.pod.priority() > 9
                || *added > 0;
            let rejected = disturbed || node.name() == "bad";
            if rejected { Err(Reject::evictable("bad").into()) } else { Ok(()) }
        }
        fn filter_batch(&self, cx: &Cycle<'_>, added: &usize, sweep: &mut Sweep<'_>) -> PluginResult<()> {
            let begins = sweep.rows().contains(NodeIdx(0)) || !self.goes_by_its_first_row;
            for row in sweep.rows().iter().filter(|_| begins && !self.forgets_a_reject) {
                if let Err(Stop::Reject(reject)) = self.filter(cx, added, cx.nodes.node(row)) {
                    sweep.reject(row, reject);
                }
            }
            Ok(())
        }
    }

    impl Score for Broken {
        fn score(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<i64> {
            Ok(1)
        }
        fn score_batch(&self, _: &Cycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
            let forgotten = usize::from(self.forgets_a_score);
            scores.iter_mut().skip(forgotten).for_each(|(_, score)| *score = 1);
            Ok(())
        }
    }

    fn check(plugin: Broken) {
        let trial = Trial::of(plugin);
        let mut nodes = cluster([node("good"), node("bad"), node("fine")], []);
        let (pod, other) = (pod("p").info(), pod("other").info());
        batch_equals_single(&trial, &nodes, &pod);
        row_scope_holds(&trial, &mut nodes, &pod, &other);
        adding_and_removing_is_neutral(&trial, &mut nodes, &pod, &other);
        let important = crate::pods::pod("important").priority(10).info();
        reads_are_complete(&trial, &nodes, &[pod, other, important]);
    }

    #[test]
    fn a_plugin_that_keeps_the_rules_passes() {
        check(Broken::default());
    }

    #[test]
    #[should_panic(expected = "Broken: filter_batch for PodInfo(default/p) on bad")]
    fn a_forgotten_rejection_is_found() {
        check(Broken { forgets_a_reject: true, ..Broken::default() });
    }

    #[test]
    #[should_panic(expected = "Broken: score_batch for PodInfo(default/p) on good")]
    fn a_forgotten_score_is_found() {
        check(Broken { forgets_a_score: true, ..Broken::default() });
    }

    #[test]
    #[should_panic(expected = "Broken: filter_batch for PodInfo(default/p) on bad, asked in 3 parts")]
    fn a_batch_that_counts_on_the_first_row_being_among_its_own_is_found() {
        check(Broken { goes_by_its_first_row: true, ..Broken::default() });
    }

    #[test]
    #[should_panic(expected = "Broken: twins differ")]
    fn a_row_plugin_that_reads_labels_is_found() {
        check(Broken { reads_labels: true, ..Broken::default() });
    }

    #[test]
    #[should_panic(expected = "Broken: looks at other rows")]
    fn a_row_plugin_that_looks_around_is_found() {
        check(Broken { looks_around: true, ..Broken::default() });
    }

    #[test]
    #[should_panic(expected = "Broken: reads the same of PodInfo(default/p) and PodInfo(default/important)")]
    fn a_field_that_a_row_plugin_forgot_to_read_is_found() {
        check(Broken { reads_nothing: true, ..Broken::default() });
    }

    /// How many pods are where; forgets that pods go, if it is told to.
    #[derive(Debug, Default, PartialEq)]
    struct Count<const FORGETS: bool>(std::collections::BTreeMap<NodeIdx, usize>);

    impl<const FORGETS: bool> Index for Count<FORGETS> {
        fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, _: &PodInfo) {
            *self.0.entry(row).or_default() += 1;
        }
        fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, _: &PodInfo) {
            let left = self.0.get(&row).map_or(0, |count| count - usize::from(!FORGETS));
            self.0.insert(row, left);
            self.0.retain(|_, count| *count > 0);
        }
    }

    #[test]
    fn an_index_that_keeps_up_passes() {
        (0..10)
            .for_each(|seed| index_equals_one_made_anew::<Count<false>>(seed, |_, n| node(n), |_, p| pod(p)));
    }

    #[test]
    #[should_panic(expected = "kept, and made anew; seed 0")]
    fn an_index_that_misses_a_change_is_found() {
        index_equals_one_made_anew::<Count<true>>(0, |_, n| node(n), |_, p| pod(p));
    }

    #[test]
    #[should_panic(expected = "after PodInfo(default/other) came and went")]
    fn a_pod_that_is_not_taken_back_is_found() {
        check(Broken { keeps_added_pods: true, ..Broken::default() });
    }
}
