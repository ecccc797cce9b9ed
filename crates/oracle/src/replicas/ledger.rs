//! Which pods are where, and what must never be: a pod that moves, or a node with more than it can hold.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::history::{Change, Pod};
use super::violation::Violation;

/// What a node has, or what its pods take: CPU in thousandths, memory in MiB, pods.
pub(super) type Room = [u64; 3];

const RESOURCES: [&str; 3] = ["cpu (m)", "memory (Mi)", "pods"];

/// All pods and nodes. What it knows of pods comes from etcd's history, in its order.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    nodes: HashMap<String, Node>,
    pods: HashMap<String, Entry>,
    /// Pods with a node, in the order of their bindings; some may be gone.
    bound: VecDeque<String>,
    pub(super) numbers: Numbers,
    /// How long pods waited for their node.
    pub(super) waits: Vec<Duration>,
    /// Who waited for longest.
    pub(super) longest: Option<(String, Duration)>,
    pub(super) violations: Vec<Violation>,
}

/// How many pods there are and were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) created: usize,
    pub(super) bound: usize,
    pub(super) gone: usize,
    /// Pods without a node now.
    pub(super) pending: usize,
    /// Pods with a node now.
    pub(super) placed: usize,
    /// Of these, those that are being deleted.
    leaving: usize,
    /// The most that a node ever had of something, in thousandths of what it can hold.
    pub(super) fullest: u64,
}

#[derive(Debug)]
struct Node {
    has: Room,
    taken: Room,
}

#[derive(Debug)]
struct Entry {
    pod: Pod,
    created: Instant,
    leaving: bool,
}

impl Ledger {
    /// Nodes by name, with what they have.
    pub(super) fn new(nodes: impl Iterator<Item = (String, Room)>) -> Self {
        let nodes = nodes.map(|(name, has)| (name, Node { has, taken: Room::default() })).collect();
        Self { nodes, ..Self::default() }
    }

    /// What happened next, and when it was heard of.
    pub(super) fn note(&mut self, change: Change, at: Instant) {
        match change {
            Change::Put(pod) => self.put(pod, at),
            Change::Gone(name) => self.gone(&name),
        }
    }

    fn put(&mut self, pod: Pod, at: Instant) {
        let entry = self.pods.entry(pod.name.clone()).or_insert_with(|| {
            self.numbers.created += 1;
            self.numbers.pending += 1;
            Entry { pod: Pod { node: None, ..pod.clone() }, created: at, leaving: false }
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
        self.numbers.bound += 1;
        self.numbers.pending -= 1;
        self.numbers.placed += 1;
        self.bound.push_back(pod.name.clone());
        self.take(&pod);
    }

    /// The pod has come to its node.
    fn take(&mut self, pod: &Pod) {
        let name = pod.node.clone().unwrap_or_default();
        let Some(node) = self.nodes.get_mut(&name) else {
            self.violations.push(Violation::NoSuchNode { pod: pod.name.clone(), node: name });
            return;
        };
        for (index, wanted) in wants(pod).into_iter().enumerate() {
            node.taken[index] += wanted;
            let (taken, has) = (node.taken[index], node.has[index]);
            self.numbers.fullest = self.numbers.fullest.max(taken * 1000 / has.max(1));
            if taken > has {
                let (pod, node, what) = (pod.name.clone(), name.clone(), RESOURCES[index]);
                self.violations.push(Violation::Overfull { pod, node, what, taken, has });
            }
        }
    }

    fn gone(&mut self, name: &str) {
        let Some(Entry { pod, leaving, .. }) = self.pods.remove(name) else { return };
        self.numbers.gone += 1;
        let Some(node) = &pod.node else {
            self.numbers.pending -= 1;
            return;
        };
        self.numbers.placed -= 1;
        self.numbers.leaving -= usize::from(leaving);
        if let Some(node) = self.nodes.get_mut(node) {
            for (taken, wanted) in node.taken.iter_mut().zip(wants(&pod)) {
                *taken -= wanted;
            }
        }
    }

    /// The pod that has had its node for longest, to be deleted; `None` if no more than `most` would stay.
    pub(super) fn oldest_beyond(&mut self, most: usize) -> Option<String> {
        while self.numbers.placed - self.numbers.leaving > most {
            let oldest = self.bound.pop_front()?;
            if let Some(entry) = self.pods.get_mut(&oldest) {
                entry.leaving = true;
                self.numbers.leaving += 1;
                return Some(oldest);
            }
        }
        None
    }

    /// Pods that are without a node, with how long they have been.
    pub(super) fn waiting(&self, now: Instant) -> impl Iterator<Item = (&str, Duration)> {
        let without = self.pods.iter().filter(|(_, entry)| entry.pod.node.is_none());
        without.map(move |(name, entry)| (name.as_str(), now.saturating_duration_since(entry.created)))
    }
}

fn wants(pod: &Pod) -> Room {
    [pod.cpu, pod.memory, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: Option<&str>) -> Change {
        Change::Put(Pod { name: name.to_owned(), node: node.map(str::to_owned), cpu: 100, memory: 64 })
    }

    fn played(changes: &[Change]) -> Ledger {
        let nodes = [("a".to_owned(), [250, 1000, 10]), ("b".to_owned(), [1000, 1000, 1])];
        let mut ledger = Ledger::new(nodes.into_iter());
        for change in changes {
            ledger.note(change.clone(), Instant::now());
        }
        ledger
    }

    fn gone(name: &str) -> Change {
        Change::Gone(name.to_owned())
    }

    #[test]
    fn pods_that_come_are_bound_and_go_leave_nothing() {
        let ledger = played(&[
            pod("p", None),
            pod("p", Some("a")),
            pod("p", Some("a")),
            pod("q", None),
            gone("p"),
            gone("q"),
        ]);
        assert_eq!(ledger.violations, []);
        let Numbers { created, bound, gone, pending, placed, fullest, .. } = ledger.numbers;
        assert_eq!((created, bound, gone, pending, placed, fullest), (2, 1, 2, 0, 0, 400));
        assert_eq!(ledger.nodes["a"].taken, [0, 0, 0]);
    }

    #[test]
    fn a_node_with_too_much_of_anything_is_named() {
        let names = ["p", "q", "r"];
        let fill =
            |node| names.iter().flat_map(move |n| [pod(n, None), pod(n, Some(node))]).collect::<Vec<_>>();
        let overfull = |node: &str, pod: &str, what, taken, has| Violation::Overfull {
            pod: pod.to_owned(),
            node: node.to_owned(),
            what,
            taken,
            has,
        };
        assert_eq!(played(&fill("a")).violations, [overfull("a", "r", "cpu (m)", 300, 250)]);
        assert_eq!(
            played(&fill("b")).violations,
            [overfull("b", "q", "pods", 2, 1), overfull("b", "r", "pods", 3, 1)]
        );
        // One goes before the next comes.
        let in_turn = [pod("p", None), pod("p", Some("b")), gone("p"), pod("q", None), pod("q", Some("b"))];
        assert_eq!(played(&in_turn).violations, []);
    }

    #[test]
    fn a_pod_that_moves_or_goes_nowhere_is_named() {
        let moved = played(&[pod("p", None), pod("p", Some("a")), pod("p", Some("b"))]);
        assert!(matches!(moved.violations[..], [Violation::Moved { .. }]), "{:?}", moved.violations);
        let nowhere = played(&[pod("p", None), pod("p", Some("c"))]);
        assert!(matches!(nowhere.violations[..], [Violation::NoSuchNode { .. }]), "{:?}", nowhere.violations);
    }

    #[test]
    fn the_oldest_are_deleted_and_counted_as_gone_at_once() {
        let mut ledger = played(&[
            pod("p", None),
            pod("q", None),
            pod("q", Some("a")),
            pod("p", Some("a")),
            pod("r", None),
        ]);
        assert_eq!(ledger.oldest_beyond(1).as_deref(), Some("q"));
        assert_eq!(ledger.oldest_beyond(1), None);
        ledger.note(gone("q"), Instant::now());
        assert_eq!(ledger.oldest_beyond(1), None);
        assert_eq!(ledger.waiting(Instant::now()).map(|(name, _)| name).collect::<Vec<_>>(), ["r"]);
    }
}
