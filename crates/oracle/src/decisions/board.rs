//! The nodes, pods and events of the API server as they change.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::outcome::{Outcomes, PodOutcome};
use crate::components::{ApiClient, Error};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Follows a cluster until it is dropped.
#[derive(Debug)]
pub(super) struct Board {
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct State {
    pods: BTreeMap<String, Value>,
    /// By pod name: time and note of the last FailedScheduling event.
    notes: BTreeMap<String, (String, String)>,
    /// The resource version of every node and pod, by kind and name.
    versions: BTreeMap<(String, String), u64>,
    last_change: Instant,
}

impl Board {
    /// Watches from now on; the cluster has no pods.
    pub(super) fn new(client: &ApiClient) -> Result<Self, Error> {
        let state = State {
            pods: BTreeMap::new(),
            notes: BTreeMap::new(),
            versions: BTreeMap::new(),
            last_change: Instant::now(),
        };
        let board = Self { state: Arc::new(Mutex::new(state)), ended: Arc::new(AtomicBool::new(false)) };
        board.follow(client, NODES, |_, _, _| {})?;
        board.follow(client, PODS, State::pod)?;
        board.follow(client, EVENTS, State::event)?;
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

    /// How long nothing has changed.
    pub(super) fn quiet_for(&self) -> Duration {
        lock(&self.state).last_change.elapsed()
    }

    /// The first pod that a scheduler must still say something about.
    pub(super) fn unanswered(&self) -> Option<String> {
        let state = lock(&self.state);
        let waits = |(name, pod): (&String, &Value)| {
            let outcome = PodOutcome::new(pod, state.notes.get(name).map(|(_, note)| note));
            let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_answered = outcome.condition[0] == "False"
                && outcome.condition[1] != "SchedulingGated"
                && !outcome.event.is_empty();
            (outcome.node.is_empty() && !is_gated && !is_answered).then(|| name.clone())
        };
        state.pods.iter().find_map(waits)
    }

    /// Whether what the API server answered to a change has arrived here, as it
    /// then has at every other watcher, give or take its speed. An object that
    /// the change removed is no longer here.
    pub(super) fn has_seen(&self, answer: &Value, is_removed: bool) -> bool {
        let Some(key) = key(answer) else { return true };
        match lock(&self.state).versions.get(&key) {
            Some(seen) => !is_removed && *seen >= version(answer),
            None => is_removed,
        }
    }

    /// What is known of all pods.
    pub(super) fn outcomes(&self) -> Outcomes {
        let state = lock(&self.state);
        let outcome = |(name, pod): (&String, &Value)| {
            (name.clone(), PodOutcome::new(pod, state.notes.get(name).map(|(_, note)| note)))
        };
        Outcomes(state.pods.iter().map(outcome).collect())
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
        self.last_change = Instant::now();
        if let Some(key) = key(&object) {
            if kind == "DELETED" {
                self.versions.remove(&key);
            } else {
                self.versions.insert(key, version(&object));
            }
        }
        apply(self, kind, object);
    }

    fn pod(&mut self, kind: &str, pod: Value) {
        let Some(name) = pod["metadata"]["name"].as_str().map(str::to_owned) else { return };
        if kind == "DELETED" {
            self.pods.remove(&name);
        } else {
            self.pods.insert(name, pod);
        }
    }

    fn event(&mut self, kind: &str, event: Value) {
        if kind == "DELETED" || event["reason"] != "FailedScheduling" {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&event["regarding"]["name"]);
        // Events are written side by side, so their order of arrival says little.
        let time = text(&event["eventTime"]);
        let last = self.notes.entry(name).or_default();
        if time >= last.0 {
            *last = (time, text(&event["note"]));
        }
    }
}

/// Kind and name of a node or a pod.
fn key(object: &Value) -> Option<(String, String)> {
    let kind = object["kind"].as_str().filter(|kind| matches!(*kind, "Node" | "Pod"))?;
    Some((kind.to_owned(), object["metadata"]["name"].as_str()?.to_owned()))
}

/// kube-apiserver's resource versions are numbers that grow.
fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
