//! Filter and hints of NodeResourcesFit.

use harbormaster_api::{Node, Str, features::Feature};
use harbormaster_framework::{cluster::Cluster, events::ClusterEvent, outcome::Fix};
use harbormaster_testkit::{
    PodBuilder, Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, custom, node, pod,
    row_scope_holds, set_custom,
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

/// A node with 10m cpu, 20 bytes of memory, 20 bytes of storage, 5 gpus and 5 bytes of huge pages, used by the pod
/// `used`.
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
fn every_shortage_is_reported_and_eviction_does_not_help_if_the_capacity_is_too_small() {
    use Fix::{EvictionMayHelp, NothingHelps};
    let used = |cpu, memory| pod("used").cpu(cpu).memory(memory);
    for (what, used, pod, expected) in [
        ("a pod without requests fits a busy node", used("10m", "20"), pod("p"), Ok(())),
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
            "one of two requests beyond the capacity",
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
            "storage beyond the capacity",
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
        (
            "beyond the capacity",
            used("0"),
            wants(GPU, "10"),
            lacking(NothingHelps, &["Insufficient example.com/gpu"]),
        ),
        (
            "unknown",
            used("0"),
            wants("example.com/unknown", "1"),
            lacking(NothingHelps, &["Insufficient example.com/unknown"]),
        ),
        ("zero of an unknown resource", used("0"), wants("example.com/unknown", "0"), Ok(())),
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
            "scalars are reported by name",
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
fn all_scalars_are_reported_even_if_a_word_has_too_few_bits_for_them() {
    let many = (0..80).fold(pod("p"), |pod, i| pod.request(&format!("example.com/r{i:02}"), "1"));
    let Err(reject) = verdict(pod_of_nothing(), many) else { panic!("fits") };
    assert_eq!((reject.fix, reject.reasons.len()), (Fix::NothingHelps, 80));
    assert_eq!(reject.reasons[79], "Insufficient example.com/r79");
}

#[test]
fn verdicts_depend_only_on_the_row() {
    let mut nodes =
        cluster([node("n1"), node("n2").allocatable("1", "1Gi", 5)], [pod("used").cpu("1").on("n2")]);
    let other = pod("other").cpu("4").info();
    row_scope_holds(&trial(), &mut nodes, &asks("1", "1Gi").info(), &other);
    adding_and_removing_is_neutral(&trial(), &mut nodes, &asks("1", "1Gi").info(), &other);
}

#[test]
fn a_pod_wakes_when_a_placed_pod_is_deleted_or_lowers_a_relevant_request() {
    let waiting = pod("p").cpu("1").request(GPU, "1").info();
    let hint = |action, old: Option<&PodBuilder>, new: Option<&PodBuilder>| {
        let (old, new) = (old.map(|p| p.clone().build()), new.map(|p| p.clone().build()));
        let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
        trial().hint(ClusterEvent::new(EventResource::AssignedPod, action), &waiting, &change)
    };
    let gone = |pod: PodBuilder| hint(Action::DELETE, Some(&pod), None);
    assert_eq!(gone(pod("placed").on("n")), Some(Hint::Queue), "the requests of a deleted pod do not matter");
    assert_eq!(gone(pod("nominated").nominated_to("n")), Some(Hint::Queue));
    assert_eq!(gone(pod("nowhere")), Some(Hint::Skip));
    let shrinks =
        |old: PodBuilder, new: PodBuilder| hint(Action::UPDATE_POD_SCALE_DOWN, Some(&old), Some(&new));
    let placed = |cpu, memory| pod("other").cpu(cpu).memory(memory).on("n");
    assert_eq!(shrinks(placed("2", "2Gi"), placed("1", "2Gi")), Some(Hint::Queue));
    assert_eq!(
        shrinks(placed("2", "2Gi"), placed("2", "1Gi")),
        Some(Hint::Skip),
        "the pod requests no memory"
    );
    let gpus = |n| pod("other").request(GPU, n).on("n");
    assert_eq!(shrinks(gpus("2"), gpus("1")), Some(Hint::Queue));
    let nowhere = |cpu| pod("other").cpu(cpu);
    assert_eq!(shrinks(nowhere("2"), nowhere("1")), Some(Hint::Skip));
    for resource in [EventResource::UnschedulablePod, EventResource::TargetPod] {
        let event = ClusterEvent::new(resource, Action::UPDATE_POD_SCALE_DOWN);
        let (old, new) = (pod("p").cpu("2").build(), pod("p").cpu("1").build());
        let change = Change::Pod { old: Some(&old), new: Some(&new) };
        assert_eq!(trial().hint(event, &waiting, &change), Some(Hint::Queue), "{resource}");
    }
    assert_eq!(hint(Action::UPDATE_POD_LABEL, Some(&placed("2", "1")), Some(&placed("1", "1"))), None);
}

#[test]
fn a_large_enough_node_wakes_the_pod_if_the_node_is_new_or_offers_more() {
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
    assert_eq!(grows(&offers("4", "1Gi", 10, "2")), Some(Hint::Skip), "the pod requests no memory");
    assert_eq!(grows(&offers("8", "4Gi", 10, "2")), Some(Hint::Skip), "the node offers less than before");
    let best_effort = pod("q").info();
    let change = Change::Node { old: Some(&offers("1", "4Gi", 10, "2")), new: Some(&large) };
    let event = ClusterEvent::new(EventResource::Node, Action::UPDATE_NODE_ALLOCATABLE);
    assert_eq!(trial().hint(event, &best_effort, &change), Some(Hint::Skip));
}

/// The nodes `plain` (which lists no gpus), `zero` (which lists zero gpus) and `rich` (with two gpus), and a class that
/// provides gpus.
fn nodes_and_class() -> Cluster {
    let sized = |name| node(name).allocatable("10m", "20", 32);
    let mut nodes =
        cluster([sized("plain"), sized("zero").offers(GPU, "0"), sized("rich").offers(GPU, "2")], []);
    set_custom::<DeviceClass>(&mut nodes, [class(GPU)]);
    nodes
}

fn class(resource: &str) -> Value {
    json!({"metadata": {"name": "of-gpus"}, "spec": {"extendedResourceName": resource}})
}

#[test]
fn a_resource_of_a_device_class_is_left_to_dynamic_resources_on_nodes_that_do_not_offer_it() {
    let nodes = nodes_and_class();
    let own_name = format!("{CLASS_PREFIX}of-gpus");
    let lacks = |name: &str| Err(Reject::unresolvable(format!("Insufficient {name}")));
    for (resource, amount, node, expected) in [
        (GPU, "3", "plain", Ok(())),
        (GPU, "3", "zero", Ok(())),
        (GPU, "2", "rich", Ok(())),
        (GPU, "3", "rich", lacks(GPU)),
        (&own_name, "3", "rich", Ok(())),
        ("example.com/other", "1", "plain", lacks("example.com/other")),
    ] {
        let pod = pod("p").request(resource, amount).info();
        batch_equals_single(&trial(), &nodes, &pod);
        assert_eq!(trial().verdict(&nodes, &pod, node), expected, "{resource} {amount} on {node}");
    }
}

#[test]
fn without_the_feature_gate_device_classes_provide_nothing() {
    let mut cx = BuildCycle::default();
    cx.features.set(Feature::DRAExtendedResource, false);
    let plugin = NodeResourcesFit::build(NodeResourcesFitArgs::default(), &cx).unwrap();
    assert_eq!(plugin.events().unwrap().len(), 3, "the plugin does not listen to classes");
    let pod = pod("p").request(GPU, "1").info();
    assert!(Trial::of(plugin).verdict(&nodes_and_class(), &pod, "plain").is_err());
}

#[test]
fn a_class_that_provides_a_requested_resource_wakes_the_pod() {
    let typed = |class: &Value| custom::<DeviceClass>(class);
    let (gpus, other) = (typed(&class(GPU)), typed(&class("example.com/other")));
    let pod = |resource: &str| pod("p").request(resource, "1").info();
    let own_name = format!("{CLASS_PREFIX}of-gpus");
    for (what, resource, old, new, expected) in [
        ("created", GPU, None, &gpus, Hint::Queue),
        ("created with another resource", GPU, None, &other, Hint::Skip),
        ("created under the requested name", own_name.as_str(), None, &other, Hint::Queue),
        ("provides it now", GPU, Some(&other), &gpus, Hint::Queue),
        ("provides it as before", GPU, Some(&gpus), &gpus, Hint::Skip),
        ("provides it no longer", GPU, Some(&gpus), &other, Hint::Skip),
        ("changed under the requested name", own_name.as_str(), Some(&other), &gpus, Hint::Skip),
    ] {
        assert_eq!(trial().custom_hint(&pod(resource), old, Some(new)), Some(expected), "{what}");
    }
}

#[test]
fn a_node_without_the_resource_may_help_if_a_device_class_provides_it() {
    let nodes = nodes_and_class();
    let small = Arc::new(node("new").allocatable("10m", "20", 32).build());
    let event = ClusterEvent::new(EventResource::Node, Action::ADD);
    let change = Change::Node { old: None, new: Some(&small) };
    for (resource, expected) in [(GPU, Hint::Queue), ("example.com/other", Hint::Skip)] {
        let pod = pod("p").request(resource, "1").info();
        assert_eq!(
            trial().hint_with_objects(nodes.objects(), event, &pod, &change),
            Some(expected),
            "{resource}"
        );
    }
}
