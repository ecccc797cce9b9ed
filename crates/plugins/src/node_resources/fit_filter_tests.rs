//! Filter and hints of NodeResourcesFit.

use harbormaster_api::{Node, Str};
use harbormaster_framework::{cluster::Cluster, events::ClusterEvent, outcome::Fix};
use harbormaster_testkit::{
    PodBuilder, Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, node, pod,
    row_scope_holds,
};
use serde_json::{Value, json};

use super::*;

const GPU: &str = "example.com/gpu";

fn with_args(args: Value) -> Trial {
    let args = serde_json::from_value(args).unwrap();
    Trial::of(NodeResourcesFit::build(args, &BuildCycle::default()).unwrap())
}

fn trial() -> Trial {
    with_args(json!({}))
}

/// A node with 10m cpu, 20 bytes of memory, 20 bytes of storage, 5 gpus and 5 hugepages, used by the pod `used`.
fn small_node(used: PodBuilder) -> Cluster {
    let node = node("n")
        .allocatable("10m", "20", 32)
        .offers("ephemeral-storage", "20")
        .offers(GPU, "5")
        .offers("hugepages-2Mi", "5");
    cluster([node], [used.on("n")])
}

fn verdict_with(trial: &Trial, nodes: &Cluster, pod: PodBuilder) -> Result<(), Reject> {
    let pod = pod.info();
    batch_equals_single(trial, nodes, &pod);
    trial.verdict(nodes, &pod, "n")
}

fn verdict(used: PodBuilder, pod: PodBuilder) -> Result<(), Reject> {
    verdict_with(&trial(), &small_node(used), pod)
}

fn lacking(fix: Fix, reasons: &[&'static str]) -> Result<(), Reject> {
    Err(Reject { fix, reasons: reasons.iter().map(|r| (*r).into()).collect() })
}

fn asks(cpu: &str, memory: &str) -> PodBuilder {
    pod("p").cpu(cpu).memory(memory)
}

#[test]
fn reports_every_shortage_and_gives_up_on_a_node_whose_capacity_is_too_small() {
    use Fix::{EvictionMayHelp, NothingHelps};
    let used = |cpu, memory| pod("used").cpu(cpu).memory(memory);
    for (what, used, pod, expected) in [
        ("no request fits a full node", used("10m", "20"), pod("p"), Ok(())),
        ("exact fit", used("5m", "5"), asks("5m", "15"), Ok(())),
        (
            "busy",
            used("10m", "20"),
            asks("1m", "1"),
            lacking(EvictionMayHelp, &["Insufficient cpu", "Insufficient memory"]),
        ),
        ("cpu only", used("8m", "5"), asks("3m", "1"), lacking(EvictionMayHelp, &["Insufficient cpu"])),
        (
            "memory only",
            used("5m", "19"),
            asks("1m", "2"),
            lacking(EvictionMayHelp, &["Insufficient memory"]),
        ),
        (
            "beyond the node's capacity",
            used("5m", "5"),
            asks("11m", "1"),
            lacking(NothingHelps, &["Insufficient cpu"]),
        ),
        (
            "one of two beyond the capacity",
            used("10m", "20"),
            asks("1m", "21"),
            lacking(NothingHelps, &["Insufficient cpu", "Insufficient memory"]),
        ),
        (
            "storage busy",
            used("0", "0").request("ephemeral-storage", "20"),
            pod("p").request("ephemeral-storage", "1"),
            lacking(EvictionMayHelp, &["Insufficient ephemeral-storage"]),
        ),
        (
            "storage beyond",
            used("0", "0"),
            pod("p").request("ephemeral-storage", "25"),
            lacking(NothingHelps, &["Insufficient ephemeral-storage"]),
        ),
        (
            "overhead counts",
            used("5m", "5"),
            asks("3m", "3").overhead("memory", "13"),
            lacking(EvictionMayHelp, &["Insufficient memory"]),
        ),
    ] {
        assert_eq!(verdict(used, pod), expected, "{what}");
    }
}

#[test]
fn scalars_count_like_cpu_and_no_eviction_provides_an_unknown_one() {
    use Fix::{EvictionMayHelp, NothingHelps};
    let used = |amount: &str| pod("used").request(GPU, amount).request("hugepages-2Mi", amount);
    let wants = |name, amount| pod("p").request(name, amount);
    for (what, used, pod, expected) in [
        ("fits", used("0"), wants(GPU, "5"), Ok(())),
        ("busy", used("5"), wants(GPU, "1"), lacking(EvictionMayHelp, &["Insufficient example.com/gpu"])),
        ("beyond", used("0"), wants(GPU, "10"), lacking(NothingHelps, &["Insufficient example.com/gpu"])),
        (
            "unknown",
            used("0"),
            wants("example.com/unknown", "1"),
            lacking(NothingHelps, &["Insufficient example.com/unknown"]),
        ),
        ("zero of an unknown one", used("0"), wants("example.com/unknown", "0"), Ok(())),
        (
            "hugepages",
            used("3"),
            wants("hugepages-2Mi", "3"),
            lacking(EvictionMayHelp, &["Insufficient hugepages-2Mi"]),
        ),
        (
            "native",
            used("0"),
            wants("kubernetes.io/something", "1"),
            lacking(NothingHelps, &["Insufficient kubernetes.io/something"]),
        ),
        (
            "by name",
            used("5"),
            wants("hugepages-2Mi", "1").request(GPU, "1").cpu("11m"),
            lacking(
                NothingHelps,
                &["Insufficient cpu", "Insufficient example.com/gpu", "Insufficient hugepages-2Mi"],
            ),
        ),
    ] {
        assert_eq!(verdict(used, pod), expected, "{what}");
    }
}

#[test]
fn a_full_node_rejects_even_pods_without_requests_and_eviction_may_help() {
    use Fix::{EvictionMayHelp, NothingHelps};
    let nodes =
        cluster([node("n").allocatable("10m", "20", 1)], [pod("used").cpu("10m").memory("20").on("n")]);
    let verdict = |pod| verdict_with(&trial(), &nodes, pod);
    assert_eq!(verdict(pod("p")), lacking(EvictionMayHelp, &["Too many pods"]));
    let all = ["Too many pods", "Insufficient cpu", "Insufficient memory"];
    assert_eq!(verdict(asks("1m", "1")), lacking(EvictionMayHelp, &all));
    assert_eq!(verdict(asks("11m", "1")), lacking(NothingHelps, &all));
    let no_room = cluster([node("n").allocatable("10m", "20", 0)], []);
    assert_eq!(verdict_with(&trial(), &no_room, pod("p")), lacking(EvictionMayHelp, &["Too many pods"]));
}

#[test]
fn init_containers_and_sidecars_count_by_their_rules() {
    let used = || pod("used").cpu("8m").memory("19");
    assert_eq!(
        verdict(used(), asks("1m", "1").init_container(&[("cpu", "2m")]).init_container(&[("cpu", "2m")])),
        Ok(())
    );
    let too_much = lacking(Fix::EvictionMayHelp, &["Insufficient cpu"]);
    assert_eq!(verdict(used(), asks("1m", "1").init_container(&[("cpu", "3m")])), too_much);
    assert_eq!(verdict(used(), asks("1m", "1").sidecar(&[("cpu", "2m")])), too_much);
    let after_sidecar = asks("1m", "1").sidecar(&[("cpu", "1m")]).init_container(&[("cpu", "2m")]);
    assert_eq!(verdict(used(), after_sidecar), too_much);
}

#[test]
fn pod_level_requests_replace_the_sum_of_the_containers() {
    let pod = asks("1m", "1").pod_level("cpu", "11m");
    assert_eq!(verdict(pod_of_nothing(), pod), lacking(Fix::NothingHelps, &["Insufficient cpu"]));
}

fn pod_of_nothing() -> PodBuilder {
    pod("used")
}

#[test]
fn ignored_extended_resources_are_not_checked() {
    let nodes = small_node(pod("used"));
    let wants = || pod("p").request("example.com/aaa", "6").request("other.example.com/bbb", "1");
    let by_name = with_args(json!({"ignoredResources": ["example.com/aaa"]}));
    let left = lacking(Fix::NothingHelps, &["Insufficient other.example.com/bbb"]);
    assert_eq!(verdict_with(&by_name, &nodes, wants()), left);
    let by_group = with_args(json!({"ignoredResourceGroups": ["example.com"]}));
    assert_eq!(verdict_with(&by_group, &nodes, wants()), left);
    let both = with_args(
        json!({"ignoredResources": ["other.example.com/bbb"], "ignoredResourceGroups": ["example.com"]}),
    );
    assert_eq!(verdict_with(&both, &nodes, wants()), Ok(()));
    let not_extended =
        with_args(json!({"ignoredResources": ["hugepages-2Mi"], "ignoredResourceGroups": ["kubernetes.io"]}));
    let native = pod("p").request("hugepages-2Mi", "6");
    assert_eq!(
        verdict_with(&not_extended, &nodes, native),
        lacking(Fix::NothingHelps, &["Insufficient hugepages-2Mi"])
    );
}

#[test]
fn reports_all_scalars_even_if_they_are_more_than_a_word_has_bits() {
    let many = (0..80).fold(pod("p"), |pod, i| pod.request(&format!("example.com/r{i:02}"), "1"));
    let Err(reject) = verdict(pod_of_nothing(), many) else { panic!("fits") };
    assert_eq!((reject.fix, reject.reasons.len()), (Fix::NothingHelps, 80));
    assert_eq!(reject.reasons[79], "Insufficient example.com/r79");
}

#[test]
fn depends_only_on_the_row() {
    let mut nodes =
        cluster([node("n1"), node("n2").allocatable("1", "1Gi", 5)], [pod("used").cpu("1").on("n2")]);
    let other = pod("other").cpu("4").info();
    row_scope_holds(&trial(), &mut nodes, &asks("1", "1Gi").info(), &other);
    adding_and_removing_is_neutral(&trial(), &mut nodes, &asks("1", "1Gi").info(), &other);
}

#[test]
fn the_end_of_a_placed_pod_and_a_lower_request_for_a_wanted_resource_wake_the_pod() {
    let waiting = pod("p").cpu("1").request(GPU, "1").info();
    let hint = |action, old: Option<&PodBuilder>, new: Option<&PodBuilder>| {
        let (old, new) = (old.map(|p| p.clone().build()), new.map(|p| p.clone().build()));
        let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
        trial().hint(ClusterEvent::new(EventResource::AssignedPod, action), &waiting, &change)
    };
    let gone = |pod: PodBuilder| hint(Action::DELETE, Some(&pod), None);
    assert_eq!(gone(pod("placed").on("n")), Some(Hint::Queue), "requests are not compared");
    assert_eq!(gone(pod("nominated").nominated_to("n")), Some(Hint::Queue));
    assert_eq!(gone(pod("nowhere")), Some(Hint::Skip));
    let shrinks =
        |old: PodBuilder, new: PodBuilder| hint(Action::UPDATE_POD_SCALE_DOWN, Some(&old), Some(&new));
    let placed = |cpu, memory| pod("other").cpu(cpu).memory(memory).on("n");
    assert_eq!(shrinks(placed("2", "2Gi"), placed("1", "2Gi")), Some(Hint::Queue));
    assert_eq!(shrinks(placed("2", "2Gi"), placed("2", "1Gi")), Some(Hint::Skip), "memory is not wanted");
    let gpus = |n| pod("other").request(GPU, n).on("n");
    assert_eq!(shrinks(gpus("2"), gpus("1")), Some(Hint::Queue));
    let nowhere = |cpu| pod("other").cpu(cpu);
    assert_eq!(shrinks(nowhere("2"), nowhere("1")), Some(Hint::Skip));
    assert_eq!(shrinks(pod("p").cpu("2"), pod("p").cpu("1")), Some(Hint::Queue), "the pod itself");
    assert_eq!(hint(Action::UPDATE_POD_LABEL, Some(&placed("2", "1")), Some(&placed("1", "1"))), None);
}

#[test]
fn a_node_that_could_hold_the_pod_wakes_it_when_it_is_new_or_offers_more() {
    let waiting = pod("p").cpu("2").request(GPU, "1").info();
    let offers = |cpu: &str, memory: &str, pods, gpus: &str| {
        node("n")
            .allocatable(cpu, memory, pods)
            .node(|n| n.allocatable.set_named(&Str::from(GPU), gpus.parse().unwrap()))
            .build()
    };
    let large = offers("4", "4Gi", 10, "2");
    let hint = |action, old: Option<&Node>, new: &Node| {
        trial().hint(
            ClusterEvent::new(EventResource::Node, action),
            &waiting,
            &Change::Node { old, new: Some(new) },
        )
    };
    let grows = |from: &Node| hint(Action::UPDATE_NODE_ALLOCATABLE, Some(from), &large);
    assert_eq!(hint(Action::ADD, None, &large), Some(Hint::Queue));
    assert_eq!(hint(Action::ADD, None, &offers("1", "4Gi", 10, "2")), Some(Hint::Skip));
    assert_eq!(hint(Action::ADD, None, &offers("4", "4Gi", 10, "0")), Some(Hint::Skip));
    assert_eq!(hint(Action::ADD, None, &offers("4", "4Gi", 0, "2")), Some(Hint::Skip));
    assert_eq!(grows(&offers("3", "4Gi", 10, "2")), Some(Hint::Queue));
    assert_eq!(grows(&offers("4", "4Gi", 9, "2")), Some(Hint::Queue));
    assert_eq!(grows(&offers("4", "4Gi", 10, "1")), Some(Hint::Queue));
    assert_eq!(grows(&offers("4", "1Gi", 10, "2")), Some(Hint::Skip), "memory is not wanted");
    assert_eq!(grows(&offers("8", "4Gi", 10, "2")), Some(Hint::Skip), "less than before");
    let best_effort = pod("q").info();
    let change = Change::Node { old: Some(&offers("1", "4Gi", 10, "2")), new: Some(&large) };
    let event = ClusterEvent::new(EventResource::Node, Action::UPDATE_NODE_ALLOCATABLE);
    assert_eq!(trial().hint(event, &best_effort, &change), Some(Hint::Skip));
}
