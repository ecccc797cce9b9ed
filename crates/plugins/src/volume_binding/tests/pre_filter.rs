use harbormaster_testkit::{node, rejection};

use super::*;

fn rejection_message(cluster: &Cluster, pod: PodBuilder) -> String {
    match trial().pre_filter(cluster, &pod.info()) {
        Ok(PreFiltered::Skip) => "skip".to_owned(),
        Ok(PreFiltered::Continue { only: None, .. }) => String::new(),
        Ok(other) => panic!("{other:?}"),
        Err(stopped) => {
            let reject = rejection(stopped);
            assert_eq!(reject.fix, Fix::NothingHelps);
            reject.message()
        }
    }
}

fn with_claim(claim: Value) -> Cluster {
    let mut world = world([node("n")]);
    set_custom::<PersistentVolumeClaim>(&mut world, [claim]);
    world
}

#[test]
fn skips_a_pod_without_claims() {
    let world = world([node("n")]);
    assert_eq!(rejection_message(&world, pod("p")), "skip");
    assert_eq!(rejection_message(&world, pod("p").volume(VolumeSource::InlineCsi("csi".into()))), "skip");
}

#[test]
fn an_unusable_claim_rejects_the_pod_with_upstreams_message() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let lost = json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}});
    for (claim, expected) in [
        (claim("other", LOCAL, &json!({})), "persistentvolumeclaim \"c\" not found"),
        (
            claim("c", LOCAL, &lost),
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"",
        ),
        (claim("c", LOCAL, &deleted), "persistentvolumeclaim \"c\" is being deleted"),
        (
            claim("c", LOCAL, &json!({"metadata": {"namespace": "elsewhere"}})),
            "persistentvolumeclaim \"c\" not found",
        ),
        (claim("c", LOCAL, &json!({})), ""),
    ] {
        assert_eq!(rejection_message(&with_claim(claim), user(&["c"])), expected);
    }
}

#[test]
fn the_claim_of_an_ephemeral_volume_has_a_derived_name_and_must_belong_to_the_pod() {
    let pod = || {
        pod("p").spec(|spec| {
            spec.volumes
                .push(harbormaster_api::pod::Volume { name: "data".into(), source: VolumeSource::Ephemeral });
        })
    };
    let owned = |uid: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true});
        claim("p-data", LOCAL, &json!({"metadata": {"ownerReferences": [owner]}}))
    };
    let waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-data\"";
    assert_eq!(rejection_message(&world([node("n")]), pod()), waiting);
    let foreign = "PVC default/p-data was not created for pod default/p (pod is not owner)";
    assert_eq!(rejection_message(&with_claim(owned("uid-q")), pod()), foreign);
    assert_eq!(rejection_message(&with_claim(claim("p-data", LOCAL, &json!({}))), pod()), foreign);
    assert_eq!(rejection_message(&with_claim(owned("uid-p")), pod()), "");
}

#[test]
fn a_claim_rejects_the_pod_if_it_has_no_volume_and_does_not_wait_for_a_consumer() {
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    let completed = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let old_class = |class: &str| json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": class}}});
    for (what, claim, expected) in [
        ("class that does not wait", claim("c", "now", &json!({})), immediate),
        ("no class", claim("c", "", &json!({})), immediate),
        ("class that does not exist", claim("c", "none", &json!({})), immediate),
        (
            "volume named, binding not completed",
            claim("c", LOCAL, &json!({"spec": {"volumeName": "v"}})),
            immediate,
        ),
        (
            "completed, but without volume",
            claim("c", "now", &json!({"metadata": {"annotations": completed}})),
            immediate,
        ),
        ("has a volume", bound_claim("c", "v"), ""),
        ("waits", claim("c", LOCAL, &json!({})), ""),
        ("annotated with a class that waits", claim("c", "now", &old_class(LOCAL)), ""),
        ("annotated with a class that does not wait", claim("c", LOCAL, &old_class("now")), immediate),
    ] {
        assert_eq!(rejection_message(&with_claim(claim), user(&["c"])), expected, "{what}");
    }
}

#[test]
fn the_first_unusable_claim_is_reported_before_any_immediate_claim() {
    let mut world = with_claim(claim("now", "now", &json!({})));
    assert_eq!(rejection_message(&world, user(&["now", "gone"])), "persistentvolumeclaim \"gone\" not found");
    set_custom::<PersistentVolumeClaim>(&mut world, [claim("waits", LOCAL, &json!({}))]);
    assert_eq!(
        rejection_message(&world, user(&["waits", "now"])),
        "pod has unbound immediate PersistentVolumeClaims"
    );
}

#[test]
fn a_class_without_binding_mode_is_an_error() {
    let mut world = with_claim(claim("c", "odd", &json!({})));
    set_custom::<StorageClass>(&mut world, [json!({"metadata": {"name": "odd"}, "provisioner": "csi"})]);
    let error = trial().pre_filter(&world, &user(&["c"]).info()).unwrap_err().to_string();
    assert!(error.ends_with("VolumeBindingMode not set for StorageClass \"odd\""), "{error}");
}
