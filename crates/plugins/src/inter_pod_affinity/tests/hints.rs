//! Queueing hints.

use harbormaster_framework::events::ClusterEvent;
use harbormaster_testkit::{NodeBuilder, node, pod};

use super::*;

fn scanned(key: &str) -> PodAffinityTerm {
    term(key, &[one_of("service", &["scan", "value2"])])
}

fn service(name: &str) -> PodBuilder {
    pod("other").on("n").label("service", name)
}

fn unlabelled() -> PodBuilder {
    pod("other").on("n").label("aaa", "a")
}

fn pending(pod: PodBuilder) -> PodBuilder {
    pod.pod(|p| p.node_name = None)
}

fn after_pod(waiting: PodBuilder, old: Option<PodBuilder>, new: Option<PodBuilder>) -> Hint {
    let action = match (&old, &new) {
        (None, _) => Action::ADD,
        (_, None) => Action::DELETE,
        _ => Action::UPDATE_POD_LABEL,
    };
    let (old, new) = (old.map(PodBuilder::build), new.map(PodBuilder::build));
    let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
    trial().hint(ClusterEvent::new(EventResource::AssignedPod, action), &waiting.info(), &change).unwrap()
}

#[test]
fn a_pod_that_now_matches_all_affinity_terms_helps() {
    use Hint::{Queue, Skip};
    let wants = || pod("p").wants(scanned("region"));
    let wants_both = || pod("p").wants(term("h", &[has("aaa")])).wants(term("h", &[has("bbb")]));
    let nominated = |pod: PodBuilder| pending(pod).nominated_to("n");
    for (case, waiting, old, new, expected) in [
        ("added", wants(), None, service("scan"), Queue),
        ("added, nominated", wants(), None, nominated(service("scan")), Queue),
        ("added, neither", wants(), None, pending(service("scan")), Skip),
        ("added, other labels", wants(), None, unlabelled(), Skip),
        ("added, other namespace", wants(), None, service("scan").namespace("ns"), Skip),
        ("added, one of two terms", wants_both(), None, unlabelled(), Skip),
        ("added, no terms", pod("p"), None, service("scan"), Skip),
        ("added, anti-affinity only", pod("p").shuns(scanned("region")), None, service("scan"), Skip),
        ("now it matches", wants(), Some(unlabelled()), service("scan"), Queue),
        ("it matched before", wants(), Some(service("value2")), service("scan"), Skip),
        ("it no longer matches", wants(), Some(service("scan")), unlabelled(), Skip),
        ("neither before nor now", wants_both(), Some(unlabelled()), service("scan"), Skip),
        ("now both terms", wants_both(), Some(unlabelled()), unlabelled().label("bbb", ""), Queue),
        ("it has no node", wants(), Some(pending(unlabelled())), pending(service("scan")), Skip),
        ("it has just been bound", wants(), Some(pending(unlabelled())), service("scan"), Skip),
    ] {
        assert_eq!(after_pod(waiting, old, Some(new)), expected, "{case}");
    }
}

#[test]
fn a_pod_that_no_longer_matches_all_anti_affinity_terms_helps() {
    use Hint::{Queue, Skip};
    let shuns = || pod("p").shuns(scanned("region"));
    let shuns_two = || shuns().shuns(term("zone", &[has("x")]));
    let nominated = |pod: PodBuilder| pending(pod).nominated_to("n");
    for (case, waiting, old, new, expected) in [
        ("it no longer matches", shuns(), service("scan"), Some(service("aaaa")), Queue),
        ("now it matches", shuns(), service("bbb"), Some(service("scan")), Skip),
        ("it still matches", shuns(), service("scan"), Some(service("value2")), Skip),
        ("deleted", shuns(), service("scan"), None, Queue),
        ("deleted, nominated", shuns(), nominated(service("scan")), None, Queue),
        ("deleted, neither", shuns(), pending(service("scan")), None, Skip),
        ("deleted, other labels", shuns(), unlabelled(), None, Skip),
        ("deleted, nominated with other labels", shuns(), nominated(unlabelled()), None, Skip),
        ("deleted, but only one of two terms matched", shuns_two(), service("scan"), None, Skip),
        ("deleted, affinity only", pod("p").wants(scanned("region")), service("scan"), None, Skip),
    ] {
        assert_eq!(after_pod(waiting, Some(old), new), expected, "{case}");
    }
}

#[test]
fn the_end_of_a_pod_whose_anti_affinity_selects_this_pod_helps() {
    let shunning = || pod("other").on("n").shuns(scanned("region"));
    let scan = || pod("p").label("service", "scan");
    let deleted = |waiting, gone| after_pod(waiting, Some(gone), None);
    assert_eq!(deleted(scan(), shunning()), Hint::Queue);
    assert_eq!(deleted(pod("p").label("service", "foo"), shunning()), Hint::Skip);
    let apart = pod("p").label("service", "foo").shuns(scanned("region"));
    assert_eq!(deleted(apart, shunning().label("service", "foo")), Hint::Skip, "no anti-affinity either way");
    assert_eq!(deleted(scan(), shunning().shuns(term("zone", &[has("x")]))), Hint::Skip, "all terms or none");
    assert_eq!(deleted(scan().namespace("ns"), shunning()), Hint::Skip);
    assert_eq!(deleted(scan(), pod("other").on("n").dislikes(1, scanned("region"))), Hint::Skip);
}

#[test]
fn new_labels_of_the_pod_itself_help() {
    let own = |value: &str| Some(pod("p").label("foo", value));
    assert_eq!(after_pod(pod("p").label("foo", "baz"), own("bar"), own("baz")), Hint::Queue);
    let other = |value: &str| Some(pod("other").label("foo", value));
    assert_eq!(after_pod(pod("p").label("foo", "baz"), other("bar"), other("baz")), Hint::Skip);
}

/// As in kube-scheduler, hints neither resolve namespace selectors nor look up the labels of the other pod's namespace.
#[test]
fn a_namespace_selector_that_requires_labels_matches_nothing_in_hints() {
    let added = |by_labels: &[Requirement]| {
        let waiting = pod("p").wants(within(scanned("region"), &["listed"], Some(by_labels)));
        ["a1", "listed", "default"]
            .map(|ns| after_pod(waiting.clone(), None, Some(service("scan").namespace(ns))))
    };
    assert_eq!(added(&[one_of("team", &["a"])]), [Hint::Skip, Hint::Queue, Hint::Skip]);
    assert_eq!(added(&[]), [Hint::Queue; 3]);
    assert_eq!(added(&[none_of("team", &["a"])]), [Hint::Queue; 3]);
}

#[test]
fn terms_with_syntax_errors_requeue_the_pod() {
    let bad = || term("zone", &[one_of("service", &["{{.bad-value.}}"])]);
    let queued = |waiting: PodBuilder| after_pod(waiting, None, Some(unlabelled()));
    assert_eq!(queued(pod("p").wants(bad())), Hint::Queue);
    assert_eq!(queued(pod("p").shuns(bad())), Hint::Queue);
    assert_eq!(queued(pod("p").likes(1, bad())), Hint::Skip, "preferences are not read");
    let gone = pod("other").on("n").shuns(bad());
    assert_eq!(after_pod(pod("p"), Some(gone), None), Hint::Queue);
}

fn after_node(waiting: PodBuilder, old: Option<NodeBuilder>, new: NodeBuilder) -> Hint {
    let action = if old.is_some() { Action::UPDATE_NODE_LABEL } else { Action::ADD };
    let (old, new) = (old.map(NodeBuilder::build), new.build());
    let change = Change::Node { old: old.as_ref(), new: Some(&new) };
    trial().hint(ClusterEvent::new(EventResource::Node, action), &waiting.info(), &change).unwrap()
}

#[test]
fn a_node_that_joins_or_changes_a_domain_helps() {
    use Hint::{Queue, Skip};
    let wants = || pod("p").wants(scanned("zone"));
    let shuns = || pod("p").shuns(scanned("zone"));
    let zone = |zone: &str| node("n").label("zone", zone);
    let other = |value: &str| node("n").label("aaa", value);
    let unrelated = || zone("z1").label("unrelated", "x");
    for (case, waiting, old, new, expected) in [
        ("affinity, new with the key", wants(), None, zone("z1"), Queue),
        ("affinity, new without the key", wants(), None, other("a"), Skip),
        ("affinity, other labels", wants(), Some(other("a")), other("b"), Skip),
        ("affinity, one more label", wants(), Some(zone("z1")), unrelated(), Skip),
        ("affinity, another value", wants(), Some(zone("z1")), zone("z2"), Queue),
        ("affinity, the key appears", wants(), Some(other("a")), zone("z1"), Queue),
        ("affinity, the key disappears", wants(), Some(zone("z1")), other("a"), Skip),
        ("anti-affinity, new with the key", shuns(), None, zone("z1"), Queue),
        ("anti-affinity, new without the key", shuns(), None, node("n"), Queue),
        ("anti-affinity, one more label", shuns(), Some(zone("z1")), unrelated(), Skip),
        ("anti-affinity, another value", shuns(), Some(zone("z1")), zone("z2"), Queue),
        ("anti-affinity, the key appears", shuns(), Some(other("a")), zone("z1"), Skip),
        ("anti-affinity, the key disappears", shuns(), Some(zone("z1")), other("a"), Queue),
        ("no terms", pod("p"), None, zone("z1"), Skip),
        ("preferences only", pod("p").likes(1, scanned("zone")), None, zone("z1"), Skip),
        ("any of several terms", wants().wants(scanned("rack")), None, zone("z1"), Queue),
    ] {
        assert_eq!(after_node(waiting, old, new), expected, "{case}");
    }
}

#[test]
fn other_events_are_not_registered() {
    let waiting = pod("p").info();
    let hint = |resource, action| trial().hint(ClusterEvent::new(resource, action), &waiting, &Change::Other);
    assert_eq!(hint(EventResource::AssignedPod, Action::UPDATE_POD_SCALE_DOWN), None);
    assert_eq!(hint(EventResource::Node, Action::UPDATE_NODE_ALLOCATABLE), None);
    assert_eq!(hint(EventResource::Node, Action::DELETE), None);
}
