//! A script of cluster changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claims::claim_names;
use crate::extenders::Character;
use crate::provisioner::Driver;

/// What is played to a scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// Where it came from.
    pub seed: u64,
    /// A KubeSchedulerConfiguration v1.
    pub config: Value,
    /// Whether opportunistic batching (KEP-5598) is on.
    pub batching: bool,
    /// Whether a step that can wake pods must wait until their backoff is over.
    pub awaits_backoff: bool,
    /// Whether pods preempt others, and something plays their kubelet.
    #[serde(default)]
    pub preempts: bool,
    /// Who makes volumes.
    #[serde(default)]
    pub drivers: Vec<Driver>,
    /// Who answers as the configuration's extenders.
    #[serde(default)]
    pub extenders: Vec<Character>,
    /// The changes. The first one starts the scheduler.
    pub steps: Vec<Step>,
}

/// One change, after which the scheduler is left to settle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum Step {
    /// Stops the scheduler if it runs, creates the objects, starts it.
    Restart {
        /// Objects of any kind, nodes before the pods on them.
        objects: Vec<Value>,
    },
    /// Creates objects in a row. More than one only when they are pods that
    /// wait for a node.
    Create {
        /// Objects of any kind.
        objects: Vec<Value>,
    },
    /// Patches an object (RFC 7396).
    Patch {
        /// The path on the API server.
        path: String,
        /// The merge patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// The path on the API server.
        path: String,
    },
    /// Has a pod that fits nowhere tried once, and removes it.
    Probe,
    /// Deletes pods without a node, so that none is woken by what follows.
    Sweep {
        /// Not only those that a pod elsewhere can wake.
        all: bool,
    },
    /// Ends the terminating pods, each with time for what it makes room for.
    Reap,
}

/// Whether the binding of another pod can wake `pod`.
#[must_use]
pub(super) fn waits_for_others(pod: &Value) -> bool {
    let spread = pod["spec"]["topologySpreadConstraints"].as_array();
    spread.is_some_and(|list| list.iter().any(is_hard))
        || !pod["spec"]["affinity"]["podAffinity"][REQUIRED].is_null()
        // Volumes that are bound for another pod may be what it waits for, as far as a scheduler knows.
        || claim_names(pod).next().is_some()
}

/// Makes a pod one that no binding helps.
pub(super) fn stop_waiting_for_others(pod: &mut Value) {
    if let Some(Value::Array(constraints)) = pod.pointer_mut("/spec/topologySpreadConstraints") {
        constraints.retain(|constraint| !is_hard(constraint));
    }
    if let Some(Value::Object(affinity)) = pod.pointer_mut("/spec/affinity/podAffinity") {
        affinity.remove(REQUIRED);
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn is_hard(constraint: &Value) -> bool {
    constraint["whenUnsatisfiable"] == "DoNotSchedule"
}

impl Step {
    /// Whether pods that were tried before may be tried again.
    #[must_use]
    pub fn wakes(&self) -> bool {
        match self {
            Self::Create { objects } => !objects.iter().all(crate::generate::is_pending),
            Self::Patch { .. } | Self::Delete { .. } => true,
            Self::Restart { .. } | Self::Probe | Self::Sweep { .. } | Self::Reap => false,
        }
    }

    /// The objects that it creates.
    #[must_use]
    pub fn objects(&self) -> &[Value] {
        match self {
            Self::Restart { objects } | Self::Create { objects } => objects,
            _ => &[],
        }
    }

    /// The objects that it creates, to drop some.
    pub fn objects_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Restart { objects } | Self::Create { objects } => Some(objects),
            _ => None,
        }
    }

    /// A line for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let names = |objects: &[Value]| {
            let mut names: Vec<String> = (objects.iter().take(3))
                .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
                .collect();
            if objects.len() > 3 {
                names.push(format!("... ({} in all)", objects.len()));
            }
            names.join(", ")
        };
        match self {
            Self::Restart { objects } => format!("restart the scheduler with {}", names(objects)),
            Self::Create { objects } => format!("create {}", names(objects)),
            Self::Patch { path, patch } => format!("patch {path} {patch}"),
            Self::Delete { path } => format!("delete {path}"),
            Self::Probe => "probe".to_owned(),
            Self::Sweep { all: true } => "delete the pods without a node".to_owned(),
            Self::Sweep { all: false } => "delete the pods that wait for others".to_owned(),
            Self::Reap => "end the terminating pods".to_owned(),
        }
    }
}
