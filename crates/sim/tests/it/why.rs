//! Answers to "why is this pod pending?".

use harbormaster_api::{
    Node, Pod,
    node::LABEL_HOSTNAME,
    pod::{PodAffinity, PodAffinityTerm, PodClaim, TopologySpreadConstraint, VolumeSource},
    selector::{LabelSelector, Operator, Requirement},
    taint::{TAINT_NODE_UNSCHEDULABLE, Taint, TaintEffect},
};
use harbormaster_core::EngineConfig;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{
    Change, CustomObject, Inventory, RankedNode, Why, independent, why, why_independent, why_placed,
};
use harbormaster_testkit::{NodeBuilder, PodBuilder, node, pod, random::Dice};
use serde_json::json;

fn small(name: &str) -> NodeBuilder {
    node(name).allocatable("2", "4Gi", 10)
}

fn ask(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>) -> Why {
    let nodes: Vec<Node> = nodes.into_iter().map(NodeBuilder::build).collect();
    let pods: Vec<Pod> = pods.into_iter().map(PodBuilder::build).collect();
    let (bound, pending) = pods.into_iter().partition(|pod| pod.node_name.is_some());
    let cluster = Inventory { nodes, bound, pending, ..Inventory::default() };
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let answer = why(setup.engine, cluster, "default/p", &mut |_, _| {});
    answer.expect("no plugin fails").expect("the pod is pending")
}

/// Returns the remedies in words, each with the number of nodes.
fn remedies(answer: &Why) -> Vec<(String, usize)> {
    let words = |changes: &[harbormaster_sim::Change]| {
        changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    };
    answer.remedies.iter().map(|remedy| (words(&remedy.changes), remedy.fits)).collect()
}

fn expect(answer: &Why, expected: &[(&str, usize)]) {
    let expected: Vec<(String, usize)> = expected.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect();
    assert_eq!(remedies(answer), expected);
}

fn term(key: &str, app: &str) -> PodAffinity {
    let selector =
        LabelSelector { match_labels: [("app", app)].into_iter().collect(), match_expressions: Vec::new() };
    let term = PodAffinityTerm {
        label_selector: Some(selector),
        topology_key: key.into(),
        namespaces: vec!["default".into()],
        ..Default::default()
    };
    PodAffinity { required: vec![term], preferred: Vec::new() }
}

#[test]
fn a_request_is_lowered_to_what_the_roomiest_node_has_left() {
    let answer = ask(
        vec![small("a"), small("b"), small("c")],
        vec![
            pod("on-a").cpu("1").on("a").owned_by("DaemonSet", "agent"),
            pod("on-b").cpu("250m").on("b").owned_by("DaemonSet", "agent"),
            pod("on-c").cpu("250m").on("c").owned_by("DaemonSet", "agent"),
            pod("p").cpu("2"),
        ],
    );
    expect(&answer, &[("request cpu 1.75 instead of 2", 2), ("add a node like a", 1)]);
    let wakers: Vec<&str> = answer.woken_by.iter().map(|waker| waker.plugin.as_str()).collect();
    assert_eq!(wakers, ["NodeResourcesFit"]);
    let events = &answer.woken_by[0].events;
    assert!(events.contains(&"a node appears or offers other resources".to_owned()), "{events:?}");
}

#[test]
fn a_pod_that_fits_elsewhere_makes_room() {
    let answer = ask(
        vec![small("a"), small("b")],
        vec![
            pod("big").cpu("1500m").on("a"),
            pod("little").cpu("500m").on("a"),
            pod("agent").cpu("1").on("b").owned_by("DaemonSet", "agent"),
            pod("p").cpu("1500m"),
        ],
    );
    expect(
        &answer,
        &[
            ("request cpu 1 instead of 1.5", 1),
            ("add a node like a", 1),
            ("stop pod default/big on node a", 1),
        ],
    );
    let answer = ask(
        vec![small("a"), small("b")],
        vec![
            pod("big").cpu("1").on("a"),
            pod("agent").cpu("1").on("b").owned_by("DaemonSet", "agent"),
            pod("p").cpu("1500m"),
        ],
    );
    expect(
        &answer,
        &[
            ("request cpu 1 instead of 1.5", 2),
            ("move pod default/big from node a to b", 1),
            ("add a node like a", 1),
        ],
    );
}

#[test]
fn more_important_pods_do_not_make_room() {
    let answer = ask(vec![small("a")], vec![pod("vip").cpu("2").priority(10).on("a"), pod("p").cpu("2")]);
    expect(&answer, &[("add a node like a", 1)]);
}

#[test]
fn taints_labels_ports_and_cordons_are_named() {
    let answer =
        ask(vec![small("a").taint("gpu", "yes", "NoSchedule"), small("b").unschedulable()], vec![pod("p")]);
    expect(
        &answer,
        &[("uncordon node b", 1), ("tolerate the taint gpu=yes:NoSchedule", 1), ("add a node like b", 1)],
    );
    let answer = ask(vec![small("a").label("disk", "hdd")], vec![pod("p").node_selector("disk", "ssd")]);
    expect(&answer, &[("drop the node selector disk=ssd", 1)]);
    let answer = ask(
        vec![small("a").label("disk", "hdd")],
        vec![pod("p").requires_node_label("disk", &["ssd", "nvme"])],
    );
    expect(&answer, &[("drop the node affinity disk In [ssd, nvme]", 1)]);
    let answer = ask(
        vec![small("a")],
        vec![pod("q").host_port(80).on("a").owned_by("DaemonSet", "agent"), pod("p").host_port(80)],
    );
    expect(&answer, &[("drop the host port 80/TCP", 1), ("add a node like a", 1)]);
}

#[test]
fn a_skew_is_widened_as_little_as_possible_and_a_missing_label_makes_it_a_preference() {
    let spread = |pod: PodBuilder| {
        pod.label("app", "web").spec(|spec| {
            let label_selector = Some(LabelSelector {
                match_labels: [("app", "web")].into_iter().collect(),
                match_expressions: Vec::new(),
            });
            let topology_key = "topology.kubernetes.io/zone".into();
            spec.topology_spread.push(TopologySpreadConstraint {
                max_skew: 1,
                topology_key,
                hard: true,
                label_selector,
                ..Default::default()
            });
        })
    };
    let web = |name: &str| pod(name).label("app", "web");
    let answer = ask(
        vec![small("a").zone("z1"), small("b").zone("z2")],
        vec![
            web("1").on("a"),
            web("2").on("a"),
            web("3").on("a"),
            pod("full").cpu("2").priority(9).on("b"),
            spread(pod("p")).cpu("100m"),
        ],
    );
    expect(
        &answer,
        &[("allow a skew of 4 instead of 1 by topology.kubernetes.io/zone", 1), ("add a node like b", 1)],
    );
    let answer = ask(vec![small("a")], vec![spread(pod("p"))]);
    expect(&answer, &[("make the spread by topology.kubernetes.io/zone a preference", 1)]);
}

#[test]
fn affinity_terms_are_dropped_one_by_one() {
    let host = "kubernetes.io/hostname";
    let answer = ask(
        vec![small("a").label(host, "a")],
        vec![
            pod("web").label("app", "web").on("a"),
            pod("p").spec(|spec| {
                spec.pod_affinity = Some(term(host, "cache"));
                spec.pod_anti_affinity = Some(term(host, "web"));
            }),
        ],
    );
    expect(
        &answer,
        &[(
            "drop the pod affinity by kubernetes.io/hostname and drop the pod anti-affinity by kubernetes.io/hostname",
            1,
        )],
    );
}

#[test]
fn changes_are_combined_if_none_suffices_alone() {
    let answer = ask(
        vec![small("a").taint("gpu", "yes", "NoSchedule")],
        vec![pod("agent").cpu("1").memory("3Gi").on("a").owned_by("DaemonSet", "agent"), pod("p").cpu("2")],
    );
    expect(&answer, &[("request cpu 1 instead of 2 and tolerate the taint gpu=yes:NoSchedule", 1)]);
    let answer = ask(
        vec![small("a").taint("gpu", "yes", "NoSchedule")],
        vec![
            pod("agent").cpu("1").memory("3Gi").on("a").owned_by("DaemonSet", "agent"),
            pod("p").cpu("2").memory("2Gi").node_selector("disk", "ssd"),
        ],
    );
    let [(words, 1)] = &remedies(&answer)[..] else { panic!("{:?}", answer.remedies) };
    for part in ["cpu 1 ", "memory 1Gi", "taint gpu=yes", "selector disk=ssd"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn pods_that_are_placed_or_gated_need_no_remedy() {
    let answer = ask(vec![small("a"), small("b")], vec![pod("p")]);
    assert_eq!((answer.pod.node.as_deref(), answer.remedies.len()), (Some("a"), 0), "{answer:?}");
    let fits = answer.explanation.as_ref().map(|said| said.fits.len());
    assert_eq!(fits, Some(1), "both nodes have the same score");
    let gated = ask(vec![small("a")], vec![pod("p").gate("example.com/wait")]);
    assert!(gated.pod.is_gated() && gated.remedies.is_empty(), "{gated:?}");
    assert_eq!(gated.woken_by[0].plugin, "SchedulingGates");
}

#[test]
fn pods_that_fit_are_placed_first_and_an_unknown_pod_has_no_answer() {
    let answer = ask(vec![small("a")], vec![pod("first").cpu("1500m"), pod("p").cpu("1")]);
    expect(
        &answer,
        &[
            ("request cpu 0.5 instead of 1", 1),
            ("add a node like a", 1),
            ("stop pod default/first on node a", 1),
        ],
    );
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let none = why(setup.engine, Inventory::default(), "default/p", &mut |_, _| {});
    assert!(none.expect("nothing is asked").is_none());
}

/// Returns the node that the pod gets in the cluster, if it fits.
fn node_for(engine: &EngineConfig, cluster: &Inventory, pod: &Pod) -> Option<String> {
    let cluster = Inventory { pending: vec![pod.clone()], ..cluster.clone() };
    independent(engine, cluster).pods.remove(0).node
}

fn fits(engine: &EngineConfig, cluster: &Inventory, pod: &Pod) -> bool {
    node_for(engine, cluster, pod).is_some()
}

/// Returns the cluster after the changes that do not concern the pod itself.
fn changed(cluster: &Inventory, changes: &[Change]) -> Inventory {
    let mut cluster = cluster.clone();
    for change in changes {
        match change {
            Change::Uncordon { node } => {
                let nodes = cluster.nodes.iter_mut().filter(|known| known.name == *node);
                nodes.for_each(|node| {
                    node.unschedulable = false;
                    let taints = node.taints.iter().filter(|taint| taint.key != TAINT_NODE_UNSCHEDULABLE);
                    node.taints = taints.cloned().collect();
                });
            }
            Change::AddNode { like } => {
                let copy = cluster.nodes.iter().find(|node| node.name == *like).cloned();
                let labels = [(LABEL_HOSTNAME, "another")];
                let copy = copy.map(|node| {
                    let kept = node.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                    let own = labels.into_iter().filter(|(key, _)| node.labels.get(key).is_some());
                    let taints = node.taints.iter().filter(|taint| taint.key != TAINT_NODE_UNSCHEDULABLE);
                    Node {
                        name: "another".into(),
                        unschedulable: false,
                        labels: kept.chain(own).collect(),
                        taints: taints.cloned().collect(),
                        ..node.clone()
                    }
                });
                cluster.nodes.extend(copy);
            }
            Change::MovePod { pod, to, .. } => {
                let pods = cluster.bound.iter_mut().filter(|known| known.full_name() == *pod);
                pods.for_each(|pod| pod.node_name = Some(to.clone()));
            }
            Change::MovePods { moves, .. } => {
                for one in moves {
                    let pods = cluster.bound.iter_mut().filter(|known| known.full_name() == one.pod);
                    pods.for_each(|pod| pod.node_name = Some(one.to.clone()));
                }
            }
            Change::StopPod { pod, .. } => cluster.bound.retain(|known| known.full_name() != *pod),
            Change::StopPods { pods, .. } => {
                cluster.bound.retain(|known| !pods.iter().any(|one| one.pod == known.full_name()));
            }
            Change::DropAntiAffinityOf { workload, topology_key, .. } => {
                let of = |pod: &&mut Pod| format!("Pod {}", pod.full_name()) == *workload;
                for pod in cluster.bound.iter_mut().filter(of) {
                    let spec = std::sync::Arc::make_mut(&mut pod.spec);
                    if let Some(affinity) = &mut spec.pod_anti_affinity {
                        affinity.required.retain(|term| term.topology_key != *topology_key);
                    }
                }
            }
            _ => {}
        }
    }
    cluster
}

/// Returns the change made a little smaller, if it has a size.
fn smaller(change: &Change) -> Option<Change> {
    match change {
        Change::LowerRequest { resource, from, to } if to + 1 < *from => {
            Some(Change::LowerRequest { resource: resource.clone(), from: *from, to: to + 1 })
        }
        Change::WidenSkew { constraint, topology_key, from, to } if to - 1 > *from => {
            Some(Change::WidenSkew {
                constraint: *constraint,
                topology_key: topology_key.clone(),
                from: *from,
                to: to - 1,
            })
        }
        _ => None,
    }
}

#[test]
fn every_remedy_places_the_pod_and_no_smaller_one_does() {
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let (mut waiting, mut remedies) = (0, 0);
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let nodes: Vec<Node> = (0..5).map(|i| dice.node(&format!("n{i}")).build()).collect();
        let bound: Vec<Pod> = (0..dice.below(9))
            .map(|i| dice.pod(&format!("b{i}")).on(&format!("n{}", i % 5)).build())
            .collect();
        let pod = dice.pod("p").cpu("2").build();
        let cluster = Inventory { nodes, bound, ..Inventory::default() };
        let asked = Inventory { pending: vec![pod.clone()], ..cluster.clone() };
        let answer = why(setup.engine.clone(), asked, &pod.full_name(), &mut |_, _| {});
        let answer = answer.expect("no plugin fails").expect("the pod is pending");
        if answer.pod.node.is_some() || fits(&setup.engine, &cluster, &pod) {
            continue;
        }
        waiting += 1;
        for remedy in &answer.remedies {
            remedies += 1;
            let after = changed(&cluster, &remedy.changes);
            assert!(
                fits(&setup.engine, &after, &remedy.changed(&pod)),
                "seed {seed}: {remedy:?} does not help"
            );
            for at in 0..remedy.changes.len() {
                let mut fewer = remedy.clone();
                match smaller(&remedy.changes[at]) {
                    Some(change) => fewer.changes[at] = change,
                    None => drop(fewer.changes.remove(at)),
                }
                let after = changed(&cluster, &fewer.changes);
                assert!(
                    !fits(&setup.engine, &after, &fewer.changed(&pod)),
                    "seed {seed}: {fewer:?} suffices"
                );
            }
        }
        let names = |change: &Change| matches!(change, Change::MovePod { .. } | Change::StopPod { .. });
        let is_room_made = answer.remedies.iter().any(|remedy| remedy.changes.iter().any(names));
        assert!(is_room_made || !one_makes_room(&setup.engine, &cluster, &pod), "seed {seed}: {answer:?}");
    }
    assert!(waiting > 400 && remedies > 300, "{waiting} pods, {remedies} remedies");
}

/// Returns true if the pod gets a node once a single pod, which may make room, is gone.
fn one_makes_room(engine: &EngineConfig, cluster: &Inventory, pod: &Pod) -> bool {
    let mut candidates = cluster.bound.iter().filter(|one| one.spec.priority <= pod.spec.priority);
    candidates.any(|one| {
        let mut fewer = cluster.clone();
        fewer.bound.retain(|known| known.uid != one.uid);
        node_for(engine, &fewer, pod).is_some()
    })
}

/// Returns the answer in a cluster with priority classes of these values.
fn ask_with_classes(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>, classes: &[i32]) -> Why {
    let nodes: Vec<Node> = nodes.into_iter().map(NodeBuilder::build).collect();
    let pods: Vec<Pod> = pods.into_iter().map(PodBuilder::build).collect();
    let (bound, pending) = pods.into_iter().partition(|pod| pod.node_name.is_some());
    let class = |value: &i32| CustomObject {
        group: "scheduling.k8s.io".to_owned(),
        kind: "PriorityClass".to_owned(),
        value: json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": format!("class-{value}")}, "value": value,
        }),
    };
    let custom = classes.iter().map(class).collect();
    let cluster = Inventory { nodes, bound, pending, custom, ..Inventory::default() };
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let answer = why_independent(&setup.engine, cluster, "default/p");
    answer.expect("no plugin fails").expect("the pod is pending")
}

#[test]
fn the_lowest_class_that_is_enough_is_proposed_with_the_pods_that_it_evicts() {
    let full = |low: i32, high: i32| {
        vec![
            pod("low").cpu("2").priority(low).on("a").owned_by("DaemonSet", "agent"),
            pod("high").cpu("2").priority(high).on("b").owned_by("DaemonSet", "agent"),
            pod("p").cpu("2"),
        ]
    };
    let nodes = || vec![small("a"), small("b")];
    for (low, high, classes, expected) in [
        (
            5,
            50,
            &[3, 10, 100][..],
            Some("use the priority class class-10 (10 instead of 0), which evicts default/low from node a"),
        ),
        (
            500,
            50,
            &[3, 10, 100],
            Some(
                "use the priority class class-100 (100 instead of 0), which evicts default/high from node b",
            ),
        ),
        (500, 500, &[3, 10, 100], None),
        (5, 50, &[], None),
    ] {
        let answer = ask_with_classes(nodes(), full(low, high), classes);
        let promotion = remedies(&answer).into_iter().find(|(words, _)| words.contains("class"));
        assert_eq!(promotion, expected.map(|words| (words.to_owned(), 1)), "{answer:?}");
        assert_eq!(answer.evicts, None);
    }
    let answer = ask_with_classes(nodes(), full(-5, 50), &[100]);
    let victims = answer.evicts.as_ref().map(|found| (found.node.as_str(), found.victims.join(",")));
    assert_eq!(victims, Some(("a", "default/low".to_owned())));
    assert!(!remedies(&answer).iter().any(|(words, _)| words.contains("class")), "{answer:?}");
}

#[test]
fn several_pods_of_a_workload_make_room_if_no_single_pod_does() {
    let of_web = |name: &str, node: &str| pod(name).cpu("1").on(node).owned_by("StatefulSet", "web");
    let agent =
        |name: &str, cpu: &str, node: &str| pod(name).cpu(cpu).on(node).owned_by("DaemonSet", "agent");
    let answer = ask(
        vec![small("a"), small("b"), small("c")],
        vec![
            of_web("web-0", "a"),
            of_web("web-1", "a"),
            agent("x", "1500m", "b"),
            agent("y", "1500m", "c"),
            pod("p").cpu("2"),
        ],
    );
    let words = remedies(&answer);
    let stopped = "stop 2 pods of StatefulSet default/web: default/web-0 on node a, default/web-1 on node a";
    assert!(words.contains(&(stopped.to_owned(), 1)), "{words:?}");
    let answer = ask(
        vec![small("a"), small("b"), small("c")],
        vec![
            of_web("web-0", "a"),
            of_web("web-1", "a"),
            agent("x", "1", "b"),
            agent("y", "1", "c"),
            pod("p").cpu("2"),
        ],
    );
    let words = remedies(&answer);
    assert!(
        words.iter().any(|(words, _)| words.starts_with("move 2 pods of StatefulSet default/web")),
        "{words:?}"
    );
}

#[test]
fn a_workload_that_repels_the_pod_moves_or_drops_its_anti_affinity() {
    let zone = "topology.kubernetes.io/zone";
    let repels = |name: &str, node: &str| {
        let pod = pod(name).label("app", "db").on(node).owned_by("StatefulSet", "db");
        pod.spec(|spec| spec.pod_anti_affinity = Some(term(zone, "web")))
    };
    let answer = ask(
        vec![small("a").zone("z1"), small("b").zone("z1")],
        vec![repels("db-0", "a"), repels("db-1", "b"), pod("p").label("app", "web")],
    );
    let words = remedies(&answer);
    let dropped = "drop the pod anti-affinity by topology.kubernetes.io/zone of StatefulSet default/db";
    assert!(words.contains(&(dropped.to_owned(), 2)), "{words:?}");
    assert!(
        words.iter().any(|(words, _)| words.starts_with("stop 2 pods of StatefulSet default/db")),
        "{words:?}"
    );
    let answer = ask(
        vec![small("a").zone("z1"), small("b").zone("z2")],
        vec![repels("db-0", "a"), pod("p").label("app", "web").node_selector(zone, "z1")],
    );
    let words = remedies(&answer);
    let moved = "move pod default/db-0 of StatefulSet default/db from node a to b";
    assert!(words.contains(&(moved.to_owned(), 1)), "{words:?}");
}

#[test]
fn a_change_to_the_pod_is_combined_with_one_to_others_if_nothing_else_helps() {
    let vip = |name: &str| pod(name).cpu("2").priority(9).on("a");
    let tainted = || vec![small("a").taint("gpu", "yes", "NoSchedule").label("disk", "ssd")];
    let pods = |other: PodBuilder| vec![other, pod("p").cpu("2").node_selector("disk", "ssd")];
    let answer = ask_with_classes(tainted(), pods(vip("q")), &[20]);
    let words: Vec<String> = remedies(&answer).into_iter().map(|(words, _)| words).collect();
    let expected = "tolerate the taint gpu=yes:NoSchedule and use the priority class class-20 (20 instead of 0), which \
                    evicts default/q from node a";
    assert!(words.contains(&expected.to_owned()), "{words:?}");
}

#[test]
fn a_pod_on_a_node_is_placed_anew_and_its_node_is_compared_with_the_next_best() {
    let nodes = vec![small("a").build(), small("b").build(), small("c").unschedulable().build()];
    let bound = vec![pod("q").cpu("1").on("a").build(), pod("p").cpu("500m").on("a").build()];
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let cluster = Inventory { nodes, bound, ..Inventory::default() };
    let answer = why_placed(&setup.engine, cluster.clone(), "default/p").expect("the pod is there");
    let standing = answer.standing.expect("the pod is on a node");
    let node = |ranked: &Option<RankedNode>| ranked.as_ref().map(|ranked| ranked.node.clone());
    assert_eq!((node(&standing.own), node(&standing.rival)), (Some("a".to_owned()), Some("b".to_owned())));
    assert_eq!((standing.fits, standing.better), (2, 1), "{standing:?}");
    assert!(standing.plugins.iter().any(|one| one.plugin == "NodeResourcesFit" && one.own < one.rival));
    assert!(why_placed(&setup.engine, cluster, "default/none").is_none());
}

#[test]
fn a_volume_or_a_resource_claim_that_nobody_provides_is_dropped() {
    let answer = ask(vec![small("a")], vec![pod("p").volume(VolumeSource::Claim("data".into()))]);
    let words: Vec<String> = remedies(&answer).into_iter().map(|(words, _)| words).collect();
    assert!(words.iter().any(|words| words.starts_with("drop the volume ")), "{words:?}");
    let claim = PodClaim { name: "gpu".into(), claim: Some("gpu".into()), ..PodClaim::default() };
    let answer = ask(vec![small("a")], vec![pod("p").spec(|spec| spec.resource_claims.push(claim))]);
    expect(&answer, &[("drop the resource claim gpu", 1)]);
}

/// Returns one change of each kind.
fn all_changes() -> Vec<Change> {
    let name = || harbormaster_api::Str::from("x");
    let text = || "x".to_owned();
    let requirement = || Requirement { key: name(), operator: Operator::In, values: vec![name()] };
    let taint = || Taint { key: name(), value: name(), effect: TaintEffect::NoSchedule };
    vec![
        Change::LowerRequest { resource: name(), from: 2, to: 1 },
        Change::Tolerate { taint: taint() },
        Change::DropNodeSelector { key: name(), value: name() },
        Change::DropNodeAffinity { term: 0, requirement: requirement() },
        Change::WidenSkew { constraint: 0, topology_key: name(), from: 1, to: 2 },
        Change::SoftenSpread { constraint: 0, topology_key: name() },
        Change::DropPodAffinity { term: 0, topology_key: name() },
        Change::DropPodAntiAffinity { term: 0, topology_key: name() },
        Change::DropHostPort { port: 1, protocol: name() },
        Change::Uncordon { node: name() },
        Change::AddNode { like: name() },
        Change::DropVolume { volume: name() },
        Change::DropResourceClaim { claim: name() },
        Change::RaisePriority {
            class: None,
            from: 0,
            to: 1,
            node: name(),
            victims: Vec::new(),
            violations: 0,
        },
        Change::MovePod { pod: text(), workload: None, from: name(), to: name() },
        Change::StopPod { pod: text(), workload: None, from: name() },
        Change::MovePods { workload: text(), moves: Vec::new() },
        Change::StopPods { workload: text(), pods: Vec::new() },
        Change::FewerDevices { claim: name(), request: text(), from: 2, to: 1 },
        Change::RaiseVolumeLimit { node: name(), driver: text(), from: 1, to: 2 },
        Change::AddVolume { claim: name(), class: text(), size: text(), node: name() },
        Change::GrowStorage { capacity: text(), class: text(), from: text(), to: text() },
        Change::AddNodes { like: name(), count: 2 },
        Change::LowerMinCount { group: text(), from: 2, to: 1 },
        Change::AddMembers { group: text(), count: 1 },
        Change::DropAntiAffinityOf { workload: text(), topology_key: name(), pods: 1 },
    ]
}

#[test]
fn the_documentation_lists_every_change_with_its_fields() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulating.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let (_, table) = document.split_once("| `change` | fields |").expect("the table");
    let (table, _) = table.split_once("\n\n").expect("the end of the table");
    for change in all_changes() {
        let json = serde_json::to_value(&change).expect("JSON");
        let kind = format!("`{}`", json["change"].as_str().expect("the kind"));
        let row =
            table.lines().find(|row| row.contains(&kind)).unwrap_or_else(|| panic!("no row for {kind}"));
        for field in json.as_object().expect("an object").keys().filter(|field| *field != "change") {
            assert!(row.contains(&format!("`{field}`")), "{kind} has a field {field}, but: {row}");
        }
        assert!(!change.to_string().is_empty());
    }
}
