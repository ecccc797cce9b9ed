//! Claims that wait for a volume, and the driver's answers to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::driver::{Driver, Outcome};
use super::volume::{VolumeRequest, is_allowed, topology};
use crate::components::{ApiClient, Error};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const NODES: &str = "/api/v1/nodes";
const VOLUMES: &str = "/api/v1/persistentvolumes";

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Interval between checks of the stop flag.
const POLL: Duration = Duration::from_millis(50);

/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_millis(100);

/// Tasks for all waiting claims.
pub(super) struct Tasks {
    client: ApiClient,
    drivers: Vec<Driver>,
    /// Keyed by claim UID.
    waiting: HashMap<String, Task>,
    /// Number of tries so far, by claim UID.
    tries: HashMap<String, u32>,
}

/// A claim that waits for its driver's answer.
struct Task {
    path: String,
    due: Instant,
}

impl Tasks {
    pub(super) fn new(client: ApiClient, drivers: Vec<Driver>) -> Self {
        Self { client, drivers, waiting: HashMap::new(), tries: HashMap::new() }
    }

    /// Answers claims until `ended` is set or the sender of `claims` is gone.
    pub(super) fn work(mut self, ended: &AtomicBool, claims: &Receiver<Value>) {
        while !ended.load(Ordering::Relaxed) {
            let next = self.waiting.values().map(|task| task.due).min();
            let patience = next.map_or(POLL, |due| due.saturating_duration_since(Instant::now()).min(POLL));
            match claims.recv_timeout(patience) {
                Ok(claim) => self.update_with_retries(&claim, ended),
                Err(RecvTimeoutError::Timeout) => self.answer_all(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Updates the task of a claim, and retries while its class cannot be read.
    fn update_with_retries(&mut self, claim: &Value, ended: &AtomicBool) {
        while let Err(error) = self.update(claim) {
            eprintln!("provisioner: {error}");
            if ended.load(Ordering::Relaxed) {
                return;
            }
            sleep(RETRY);
        }
    }

    fn update(&mut self, claim: &Value) -> Result<(), Error> {
        let Some(uid) = claim["metadata"]["uid"].as_str() else { return Ok(()) };
        let Some(driver) = self.responsible_driver(claim)? else {
            self.waiting.remove(uid);
            return Ok(());
        };
        if !self.waiting.contains_key(uid) {
            // A change to a waiting claim does not restart the delay.
            let due = Instant::now() + driver.behaviour(claim).delay;
            self.waiting.insert(uid.to_owned(), Task { path: path(claim), due });
        }
        Ok(())
    }

    /// Returns the driver that has to create a volume for `claim` now.
    fn responsible_driver(&self, claim: &Value) -> Result<Option<&Driver>, Error> {
        let annotations = &claim["metadata"]["annotations"];
        let [has_node, has_provisioner] =
            [SELECTED_NODE, STORAGE_PROVISIONER].map(|key| !annotations[key].is_null());
        let is_unbound = claim["spec"]["volumeName"].as_str().unwrap_or_default().is_empty()
            && claim["metadata"]["deletionTimestamp"].is_null();
        if !is_unbound || !has_node && !has_provisioner {
            return Ok(None);
        }
        let Some(class) = self.class(claim)? else { return Ok(None) };
        let is_requested =
            if class["volumeBindingMode"] == "WaitForFirstConsumer" { has_node } else { has_provisioner };
        let name = class["provisioner"].as_str().filter(|_| is_requested);
        Ok(self.drivers.iter().find(|driver| name == Some(&driver.name)))
    }

    fn class(&self, claim: &Value) -> Result<Option<Value>, Error> {
        match claim["spec"]["storageClassName"].as_str() {
            None | Some("") => Ok(None),
            Some(name) => optional(self.client.get(&format!("{CLASSES}/{name}"))),
        }
    }

    fn answer_all(&mut self) {
        let now = Instant::now();
        let due = self.waiting.iter().filter(|(_, task)| task.due <= now).map(|(uid, _)| uid.clone());
        for uid in due.collect::<Vec<_>>() {
            let Some(task) = self.waiting.remove(&uid) else { continue };
            match self.answer(&uid, &task) {
                Ok(Answer::Done) => {}
                Ok(Answer::TryAgain(delay)) => {
                    self.waiting.insert(uid, Task { due: Instant::now() + delay, ..task });
                }
                Err(error) => {
                    eprintln!("provisioner: {error}");
                    self.waiting.insert(uid, Task { due: Instant::now() + RETRY, ..task });
                }
            }
        }
    }

    fn answer(&mut self, uid: &str, task: &Task) -> Result<Answer, Error> {
        // The watch may not have delivered the last change of the claim yet.
        let claim = optional(self.client.get(&task.path))?.filter(|claim| claim["metadata"]["uid"] == uid);
        let Some(claim) = claim else { return Ok(Answer::Done) };
        let Some(driver) = self.responsible_driver(&claim)? else { return Ok(Answer::Done) };
        let behaviour = driver.behaviour(&claim);
        let has_node = !claim["metadata"]["annotations"][SELECTED_NODE].is_null();
        let tries = self.tries.get(uid).copied().unwrap_or(0);
        let answer = match behaviour.outcome {
            Outcome::Never => return Ok(Answer::Done),
            Outcome::RemoveSelectedNode(times) if tries < times && has_node => {
                self.remove_selected_node(task, &claim)?;
                Answer::Done
            }
            Outcome::FailTimes(times) | Outcome::RemoveSelectedNode(times) if tries < times => {
                Answer::TryAgain(behaviour.delay.max(RETRY))
            }
            _ => self.provision(driver, &claim)?,
        };
        // Tries whose requests failed are not counted.
        self.tries.insert(uid.to_owned(), tries + 1);
        Ok(answer)
    }

    fn remove_selected_node(&self, task: &Task, claim: &Value) -> Result<(), Error> {
        let uid = &claim["metadata"]["uid"];
        let patch = json!({"metadata": {"uid": uid, "annotations": {SELECTED_NODE: null}}});
        allow_missing_or_existing(self.client.merge_patch(&task.path, &patch))
    }

    fn provision(&self, driver: &Driver, claim: &Value) -> Result<Answer, Error> {
        let Some(class) = self.class(claim)? else { return Ok(Answer::TryAgain(RETRY)) };
        let Some(topology) = self.topology(claim, &class, &driver.topology_keys)? else {
            return Ok(Answer::TryAgain(RETRY));
        };
        let request = VolumeRequest { driver: &driver.name, claim, class: &class, topology: &topology };
        allow_missing_or_existing(self.client.post(VOLUMES, &request.volume()))?;
        Ok(Answer::Done)
    }

    /// Topology of the volume: that of the selected node, or, if none is selected, one of the allowed topologies,
    /// chosen by the claim's name.
    fn topology(
        &self,
        claim: &Value,
        class: &Value,
        keys: &[String],
    ) -> Result<Option<Map<String, Value>>, Error> {
        if let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
            let node = optional(self.client.get(&format!("{NODES}/{node}")))?;
            return Ok(node.and_then(|node| topology(&node, keys)));
        }
        let nodes = self.client.get(NODES)?;
        let places = nodes["items"].as_array().into_iter().flatten().filter_map(|node| topology(node, keys));
        let mut places: Vec<_> = places.filter(|place| is_allowed(class, place)).collect();
        places.sort_by_cached_key(|place| json!(place).to_string());
        places.dedup();
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let number = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Ok(if places.is_empty() { None } else { Some(places.swap_remove(number % places.len())) })
    }
}

/// Result of a try for a claim.
enum Answer {
    /// There is nothing more to do until the claim changes.
    Done,
    TryAgain(Duration),
}

fn path(claim: &Value) -> String {
    let [namespace, name] =
        ["namespace", "name"].map(|field| claim["metadata"][field].as_str().unwrap_or_default());
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

/// Turns "not found" into `None`.
fn optional(result: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match result {
        Err(Error::Refused { status: 404, .. }) => Ok(None),
        result => result.map(Some),
    }
}

/// Ignores the errors for a claim that no longer exists and for a volume that already exists.
fn allow_missing_or_existing(result: Result<Value, Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused { status: 404 | 409, .. }) => Ok(()),
        result => result.map(drop),
    }
}
