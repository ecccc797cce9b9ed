use std::sync::Arc;

use harbormaster::{
    Registry,
    api::{Timestamp, pod::PodCondition},
    serde_json::{Value, from_value, json},
    testkit::{
        PodBuilder, Trial, WhatIfTrial, answers_are_repeatable, cluster, custom, node, pod, profile,
        random::Dice, set_custom,
    },
};

use super::*;
use policy::{MINIMUM, SECONDS};

/// Rejects nodes without enough cpu.
#[derive(Default)]
struct Room;

impl Plugin for Room {
    const NAME: &'static str = "Room";
    implemented_points!();
}

impl Filter for Room {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let wanted = cx.pod.request().milli_cpu + node.requested().milli_cpu;
        if wanted > node.allocatable().milli_cpu {
            return Err(Reject::evictable("Insufficient cpu").into());
        }
        Ok(())
    }
}

const NOW: i64 = 1_800_000_000;

fn plugin() -> PreemptionToleration {
    PreemptionToleration::build(DefaultPreemptionArgs::default(), &BuildCycle::default()).unwrap()
}

fn class(name: &str, annotations: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": annotations}, "value": 100})
}

fn tolerant(minimum: &str, seconds: &str) -> Value {
    class("tolerant", json!({ MINIMUM: minimum, SECONDS: seconds }))
}

/// A pod of priority 100 that was scheduled some seconds ago, and fills the node.
fn victim(class: &str, seconds_ago: i64) -> PodBuilder {
    pod("victim").priority(100).cpu("4").on("n").spec(|spec| spec.priority_class = Some(class.into())).pod(
        |pod| {
            pod.status.conditions.push(PodCondition {
                type_: "PodScheduled".into(),
                status: "True".into(),
                last_transition: Some(Timestamp::from_secs(NOW - seconds_ago)),
                ..PodCondition::default()
            });
        },
    )
}

/// Names of the pods that are evicted for a pod of the given priority, or `None` if eviction does not help.
fn evicted(classes: Vec<Value>, victims: Vec<PodBuilder>, priority: i32) -> Option<Vec<String>> {
    answer(classes, victims, priority).0
}

/// The same, and the number of seconds after which the pod is tried again.
fn answer(
    classes: Vec<Value>,
    victims: Vec<PodBuilder>,
    priority: i32,
) -> (Option<Vec<String>>, Option<u64>) {
    let mut registry = Registry::default();
    registry.register::<Room>();
    let mut nodes = cluster([node("n").allocatable("4", "8Gi", 110)], victims);
    nodes.set_now(Timestamp::from_secs(NOW));
    set_custom::<PriorityClass>(&mut nodes, classes);
    let mut world = WhatIfTrial::new(profile(&registry, &[("Filter", &["Room"])]), nodes);
    let victims = match world.ask(&plugin(), &pod("p").cpu("4").priority(priority).info()).unwrap() {
        PostFiltered::Nominate { victims, .. } => {
            Some(victims.iter().map(|pod: &Arc<PodInfo>| pod.name.to_string()).collect())
        }
        _ => None,
    };
    (victims, world.retry_at().map(|time| time.since(Timestamp::from_secs(NOW)).as_secs()))
}

#[test]
fn a_pod_that_waits_for_the_end_of_a_toleration_is_tried_again_when_it_ends() {
    let retried =
        |classes: Vec<Value>, victims: Vec<PodBuilder>, priority| answer(classes, victims, priority).1;
    let tolerant = || vec![tolerant("200", "100")];
    assert_eq!(retried(tolerant(), vec![victim("tolerant", 10)], 199), Some(90));
    // The first end counts: the pod may need no more than that.
    let half = |name: &str, ago| {
        let pod = victim("tolerant", ago).uid(name).pod(|pod| pod.name = name.into());
        pod.spec(|spec| spec.containers[0].requests = vec![("cpu".into(), 2000)])
    };
    assert_eq!(retried(tolerant(), vec![half("a", 10), half("b", 40)], 199), Some(60));
    // Nobody need wait.
    assert_eq!(retried(tolerant(), vec![victim("tolerant", 100)], 199), None);
    assert_eq!(retried(tolerant(), vec![victim("tolerant", 10)], 200), None);
    // Waiting does not help.
    assert_eq!(retried(tolerant(), vec![victim("tolerant", 10)], 100), None);
    let forever = vec![self::tolerant("200", "-1")];
    assert_eq!(retried(forever, vec![victim("tolerant", 10)], 199), None);
    // It is not known yet when the victim was scheduled.
    let unscheduled = victim("tolerant", 1).pod(|pod| pod.status.conditions.clear());
    assert_eq!(retried(tolerant(), vec![unscheduled], 199), Some(100));
}

#[test]
fn a_class_protects_its_pods_from_lower_priorities_for_a_while() {
    for (minimum, seconds, ago, priority, is_evicted) in [
        ("200", "0", 1, 199, true),
        ("200", "-1", 1_000_000, 199, false),
        ("200", "100", 101, 199, true),
        ("200", "100", 100, 199, true),
        ("200", "100", 10, 199, false),
        ("200", "-1", 1, 200, true),
        ("200", "-1", 1, 201, true),
        ("200", "9223372036854775807", 1, 199, false),
    ] {
        let found = evicted(vec![tolerant(minimum, seconds)], vec![victim("tolerant", ago)], priority);
        assert_eq!(found.is_some(), is_evicted, "{minimum} {seconds} {ago} {priority}");
    }
}

#[test]
fn classes_without_annotations_and_missing_classes_protect_no_pods() {
    let plain = class("plain", Value::Null);
    assert!(evicted(vec![plain.clone()], vec![victim("plain", 1)], 101).is_some());
    assert!(evicted(vec![plain], vec![victim("missing", 1)], 101).is_some());
    // The default of the minimum is one more than the value of the class.
    let seconds_only = class("tolerant", json!({ SECONDS: "-1" }));
    assert!(evicted(vec![seconds_only], vec![victim("tolerant", 1)], 101).is_some());
}

#[test]
fn protected_pods_stay_while_others_go() {
    let small = |name: &str, class: &str| victim(class, 1).uid(name).pod(|pod| pod.name = name.into());
    let two = |class: &str| {
        let shrink =
            |pod: PodBuilder| pod.spec(|spec| spec.containers[0].requests = vec![("cpu".into(), 2000)]);
        vec![shrink(small("a", "tolerant")), shrink(small("b", class))]
    };
    let classes = || vec![tolerant("200", "-1"), class("plain", Value::Null)];
    // The pod needs the whole node.
    assert_eq!(evicted(classes(), two("plain"), 150), None);
    assert_eq!(evicted(classes(), two("plain"), 200), Some(vec!["b".into(), "a".into()]));
}

#[test]
fn a_pod_that_is_not_scheduled_is_protected() {
    let unscheduled = victim("tolerant", 1).pod(|pod| pod.status.conditions.clear());
    assert_eq!(evicted(vec![tolerant("200", "1")], vec![unscheduled], 199), None);
}

#[test]
fn malformed_annotations_are_named() {
    let error = from_value::<PriorityClass>(tolerant("many", "1")).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("annotation {MINIMUM}: \"many\" is not a priority; the class protects no pods")
    );
    let known = custom::<PriorityClass>(&tolerant("5", "-3"));
    assert_eq!((known.minimum, known.seconds), (5, -3));
}

#[test]
fn arguments_are_checked_as_those_of_default_preemption() {
    let built = |percentage, absolute| {
        let args = DefaultPreemptionArgs {
            min_candidate_nodes_percentage: percentage,
            min_candidate_nodes_absolute: absolute,
        };
        PreemptionToleration::build(args, &BuildCycle::default()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(built(10, 0), Ok(()));
    for (percentage, absolute, error) in [
        (101, 1, "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"),
        (1, -1, "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"),
    ] {
        assert_eq!(built(percentage, absolute).unwrap_err(), error);
    }
    assert!(built(0, 0).unwrap_err().contains("cannot be zero at the same time"));
}

/// A full cluster with pods of several classes and ages.
fn random_world(dice: &mut Dice) -> (Vec<PriorityClass>, Cluster) {
    let classes: Vec<Value> = (0..3)
        .map(|at| {
            let (minimum, seconds) =
                (dice.pick(&["120", "160", "1000"]), dice.pick(&["-1", "0", "50", "5000"]));
            let annotations = json!({ MINIMUM: minimum, SECONDS: seconds });
            class(&format!("class-{at}"), if dice.one_in(4) { Value::Null } else { annotations })
        })
        .collect();
    let known = classes.iter().map(|class| custom::<PriorityClass>(class).object).collect();
    let mut pods = Vec::new();
    for on in ["n0", "n1", "n2"] {
        for at in 0..4 {
            let name = format!("{on}-{at}");
            let victim =
                victim(&format!("class-{}", dice.below(3)), dice.below(100) as i64).uid(&name).on(on);
            let priority = dice.pick(&[100, 140, 150, 200]);
            pods.push(victim.priority(priority).pod(|pod| pod.name = name.into()).spec(|spec| {
                spec.containers[0].requests = vec![("cpu".into(), 1000)];
            }));
        }
    }
    let mut nodes = cluster(["n0", "n1", "n2"].map(|name| node(name).allocatable("4", "8Gi", 110)), pods);
    nodes.set_now(Timestamp::from_secs(NOW));
    set_custom::<PriorityClass>(&mut nodes, classes);
    (known, nodes)
}

#[test]
fn it_passes_the_conformance_checks() {
    let mut registry = Registry::default();
    registry.register::<Room>();
    let profile = profile(&registry, &[("Filter", &["Room"])]);
    let (plugin, mut found) = (plugin(), [0, 0]);
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let (classes, nodes) = random_world(&mut dice);
        let preemptor = pod("p").cpu(dice.pick(&["1", "2", "3"])).priority(150).info();
        let meanwhile = pod("meanwhile").cpu("4").priority(130).info();
        answers_are_repeatable(&Trial::of(plugin.clone()), &nodes, &preemptor, &meanwhile);
        // Pods that may be evicted, and their nodes.
        let mut may_go: Vec<(String, Str)> = Vec::new();
        for row in nodes.order() {
            for pod in nodes.node(*row).pods().iter().filter(|pod| pod.priority() < 150) {
                let class = pod.spec.priority_class.as_deref().and_then(|name| name.strip_prefix("class-"));
                let class: usize = class.unwrap().parse().unwrap();
                if classes[class].protected_until(pod, 150, Timestamp::from_secs(NOW)).is_none() {
                    may_go.push((pod.name.to_string(), nodes.node(*row).name().clone()));
                }
            }
        }
        let mut world = WhatIfTrial::new(profile.clone(), nodes);
        let mut ask = |pod: &Arc<PodInfo>| match world.ask(&plugin, pod).unwrap() {
            PostFiltered::Nominate { node, victims, .. } => {
                Some((node, victims.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>()))
            }
            _ => None,
        };
        let answer = ask(&preemptor);
        ask(&meanwhile);
        assert_eq!(ask(&preemptor), answer, "seed {seed}: another answer when asked again");
        let needed = (preemptor.request().milli_cpu / 1000) as usize;
        let of_node = |name: &str| may_go.iter().filter(|(_, node)| *node == name).count();
        match answer {
            Some((node, victims)) => {
                found[0] += 1;
                assert_eq!(victims.len(), needed, "seed {seed}: {victims:?}");
                for victim in &victims {
                    let victim = (victim.clone(), node.clone());
                    assert!(may_go.contains(&victim), "seed {seed}: {victim:?} may not be evicted");
                }
            }
            None => {
                found[1] += 1;
                let helps = ["n0", "n1", "n2"].iter().any(|name| of_node(name) >= needed);
                assert!(!helps, "seed {seed}: evictions help");
            }
        }
    }
    assert!(found.iter().all(|count| *count > 10), "{found:?}");
}
