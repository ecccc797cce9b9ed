//! The `spec` of claims: requests with and without alternatives, constraints and configurations.

use serde_json::{Value, json};

use super::classes;
use crate::generate::Random;
use crate::generate::world::push;

/// Attributes that constraints name. Some devices lack them.
const ATTRIBUTES: &[&str] = &[
    "gpu.example.com/model",
    "gpu.example.com/model",
    "gpu.example.com/version",
    "example.com/numa",
    "example.com/numa",
    "nic.example.com/index",
    "gpu.example.com/healthy",
];

/// Generates the `spec` of a claim.
pub(super) fn spec(random: &mut Random, may_fail: bool) -> Value {
    let count = *random.pick(&[1, 1, 1, 1, 1, 2, 2, 3]);
    let mut devices = json!({});
    let mut names = Vec::new();
    for index in 0..count {
        let name = format!("req-{index}");
        let request = if random.chance(25) {
            let count = random.range(1, 3);
            let options = (0..count).map(|index| {
                let mut demand = demand(random, may_fail, false);
                demand["name"] = format!("option-{index}").into();
                names.push(format!("{name}/option-{index}"));
                demand
            });
            let options: Vec<Value> = options.collect();
            json!({"name": name, "firstAvailable": options})
        } else if may_fail && random.chance(1) {
            json!({"name": name})
        } else {
            json!({"name": name, "exactly": demand(random, may_fail, true)})
        };
        names.push(name);
        push(&mut devices["requests"], request);
    }
    if random.chance(25) {
        for _ in 0..random.range(1, 2) {
            let mut constraint = json!({});
            let kind = if random.chance(65) { "matchAttribute" } else { "distinctAttribute" };
            constraint[kind] = (*random.pick(ATTRIBUTES)).into();
            if random.chance(30) {
                constraint["requests"] = json!(some(random, &names));
            }
            push(&mut devices["constraints"], constraint);
        }
    }
    if random.chance(25) {
        for _ in 0..random.range(1, 2) {
            let mut config = classes::configuration(random);
            if random.chance(60) {
                config["requests"] = json!(some(random, &names));
            }
            push(&mut devices["config"], config);
        }
    }
    json!({"devices": devices})
}

fn some(random: &mut Random, names: &[String]) -> Vec<String> {
    let count = random.range(1, 2);
    random.sample(names, count)
}

/// Generates an exact request, or one of several alternatives.
fn demand(random: &mut Random, may_fail: bool, is_exact: bool) -> Value {
    let mut demand = json!({"deviceClassName": classes::name(random)});
    if random.chance(12) {
        demand["allocationMode"] = "All".into();
    } else {
        demand["allocationMode"] = "ExactCount".into();
        demand["count"] = (*random.pick(&[1, 1, 1, 1, 1, 2, 2, 3, 4])).into();
    }
    if may_fail && random.chance(1) {
        demand["count"] = 33.into();
        demand["allocationMode"] = "ExactCount".into();
    }
    if random.chance(45) {
        for _ in 0..random.range(1, 2) {
            push(&mut demand["selectors"], classes::selector(random, may_fail));
        }
    }
    if is_exact && random.chance(6) {
        demand["adminAccess"] = true.into();
    }
    if random.chance(20) {
        let mut toleration = json!({"operator": "Exists"});
        if random.chance(70) {
            toleration["key"] = (*random.pick(&["example.com/broken", "example.com/maintenance"])).into();
            if random.chance(40) {
                toleration["operator"] = "Equal".into();
                toleration["value"] = (*random.pick(&["", "yes"])).into();
            }
        }
        if random.chance(50) {
            toleration["effect"] = (*random.pick(&["NoSchedule", "NoExecute"])).into();
        }
        push(&mut demand["tolerations"], toleration);
    }
    if random.chance(20) {
        let name = *random.pick(&["memory", "memory", "gpu.example.com/memory", "bandwidth", "colour"]);
        let amount = *random.pick(&["1Gi", "3Gi", "1500Mi", "8Gi", "20Gi", "0", "1", "12Gi"]);
        demand["capacity"]["requests"][name] = amount.into();
    }
    demand
}
