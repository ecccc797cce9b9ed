//! Namespaces with labels, and pods in them.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::{Random, World};

/// A namespace in which claims may ask for admin access.
pub(crate) const ADMIN_NAMESPACE: &str = "blue";

/// Namespaces of pods, with the labels that the namespaces have on an API server.
pub(super) const NAMESPACES: &[(&str, &[(&str, &str)])] = &[
    ("default", &[]),
    (ADMIN_NAMESPACE, &[("team", "blue"), ("env", "prod"), ("resource.kubernetes.io/admin-access", "true")]),
    ("green", &[("team", "green"), ("env", "test")]),
    ("bare", &[]),
];

/// Labels in namespace selectors.
pub(super) const LABELS: &[(&str, &[&str])] = &[
    ("team", &["blue", "green"]),
    ("env", &["prod", "test"]),
    ("kubernetes.io/metadata.name", &["default", "blue", "bare"]),
];

/// Namespace objects, and pods outside the `default` namespace.
pub(super) struct Namespaces;

impl Flavour for Namespaces {
    fn name(&self) -> &'static str {
        "namespaces"
    }

    fn relates_pods(&self) -> bool {
        true
    }

    fn objects(&self, random: &mut Random, world: &World) -> Vec<Value> {
        if world.admitted {
            return namespaces();
        }
        let mut objects = namespaces();
        // Pods may be in a namespace that an informer has not received yet.
        objects.retain(|_| random.chance(85));
        for object in &mut objects {
            for (key, values) in &LABELS[..2] {
                if random.chance(25) {
                    object["metadata"]["labels"][*key] = (*random.pick(values)).into();
                }
            }
            if random.chance(10) {
                object["metadata"]["labels"] = Value::Null;
            }
        }
        objects
    }

    fn pod(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if random.chance(50) {
            pod["metadata"]["namespace"] = random.pick(NAMESPACES).0.into();
        }
    }
}

/// Returns the namespaces with the labels that they have on an API server.
#[must_use]
pub fn namespaces() -> Vec<Value> {
    let namespace = |(name, labels): &(&str, &[(&str, &str)])| {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        });
        for (key, value) in *labels {
            object["metadata"]["labels"][*key] = (*value).into();
        }
        object
    };
    NAMESPACES.iter().map(namespace).collect()
}
