//! A script of cluster changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claims::claim_names;
use crate::extenders::Character;
use crate::provisioner::Driver;

/// A sequence of cluster changes to which a scheduler reacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// Seed from which the script was generated.
    pub seed: u64,
    /// A KubeSchedulerConfiguration v1.
    pub config: Value,
    /// True if opportunistic batching (KEP-5598) is enabled.
    pub batching: bool,
    /// True if a step that can wake pods must wait until their backoff has expired.
    pub awaits_backoff: bool,
    /// True if pods preempt others and bound pods get the status that a kubelet would write.
    #[serde(default)]
    pub preempts: bool,
    /// True if pods have resource claims. A pod whose attempt ends with an error is then deleted after the step.
    #[serde(default)]
    pub devices: bool,
    /// True if pods form groups.
    #[serde(default)]
    pub groups: bool,
    /// True if groups have topology constraints.
    #[serde(default)]
    pub topology: bool,
    /// True if groups have preemption policies that count.
    #[serde(default)]
    pub group_policies: bool,
    /// True if groups have resource claims.
    #[serde(default)]
    pub group_claims: bool,
    /// Drivers that create volumes.
    #[serde(default)]
    pub drivers: Vec<Driver>,
    /// The configuration's extenders.
    #[serde(default)]
    pub extenders: Vec<Character>,
    /// The steps. The first one starts the scheduler.
    pub steps: Vec<Step>,
}

/// A change, after which the player waits until the scheduler settles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum Step {
    /// Stops the scheduler if it is running, creates objects, and starts the scheduler.
    Restart {
        /// Objects of any kind, nodes before the pods on them.
        objects: Vec<Value>,
    },
    /// Creates objects one after the other. A step with several objects contains only pods without a node.
    Create {
        /// Objects of any kind.
        objects: Vec<Value>,
    },
    /// Patches an object (RFC 7396).
    Patch {
        /// Path on the API server.
        path: String,
        /// Merge patch.
        patch: Value,
    },
    /// Deletes an object.
    Delete {
        /// Path on the API server.
        path: String,
    },
    /// Deletes a node and, before it, the pods on it.
    Drain {
        /// Name of the node.
        node: String,
    },
    /// Creates an unschedulable pod, waits until it is tried once, and deletes it.
    Probe,
    /// Deletes pods without a node, so that later steps do not wake them.
    Sweep {
        /// If true, all pods without a node are deleted; if false, only those that the binding of another pod can wake.
        all: bool,
    },
    /// Deletes the terminating pods one by one, and allows time for pods that wait for the freed resources to be
    /// retried.
    Reap,
}

/// Returns true if the binding of another pod can wake `pod`.
#[must_use]
pub(super) fn waits_for_others(pod: &Value) -> bool {
    let spread = pod["spec"]["topologySpreadConstraints"].as_array();
    spread.is_some_and(|list| list.iter().any(is_hard))
        || !pod["spec"]["affinity"]["podAffinity"][REQUIRED].is_null()
        // A scheduler must assume that the pod waits for volumes that are being bound for another pod.
        || claim_names(pod).next().is_some()
        || uses_existing_claims(pod)
}

/// Returns true if the pod uses resource claims that were not created for it. Another pod may get devices for such a
/// claim, and an attempt may take the devices away again.
fn uses_existing_claims(pod: &Value) -> bool {
    let mut entries = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    entries.any(|entry| !entry["resourceClaimName"].is_null())
}

/// Removes the constraints that the binding of another pod can satisfy.
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
    /// Returns true if the step may cause pods to be retried.
    #[must_use]
    pub fn wakes(&self) -> bool {
        match self {
            Self::Create { objects } => !objects
                .iter()
                .all(|object| crate::generate::is_pending(object) && !uses_existing_claims(object)),
            Self::Patch { .. } | Self::Delete { .. } | Self::Drain { .. } => true,
            Self::Restart { .. } | Self::Probe | Self::Sweep { .. } | Self::Reap => false,
        }
    }

    /// Returns the objects that the step creates.
    #[must_use]
    pub fn objects(&self) -> &[Value] {
        match self {
            Self::Restart { objects } | Self::Create { objects } => objects,
            _ => &[],
        }
    }

    /// Returns the objects that the step creates, so that some can be removed.
    pub fn objects_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Restart { objects } | Self::Create { objects } => Some(objects),
            _ => None,
        }
    }

    /// Describes the step in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let names = |objects: &[Value]| {
            let mut names: Vec<String> = (objects.iter().take(3))
                .map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
                .collect();
            if objects.len() > 3 {
                names.push(format!("... ({} in total)", objects.len()));
            }
            names.join(", ")
        };
        match self {
            Self::Restart { objects } => format!("restart the scheduler with {}", names(objects)),
            Self::Create { objects } => format!("create {}", names(objects)),
            Self::Patch { path, patch } => format!("patch {path} {patch}"),
            Self::Delete { path } => format!("delete {path}"),
            Self::Drain { node } => format!("drain and delete {node}"),
            Self::Probe => "probe".to_owned(),
            Self::Sweep { all: true } => "delete the pods without a node".to_owned(),
            Self::Sweep { all: false } => "delete the pods that wait for others".to_owned(),
            Self::Reap => "delete the terminating pods".to_owned(),
        }
    }
}
