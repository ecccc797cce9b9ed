use harbormaster_api::pod::VolumeSource;
use harbormaster_framework::events::ClusterEvent;
use harbormaster_testkit::{
    NodeBuilder, PodBuilder, Trial, batch_equals_single, cluster, custom, node, pod, random::Dice, rejection,
    set_custom,
};
use serde_json::{Value, json};

use super::*;

const REASON_ZONE: &str = "node(s) had no available volume zone";

fn claims(names: &[&str]) -> PodBuilder {
    names.iter().fold(pod("p"), |pod, name| pod.volume(VolumeSource::Claim((*name).into())))
}

fn claim(name: &str, volume: &str, class: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume, "storageClassName": class},
    })
}

fn volume(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
    json!({"metadata": {"name": name, "labels": labels}})
}

fn class(name: &str, mode: Option<&str>) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode})
}

/// A cluster with a claim "c" that is bound to a volume "v" with these labels.
fn bound(nodes: impl IntoIterator<Item = NodeBuilder>, labels: &[(&str, &str)]) -> Cluster {
    let mut nodes = cluster(nodes, []);
    set_custom::<PersistentVolumeClaim>(&mut nodes, [claim("c", "v", "")]);
    set_custom::<PersistentVolume>(&mut nodes, [volume("v", labels)]);
    set_custom::<StorageClass>(&mut nodes, []);
    nodes
}

#[test]
fn a_node_with_zone_labels_must_match_every_zone_label_of_a_volume() {
    const BETA: [&str; 2] = [LABEL_ZONE_BETA, LABEL_REGION_BETA];
    let none: &[(&str, &str)] = &[];
    for (on_volume, on_node, fits, why) in [
        (&[(LABEL_ZONE, "a")][..], &[(LABEL_ZONE, "a")][..], true, "same zone"),
        (&[(LABEL_ZONE, "a")], &[(LABEL_ZONE, "b")], false, "other zone"),
        (&[(LABEL_ZONE, "a")], none, true, "a node without any zone label accepts all volumes"),
        (
            &[(LABEL_ZONE, "a")],
            &[(LABEL_REGION, "r")],
            false,
            "a node with another zone or region label rejects the volume",
        ),
        (&[(LABEL_ZONE, "a"), (LABEL_REGION, "r")], &[(LABEL_ZONE, "a")], false, "the region is missing"),
        (&[(LABEL_ZONE, "a__b")], &[(LABEL_ZONE, "b")], true, "one of several zones"),
        (&[(LABEL_ZONE, "a __ b")], &[(LABEL_ZONE, "b")], true, "spaces around zones"),
        (&[(LABEL_ZONE, "a__")], &[(LABEL_ZONE, "z")], true, "an empty zone: the label does not count"),
        (&[(BETA[0], "a")], &[(LABEL_ZONE, "a")], true, "the stable label replaces the beta label"),
        (
            &[(BETA[0], "a")],
            &[(LABEL_ZONE, "a"), (BETA[0], "b")],
            false,
            "the node's beta label takes precedence over its stable label",
        ),
        (
            &[(LABEL_ZONE, "a")],
            &[(BETA[0], "a")],
            false,
            "a node's beta label does not stand in for the stable label",
        ),
        (
            &[(BETA[1], "r")],
            &[(LABEL_REGION, "r")],
            true,
            "the stable region label replaces the beta region label",
        ),
    ] {
        let labelled = on_node.iter().fold(node("n"), |node, (key, value)| node.label(key, value));
        let nodes = bound([labelled], on_volume);
        let expected = if fits { Ok(()) } else { Err(Reject::unresolvable(REASON_ZONE)) };
        assert_eq!(Trial::of(VolumeZone).verdict(&nodes, &claims(&["c"]).info(), "n"), expected, "{why}");
    }
}

#[test]
fn a_claim_without_a_volume_is_accepted_only_if_its_class_waits_for_the_pod() {
    let mut nodes = cluster([node("n")], []);
    set_custom::<PersistentVolume>(&mut nodes, []);
    set_custom::<StorageClass>(
        &mut nodes,
        [
            class("waits", Some("WaitForFirstConsumer")),
            class("immediate", Some("Immediate")),
            class("unset", None),
        ],
    );
    set_custom::<PersistentVolumeClaim>(
        &mut nodes,
        [
            claim("gone", "v", ""),
            claim("plain", "", ""),
            claim("classless", "", "none"),
            claim("waits", "", "waits"),
            claim("immediate", "", "immediate"),
            claim("unset", "", "unset"),
        ],
    );
    for (name, expected) in [
        ("waits", None),
        ("", Some("PersistentVolumeClaim had no name")),
        ("missing", Some("persistentvolumeclaim \"missing\" not found")),
        ("gone", Some("persistentvolume \"v\" not found")),
        ("plain", Some("PersistentVolumeClaim had no pv name and storageClass name")),
        ("classless", Some("storageclass.storage.k8s.io \"none\" not found")),
        ("immediate", Some("PersistentVolume had no name")),
        ("unset", Some("VolumeBindingMode not set for StorageClass \"unset\"")),
    ] {
        let answer = Trial::of(VolumeZone).pre_filter(&nodes, &claims(&[name]).info());
        match expected {
            None => assert!(matches!(answer, Ok(PreFiltered::Skip)), "{name:?}"),
            Some(why) => assert_eq!(answer.map_err(rejection).unwrap_err(), Reject::unresolvable(why)),
        }
    }
}

#[test]
fn pods_without_zoned_volumes_are_skipped() {
    let nodes = bound([node("n")], &[("other", "label")]);
    let skips = |pod: PodBuilder| {
        matches!(Trial::of(VolumeZone).pre_filter(&nodes, &pod.info()), Ok(PreFiltered::Skip))
    };
    assert!(skips(pod("p")) && skips(claims(&["c"])));
    assert!(skips(pod("p").volume(VolumeSource::Ephemeral)), "ephemeral volumes are not checked");
}

#[test]
fn the_pod_is_woken_only_by_changes_that_may_help_it() {
    let waiting = claims(&["c"]).info();
    let trial = Trial::of(VolumeZone);
    for (mode, expected) in
        [(Some("WaitForFirstConsumer"), Hint::Queue), (Some("Immediate"), Hint::Skip), (None, Hint::Skip)]
    {
        let new = custom::<StorageClass>(&class("s", mode));
        assert_eq!(trial.custom_hint(&waiting, None, Some(&new)), Some(expected));
        assert_eq!(trial.custom_hint(&waiting, Some(&new), Some(&new)), None, "changes are not registered");
    }
    for (name, expected) in [("c", Hint::Queue), ("d", Hint::Skip)] {
        let new = custom::<PersistentVolumeClaim>(&claim(name, "v", ""));
        assert_eq!(trial.custom_hint(&waiting, None, Some(&new)), Some(expected));
        assert_eq!(trial.custom_hint(&waiting, Some(&new), Some(&new)), Some(expected));
    }
    let old = custom::<PersistentVolume>(&volume("v", &[(LABEL_ZONE, "a__b")]));
    assert_eq!(trial.custom_hint(&waiting, None, Some(&old)), Some(Hint::Queue));
    for (labels, expected) in [
        (&[(LABEL_ZONE, "b__a"), ("more", "x")][..], Hint::Skip),
        (&[(LABEL_ZONE, "a")], Hint::Queue),
        (&[], Hint::Queue),
    ] {
        let new = custom::<PersistentVolume>(&volume("v", labels));
        assert_eq!(trial.custom_hint(&waiting, Some(&old), Some(&new)), Some(expected), "{labels:?}");
    }
    for action in [Action::ADD, Action::UPDATE_NODE_LABEL] {
        let event = ClusterEvent::new(EventResource::Node, action);
        assert_eq!(trial.hint(event, &waiting, &Change::Other), Some(Hint::Queue));
    }
}

fn random_labels(dice: &mut Dice, values: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    let all = [LABEL_ZONE, LABEL_ZONE_BETA, LABEL_REGION, LABEL_REGION_BETA];
    let some: Vec<_> = all.into_iter().filter(|_| dice.one_in(2)).collect();
    some.into_iter().map(|key| (key, dice.pick(values))).collect()
}

fn random_node(dice: &mut Dice, name: &str) -> NodeBuilder {
    let labels = random_labels(dice, &["a", "b", "c"]);
    labels.into_iter().fold(node(name), |node, (key, value)| node.label(key, value))
}

#[test]
fn batch_verdicts_equal_single_verdicts() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let nodes: Vec<_> = (0..6).map(|at| random_node(&mut dice, &format!("n{at}"))).collect();
        let world = bound(nodes, &random_labels(&mut dice, &["a", "a__b", "c", "b__"]));
        batch_equals_single(&Trial::of(VolumeZone), &world, &claims(&["c"]).info());
    }
}
