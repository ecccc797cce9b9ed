//! Deployments: one ReplicaSet per template, and a gradual shift of pods from the old sets to the new one.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harbormaster_api::Timestamp;
use harbormaster_world::workloads::TEMPLATE_HASH;
use serde_json::{Value, json};

use super::{ControllerContext, OwnedObjects, hash, write_status};
use crate::{
    events::{Kind, Source},
    fields::{
        condition, is_ending, is_finished, name, namespace, number, owned_by, set_condition, share, text, uid,
    },
    mirror::Mirror,
    sandbox::carry_on,
};

const RESOURCE: &str = "deployments.apps";
const SETS: &str = "replicasets.apps";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Stand-in for the deployment controller.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    /// Progress of incomplete deployments. Keyed by UID.
    progress: HashMap<String, Progress>,
}

/// Progress of a deployment.
#[derive(Debug)]
struct Progress {
    /// Newest set, and the numbers of updated, old, ready and available pods. The number of old pods is negated, so
    /// that every increase is progress.
    reached: (String, [i64; 4]),
    /// Time of the last progress.
    at: Timestamp,
}

impl Deployments {
    /// Takes one step with every deployment. Returns the next time at which a deployment will miss its progress
    /// deadline.
    pub(super) fn reconcile(
        &mut self,
        tools: &ControllerContext,
        deployments: &Mirror,
        sets: &OwnedObjects<'_>,
        pods: &OwnedObjects<'_>,
    ) -> Option<Timestamp> {
        let mut next = None;
        let open: Vec<&Value> = deployments.all().filter(|deployment| !is_ending(deployment)).collect();
        let known: HashSet<&str> = open.iter().map(|deployment| uid(deployment)).collect();
        self.progress.retain(|uid, _| known.contains(uid.as_str()));
        for deployment in open {
            let own: Vec<&Value> =
                sets.of(deployment).iter().copied().filter(|set| !is_ending(set)).collect();
            let newest = own.iter().copied().find(|set| is_of(set, deployment));
            step(tools, deployment, newest, &own, pods);
            let deadline = self.deadline(deployment, newest, &own, tools.clock.now());
            let is_late = deadline.is_some_and(|deadline| deadline <= tools.clock.now());
            next = next.into_iter().chain(deadline.filter(|_| !is_late)).min();
            let change = |deployment: &mut Value| status(deployment, newest, &own, is_late);
            write_status(&tools.store, RESOURCE, deployment, change);
        }
        next
    }

    /// Returns the time by which an unfinished deployment must make progress.
    fn deadline(
        &mut self,
        deployment: &Value,
        newest: Option<&Value>,
        own: &[&Value],
        now: Timestamp,
    ) -> Option<Timestamp> {
        let counts = Counts::of(newest, own);
        if counts.is_done(deployment)
            || is_settled(deployment, &counts)
            || deployment["spec"]["paused"] == true
        {
            self.progress.remove(uid(deployment));
            return None;
        }
        let reached = [counts.updated, counts.updated - counts.total, counts.ready, counts.available];
        let set = newest.map_or("", name);
        let progress = self
            .progress
            .entry(uid(deployment).to_owned())
            .or_insert_with(|| Progress { reached: (set.to_owned(), reached), at: now });
        let is_further = progress.reached.1.iter().zip(&reached).any(|(before, after)| after > before);
        if is_further || progress.reached.0 != set {
            progress.at = now;
        }
        progress.reached = (set.to_owned(), reached);
        let limit = number(deployment, "/spec/progressDeadlineSeconds").unwrap_or(600);
        Some(progress.at + Duration::from_secs(u64::try_from(limit).unwrap_or(0)))
    }
}

/// Creates the newest set, or shifts pods to it.
fn step(
    tools: &ControllerContext,
    deployment: &Value,
    newest: Option<&Value>,
    own: &[&Value],
    pods: &OwnedObjects<'_>,
) {
    let old: Vec<&Value> =
        own.iter().copied().filter(|set| newest.is_none_or(|new| name(new) != name(set))).collect();
    let paused = deployment["spec"]["paused"] == true;
    match newest {
        None if paused => {}
        None => {
            let has_pods = |set: &&Value| pods.of(set).iter().any(|pod| !is_finished(pod));
            if is_recreated(deployment) && old.iter().any(has_pods) {
                old.iter().for_each(|set| scale(tools, deployment, set, 0));
            } else {
                create(tools, deployment, own);
            }
        }
        Some(new) if is_recreated(deployment) || paused || old.iter().all(|set| wanted(set) == 0) => {
            scale(tools, deployment, new, wanted(deployment));
        }
        Some(new) => roll(tools, deployment, new, &old),
    }
}

fn is_recreated(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

fn wanted(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

fn sum(sets: &[&Value], pointer: &str) -> i64 {
    sets.iter().map(|set| number(set, pointer).unwrap_or(0)).sum()
}

/// Returns true if a set has the deployment's current template.
fn is_of(set: &Value, deployment: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(TEMPLATE_HASH);
    }
    let mut wanted = deployment["spec"]["template"].clone();
    // Some tools write nulls; a null means the same as a missing field.
    for template in [&mut template, &mut wanted] {
        if let Some(metadata) = template.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| !value.is_null());
        }
    }
    template == wanted
}

fn create(tools: &ControllerContext, deployment: &Value, own: &[&Value]) {
    let spec = &deployment["spec"];
    let hash = hash(&spec["template"]);
    let revisions = own
        .iter()
        .filter_map(|set| set.pointer("/metadata/annotations")?.get(REVISION)?.as_str()?.parse::<i64>().ok());
    let revision = revisions.max().unwrap_or(0) + 1;
    // If there are old sets, the next step scales the new set as far as the old sets allow.
    let replicas = if own.is_empty() { wanted(deployment) } else { 0 };
    let mut template = spec["template"].clone();
    let mut selector = spec["selector"].clone();
    template["metadata"]["labels"][TEMPLATE_HASH] = hash.clone().into();
    selector["matchLabels"][TEMPLATE_HASH] = hash.clone().into();
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)),
            "namespace": namespace(deployment),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": owned_by(deployment),
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    let created = tools.store.create(SETS, set);
    if let (Ok(set), 1..) = (&created, replicas) {
        tell(tools, deployment, &format!("Scaled up replica set {} from 0 to {replicas}", set.name()));
    }
    carry_on("The deployment controller", created.map(|_| ()));
    let note = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
    let noted = tools.store.merge(RESOURCE, namespace(deployment), name(deployment), false, &note);
    carry_on("The deployment controller", noted.map(|_| ()));
}

fn tell(tools: &ControllerContext, deployment: &Value, message: &str) {
    let source = Source::controller("deployment-controller");
    tools.events.tell(source, deployment, Kind::Normal, "ScalingReplicaSet", message);
}

fn scale(tools: &ControllerContext, deployment: &Value, set: &Value, replicas: i64) {
    let (before, after) = (wanted(set), replicas.max(0));
    if before != after {
        let scaled =
            tools.store.update(SETS, namespace(set), name(set), |set| set["spec"]["replicas"] = json!(after));
        if scaled.is_ok() {
            let how = if after > before { "up" } else { "down" };
            let message = format!("Scaled {how} replica set {} from {before} to {after}", name(set));
            tell(tools, deployment, &message);
        }
        carry_on("The deployment controller", scaled.map(|_| ()));
    }
}

/// Takes one step of a rolling update: the new set grows as far as `maxSurge` allows, and the old sets shrink as far as
/// `maxUnavailable` allows.
fn roll(tools: &ControllerContext, deployment: &Value, new: &Value, old: &[&Value]) {
    let total = wanted(deployment);
    let limit = |field: &str, round_up| {
        share(&deployment["spec"]["strategy"]["rollingUpdate"][field], total, round_up).unwrap_or(0)
    };
    let (surge, mut unavailable) = (limit("maxSurge", true), limit("maxUnavailable", false));
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    let old_wanted = sum(old, "/spec/replicas");
    let room = total + surge - old_wanted - wanted(new);
    scale(tools, deployment, new, (wanted(new) + room.max(0)).min(total));

    let available = |set: &Value| number(set, "/status/availableReplicas").unwrap_or(0);
    let least = total - unavailable;
    // Pods that are not available are deleted first.
    let mut spare_useless = old_wanted + available(new) - least;
    let mut spare = sum(old, "/status/availableReplicas") + available(new) - least;
    for set in old {
        let useless = (wanted(set) - available(set)).min(spare_useless).max(0);
        // Pods that earlier steps removed may still be reported as available.
        let useful = available(set).min(wanted(set)).min(spare).min(spare_useless - useless).max(0);
        (spare_useless, spare) = (spare_useless - useless - useful, spare - useful);
        scale(tools, deployment, set, wanted(set) - useless - useful);
    }
}

/// Pod counts of a deployment.
struct Counts {
    total: i64,
    updated: i64,
    ready: i64,
    available: i64,
}

impl Counts {
    fn of(newest: Option<&Value>, own: &[&Value]) -> Self {
        Self {
            total: sum(own, "/status/replicas"),
            updated: newest.map_or(0, |new| sum(&[new], "/status/replicas")),
            ready: sum(own, "/status/readyReplicas"),
            available: sum(own, "/status/availableReplicas"),
        }
    }

    /// Returns true if a deployment is complete.
    fn is_done(&self, deployment: &Value) -> bool {
        let replicas = wanted(deployment);
        self.updated >= replicas && self.available >= replicas && self.total == self.updated
    }
}

/// Returns true if a deployment was complete earlier. If so, later failures of its pods are not treated as a lack of
/// progress.
fn is_settled(deployment: &Value, counts: &Counts) -> bool {
    let progressing = condition(deployment, "Progressing").map_or("", |condition| text(condition, "/reason"));
    progressing == "NewReplicaSetAvailable" && counts.total == counts.updated
}

fn status(deployment: &mut Value, new: Option<&Value>, own: &[&Value], is_late: bool) {
    let counts = Counts::of(new, own);
    let replicas = wanted(deployment);
    let generation = deployment["metadata"]["generation"].clone();
    for (field, value) in [
        ("observedGeneration", generation),
        ("replicas", json!(counts.total)),
        ("updatedReplicas", json!(counts.updated)),
        ("readyReplicas", json!(counts.ready)),
        ("availableReplicas", json!(counts.available)),
        ("unavailableReplicas", json!((replicas - counts.available).max(0))),
    ] {
        deployment["status"][field] = value;
    }
    let limit = &deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
    let needed = replicas - share(limit, replicas, false).unwrap_or(0);
    let (holds, reason, does) = match counts.available >= needed {
        true => (true, "MinimumReplicasAvailable", "has"),
        false => (false, "MinimumReplicasUnavailable", "does not have"),
    };
    set_condition(
        deployment,
        "Available",
        holds,
        reason,
        &format!("Deployment {does} minimum availability."),
    );
    let (holds, reason, does) = if counts.is_done(deployment) || is_settled(deployment, &counts) {
        (true, "NewReplicaSetAvailable", "has successfully progressed")
    } else if is_late {
        (false, "ProgressDeadlineExceeded", "has timed out progressing")
    } else {
        (true, "ReplicaSetUpdated", "is progressing")
    };
    let message = new.map_or_else(String::new, |set| format!("ReplicaSet \"{}\" {does}.", name(set)));
    set_condition(deployment, "Progressing", holds, reason, &message);
}
