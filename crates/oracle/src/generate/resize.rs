//! Running containers whose resources differ from the spec (in-place resize, KEP-1287).

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World, quantity};

/// Resources in the status of bound pods.
pub(super) struct Resize;

impl Flavour for Resize {
    fn name(&self) -> &'static str {
        "in-place resize"
    }

    fn share(&self) -> usize {
        35
    }

    // An API server drops the status on creation.
    fn admitted(&self) -> bool {
        false
    }

    fn bound(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if !random.chance(40) {
            return;
        }
        for (list, statuses) in
            [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
        {
            let containers = pod["spec"][list].as_array().cloned().unwrap_or_default();
            for container in containers {
                if random.chance(70) {
                    let status = container_status(random, &container["name"]);
                    push(&mut pod["status"][statuses], status);
                }
            }
        }
        if random.chance(40) {
            let reason = *random.pick(&["Infeasible", "Deferred"]);
            let condition = json!({"type": "PodResizePending", "status": "True", "reason": reason});
            push(&mut pod["status"]["conditions"], condition);
        }
        if !pod["spec"]["resources"].is_null() && random.chance(60) {
            pod["status"]["resources"] = json!({"requests": {"cpu": quantity::cpu(random)}});
            if random.chance(50) {
                pod["status"]["allocatedResources"] = json!({"memory": quantity::memory(random)});
            }
        }
    }
}

fn container_status(random: &mut Random, name: &Value) -> Value {
    let mut status = json!({
        "name": name, "image": "x", "imageID": "", "ready": true, "restartCount": 0,
    });
    if random.chance(75) {
        status["resources"] = json!({"requests": {"cpu": quantity::cpu(random)}});
        if random.chance(60) {
            status["resources"]["requests"]["memory"] = quantity::memory(random).into();
        }
    }
    if random.chance(60) {
        status["allocatedResources"] = json!({"cpu": quantity::cpu(random)});
    }
    status
}
