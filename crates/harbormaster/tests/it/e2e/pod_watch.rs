//! A watch that records the bindings reported by the API server.

use std::{
    collections::BTreeMap,
    io::BufRead,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use harbormaster_oracle::components::{ApiClient, Error};
use serde_json::Value;

use super::objects::{PODS, disruption, is_terminating, node_of};

/// A watch of all pods in the `default` namespace. Its thread ends when the API server does.
pub struct PodWatch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Name and node of each pod that has or had a node, keyed by UID.
    bound: BTreeMap<String, (String, String)>,
    /// Pods that already had a node when their node changed.
    moved: Vec<String>,
    /// Names of the pods that were evicted by preemption and deleted, keyed by UID.
    evicted: BTreeMap<String, String>,
}

impl PodWatch {
    /// Starts watching.
    pub fn start(client: &ApiClient) -> Self {
        let list = client.get(&format!("{PODS}?limit=1")).expect("the API server answers");
        let mut version = version_of(&list);
        let mut stream = watch(client, &version).expect("the API server streams");
        let (client, seen) = (client.clone(), Arc::new(Mutex::new(Seen::default())));
        let writer = Self(Arc::clone(&seen));
        thread::spawn(move || {
            // kube-apiserver ends the watches of clients that read too slowly; the watch then resumes from its last
            // version.
            loop {
                for line in stream.lines().map_while(Result::ok) {
                    let event: Value = serde_json::from_str(&line).expect("a watch sends JSON");
                    assert_ne!(event["type"], "ERROR", "{event}");
                    version = version_of(&event["object"]);
                    writer.lock().note(&event["object"], event["type"] == "DELETED");
                }
                let Ok(next) = watch(&client, &version) else { return };
                stream = next;
            }
        });
        Self(seen)
    }

    /// Returns the number of pods that have or had a node.
    pub fn bound(&self) -> usize {
        self.lock().bound.len()
    }

    /// Returns the number of pods that have or had a node and whose names start with `prefix`.
    pub fn bound_of(&self, prefix: &str) -> usize {
        self.lock().bound.values().filter(|(pod, _)| pod.starts_with(prefix)).count()
    }

    /// Returns the number of pods with the given name that have or had a node. A pod that is created again counts
    /// again.
    pub fn times_bound(&self, name: &str) -> usize {
        self.lock().bound.values().filter(|(pod, _)| pod == name).count()
    }

    /// Returns the pods that were on more than one node or lost their node.
    pub fn moved(&self) -> Vec<String> {
        self.lock().moved.clone()
    }

    /// Returns the names of evicted pods in alphabetical order.
    pub fn evicted(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lock().evicted.values().cloned().collect();
        names.sort_unstable();
        names
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("the object has a resource version").to_owned()
}

fn watch(client: &ApiClient, version: &str) -> Result<impl BufRead + use<>, Error> {
    client.stream(&format!("{PODS}?watch=1&timeoutSeconds=3600&resourceVersion={version}"))
}

impl Seen {
    fn note(&mut self, pod: &Value, deleted: bool) {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (uid, node) = (text("uid"), node_of(pod));
        let is_victim = disruption(pod).is_some_and(|[_, reason, _]| reason == "PreemptionByScheduler");
        if is_victim && (deleted || is_terminating(pod)) {
            self.evicted.insert(uid.clone(), text("name"));
        }
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
