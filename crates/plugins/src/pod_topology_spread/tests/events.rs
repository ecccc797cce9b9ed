//! Queueing hints.

use harbormaster_framework::events::ClusterEvent;
use harbormaster_testkit::{tolerates, tolerates_all};

use super::*;

fn pod_hint(trial: &Trial, waiting: PodBuilder, old: Option<PodBuilder>, new: Option<PodBuilder>) -> Hint {
    let (old, new) = (old.map(PodBuilder::build), new.map(PodBuilder::build));
    let action = match (&old, &new) {
        (None, _) => Action::ADD,
        (_, None) => Action::DELETE,
        _ => Action::UPDATE_POD_LABEL,
    };
    let event = ClusterEvent::new(EventResource::AssignedPod, action);
    let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
    trial.hint(event, &waiting.info(), &change).unwrap()
}

#[test]
fn pods_that_a_constraint_selects_wake_the_pod_when_added_removed_or_relabeled() {
    use Hint::{Queue, Skip};
    let foo = || pod("o").label("foo", "").on("n");
    let bar = || pod("o").label("bar", "").on("n");
    let bare = || pod("o").on("n");
    let one = || spreading([hard(1, "zone")]);
    let two = || spreading([hard(1, "zone"), on_bar(hard(1, "node"))]);
    let unbound = || pod("o").label("foo", "");
    for (case, waiting, old, new, expected) in [
        ("added", one(), None, Some(foo()), Queue),
        ("added without a node", one(), None, Some(unbound()), Skip),
        ("added, nominated", one(), None, Some(unbound().nominated_to("n")), Queue),
        ("added in another namespace", one(), None, Some(foo().namespace("other")), Skip),
        ("added, not selected", one(), None, Some(bar()), Skip),
        ("added, selected by the second constraint", two(), None, Some(bar()), Queue),
        ("gone", one(), Some(foo()), None, Queue),
        ("gone, never bound", one(), Some(unbound()), None, Skip),
        ("gone, nominated and not selected", one(), Some(pod("o").nominated_to("n")), None, Skip),
        ("gone, not selected", one(), Some(bar()), None, Skip),
        ("never bound and changed", one(), Some(unbound()), Some(pod("o")), Skip),
        ("bound meanwhile", one(), Some(unbound()), Some(foo()), Skip),
        ("an unrelated label", one(), Some(foo()), Some(foo().label("x", "y")), Skip),
        ("the same labels", one(), Some(foo()), Some(foo()), Skip),
        ("selected now", one(), Some(bare()), Some(foo()), Queue),
        ("no longer selected", one(), Some(foo()), Some(bare()), Queue),
        ("another value", one(), Some(foo()), Some(foo().label("foo", "x")), Queue),
        (
            "the second constraint now selects the other pod",
            two(),
            Some(foo()),
            Some(foo().label("bar", "")),
            Queue,
        ),
        ("selected by neither, as before", two(), Some(bare()), Some(bare().label("x", "")), Skip),
        ("a soft constraint", spreading([soft(1, "zone")]), None, Some(foo()), Skip),
        ("an empty selector", spreading([on_everything(hard(1, "zone"))]), None, Some(bar()), Queue),
        ("an absent selector", spreading([on_nothing(hard(1, "zone"))]), None, Some(foo()), Skip),
        ("a pod without constraints", pod("p"), None, Some(foo()), Skip),
    ] {
        assert_eq!(pod_hint(&trial(), waiting, old, new), expected, "{case}");
    }
}

#[test]
fn a_pod_wakes_when_it_tolerates_an_honored_taint_or_stops_matching_itself() {
    let own = |constraint| spreading([constraint]);
    let plain = || hard(1, "zone");
    let tolerant = |pod: PodBuilder| pod.tolerate(tolerates("k", ""));
    for (case, constraint, old, new, expected) in [
        (
            "a toleration, taints honored",
            honoring_taints(plain()),
            own(plain()),
            tolerant(own(plain())),
            Hint::Queue,
        ),
        ("a toleration, taints ignored", plain(), own(plain()), tolerant(own(plain())), Hint::Skip),
        (
            "as many tolerations, but different ones",
            honoring_taints(plain()),
            own(plain()).tolerate(tolerates_all()),
            tolerant(own(plain())),
            Hint::Queue,
        ),
        ("the pod no longer matches itself", plain(), own(plain()), pod("p"), Hint::Queue),
        ("an unrelated label", plain(), own(plain()), own(plain()).label("x", "y"), Hint::Skip),
    ] {
        let waiting = own(constraint).info();
        let (old, new) = (old.build(), new.build());
        for resource in [EventResource::UnschedulablePod, EventResource::TargetPod] {
            let event = ClusterEvent::new(resource, Action::UPDATE_POD_TOLERATION);
            let change = Change::Pod { old: Some(&old), new: Some(&new) };
            assert_eq!(trial().hint(event, &waiting, &change), Some(expected), "{case}");
        }
    }
}

#[test]
fn nodes_with_all_keys_wake_the_pod_when_added_removed_relabeled_or_tainted() {
    use Hint::{Queue, Skip};
    let zone = |zone: &str| node("n").label("zone", zone);
    let both = |zone: &str, rack: &str| node("n").label("zone", zone).label("rack", rack);
    let tainted = |node: NodeBuilder| node.taint("k", "v", "NoSchedule");
    let one = || spreading([hard(1, "zone")]);
    let two = || spreading([hard(1, "zone"), hard(1, "rack")]);
    for (case, waiting, old, new, expected) in [
        ("added", one(), None, Some(zone("1")), Queue),
        ("added without the key", one(), None, Some(node("n")), Skip),
        ("added with one key of two", two(), None, Some(zone("1")), Skip),
        ("added with both keys", two(), None, Some(both("1", "1")), Queue),
        ("gone", one(), Some(zone("1")), None, Queue),
        ("gone, without the key", one(), Some(node("n")), None, Skip),
        ("another value", one(), Some(zone("1")), Some(zone("2")), Queue),
        ("an unrelated label", one(), Some(zone("1")), Some(zone("1").label("x", "")), Skip),
        ("no key before or after", one(), Some(node("n")), Some(node("n").label("x", "")), Skip),
        ("the key appears", one(), Some(node("n")), Some(zone("1")), Queue),
        ("the key vanishes", one(), Some(zone("1")), Some(node("n")), Queue),
        ("another value, one key of two", two(), Some(zone("1")), Some(zone("2")), Skip),
        ("another value, both keys", two(), Some(both("1", "1")), Some(both("1", "2")), Queue),
        ("other taints", one(), Some(zone("1")), Some(tainted(zone("1"))), Queue),
        ("other taints, one key of two", two(), Some(zone("1")), Some(tainted(zone("1"))), Skip),
    ] {
        let (old, new) = (old.map(NodeBuilder::build), new.map(NodeBuilder::build));
        let action = match (&old, &new) {
            (None, _) => Action::ADD,
            (_, None) => Action::DELETE,
            _ => Action::UPDATE_NODE_LABEL,
        };
        let event = ClusterEvent::new(EventResource::Node, action);
        let change = Change::Node { old: old.as_ref(), new: new.as_ref() };
        assert_eq!(trial().hint(event, &waiting.info(), &change), Some(expected), "{case}");
    }
}

#[test]
fn under_hard_defaults_any_pod_of_the_namespace_wakes_the_pod() {
    let trial = Trial::of(listing(
        json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
    ));
    let other = || pod("o").on("n");
    for (case, old, new, expected) in [
        ("added", None, Some(other()), Hint::Queue),
        ("gone", Some(other()), None, Hint::Queue),
        ("added in another namespace", None, Some(other().namespace("other")), Hint::Skip),
        ("other labels", Some(other()), Some(other().label("x", "")), Hint::Queue),
        ("the same labels", Some(other()), Some(other()), Hint::Skip),
    ] {
        assert_eq!(pod_hint(&trial, pod("p"), old, new), expected, "{case}");
    }
}
