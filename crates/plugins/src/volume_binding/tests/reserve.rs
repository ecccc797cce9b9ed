use std::sync::Arc;

use harbormaster_framework::cycle::Placement;
use harbormaster_testkit::{node, remove_custom};

use super::*;

fn waiting(claims: &[&str], volumes: &[Value]) -> Cluster {
    let mut world = world([node("a").label("zone", "a"), node("b").label("zone", "b")]);
    set_custom::<PersistentVolumeClaim>(&mut world, claims.iter().map(|name| claim(name, LOCAL, &json!({}))));
    set_custom::<PersistentVolume>(&mut world, volumes.iter().cloned());
    world
}

fn reserve(world: &mut Cluster, pod: &Arc<PodInfo>, node: &str) -> Placement {
    trial().reserve(world, pod, node).unwrap()
}

fn named(name: &str, claims: &[&str]) -> Arc<PodInfo> {
    claims.iter().fold(pod(name), |pod, claim| pod.volume(VolumeSource::Claim((*claim).into()))).info()
}

fn claimed_by(world: &Cluster, volume: &str) -> String {
    let volume = world.watched::<PersistentVolume>().get("", volume).unwrap();
    volume.claim_ref.as_ref().map_or(String::new(), |claimed| format!("{} {}", claimed.name, claimed.uid))
}

fn selected_node(world: &Cluster, name: &str) -> String {
    let claim = world.watched::<PersistentVolumeClaim>().get("default", name).unwrap();
    claim::selected_node(claim).map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_chosen_volume_is_taken_for_the_next_pod_until_it_is_released() {
    let mut world = waiting(&["c", "d"], &[volume("v", &json!({}))]);
    let placement = reserve(&mut world, &named("p", &["c"]), "a");
    assert_eq!(claimed_by(&world, "v"), "c uid-c");
    assert_eq!(rejection_on(&world, user(&["d"]), "a"), VOLUME);
    assert!(trial().unreserve(&mut world, &placement).is_empty(), "written changes stay");
    assert_eq!(claimed_by(&world, "v"), "");
    assert_eq!(rejection_on(&world, user(&["d"]), "a"), "");
}

#[test]
fn a_selected_node_counts_for_the_next_pod_until_it_is_released() {
    let mut world = waiting(&[], &[]);
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", "made", &json!({}))]);
    let placement = reserve(&mut world, &named("p", &["c"]), "a");
    assert_eq!(selected_node(&world, "c"), "a");
    assert_eq!(["a", "b"].map(|node| rejection_on(&world, user(&["c"]), node)), ["", VOLUME]);
    trial().unreserve(&mut world, &placement);
    assert_eq!(selected_node(&world, "c"), "");
}

#[test]
fn a_decision_survives_unrelated_changes() {
    let mut world = waiting(&["c"], &[volume("v", &json!({}))]);
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("made", "made", &json!({}))]);
    reserve(&mut world, &named("p", &["c", "made"]), "a");
    let newer = json!({"metadata": {"resourceVersion": "8", "labels": {"a": "b"}}});
    set_custom::<PersistentVolume>(&mut world, [volume("v", &newer)]);
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("made", "made", &newer)]);
    assert_eq!((claimed_by(&world, "v").as_str(), selected_node(&world, "made").as_str()), ("c uid-c", "a"));
}

#[test]
fn a_decision_gives_way_to_the_objects_of_the_api_server() {
    let claimed = |name: &str, uid: &str| json!({"spec": {"claimRef": {"namespace": "default", "name": name, "uid": uid}}});
    for (what, volume_now, expected) in [
        ("written", volume("v", &claimed("c", "uid-c")), ["c uid-c", ""]),
        ("claimed by another", volume("v", &claimed("d", "uid-d")), ["d uid-d", ""]),
        ("set aside for another", volume("v", &claimed("d", "")), ["d ", ""]),
        ("claimed by an older claim of that name", volume("v", &claimed("c", "uid-old")), ["c uid-old", ""]),
        ("set aside for the claim", volume("v", &claimed("c", "")), ["c uid-c", "c uid-c"]),
        ("deleted and recreated", volume("v", &json!({"metadata": {"uid": "new"}})), ["", ""]),
    ] {
        let mut world = waiting(&["c", "d"], &[volume("v", &json!({}))]);
        reserve(&mut world, &named("p", &["c"]), "a");
        set_custom::<PersistentVolume>(&mut world, [volume_now]);
        let first = claimed_by(&world, "v");
        set_custom::<PersistentVolume>(&mut world, [volume("v", &json!({}))]);
        assert_eq!([first.as_str(), claimed_by(&world, "v").as_str()], expected, "{what}");
    }
    let annotated = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
    for (what, claim_now, expected) in [
        ("written", claim("c", "made", &annotated("a")), ["a", ""]),
        ("another node", claim("c", "made", &annotated("b")), ["b", ""]),
        ("bound meanwhile", claim("c", "made", &json!({"spec": {"volumeName": "v"}})), ["", ""]),
        ("deleted and recreated", claim("c", "made", &json!({"metadata": {"uid": "new"}})), ["", ""]),
    ] {
        let mut world = waiting(&[], &[]);
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", "made", &json!({}))]);
        reserve(&mut world, &named("p", &["c"]), "a");
        set_custom::<PersistentVolumeClaim>(&mut world, [claim_now]);
        let first = selected_node(&world, "c");
        set_custom::<PersistentVolumeClaim>(&mut world, [claim("c", "made", &json!({}))]);
        assert_eq!([first.as_str(), selected_node(&world, "c").as_str()], expected, "{what}");
    }
}

#[test]
fn a_volume_that_disappears_and_comes_back_is_free() {
    let mut world = waiting(&["c"], &[volume("v", &json!({}))]);
    reserve(&mut world, &named("p", &["c"]), "a");
    remove_custom::<PersistentVolume>(&mut world, "", "v");
    set_custom::<PersistentVolume>(&mut world, [volume("v", &json!({}))]);
    assert_eq!(claimed_by(&world, "v"), "");
}

#[test]
fn two_pods_with_one_claim_go_where_its_volume_was_chosen() {
    let local = |name: &str, zone: &str| volume(name, &on("zone", zone));
    let mut world = waiting(&["shared"], &[local("v", "a"), local("w", "b")]);
    reserve(&mut world, &named("p", &["shared"]), "b");
    assert_eq!(["a", "b"].map(|node| rejection_on(&world, user(&["shared"]), node)), [VOLUME, ""]);
    reserve(&mut world, &named("q", &["shared"]), "b");
    assert_eq!(
        (claimed_by(&world, "v").as_str(), claimed_by(&world, "w").as_str()),
        ("", "shared uid-shared")
    );
}

#[test]
fn prebind_has_nothing_to_do_for_pods_without_waiting_claims() {
    let mut world = waiting(&["c"], &[volume("v", &json!({}))]);
    set_custom::<PersistentVolumeClaim>(&mut world, [bound_claim("bound", "w")]);
    set_custom::<PersistentVolume>(
        &mut world,
        [volume("w", &json!({"spec": {"claimRef": {"name": "bound"}}}))],
    );
    for (claims, expected) in [
        (&[][..], PreFlight::NothingToDo),
        (&["bound"], PreFlight::NothingToDo),
        (&["bound", "c"], PreFlight::Work { parallel: true }),
    ] {
        let placement = reserve(&mut world, &named("p", claims), "a");
        assert_eq!(plugin().pre_flight(&placement).unwrap(), expected, "{claims:?}");
        trial().unreserve(&mut world, &placement);
    }
}

#[test]
fn a_node_that_does_not_fit_is_not_reserved() {
    let mut world = waiting(&["c"], &[volume("v", &on("zone", "a"))]);
    let refused = trial().reserve(&mut world, &named("p", &["c"]), "b").unwrap_err();
    assert!(refused.to_string().contains(VOLUME), "{refused}");
    assert_eq!(claimed_by(&world, "v"), "");
}
