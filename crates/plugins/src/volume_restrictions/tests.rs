use harbormaster_api::pod::VolumeSource;
use harbormaster_framework::{events::ClusterEvent, guard::Stopped, index::IndexKind};
use harbormaster_testkit::{
    PodBuilder, Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, custom, node, pod,
    random::Dice, rejection, set_custom,
};
use serde_json::{Value, json};

use super::*;

fn trial() -> Trial {
    Trial::of(VolumeRestrictions)
}

fn gce(name: &str, read_only: bool) -> VolumeSource {
    VolumeSource::InTree(InTreeDisk::GcePersistentDisk { name: name.into(), read_only })
}

fn ebs(id: &str) -> VolumeSource {
    VolumeSource::InTree(InTreeDisk::AwsElasticBlockStore { volume_id: id.into() })
}

fn iscsi(iqn: &str, read_only: bool) -> VolumeSource {
    VolumeSource::InTree(InTreeDisk::Iscsi { iqn: iqn.into(), read_only })
}

fn rbd(monitors: &[&str], pool: &str, image: &str, read_only: bool) -> VolumeSource {
    let monitors = monitors.iter().map(|monitor| Str::from(*monitor)).collect();
    VolumeSource::InTree(InTreeDisk::Rbd { monitors, pool: pool.into(), image: image.into(), read_only })
}

fn cinder() -> VolumeSource {
    VolumeSource::InTree(InTreeDisk::Cinder { volume_id: "v".into() })
}

fn claims(name: &str, claims: &[&str]) -> PodBuilder {
    claims.iter().fold(pod(name), |pod, claim| pod.volume(VolumeSource::Claim((*claim).into())))
}

fn claim(namespace: &str, name: &str, mode: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"accessModes": [mode]}})
}

fn with_claims(nodes: &mut Cluster, claims: impl IntoIterator<Item = Value>) {
    set_custom::<PersistentVolumeClaim>(nodes, claims);
}

#[test]
fn pods_share_gce_iscsi_and_rbd_disks_only_for_reading_and_ebs_volumes_never() {
    for (wanted, used, fits) in [
        (gce("a", false), gce("a", false), false),
        (gce("a", false), gce("b", false), true),
        (gce("a", true), gce("a", false), false),
        (gce("a", true), gce("a", true), true),
        (ebs("a"), ebs("a"), false),
        (ebs("a"), ebs("b"), true),
        (iscsi("a", false), iscsi("a", true), false),
        (iscsi("a", true), iscsi("a", true), true),
        (iscsi("a", false), iscsi("b", false), true),
        (rbd(&["a", "b"], "p", "i", false), rbd(&["b", "c"], "p", "i", false), false),
        (rbd(&["a"], "p", "i", false), rbd(&["c"], "p", "i", false), true),
        (rbd(&["a"], "p", "i", false), rbd(&["a"], "q", "i", false), true),
        (rbd(&["a"], "p", "i", false), rbd(&["a"], "p", "j", false), true),
        (rbd(&["a"], "p", "i", true), rbd(&["a"], "p", "i", true), true),
        (rbd(&["a"], "p", "i", true), rbd(&["a"], "p", "i", false), false),
        (gce("a", false), ebs("a"), true),
        (cinder(), cinder(), true),
    ] {
        let mut nodes = cluster([node("n"), node("free")], [pod("there").volume(used.clone()).on("n")]);
        with_claims(&mut nodes, []);
        let pod = pod("p").volume(wanted.clone()).info();
        let expected = if fits { Ok(()) } else { Err(Reject::evictable("node(s) had no available disk")) };
        assert_eq!(trial().verdict(&nodes, &pod, "n"), expected, "{wanted:?} {used:?}");
        assert_eq!(trial().verdict(&nodes, &pod, "free"), Ok(()));
        if !fits {
            assert_eq!(trial().verdict_without(&mut nodes, &pod, "n", &[("n", "there")]), Ok(()));
        }
    }
}

#[test]
fn a_single_pod_claim_in_use_rejects_all_nodes_so_that_eviction_is_tried_everywhere() {
    let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                  another pod";
    for (mode, fits) in [("ReadWriteOncePod", false), ("ReadWriteOnce", true), ("ReadWriteMany", true)] {
        let mut nodes = cluster([node("a"), node("b")], [claims("there", &["c"]).on("a")]);
        with_claims(&mut nodes, [claim("default", "c", mode)]);
        for node in ["a", "b"] {
            let expected = if fits { Ok(()) } else { Err(Reject::evictable(reason)) };
            assert_eq!(trial().verdict(&nodes, &claims("p", &["c"]).info(), node), expected, "{mode} {node}");
        }
    }
}

#[test]
fn two_single_pod_claims_in_use_conflict_twice_and_both_pods_must_go() {
    let mut nodes =
        cluster([node("a"), node("b")], [claims("one", &["c"]).on("a"), claims("two", &["d"]).on("b")]);
    with_claims(&mut nodes, ["c", "d"].map(|name| claim("default", name, "ReadWriteOncePod")));
    let pod = claims("p", &["c", "d"]).info();
    for (gone, fits) in
        [(vec![("a", "one")], false), (vec![("b", "two")], false), (vec![("a", "one"), ("b", "two")], true)]
    {
        let verdict = trial().verdict_without(&mut nodes, &pod, "a", &gone);
        assert_eq!(verdict.is_ok(), fits, "{gone:?}");
    }
}

#[test]
fn a_claim_counts_once_but_each_volume_that_leaves_with_a_pod_is_subtracted() {
    let mut nodes = cluster([node("a")], [claims("one", &["c"]).on("a"), claims("two", &["c"]).on("a")]);
    with_claims(&mut nodes, [claim("default", "c", "ReadWriteOncePod")]);
    let verdict = trial().verdict_without(&mut nodes, &claims("p", &["c"]).info(), "a", &[("a", "one")]);
    assert_eq!(verdict, Ok(()));
}

#[test]
fn what_if_questions_ignore_the_namespace_of_claims_as_in_kube_scheduler() {
    let elsewhere = claims("other", &["c"]).namespace("elsewhere").on("a");
    let mut nodes = cluster([node("a")], [claims("one", &["c"]).on("a"), elsewhere]);
    with_claims(&mut nodes, [claim("default", "c", "ReadWriteOncePod")]);
    let pod = claims("p", &["c"]).info();
    assert!(trial().verdict(&nodes, &pod, "a").is_err());
    assert_eq!(trial().verdict_without(&mut nodes, &pod, "a", &[("a", "other")]), Ok(()));
}

#[test]
fn pods_on_unknown_nodes_and_claims_of_other_namespaces_do_not_count() {
    let elsewhere = claims("other", &["c"]).namespace("elsewhere").on("a");
    let mut nodes = cluster([node("a")], [claims("lost", &["c"]).on("gone"), elsewhere]);
    with_claims(&mut nodes, [claim("default", "c", "ReadWriteOncePod")]);
    assert_eq!(trial().verdict(&nodes, &claims("p", &["c"]).info(), "a"), Ok(()));
}

#[test]
fn a_missing_claim_rejects_the_pod_and_no_eviction_helps() {
    let mut nodes = cluster([node("n")], []);
    with_claims(&mut nodes, [claim("other", "c", "ReadWriteOnce")]);
    let pod = claims("p", &["c"]).volume(gce("a", false)).info();
    let why = trial().pre_filter(&nodes, &pod).map_err(rejection).unwrap_err();
    assert_eq!(why, Reject::unresolvable("persistentvolumeclaim \"c\" not found"));
    let nameless: Stopped = trial().pre_filter(&nodes, &claims("p", &[""]).info()).unwrap_err();
    assert_eq!(rejection(nameless), Reject::unresolvable("persistentvolumeclaim \"\" not found"));
}

#[test]
fn pods_without_exclusive_disks_or_claims_in_use_are_skipped() {
    let mut nodes = cluster([node("n")], []);
    with_claims(&mut nodes, [claim("default", "c", "ReadWriteOncePod")]);
    let skips =
        |pod: PodBuilder| matches!(trial().pre_filter(&nodes, &pod.info()).unwrap(), PreFiltered::Skip);
    assert!(skips(pod("plain")) && skips(claims("first", &["c"])) && skips(pod("other").volume(cinder())));
    assert!(skips(pod("ephemeral").volume(VolumeSource::Ephemeral)), "ephemeral volumes are not checked");
    assert!(!skips(pod("disk").volume(ebs("a"))));
}

#[test]
fn deleting_a_pod_with_the_same_claim_or_a_conflicting_disk_wakes_pods_of_its_namespace() {
    let waiting = claims("p", &["c"]).volume(iscsi("i", true)).info();
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    for (gone, expected) in [
        (claims("same claim", &["b", "c"]), Hint::Queue),
        (claims("other claim", &["b"]), Hint::Skip),
        (claims("other namespace", &["c"]).namespace("other"), Hint::Skip),
        (pod("same disk").volume(iscsi("i", false)), Hint::Queue),
        (pod("also only reads").volume(iscsi("i", true)), Hint::Skip),
        (pod("no volumes"), Hint::Skip),
    ] {
        let gone = gone.on("n").build();
        let change = Change::Pod { old: Some(&gone), new: None };
        assert_eq!(trial().hint(event, &waiting, &change), Some(expected), "{}", gone.name);
    }
}

#[test]
fn a_pod_wakes_when_its_claim_or_any_node_is_created() {
    let waiting = claims("p", &["c"]).info();
    for (namespace, name, expected) in
        [("default", "c", Hint::Queue), ("default", "d", Hint::Skip), ("other", "c", Hint::Skip)]
    {
        let new = custom::<PersistentVolumeClaim>(&claim(namespace, name, "ReadWriteOnce"));
        assert_eq!(trial().custom_hint(&waiting, None, Some(&new)), Some(expected), "{namespace}/{name}");
        assert_eq!(trial().custom_hint(&waiting, Some(&new), Some(&new)), None, "changes are not registered");
    }
    let added = ClusterEvent::new(EventResource::Node, Action::ADD);
    assert_eq!(trial().hint(added, &waiting, &Change::Other), Some(Hint::Queue));
}

/// A volume that other random pods are also likely to have.
pub(crate) fn random_volume(dice: &mut Dice) -> VolumeSource {
    let id = dice.below(3).to_string();
    let read_only = dice.below(2) == 0;
    match dice.below(6) {
        0 => gce(&id, read_only),
        1 => ebs(&id),
        2 => iscsi(&id, read_only),
        3 => rbd(&[dice.pick(&["a", "b"]), dice.pick(&["c", "d"])], "p", &id, read_only),
        4 => VolumeSource::Ephemeral,
        _ => VolumeSource::Claim(id.as_str().into()),
    }
}

pub(crate) fn random_pod(dice: &mut Dice, name: &str) -> PodBuilder {
    (0..dice.below(4)).fold(pod(name), |pod, _| pod.volume(random_volume(dice)))
}

#[test]
fn batches_and_what_if_questions_agree_with_single_answers_in_random_clusters() {
    let mut rejected = 0;
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let bound: Vec<PodBuilder> = (0..24)
            .map(|at| random_pod(&mut dice, &format!("b{at}")).on(dice.pick(&["a", "b", "c"])))
            .collect();
        let mut nodes = cluster([node("a"), node("b"), node("c")], bound);
        with_claims(
            &mut nodes,
            ["0", "1", "2"]
                .map(|name| claim("default", name, dice.pick(&["ReadWriteOncePod", "ReadWriteOnce"]))),
        );
        nodes.add_index(IndexKind::of::<VolumeUsers>());
        let (pod, other) = (random_pod(&mut dice, "p").info(), random_pod(&mut dice, "o").info());
        batch_equals_single(&trial(), &nodes, &pod);
        adding_and_removing_is_neutral(&trial(), &mut nodes, &pod, &other);
        rejected += usize::from(trial().verdict(&nodes, &pod, "a").is_err());
    }
    assert!(rejected > 10, "the clusters vary too little: {rejected}");
}
