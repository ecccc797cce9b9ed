//! Host ports.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World};

/// Host ports of containers and init containers.
pub(super) struct Ports;

impl Flavour for Ports {
    fn name(&self) -> &'static str {
        "host ports"
    }

    fn share(&self) -> usize {
        45
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        if !random.chance(40) {
            return;
        }
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                // An API server rejects a pod that uses a host port twice.
                if world.admitted && !random.chance(50) {
                    continue;
                }
                let port = port(random, world);
                push(&mut container["ports"], port);
                if world.admitted {
                    return;
                }
            }
        }
    }
}

fn port(random: &mut Random, world: &World) -> Value {
    let number = *random.pick(&[80, 8080, 8081, 9100]);
    let mut port = json!({"containerPort": number});
    if random.chance(90) {
        port["hostPort"] = number.into();
    }
    if random.chance(40) {
        port["protocol"] = (*random.pick(&["TCP", "UDP", "SCTP"])).into();
    }
    let addresses: &[&str] = if world.admitted {
        &["0.0.0.0", "127.0.0.1"]
    } else {
        &["0.0.0.0", "127.0.0.1", "10.0.0.1", "::", ""]
    };
    if random.chance(40) {
        port["hostIP"] = (*random.pick(addresses)).into();
    }
    port
}
