use harbormaster_framework::events::Hint;
use harbormaster_testkit::custom;

use super::*;

fn wakes(old: Option<&Value>, new: Option<&Value>) -> bool {
    let typed = |object: Option<&Value>| object.map(custom::<ResourceClaim>);
    let (old, new) = (typed(old), typed(new));
    trial().custom_hint(&user(&["c"]).info(), old.as_ref(), new.as_ref()) == Some(Hint::Queue)
}

#[test]
fn changes_of_the_pods_own_claims_and_released_devices_wake_the_pod() {
    let (own, other) = (claim("c", &[request("r", 1)]), claim("other", &[request("r", 1)]));
    let with_devices = |claim: &Value| allocated(claim.clone(), "n1", &["a"], &[]);
    let mut labeled = own.clone();
    labeled["metadata"]["labels"] = json!({"a": "b"});
    for (what, old, new, expected) in [
        ("own claim created", None, Some(own.clone()), true),
        ("other claim created", None, Some(other.clone()), false),
        ("own claim allocated", Some(own.clone()), Some(with_devices(&own)), true),
        ("other claim allocated", Some(other.clone()), Some(with_devices(&other)), false),
        ("other claim released", Some(with_devices(&other)), Some(other.clone()), true),
        ("own claim labeled", Some(own.clone()), Some(labeled), false),
        ("own claim deleted", Some(own.clone()), None, false),
    ] {
        assert_eq!(wakes(old.as_ref(), new.as_ref()), expected, "{what}");
    }
}
