//! A view of the API server's nodes, pods, budgets, claims, devices and events, kept up to date by watches. Pod names
//! are unique in a script, across namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::claim_controller::{Cleanup, cleanup};
use super::claims::Claims;
use super::device_drivers::DeviceDrivers;
use super::groups::{Groups, is_gated, is_member};
use super::outcome::{Outcomes, PodOutcome};
use super::paths::{POD_GROUP, TAINT_RULE, everywhere, path};
use super::resource_claims::{ResourceClaims, statuses};
use crate::components::{ApiClient, Error};

/// Label with which budgets select pods. The disruption controller handles neither label changes nor pods with two
/// budgets, so every pod has at most one budget, and a pod's label never changes.
pub(super) const BUDGET_LABEL: &str = "example.com/budget";

/// Message that a scheduler writes if it tries a new pod before the volume controller has created the pod's claims.
const EARLY: &str = "waiting for ephemeral volume controller";

/// Part of the message that a scheduler writes if it tries a pod before it has written the devices that it chose for a
/// claim of the pod on behalf of another pod.
const IN_PROCESS: &str = "is in the process of being allocated";

/// Part of the message that kube-scheduler writes if several members of a group write the devices of a shared claim at the
/// same time. All but one of them fail, and are tried again.
const WRITTEN_TWICE: &str = "got allocated elsewhere in the meantime";

/// Reasons of the events that are compared.
const COMPARED: &[&str] = &["FailedScheduling", "Preempted", WAITS_FOR_DEVICES];

/// Reason of the event about a pod that waits until its devices are ready.
const WAITS_FOR_DEVICES: &str = "BindingConditionsPending";

/// Watches a cluster until it is dropped.
#[derive(Debug)]
pub(super) struct ClusterView {
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    pods: BTreeMap<String, Value>,
    /// Note of the last event, by reason and pod name.
    notes: BTreeMap<(String, String), EventNote>,
    /// Names of all current and former pods and groups, by UID.
    names: BTreeMap<String, String>,
    /// Pods that a scheduler has started to preempt.
    victims: BTreeSet<String>,
    /// PodDisruptionBudgets by path.
    budgets: BTreeMap<String, Value>,
    claims: Claims,
    resource_claims: ResourceClaims,
    groups: Groups,
    /// Resource versions, by path, of the objects that [`is_versioned`] accepts.
    versions: BTreeMap<String, u64>,
    last_change: Instant,
}

/// Note of an event.
#[derive(Debug, Default)]
struct EventNote {
    /// Time of the last occurrence.
    time: String,
    text: String,
    /// True if the event occurred more than once; the text is then that of the first occurrence.
    is_repeated: bool,
}

impl ClusterView {
    /// Starts to watch a cluster without pods. `provisioners` create volumes. If `groups`, the server has groups of
    /// pods; if `taint_rules`, rules that taint devices.
    pub(super) fn new(
        client: &ApiClient,
        provisioners: BTreeSet<String>,
        groups: bool,
        taint_rules: bool,
    ) -> Result<Self, Error> {
        let state = State {
            pods: BTreeMap::new(),
            notes: BTreeMap::new(),
            names: BTreeMap::new(),
            victims: BTreeSet::new(),
            budgets: BTreeMap::new(),
            claims: Claims::new(provisioners),
            resource_claims: ResourceClaims::default(),
            groups: Groups::default(),
            versions: BTreeMap::new(),
            last_change: Instant::now(),
        };
        let view = Self { state: Arc::new(Mutex::new(state)), ended: Arc::new(AtomicBool::new(false)) };
        for kind in ["Node", "CSINode", "CSIDriver", "CSIStorageCapacity", "DeviceClass", "ResourceSlice"] {
            view.follow(client, &everywhere(kind), |_, _, _| {})?;
        }
        for kind in ["StorageClass", "PersistentVolume", "PersistentVolumeClaim"] {
            view.follow(client, &everywhere(kind), |state, kind, object| {
                state.claims.change(kind == "DELETED", object);
            })?;
        }
        view.follow(client, &everywhere("ResourceClaim"), |state, kind, object| {
            state.resource_claims.change(kind == "DELETED", object);
        })?;
        if groups {
            view.follow(client, &everywhere(POD_GROUP), State::group)?;
        }
        if taint_rules {
            view.follow(client, &everywhere(TAINT_RULE), |_, _, _| {})?;
        }
        view.follow(client, &everywhere("Pod"), State::pod)?;
        view.follow(client, &everywhere("Event"), State::event)?;
        view.follow(client, &everywhere("PodDisruptionBudget"), State::budget)?;
        Ok(view)
    }

    fn follow(
        &self,
        client: &ApiClient,
        path: &str,
        apply: fn(&mut State, &str, Value),
    ) -> Result<(), Error> {
        let mut version = client.get(&format!("{path}?limit=1"))?["metadata"]["resourceVersion"].clone();
        let (client, path) = (client.clone(), path.to_owned());
        let (state, ended) = (Arc::clone(&self.state), Arc::clone(&self.ended));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let from = version.as_str().unwrap_or_default();
                let query = format!("{path}?watch=1&timeoutSeconds=3600&resourceVersion={from}");
                let Ok(stream) = client.stream(&query) else { return };
                for line in stream.lines() {
                    let Ok(mut event) = line
                        .map_err(drop)
                        .and_then(|line| serde_json::from_str::<Value>(&line).map_err(drop))
                    else {
                        break;
                    };
                    let object = event["object"].take();
                    version = object["metadata"]["resourceVersion"].clone();
                    lock(&state).change(apply, event["type"].as_str().unwrap_or_default(), object);
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        Ok(())
    }

    /// Names of all current and former pods, by UID.
    pub(super) fn names(&self) -> BTreeMap<String, String> {
        lock(&self.state).names.clone()
    }

    /// Time since the last change.
    pub(super) fn quiet_for(&self) -> Duration {
        lock(&self.state).last_change.elapsed()
    }

    /// Describes the work that a scheduler or controller still has to do, if any.
    pub(super) fn unfinished(&self) -> Option<String> {
        let state = lock(&self.state);
        let unanswered = |(name, pod): (&String, &Value)| {
            let outcome = state.outcome(name, pod);
            let is_gated = is_gated(pod)
                || state.resource_claims.is_incomplete(pod)
                || state.groups.holds_back(pod, state.pods.values());
            let is_answered = outcome.condition[0] == "False"
                && outcome.condition[1] != "SchedulingGated"
                && !is_early(&outcome.condition[2])
                && !outcome.event.is_empty();
            (outcome.node.is_empty() && !is_gated && !is_answered)
                .then(|| format!("there is no decision about {name}"))
        };
        let unanswered_pod = || state.pods.iter().find_map(unanswered);
        let unreported_victim = || {
            let is_unreported = |name: &&String| state.note("Preempted", name).is_none();
            state
                .victims
                .iter()
                .find(is_unreported)
                .map(|name| format!("the preempted pod {name} has no event"))
        };
        let unbound_claim = || state.claims.unfinished();
        unanswered_pod()
            .or_else(unreported_victim)
            .or_else(|| state.stale_budget())
            .or_else(unbound_claim)
            .or_else(|| state.early_reservation())
    }

    /// Returns a report about devices that a driver has to write: the path and the patch.
    pub(super) fn device_report(&self, drivers: &mut DeviceDrivers) -> Option<(String, Value)> {
        let state = lock(&self.state);
        let pod = |uid: &str| state.pods.values().find(|pod| pod["metadata"]["uid"] == uid);
        drivers.report(state.resource_claims.all(), pod)
    }

    /// Describes the work that the volume controller or the provisioner still has to do, if any.
    pub(super) fn unfinished_claims(&self) -> Option<String> {
        lock(&self.state).claims.unfinished()
    }

    /// Returns true if a pod may be retried soon without another change. The reason may be that the pod is nominated
    /// and its victims are gone, that its volumes may exist by now, or that its last attempt failed with an error.
    pub(super) fn may_be_retried_soon(&self) -> bool {
        let state = lock(&self.state);
        state.pods.values().any(|pod| {
            let node = &pod["status"]["nominatedNodeName"];
            let is_on_it = |other: &Value| {
                other["spec"]["nodeName"] == *node && !other["metadata"]["deletionTimestamp"].is_null()
            };
            let has_room = || node.is_string() && !state.pods.values().any(is_on_it);
            pod["spec"]["nodeName"].is_null()
                && (has_room() || has_failed(pod) || state.claims.may_be_binding(pod))
        })
    }

    /// Returns true if a group may be retried without another change, because members have been tried in vain.
    pub(super) fn has_pending_group(&self) -> bool {
        let state = lock(&self.state);
        let is_tried = |pod: &Value| PodOutcome::new(pod, None).condition[1] != "SchedulingGated";
        state.pods.values().any(|pod| {
            is_member(pod)
                && pod["spec"]["nodeName"].is_null()
                && pod["status"]["conditions"].is_array()
                && is_tried(pod)
        })
    }

    /// Returns work on resource claims whose pods and groups are gone, if any.
    pub(super) fn cleanup(&self) -> Option<Cleanup> {
        let state = lock(&self.state);
        let users = state.pods.values().chain(state.groups.all());
        let users = users.filter_map(|user| user["metadata"]["uid"].as_str()).collect();
        cleanup(state.resource_claims.all(), &users)
    }

    /// Returns the paths of the pods that match `filter`, sorted by name.
    pub(super) fn pods(&self, filter: impl Fn(&Value) -> bool) -> Vec<String> {
        lock(&self.state).pods.values().filter(|pod| filter(pod)).map(path).collect()
    }

    /// Returns true if this view has received the change that the API server acknowledged with `answer`, or if
    /// [`is_versioned`] does not accept the object. All watchers receive the change at about the same time. If
    /// `is_removed`, the object must no longer exist in this view.
    pub(super) fn has_seen(&self, answer: &Value, is_removed: bool) -> bool {
        if !is_versioned(answer) {
            return true;
        }
        match lock(&self.state).versions.get(&path(answer)) {
            Some(seen) => !is_removed && *seen >= version(answer),
            None => is_removed,
        }
    }

    /// Outcomes of all pods, including preempted ones that no longer exist.
    pub(super) fn outcomes(&self) -> Outcomes {
        let state = lock(&self.state);
        let deleted = state.victims.iter().filter(|name| !state.pods.contains_key(*name)).map(|name| {
            let preempted = state.note("Preempted", name).unwrap_or_default();
            (name.clone(), PodOutcome { preempted, end: "gone", ..PodOutcome::default() })
        });
        let pods = state.pods.iter().map(|(name, pod)| (name.clone(), state.outcome(name, pod)));
        Outcomes {
            pods: deleted.chain(pods).collect(),
            resource_claims: state.resource_claims.outcomes(&state.names),
        }
    }
}

impl Drop for ClusterView {
    fn drop(&mut self) {
        // The threads end when they receive the next change or when the server stops.
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn change(&mut self, apply: fn(&mut Self, &str, Value), kind: &str, object: Value) {
        // The disruption controller writes events about budgets too.
        if object["kind"] != "Event" || object["regarding"]["kind"] == "Pod" {
            self.last_change = Instant::now();
        }
        if is_versioned(&object) {
            if kind == "DELETED" {
                self.versions.remove(&path(&object));
            } else {
                self.versions.insert(path(&object), version(&object));
            }
        }
        apply(self, kind, object);
    }

    fn pod(&mut self, kind: &str, pod: Value) {
        let Some(name) = pod["metadata"]["name"].as_str().map(str::to_owned) else { return };
        if let Some(uid) = pod["metadata"]["uid"].as_str() {
            self.names.insert(uid.to_owned(), name.clone());
        }
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["reason"] == "PreemptionByScheduler") {
            self.victims.insert(name.clone());
        }
        if kind == "DELETED" {
            self.pods.remove(&name);
        } else {
            self.pods.insert(name, pod);
        }
    }

    fn group(&mut self, kind: &str, group: Value) {
        let text = |field: &str| group["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.names.insert(text("uid"), text("name"));
        self.groups.change(kind == "DELETED", group);
    }

    fn event(&mut self, kind: &str, event: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reason = text(&event["reason"]);
        if kind == "DELETED" || !COMPARED.contains(&reason.as_str()) {
            return;
        }
        let name = text(&event["regarding"]["name"]);
        let series = &event["series"];
        let is_repeated = !series.is_null();
        // Events are written concurrently, so they may arrive out of order.
        let time = text(if is_repeated { &series["lastObservedTime"] } else { &event["eventTime"] });
        let last = self.notes.entry((reason, name)).or_default();
        if time >= last.time {
            *last = EventNote { time, text: text(&event["note"]), is_repeated };
        }
    }

    fn budget(&mut self, kind: &str, budget: Value) {
        if kind == "DELETED" {
            self.budgets.remove(&path(&budget));
        } else {
            self.budgets.insert(path(&budget), budget);
        }
    }

    fn outcome(&self, name: &str, pod: &Value) -> PodOutcome {
        let preempted = self.note("Preempted", name).unwrap_or_default();
        let event_is_repeated = self.last("FailedScheduling", name).is_some_and(|note| note.is_repeated);
        let has_node = !pod["spec"]["nodeName"].is_null();
        let event = self.note("FailedScheduling", name);
        let is_early = has_node && event.as_deref().is_some_and(is_early);
        let event = event.filter(|_| !is_early);
        PodOutcome {
            event_is_hidden: is_early && event_is_repeated,
            preempted,
            event_is_repeated,
            claims: self.claims.outcome(pod),
            resource_claims: [statuses(pod), self.note(WAITS_FOR_DEVICES, name).unwrap_or_default()]
                .join(" "),
            group: self.groups.outcome(pod),
            ..PodOutcome::new(pod, event)
        }
    }

    fn last(&self, reason: &str, pod: &str) -> Option<&EventNote> {
        self.notes.get(&(reason.to_owned(), pod.to_owned()))
    }

    /// Returns the note of the last event, with pods' UIDs replaced by names.
    fn note(&self, reason: &str, pod: &str) -> Option<String> {
        let words = self
            .last(reason, pod)?
            .text
            .split(' ')
            .map(|word| self.names.get(word).map_or(word, String::as_str));
        Some(words.collect::<Vec<_>>().join(" "))
    }

    /// Describes a resource claim that is reserved for a pod without a node. The scheduler then waits for devices, or it
    /// is about to bind the pod or to give the claim back.
    fn early_reservation(&self) -> Option<String> {
        let is_pending = |uid: &str| {
            self.pods.values().any(|pod| pod["metadata"]["uid"] == uid && pod["spec"]["nodeName"].is_null())
        };
        let (_, claim) = self.resource_claims.reservations().find(|(uid, _)| is_pending(uid))?;
        Some(format!("{claim} is reserved for a pod without a node"))
    }

    /// Describes a budget whose status does not yet match the pods, if there is one.
    fn stale_budget(&self) -> Option<String> {
        let is_fresh = |budget: &Value| {
            let selected = &budget["spec"]["selector"]["matchLabels"][BUDGET_LABEL];
            let (mut expected, mut healthy) = (0, 0);
            for pod in self.pods.values() {
                let is_here = pod["metadata"]["namespace"] == budget["metadata"]["namespace"];
                if is_here && pod["metadata"]["labels"][BUDGET_LABEL] == *selected {
                    expected += 1;
                    healthy += u64::from(is_healthy(pod));
                }
            }
            let status = &budget["status"];
            status["observedGeneration"] == budget["metadata"]["generation"]
                && status["expectedPods"] == expected
                && status["currentHealthy"] == healthy
        };
        let (path, _) = self.budgets.iter().find(|(_, budget)| !is_fresh(budget))?;
        Some(format!("the disruption controller has not counted the pods of {path}"))
    }
}

/// Returns true if the scheduler tried the pod too early, which depends on timing.
fn is_early(message: &str) -> bool {
    [EARLY, IN_PROCESS, WRITTEN_TWICE].iter().any(|part| message.contains(part))
}

/// Returns true if the last attempt of the pod ended with an error.
pub(super) fn has_failed(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && PodOutcome::new(pod, None).condition[1] == "SchedulerError"
}

/// Returns true if the disruption controller counts the pod as healthy.
fn is_healthy(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Returns true if a step must wait until a change to `object` has arrived at the watches.
fn is_versioned(object: &Value) -> bool {
    let kinds = [
        "Node",
        "Pod",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "StorageClass",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "DeviceClass",
        "ResourceSlice",
        "ResourceClaim",
        TAINT_RULE,
        POD_GROUP,
    ];
    kinds.iter().any(|kind| object["kind"] == *kind)
}

/// The resource version, which is an increasing number in kube-apiserver.
fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
