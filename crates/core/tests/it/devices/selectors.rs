//! Selectors that are wrong, fail or cost too much, and searches without end: the pod gets an error, and all other pods
//! are scheduled.

use super::*;

/// A world with one node that has as many devices as a slice can have, and with a class for each selector.
fn world_with(selectors: &[(&str, String)]) -> World {
    let mut world = world();
    let devices: Vec<_> = (0..128).map(|at| json!({"name": format!("d{at:03}")})).collect();
    let mut full = slice();
    full["spec"]["devices"] = devices.into();
    world.tell::<ResourceSlice>(&full);
    for (name, expression) in selectors {
        let spec = json!({"selectors": [{"cel": {"expression": expression}}]});
        world.tell::<DeviceClass>(&json!({"metadata": {"name": name}, "spec": spec}));
    }
    world
}

/// An expression that evaluates `inner` at most 10^`digits` times.
fn nested(digits: usize, inner: &str) -> String {
    (0..digits).fold(inner.to_owned(), |inner, at| format!("[0,1,2,3,4,5,6,7,8,9].all(v{at}, {inner})"))
}

/// Asserts that the pod with the claim `bad` fails with the error, even when it is tried again, and that another pod
/// gets a device.
fn costs_only_its_own_pod(world: &mut World, name: &str, bad: &Value, error: &str) {
    let good = format!("after-{name}");
    world.tell::<ResourceClaim>(bad);
    world.tell::<ResourceClaim>(&claim(&good));
    world.add_pod(user(name, &[name]));
    world.add_pod(user(&good, &[&good]));
    let outcome = world.attempt().unwrap().outcome;
    let Outcome::Error(message) = &outcome else { panic!("{name}: {outcome:?}") };
    assert!(message.contains(error), "{name}: {message}");
    let outcome = world.attempt().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{name}: {outcome:?}");
    // The pod comes back only after its backoff.
    assert!(world.attempt().is_none());
    world.wait(std::time::Duration::from_secs(2));
    let again = world.attempt().expect("the pod is tried again");
    assert_eq!((again.pod.name.as_str(), &again.outcome), (name, &Outcome::Error(message.clone())));
    world.remove_pod(name);
}

#[test]
fn a_selector_that_is_wrong_or_fails_or_costs_too_much_fails_only_its_own_pod() {
    let cases = [
        ("unfinished", "device.driver ==".to_owned(), "class unfinished: selector #0: CEL compile error: "),
        ("no-bool", "device.driver".to_owned(), "class no-bool: selector #0: CEL compile error: "),
        ("unknown", "devices.driver == ''".to_owned(), "class unknown: selector #0: CEL compile error: "),
        ("failing", "1 / 0 == 1".to_owned(), "class failing: selector #0: CEL runtime error: "),
        ("costly", nested(6, "true"), "cost limit exceeded"),
        ("endless", nested(12, "device.driver.matches('^(a+)+$') || true"), "cost limit exceeded"),
        ("deep", format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)), "CEL compile error: "),
    ];
    let selectors: Vec<_> = cases.iter().map(|(name, selector, _)| (*name, selector.clone())).collect();
    let mut world = world_with(&selectors);
    for (name, _, error) in cases {
        let mut bad = claim(name);
        bad["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = name.into();
        costs_only_its_own_pod(&mut world, name, &bad, error);
    }
}

#[test]
fn a_search_without_end_fails_only_its_own_pod() {
    let mut world = world_with(&[("none", "false".to_owned())]);
    let mut bad = claim("endless");
    let exactly = |class: &str, count: u32| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let requests = json!([{"name": "half", "exactly": exactly("gpu", 30)}, {"name": "none", "exactly": exactly("none", 1)}]);
    bad["spec"]["devices"]["requests"] = requests;
    costs_only_its_own_pod(&mut world, "endless", &bad, "node n: timed out trying to allocate devices");
}
