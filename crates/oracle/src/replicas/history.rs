//! What became of pods, from etcd itself: every change once and in its order, whatever becomes of the API server meanwhile.
//!
//! etcd serves its watches as lines of JSON, too, and kube-apiserver can be told to store JSON.

use std::io::{BufRead, BufReader};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use ureq::Agent;

/// kube-apiserver stores pods so that they can be read here.
pub(super) const FLAG: &str = "--storage-media-type=application/json";

const PODS: &str = "/registry/pods/";
/// The key behind all keys that begin with [`PODS`].
const END: &str = "/registry/pods0";

/// From one try to connect to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// A change of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// It was created or changed.
    Put(Pod),
    /// The pod of that name is gone.
    Gone(String),
}

/// A pod, as far as it takes room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) node: Option<String>,
    /// Thousandths.
    pub(super) cpu: u64,
    /// MiB.
    pub(super) memory: u64,
}

/// Follows all pods from the beginning of the history on, in a thread that ends when `tell` says `false`.
pub(super) fn follow(etcd: &str, mut tell: impl FnMut(Result<Change>) -> bool + Send + 'static) {
    let url = format!("{etcd}/v3/watch");
    let agent: Agent = Agent::config_builder().proxy(None).build().into();
    thread::spawn(move || {
        let mut next = 1;
        loop {
            match read(&agent, &url, &mut next, &mut tell) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    if !tell(Err(error)) {
                        return;
                    }
                }
            }
            sleep(PAUSE);
        }
    });
}

/// Reads one watch to its end: whether to go on with another one, from the revision `next` on.
fn read(
    agent: &Agent,
    url: &str,
    next: &mut u64,
    tell: &mut impl FnMut(Result<Change>) -> bool,
) -> Result<bool> {
    let encode = |key: &str| STANDARD.encode(key);
    let request = json!({"create_request": {
        "key": encode(PODS), "range_end": encode(END), "start_revision": next.to_string(),
    }});
    // etcd may be away for a moment; a connection that breaks is made anew.
    let Ok(response) = agent.post(url).send(request.to_string()) else { return Ok(true) };
    let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return Ok(true) };
        let answer: Answer = serde_json::from_str(&line).with_context(|| line.clone())?;
        if answer.result.canceled {
            bail!("etcd has ended the watch from revision {next} on: {line}");
        }
        for event in answer.result.events {
            *next = event.kv.mod_revision.parse::<u64>().context("a revision")? + 1;
            if !tell(event.decode()) {
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
            return Ok(Change::Gone(name));
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

/// Only what the load asks for has to be understood.
fn amount(text: &str, unit: &str) -> Result<u64> {
    let number = text.strip_suffix(unit).with_context(|| format!("{text:?} does not end with {unit}"))?;
    number.parse().with_context(|| format!("{text:?} is no number of {unit}"))
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
    fn puts_and_deletions_are_told_apart() {
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
        assert_eq!(event("DELETE", "").decode().unwrap(), Change::Gone("a".to_owned()));
    }

    #[test]
    fn what_cannot_be_counted_is_an_error() {
        let odd =
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]}});
        assert!(event("PUT", &odd.to_string()).decode().is_err());
        assert!(event("PUT", "k8s\0").decode().is_err());
    }
}
