//! Bindings and events as an outsider sees them.

use std::io::BufRead;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::components::ApiClient;

/// Pods in [`MEASURED`](super::workload::MEASURED) that have a node; one appears
/// in this watch when it is bound.
const BOUND: &str =
    "/api/v1/namespaces/measured/pods?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName!%3D";

/// `Scheduled` events about pods in [`MEASURED`](super::workload::MEASURED).
const SCHEDULED: &str = "/apis/events.k8s.io/v1/namespaces/measured/events?watch=1&timeoutSeconds=3600&fieldSelector=reason%3DScheduled";

/// How every line of a new object begins. Nothing else of it is decoded: the watch
/// must not take the schedulers' processors.
const ADDED: &[u8] = br#"{"type":"ADDED""#;

/// How the name of an event about a measured pod begins, which is that of the pod.
const ABOUT_MEASURED: &[u8] = br#""metadata":{"name":"pod-"#;

/// Counts objects that come into its sight. Its thread ends with the API server.
#[derive(Debug)]
pub(super) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    query: &'static str,
    /// Objects without this are not counted.
    mark: &'static [u8],
    seen: Mutex<Vec<Instant>>,
    ended: Mutex<Option<String>>,
    changed: Condvar,
}

impl Watcher {
    /// Watches bindings from now on; no pod of the namespace is bound yet.
    pub(super) fn bindings(client: &ApiClient) -> Result<Self> {
        Self::start(client, BOUND, b"")
    }

    /// Watches `Scheduled` events about measured pods. Those that are there
    /// already come first.
    pub(super) fn events(client: &ApiClient) -> Result<Self> {
        Self::start(client, SCHEDULED, ABOUT_MEASURED)
    }

    fn start(client: &ApiClient, query: &'static str, mark: &'static [u8]) -> Result<Self> {
        let (seen, ended, changed) = Default::default();
        let shared = Arc::new(Shared { query, mark, seen, ended, changed });
        let stream: Box<dyn BufRead + Send> = Box::new(client.stream(query)?);
        let (writer, client) = (Arc::clone(&shared), client.clone());
        thread::spawn(move || writer.follow(&client, stream));
        Ok(Self(shared))
    }

    /// Waits until `count` pods are bound, as long as one more is within `patience`.
    pub(super) fn wait_for(&self, count: usize, patience: Duration) -> Result<()> {
        let seen = self.wait_at_most(count, patience);
        if seen < count {
            let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let watch = ended.map(|why| format!("; the watch ended: {why}")).unwrap_or_default();
            bail!("{seen} of {count} pods are bound, and no other within {patience:?}{watch}");
        }
        Ok(())
    }

    /// Waits until `count` are seen, or no other within `patience`; how many are.
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

    /// When the `index`th was seen.
    pub(super) fn time(&self, index: usize) -> Option<Instant> {
        self.0.lock().get(index).copied()
    }
}

impl Shared {
    /// Reads until the API server is gone. It closes a watch whose reader it finds slow, which on a busy machine is
    /// anyone; the next one goes on where the last ended.
    fn follow(&self, client: &ApiClient, mut stream: Box<dyn BufRead + Send>) {
        let mut last = String::new();
        let ended = loop {
            self.read(&mut stream, &mut last);
            match client.stream(&format!("{}&resourceVersion={last}", self.query)) {
                Ok(next) => stream = Box::new(next),
                Err(error) => break error.to_string(),
            }
        };
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }

    /// Reads one watch to its end; `last` becomes the resource version of the last object.
    fn read(&self, stream: &mut impl BufRead, last: &mut String) {
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if line.starts_with(ADDED) && has(&line, self.mark) {
                self.lock().push(Instant::now());
                self.changed.notify_all();
            }
            if let Some(version) = resource_version(&line) {
                last.clear();
                last.push_str(version);
            }
            line.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the line has the mark near its beginning.
fn has(line: &[u8], mark: &[u8]) -> bool {
    const NEAR: usize = 200;
    mark.is_empty() || line[..line.len().min(NEAR)].windows(mark.len()).any(|window| window == mark)
}

/// The resource version of an event's object: the first one of the line.
fn resource_version(line: &[u8]) -> Option<&str> {
    const KEY: &[u8] = br#""resourceVersion":""#;
    let start = line.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let length = line[start..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&line[start..start + length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_version_of_an_event_is_found_without_decoding_it() {
        let line =
            br#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","resourceVersion":"42"}}}"#;
        assert_eq!(resource_version(line), Some("42"));
        assert_eq!(resource_version(br#"{"type":"BOOKMARK"}"#), None);
    }

    #[test]
    fn events_about_measured_pods_are_told_from_those_about_others() {
        let line = |pod: &str| {
            format!(
                r#"{{"type":"ADDED","object":{{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{{"name":"{pod}.18a","namespace":"measured"}}}}}}"#
            )
        };
        assert!(has(line("pod-7").as_bytes(), ABOUT_MEASURED));
        assert!(!has(line("warm-up-7").as_bytes(), ABOUT_MEASURED));
        assert!(has(b"anything", b""));
    }
}
