//! Counts bindings and events by watching for them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::watch::Watch;
use crate::components::ApiClient;

/// Watch of pods in [`MEASURED`](super::workload::MEASURED) that have a node. A pod appears when it is bound.
const BOUND: &str =
    "/api/v1/namespaces/measured/pods?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName!%3D";

/// Watch of pods in [`MEASURED`](super::workload::MEASURED).
const CREATED: &str = "/api/v1/namespaces/measured/pods?watch=1&timeoutSeconds=3600";

/// Watch of `Scheduled` events for pods in [`MEASURED`](super::workload::MEASURED).
const SCHEDULED: &str = "/apis/events.k8s.io/v1/namespaces/measured/events?watch=1&timeoutSeconds=3600&fieldSelector=reason%3DScheduled";

/// Prefix of the lines of new objects. Lines are not decoded, because the watch must not take CPU time from the
/// schedulers.
const ADDED: &[u8] = br#"{"type":"ADDED""#;

/// Start of the metadata of a measured pod, or of an event about one: the event's name starts with the pod's name.
const ABOUT_MEASURED: &[u8] = br#""metadata":{"name":"pod-"#;

/// Counts the objects that appear in a watch. Its thread ends with the watch, at the latest when the API server stops.
#[derive(Debug)]
pub(super) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Only objects whose line contains this text are counted.
    mark: &'static [u8],
    seen: Mutex<Vec<Seen>>,
    ended: Mutex<Option<String>>,
    changed: Condvar,
}

/// An object that has appeared.
#[derive(Debug)]
struct Seen {
    name: String,
    at: Instant,
}

impl Watcher {
    /// Starts to watch bindings; no pod in the namespace may be bound yet.
    pub(super) fn bindings(client: &ApiClient) -> Result<Self> {
        Self::start(client, BOUND, b"")
    }

    /// Starts to watch `Scheduled` events for measured pods, including existing ones.
    pub(super) fn events(client: &ApiClient) -> Result<Self> {
        Self::start(client, SCHEDULED, ABOUT_MEASURED)
    }

    /// Starts to watch the creation of measured pods.
    pub(super) fn creations(client: &ApiClient) -> Result<Self> {
        Self::start(client, CREATED, ABOUT_MEASURED)
    }

    /// Starts to watch bindings of pods in a namespace with some labels, given as a selector that may be empty. Pods that
    /// are bound already are left out.
    pub(super) fn bindings_in(client: &ApiClient, namespace: &str, selector: &str) -> Result<Self> {
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        let now = client.get(&format!("{collection}?limit=1"))?;
        let version = now["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let query = format!(
            "{collection}?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName!%3D&labelSelector={selector}"
        );
        Ok(Self::follow(Watch::start_after(client, &query, version)?, b""))
    }

    /// Starts to watch `Scheduled` events in a namespace, including existing ones.
    pub(super) fn events_in(client: &ApiClient, namespace: &str) -> Result<Self> {
        Self::start(client, &SCHEDULED.replace("/measured/", &format!("/{namespace}/")), b"")
    }

    fn start(client: &ApiClient, query: &str, mark: &'static [u8]) -> Result<Self> {
        Ok(Self::follow(Watch::start(client, query)?, mark))
    }

    fn follow(watch: Watch, mark: &'static [u8]) -> Self {
        let (seen, ended, changed) = Default::default();
        let shared = Arc::new(Shared { mark, seen, ended, changed });
        let writer = Arc::clone(&shared);
        thread::spawn(move || writer.follow(watch));
        Self(shared)
    }

    /// Waits until `count` pods are bound. Fails if no further pod is bound within `patience`.
    pub(super) fn wait_for(&self, count: usize, patience: Duration) -> Result<()> {
        let seen = self.wait_at_most(count, patience);
        if seen < count {
            let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let watch = ended.map(|why| format!("; the watch ended: {why}")).unwrap_or_default();
            bail!(
                "only {seen} of {count} pods are bound, and no further pod was bound within {patience:?}{watch}"
            );
        }
        Ok(())
    }

    /// Waits until `count` objects have appeared, or until no further object appears within `patience`. Returns the
    /// number of objects that have appeared.
    pub(super) fn wait_at_most(&self, count: usize, patience: Duration) -> usize {
        let mut seen = self.0.lock();
        while seen.len() < count {
            let before = seen.len();
            let waited = self.0.changed.wait_timeout(seen, patience);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            seen = guard;
            if timeout.timed_out() && seen.len() == before {
                break;
            }
        }
        seen.len()
    }

    /// Number of objects that have appeared.
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Waits until an object with this index has appeared, for at most `patience`. Returns its name.
    pub(super) fn name(&self, index: usize, patience: Duration) -> Option<String> {
        self.wait_at_most(index + 1, patience);
        self.0.lock().get(index).map(|seen| seen.name.clone())
    }

    /// Time at which the object with this index appeared.
    pub(super) fn time(&self, index: usize) -> Option<Instant> {
        self.0.lock().get(index).map(|seen| seen.at)
    }

    /// Times at which objects appeared, by name.
    pub(super) fn times_by_name(&self) -> HashMap<String, Instant> {
        self.0.lock().iter().map(|seen| (seen.name.clone(), seen.at)).collect()
    }
}

impl Shared {
    /// Reads the watch until it ends.
    fn follow(&self, watch: Watch) {
        let ended = watch.read(|line| {
            if line.starts_with(ADDED) && has(line, self.mark) {
                self.lock().push(Seen { name: name(line), at: Instant::now() });
                self.changed.notify_all();
            }
        });
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the line contains the mark near its start.
fn has(line: &[u8], mark: &[u8]) -> bool {
    find(line, mark).is_some()
}

/// Returns the name of a line's object; empty if it is not near the start.
fn name(line: &[u8]) -> String {
    const KEY: &[u8] = br#""metadata":{"name":""#;
    let rest = find(line, KEY).map_or(&[][..], |at| &line[at + KEY.len()..]);
    let length = rest.iter().position(|byte| *byte == b'"').unwrap_or(0);
    String::from_utf8_lossy(&rest[..length]).into_owned()
}

/// Returns the position of the mark near the start of the line.
fn find(line: &[u8], mark: &[u8]) -> Option<usize> {
    const NEAR: usize = 200;
    if mark.is_empty() {
        return Some(0);
    }
    line[..line.len().min(NEAR)].windows(mark.len()).position(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_for_measured_pods_are_distinguished_from_others() {
        let line = |pod: &str| {
            format!(
                r#"{{"type":"ADDED","object":{{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{{"name":"{pod}.18a","namespace":"measured"}}}}}}"#
            )
        };
        assert!(has(line("pod-7").as_bytes(), ABOUT_MEASURED));
        assert!(!has(line("warm-up-7").as_bytes(), ABOUT_MEASURED));
        assert_eq!(
            (name(line("pod-7").as_bytes()), name(b"anything")),
            ("pod-7.18a".to_owned(), String::new())
        );
        assert!(has(b"anything", b""));
    }
}
