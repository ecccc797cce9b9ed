use harbormaster_testkit::{FakeApi, trial::finished};

use harbormaster_framework::meter::Measurement;

use super::*;
use crate::devices::claim::FINALIZER;

const GPU: &str = "example.com/gpu";

/// A class `provider` for [`GPU`] with all devices of the driver.
fn provider() -> Value {
    let mut class = class("provider", &[&format!("device.driver == '{DRIVER}'")]);
    class["spec"]["extendedResourceName"] = GPU.into();
    class
}

/// The nodes of [`two_nodes`] and a node `n3` that offers [`GPU`] itself. The class [`provider`] exists.
fn three_nodes(claims: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = world([node("n1"), node("n2"), node("n3").offers(GPU, "8")]);
    let slices = [slice("n1", &[device("a"), device("b")]), slice("n2", &[device("c")])];
    set_custom::<ResourceSlice>(&mut cluster, slices);
    set_custom::<ResourceClaim>(&mut cluster, claims);
    set_custom::<DeviceClass>(&mut cluster, [provider(), class("gpu", &[])]);
    cluster
}

fn wants(amount: &str) -> PodBuilder {
    pod("p").uid("p").request(GPU, amount)
}

/// A claim that the scheduler has created for the extended resources of the pod with this UID.
pub(super) fn made_for(uid: &str) -> Value {
    let mut made = claim("p-extended-resources-x", &[request("container-0-request-0", 1)]);
    made["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    made["metadata"]["finalizers"] = json!([FINALIZER]);
    made["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]);
    made
}

#[test]
fn devices_provide_what_the_node_does_not_offer() {
    let cluster = three_nodes([]);
    let own_name = |amount| pod("p").uid("p").request("deviceclass.resource.kubernetes.io/provider", amount);
    let both = wants("1").request("example.com/other", "1");
    for (what, pod, node, expected) in [
        ("enough devices", wants("2"), "n1", ""),
        ("too few devices", wants("2"), "n2", NONE),
        ("the node offers the resource", wants("9"), "n3", ""),
        ("the name of the class", own_name("2"), "n1", ""),
        ("too few devices of the class", own_name("3"), "n1", NONE),
        ("nothing requested", wants("0"), "n2", ""),
        ("no class provides the resource", pod("p").request("example.com/other", "1"), "n1", ""),
        ("nobody provides the other resource", both, "n1", "cannot fit resource"),
    ] {
        assert_eq!(answer(&cluster, pod, node), expected, "{what}");
    }
}

#[test]
fn a_node_that_offers_an_amount_of_zero_does_not_offer_the_resource() {
    let mut cluster = three_nodes([]);
    cluster.set_node(std::sync::Arc::new(node("n1").offers(GPU, "0").build()));
    assert_eq!(answer(&cluster, wants("3"), "n1"), NONE);
    assert_eq!(devices(&mut cluster, wants("1"), "n1"), Vec::<String>::new(), "the claim does not exist yet");
}

#[test]
fn an_extended_resource_without_a_class_is_not_examined() {
    let mut cluster = two_nodes([]);
    cluster.set_node(std::sync::Arc::new(node("n1").offers(GPU, "0").build()));
    assert!(matches!(trial().pre_filter(&cluster, &wants("1").info()), Ok(PreFiltered::Skip)));
}

#[test]
fn claims_and_extended_resources_share_the_devices_of_a_node() {
    let cluster = three_nodes([claim("c", &[request("r", 1)])]);
    let user =
        || wants("1").spec(|spec| spec.resource_claims = user(&["c"]).info().spec.resource_claims.clone());
    assert_eq!(answer(&cluster, user(), "n1"), "");
    assert_eq!(answer(&cluster, user(), "n2"), NONE);
}

#[test]
fn an_allocated_claim_counts_in_the_score_even_if_only_extended_resources_need_devices() {
    let mut chosen = allocated(claim("chosen", &[first_available("r", &[3, 1])]), "n1", &["a"], &[]);
    chosen["status"]["allocation"]["devices"]["results"][0]["request"] = json!("r/option-1");
    let user = wants("1")
        .spec(|spec| spec.resource_claims = user(&["chosen"]).info().spec.resource_claims.clone())
        .info();
    let scores = trial().raw_scores(&three_nodes([chosen]), &user).unwrap();
    assert_eq!(scores, Some(vec![7, 7, 7]));
}

#[test]
fn a_claim_that_is_left_from_an_earlier_attempt_prevents_the_placement_of_its_pod() {
    for (uid, expected, calls) in
        [("p", "cannot schedule extended resource claim", 2), ("another pod with the same name", "", 0)]
    {
        let mut cluster = three_nodes([made_for(uid)]);
        assert_eq!(answer(&cluster, wants("1"), "n1"), expected, "{uid}");
        let placement = trial().reserve(&mut cluster, &wants("1").info(), "n1");
        assert_eq!(placement.is_err(), calls > 0);
    }
}

#[test]
fn the_claim_is_created_with_its_devices_and_recorded_in_the_status_of_the_pod() {
    let mut cluster = three_nodes([]);
    let info = wants("2").info();
    let placement = trial().reserve(&mut cluster, &info, "n1").unwrap();
    assert_eq!(answer(&cluster, wants("1").uid("q"), "n1"), NONE, "the devices are in use");

    let server = FakeApi::default();
    server.set_pod(&info);
    finished(trial().pre_bind(&placement, &server.api())).unwrap();
    let created = placement.reservation::<ReservedClaims>().unwrap().created().unwrap();
    let written = server.object(&ObjectPath::of::<ResourceClaim>("default", &created.claim.metadata.name));
    assert_eq!(written["metadata"]["generateName"], "p-extended-resources-");
    assert_eq!(written["metadata"]["ownerReferences"][0]["uid"], "p");
    assert_eq!(written["metadata"]["finalizers"], json!([FINALIZER]));
    let demand = json!({"deviceClassName": "provider", "allocationMode": "ExactCount", "count": 2});
    let expected = json!([{"name": "container-0-request-0", "exactly": demand}]);
    assert_eq!(written["spec"]["devices"]["requests"], expected);
    assert_eq!(written["status"]["allocation"]["devices"]["results"].as_array().map(Vec::len), Some(2));
    assert_eq!(written["status"]["reservedFor"][0]["uid"], "p");
    let status = server.object(&ObjectPath::pod(&info));
    let mapping = json!({
        "containerName": info.spec.containers[0].name, "resourceName": GPU, "requestName": "container-0-request-0",
    });
    assert_eq!(
        status["status"]["extendedResourceClaimStatus"],
        json!({"requestMappings": [mapping], "resourceClaimName": created.claim.metadata.name})
    );
    assert_eq!(server.measurements(), [Measurement::ClaimCreation { succeeded: true }]);

    let calls = trial().unreserve(&mut cluster, &placement);
    let path = ObjectPath::of::<ResourceClaim>("default", &created.claim.metadata.name);
    assert_eq!(calls.last(), Some(&ApiCall::delete(path)), "a failed binding deletes the claim");
    assert_eq!(answer(&cluster, wants("1").uid("q"), "n1"), "");
}

#[test]
fn no_claim_is_created_on_a_node_that_offers_the_resource() {
    let mut cluster = three_nodes([]);
    let placement = trial().reserve(&mut cluster, &wants("2").info(), "n3").unwrap();
    let server = FakeApi::default();
    finished(trial().pre_bind(&placement, &server.api())).unwrap();
    assert!(server.calls().is_empty());
    assert!(trial().unreserve(&mut cluster, &placement).is_empty());
}

#[test]
fn the_claim_that_the_api_server_reports_replaces_the_assumed_one() {
    let mut cluster = three_nodes([]);
    trial().reserve(&mut cluster, &wants("1").info(), "n1").unwrap();
    assert_eq!(answer(&cluster, wants("2").uid("q"), "n1"), NONE);
    let reported = allocated(made_for("p"), "n1", &["a"], &["p"]);
    set_custom::<ResourceClaim>(&mut cluster, [reported]);
    assert_eq!(answer(&cluster, wants("1").uid("q"), "n1"), "", "only one device is in use");
    assert_eq!(answer(&cluster, wants("2").uid("q"), "n1"), NONE);
}
