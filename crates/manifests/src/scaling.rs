//! Deployments whose `replicas` were edited after the dump was made.

use harbormaster_validation::value::{controller, text};
use serde_json::{Value, json};

use crate::manifests::Manifest;

/// Number of pods that the Deployment requested when its controller last saw it.
const DESIRED: &str = "/metadata/annotations/deployment.kubernetes.io~1desired-replicas";
const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

/// A ReplicaSet of a Deployment.
struct Set {
    at: usize,
    value: Value,
}

impl Set {
    fn replicas(&self) -> i64 {
        self.value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
    }

    fn revision(&self) -> i64 {
        text(&self.value, REVISION).parse().unwrap_or_default()
    }

    /// Returns true if the controller last saw a different number of replicas.
    fn is_behind(&self, wanted: i64) -> bool {
        text(&self.value, DESIRED).parse::<i64>().is_ok_and(|seen| seen != wanted)
    }
}

/// Returns true for a ReplicaSet that the Deployment owns.
pub(crate) fn is_set_of(object: &Manifest, deployment: &Manifest) -> bool {
    object.kind.kind == "ReplicaSet"
        && object.namespace == deployment.namespace
        && controller(&object.value())
            .is_some_and(|owner| owner["kind"] == "Deployment" && owner["name"] == deployment.name.as_str())
}

/// Notes on the ReplicaSets of a Deployment how many replicas the Deployment has, so that a later change of its replicas
/// scales them.
pub(crate) fn remember_replicas(objects: &mut [Manifest], deployment: &Manifest) {
    let replicas = deployment.value().pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    for object in objects.iter_mut().filter(|object| is_set_of(object, deployment)) {
        let mut set = object.value();
        if text(&set, DESIRED).is_empty() {
            let annotation = "deployment.kubernetes.io/desired-replicas";
            if !set["metadata"]["annotations"].is_object() {
                set["metadata"]["annotations"] = json!({});
            }
            set["metadata"]["annotations"][annotation] = replicas.to_string().into();
            *object = object.with(&set);
        }
    }
}

/// Scales ReplicaSets to the replicas of their Deployments, as the Deployment controller would. Returns a line for each
/// Deployment whose ReplicaSets were scaled.
pub(crate) fn follow_deployments(objects: &mut [Manifest]) -> Vec<String> {
    let is = |object: &Manifest, kind: &str| object.kind.kind == kind && object.kind.group == "apps";
    let wanted = |deployment: &Manifest| {
        let value = deployment.value();
        let replicas = value.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        (deployment.label(), deployment.namespace.clone(), deployment.name.clone(), replicas)
    };
    let deployments: Vec<_> = objects.iter().filter(|object| is(object, "Deployment")).map(wanted).collect();
    if deployments.is_empty() {
        return Vec::new();
    }
    let sets = objects.iter().enumerate().filter(|(_, object)| is(object, "ReplicaSet"));
    let mut sets: Vec<Set> = sets.map(|(at, object)| Set { at, value: object.value() }).collect();
    // Scaling begins with the newest ReplicaSet.
    sets.sort_by_key(|set| std::cmp::Reverse(set.revision()));
    let mut followed = Vec::new();
    for (label, namespace, deployment, wanted) in deployments {
        let is_own = |set: &&mut Set| {
            objects[set.at].namespace == namespace
                && controller(&set.value).is_some_and(|owner| {
                    owner["kind"] == "Deployment" && owner["name"] == deployment.as_str()
                })
        };
        let mut own: Vec<&mut Set> = sets.iter_mut().filter(is_own).collect();
        let has_active = own.iter().any(|set| set.replicas() > 0);
        if has_active {
            own.retain(|set| set.replicas() > 0);
        } else {
            own.truncate(1);
        }
        if !own.iter().any(|set| set.is_behind(wanted)) {
            continue;
        }
        let had: i64 = own.iter().map(|set| set.replicas()).sum();
        let mut change = wanted - had;
        for set in own {
            let replicas = (set.replicas() + change).max(0);
            change -= replicas - set.replicas();
            set.value["spec"]["replicas"] = json!(replicas);
            if let Some(seen) = set.value.pointer_mut(DESIRED) {
                *seen = wanted.to_string().into();
            }
            let manifest = &mut objects[set.at];
            *manifest = manifest.with(&set.value);
        }
        if had != wanted {
            followed.push(format!(
                "{label} requests {wanted} pods, but its ReplicaSets request {had}: scaling the ReplicaSets to match"
            ));
        }
    }
    followed
}
