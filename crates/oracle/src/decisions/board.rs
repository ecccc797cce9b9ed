//! The nodes, pods, budgets, claims and events of the API server as they change.
//! Names of pods are unique in a script, whatever their namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::claims::Claims;
use super::outcome::{Outcomes, PodOutcome};
use super::paths::{everywhere, path};
use crate::components::{ApiClient, Error};

/// The label that budgets select pods by. The disruption controller follows
/// neither changes of labels nor pods with two budgets, so every pod has at most
/// one of these labels, and keeps it.
pub(super) const BUDGET_LABEL: &str = "example.com/budget";

/// What a scheduler says that looks at a new pod before the volume controller does.
const EARLY: &str = "waiting for ephemeral volume controller";

/// Follows a cluster until it is dropped.
#[derive(Debug)]
pub(super) struct Board {
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    pods: BTreeMap<String, Value>,
    /// By reason and pod name: the last event.
    notes: BTreeMap<(String, String), Note>,
    /// The names of all pods that there have been, by UID.
    names: BTreeMap<String, String>,
    /// Pods that a scheduler has begun to preempt.
    victims: BTreeSet<String>,
    /// PodDisruptionBudgets by path.
    budgets: BTreeMap<String, Value>,
    claims: Claims,
    /// The resource version of every object of which the scheduler's view must be the newest, by path.
    versions: BTreeMap<String, u64>,
    last_change: Instant,
}

/// What an event says.
#[derive(Debug, Default)]
struct Note {
    /// When the event happened for the last time.
    time: String,
    text: String,
    /// Whether it happened more than once; the text is then that of the first time.
    is_repeated: bool,
}

impl Board {
    /// Watches from now on; the cluster has no pods. `provisioners` make volumes.
    pub(super) fn new(client: &ApiClient, provisioners: BTreeSet<String>) -> Result<Self, Error> {
        let state = State {
            pods: BTreeMap::new(),
            notes: BTreeMap::new(),
            names: BTreeMap::new(),
            victims: BTreeSet::new(),
            budgets: BTreeMap::new(),
            claims: Claims::new(provisioners),
            versions: BTreeMap::new(),
            last_change: Instant::now(),
        };
        let board = Self { state: Arc::new(Mutex::new(state)), ended: Arc::new(AtomicBool::new(false)) };
        for kind in ["Node", "CSINode", "CSIDriver", "CSIStorageCapacity"] {
            board.follow(client, &everywhere(kind), |_, _, _| {})?;
        }
        for kind in ["StorageClass", "PersistentVolume", "PersistentVolumeClaim"] {
            board.follow(client, &everywhere(kind), |state, kind, object| {
                state.claims.change(kind == "DELETED", object);
            })?;
        }
        board.follow(client, &everywhere("Pod"), State::pod)?;
        board.follow(client, &everywhere("Event"), State::event)?;
        board.follow(client, &everywhere("PodDisruptionBudget"), State::budget)?;
        Ok(board)
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

    /// The names of all pods that there have been, by UID.
    pub(super) fn names(&self) -> BTreeMap<String, String> {
        lock(&self.state).names.clone()
    }

    /// How long nothing has changed.
    pub(super) fn quiet_for(&self) -> Duration {
        lock(&self.state).last_change.elapsed()
    }

    /// What somebody must still say or do, if anything.
    pub(super) fn unfinished(&self) -> Option<String> {
        let state = lock(&self.state);
        let waits = |(name, pod): (&String, &Value)| {
            let outcome = state.outcome(name, pod);
            let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_answered = outcome.condition[0] == "False"
                && outcome.condition[1] != "SchedulingGated"
                && !outcome.condition[2].contains(EARLY)
                && !outcome.event.is_empty();
            (outcome.node.is_empty() && !is_gated && !is_answered)
                .then(|| format!("nothing is said about {name}"))
        };
        let unanswered = || state.pods.iter().find_map(waits);
        let unsaid = || {
            let is_unsaid = |name: &&String| state.note("Preempted", name).is_none();
            state.victims.iter().find(is_unsaid).map(|name| format!("{name} is preempted without an event"))
        };
        let unbound = || state.claims.unfinished();
        unanswered().or_else(unsaid).or_else(|| state.stale_budget()).or_else(unbound)
    }

    /// What the volume controller and the provisioner must still do, if anything.
    pub(super) fn unfinished_claims(&self) -> Option<String> {
        lock(&self.state).claims.unfinished()
    }

    /// Whether a pod waits for nothing but its turn: it has been nominated, and
    /// what was to make room has ended; or its volumes may be there by now; or
    /// it has failed for no fault of its own.
    pub(super) fn awaits_its_turn(&self) -> bool {
        let state = lock(&self.state);
        state.pods.values().any(|pod| {
            let node = &pod["status"]["nominatedNodeName"];
            let is_on_it = |other: &Value| {
                other["spec"]["nodeName"] == *node && !other["metadata"]["deletionTimestamp"].is_null()
            };
            let has_room = || node.is_string() && !state.pods.values().any(is_on_it);
            let has_failed = || PodOutcome::new(pod, None).condition[1] == "SchedulerError";
            pod["spec"]["nodeName"].is_null()
                && (has_room() || has_failed() || state.claims.may_be_binding(pod))
        })
    }

    /// Paths of the pods of which `is_wanted`, in the order of their names.
    pub(super) fn pods(&self, is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        lock(&self.state).pods.values().filter(|pod| is_wanted(pod)).map(path).collect()
    }

    /// Whether what the API server answered to a change has arrived here, as it
    /// then has at every other watcher, give or take its speed. An object that
    /// the change removed is no longer here.
    pub(super) fn has_seen(&self, answer: &Value, is_removed: bool) -> bool {
        if !is_versioned(answer) {
            return true;
        }
        match lock(&self.state).versions.get(&path(answer)) {
            Some(seen) => !is_removed && *seen >= version(answer),
            None => is_removed,
        }
    }

    /// What is known of all pods, and of those that have been preempted.
    pub(super) fn outcomes(&self) -> Outcomes {
        let state = lock(&self.state);
        let gone = state.victims.iter().filter(|name| !state.pods.contains_key(*name)).map(|name| {
            let preempted = state.note("Preempted", name).unwrap_or_default();
            (name.clone(), PodOutcome { preempted, end: "gone", ..PodOutcome::default() })
        });
        let pods = state.pods.iter().map(|(name, pod)| (name.clone(), state.outcome(name, pod)));
        Outcomes(gone.chain(pods).collect())
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // The threads end with the next change they see, or with the server.
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn change(&mut self, apply: fn(&mut Self, &str, Value), kind: &str, object: Value) {
        // The disruption controller has its say about budgets, too.
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

    fn event(&mut self, kind: &str, event: Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reason = text(&event["reason"]);
        if kind == "DELETED" || !matches!(reason.as_str(), "FailedScheduling" | "Preempted") {
            return;
        }
        let name = text(&event["regarding"]["name"]);
        let series = &event["series"];
        let is_repeated = !series.is_null();
        // Events are written side by side, so their order of arrival says little.
        let time = text(if is_repeated { &series["lastObservedTime"] } else { &event["eventTime"] });
        let last = self.notes.entry((reason, name)).or_default();
        if time >= last.time {
            *last = Note { time, text: text(&event["note"]), is_repeated };
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
        let is_early = has_node && event.as_ref().is_some_and(|note| note.contains(EARLY));
        let event = event.filter(|_| !is_early);
        PodOutcome {
            event_is_hidden: is_early && event_is_repeated,
            preempted,
            event_is_repeated,
            claims: self.claims.outcome(pod),
            ..PodOutcome::new(pod, event)
        }
    }

    fn last(&self, reason: &str, pod: &str) -> Option<&Note> {
        self.notes.get(&(reason.to_owned(), pod.to_owned()))
    }

    /// The note of the last event, with names in place of the UIDs of pods.
    fn note(&self, reason: &str, pod: &str) -> Option<String> {
        let words = self
            .last(reason, pod)?
            .text
            .split(' ')
            .map(|word| self.names.get(word).map_or(word, String::as_str));
        Some(words.collect::<Vec<_>>().join(" "))
    }

    /// A budget whose status is not yet what the pods say.
    fn stale_budget(&self) -> Option<String> {
        let is_fresh = |budget: &Value| {
            let wanted = &budget["spec"]["selector"]["matchLabels"][BUDGET_LABEL];
            let (mut expected, mut healthy) = (0, 0);
            for pod in self.pods.values() {
                let is_here = pod["metadata"]["namespace"] == budget["metadata"]["namespace"];
                if is_here && pod["metadata"]["labels"][BUDGET_LABEL] == *wanted {
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

/// As the disruption controller counts.
fn is_healthy(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a change of `object` must have arrived before it counts as made.
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
    ];
    kinds.iter().any(|kind| object["kind"] == *kind)
}

/// kube-apiserver's resource versions are numbers that grow.
fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
