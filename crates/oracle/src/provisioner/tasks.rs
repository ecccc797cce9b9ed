//! Which claims wait for a volume, and when each gets an answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::driver::{Driver, Outcome};
use super::volume::{Order, is_allowed, topology};
use crate::components::{ApiClient, Error};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const NODES: &str = "/api/v1/nodes";
const VOLUMES: &str = "/api/v1/persistentvolumes";

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// How long nobody looks whether all of it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The time after which a try that could not be made is made again.
const AGAIN: Duration = Duration::from_millis(100);

/// The claims that wait.
pub(super) struct Tasks {
    client: ApiClient,
    drivers: Vec<Driver>,
    /// By UID of the claim.
    waiting: HashMap<String, Task>,
    /// Tries so far, by UID of the claim.
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

    /// Answers until `ended` is set.
    pub(super) fn work(mut self, ended: &AtomicBool, claims: &Receiver<Value>) {
        while !ended.load(Ordering::Relaxed) {
            let next = self.waiting.values().map(|task| task.due).min();
            let patience = next.map_or(LOOK, |due| due.saturating_duration_since(Instant::now()).min(LOOK));
            match claims.recv_timeout(patience) {
                Ok(claim) => self.look_until_it_is_told(&claim, ended),
                Err(RecvTimeoutError::Timeout) => self.answer_all(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes note of what a claim is now, however long its class cannot be read.
    fn look_until_it_is_told(&mut self, claim: &Value, ended: &AtomicBool) {
        while let Err(error) = self.look(claim) {
            eprintln!("provisioner: {error}");
            if ended.load(Ordering::Relaxed) {
                return;
            }
            sleep(AGAIN);
        }
    }

    fn look(&mut self, claim: &Value) -> Result<(), Error> {
        let Some(uid) = claim["metadata"]["uid"].as_str() else { return Ok(()) };
        let Some(driver) = self.responsible(claim)? else {
            self.waiting.remove(uid);
            return Ok(());
        };
        if !self.waiting.contains_key(uid) {
            // A claim that changes while it waits does not wait longer.
            let due = Instant::now() + driver.behaviour(claim).delay;
            self.waiting.insert(uid.to_owned(), Task { path: path(claim), due });
        }
        Ok(())
    }

    /// The driver that is to make a volume for `claim` now.
    fn responsible(&self, claim: &Value) -> Result<Option<&Driver>, Error> {
        let annotations = &claim["metadata"]["annotations"];
        let [node, provisioner] = [SELECTED_NODE, STORAGE_PROVISIONER].map(|key| !annotations[key].is_null());
        let is_open = claim["spec"]["volumeName"].as_str().unwrap_or_default().is_empty()
            && claim["metadata"]["deletionTimestamp"].is_null();
        if !is_open || !node && !provisioner {
            return Ok(None);
        }
        let Some(class) = self.class(claim)? else { return Ok(None) };
        let is_asked = if class["volumeBindingMode"] == "WaitForFirstConsumer" { node } else { provisioner };
        let name = class["provisioner"].as_str().filter(|_| is_asked);
        Ok(self.drivers.iter().find(|driver| name == Some(&driver.name)))
    }

    fn class(&self, claim: &Value) -> Result<Option<Value>, Error> {
        match claim["spec"]["storageClassName"].as_str() {
            None | Some("") => Ok(None),
            Some(name) => existing(self.client.get(&format!("{CLASSES}/{name}"))),
        }
    }

    fn answer_all(&mut self) {
        let now = Instant::now();
        let due = self.waiting.iter().filter(|(_, task)| task.due <= now).map(|(uid, _)| uid.clone());
        for uid in due.collect::<Vec<_>>() {
            let Some(task) = self.waiting.remove(&uid) else { continue };
            match self.answer(&uid, &task) {
                Ok(Answer::Given) => {}
                Ok(Answer::TryAgain(delay)) => {
                    self.waiting.insert(uid, Task { due: Instant::now() + delay, ..task });
                }
                Err(error) => {
                    eprintln!("provisioner: {error}");
                    self.waiting.insert(uid, Task { due: Instant::now() + AGAIN, ..task });
                }
            }
        }
    }

    fn answer(&mut self, uid: &str, task: &Task) -> Result<Answer, Error> {
        // What the watch has shown may be older than what was done for the claim last.
        let claim = existing(self.client.get(&task.path))?.filter(|claim| claim["metadata"]["uid"] == uid);
        let Some(claim) = claim else { return Ok(Answer::Given) };
        let Some(driver) = self.responsible(&claim)? else { return Ok(Answer::Given) };
        let behaviour = driver.behaviour(&claim);
        let has_node = !claim["metadata"]["annotations"][SELECTED_NODE].is_null();
        let tries = self.tries.get(uid).copied().unwrap_or(0);
        let answer = match behaviour.outcome {
            Outcome::Never => return Ok(Answer::Given),
            Outcome::RemoveSelectedNode(times) if tries < times && has_node => {
                self.remove_selected_node(task, &claim)?;
                Answer::Given
            }
            Outcome::FailTimes(times) | Outcome::RemoveSelectedNode(times) if tries < times => {
                Answer::TryAgain(behaviour.delay.max(AGAIN))
            }
            _ => self.make(driver, &claim)?,
        };
        // What the server did not take does not count.
        self.tries.insert(uid.to_owned(), tries + 1);
        Ok(answer)
    }

    fn remove_selected_node(&self, task: &Task, claim: &Value) -> Result<(), Error> {
        let uid = &claim["metadata"]["uid"];
        let patch = json!({"metadata": {"uid": uid, "annotations": {SELECTED_NODE: null}}});
        taken(self.client.merge_patch(&task.path, &patch))
    }

    fn make(&self, driver: &Driver, claim: &Value) -> Result<Answer, Error> {
        let Some(class) = self.class(claim)? else { return Ok(Answer::TryAgain(AGAIN)) };
        let Some(topology) = self.place(claim, &class, &driver.topology_keys)? else {
            return Ok(Answer::TryAgain(AGAIN));
        };
        let order = Order { driver: &driver.name, claim, class: &class, topology: &topology };
        taken(self.client.post(VOLUMES, &order.volume()))?;
        Ok(Answer::Given)
    }

    /// Where the volume will lie: where the selected node does, or, where none
    /// is selected, at one of all allowed places, chosen by the claim's name.
    fn place(
        &self,
        claim: &Value,
        class: &Value,
        keys: &[String],
    ) -> Result<Option<Map<String, Value>>, Error> {
        if let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
            let node = existing(self.client.get(&format!("{NODES}/{node}")))?;
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

/// What a driver did with a claim.
enum Answer {
    /// All that there is to do, until the claim changes.
    Given,
    TryAgain(Duration),
}

fn path(claim: &Value) -> String {
    let [namespace, name] =
        ["namespace", "name"].map(|field| claim["metadata"][field].as_str().unwrap_or_default());
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

/// An object, or that there is none.
fn existing(result: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match result {
        Err(Error::Refused { status: 404, .. }) => Ok(None),
        result => result.map(Some),
    }
}

/// A claim that is gone and a volume that is there already need nothing more.
fn taken(result: Result<Value, Error>) -> Result<(), Error> {
    match result {
        Err(Error::Refused { status: 404 | 409, .. }) => Ok(()),
        result => result.map(drop),
    }
}
