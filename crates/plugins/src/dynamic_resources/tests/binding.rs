use std::sync::Arc;

use harbormaster_framework::{
    cycle::Placement,
    meter::{DeviceWaitEnd, Measurement},
};
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
fn an_allocated_claim_is_reserved_but_not_allocated_again() {
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
fn a_claim_that_is_already_reserved_for_the_pod_is_not_written() {
    let claims = [allocated(claim("c", &[request("r", 1)]), "n1", &["a"], &["p"])];
    let (placement, _) = reserved(&mut two_nodes(claims.clone()), &["c"]);
    let server = server(&claims);
    assert_eq!(bind(&placement, &server), Ok(()));
    assert!(server.calls().is_empty());
}

#[test]
fn a_claim_that_changed_in_the_meantime_is_read_again() {
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
fn a_claim_that_was_allocated_or_deleted_or_replaced_fails_the_binding() {
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
    let replaced_by_equal = newer(&json!({"metadata": {"uid": "another", "resourceVersion": "1"}}));
    for (now, error) in [
        (allocated, "claim default/c got allocated elsewhere in the meantime"),
        (deleted, "claim default/c got deleted in the meantime"),
        (replaced, "claim default/c got deleted in the meantime"),
        (replaced_by_equal, "claim default/c got deleted in the meantime"),
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
fn devices_stay_in_use_until_they_are_ready_even_if_their_claim_loses_them_as_of_1_37() {
    let own = claim("c", &[request("r", 2)]);
    let with_conditions = |conditions: &Value| {
        let mut claim = allocated(own.clone(), "n1", &["a", "b"], &["p"]);
        claim["status"]["allocation"]["devices"]["results"][0]["bindingConditions"] = json!(["Ready"]);
        claim["status"]["devices"] = conditions.clone();
        claim
    };
    for (what, written, expected) in [
        ("not ready", with_conditions(&json!([])), ["", NONE]),
        ("ready", with_conditions(&reported("Ready")), ["", ""]),
        ("without conditions", allocated(own.clone(), "n1", &["a", "b"], &["p"]), ["", ""]),
    ] {
        for (release, expected) in [Release::V1_36, Release::V1_37].into_iter().zip(expected) {
            let mut cluster = two_nodes([own.clone(), claim("d", &[request("r", 1)])]);
            let plugin = plugin_of(release);
            let trial = Trial::of(plugin.clone());
            let placement = trial.reserve(&mut cluster, &user(&["c"]).info(), "n1").unwrap();
            for version in [written.clone(), own.clone()] {
                set_custom::<ResourceClaim>(&mut cluster, [version]);
            }
            assert_eq!(answer_of(&plugin, &cluster, user(&["d"]), "n1"), expected, "{what} in {release}");
            trial.unreserve(&mut cluster, &placement);
            assert_eq!(answer_of(&plugin, &cluster, user(&["d"]), "n1"), "", "{what} in {release}");
        }
    }
}

#[test]
fn a_new_claim_with_the_same_name_does_not_get_the_assumed_devices() {
    let own = claim("c", &[request("r", 2)]);
    let mut cluster = two_nodes([own.clone(), claim("d", &[request("r", 1)])]);
    reserved(&mut cluster, &["c"]);
    let mut another = own;
    another["metadata"]["uid"] = json!("another");
    set_custom::<ResourceClaim>(&mut cluster, [another]);
    assert_eq!(answer(&cluster, user(&["d"]), "n1"), "");
    assert_eq!(answer(&cluster, user(&["c"]), "n1"), "");
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
fn a_binding_waits_until_its_devices_are_ready_or_fail_or_time_is_up() {
    let mut slow = device("a");
    slow["bindingConditions"] = json!(["Ready"]);
    slow["bindingFailureConditions"] = json!(["Broken"]);
    for (devices, end, expected) in [
        (reported("Ready"), DeviceWaitEnd::Ready, Ok(())),
        (
            reported("Broken"),
            DeviceWaitEnd::Failed,
            Err("device binding failed: claim=c, reason=R, message=\"M\""),
        ),
        (json!([]), DeviceWaitEnd::TimedOut, Err("device binding timeout: context deadline exceeded")),
    ] {
        let own = claim("c", &[request("r", 1)]);
        let mut cluster = world([node("n1")]);
        set_custom::<ResourceSlice>(&mut cluster, [slice("n1", &[slow.clone()])]);
        set_custom::<ResourceClaim>(&mut cluster, [own.clone()]);
        let (placement, _) = reserved(&mut cluster, &["c"]);
        let mut known = own;
        known["status"] = json!({"devices": devices});
        let server = server(&[known]);
        assert_eq!(bind(&placement, &server), expected.map_err(str::to_owned));
        let event = "default/p BindingConditionsPending Scheduling: waiting for binding conditions for device on node n1";
        assert_eq!(server.events(), [event]);
        let wait = Measurement::DeviceWait {
            driver: DRIVER.into(),
            has_conditions: true,
            end,
            waited: std::time::Duration::ZERO,
        };
        assert_eq!(server.measurements(), [wait]);
    }
}

#[test]
fn devices_without_conditions_are_measured_only_if_the_pod_waits_for_other_devices() {
    let mut slow = device("b");
    slow["bindingConditions"] = json!(["Ready"]);
    for (devices, waits) in [(["a"].as_slice(), &[][..]), (&["a", "b"], &[false, true])] {
        let slices = [slice("n1", &[device("a"), slow.clone()])];
        let own = claim("c", &[request("r", devices.len() as i64)]);
        let mut cluster = world([node("n1")]);
        set_custom::<ResourceSlice>(&mut cluster, slices);
        set_custom::<ResourceClaim>(&mut cluster, [own.clone()]);
        let (placement, _) = reserved(&mut cluster, &["c"]);
        let mut known = own;
        let mut ready = reported("Ready");
        ready[0]["device"] = "b".into();
        known["status"] = json!({"devices": ready});
        let server = server(&[known]);
        assert_eq!(bind(&placement, &server), Ok(()));
        assert_eq!(server.events().len(), usize::from(!waits.is_empty()));
        let measured = server.measurements().into_iter().map(|measurement| match measurement {
            Measurement::DeviceWait { has_conditions, .. } => has_conditions,
            Measurement::ClaimCreation { .. } => panic!("no claim is created"),
        });
        assert_eq!(measured.collect::<Vec<_>>(), waits);
    }
}
