//! Devices: classes, slices and claims in every state, and pods with claims.

pub(crate) mod admitted;
mod claims;
mod classes;
mod extended;
mod requests;
mod slices;
mod taint_rules;

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Profile, Random, World};

/// Drivers of the devices.
const GPU: &str = "gpu.example.com";
const NIC: &str = "nic.example.com";

/// Number of claims that users create in each of the first two namespaces.
const NAMED_CLAIMS: usize = 14;

/// Dynamic resource allocation.
pub(super) struct Devices;

impl Flavour for Devices {
    fn name(&self) -> &'static str {
        "devices"
    }

    fn share(&self) -> usize {
        50
    }

    fn is_about_devices(&self) -> bool {
        true
    }

    // Scripts take their devices from `admitted`.
    fn admitted(&self) -> bool {
        false
    }

    fn objects(&self, random: &mut Random, world: &World) -> Vec<Value> {
        // A failing selector ends the attempt for the whole pod, so most clusters have no such selectors.
        let may_fail = random.chance(25);
        let slices = slices::all(random, world);
        let mut objects = classes::all(random, may_fail);
        objects.extend(claims::all(random, &slices, may_fail));
        if slices.iter().any(|slice| !slice["spec"]["sharedCounters"].is_null()) {
            let claims = objects.iter_mut().filter(|object| object["kind"] == "ResourceClaim");
            // kube-scheduler 1.36 crashes if a request for all devices reaches a device that consumes counters.
            claims.for_each(take_one_instead_of_all);
        }
        objects.extend(slices);
        if random.chance(20) {
            objects.extend(taint_rules::all(random, world));
        }
        objects
    }

    fn node(&self, random: &mut Random, _world: &World, node: &mut Value) {
        extended::vary_node(random, node);
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        extended::vary_pod(random, pod, true);
    }

    fn profile(&self, random: &mut Random, _world: &World, profile: &mut Profile) {
        extended::vary_profile(random, profile);
    }

    fn pending(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if !random.chance(60) {
            return;
        }
        let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for index in 0..*random.pick(&[1, 1, 1, 1, 2, 2, 3]) {
            let generated = claims::ENTRIES.get(index).filter(|_| random.chance(55));
            let entry = generated.map_or_else(|| format!("named-{index}"), ToString::to_string);
            let claim = match generated {
                Some(_) => json!({"name": entry, "resourceClaimTemplateName": "template"}),
                // The last possible name belongs to no claim.
                None => {
                    json!({"name": entry, "resourceClaimName": claim_name(random.below(NAMED_CLAIMS) + usize::from(random.chance(3)))})
                }
            };
            push(&mut pod["spec"]["resourceClaims"], claim);
            if generated.is_none() {
                continue;
            }
            let created = match random.below(30) {
                0 => continue,
                1 => json!({"name": entry}),
                _ => json!({"name": entry, "resourceClaimName": format!("{pod_name}-{entry}")}),
            };
            push(&mut pod["status"]["resourceClaimStatuses"], created);
        }
    }
}

/// Replaces the claim's requests for all devices by requests for one device.
fn take_one_instead_of_all(object: &mut Value) {
    for request in object["spec"]["devices"]["requests"].as_array_mut().into_iter().flatten() {
        let mut demands: Vec<&mut Value> = Vec::new();
        match request["firstAvailable"].is_null() {
            true => demands.push(&mut request["exactly"]),
            false => demands.extend(request["firstAvailable"].as_array_mut().into_iter().flatten()),
        }
        for demand in demands.into_iter().filter(|demand| demand["allocationMode"] == "All") {
            demand["allocationMode"] = "ExactCount".into();
            demand["count"] = 1.into();
        }
    }
}

fn claim_name(index: usize) -> String {
    format!("devices-{index}")
}
