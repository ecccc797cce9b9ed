use harbormaster_framework::{
    api_call::{ApiFailure, ObjectPath, Verb},
    cycle::Placement,
};
use harbormaster_testkit::{FakeApi, node, trial::finished};

use super::*;
use crate::volume_binding::bind::NodeMetadata;

/// A pod's placement on node `a`, after Reserve, and the API server.
struct ReservedPod {
    placement: Placement,
    server: FakeApi,
}

impl ReservedPod {
    fn of(claims: &[Value], volumes: &[Value]) -> Self {
        let mut world = world([node("a").label("zone", "a")]);
        let server = FakeApi::default();
        server.set::<NodeMetadata>(json!({"metadata": {"name": "a", "labels": {"zone": "a"}}}));
        for claim in claims {
            server.set::<PersistentVolumeClaim>(claim.clone());
        }
        for volume in volumes {
            server.set::<PersistentVolume>(volume.clone());
        }
        set_custom::<PersistentVolumeClaim>(&mut world, claims.iter().cloned());
        set_custom::<PersistentVolume>(&mut world, volumes.iter().cloned());
        let names: Vec<&str> =
            claims.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap()).collect();
        let placement = trial().reserve(&mut world, &user(&names).info(), "a").unwrap();
        Self { placement, server }
    }

    /// Runs PreBind. Returns its error, or an empty string.
    fn bind_within(&self, seconds: i64) -> String {
        let args = VolumeBindingArgs { bind_timeout_seconds: seconds, ..Default::default() };
        let plugin = VolumeBinding::build(args, &BuildCycle::default()).unwrap();
        let cx = BindCycle { placement: self.placement.clone(), api: self.server.api() };
        match finished(plugin.pre_bind(&cx)) {
            Ok(()) => String::new(),
            Err(Stop::Error(error)) => error.to_string(),
            Err(Stop::Reject(reject)) => panic!("{reject:?}"),
        }
    }

    fn bind(&self) -> String {
        self.bind_within(600)
    }

    fn claim(&self, name: &str) -> Value {
        self.server.object(&ObjectPath::of::<PersistentVolumeClaim>("default", name))
    }

    fn volume(&self, name: &str) -> Value {
        self.server.object(&ObjectPath::of::<PersistentVolume>("", name))
    }
}

/// The volume controller's changes to a bound claim.
fn done(volume: &str) -> Value {
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}})
}

fn changed(mut object: Value, change: &Value) -> Value {
    merge(&mut object, change);
    object
}

#[test]
fn the_patch_of_a_volume_contains_its_claim_and_the_version_that_was_read() {
    let reserved = ReservedPod::of(&[claim("c", LOCAL, &json!({}))], &[volume("v", &json!({}))]);
    reserved.bind();
    let [patch, ..] = &reserved.server.calls()[..] else { panic!("no call") };
    assert_eq!((patch.verb, patch.path.url().as_str()), (Verb::Patch, "/api/v1/persistentvolumes/v"));
    let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c",
        "uid": "uid-c", "resourceVersion": "1"});
    let annotations = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let metadata = json!({"resourceVersion": "7", "annotations": annotations});
    assert_eq!(patch.body, json!({"metadata": metadata, "spec": {"claimRef": claim_ref}}));
    assert_eq!(
        reserved.volume("v")["spec"]["capacity"]["storage"],
        "1Gi",
        "the rest of the volume is unchanged"
    );
}

#[test]
fn a_manually_reserved_volume_is_not_marked_as_bound_by_a_controller() {
    for (uid, writes_claim) in [(json!(null), true), (json!("uid-c"), false)] {
        let aside = json!({"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}});
        let reserved = ReservedPod::of(&[claim("c", LOCAL, &json!({}))], &[volume("v", &aside)]);
        reserved.bind();
        let body = &reserved.server.calls()[0].body;
        assert_eq!(body["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(body["spec"].is_object(), writes_claim, "{body}");
    }
}

#[test]
fn volumes_are_written_before_claims() {
    let claims = [claim("made", "made", &json!({})), claim("c", LOCAL, &json!({}))];
    let reserved = ReservedPod::of(&claims, &[volume("v", &json!({}))]);
    reserved.bind();
    let patches = reserved.server.calls().into_iter().filter(|call| call.verb == Verb::Patch);
    let (paths, bodies): (Vec<_>, Vec<_>) = patches.map(|call| (call.path.url(), call.body)).unzip();
    assert_eq!(
        paths,
        ["/api/v1/persistentvolumes/v", "/api/v1/namespaces/default/persistentvolumeclaims/made"]
    );
    assert_eq!(bodies[1], json!({"metadata": {"resourceVersion": "1", "annotations": {SELECTED_NODE: "a"}}}));
}

#[test]
fn a_conflict_fails_the_pod_with_the_servers_message_and_stops_writing() {
    let claims = [claim("c", LOCAL, &json!({})), claim("made", "made", &json!({}))];
    let reserved = ReservedPod::of(&claims, &[volume("v", &json!({}))]);
    reserved.server.set::<PersistentVolume>(volume("v", &json!({"metadata": {"resourceVersion": "8"}})));
    assert_eq!(reserved.bind(), "/api/v1/persistentvolumes/v has been modified");
    assert!(reserved.claim("made")["metadata"]["annotations"].is_null());
    assert!(reserved.volume("v")["spec"]["claimRef"].is_null());
}

#[test]
fn the_first_volume_stays_written_when_the_second_is_refused() {
    let claims = ["c", "d"].map(|name| claim(name, LOCAL, &json!({})));
    let reserved = ReservedPod::of(&claims, &["v", "w"].map(|name| volume(name, &json!({}))));
    reserved.server.set::<PersistentVolume>(volume("w", &json!({"metadata": {"resourceVersion": "8"}})));
    assert_eq!(reserved.bind(), "/api/v1/persistentvolumes/w has been modified");
    assert_eq!(reserved.volume("v")["spec"]["claimRef"]["name"], "c");
}

#[test]
fn a_refusal_is_reported_with_the_servers_message() {
    let reserved = ReservedPod::of(&[claim("c", LOCAL, &json!({}))], &[volume("v", &json!({}))]);
    let refusal = ApiFailure { code: Some(403), reason: "Forbidden".to_owned(), message: "no".to_owned() };
    reserved.server.refuse(Some(refusal));
    assert_eq!(reserved.bind(), "no");
}

#[test]
fn prebind_succeeds_when_every_claim_has_the_chosen_volume() {
    let claims = [claim("c", LOCAL, &json!({})), claim("made", "made", &json!({}))];
    let reserved = ReservedPod::of(&claims, &[volume("v", &on("zone", "a"))]);
    reserved.server.set::<PersistentVolumeClaim>(changed(claims[0].clone(), &done("v")));
    reserved.server.set::<PersistentVolumeClaim>(changed(claims[1].clone(), &done("new")));
    reserved.server.set::<PersistentVolume>(volume("new", &on("zone", "a")));
    assert_eq!(reserved.bind(), "");
    assert_eq!(reserved.volume("v")["spec"]["claimRef"]["uid"], "uid-c");
    assert_eq!(reserved.claim("made")["metadata"]["annotations"][SELECTED_NODE], "a");
}

#[test]
fn a_claim_that_is_not_bound_in_time_fails_the_pod() {
    let late = "binding volumes: context deadline exceeded";
    let half = json!({"spec": {"volumeName": "v"}});
    for class in [LOCAL, "made"] {
        let reserved = ReservedPod::of(&[claim("c", class, &json!({}))], &[volume("v", &json!({}))]);
        assert_eq!(reserved.bind(), late, "{class}");
    }
    let claims = [claim("c", LOCAL, &json!({}))];
    let reserved = ReservedPod::of(&claims, &[volume("v", &json!({}))]);
    reserved.server.set::<PersistentVolumeClaim>(changed(claims[0].clone(), &half));
    assert_eq!(reserved.bind(), late, "the claim is not marked as bound yet");
}

#[test]
fn without_any_time_to_wait_the_decision_is_written_and_prebind_fails() {
    let claims = [claim("c", LOCAL, &json!({}))];
    let reserved = ReservedPod::of(&claims, &[volume("v", &json!({}))]);
    reserved.server.set::<PersistentVolumeClaim>(changed(claims[0].clone(), &done("v")));
    assert_eq!(reserved.bind_within(0), "binding volumes: context deadline exceeded");
    assert_eq!(reserved.volume("v")["spec"]["claimRef"]["uid"], "uid-c");
}

/// PreBind's error for a claim with an existing volume, after `then` has changed the API server's objects.
fn matched_then(then: impl FnOnce(&ReservedPod)) -> String {
    let reserved = ReservedPod::of(&[claim("c", LOCAL, &json!({}))], &[volume("v", &on("zone", "a"))]);
    let binding = Binding {
        api: &reserved.server.api(),
        node: &"a".into(),
        decision: reserved.placement.reservation::<Decision>().unwrap(),
        at_most: Duration::from_secs(600),
    };
    finished(binding.write()).unwrap();
    then(&reserved);
    finished(binding.wait()).err().map(|why| why.to_string()).unwrap_or_default()
}

/// PreBind's error for a claim whose volume is provisioned, after `then` has changed the API server's objects.
fn made_then(then: impl FnOnce(&ReservedPod)) -> String {
    let reserved = ReservedPod::of(&[claim("c", "made", &json!({}))], &[]);
    let binding = Binding {
        api: &reserved.server.api(),
        node: &"a".into(),
        decision: reserved.placement.reservation::<Decision>().unwrap(),
        at_most: Duration::from_secs(600),
    };
    finished(binding.write()).unwrap();
    then(&reserved);
    finished(binding.wait()).err().map(|why| why.to_string()).unwrap_or_default()
}

#[test]
fn a_volume_that_loses_its_claim_fails_the_pod() {
    let reset = "ClaimRef got reset for pv \"v\"";
    for (what, claim_ref) in [
        ("no reference", json!(null)),
        ("a reference without a UID", json!({"namespace": "default", "name": "c"})),
        ("a reference to another claim", json!({"namespace": "default", "name": "d", "uid": "uid-d"})),
    ] {
        let error = matched_then(|reserved| {
            let mut volume = reserved.volume("v");
            volume["spec"]["claimRef"] = claim_ref;
            reserved.server.set::<PersistentVolume>(volume);
        });
        assert_eq!(error, reset, "{what}");
    }
    let elsewhere = matched_then(|reserved| {
        reserved.server.set::<PersistentVolumeClaim>(changed(reserved.claim("c"), &done("other")));
    });
    assert_eq!(elsewhere, reset, "the claim has another volume");
}

#[test]
fn objects_that_disappear_during_the_wait_fail_the_pod() {
    let gone = |reserved: &ReservedPod, path: ObjectPath| {
        finished(reserved.server.api().call(ApiCall::delete(path))).unwrap();
    };
    let claim = || ObjectPath::of::<PersistentVolumeClaim>("default", "c");
    let node = || ObjectPath::of::<NodeMetadata>("", "a");
    let bind = |reserved: &ReservedPod, volume: &str| {
        reserved.server.set::<PersistentVolumeClaim>(changed(reserved.claim("c"), &done(volume)));
    };
    let no_claim = "persistentvolumeclaims \"default/c\" not found";
    assert_eq!(matched_then(|it| gone(it, claim())), format!("failed to check binding: {no_claim}"));
    assert_eq!(made_then(|it| gone(it, claim())), format!("failed to check provisioning pvc: {no_claim}"));
    let no_volume = "failed to check binding: persistentvolumes \"v\" not found";
    assert_eq!(matched_then(|it| gone(it, ObjectPath::of::<PersistentVolume>("", "v"))), no_volume);
    let no_node = "failed to get node \"a\": node \"a\" not found";
    assert_eq!(
        matched_then(|it| {
            bind(it, "v");
            gone(it, node());
        }),
        no_node
    );
    assert_eq!(made_then(|it| bind(it, "none")), "persistentvolumes \"none\" not found");
}

#[test]
fn a_claim_for_which_no_volume_can_be_provisioned_fails_the_pod() {
    let annotated = |annotations: Value| {
        made_then(|reserved| {
            let mut claim = reserved.claim("c");
            claim["metadata"]["annotations"] = annotations;
            reserved.server.set::<PersistentVolumeClaim>(claim);
        })
    };
    assert_eq!(annotated(json!(null)), "selectedNode annotation reset for PVC \"c\"");
    let failed = "provisioning failed for PVC \"c\"";
    assert_eq!(annotated(json!({"other": "annotation"})), failed);
    assert_eq!(annotated(json!({SELECTED_NODE: "b"})), failed);
    let bound_elsewhere = json!({"pv.kubernetes.io/bind-completed": "yes", SELECTED_NODE: "b"});
    assert_eq!(annotated(bound_elsewhere), failed);
}

#[test]
fn a_volume_that_turns_out_to_be_inaccessible_from_the_node_fails_the_pod() {
    let moved = |node: &str| {
        format!("pv {node:?} node affinity doesn't match node \"a\": no matching NodeSelectorTerms")
    };
    let relabelled = matched_then(|reserved| {
        reserved.server.set::<PersistentVolumeClaim>(changed(reserved.claim("c"), &done("v")));
        reserved.server.set::<NodeMetadata>(json!({"metadata": {"name": "a", "labels": {"zone": "b"}}}));
    });
    assert_eq!(relabelled, moved("v"));
    let made_elsewhere = made_then(|reserved| {
        reserved.server.set::<PersistentVolumeClaim>(changed(reserved.claim("c"), &done("new")));
        reserved.server.set::<PersistentVolume>(volume("new", &on("zone", "b")));
    });
    assert_eq!(made_elsewhere, moved("new"));
}

#[test]
fn the_volume_of_an_in_tree_disk_is_checked_as_its_driver_sees_it() {
    let key = "topology.kubernetes.io/zone";
    let error = made_then(|reserved| {
        let ebs = json!({"spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}});
        reserved.server.set::<PersistentVolumeClaim>(changed(reserved.claim("c"), &done("new")));
        reserved.server.set::<PersistentVolume>(changed(volume("new", &on(key, "a")), &ebs));
        let labels = json!({"topology.ebs.csi.aws.com/zone": "a"});
        reserved.server.set::<NodeMetadata>(json!({"metadata": {"name": "a", "labels": labels}}));
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"});
        reserved
            .server
            .set::<CsiNode>(json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {}}));
    });
    assert_eq!(error, "");
}

#[test]
fn prebind_without_reserve_fails_only_for_pods_with_claims() {
    let placement = Placement::new(user(&["c"]).info(), "a".into());
    assert_eq!(plugin().pre_flight(&placement).unwrap(), PreFlight::Work { parallel: true });
    let cx = BindCycle { placement, api: FakeApi::default().api() };
    let Err(Stop::Error(error)) = finished(plugin().pre_bind(&cx)) else { panic!("PreBind succeeds") };
    assert_eq!(error.to_string(), "failed to get cached bindings for pod \"default/p\"");
    let without = Placement::new(pod("p").info(), "a".into());
    assert_eq!(plugin().pre_flight(&without).unwrap(), PreFlight::NothingToDo);
}
