//! Answers to "why is this pod pending?".

use harbormaster_api::{
    Node, Pod,
    pod::{PodAffinity, PodAffinityTerm, TopologySpreadConstraint},
    selector::LabelSelector,
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Why, why};
use harbormaster_testkit::{NodeBuilder, PodBuilder, node, pod};

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
