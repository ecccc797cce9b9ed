//! Bindings of pods with claims when something goes wrong: other writers, failing requests, and a scheduler that is
//! killed.

use harbormaster_core::BindOutcome;
use harbormaster_testkit::FakeApi;

use super::*;
use crate::world::{
    faults::{Fault, FaultyApi},
    pre_bind,
};

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Number of requests of an undisturbed binding: one for the finalizer, then one for the status.
const REQUESTS: usize = 2;

fn path(claim: &str) -> ObjectPath {
    ObjectPath::of::<ResourceClaim>("default", claim)
}

/// An API server with claims.
fn server(claims: &[&str]) -> FakeApi {
    let server = FakeApi::default();
    claims.iter().for_each(|name| server.set::<ResourceClaim>(claim(name)));
    server
}

/// A world that knows the claims of the server.
fn world_of(server: &FakeApi) -> World {
    let mut world = world();
    world.see_claims(server);
    world
}

impl World {
    fn see_claims(&mut self, server: &FakeApi) {
        server.all::<ResourceClaim>("default").iter().for_each(|claim| self.tell::<ResourceClaim>(claim));
    }

    fn is_placed(&mut self, pod: Pod) -> bool {
        self.add_pod(pod);
        matches!(self.attempt().map(|attempted| attempted.outcome), Some(Outcome::Assumed { .. }))
    }

    /// Waits for the end of all backoffs, and tries to schedule the pods in the queue. Returns the pods that got nodes.
    fn placed_later(&mut self) -> Vec<String> {
        self.wait(std::time::Duration::from_secs(20));
        let mut placed = Vec::new();
        while let Some(attempted) = self.attempt() {
            if matches!(attempted.outcome, Outcome::Assumed { .. }) {
                placed.push(attempted.pod.name.to_string());
            }
        }
        placed
    }
}

/// Devices in the API server as `claim=device`.
fn devices(server: &FakeApi) -> Vec<String> {
    let claims = server.all::<ResourceClaim>("default");
    let with_devices = claims.iter().filter_map(|claim| {
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        Some(format!("{}={}", claim["metadata"]["name"].as_str()?, result["device"].as_str()?))
    });
    with_devices.collect()
}

#[test]
fn after_a_kill_at_any_request_the_next_scheduler_completes_the_binding_with_one_device() {
    for sent in 0..=REQUESTS {
        let server = server(&["c", "d"]);
        let mut killed = world_of(&server);
        assert!(killed.is_placed(user("p", &["c"])));
        let result = pre_bind(&killed.binding(), &FaultyApi::to(&server, Fault::Down, sent));
        assert_eq!(result.is_ok(), sent == REQUESTS, "killed after {sent} requests");
        drop(killed);

        let mut next = world_of(&server);
        assert!(next.is_placed(user("p", &["c"])), "killed after {sent} requests");
        assert_eq!(pre_bind(&next.binding(), &server.api()), Ok(()), "killed after {sent} requests");
        assert_eq!(devices(&server), ["c=d"]);
        let written = server.object(&path("c"));
        assert_eq!(written["status"]["reservedFor"].as_array().map(Vec::len), Some(1));
        assert_eq!(written["metadata"]["finalizers"], json!([FINALIZER]));
        assert!(!next.is_placed(user("q", &["d"])), "the only device is in use");
    }
}

#[test]
fn after_a_conflict_at_any_request_the_claim_gets_its_device_at_once_or_in_the_next_attempt() {
    for fault in [Fault::Labeled, Fault::AnswerLost] {
        for at in 0..REQUESTS {
            let server = server(&["c"]);
            let mut world = world_of(&server);
            assert!(world.is_placed(user("p", &["c"])));
            let result = pre_bind(&world.binding(), &FaultyApi::to(&server, fault, at));
            // As in kube-scheduler, if the answer to the status write is lost, the allocation seems to be the work of
            // another writer.
            let is_lost = fault == Fault::AnswerLost && at + 1 == REQUESTS;
            assert_eq!(result.is_err(), is_lost, "{fault:?} at request {at}: {result:?}");
            if let Err(why) = result {
                assert!(why.ends_with("claim default/c got allocated elsewhere in the meantime"), "{why}");
                world.see_claims(&server);
                world.bind_finished("p", BindOutcome::Failed(why));
                assert_eq!(world.placed_later(), ["p"], "the next attempt finds the claim reserved");
            }
            assert_eq!(devices(&server), ["c=d"]);
            assert_eq!(server.object(&path("c"))["status"]["reservedFor"][0]["uid"], "p");
        }
    }
}

#[test]
fn a_claim_that_keeps_changing_fails_the_binding_after_five_conflicts() {
    let server = server(&["c"]);
    let mut world = world_of(&server);
    assert!(world.is_placed(user("p", &["c"])));
    let why = pre_bind(&world.binding(), &FaultyApi::to(&server, Fault::AlwaysLabeled, 0)).unwrap_err();
    assert!(why.contains("add finalizer to claim default/c: "), "{why}");
    let patches =
        server.calls().iter().filter(|call| !call.body["metadata"]["resourceVersion"].is_null()).count();
    assert_eq!(patches, 5);
    world.bind_finished("p", BindOutcome::Failed(why));
    assert!(world.placed_later().contains(&"p".to_owned()), "the pod is tried again");
}

#[test]
fn a_finalizer_that_is_already_present_is_not_written_again() {
    let server = server(&["c"]);
    let protected = json!({"metadata": {"finalizers": [FINALIZER]}});
    let call = ApiCall::patch(path("c"), protected);
    harbormaster_testkit::trial::finished(server.api().call(call)).unwrap();
    let mut world = world_of(&server);
    assert!(world.is_placed(user("p", &["c"])));
    assert_eq!(pre_bind(&world.binding(), &server.api()), Ok(()));
    let writes: Vec<_> = server.calls().into_iter().skip(1).map(|call| call.path.subresource).collect();
    assert_eq!(writes, ["status"]);
    assert_eq!(server.object(&path("c"))["metadata"]["finalizers"], json!([FINALIZER]));
}

#[test]
fn a_finalizer_that_is_removed_concurrently_is_added_again() {
    let server = server(&["c"]);
    let mut world = world_of(&server);
    assert!(world.is_placed(user("p", &["c"])));
    assert_eq!(pre_bind(&world.binding(), &FaultyApi::to(&server, Fault::Unprotected, 1)), Ok(()));
    assert_eq!(server.object(&path("c"))["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(devices(&server), ["c=d"]);
}

#[test]
fn a_claim_that_is_deleted_during_the_binding_takes_no_device_with_it() {
    for (at, why) in [(0, "not found"), (1, "got deleted in the meantime")] {
        let server = server(&["c", "d"]);
        let mut world = world_of(&server);
        assert!(world.is_placed(user("p", &["c"])));
        assert!(!world.is_placed(user("q", &["d"])), "p has the only device");
        let failed = pre_bind(&world.binding(), &FaultyApi::to(&server, Fault::Deleted, at)).unwrap_err();
        assert!(failed.contains(why), "{failed}");
        // The claim is gone, or it is being deleted but still has its finalizer.
        match server.object(&path("c")) {
            Value::Null => world.input(Input::CustomGone(path("c").key())),
            claim => world.tell::<ResourceClaim>(&claim),
        }
        world.bind_finished("p", BindOutcome::Failed(failed));
        assert_eq!(world.placed_later(), ["q"], "the device is free, and p has no claim");

        world.input(Input::CustomGone(path("c").key()));
        world.remove_pod("q");
        world.bind_finished("q", BindOutcome::Failed("gone".to_owned()));
        let mut again = claim("c");
        again["metadata"]["uid"] = "another".into();
        world.tell::<ResourceClaim>(&again);
        assert_eq!(world.placed_later(), ["p"], "the new claim wakes its pod");
    }
}

#[test]
fn a_slice_that_disappears_during_the_binding_leaves_the_device_with_its_claim() {
    let server = server(&["c", "d"]);
    let mut world = world_of(&server);
    assert!(world.is_placed(user("p", &["c"])));
    let task = world.binding();
    world.input(Input::CustomGone(ObjectPath::of::<ResourceSlice>("", "s").key()));
    assert_eq!(pre_bind(&task, &server.api()), Ok(()), "as in kube-scheduler, the decision stands");
    world.see_claims(&server);
    world.bind_finished("p", BindOutcome::Bound);
    assert!(!world.is_placed(user("q", &["d"])), "there is no device");
    world.tell::<ResourceSlice>(&slice());
    assert_eq!(world.placed_later(), [""; 0], "the device is back, and in use");
    let mut released = server.object(&path("c"));
    released["status"] = Value::Null;
    world.tell::<ResourceClaim>(&released);
    assert_eq!(world.placed_later(), ["q"]);
}

#[test]
fn a_pod_that_shares_a_claim_is_woken_when_the_binding_fails_before_the_claim_has_devices() {
    let server = server(&["c"]);
    let mut world = world_of(&server);
    assert!(world.is_placed(user("p", &["c"])));
    let (message, _) = attempt(&mut world, user("q", &["c"]));
    assert!(message.contains("resource claim default/c is in the process of being allocated"), "{message}");
    world.remove_pod("p");
    world.bind_finished("p", BindOutcome::Failed("pod does not exist any more".to_owned()));
    assert_eq!(world.placed_later(), ["q"]);
}
