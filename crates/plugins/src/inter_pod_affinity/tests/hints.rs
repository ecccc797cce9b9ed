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
    after_pod_in(Release::V1_36, waiting, old, new)
}

fn after_pod_in(
    release: Release,
    waiting: PodBuilder,
    old: Option<PodBuilder>,
    new: Option<PodBuilder>,
) -> Hint {
    let action = match (&old, &new) {
        (None, _) => Action::ADD,
        (_, None) => Action::DELETE,
        _ => Action::UPDATE_POD_LABEL,
    };
    let (old, new) = (old.map(PodBuilder::build), new.map(PodBuilder::build));
    let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
    let event = ClusterEvent::new(EventResource::AssignedPod, action);
    trial_in(release).hint(event, &waiting.info(), &change).unwrap()
}

#[test]
fn another_pod_that_now_matches_all_affinity_terms_wakes_the_pod() {
    use Hint::{Queue, Skip};
    let wants = || pod("p").wants(scanned("region"));
    let wants_both = || pod("p").wants(term("h", &[has("aaa")])).wants(term("h", &[has("bbb")]));
    let nominated = |pod: PodBuilder| pending(pod).nominated_to("n");
    for (case, waiting, old, new, expected) in [
        ("added", wants(), None, service("scan"), Queue),
        ("added, nominated", wants(), None, nominated(service("scan")), Queue),
        ("added, neither bound nor nominated", wants(), None, pending(service("scan")), Skip),
        ("added, other labels", wants(), None, unlabelled(), Skip),
        ("added, other namespace", wants(), None, service("scan").namespace("ns"), Skip),
        ("added, one of two terms", wants_both(), None, unlabelled(), Skip),
        ("added, no terms", pod("p"), None, service("scan"), Skip),
        ("added, anti-affinity only", pod("p").shuns(scanned("region")), None, service("scan"), Skip),
        ("the other pod now matches", wants(), Some(unlabelled()), service("scan"), Queue),
        ("the other pod matched before", wants(), Some(service("value2")), service("scan"), Skip),
        ("the other pod no longer matches", wants(), Some(service("scan")), unlabelled(), Skip),
        ("the other pod never matches both terms", wants_both(), Some(unlabelled()), service("scan"), Skip),
        (
            "the other pod now matches both terms",
            wants_both(),
            Some(unlabelled()),
            unlabelled().label("bbb", ""),
            Queue,
        ),
        ("the other pod has no node", wants(), Some(pending(unlabelled())), pending(service("scan")), Skip),
        ("the other pod has just been bound", wants(), Some(pending(unlabelled())), service("scan"), Skip),
    ] {
        assert_eq!(after_pod(waiting, old, Some(new)), expected, "{case}");
    }
}

#[test]
fn another_pod_that_no_longer_matches_the_anti_affinity_wakes_the_pod() {
    use Hint::{Queue, Skip};
    let shuns = || pod("p").shuns(scanned("region"));
    let nominated = |pod: PodBuilder| pending(pod).nominated_to("n");
    for (case, waiting, old, new, expected) in [
        ("the other pod no longer matches", shuns(), service("scan"), Some(service("aaaa")), Queue),
        ("the other pod now matches", shuns(), service("bbb"), Some(service("scan")), Skip),
        ("the other pod still matches", shuns(), service("scan"), Some(service("value2")), Skip),
        ("deleted", shuns(), service("scan"), None, Queue),
        ("deleted, nominated", shuns(), nominated(service("scan")), None, Queue),
        ("deleted, neither bound nor nominated", shuns(), pending(service("scan")), None, Skip),
        ("deleted, other labels", shuns(), unlabelled(), None, Skip),
        ("deleted, nominated with other labels", shuns(), nominated(unlabelled()), None, Skip),
        ("deleted, affinity only", pod("p").wants(scanned("region")), service("scan"), None, Skip),
    ] {
        for release in Release::ALL {
            let (waiting, old, new) = (waiting.clone(), Some(old.clone()), new.clone());
            assert_eq!(after_pod_in(*release, waiting, old, new), expected, "{release} {case}");
        }
    }
}

#[test]
fn one_matching_anti_affinity_term_of_several_is_enough_from_1_37() {
    let two = |pod: PodBuilder| pod.shuns(scanned("region")).shuns(term("zone", &[has("x")]));
    let scan = || pod("p").label("service", "scan");
    for (case, waiting, old, new) in [
        ("deleted", two(pod("p")), service("scan"), None),
        ("relabeled", two(pod("p")), service("scan"), Some(unlabelled())),
        ("its own terms, deleted", scan(), two(pod("other").on("n")), None),
    ] {
        for (release, expected) in [(Release::V1_36, Hint::Skip), (Release::V1_37, Hint::Queue)] {
            let (waiting, old, new) = (waiting.clone(), Some(old.clone()), new.clone());
            assert_eq!(after_pod_in(release, waiting, old, new), expected, "{release} {case}");
        }
    }
}

#[test]
fn the_removal_of_a_pod_whose_anti_affinity_selects_this_pod_wakes_the_pod() {
    let shunning = || pod("other").on("n").shuns(scanned("region"));
    let scan = || pod("p").label("service", "scan");
    let deleted = |waiting, gone| after_pod(waiting, Some(gone), None);
    assert_eq!(deleted(scan(), shunning()), Hint::Queue);
    assert_eq!(deleted(pod("p").label("service", "foo"), shunning()), Hint::Skip);
    let apart = pod("p").label("service", "foo").shuns(scanned("region"));
    assert_eq!(deleted(apart, shunning().label("service", "foo")), Hint::Skip, "neither selects the other");
    assert_eq!(deleted(scan().namespace("ns"), shunning()), Hint::Skip);
    assert_eq!(deleted(scan(), pod("other").on("n").dislikes(1, scanned("region"))), Hint::Skip);
}

#[test]
fn new_labels_of_the_pod_itself_wake_the_pod() {
    let (old, new) = (pod("p").label("foo", "bar").build(), pod("p").label("foo", "baz").build());
    for resource in [EventResource::UnschedulablePod, EventResource::TargetPod] {
        let event = ClusterEvent::new(resource, Action::UPDATE_POD_LABEL);
        let change = Change::Pod { old: Some(&old), new: Some(&new) };
        assert_eq!(trial().hint(event, &pod("p").info(), &change), Some(Hint::Queue), "{resource}");
    }
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
fn a_node_that_enters_an_affinity_domain_or_leaves_an_anti_affinity_domain_wakes_the_pod() {
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
