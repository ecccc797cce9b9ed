//! ReplicaSets and ReplicationControllers.

use serde_json::{Value, json};

use super::{
    ControllerContext, MOST_AT_ONCE, OwnedObjects,
    pod_control::{EventWording, PodControl},
    pod_of, write_status,
};
use crate::{
    fields::{is_ending, is_finished, is_ready, name, number, set_condition, text},
    mirror::Mirror,
};

/// A resource that this module reconciles.
pub(super) struct Resource {
    name: &'static str,
    /// Name of the controller in events.
    component: &'static str,
}

pub(super) const REPLICA_SETS: Resource =
    Resource { name: "replicasets.apps", component: "replicaset-controller" };
pub(super) const REPLICATION_CONTROLLERS: Resource =
    Resource { name: "replicationcontrollers", component: "replication-controller" };

pub(super) fn reconcile(
    tools: &ControllerContext,
    resource: &Resource,
    sets: &Mirror,
    pods: &OwnedObjects<'_>,
) {
    for set in sets.all().filter(|set| !is_ending(set)) {
        let mut active: Vec<&Value> =
            pods.of(set).iter().copied().filter(|pod| !is_ending(pod) && !is_finished(pod)).collect();
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
        let control =
            PodControl { tools, component: resource.component, owner: set, words: EventWording::Usual };
        let refused = create(&control, wanted.saturating_sub(active.len())).err();
        write_status(&tools.store, resource.name, set, |set| status(set, &active, refused.as_deref()));
        if active.len() > wanted {
            active.sort_by_cached_key(|pod| rank(pod));
            let surplus = active.len() - wanted;
            active[..surplus].iter().for_each(|pod| control.delete(pod));
        }
    }
}

fn create(control: &PodControl<'_>, count: usize) -> Result<(), String> {
    for _ in 0..count.min(MOST_AT_ONCE) {
        let mut pod = pod_of(control.owner);
        pod["metadata"]["generateName"] = format!("{}-", name(control.owner)).into();
        control.create(pod).map_err(|failure| failure.message)?;
    }
    Ok(())
}

/// Returns the rank of a pod. Pods with the lowest rank are deleted first. The criteria, most important first: the pod
/// has no node, is not running, is not ready, is cheap to delete, is young.
fn rank(pod: &Value) -> (bool, bool, bool, i64, std::cmp::Reverse<String>) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let annotations = pod.pointer("/metadata/annotations");
    let cost = annotations.and_then(|all| all.get(COST)?.as_str()?.parse().ok()).unwrap_or(0);
    let has_node = !text(pod, "/spec/nodeName").is_empty();
    let runs = text(pod, "/status/phase") == "Running";
    let since = text(pod, "/metadata/creationTimestamp").to_owned();
    (has_node, runs, is_ready(pod), cost, std::cmp::Reverse(since))
}

fn status(set: &mut Value, active: &[&Value], refused: Option<&str>) {
    let ready = active.iter().filter(|pod| is_ready(pod)).count();
    let generation = set["metadata"]["generation"].clone();
    for (field, value) in [
        ("replicas", json!(active.len())),
        ("fullyLabeledReplicas", json!(active.len())),
        ("readyReplicas", json!(ready)),
        ("availableReplicas", json!(ready)),
        ("observedGeneration", generation),
    ] {
        set["status"][field] = value;
    }
    match refused {
        Some(why) => set_condition(set, "ReplicaFailure", true, "FailedCreate", why),
        None => {
            if let Some(conditions) = set["status"]["conditions"].as_array_mut() {
                conditions.retain(|condition| text(condition, "/type") != "ReplicaFailure");
            }
        }
    }
}
