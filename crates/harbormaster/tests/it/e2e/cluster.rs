//! Requests to a cluster and conditions that tests wait for.

use std::{
    collections::BTreeMap,
    thread::{self, sleep},
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{ApiClient, Error};
use serde_json::{Value, json};

use super::objects::{EVENTS, PODS, PRIORITY_CLASSES, node_of, pod, priority_classes, scheduled_condition};

const POLL: Duration = Duration::from_millis(20);
/// Longest wait for any condition, with a margin for a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Calls `ask` until it returns a value, for at most `limit`.
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

/// Returns the named pod in the `default` namespace.
pub fn get_pod(client: &ApiClient, name: &str) -> Option<Value> {
    match client.get(&format!("{PODS}/{name}")) {
        Err(Error::Refused { status: 404, .. }) => None,
        answer => Some(answer.expect("the API server answers")),
    }
}

/// Waits until the pod is bound and returns its node.
pub fn wait_until_bound(client: &ApiClient, name: &str) -> String {
    eventually(&format!("{name} is bound"), PATIENCE, || node_of(&get_pod(client, name)?).map(str::to_owned))
}

/// Waits until a condition explains why the pod is pending, and returns the condition's reason and message.
pub fn wait_until_explained(client: &ApiClient, name: &str) -> (String, String) {
    eventually(&format!("{name} has a condition"), PATIENCE, || {
        let pod = get_pod(client, name)?;
        let [status, reason, message] = scheduled_condition(&pod)?;
        (status == "False").then(|| (reason.to_owned(), message.to_owned()))
    })
}

/// Returns the events about a pod that have the given reason.
pub fn events(client: &ApiClient, pod: &str, reason: &str) -> Vec<Value> {
    list(client, &format!("{EVENTS}?fieldSelector=regarding.name%3D{pod},reason%3D{reason}"))
}

/// Returns the objects of a collection.
pub fn list(client: &ApiClient, path: &str) -> Vec<Value> {
    let mut list = client.get(path).expect("the API server answers");
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// Returns the name of an object.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the events in the `default` namespace, keyed by reason and pod.
pub fn events_by_pod(client: &ApiClient) -> BTreeMap<(String, String), Vec<Value>> {
    let mut by_pod: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for event in list(client, EVENTS) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        by_pod.entry((text(&event["reason"]), text(&event["regarding"]["name"]))).or_default().push(event);
    }
    by_pod
}

/// Creates objects in a collection, several at a time.
pub fn create_all(client: &ApiClient, path: &str, objects: &[Value]) {
    const THREADS: usize = 4;
    thread::scope(|scope| {
        for first in 0..THREADS {
            scope.spawn(move || {
                for object in objects.iter().skip(first).step_by(THREADS) {
                    client.post(path, object).expect("the object is created");
                }
            });
        }
    });
}

/// Deletes a pod without a grace period.
pub fn delete_pod(client: &ApiClient, name: &str) {
    client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).expect("the pod is deleted");
}

/// Creates the priority classes that do not exist yet, and waits until pods can name them.
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
