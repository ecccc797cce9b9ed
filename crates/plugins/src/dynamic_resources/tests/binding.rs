use std::sync::Arc;

use harbormaster_framework::cycle::Placement;
use harbormaster_testkit::{FakeApi, trial::finished};

use super::*;
use crate::devices::claim::FINALIZER;

fn reserved(cluster: &mut Cluster, claims: &[&str]) -> (Placement, Arc<PodInfo>) {
    let pod = user(claims).info();
    (trial().reserve(cluster, &pod, "n1").unwrap(), pod)
}

fn server(claims: &[Value]) -> FakeApi {
    let server = FakeApi::default();
    for claim in claims {
        server.set::<ResourceClaim>(claim.clone());
    }
    server
}

fn bind(placement: &Placement, server: &FakeApi) -> Result<(), String> {
    finished(trial().pre_bind(placement, &server.api())).map_err(|stopped| match stopped {
        harbormaster_framework::guard::Stopped::Error(error) => error.source.to_string(),
        harbormaster_framework::guard::Stopped::Reject(_, reject) => reject.message(),
    })
}

fn stored(server: &FakeApi, name: &str) -> Value {
    server.object(&ObjectPath::of::<ResourceClaim>("default", name))
}

#[test]
fn an_allocation_is_written_with_the_finalizer_and_the_reservation() {
    let claims = [claim("c", &[request("r", 1)])];
    let mut cluster = two_nodes(claims.clone());
    let (placement, _) = reserved(&mut cluster, &["c"]);
    let server = server(&claims);
    assert_eq!(bind(&placement, &server), Ok(()));
    let written = stored(&server, "c");
    assert_eq!(written["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(written["status"]["reservedFor"], json!([{"resource": "pods", "name": "p", "uid": "p"}]));
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    assert_eq!(
        written["status"]["allocation"],
        json!({
            "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "a"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": "1970-01-01T00:00:00Z",
        })
    );
}

#[test]
fn an_allocated_claim_is_only_reserved() {
    let claims = [allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &["other"])];
    let (placement, _) = reserved(&mut two_nodes(claims.clone()), &["c"]);
    let server = server(&claims);
    assert_eq!(bind(&placement, &server), Ok(()));
    let consumers = stored(&server, "c")["status"]["reservedFor"].clone();
    assert_eq!(
        consumers.as_array().map(|all| all.iter().map(|one| one["uid"].clone()).collect()),
        Some(vec![json!("other"), json!("p")])
    );
    assert_eq!(stored(&server, "c")["metadata"].get("finalizers"), None);
}

#[test]
fn a_claim_that_is_reserved_for_the_pod_already_is_not_written() {
    let claims = [allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &["p"])];
    let (placement, _) = reserved(&mut two_nodes(claims.clone()), &["c"]);
    let server = server(&claims);
    assert_eq!(bind(&placement, &server), Ok(()));
    assert!(server.calls().is_empty());
}

#[test]
fn a_claim_that_changed_meanwhile_is_read_again() {
    let claims = [claim("c", &[request("r", 1)])];
    let (placement, _) = reserved(&mut two_nodes(claims.clone()), &["c"]);
    let mut newer = claims[0].clone();
    newer["metadata"]["resourceVersion"] = json!("9");
    newer["metadata"]["finalizers"] = json!(["other"]);
    let server = server(&[newer]);
    assert_eq!(bind(&placement, &server), Ok(()));
    assert_eq!(stored(&server, "c")["metadata"]["finalizers"], json!(["other", FINALIZER]));
    assert_eq!(stored(&server, "c")["status"]["reservedFor"][0]["uid"], "p");
}

#[test]
fn claims_that_others_changed_fail_the_binding() {
    let own = claim("c", &[request("r", 1)]);
    let (placement, _) = reserved(&mut two_nodes([own.clone()]), &["c"]);
    let newer = |change: &Value| {
        let mut newer = own.clone();
        newer["metadata"]["resourceVersion"] = json!("9");
        merge(&mut newer, change);
        newer
    };
    let allocated = allocated(newer(&json!({})), "n2", &["c"], &[]);
    let deleted = newer(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let replaced = newer(&json!({"metadata": {"uid": "another"}}));
    for (now, error) in [
        (allocated, "claim default/c got allocated elsewhere in the meantime"),
        (deleted, "claim default/c got deleted in the meantime"),
        (replaced, "claim default/c got deleted in the meantime"),
    ] {
        assert_eq!(bind(&placement, &server(&[now])), Err(error.to_owned()));
    }
}

#[test]
fn assumed_devices_are_in_use_until_the_pod_gives_up_its_node() {
    let mut cluster = two_nodes([claim("c", &[request("r", 2)]), claim("d", &[request("r", 1)])]);
    let (placement, _) = reserved(&mut cluster, &["c"]);
    assert_eq!(answer(&cluster, user(&["d"]), "n1"), NONE);
    let in_flight = "resource claim default/c is in the process of being allocated";
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), in_flight);
    assert!(trial().unreserve(&mut cluster, &placement).is_empty());
    assert_eq!(answer(&cluster, user(&["d"]), "n1"), "");
}

#[test]
fn an_allocation_that_the_api_server_reports_replaces_the_assumed_one() {
    let own = claim("c", &[request("r", 2)]);
    let mut cluster = two_nodes([own.clone(), claim("d", &[request("r", 1)])]);
    reserved(&mut cluster, &["c"]);
    set_custom::<ResourceClaim>(&mut cluster, [allocated(own, "n2", &["c"], &[])]);
    assert_eq!(answer(&cluster, user(&["d"]), "n1"), "");
    assert_eq!(answer(&cluster, user(&["d"]), "n2"), NONE);
}

#[test]
fn a_written_reservation_is_taken_back_when_the_pod_gives_up_its_node() {
    let claims = [claim("c", &[request("r", 1)])];
    let mut cluster = two_nodes(claims.clone());
    let (placement, _) = reserved(&mut cluster, &["c"]);
    let server = server(&claims);
    assert_eq!(bind(&placement, &server), Ok(()));
    for call in trial().unreserve(&mut cluster, &placement) {
        finished(server.api().call(call)).unwrap();
    }
    assert_eq!(stored(&server, "c")["status"]["reservedFor"], json!([]));
    assert_eq!(stored(&server, "c")["status"]["allocation"]["devices"]["results"][0]["device"], "a");
}

#[test]
fn a_binding_waits_until_its_devices_are_ready() {
    let mut slow = device("a");
    slow["bindingConditions"] = json!(["Ready"]);
    slow["bindingFailureConditions"] = json!(["Broken"]);
    for (devices, expected) in [
        (reported("Ready"), Ok(())),
        (reported("Broken"), Err("device binding failed: claim=c, reason=R, message=\"M\"")),
        (json!([]), Err("device binding timeout: context deadline exceeded")),
    ] {
        let own = claim("c", &[request("r", 1)]);
        let mut cluster = world([node("n1")]);
        set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[slow.clone()])]);
        set_custom::<ResourceClaim>(&mut cluster, [own.clone()]);
        let (placement, _) = reserved(&mut cluster, &["c"]);
        let mut known = own;
        known["status"] = json!({"devices": devices});
        assert_eq!(bind(&placement, &server(&[known])), expected.map_err(str::to_owned));
    }
}
