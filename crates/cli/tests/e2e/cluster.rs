//! A real API server that tests of one program share while they run.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{ApiClient, ControlPlane, ControlPlaneOptions, Error};
use serde_json::{Value, json};

use super::objects::{EVENTS, PODS, PRIORITY_CLASSES, node_of, pod, priority_classes, scheduled_condition};

const POLL: Duration = Duration::from_millis(20);
/// Longer than any retry that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(40);

static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());

/// A control plane of one's own.
pub fn own() -> ControlPlane {
    own_with(&ControlPlaneOptions::default())
}

/// A control plane of one's own, started with these options.
pub fn own_with(options: &ControlPlaneOptions) -> ControlPlane {
    ControlPlane::start(options).expect("the API server starts")
}

/// The control plane of all tests that run at the moment; it ends with the last of them.
pub fn shared() -> Arc<ControlPlane> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(own());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// Asks until there is an answer, at most for `limit`.
pub fn eventually<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(POLL);
    }
}

/// The pod of that name in the namespace `default`.
pub fn get_pod(client: &ApiClient, name: &str) -> Option<Value> {
    match client.get(&format!("{PODS}/{name}")) {
        Err(Error::Refused { status: 404, .. }) => None,
        answer => Some(answer.expect("the API server answers")),
    }
}

/// Waits until the pod is bound; its node.
pub fn wait_until_bound(client: &ApiClient, name: &str) -> String {
    eventually(&format!("{name} is bound"), PATIENCE, || node_of(&get_pod(client, name)?).map(str::to_owned))
}

/// Waits until the pod's condition says why it waits: reason and message.
pub fn wait_until_explained(client: &ApiClient, name: &str) -> (String, String) {
    eventually(&format!("{name} has a condition"), PATIENCE, || {
        let pod = get_pod(client, name)?;
        let [status, reason, message] = scheduled_condition(&pod)?;
        (status == "False").then(|| (reason.to_owned(), message.to_owned()))
    })
}

/// The events about a pod with that reason.
pub fn events(client: &ApiClient, pod: &str, reason: &str) -> Vec<Value> {
    let query = format!("{EVENTS}?fieldSelector=regarding.name%3D{pod},reason%3D{reason}");
    let mut list = client.get(&query).expect("the API server answers");
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// Deletes a pod at once.
pub fn delete_pod(client: &ApiClient, name: &str) {
    client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).expect("the pod is deleted");
}

/// Creates the priority classes that are not there yet, and waits until pods may name them.
pub fn create_priority_classes(client: &ApiClient) {
    for class in priority_classes() {
        match client.post(PRIORITY_CLASSES, &class) {
            Err(Error::Refused { status: 409, .. }) => {}
            answer => drop(answer.expect("the priority class is created")),
        }
        let name = &class["metadata"]["name"];
        let probe = pod("probe", "nobody", json!({}), json!({"priorityClassName": name}));
        eventually("the priority class is known", PATIENCE, || {
            client.post(&format!("{PODS}?dryRun=All"), &probe).ok()
        });
    }
}
