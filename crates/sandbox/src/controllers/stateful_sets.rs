//! StatefulSets: numbered pods, created one after the other, each with its own claims.

use harbormaster_world::volumes::{CLAIMS, pod_claims};
use serde_json::{Value, json};

use super::{
    ControllerContext, OwnedObjects, hash,
    pod_control::{EventWording, PodControl},
    pod_of, volumes, write_status,
};
use crate::{
    events::Kind,
    fields::{is_ending, is_finished, is_ready, name, namespace, number, owned_by, text, uid},
    mirror::Mirror,
    sandbox::carry_on,
};

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn reconcile(tools: &ControllerContext, sets: &Mirror, pods: &OwnedObjects<'_>) {
    for set in sets.all().filter(|set| !is_ending(set)) {
        let own = pods.of(set);
        let wanted = number(set, "/spec/replicas").unwrap_or(1);
        let revision = format!("{}-{}", name(set), hash(&set["spec"]["template"]));
        let control = PodControl {
            tools,
            component: "statefulset-controller",
            owner: set,
            words: EventWording::StatefulSet,
        };
        step(&control, own, wanted, &revision);
        write_status(&tools.store, "statefulsets.apps", set, |set| status(set, own, wanted, &revision));
    }
}

/// Creates, replaces or deletes pods, one at a time unless the set specifies `Parallel`.
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
        leave_claims_to(control, pod);
        control.delete(pod);
    }
}

/// Once all pods are ready, deletes the outdated pod with the highest ordinal, unless the set's update strategy is
/// `OnDelete`. The next step recreates the pod.
fn replace(control: &PodControl<'_>, own: &[&Value], revision: &str) {
    let set = control.owner;
    if text(set, "/spec/updateStrategy/type") == "OnDelete" || !own.iter().all(|pod| is_ready(pod)) {
        return;
    }
    let is_old = |pod: &&&Value| !is_of(set, pod, revision) && !is_ending(pod);
    if let Some(pod) = own.iter().filter(is_old).max_by_key(|pod| ordinal(pod)) {
        control.delete(pod);
    }
}

/// Returns true if a pod has the given revision of its set. A pod without a revision of this set is treated as
/// current.
fn is_of(set: &Value, pod: &Value, revision: &str) -> bool {
    let label = pod.pointer("/metadata/labels").and_then(|labels| labels.get(REVISION_LABEL)?.as_str());
    let of_set = |label: &str| label.rsplit_once('-').is_some_and(|(prefix, _)| prefix == name(set));
    label.is_none_or(|label| !of_set(label) || label == revision)
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
    if let Some(spec) = pod["spec"].as_object_mut() {
        pod_claims::mount(set, pod_name, spec);
    }
    create_claims(control, pod_name);
    carry_on("The StatefulSet controller", control.create(pod));
}

/// Creates the pod's own claims, unless they exist already.
fn create_claims(control: &PodControl<'_>, pod_name: &str) {
    let (set, store) = (control.owner, &control.tools.store);
    for mut claim in pod_claims::of_stateful_set(set, pod_name) {
        if retention(set, "whenDeleted") == "Delete" {
            claim["metadata"]["ownerReferences"] = owned_by(set);
        }
        let claim_name = name(&claim).to_owned();
        if volumes::create_claim(store, claim) {
            let set = name(set);
            let message = format!("create Claim {claim_name} Pod {pod_name} in StatefulSet {set} success");
            control.tell(Kind::Normal, "SuccessfulCreate", &message);
        }
    }
}

/// If the set's retention policy demands it, makes a surplus pod the owner of its claims, so that the claims are
/// deleted with the pod.
fn leave_claims_to(control: &PodControl<'_>, pod: &Value) {
    let set = control.owner;
    if retention(set, "whenScaled") != "Delete" {
        return;
    }
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod)}]);
    for claim in pod_claims::of_stateful_set(set, name(pod)) {
        let change = |claim: &mut Value| claim["metadata"]["ownerReferences"] = owner.clone();
        let changed = control.tools.store.update(CLAIMS, namespace(set), name(&claim), change);
        carry_on("The StatefulSet controller", changed.map(|_| ()));
    }
}

/// Returns the retention policy for claims; `when` is `whenDeleted` or `whenScaled`.
fn retention<'a>(set: &'a Value, when: &str) -> &'a str {
    text(set, &format!("/spec/persistentVolumeClaimRetentionPolicy/{when}"))
}

fn status(set: &mut Value, own: &[&Value], wanted: i64, revision: &str) {
    let ready = own.iter().filter(|pod| is_ready(pod) && !is_ending(pod)).count();
    let generation = set["metadata"]["generation"].clone();
    let count =
        |revision: &str| own.iter().filter(|pod| !is_ending(pod) && is_of(set, pod, revision)).count();
    let (updated, before) = (count(revision), text(set, "/status/currentRevision").to_owned());
    // The previous revision remains the current one until all pods are up to date and ready.
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let is_done = before.is_empty() || (updated == wanted && ready == wanted);
    let current = if is_done { revision } else { &before };
    let of_current = if is_done { updated } else { count(current) };
    for (field, value) in [
        ("observedGeneration", generation),
        ("replicas", json!(own.len())),
        ("readyReplicas", json!(ready)),
        ("availableReplicas", json!(ready)),
        ("currentReplicas", json!(of_current)),
        ("updatedReplicas", json!(updated)),
        ("currentRevision", json!(current)),
        ("updateRevision", json!(revision)),
    ] {
        set["status"][field] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_revision_of_the_same_set_can_be_outdated() {
        let set = json!({"metadata": {"name": "web"}});
        for (label, is_current) in
            [("web-new", true), ("web-old", false), ("web-db-old", true), ("webs-old", true), ("old", true)]
        {
            let pod = json!({"metadata": {"labels": {REVISION_LABEL: label}}});
            assert_eq!(is_of(&set, &pod, "web-new"), is_current, "{label}");
        }
        assert!(is_of(&set, &json!({"metadata": {}}), "web-new"));
    }
}
