//! Bindings as an outsider sees them.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use harbormaster_oracle::components::ApiClient;
use serde_json::Value;

use super::objects::{PODS, node_of};

/// Follows all pods of the namespace `default`. Its thread ends with the API server.
pub struct PodWatch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// By UID: name and node of pods that have one.
    bound: BTreeMap<String, (String, String)>,
    /// Pods whose node changed after they had one.
    moved: Vec<String>,
}

impl PodWatch {
    /// Watches from now on.
    pub fn start(client: &ApiClient) -> Self {
        let list = client.get(&format!("{PODS}?limit=1")).expect("the API server answers");
        let version = list["metadata"]["resourceVersion"].as_str().expect("a list has a version");
        let path = format!("{PODS}?watch=1&timeoutSeconds=3600&resourceVersion={version}");
        let stream = client.stream(&path).expect("the API server streams");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let writer = Self(Arc::clone(&seen));
        thread::spawn(move || {
            for line in stream.lines().map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).expect("a watch sends JSON");
                writer.lock().note(&event["object"]);
            }
        });
        Self(seen)
    }

    /// How many pods have a node.
    pub fn bound(&self) -> usize {
        self.lock().bound.len()
    }

    /// How often a pod of that name was bound.
    pub fn times_bound(&self, name: &str) -> usize {
        self.lock().bound.values().filter(|(pod, _)| pod == name).count()
    }

    /// Pods that were on more than one node, or lost theirs.
    pub fn moved(&self) -> Vec<String> {
        self.lock().moved.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn note(&mut self, pod: &Value) {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (uid, node) = (text("uid"), node_of(pod));
        match self.bound.get(&uid) {
            Some((_, before)) if Some(before.as_str()) != node => self.moved.push(text("name")),
            Some(_) => {}
            None => {
                if let Some(node) = node {
                    self.bound.insert(uid, (text("name"), node.to_owned()));
                }
            }
        }
    }
}
