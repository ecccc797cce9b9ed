//! Claims of groups: consumers, owners, and allocations that the members of one cycle share.

use harbormaster_api::features::Feature;
use harbormaster_framework::guard::Stopped;
use harbormaster_testkit::{FakeApi, trial::finished};

use super::*;
use crate::devices::claim::{FINALIZER, InFlight};

/// The plugin of 1.37, with or without claims of groups.
fn plugin_with(of_groups: bool) -> DynamicResources {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::DRAWorkloadResourceClaims, of_groups);
    DynamicResources::build(DynamicResourcesArgs::default(), &BuildCycle { features }).unwrap()
}

/// A group `g` with these entries in its spec.
fn group(entries: &Value) -> Value {
    json!({
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"resourceClaims": entries},
    })
}

/// A member of the group that uses the claim `c` under the name `c`.
fn member(name: &str) -> PodBuilder {
    let entry = PodClaim { name: "c".into(), claim: Some("c".into()), template: None };
    pod(name).uid(name).spec(|spec| {
        spec.resource_claims = vec![entry];
        spec.pod_group = Some("g".into());
    })
}

fn cluster_with(entries: &Value, claims: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = two_nodes(claims);
    set_custom::<GroupClaims>(&mut cluster, [group(entries)]);
    cluster
}

/// The consumers for which the member's claims are reserved, as `resource/uid`.
fn consumers(of_groups: bool, entries: &Value) -> Vec<String> {
    let mut cluster = cluster_with(entries, [claim("c", &[request("r", 1)])]);
    let trial = Trial::of(plugin_with(of_groups));
    let placement = trial.reserve(&mut cluster, &member("p").info(), "n1").unwrap();
    let reserved = placement.reservation::<ReservedClaims>().unwrap();
    reserved.chosen().map(|(_, consumer, _)| format!("{}/{}", consumer.resource, consumer.uid)).collect()
}

#[test]
fn a_claim_is_reserved_for_the_group_only_if_the_group_has_the_same_entry() {
    let same = json!([{"name": "c", "resourceClaimName": "c"}]);
    for (what, of_groups, entries, expected) in [
        ("the same entry", true, same.clone(), "podgroups/uid-g"),
        ("the gate is off", false, same, "pods/p"),
        ("another name", true, json!([{"name": "other", "resourceClaimName": "c"}]), "pods/p"),
        ("another claim", true, json!([{"name": "c", "resourceClaimName": "d"}]), "pods/p"),
        ("a template", true, json!([{"name": "c", "resourceClaimTemplateName": "c"}]), "pods/p"),
        ("no entries", true, json!(null), "pods/p"),
    ] {
        assert_eq!(consumers(of_groups, &entries), [expected], "{what}");
    }
}

#[test]
fn a_generated_claim_may_belong_to_the_group_of_the_pod() {
    let owned = |api: &str, kind: &str, name: &str| {
        let mut claim = claim("c", &[request("r", 1)]);
        let owner =
            json!({"apiVersion": api, "kind": kind, "name": name, "uid": "uid-g", "controller": true});
        claim["metadata"]["ownerReferences"] = json!([owner]);
        claim
    };
    let generated = || {
        let entry = PodClaim { name: "c".into(), claim: None, template: Some("t".into()) };
        member("p").spec(|spec| spec.resource_claims = vec![entry]).generated_claim("c", "c")
    };
    let (none, wrong) = ("Pod is not owner", "neither Pod nor PodGroup g is the owner");
    for (what, of_groups, claim, expected) in [
        ("the group", true, owned("scheduling.k8s.io/v1alpha3", "PodGroup", "g"), None),
        ("the gate is off", false, owned("scheduling.k8s.io/v1beta1", "PodGroup", "g"), Some(none)),
        ("another group", true, owned("scheduling.k8s.io/v1beta1", "PodGroup", "h"), Some(wrong)),
        ("another kind", true, owned("scheduling.k8s.io/v1beta1", "Workload", "g"), Some(wrong)),
        ("another API", true, owned("example.com/v1", "PodGroup", "g"), Some(wrong)),
    ] {
        let cluster = cluster_with(&json!([]), [claim]);
        let expected = expected.map_or(String::new(), |why| {
            format!("ResourceClaim default/c was not created for Pod default/p ({why})")
        });
        assert_eq!(answer_of(&plugin_with(of_groups), &cluster, generated(), "n1"), expected, "{what}");
    }
}

#[test]
fn without_its_group_a_pod_waits() {
    let mut cluster = two_nodes([claim("c", &[request("r", 1)])]);
    set_custom::<GroupClaims>(&mut cluster, []);
    let why = "pod group object not found for pod group default/g";
    assert_eq!(answer_of(&plugin_with(true), &cluster, member("p"), "n1"), why);
}

#[test]
fn only_members_of_the_same_cycle_share_devices_that_are_not_recorded_yet() {
    let busy = "resource claim default/c is in the process of being allocated";
    for (what, first, second, on_n1, on_n2) in [
        ("the same cycle", Some(1), Some(1), "", UNAVAILABLE),
        ("a later cycle", Some(1), Some(2), busy, busy),
        ("a pod on its own", Some(1), None, busy, busy),
        ("after a pod on its own", None, Some(1), busy, busy),
        ("two pods on their own", None, None, busy, busy),
    ] {
        let mut cluster = cluster_with(&json!([]), [claim("c", &[request("r", 1)])]);
        cluster.set_group_cycle(first);
        let trial = Trial::of(plugin_with(true));
        trial.reserve(&mut cluster, &member("p").info(), "n1").unwrap();
        cluster.set_group_cycle(second);
        for (node, expected) in [("n1", on_n1), ("n2", on_n2)] {
            assert_eq!(answer_of(&plugin_with(true), &cluster, member("q"), node), expected, "{what} {node}");
        }
    }
}

#[test]
fn shared_devices_stay_in_use_until_the_last_member_gives_up_its_node() {
    let mut cluster = cluster_with(&json!([]), [claim("c", &[request("r", 1)])]);
    cluster.set_group_cycle(Some(1));
    let trial = Trial::of(plugin_with(true));
    let [first, second] =
        ["p", "q"].map(|name| trial.reserve(&mut cluster, &member(name).info(), "n1").unwrap());
    let in_flight =
        |cluster: &Cluster| cluster.watched::<ResourceClaim>().get("default", "c").unwrap().in_flight;
    assert!(trial.unreserve(&mut cluster, &first).is_empty());
    assert_eq!(in_flight(&cluster), Some(InFlight { group_cycle: Some(1) }));
    assert!(trial.unreserve(&mut cluster, &second).is_empty());
    assert_eq!(in_flight(&cluster), None);
}

#[test]
fn a_group_keeps_its_claims_when_a_member_gives_up_its_node() {
    let reserved = |consumer: Value| {
        let mut claim = allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &[]);
        claim["status"]["reservedFor"] = json!([consumer]);
        claim
    };
    let of_group =
        json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"});
    for (what, consumer, released) in
        [("the group", of_group, 0), ("the pod", json!({"resource": "pods", "name": "p", "uid": "p"}), 1)]
    {
        let entries = json!([{"name": "c", "resourceClaimName": "c"}]);
        let mut cluster = cluster_with(&entries, [reserved(consumer)]);
        let trial = Trial::of(plugin_with(true));
        let placement = trial.reserve(&mut cluster, &member("p").info(), "n1").unwrap();
        assert_eq!(trial.unreserve(&mut cluster, &placement).len(), released, "{what}");
    }
}

/// Binds two members that have chosen the same devices, one after the other. `between` changes the claim in between.
/// Returns the result for the second one, and the claim's consumers.
fn bind_both(entries: &Value, between: impl Fn(&mut Value)) -> (Result<(), String>, Vec<String>) {
    let claims = [claim("c", &[request("r", 1)])];
    let mut cluster = cluster_with(entries, claims.clone());
    cluster.set_group_cycle(Some(1));
    let trial = Trial::of(plugin_with(true));
    let placements = ["p", "q"].map(|name| trial.reserve(&mut cluster, &member(name).info(), "n1").unwrap());
    let server = FakeApi::default();
    server.set::<ResourceClaim>(claims[0].clone());
    let path = ObjectPath::of::<ResourceClaim>("default", "c");
    let bind = |placement| {
        finished(trial.pre_bind(placement, &server.api())).map_err(|stopped| match stopped {
            Stopped::Error(error) => error.source.to_string(),
            Stopped::Reject(_, reject) => reject.message(),
        })
    };
    bind(&placements[0]).unwrap();
    let mut written = server.object(&path);
    between(&mut written);
    server.set::<ResourceClaim>(written);
    let result = bind(&placements[1]);
    let consumers = server.object(&path)["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    (result, consumers.iter().map(|one| one["uid"].as_str().unwrap_or_default().to_owned()).collect())
}

#[test]
fn a_shared_claim_is_written_once_and_reserved_for_each_consumer() {
    let of_group = json!([{"name": "c", "resourceClaimName": "c"}]);
    let elsewhere = |claim: &mut Value| {
        claim["status"]["allocation"]["devices"]["results"][0]["device"] = "other".into();
    };
    let same = |_: &mut Value| {};
    assert_eq!(bind_both(&of_group, same), (Ok(()), vec!["uid-g".to_owned()]));
    assert_eq!(bind_both(&json!([]), same), (Ok(()), vec!["p".to_owned(), "q".to_owned()]));
    let error = "claim default/c got allocated elsewhere in the meantime".to_owned();
    assert_eq!(bind_both(&of_group, elsewhere), (Err(error), vec!["uid-g".to_owned()]));
}

#[test]
fn whichever_member_is_bound_first_writes_the_devices_of_a_shared_claim() {
    let entries = json!([{"name": "c", "resourceClaimName": "c"}]);
    for order in [[0, 1], [1, 0]] {
        let claims = [claim("c", &[request("r", 1)])];
        let mut cluster = cluster_with(&entries, claims.clone());
        cluster.set_group_cycle(Some(1));
        let trial = Trial::of(plugin_with(true));
        let placements =
            ["p", "q"].map(|name| trial.reserve(&mut cluster, &member(name).info(), "n1").unwrap());
        let server = FakeApi::default();
        server.set::<ResourceClaim>(claims[0].clone());
        for at in order {
            finished(trial.pre_bind(&placements[at], &server.api())).unwrap();
            let written = server.object(&ObjectPath::of::<ResourceClaim>("default", "c"));
            assert_eq!(
                written["status"]["allocation"]["devices"]["results"].as_array().map(Vec::len),
                Some(1)
            );
            assert_eq!(written["metadata"]["finalizers"], json!([FINALIZER]));
        }
    }
}
