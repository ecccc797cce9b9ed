//! Checks of row-scoped plugins.

use std::{collections::HashMap, sync::Arc};

use harbormaster_framework::{cluster::Cluster, nodeset::NodeIdx, pod::PodInfo};

use super::{RowVerdict, failed, single_verdicts};
use crate::{trial::Trial, variants};

/// A plugin's answers for a pod: a verdict for each row, and raw scores in the order in which an attempt visits the
/// rows.
#[derive(Clone, Debug, PartialEq)]
struct Answers {
    verdicts: Option<Vec<RowVerdict>>,
    scores: Option<Vec<i64>>,
}

impl Answers {
    fn of(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Self {
        let verdicts = single_verdicts(trial, nodes, pod);
        Self { verdicts, scores: failed(trial, pod, trial.raw_scores(nodes, pod)) }
    }

    /// Returns the answers for all rows but one.
    fn without(&self, nodes: &Cluster, row: NodeIdx) -> Self {
        let verdicts = self.verdicts.clone();
        let in_order = |scores: &Vec<i64>| {
            scores.iter().zip(nodes.order()).filter(|(_, at)| **at != row).map(|(score, _)| *score).collect()
        };
        Self {
            verdicts: verdicts.map(|all| all.into_iter().filter(|(at, _)| *at != row).collect()),
            scores: self.scores.as_ref().map(in_order),
        }
    }
}

/// Checks that repeated calls to a plugin return the same answers, regardless of other calls in between. A plugin must
/// not use a clock or random numbers, or keep state between calls.
///
/// # Panics
/// If the check or the plugin fails.
pub fn answers_are_repeatable(trial: &Trial, nodes: &Cluster, pod: &PodInfo, meanwhile: &PodInfo) {
    let first = Answers::of(trial, nodes, pod);
    for other in [pod, meanwhile] {
        Answers::of(trial, nodes, other);
        let again = Answers::of(trial, nodes, pod);
        let name = trial.plugin().name();
        assert_eq!(again, first, "{name}: answers differently for {pod:?} when asked again");
    }
}

/// Checks that the answers of a [row-scoped](harbormaster_framework::scope::Row) plugin for a row do not change when
/// other rows change. Adds the pod `elsewhere` to each row in turn, and changes each field of each node.
///
/// # Panics
/// If the check or the plugin fails.
pub fn row_scope_holds(trial: &Trial, nodes: &mut Cluster, pod: &PodInfo, elsewhere: &Arc<PodInfo>) {
    let name = trial.plugin().name();
    answers_are_repeatable(trial, nodes, pod, elsewhere);
    let before = Answers::of(trial, nodes, pod);
    for row in nodes.live().clone().iter() {
        nodes.what_if().dry_run_add(row, elsewhere.clone());
        let now = Answers::of(trial, nodes, pod).without(nodes, row);
        nodes.what_if().dry_run_undo_add(row, &elsewhere.uid);
        let place = nodes.node(row).name();
        assert_eq!(
            now,
            before.without(nodes, row),
            "{name}: depends on other rows: {elsewhere:?} was added to {place}"
        );
    }
    for row in nodes.live().clone().iter() {
        let Some(node) = nodes.node(row).object().cloned() else { continue };
        for (field, changed) in variants::of_node(&node, trial.words()) {
            let before = Answers::of(trial, nodes, pod).without(nodes, row);
            nodes.set_node(Arc::new(changed));
            nodes.refresh();
            let now = Answers::of(trial, nodes, pod).without(nodes, row);
            nodes.set_node(node.clone());
            nodes.refresh();
            assert_eq!(now, before, "{name}: depends on other rows: {field} of {} changed", node.name);
        }
    }
}

/// Checks that a [row-scoped](harbormaster_framework::scope::Row) plugin gives equal answers for pods with equal
/// [reads](harbormaster_framework::plugin::Plugin::reads), because such pods share cached answers. Changes every spec
/// field of each of `pods`, and compares the pods with each other. Returns the number of pods that were compared
/// because their reads were equal.
///
/// # Panics
/// If the check or the plugin fails.
pub fn reads_are_complete(trial: &Trial, nodes: &Cluster, pods: &[Arc<PodInfo>]) -> usize {
    let name = trial.plugin().name();
    let mut known = HashMap::new();
    let mut compared = 0;
    for pod in pods {
        let reads = failed(trial, pod, trial.plugin().reads(pod));
        let answers = Answers::of(trial, nodes, pod);
        for (field, variant) in variants::of_spec(&pod.pod, trial.words()) {
            let variant = PodInfo::standalone(variant);
            if failed(trial, pod, trial.plugin().reads(&variant)) == reads {
                compared += 1;
                let other = Answers::of(trial, nodes, &variant);
                assert_eq!(
                    other, answers,
                    "{name}: answers depend on {field}, which `reads` omits, for {pod:?}"
                );
            }
        }
        match known.get(&reads) {
            None => {
                known.insert(reads, (pod, answers));
            }
            Some((first, expected)) => {
                compared += 1;
                assert_eq!(
                    answers, *expected,
                    "{name}: reads are equal for {first:?} and {pod:?}, but the answers differ"
                );
            }
        }
    }
    compared
}
