//! Changes of pods, read from etcd itself: every change once and in order, regardless of the API server's state.
//!
//! etcd can serve watches as lines of JSON, and kube-apiserver can store JSON.

use std::io::{BufRead, BufReader};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use ureq::Agent;

/// Flag that makes kube-apiserver store JSON.
pub(crate) const FLAG: &str = "--storage-media-type=application/json";

const PODS: &str = "/registry/pods/";
/// The first key after all keys that start with [`PODS`].
const END: &str = "/registry/pods0";

/// Interval between attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// A change of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The pod was created or changed.
    Put(Pod),
    /// The pod with this name was deleted.
    Deleted(String),
}

/// A pod with its node and requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    /// CPU request in thousandths.
    pub(crate) cpu: u64,
    /// Memory request in MiB.
    pub(crate) memory: u64,
}

/// Starts a thread that watches all pods from the start of the history. It ends when `handle` returns false.
pub(crate) fn follow(etcd: &str, mut handle: impl FnMut(Result<Change>) -> bool + Send + 'static) {
    let url = format!("{etcd}/v3/watch");
    let agent: Agent = Agent::config_builder().proxy(None).build().into();
    thread::spawn(move || {
        let mut next = 1;
        loop {
            match read(&agent, &url, &mut next, &mut handle) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    if !handle(Err(error)) {
                        return;
                    }
                }
            }
            sleep(PAUSE);
        }
    });
}

/// Reads one watch to its end and sets `next` to the next revision. Returns true if another watch is needed.
fn read(
    agent: &Agent,
    url: &str,
    next: &mut u64,
    handle: &mut impl FnMut(Result<Change>) -> bool,
) -> Result<bool> {
    let encode = |key: &str| STANDARD.encode(key);
    let request = json!({"create_request": {
        "key": encode(PODS), "range_end": encode(END), "start_revision": next.to_string(),
    }});
    // etcd may be unavailable for a moment; a broken connection is then reopened.
    let Ok(response) = agent.post(url).send(request.to_string()) else { return Ok(true) };
    let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return Ok(true) };
        let answer: Answer = serde_json::from_str(&line).with_context(|| line.clone())?;
        if answer.result.canceled {
            bail!("etcd has canceled the watch from revision {next}: {line}");
        }
        for event in answer.result.events {
            *next = event.kv.mod_revision.parse::<u64>().context("a revision")? + 1;
            if !handle(event.decode()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[derive(Deserialize)]
struct Answer {
    result: Batch,
}

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: String,
    kv: KeyValue,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    mod_revision: String,
    #[serde(default)]
    value: String,
}

impl Event {
    fn decode(&self) -> Result<Change> {
        let key = String::from_utf8(STANDARD.decode(&self.kv.key)?)?;
        let name = key.rsplit('/').next().unwrap_or_default().to_owned();
        if self.kind == "DELETE" {
            return Ok(Change::Deleted(name));
        }
        let value = STANDARD.decode(&self.kv.value)?;
        let stored: Stored = serde_json::from_slice(&value).with_context(|| key.clone())?;
        let sum = |of: fn(&Requests) -> &str, unit: &str| -> Result<u64> {
            stored
                .spec
                .containers
                .iter()
                .map(|container| amount(of(&container.resources.requests), unit))
                .sum()
        };
        let cpu = sum(|requests| &requests.cpu, "m").context(key.clone())?;
        let memory = sum(|requests| &requests.memory, "Mi").context(key)?;
        Ok(Change::Put(Pod { name, node: stored.spec.node_name, cpu, memory }))
    }
}

/// Parses a quantity. Only the form that the load uses is supported.
fn amount(text: &str, unit: &str) -> Result<u64> {
    let number = text.strip_suffix(unit).with_context(|| format!("{text:?} does not end with {unit}"))?;
    number.parse().with_context(|| format!("{text:?} is not a number of {unit}"))
}

#[derive(Deserialize)]
struct Stored {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    resources: Resources,
}

#[derive(Deserialize)]
struct Resources {
    requests: Requests,
}

#[derive(Deserialize)]
struct Requests {
    cpu: String,
    memory: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, value: &str) -> Event {
        Event {
            kind: kind.to_owned(),
            kv: KeyValue {
                key: STANDARD.encode("/registry/pods/default/a"),
                mod_revision: "7".to_owned(),
                value: STANDARD.encode(value),
            },
        }
    }

    #[test]
    fn puts_and_deletions_are_distinguished() {
        let requests = json!({"cpu": "100m", "memory": "64Mi"});
        let containers =
            json!([{"resources": {"requests": requests}}, {"resources": {"requests": requests}}]);
        let pod = |node: Option<&str>| Pod {
            name: "a".to_owned(),
            node: node.map(str::to_owned),
            cpu: 200,
            memory: 128,
        };
        let pending = json!({"spec": {"containers": containers}}).to_string();
        assert_eq!(event("", &pending).decode().unwrap(), Change::Put(pod(None)));
        let bound = json!({"spec": {"containers": containers, "nodeName": "n"}}).to_string();
        assert_eq!(event("PUT", &bound).decode().unwrap(), Change::Put(pod(Some("n"))));
        assert_eq!(event("DELETE", "").decode().unwrap(), Change::Deleted("a".to_owned()));
    }

    #[test]
    fn unsupported_quantities_are_an_error() {
        let odd =
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}});
        assert!(event("PUT", &odd.to_string()).decode().is_err());
        assert!(event("PUT", "k8s\0").decode().is_err());
    }
}
