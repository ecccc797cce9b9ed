//! Checks of plugins that judge rows: answers depend on nothing but the cluster.

use std::{collections::HashMap, sync::Arc};

use harbormaster_framework::{cluster::Cluster, nodeset::NodeIdx, pod::PodInfo};

use super::{Judged, failed, single_verdicts};
use crate::{trial::Trial, variants};

/// Answers of a plugin for a pod: a verdict for each row, and its raw scores in walking order.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    verdicts: Option<Vec<Judged>>,
    scores: Option<Vec<i64>>,
}

impl Said {
    fn of(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Self {
        let verdicts = single_verdicts(trial, nodes, pod);
        Self { verdicts, scores: failed(trial, pod, trial.raw_scores(nodes, pod)) }
    }

    /// The same without what is said of that row.
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

/// A plugin must say the same when it is asked again, whoever it was asked about meanwhile: no clock, no random numbers,
/// nothing kept in the plugin itself.
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn answers_are_repeatable(trial: &Trial, nodes: &Cluster, pod: &PodInfo, meanwhile: &PodInfo) {
    let first = Said::of(trial, nodes, pod);
    for other in [pod, meanwhile] {
        Said::of(trial, nodes, other);
        let again = Said::of(trial, nodes, pod);
        let name = trial.plugin().name();
        assert_eq!(again, first, "{name}: says something else of {pod:?} when it is asked again");
    }
}

/// A plugin that judges [rows](harbormaster_framework::scope::Row) must not look at other rows: what it says of a row
/// stays as it is when another one changes, in whatever field. The pod `elsewhere` comes to each row in turn, and each
/// node changes in one field after the other.
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn row_scope_holds(trial: &Trial, nodes: &mut Cluster, pod: &PodInfo, elsewhere: &Arc<PodInfo>) {
    let name = trial.plugin().name();
    answers_are_repeatable(trial, nodes, pod, elsewhere);
    let before = Said::of(trial, nodes, pod);
    for row in nodes.live().clone().iter() {
        nodes.what_if().dry_run_add(row, elsewhere.clone());
        let now = Said::of(trial, nodes, pod).without(nodes, row);
        nodes.what_if().dry_run_undo_add(row, &elsewhere.uid);
        let place = nodes.node(row).name();
        assert_eq!(
            now,
            before.without(nodes, row),
            "{name}: looks at other rows: {elsewhere:?} came to {place}"
        );
    }
    for row in nodes.live().clone().iter() {
        let Some(node) = nodes.node(row).object().cloned() else { continue };
        for (field, changed) in variants::of_node(&node, trial.words()) {
            let before = Said::of(trial, nodes, pod).without(nodes, row);
            nodes.set_node(Arc::new(changed));
            nodes.refresh();
            let now = Said::of(trial, nodes, pod).without(nodes, row);
            nodes.set_node(node.clone());
            nodes.refresh();
            assert_eq!(now, before, "{name}: looks at other rows: {field} of {} changed", node.name);
        }
    }
}

/// A plugin that judges [rows](harbormaster_framework::scope::Row) must answer alike for pods of which it
/// [reads](harbormaster_framework::plugin::Plugin::reads) the same: what it said of one is told of the others. Each of
/// `pods` is changed in one field of its spec after the other, and the pods are compared with each other. Returns how
/// many read like an earlier one, and were compared with it.
///
/// # Panics
/// When it does not, or when the plugin fails.
pub fn reads_are_complete(trial: &Trial, nodes: &Cluster, pods: &[Arc<PodInfo>]) -> usize {
    let name = trial.plugin().name();
    let mut known = HashMap::new();
    let mut alike = 0;
    for pod in pods {
        let reads = failed(trial, pod, trial.plugin().reads(pod));
        let said = Said::of(trial, nodes, pod);
        for (field, variant) in variants::of_spec(&pod.pod, trial.words()) {
            let variant = PodInfo::standalone(variant);
            if failed(trial, pod, trial.plugin().reads(&variant)) == reads {
                alike += 1;
                let other = Said::of(trial, nodes, &variant);
                assert_eq!(other, said, "{name}: answers go by {field}, which it does not read, for {pod:?}");
            }
        }
        match known.get(&reads) {
            None => {
                known.insert(reads, (pod, said));
            }
            Some((first, expected)) => {
                alike += 1;
                assert_eq!(
                    said, *expected,
                    "{name}: reads the same of {first:?} and {pod:?}, and answers differently"
                );
            }
        }
    }
    alike
}
