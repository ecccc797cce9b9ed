//! Tracks pods and the resources of nodes, to detect a pod that moves and a node that is overcommitted.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::history::{Change, Pod};
use super::violation::Violation;

/// Capacity of a node, or the resources that its pods use: CPU in thousandths, memory in MiB, and the number of pods.
pub(super) type Resources = [u64; 3];

const RESOURCES: [&str; 3] = ["cpu (m)", "memory (Mi)", "pods"];

/// All pods and nodes. Pod changes come from etcd's history, in order.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    nodes: HashMap<String, Node>,
    pods: HashMap<String, PodEntry>,
    /// Pods in the order of their bindings; some may already be deleted.
    bound: VecDeque<String>,
    pub(super) counts: Counts,
    /// Time that each bound pod waited for its node.
    pub(super) waits: Vec<Duration>,
    /// The pod that waited longest.
    pub(super) longest: Option<(String, Duration)>,
    pub(super) violations: Vec<Violation>,
}

/// Numbers of pods in various states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) created: usize,
    pub(super) bound: usize,
    pub(super) deleted: usize,
    /// Current number of pods without a node.
    pub(super) pending: usize,
    /// Current number of pods with a node.
    pub(super) placed: usize,
    /// Number of pods with a node that are being deleted.
    deleting: usize,
    /// Highest utilization of any resource on any node so far, in thousandths of its capacity.
    pub(super) fullest: u64,
}

#[derive(Debug)]
struct Node {
    capacity: Resources,
    used: Resources,
}

#[derive(Debug)]
struct PodEntry {
    pod: Pod,
    created: Instant,
    deleting: bool,
}

impl Ledger {
    /// Creates a ledger for nodes, each given by its name and capacity.
    pub(super) fn new(nodes: impl Iterator<Item = (String, Resources)>) -> Self {
        let nodes =
            nodes.map(|(name, capacity)| (name, Node { capacity, used: Resources::default() })).collect();
        Self { nodes, ..Self::default() }
    }

    /// Applies the next change, which arrived at `at`.
    pub(super) fn apply(&mut self, change: Change, at: Instant) {
        match change {
            Change::Put(pod) => self.put(pod, at),
            Change::Deleted(name) => self.delete(&name),
        }
    }

    fn put(&mut self, pod: Pod, at: Instant) {
        let entry = self.pods.entry(pod.name.clone()).or_insert_with(|| {
            self.counts.created += 1;
            self.counts.pending += 1;
            PodEntry { pod: Pod { node: None, ..pod.clone() }, created: at, deleting: false }
        });
        if entry.pod.node == pod.node {
            return;
        }
        if let Some(from) = entry.pod.node.clone() {
            let to = pod.node.unwrap_or_default();
            self.violations.push(Violation::Moved { pod: pod.name, from, to });
            return;
        }
        let waited = at.saturating_duration_since(entry.created);
        self.waits.push(waited);
        if self.longest.as_ref().is_none_or(|(_, longest)| *longest < waited) {
            self.longest = Some((pod.name.clone(), waited));
        }
        entry.pod.node.clone_from(&pod.node);
        self.counts.bound += 1;
        self.counts.pending -= 1;
        self.counts.placed += 1;
        self.bound.push_back(pod.name.clone());
        self.add_to_node(&pod);
    }

    /// Adds the pod's requests to its node.
    fn add_to_node(&mut self, pod: &Pod) {
        let name = pod.node.clone().unwrap_or_default();
        let Some(node) = self.nodes.get_mut(&name) else {
            self.violations.push(Violation::NoSuchNode { pod: pod.name.clone(), node: name });
            return;
        };
        for (index, requested) in requests(pod).into_iter().enumerate() {
            node.used[index] += requested;
            let (used, capacity) = (node.used[index], node.capacity[index]);
            self.counts.fullest = self.counts.fullest.max(used * 1000 / capacity.max(1));
            if used > capacity {
                let (pod, node, resource) = (pod.name.clone(), name.clone(), RESOURCES[index]);
                self.violations.push(Violation::Overcommitted { pod, node, resource, used, capacity });
            }
        }
    }

    fn delete(&mut self, name: &str) {
        let Some(PodEntry { pod, deleting, .. }) = self.pods.remove(name) else { return };
        self.counts.deleted += 1;
        let Some(node) = &pod.node else {
            self.counts.pending -= 1;
            return;
        };
        self.counts.placed -= 1;
        self.counts.deleting -= usize::from(deleting);
        if let Some(node) = self.nodes.get_mut(node) {
            for (used, requested) in node.used.iter_mut().zip(requests(&pod)) {
                *used -= requested;
            }
        }
    }

    /// Removes the longest-bound pod from the queue of bound pods and returns its name, so that the caller can delete
    /// it. Returns `None` unless more than `most` pods have a node and are not being deleted.
    pub(super) fn oldest_beyond(&mut self, most: usize) -> Option<String> {
        while self.counts.placed - self.counts.deleting > most {
            let oldest = self.bound.pop_front()?;
            if let Some(entry) = self.pods.get_mut(&oldest) {
                entry.deleting = true;
                self.counts.deleting += 1;
                return Some(oldest);
            }
        }
        None
    }

    /// Pods without a node, each with the time that it has waited.
    pub(super) fn waiting(&self, now: Instant) -> impl Iterator<Item = (&str, Duration)> {
        let without = self.pods.iter().filter(|(_, entry)| entry.pod.node.is_none());
        without.map(move |(name, entry)| (name.as_str(), now.saturating_duration_since(entry.created)))
    }
}

fn requests(pod: &Pod) -> Resources {
    [pod.cpu, pod.memory, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: Option<&str>) -> Change {
        Change::Put(Pod { name: name.to_owned(), node: node.map(str::to_owned), cpu: 100, memory: 64 })
    }

    fn ledger_after(changes: &[Change]) -> Ledger {
        let nodes = [("a".to_owned(), [250, 1000, 10]), ("b".to_owned(), [1000, 1000, 1])];
        let mut ledger = Ledger::new(nodes.into_iter());
        for change in changes {
            ledger.apply(change.clone(), Instant::now());
        }
        ledger
    }

    fn deleted(name: &str) -> Change {
        Change::Deleted(name.to_owned())
    }

    #[test]
    fn pods_that_are_created_bound_and_deleted_leave_nothing_behind() {
        let ledger = ledger_after(&[
            pod("p", None),
            pod("p", Some("a")),
            pod("p", Some("a")),
            pod("q", None),
            deleted("p"),
            deleted("q"),
        ]);
        assert_eq!(ledger.violations, []);
        let Counts { created, bound, deleted, pending, placed, fullest, .. } = ledger.counts;
        assert_eq!((created, bound, deleted, pending, placed, fullest), (2, 1, 2, 0, 0, 400));
        assert_eq!(ledger.nodes["a"].used, [0, 0, 0]);
    }

    #[test]
    fn an_overcommitted_node_is_reported() {
        let names = ["p", "q", "r"];
        let fill =
            |node| names.iter().flat_map(move |n| [pod(n, None), pod(n, Some(node))]).collect::<Vec<_>>();
        let overcommitted = |node: &str, pod: &str, resource, used, capacity| Violation::Overcommitted {
            pod: pod.to_owned(),
            node: node.to_owned(),
            resource,
            used,
            capacity,
        };
        assert_eq!(ledger_after(&fill("a")).violations, [overcommitted("a", "r", "cpu (m)", 300, 250)]);
        assert_eq!(
            ledger_after(&fill("b")).violations,
            [overcommitted("b", "q", "pods", 2, 1), overcommitted("b", "r", "pods", 3, 1)]
        );
        // Each pod is deleted before the next one is bound.
        let in_turn =
            [pod("p", None), pod("p", Some("b")), deleted("p"), pod("q", None), pod("q", Some("b"))];
        assert_eq!(ledger_after(&in_turn).violations, []);
    }

    #[test]
    fn a_pod_that_moves_or_has_an_unknown_node_is_reported() {
        let moved = ledger_after(&[pod("p", None), pod("p", Some("a")), pod("p", Some("b"))]);
        assert!(matches!(moved.violations[..], [Violation::Moved { .. }]), "{:?}", moved.violations);
        let nowhere = ledger_after(&[pod("p", None), pod("p", Some("c"))]);
        assert!(matches!(nowhere.violations[..], [Violation::NoSuchNode { .. }]), "{:?}", nowhere.violations);
    }

    #[test]
    fn the_longest_bound_pod_is_chosen_for_deletion_and_no_longer_counted() {
        let mut ledger = ledger_after(&[
            pod("p", None),
            pod("q", None),
            pod("q", Some("a")),
            pod("p", Some("a")),
            pod("r", None),
        ]);
        assert_eq!(ledger.oldest_beyond(1).as_deref(), Some("q"));
        assert_eq!(ledger.oldest_beyond(1), None);
        ledger.apply(deleted("q"), Instant::now());
        assert_eq!(ledger.oldest_beyond(1), None);
        assert_eq!(ledger.waiting(Instant::now()).map(|(name, _)| name).collect::<Vec<_>>(), ["r"]);
    }
}
