//! Services and controllers, which PodTopologySpread's default constraints use, and pods that belong to them.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::namespaces::NAMESPACES;
use super::world::push;
use super::{Random, World, selectors};

/// Controllers: API version, kind and prefix of the name.
const CONTROLLERS: &[(&str, &str, &str)] = &[
    ("apps/v1", "ReplicaSet", "rs"),
    ("v1", "ReplicationController", "rc"),
    ("apps/v1", "StatefulSet", "sts"),
];

/// Kinds of pod owners that no plugin uses, in the same form.
const OTHER_OWNERS: &[(&str, &str, &str)] = &[
    ("batch/v1", "Job", "rs"),
    ("extensions/v1beta1", "ReplicaSet", "rs"),
    ("example.com/v1", "Set", "set"),
];

/// Services, ReplicaSets, ReplicationControllers and StatefulSets.
pub(super) struct Owners;

impl Flavour for Owners {
    fn name(&self) -> &'static str {
        "owners"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn objects(&self, random: &mut Random, world: &World) -> Vec<Value> {
        let mut objects = Vec::new();
        for (namespace, _) in NAMESPACES {
            for index in 0..random.below(4) {
                objects.push(service(random, namespace, &format!("svc-{index}")));
            }
            for (version, kind, prefix) in CONTROLLERS {
                for index in 0..random.below(3) {
                    let name = format!("{prefix}-{index}");
                    let metadata = json!({"name": name, "namespace": namespace});
                    let spec = controller_spec(random, world, kind);
                    objects.push(
                        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}),
                    );
                }
            }
        }
        objects
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if !random.chance(60) {
            return;
        }
        // The second of the three owners often does not exist; the third never exists.
        let index = *random.pick(&[0, 0, 0, 1, 2]);
        let owners = if random.chance(90) { CONTROLLERS } else { OTHER_OWNERS };
        let (version, kind, prefix) = random.pick(owners);
        let name = format!("{prefix}-{index}");
        let mut owner = json!({"apiVersion": version, "kind": kind, "name": name, "uid": "an-owner"});
        if random.chance(95) {
            owner["controller"] = true.into();
        }
        push(&mut pod["metadata"]["ownerReferences"], owner);
    }
}

/// Generates a headless service, which needs no port and no address.
pub(crate) fn service(random: &mut Random, namespace: &str, name: &str) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "None"},
    });
    match random.below(10) {
        0 => {}
        1 => service["spec"]["selector"] = json!({}),
        2 => service["spec"]["selector"] = json!({"tier": "front", "app": "web"}),
        3 => service["spec"]["selector"] = json!({"version": random.pick(&["v1", ""])}),
        _ => service["spec"]["selector"] = json!({"app": random.pick(&["web", "db", "job"])}),
    }
    service
}

/// Generates the spec of a controller without replicas. Plugins use only its selector.
fn controller_spec(random: &mut Random, world: &World, kind: &str) -> Value {
    let app = *random.pick(&["web", "db", "job"]);
    let containers = json!([{"name": "c", "image": "x"}]);
    let template = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": containers}});
    let mut spec = json!({"replicas": 0, "template": template, "selector": {"app": app}});
    if kind != "ReplicationController" {
        spec["selector"] = match random.below(10) {
            0 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "cache"]}]}),
            1 => json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
            2 if !world.admitted => selectors::selector(random, world, &Value::Null),
            _ => json!({"matchLabels": {"app": app}}),
        };
    } else if !world.admitted && random.chance(10) {
        spec["selector"] = json!({});
    }
    if kind == "StatefulSet" {
        spec["serviceName"] = "svc-0".into();
    }
    spec
}
