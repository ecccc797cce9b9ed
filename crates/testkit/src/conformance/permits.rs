//! Permit lets go whom it holds.

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

/// Pods that go together must all go once the last of them has its node, in whatever order they come, and must do so
/// again after they gave up waiting and came back. `pods` are all of such a group, with the nodes that they go to; they
/// are let onto their nodes one by one, and off again. A wait must have an end that counts: more than nothing, at most
/// 15 minutes. The plugin speaks in its own name.
///
/// # Panics
/// When one still waits, is rejected, or when the plugin fails.
pub fn permit_lets_all_go(trial: &Trial, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
    for first in 0..pods.len() {
        let mut order: Vec<_> = pods.to_vec();
        order.rotate_left(first);
        for order in [order.clone(), order.into_iter().rev().collect()] {
            let expected = Room::new(trial).let_in(nodes, &order);
            // All but the last come, wait for as long as they may, and give up.
            let mut room = Room::new(trial);
            room.ask_all(nodes, &order[..order.len() - 1]);
            leave(nodes, &order[..order.len() - 1]);
            let again = Room::new(trial).let_in(nodes, &order);
            assert_eq!(
                again,
                expected,
                "{}: says something else of {order:?} when they come back after a time-out",
                trial.plugin().name()
            );
        }
    }
}

fn leave(nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
    for (pod, node) in pods {
        nodes.remove_pod(node, &pod.uid);
    }
    nodes.refresh();
}

/// The pods that wait, and what is said of them.
struct Room<'a> {
    trial: &'a Trial,
    waiting: BTreeMap<Str, (Arc<PodInfo>, Str)>,
    /// Whom the plugin held, and whom it let go while others were asked about, by UID.
    said: Vec<String>,
}

impl<'a> Room<'a> {
    fn new(trial: &'a Trial) -> Self {
        Self { trial, waiting: BTreeMap::new(), said: Vec::new() }
    }

    /// Lets the pods come in that order, all of whom must go then, and takes them off their nodes again.
    fn let_in(mut self, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) -> Vec<String> {
        self.ask_all(nodes, pods);
        let held: Vec<&str> = self.waiting.keys().map(Str::as_str).collect();
        let name = self.trial.plugin().name();
        assert!(held.is_empty(), "{name}: still holds {held:?} when {pods:?} all have their nodes");
        leave(nodes, pods);
        self.said
    }

    fn ask_all(&mut self, nodes: &mut Cluster, pods: &[(Arc<PodInfo>, &str)]) {
        for (pod, node) in pods {
            self.ask(nodes, pod, &Str::from(*node));
        }
    }

    fn ask(&mut self, nodes: &mut Cluster, pod: &Arc<PodInfo>, node: &Str) {
        nodes.add_pod(node, pod.assumed_on(node));
        nodes.refresh();
        let plugin = self.trial.plugin();
        let indexes = self.trial.indexes(nodes, pod);
        let cx = Cycle::with_indexes(nodes, &indexes, pod);
        let permitted = plugin.permit(&cx, node, self).unwrap_or_else(|stopped| match stopped {
            Stopped::Reject(name, reject) => {
                panic!("{name}: rejects {pod:?} of a group that is complete: {}", reject.message())
            }
            Stopped::Error(error) => panic!("{} fails for {pod:?}: {error}", plugin.name()),
        });
        if let Permitted::Wait(at_most) = permitted {
            let name = plugin.name();
            assert!(at_most > Duration::ZERO, "{name}: has {pod:?} wait for no time, which is to reject it");
            assert!(
                at_most <= MAX_PERMIT_WAIT,
                "{name}: has {pod:?} wait for {at_most:?}, of which {MAX_PERMIT_WAIT:?} count"
            );
            self.said.push(format!("{} waits", pod.uid));
            self.waiting.insert(pod.uid.clone(), (pod.clone(), node.clone()));
        }
    }

    fn speaks(&self, plugin: &str, about: &str) {
        let name = self.trial.plugin().name();
        assert!(
            plugin == name,
            "{name}: speaks of {about} in the name of {plugin:?}, which does not hold it"
        );
    }
}

impl WaitingPods for Room<'_> {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.waiting.values().cloned().collect()
    }

    fn allow(&mut self, uid: &str, plugin: &'static str) {
        self.speaks(plugin, uid);
        if self.waiting.remove(uid).is_some() {
            self.said.push(format!("{uid} goes"));
        }
    }

    fn reject(&mut self, uid: &str, plugin: &'static str, message: String) {
        self.speaks(plugin, uid);
        let name = self.trial.plugin().name();
        assert!(
            !self.waiting.contains_key(uid),
            "{name}: rejects {uid}, which only waits for the others: {message}"
        );
    }

    fn activate(&mut self, _: &str, _: &str) {}
}
