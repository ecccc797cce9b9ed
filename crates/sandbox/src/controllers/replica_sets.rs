//! ReplicaSets and ReplicationControllers.

use harbormaster_apiserver::Store;
use serde_json::{Value, json};

use super::{MOST_AT_ONCE, Owned, delete, pod_of, write_status};
use crate::{
    fields::{is_ending, is_finished, is_ready, name, number, set_condition, text},
    mirror::Mirror,
    sandbox::is_passing,
};

pub(super) fn reconcile(store: &Store, resource: &str, sets: &Mirror, pods: &Owned<'_>) {
    for set in sets.all().filter(|set| !is_ending(set)) {
        let mut active: Vec<&Value> =
            pods.of(set).iter().copied().filter(|pod| !is_ending(pod) && !is_finished(pod)).collect();
        let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
        let refused = create(store, set, wanted.saturating_sub(active.len())).err();
        write_status(store, resource, set, |set| status(set, &active, refused.as_deref()));
        if active.len() > wanted {
            active.sort_by_cached_key(|pod| rank(pod));
            let surplus = active.len() - wanted;
            active[..surplus].iter().for_each(|pod| delete(store, "pods", pod, None));
        }
    }
}

fn create(store: &Store, set: &Value, count: usize) -> Result<(), String> {
    for _ in 0..count.min(MOST_AT_ONCE) {
        let mut pod = pod_of(set);
        pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
        match store.create("pods", pod) {
            Ok(_) => {}
            Err(failure) if is_passing(&failure) => return Ok(()),
            Err(failure) => return Err(failure.message),
        }
    }
    Ok(())
}

/// The lowest goes first: pods without a node, not running, not ready, cheap to delete, young.
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
