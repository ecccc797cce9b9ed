//! Device classes, and the CEL expressions that select devices.

use serde_json::{Value, json};

use super::{GPU, extended};
use crate::generate::Random;

/// Name of a class that does not exist.
pub(super) const MISSING: &str = "class-missing";

/// Names of the classes; there is no class with the last name.
const NAMES: &[&str] = &["any", "gpu", "nic", "fast", "mixed", MISSING];

/// Picks the name of a class.
pub(super) fn name(random: &mut Random) -> &'static str {
    NAMES[*random.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5])]
}

/// Expressions that can be evaluated for every device.
const SOUND: &[&str] = &[
    "device.driver == 'gpu.example.com'",
    "device.driver.startsWith('nic')",
    "'model' in device.attributes['gpu.example.com'] && device.attributes['gpu.example.com'].model == 'a'",
    "device.attributes['gpu.example.com'].?model.orValue('b') in ['a', 'b']",
    "device.attributes['gpu.example.com'].?index.orValue(9) < 3",
    "has(device.capacity['gpu.example.com'].memory)",
    "device.capacity['gpu.example.com'].?memory.orValue(quantity('0')).compareTo(quantity('40Gi')) >= 0",
    "device.attributes['example.com'].?numa.orValue(0) == 0",
    "!(device.allowMultipleAllocations)",
    "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.?healthy.orValue(true))",
    "device.attributes['gpu.example.com'].?version.orValue(semver('1.0.0')).isLessThan(semver('2.0.0'))",
    "true",
];

/// Expressions that fail for devices without the attribute.
const RISKY: &[&str] = &[
    "device.attributes['gpu.example.com'].model == 'a'",
    "device.attributes['gpu.example.com'].healthy",
    "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('20Gi'))",
    "device.attributes['gpu.example.com'].version.compareTo(semver('1.5.0')) > 0",
    "device.attributes['nic.example.com'].index + 1 > 1",
];

/// Expressions that are not Boolean. Tests of the CEL evaluator cover the messages of other compile errors.
const WRONG: &[&str] = &["device.driver", "device.capacity", "1 + 1"];

/// Generates a selector.
pub(super) fn selector(random: &mut Random, may_fail: bool) -> Value {
    let expression = match random.below(30) {
        0 if may_fail => *random.pick(WRONG),
        1..=5 if may_fail => *random.pick(RISKY),
        _ => *random.pick(SOUND),
    };
    json!({"cel": {"expression": expression}})
}

/// Generates all classes.
pub(super) fn all(random: &mut Random, may_fail: bool) -> Vec<Value> {
    let mut classes = Vec::new();
    for name in &NAMES[..NAMES.len() - 1] {
        let selectors = match *name {
            "any" => Vec::new(),
            "gpu" => vec![json!({"cel": {"expression": format!("device.driver == '{GPU}'")}})],
            "nic" => vec![json!({"cel": {"expression": "device.driver == 'nic.example.com'"}})],
            _ => (0..random.range(1, 2)).map(|_| selector(random, may_fail)).collect(),
        };
        let mut class = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": name, "uid": format!("class-{name}"), "resourceVersion": "1"},
            "spec": {"selectors": selectors},
        });
        if random.chance(30) {
            class["spec"]["config"] = json!([configuration(random)]);
        }
        extended::vary_class(random, name, &mut class);
        classes.push(class);
    }
    classes
}

/// Generates a configuration for the driver [`GPU`].
pub(super) fn configuration(random: &mut Random) -> Value {
    let parameters = json!({"mode": random.pick(&["fast", "safe"]), "level": random.below(3)});
    json!({"opaque": {"driver": GPU, "parameters": parameters}})
}
