//! StatefulSets: pods with numbers, one after the other.

use serde_json::{Value, json};

use super::{
    Owned, Tools, hash,
    pod_control::{PodControl, Words},
    pod_of, write_status,
};
use crate::{
    fields::{is_ending, is_finished, is_ready, list, name, number, text},
    mirror::Mirror,
    sandbox::carry_on,
};

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn reconcile(tools: &Tools, sets: &Mirror, pods: &Owned<'_>) {
    for set in sets.all().filter(|set| !is_ending(set)) {
        let own = pods.of(set);
        let wanted = number(set, "/spec/replicas").unwrap_or(1);
        let revision = format!("{}-{}", name(set), hash(&set["spec"]["template"]));
        let control =
            PodControl { tools, component: "statefulset-controller", owner: set, words: Words::StatefulSet };
        step(&control, own, wanted, &revision);
        write_status(&tools.store, "statefulsets.apps", set, |set| status(set, own, &revision));
    }
}

/// Makes, replaces or ends pods: one at a time unless the set says `Parallel`.
fn step(control: &PodControl<'_>, own: &[&Value], wanted: i64, revision: &str) {
    let set = control.owner;
    let at_once = text(set, "/spec/podManagementPolicy") == "Parallel";
    let first = number(set, "/spec/ordinals/start").unwrap_or(0);
    for ordinal in first..first.saturating_add(wanted) {
        let pod_name = format!("{}-{ordinal}", name(set));
        match own.iter().find(|pod| name(pod) == pod_name) {
            None => create(control, &pod_name, ordinal, revision),
            Some(pod) if is_finished(pod) && !is_ending(pod) => control.delete(pod),
            Some(pod) if is_ready(pod) && !is_ending(pod) => continue,
            Some(_) => {}
        }
        if !at_once {
            return;
        }
    }
    let mut surplus: Vec<&Value> = own
        .iter()
        .copied()
        .filter(|pod| ordinal(pod).is_none_or(|n| n < first || n >= first.saturating_add(wanted)))
        .collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    if surplus.is_empty() {
        return replace(control, own, revision);
    }
    let going = if at_once { surplus.len() } else { 1 };
    for pod in surplus.into_iter().take(going).filter(|pod| !is_ending(pod)) {
        control.delete(pod);
    }
}

/// Ends the last pod of an old template, once all are ready; the next step makes it anew.
fn replace(control: &PodControl<'_>, own: &[&Value], revision: &str) {
    let set = control.owner;
    if text(set, "/spec/updateStrategy/type") == "OnDelete" || !own.iter().all(|pod| is_ready(pod)) {
        return;
    }
    let is_old = |pod: &&&Value| {
        let label = pod.pointer("/metadata/labels").and_then(|labels| labels.get(REVISION_LABEL)?.as_str());
        // Pods of a cluster's dump carry revisions of their own.
        label.is_some_and(|label| label.starts_with(name(set)) && label != revision) && !is_ending(pod)
    };
    if let Some(pod) = own.iter().filter(is_old).max_by_key(|pod| ordinal(pod)) {
        control.delete(pod);
    }
}

fn ordinal(pod: &Value) -> Option<i64> {
    name(pod).rsplit_once('-')?.1.parse().ok()
}

fn create(control: &PodControl<'_>, pod_name: &str, ordinal: i64, revision: &str) {
    let set = control.owner;
    let mut pod = pod_of(set);
    pod["metadata"]["name"] = pod_name.into();
    for (label, value) in [
        (REVISION_LABEL, revision),
        ("statefulset.kubernetes.io/pod-name", pod_name),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
    ] {
        pod["metadata"]["labels"][label] = value.into();
    }
    pod["spec"]["hostname"] = pod_name.into();
    if set["spec"]["serviceName"].is_string() {
        pod["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    }
    for claim in list(set, "/spec/volumeClaimTemplates") {
        let volume = name(claim);
        let claim =
            json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{pod_name}")}});
        if !pod["spec"]["volumes"].is_array() {
            pod["spec"]["volumes"] = json!([]);
        }
        if let Some(volumes) = pod["spec"]["volumes"].as_array_mut() {
            volumes.push(claim);
        }
    }
    carry_on("The StatefulSet controller", control.create(pod));
}

fn status(set: &mut Value, own: &[&Value], revision: &str) {
    let ready = own.iter().filter(|pod| is_ready(pod) && !is_ending(pod)).count();
    let generation = set["metadata"]["generation"].clone();
    for (field, value) in [
        ("observedGeneration", generation),
        ("replicas", json!(own.len())),
        ("readyReplicas", json!(ready)),
        ("availableReplicas", json!(ready)),
        ("currentReplicas", json!(own.len())),
        ("updatedReplicas", json!(own.len())),
        ("currentRevision", json!(revision)),
        ("updateRevision", json!(revision)),
    ] {
        set["status"][field] = value;
    }
}
