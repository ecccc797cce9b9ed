//! Queueing hints.

use harbormaster_framework::events::ClusterEvent;
use harbormaster_testkit::custom;

use super::*;

#[test]
fn a_new_csi_node_or_a_higher_limit_wakes_the_pod() {
    let waiting = claims("p", &["a"]).info();
    let of = |drivers: &[(&str, Option<i32>)]| custom::<CsiNode>(&limits("n", drivers));
    let old = of(&[("a", Some(2)), ("b", None)]);
    assert_eq!(trial().custom_hint(&waiting, None, Some(&old)), Some(Hint::Queue));
    for (new, expected) in [
        (of(&[("a", Some(3)), ("b", None)]), Hint::Queue),
        (of(&[("a", Some(2)), ("b", Some(1))]), Hint::Queue),
        (of(&[("a", Some(2)), ("c", Some(1))]), Hint::Queue),
        (of(&[("a", Some(2)), ("b", Some(0))]), Hint::Skip),
        (of(&[("a", None)]), Hint::Skip),
        (of(&[]), Hint::Skip),
    ] {
        assert_eq!(
            trial().custom_hint(&waiting, Some(&old), Some(&new)),
            Some(expected),
            "{:?}",
            new.drivers
        );
    }
}

#[test]
fn the_removal_of_a_bound_or_nominated_pod_with_volumes_that_may_count_wakes_the_waiting_pod() {
    let waiting = claims("p", &["a"]).info();
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    for (gone, expected) in [
        (claims("claim", &["z"]).on("n"), Hint::Queue),
        (claims("nominated", &["z"]).nominated_to("n"), Hint::Queue),
        (claims("nowhere", &["z"]), Hint::Skip),
        (pod("ephemeral").volume(VolumeSource::Ephemeral).on("n"), Hint::Queue),
        (disk("disk", ebs("v")).on("n"), Hint::Queue),
        (disk("file", InTreeDisk::AzureFile).on("n"), Hint::Queue),
        (disk("iscsi", InTreeDisk::Iscsi { iqn: "i".into(), read_only: true }).on("n"), Hint::Skip),
        (pod("inline").volume(VolumeSource::InlineCsi(DRIVER.into())).on("n"), Hint::Skip),
        (pod("none").on("n"), Hint::Skip),
    ] {
        let gone = gone.build();
        let change = Change::Pod { old: Some(&gone), new: None };
        assert_eq!(trial().hint(event, &waiting, &change), Some(expected), "{}", gone.name);
    }
}

#[test]
fn new_claims_of_the_pod_including_claims_for_ephemeral_volumes_wake_it() {
    let waiting = claims("p", &["a"]).volume(VolumeSource::Ephemeral).info();
    for (name, expected) in
        [("a", Hint::Queue), ("p-v1", Hint::Queue), ("b", Hint::Skip), ("p-v0", Hint::Skip)]
    {
        let new = custom::<PersistentVolumeClaim>(&claim(name, "", ""));
        assert_eq!(trial().custom_hint(&waiting, None, Some(&new)), Some(expected), "{name}");
        assert_eq!(trial().custom_hint(&waiting, Some(&new), Some(&new)), None, "changes are not registered");
    }
}

#[test]
fn a_deleted_attachment_wakes_pods_with_claims_or_with_disks_of_its_driver() {
    let gone = custom::<VolumeAttachment>(&attachment("x", EBS, "n", "a"));
    let azure = |kind: &str| InTreeDisk::AzureDisk { uri: "u".into(), kind: kind.into() };
    for (waiting, expected) in [
        (claims("claim", &["a"]), Hint::Queue),
        (pod("ephemeral").volume(VolumeSource::Ephemeral), Hint::Skip),
        (disk("same driver", ebs("v")), Hint::Queue),
        (disk("other driver", InTreeDisk::Cinder { volume_id: "v".into() }), Hint::Skip),
        (disk("managed", azure("Managed")), Hint::Skip),
        (disk("cannot be translated", azure("Shared")), Hint::Queue),
        (disk("none", InTreeDisk::Iscsi { iqn: "i".into(), read_only: true }), Hint::Skip),
    ] {
        let waiting = waiting.info();
        assert_eq!(trial().custom_hint(&waiting, Some(&gone), None), Some(expected), "{}", waiting.name);
    }
}

#[test]
fn an_untranslatable_disk_makes_the_hint_fail() {
    let gone = custom::<VolumeAttachment>(&attachment("x", EBS, "n", "a"));
    let shared = InTreeDisk::AzureDisk { uri: "u".into(), kind: "Shared".into() };
    let waiting = disk("shared", shared).info();
    let changed = Changed { old: Some(&gone), new: None };
    let error = NodeVolumeLimits { needs_drivers: false }.after_attachment(&waiting, changed).unwrap_err();
    let why = "converting volume(v0) from inline to csi: kind(Shared) is not supported in csi migration";
    assert_eq!(error.to_string(), why);
}
