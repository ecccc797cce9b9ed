//! Allocation of claims without pods.
//!
//! `scheduler_perf` allocates such claims with the code of kube-scheduler. Here, each claim simply gets a device of its
//! own, which is the same if all claims ask for one device of a driver and devices do not depend on each other.

use serde_json::Value;

use super::super::obstacle::Obstacle;
use super::{ObjectSet, PlannedStep, Step};

/// Returns the driver whose devices the claims in a namespace get, or in all namespaces if it is empty. `None` if the
/// steps create no such claims.
pub(super) fn driver(steps: &[PlannedStep], namespace: &str) -> Result<Option<String>, Obstacle> {
    let is_there = |set: &&ObjectSet| namespace.is_empty() || set.namespace.as_deref() == Some(namespace);
    let mut driver = None;
    for claims in sets(steps, "ResourceClaim").filter(is_there).filter(|set| set.count > 0) {
        let claim = claims.template.render(0, claims.count)?;
        let class =
            only_class(&claim).ok_or_else(|| failed("a claim asks for more than one device of a class"))?;
        let found = driver_of_class(steps, class)?;
        if driver.as_ref().is_some_and(|known| *known != found) {
            return Err(failed("the claims ask for devices of several drivers"));
        }
        driver = Some(found);
    }
    if let Some(driver) = &driver {
        check_devices(steps, driver)?;
    }
    Ok(driver)
}

fn failed(problem: &str) -> Obstacle {
    Obstacle::new(format!("{problem}, which would have to be allocated with the code of kube-scheduler"))
}

/// Iterates over the sets of objects of a kind.
fn sets<'a>(steps: &'a [PlannedStep], kind: &'a str) -> impl Iterator<Item = &'a ObjectSet> {
    steps.iter().filter_map(move |planned| match &planned.step {
        Step::CreateObjects(set) if set.object_type.kind == kind => Some(set),
        _ => None,
    })
}

/// Returns the class if the claim asks for one device of it and nothing else.
fn only_class(claim: &Value) -> Option<&str> {
    let devices = claim["spec"]["devices"].as_object()?;
    let [request] = &devices.get("requests")?.as_array()?[..] else { return None };
    let (request, exactly) = (request.as_object()?, request["exactly"].as_object()?);
    // Besides the class, nothing may be asked for.
    (devices.len() == 1 && request.len() == 2 && exactly.len() == 1).then_some(())?;
    exactly.get("deviceClassName")?.as_str()
}

/// Returns the driver whose devices the class contains.
fn driver_of_class(steps: &[PlannedStep], class: &str) -> Result<String, Obstacle> {
    for set in sets(steps, "DeviceClass") {
        let object = set.template.render(0, set.count)?;
        if object["metadata"]["name"] != class {
            continue;
        }
        let Some([selector]) = object["spec"]["selectors"].as_array().map(Vec::as_slice) else { break };
        let expression = selector["cel"]["expression"].as_str().unwrap_or_default();
        let driver = expression
            .trim()
            .strip_prefix("device.driver == ")
            .map(|driver| driver.trim_matches(['"', '\'']));
        match driver {
            Some(driver) if !driver.contains(['"', '\'', ' ']) => return Ok(driver.to_owned()),
            _ => break,
        }
    }
    Err(failed("a claim asks for a class that does not consist of all devices of a driver"))
}

/// Fails unless every device of the driver is on one node and can be allocated independently of the others.
fn check_devices(steps: &[PlannedStep], driver: &str) -> Result<(), Obstacle> {
    for set in sets(steps, "ResourceSlice") {
        let spec = &set.template.render(0, set.count)?["spec"];
        let devices = spec["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_simple =
            |device: &Value| device.get("consumesCounters").is_none() && device.get("taints").is_none();
        if spec["driver"] == driver && !(spec["nodeName"].is_string() && devices.iter().all(is_simple)) {
            return Err(failed("the devices of the claims depend on each other"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_simple_if_it_asks_for_one_device_of_a_class() {
        let class = json!({"deviceClassName": "c"});
        for (devices, expected) in [
            (json!({"requests": [{"name": "r", "exactly": class}]}), Some("c")),
            (json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}]}), None),
            (json!({"requests": [{"name": "r", "exactly": class}, {"name": "s", "exactly": class}]}), None),
            (json!({"requests": [{"name": "r", "exactly": class}], "constraints": []}), None),
            (json!({"requests": [{"name": "r", "firstAvailable": [class]}]}), None),
        ] {
            assert_eq!(only_class(&json!({"spec": {"devices": devices}})), expected, "{devices}");
        }
    }
}
