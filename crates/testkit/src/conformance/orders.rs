//! Checks of QueueSort plugins.

use std::sync::Arc;

use harbormaster_api::Timestamp;
use harbormaster_framework::{cluster::Cluster, plugin::Queued, pod::PodInfo};

use crate::trial::Trial;

/// Checks that `less` orders pods, each with the time at which it entered the queue: no pod comes before itself,
/// no two pods come before each other, and if one pod comes before a second one, then every third pod comes after the
/// first one or before the second one. In another order, the pod that the queue tries first depends on how the pods
/// arrived.
///
/// # Panics
/// If the check or the plugin fails.
pub fn order_is_strict(trial: &Trial, nodes: &Cluster, pods: &[(Arc<PodInfo>, Timestamp)]) {
    let name = trial.plugin().name();
    let queued: Vec<Queued<'_>> = pods
        .iter()
        .map(|(pod, since)| Queued::pod(pod, *since))
        .map(|queued| queued.ranked(trial.rank(nodes, queued)))
        .collect();
    let is_before = |a: &Queued<'_>, b: &Queued<'_>| {
        trial.plugin().less(*a, *b).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let before: Vec<Vec<bool>> =
        queued.iter().map(|a| queued.iter().map(|b| is_before(a, b)).collect()).collect();
    for (first, row) in before.iter().enumerate() {
        assert!(!row[first], "{name}: puts {:?} before itself", pods[first].0);
        for second in (0..pods.len()).filter(|second| row[*second]) {
            assert!(
                !before[second][first],
                "{name}: puts {:?} and {:?} before each other",
                pods[first].0, pods[second].0
            );
            let third = (0..pods.len()).find(|third| !row[*third] && !before[*third][second]);
            assert!(
                third.is_none(),
                "{name}: puts {:?} before {:?}, and {:?} neither after the first nor before the second",
                pods[first].0,
                pods[second].0,
                third.map(|third| &pods[third].0)
            );
        }
    }
}
