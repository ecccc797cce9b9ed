//! Tests of what-if questions.

use harbormaster_testkit::{adding_and_removing_is_neutral, random::Dice};

use super::{by_hand::RandomClusters, *};

/// A what-if question: PreFilter's state, with pods added and removed.
struct WhatIf<'a> {
    trial: &'a Trial,
    nodes: &'a Cluster,
    pod: &'a PodInfo,
    slot: Slot,
}

impl<'a> WhatIf<'a> {
    fn new(trial: &'a Trial, nodes: &'a Cluster, pod: &'a PodInfo) -> Self {
        Self { trial, nodes, pod, slot: pre_filtered(trial, nodes, pod) }
    }

    fn with_cycle<T>(&mut self, ask: impl FnOnce(&Trial, &Cycle<'_>, &mut Slot) -> T) -> T {
        let indexes = self.trial.indexes(self.nodes, self.pod);
        ask(self.trial, &Cycle::with_indexes(self.nodes, &indexes, self.pod), &mut self.slot)
    }

    fn add(&mut self, other: &PodInfo, node: &str) -> &mut Self {
        let row = self.nodes.find(node).unwrap();
        self.with_cycle(|trial, cx, slot| trial.plugin().add_pod(cx, slot, other, row)).unwrap();
        self
    }

    fn remove(&mut self, other: &PodInfo, node: &str) -> &mut Self {
        let row = self.nodes.find(node).unwrap();
        self.with_cycle(|trial, cx, slot| trial.plugin().remove_pod(cx, slot, other, row)).unwrap();
        self
    }

    /// Returns, for each node, whether the pod fits.
    fn fits(&mut self) -> Vec<bool> {
        let rows: Vec<NodeIdx> = self.nodes.live().iter().collect();
        self.with_cycle(|trial, cx, slot| {
            rows.iter().map(|row| trial.plugin().filter(cx, slot, *row).is_ok()).collect()
        })
    }
}

#[test]
fn the_smallest_count_follows_pods_that_are_added_and_removed() {
    let foo = pod("other").label("foo", "").info();
    let trial = trial();
    let pod = spreading([hard(1, "node")]).info();
    let nodes = |counts: [usize; 4]| {
        let [a, b, x, y] = counts;
        cluster(two_zones(), foos(&[("a", a), ("b", b), ("x", x), ("y", y)]))
    };
    let all_zero = nodes([0; 4]);
    assert_eq!(WhatIf::new(&trial, &all_zero, &pod).add(&foo, "a").fits(), [false, true, true, true]);
    let one_behind = nodes([0, 1, 1, 1]);
    assert_eq!(WhatIf::new(&trial, &one_behind, &pod).fits(), [true, false, false, false]);
    assert_eq!(WhatIf::new(&trial, &one_behind, &pod).add(&foo, "a").fits(), [true; 4]);
    let mut twice = WhatIf::new(&trial, &one_behind, &pod);
    assert_eq!(twice.add(&foo, "a").add(&foo, "a").fits(), [false, true, true, true]);
    assert_eq!(twice.remove(&foo, "a").fits(), [true; 4]);
    let ahead = nodes([1, 1, 1, 3]);
    let mut emptied = WhatIf::new(&trial, &ahead, &pod);
    assert_eq!(emptied.remove(&foo, "y").fits(), [true, true, true, false]);
    assert_eq!(emptied.remove(&foo, "y").fits(), [true; 4]);
    assert_eq!(emptied.remove(&foo, "y").fits(), [false, false, false, true]);
}

#[test]
fn only_pods_that_count_change_the_verdicts() {
    let nodes = || {
        let [a, b, x, y] = two_zones();
        let y = y.taint("k", "v", "NoSchedule");
        cluster([a, b, x, y, node("bare")], foos(&[("b", 1), ("x", 1), ("y", 1)]))
    };
    let foo = || pod("other").label("foo", "");
    let plain = || spreading([hard(1, "node")]);
    let unmoved = vec![true, false, false, false, false];
    let moved = vec![true, true, true, true, false];
    for (case, pod, other, node, expected) in [
        ("a pod that counts", plain(), foo(), "a", &moved),
        ("another namespace", plain(), foo().namespace("x"), "a", &unmoved),
        ("not selected", plain(), pod("other"), "a", &unmoved),
        ("a terminating pod", plain(), foo().terminating(), "a", &moved),
        ("a node without the key", plain(), foo(), "bare", &unmoved),
    ] {
        let (nodes, pod, trial) = (nodes(), pod.info(), trial());
        let fits = WhatIf::new(&trial, &nodes, &pod).add(&other.info(), node).fits();
        assert_eq!(fits, *expected, "{case}");
    }
    let (nodes, trial) = (nodes(), trial());
    let excluded = spreading([honoring_taints(hard(1, "node"))]).info();
    let mut what_if = WhatIf::new(&trial, &nodes, &excluded);
    let before = what_if.fits();
    assert_eq!(what_if.add(&foo().info(), "y").fits(), before, "a node excluded by its taints");
    let elsewhere = spreading([hard(1, "node")]).requires_node_label("node", &["b", "x"]).info();
    let mut what_if = WhatIf::new(&trial, &nodes, &elsewhere);
    let before = what_if.fits();
    assert_eq!(what_if.add(&foo().info(), "a").fits(), before, "a node excluded by the pod's affinity");
}

#[test]
fn an_empty_selector_counts_pods_that_are_added_and_removed() {
    let nodes = cluster(two_zones(), foos(&[("a", 3)]));
    let pod = spreading([on_everything(hard(1, "node"))]).info();
    let (trial, any) = (trial(), super::pod("other").info());
    let mut what_if = WhatIf::new(&trial, &nodes, &pod);
    assert_eq!(what_if.fits(), [true; 4], "pods already there do not count");
    assert_eq!(what_if.add(&any, "a").fits(), [false, true, true, true]);
    let mut what_if = WhatIf::new(&trial, &nodes, &pod);
    assert_eq!(what_if.remove(&any, "a").fits(), [true, false, false, false], "the count is negative");
}

#[test]
fn a_copy_of_the_state_keeps_its_own_changes() {
    let nodes = cluster(two_zones(), []);
    let pod = spreading([hard(1, "node")]).info();
    let (trial, foo) = (trial(), super::pod("other").label("foo", "").info());
    let mut first = WhatIf::new(&trial, &nodes, &pod);
    let mut second = WhatIf::new(&trial, &nodes, &pod);
    second.slot = first.slot.clone();
    assert_eq!(second.add(&foo, "a").fits(), [false, true, true, true]);
    assert_eq!(first.fits(), [true; 4]);
}

#[test]
fn adding_a_pod_and_removing_it_changes_nothing() {
    let mut worlds = RandomClusters(Dice::new(7));
    for _ in 0..100 {
        let mut nodes = worlds.cluster();
        let (pod, other) = (worlds.pod("p").info(), worlds.other("o").info());
        adding_and_removing_is_neutral(&trial(), &mut nodes, &pod, &other);
    }
}

#[test]
fn what_if_answers_equal_those_of_the_changed_cluster() {
    let mut worlds = RandomClusters(Dice::new(8));
    let trial = trial();
    let mut changed = 0;
    for _ in 0..800 {
        let mut nodes = worlds.cluster();
        let waiting = worlds.pod("p").info();
        // Only what-if questions count terminating pods and use empty selectors.
        if waiting
            .spec
            .topology_spread
            .iter()
            .any(|c| c.label_selector.as_ref().is_some_and(|s| s.is_empty()))
        {
            continue;
        }
        let names: Vec<Str> = nodes.nodes().nodes().map(|node| node.name().clone()).collect();
        let name = &names[worlds.0.below(names.len() as u64) as usize];
        let other = bound(worlds.other("o").pod(|p| p.deleted = None), name);
        let before = WhatIf::new(&trial, &nodes, &waiting).fits();
        let added = WhatIf::new(&trial, &nodes, &waiting).add(&other.1, name).fits();
        nodes.add_pod(&other.0, other.1.clone());
        assert_eq!(
            added,
            WhatIf::new(&trial, &nodes, &waiting).fits(),
            "{waiting:?} with one more pod on {name}"
        );
        let removed = WhatIf::new(&trial, &nodes, &waiting).remove(&other.1, name).fits();
        assert_eq!(removed, before, "{waiting:?} with one pod fewer on {name}");
        changed += usize::from(added != before);
    }
    assert!(changed > 10, "only {changed} worlds show a difference");
}
