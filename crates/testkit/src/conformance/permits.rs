//! Checks of Permit.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use harbormaster_api::Str;
use harbormaster_framework::{
    cluster::Cluster,
    cycle::{Cycle, MAX_PERMIT_WAIT, WaitingPods},
    guard::Stopped,
    outcome::Permitted,
    pod::PodInfo,
};

use crate::trial::Trial;

/// Checks that all pods of a group are released once the last of them has a node, and that they are released again
/// after they time out and return. Repeats the check with several orders in which the pods get their nodes. `pods`
/// are all pods of the group with their nodes; the check assigns them one by one and removes them again. Waiting
/// times must be above zero and at most 15 minutes.
///
/// # Panics
/// If a pod still waits or is rejected, or the plugin fails.
pub fn permit_lets_all_go(trial: &Trial, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
    for first in 0..pods.len() {
        let mut order: Vec<_> = pods.to_vec();
        order.rotate_left(first);
        for order in [order.clone(), order.into_iter().rev().collect()] {
            let expected = WaitingRoom::new(trial).admit_all(nodes, &order);
            // All pods but the last arrive, time out and lose their nodes.
            let mut room = WaitingRoom::new(trial);
            room.permit_all(nodes, &order[..order.len() - 1]);
            remove_all(nodes, &order[..order.len() - 1]);
            let after_timeout = WaitingRoom::new(trial).admit_all(nodes, &order);
            assert_eq!(
                after_timeout,
                expected,
                "{}: answers differently for {order:?} when they return after a timeout",
                trial.plugin().name()
            );
        }
    }
}

fn remove_all(nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
    for (pod, node) in pods {
        nodes.remove_pod(node, &pod.uid);
    }
    nodes.refresh();
}

/// Waiting pods, and a log of their waits and releases.
struct WaitingRoom<'a> {
    trial: &'a Trial,
    waiting: BTreeMap<Str, (Arc<PodInfo>, Str)>,
    /// Log entries with the UIDs of the pods that the plugin held or released.
    log: Vec<String>,
}

impl<'a> WaitingRoom<'a> {
    fn new(trial: &'a Trial) -> Self {
        Self { trial, waiting: BTreeMap::new(), log: Vec::new() }
    }

    /// Assigns the pods in the given order, checks that all are released, and removes them from their nodes. Returns
    /// the log.
    fn admit_all(mut self, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) -> Vec<String> {
        self.permit_all(nodes, pods);
        let held: Vec<&str> = self.waiting.keys().map(Str::as_str).collect();
        let name = self.trial.plugin().name();
        assert!(held.is_empty(), "{name}: still holds {held:?} when all of {pods:?} have nodes");
        remove_all(nodes, pods);
        self.log
    }

    fn permit_all(&mut self, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
        for (pod, node) in pods {
            self.permit_one(nodes, pod, &Str::from(*node));
        }
    }

    fn permit_one(&mut self, nodes: &mut Cluster, pod: &Arc<PodInfo>, node: &Str) {
        nodes.add_pod(node, pod.assumed_on(node));
        nodes.refresh();
        let plugin = self.trial.plugin();
        let indexes = self.trial.indexes(nodes, pod);
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        let permitted = plugin.permit(&cx, node, self).unwrap_or_else(|stopped| match stopped {
            Stopped::Reject(name, reject) => {
                panic!("{name}: rejects {pod:?} of a complete group: {}", reject.message())
            }
            Stopped::Error(error) => panic!("{} fails for {pod:?}: {error}", plugin.name()),
        });
        if let Permitted::Wait(at_most) = permitted {
            let name = plugin.name();
            assert!(at_most > Duration::ZERO, "{name}: lets {pod:?} wait for zero time, which rejects it");
            assert!(
                at_most <= MAX_PERMIT_WAIT,
                "{name}: lets {pod:?} wait for {at_most:?}, more than the limit of {MAX_PERMIT_WAIT:?}"
            );
            self.log.push(format!("{} waits", pod.uid));
            self.waiting.insert(pod.uid.clone(), (pod.clone(), node.clone()));
        }
    }
}

impl WaitingPods for WaitingRoom<'_> {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.waiting.values().cloned().collect()
    }

    fn allow(&mut self, uid: &str, _: &'static str) {
        if self.waiting.remove(uid).is_some() {
            self.log.push(format!("{uid} goes"));
        }
    }

    fn reject(&mut self, uid: &str, _: &'static str, message: String) {
        let name = self.trial.plugin().name();
        assert!(
            !self.waiting.contains_key(uid),
            "{name}: rejects {uid}, which only waits for the others: {message}"
        );
    }

    fn activate(&mut self, _: &str, _: &str) {}
}
