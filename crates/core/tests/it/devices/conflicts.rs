//! Devices that two claims have because a write of a killed scheduler arrived late.

use std::time::Duration;

use harbormaster_core::Note;

use super::*;

/// The claim with the only device.
fn with_device(name: &str) -> Value {
    let mut claim = claim(name);
    let result = json!({"request": "r", "driver": DRIVER, "pool": "n", "device": "d"});
    claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
    claim
}

fn warnings(world: &mut World) -> Vec<String> {
    let notes = world.engine.take_notes().into_iter().filter_map(|note| match note {
        Note::Contradiction(it) => Some(format!("{}: {}: {}", it.problem, it.subject, it.objects.join(" "))),
        _ => None,
    });
    notes.collect()
}

fn claim_goes(world: &mut World, name: &str) {
    world.input(Input::CustomGone(ObjectPath::of::<ResourceClaim>("default", name).key()));
}

#[test]
fn a_device_that_a_late_write_gives_to_a_second_claim_is_reported_once_and_stays_in_use() {
    let mut world = world();
    world.tell::<ResourceClaim>(&claim("old"));
    world.tell::<ResourceClaim>(&claim("new"));
    world.tell::<ResourceClaim>(&claim("next"));
    world.add_pod(user("p", &["new"]));
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }), "the device is free");
    world.tell::<ResourceClaim>(&with_device("old"));
    assert_eq!(warnings(&mut world), [""; 0], "the watch may be listing claims");
    world.wait(Duration::from_secs(9));
    assert_eq!(warnings(&mut world), [""; 0], "after nine seconds");
    assert!(world.engine.next_wakeup().is_some(), "the host must not sleep through the report");
    world.wait(Duration::from_secs(1));
    let expected = format!(
        "a device is allocated to several claims: device d, pool n, driver {DRIVER}: default/new default/old"
    );
    assert_eq!(warnings(&mut world), [expected], "after ten seconds");
    world.tell::<ResourceClaim>(&with_device("new"));
    world.wait(Duration::from_secs(600));
    assert_eq!(warnings(&mut world), [""; 0], "it was reported already");
    assert_eq!(world.engine.sizes().contradictions, 1);

    claim_goes(&mut world, "old");
    world.wait(Duration::from_secs(60));
    assert_eq!((warnings(&mut world).len(), world.engine.sizes().contradictions), (0, 0), "it is resolved");
    let (message, _) = attempt(&mut world, user("q", &["next"]));
    assert!(message.contains("1 cannot allocate all claims"), "one claim still has the device: {message}");
    claim_goes(&mut world, "new");
    let outcome = world.attempt().expect("the device that is free wakes the pod").outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
}

#[test]
fn a_device_that_moves_to_another_claim_while_claims_are_listed_is_not_reported() {
    let mut world = world();
    world.tell::<ResourceClaim>(&with_device("old"));
    world.tell::<ResourceClaim>(&with_device("new"));
    world.wait(Duration::from_secs(9));
    claim_goes(&mut world, "old");
    world.wait(Duration::from_secs(60));
    assert_eq!(warnings(&mut world), [""; 0]);
}
