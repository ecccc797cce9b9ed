//! Compares the order of a queue whose namespaces take turns with a naive model.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use harbormaster_api::{Pod, PodSpec, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    index::IndexKind,
    pod::PodInfo,
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
};
use proptest::prelude::*;

use super::{Backoff, Moment, Queue};
use crate::groups::Groups;

/// Number of pods on nodes, by namespace `n0` to `n3`.
#[derive(Debug, Default)]
struct Load([i64; 4]);

fn team(namespace: &str) -> usize {
    namespace[1..].parse().unwrap()
}

impl Index for Load {
    fn pod_joined(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        self.0[team(&pod.namespace)] += 1;
    }

    fn pod_left(&mut self, _: ClusterView<'_>, _: NodeIdx, pod: &PodInfo) {
        self.0[team(&pod.namespace)] -= 1;
    }
}

/// Tries the pods of the namespace with the fewest pods, important ones first. Panics at seven pods.
#[derive(Default)]
struct ByLoad;

impl Plugin for ByLoad {
    const NAME: &'static str = "ByLoad";
    implemented_points!();
}

impl Indexed for ByLoad {
    type Index = Load;
}

impl QueueSort for ByLoad {
    const TAKES_TURNS: bool = true;

    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.priority() > b.priority()
    }

    fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> PluginResult<Turn> {
        let load = cx.index(self)?.0[team(namespace)];
        assert_ne!(load, 7, "an unlucky load");
        Ok([load, 0, 0, 0, 0, 0, 0, 0])
    }
}

fn queue() -> Queue {
    let mut registry = Registry::default();
    registry.register::<ByLoad>();
    let points = vec![(ExtensionPoint::QueueSort, vec![("ByLoad".into(), 0)])];
    let spec = ProfileSpec { name: "s".into(), points, ..ProfileSpec::default() };
    let profile = Profile::build(&spec, &registry, &BuildCycle::default()).unwrap();
    assert_eq!(profile.indexes().len(), 1, "the index is built before the first attempt");
    Queue::new(vec![Arc::new(profile)], Backoff::default(), Duration::from_secs(300))
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.add_index(IndexKind::of::<Load>());
    cluster
}

fn pod(name: &str, team: u8, priority: i32) -> Arc<PodInfo> {
    let spec = Arc::new(PodSpec { priority, ..PodSpec::default() });
    let namespace = format!("n{team}").into();
    PodInfo::standalone(Pod { uid: name.into(), name: name.into(), namespace, spec, ..Pod::default() })
}

fn at(cluster: &Cluster) -> Moment<'_> {
    static NO_GROUPS: LazyLock<Groups> = LazyLock::new(Groups::default);
    Moment { now: Timestamp::from_secs(1), objects: cluster.objects(), groups: &NO_GROUPS }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_next_pod_is_the_first_of_the_namespace_whose_turn_it_is_now(
        steps in prop::collection::vec((0u8..6, 0u8..4, 0i32..3), 1..120)
    ) {
        let (mut queue, mut cluster) = (queue(), cluster());
        let mut load = [0i64; 4];
        let mut placed: Vec<(String, u8)> = Vec::new();
        // Name, team and priority, in order of arrival.
        let mut waiting: Vec<(String, u8, i32)> = Vec::new();
        for (number, (what, team, priority)) in steps.into_iter().enumerate() {
            match what {
                0..3 => {
                    let name = format!("p{number}");
                    queue.add(pod(&name, team, priority), 0, at(&cluster));
                    waiting.push((name, team, priority));
                }
                3 if !waiting.is_empty() => {
                    let (name, team, priority) = waiting.remove(usize::from(team) % waiting.len());
                    queue.delete(&pod(&name, team, priority), at(&cluster));
                }
                4 if !placed.is_empty() => {
                    let (name, team) = placed.remove(0);
                    cluster.remove_pod("node", &name);
                    load[usize::from(team)] -= 1;
                }
                _ => {
                    let rank = |(at, (_, team, priority)): &(usize, &(String, u8, i32))| {
                        (load[usize::from(*team)], -priority, *at)
                    };
                    let expected = waiting.iter().enumerate().min_by_key(rank).map(|(at, _)| at);
                    let expected = expected.map(|at| waiting.remove(at));
                    let popped = queue.pop(TurnCycle::new(&cluster));
                    let pod = popped.map(|entity| entity.pods()[0].pod.clone());
                    prop_assert_eq!(pod.as_ref().map(|pod| pod.name.as_str()), expected.as_ref().map(|e| e.0.as_str()));
                    let (Some(pod), Some((name, team, _))) = (pod, expected) else { continue };
                    queue.done(&pod.uid);
                    // Loads of seven and more are for another test.
                    if load[usize::from(team)] < 6 {
                        cluster.add_pod(&"node".into(), pod);
                        load[usize::from(team)] += 1;
                        placed.push((name, team));
                    }
                }
            }
            prop_assert_eq!(queue.lengths().active, waiting.len());
        }
    }
}

#[test]
fn a_namespace_without_a_turn_comes_last_and_the_failure_is_reported() {
    let (mut queue, mut cluster) = (queue(), cluster());
    for at in 0..7 {
        cluster.add_pod(&"node".into(), pod(&format!("old-{at}"), 0, 0));
    }
    queue.add(pod("unlucky", 0, 9), 0, at(&cluster));
    queue.add(pod("other", 1, 0), 0, at(&cluster));
    let mut pop = || queue.pop(TurnCycle::new(&cluster)).unwrap().pods()[0].pod.name.to_string();
    assert_eq!([pop(), pop()], ["other", "unlucky"]);
    assert!(queue.has_failures());
    assert!(queue.take_panics()[0].to_string().contains("an unlucky load"));
    assert!(!queue.has_failures());
}
