//! Waiting pods and changes in a cluster, generated from a seed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::generate::{Cluster, Random, Shape, is_pending};
use crate::verdict_oracle::Change;

/// Kinds of objects for whose changes plugins register.
const KINDS: &[&str] = &[
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
];

/// Number of updates that are generated for each object that remains.
const UPDATES: usize = 3;

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) config: Value,
    /// Waiting pods, in the state after their own changes.
    pub(super) pods: Vec<Value>,
    /// Objects other than pods and nodes, in the state before their changes. Hints look them up.
    pub(super) objects: Vec<Value>,
    pub(super) changes: Vec<Change>,
}

impl Scene {
    pub(super) fn new(seed: u64) -> Self {
        let shape = Shape { max_nodes: 6, max_pods: 12, admitted: false };
        let (before, after) = Cluster::twice(seed, &shape);
        let mut random = Random::new(seed);
        let (before, after) = (by_name(before), by_name(after));
        let config = without_default_constraints(before.config);
        let mut scene = Self { seed, config, pods: Vec::new(), objects: Vec::new(), changes: Vec::new() };
        for (key, old) in &before.objects {
            if is_pending(old) {
                scene.add_pending(&mut random, old, after.objects.get(key));
                continue;
            }
            if old["kind"] != "Pod" && old["kind"] != "Node" {
                scene.objects.push(old.clone());
            }
            scene.changes.push(Change { old: Some(old.clone()), new: None });
            let Some(new) = after.objects.get(key) else { continue };
            for _ in 0..UPDATES {
                let new = blended(&mut random, old, new);
                scene.changes.push(Change { old: Some(old.clone()), new: Some(new) });
            }
        }
        let appears = after.objects.into_values().filter(|new| !is_pending(new));
        scene.changes.extend(appears.map(|new| Change { old: None, new: Some(new) }));
        scene
    }

    /// Returns the version of an object that hints look up while another object changes.
    pub(super) fn before(&self, changed: &Value) -> Option<&Value> {
        let id = |object: &Value| {
            let metadata = &object["metadata"];
            [&object["kind"], &metadata["namespace"], &metadata["name"]].map(Value::clone)
        };
        self.objects.iter().find(|object| id(object) == id(changed))
    }

    fn add_pending(&mut self, random: &mut Random, old: &Value, new: Option<&Value>) {
        let mut old = old.clone();
        if random.chance(30) {
            old["status"]["nominatedNodeName"] = "node-0".into();
        }
        let pod = match new {
            Some(new) => {
                let new = blended(random, &old, new);
                self.changes.push(Change { old: Some(old.clone()), new: Some(new.clone()) });
                new
            }
            None => old.clone(),
        };
        // A nominated pod reserves resources on its nominated node, so its deletion may wake other pods.
        if !old["status"]["nominatedNodeName"].is_null() {
            self.changes.push(Change { old: Some(old), new: None });
        }
        self.pods.push(pod);
    }
}

/// Returns the configuration without the arguments of PodTopologySpread, which may list default constraints. The pods
/// that default constraints select depend on services and controllers, which Harbormaster's hints do not take into
/// account: the hints assume that default constraints select every pod.
fn without_default_constraints(mut config: Value) -> Value {
    for profile in config["profiles"].as_array_mut().into_iter().flatten() {
        if let Some(args) = profile["pluginConfig"].as_array_mut() {
            args.retain(|args| args["name"] != "PodTopologySpread");
        }
    }
    config
}

/// Objects by kind, namespace and name.
struct ByName {
    config: Value,
    objects: BTreeMap<[String; 3], Value>,
}

fn by_name(cluster: Cluster) -> ByName {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_over = |object: &Value| matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let objects = cluster.objects.into_iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        KINDS.contains(&kind) && !(kind == "Pod" && is_over(object))
    });
    let keyed = objects.map(comparable).map(|object| {
        let metadata = &object["metadata"];
        ([text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])], object)
    });
    ByName { objects: keyed.collect(), config: cluster.config }
}

/// Returns the object without values that the two schedulers read differently for reasons unrelated to hints.
fn comparable(object: Value) -> Value {
    // kube-scheduler compares requests in thousandths, and `1Ei` in thousandths overflows.
    let text = object.to_string().replace("\"1Ei\"", "\"1Pi\"");
    // For Harbormaster, a node with no ephemeral storage equals one that does not report any.
    let text = text.replace("\"ephemeral-storage\":\"0\"", "\"ephemeral-storage\":\"1Gi\"");
    let mut object: Value = serde_json::from_str(&text).unwrap_or(object);
    // The keys that are removed here are merged into the selectors only once, when the pod is created.
    object.pointer_mut("/spec/affinity").into_iter().for_each(drop_label_keys);
    object
}

fn drop_label_keys(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|field, _| !matches!(field.as_str(), "matchLabelKeys" | "mismatchLabelKeys"));
            fields.values_mut().for_each(drop_label_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_label_keys),
        _ => {}
    }
}

/// Returns the old object with few or many of the new object's values. The result differs from the old object only in
/// ways that the API server accepts.
fn blended(random: &mut Random, old: &Value, new: &Value) -> Value {
    let mut blend = old.clone();
    let percent = *random.pick(&[10, 30, 60, 100]);
    let parts: &[&str] = match old["kind"].as_str() {
        Some("Pod") => &[
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/deletionTimestamp",
            "/status",
            "/spec/tolerations",
            "/spec/schedulingGates",
            "/spec/resources",
            "/spec/containers/0/resources",
            "/spec/containers/1/resources",
        ],
        Some("PersistentVolume") => {
            &["/metadata/labels", "/metadata/annotations", "/status", "/spec/claimRef", "/spec/capacity"]
        }
        _ => &[
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/deletionTimestamp",
            "/spec",
            "/status",
            "/capacity",
            "/maximumVolumeSize",
            "/allowedTopologies",
        ],
    };
    for part in parts {
        let there = new.pointer(part).cloned().unwrap_or_default();
        let (parent, field) = part.rsplit_once('/').unwrap_or_default();
        let Some(Value::Object(parent)) = blend.pointer_mut(parent) else { continue };
        let here = parent.remove(field).unwrap_or_default();
        let value = blend_values(random, percent, here, there);
        if !value.is_null() {
            parent.insert(field.to_owned(), value);
        }
    }
    blend
}

/// Replaces each value by that of the new object with a probability of `percent` %. A list is replaced as a whole.
fn blend_values(random: &mut Random, percent: usize, old: Value, new: Value) -> Value {
    match (old, new) {
        (Value::Object(mut old), Value::Object(new)) => {
            let mut blend = Map::new();
            let keys: Vec<String> =
                old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))).cloned().collect();
            for key in keys {
                let there = new.get(&key).cloned().unwrap_or_default();
                let value = blend_values(random, percent, old.remove(&key).unwrap_or_default(), there);
                if !value.is_null() {
                    blend.insert(key, value);
                }
            }
            Value::Object(blend)
        }
        (old, new) => {
            if random.chance(percent) {
                new
            } else {
                old
            }
        }
    }
}
