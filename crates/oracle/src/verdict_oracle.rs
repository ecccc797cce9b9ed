//! Verdicts of the real scheduler plugins on every node.
//!
//! A [`VerdictOracle`] runs the Go program with the real plugins in the role `verdicts`. One process answers any number
//! of requests, each with its own cluster, at a rate of about 400,000 pairs of a pod and a node per second. Objects get
//! the API server's defaults before they are evaluated; unknown fields are an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use harbormaster_api::Release;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::components::{LineProcess, RealBinary};
use crate::generate::is_pending;

/// A cluster with pending pods to evaluate. Each pending pod is evaluated without the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Request {
    /// ID, which is repeated in the response.
    pub id: i64,
    /// A KubeSchedulerConfiguration v1 without extenders; `None` for the defaults.
    pub config: Option<Value>,
    /// Kubernetes objects with `apiVersion` and `kind`. A pod with `spec.nodeName` is bound; finished pods are ignored.
    pub objects: Vec<Value>,
    /// `namespace/name` of pending pods; empty for all, in the order of `objects`.
    pub pods: Vec<String>,
    /// If true, preemption is evaluated for pods that do not fit.
    pub preempt: bool,
    /// Changes for which the plugins' queueing hints are evaluated for every pod.
    pub changes: Vec<Change>,
}

/// An object before and after a change. `old` is `None` if the change creates the object, and `new` is `None` if the
/// change deletes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// The object before the change.
    pub old: Option<Value>,
    /// The object after the change.
    pub new: Option<Value>,
}

impl Change {
    /// `namespace/name` of the updated pod, if the change updates a pod without a node.
    #[must_use]
    pub fn waiting_pod(&self) -> Option<String> {
        let (Some(_), Some(new)) = (&self.old, &self.new) else { return None };
        let text = |field: &str| new["metadata"][field].as_str().unwrap_or("default");
        is_pending(new).then(|| format!("{}/{}", text("namespace"), text("name")))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object =
            |object: &Option<Value>| object.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        write!(f, "{} -> {}", object(&self.old), object(&self.new))
    }
}

/// Results of the plugins' queueing hints for a change: `Queue`, `QueueSkip` or `Error` by plugin and event, such as
/// `NodePorts AssignedPodDelete`.
pub type Hints = BTreeMap<String, String>;

/// Response to a [`Request`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Response {
    /// ID of the request.
    pub id: i64,
    /// The reason the request could not be evaluated; `pods` is then empty.
    pub error: Option<String>,
    /// One verdict per pod, in the requested order.
    pub pods: Vec<PodVerdict>,
}

/// Verdicts of the plugins of a pod's profile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVerdict {
    /// `namespace/name`.
    pub pod: String,
    /// Profile, which is `spec.schedulerName`.
    pub profile: String,
    /// The reason the pod could not be fully evaluated, for example a missing profile or a plugin that failed.
    pub error: Option<String>,
    /// First rejection by PreEnqueue. Later extension points are evaluated nevertheless.
    pub pre_enqueue: Option<Status>,
    /// Rejection of the whole pod; `nodes` is then empty.
    pub pre_filter: Option<Status>,
    /// Status of every node; `None` if the pod fits. A node outside the set that PreFilter returned has a status
    /// without a plugin.
    pub nodes: BTreeMap<String, Option<Status>>,
    /// Score of every node that the pod fits, even if there is only one.
    pub scores: BTreeMap<String, NodeScore>,
    /// Allocations of the pod's unallocated claims, for every node that the pod fits.
    #[serde(default)]
    pub allocations: BTreeMap<String, Vec<ClaimAllocation>>,
    /// Result of PostFilter of DynamicResources, if the pod does not fit and the profile has that plugin.
    #[serde(default)]
    pub post_filter: Option<Status>,
    /// Result of preemption, if it was requested and the pod does not fit.
    #[serde(default)]
    pub preemption: Option<Preemption>,
    /// Results of the hints for each of [`Request::changes`]. Empty if the profile does not exist.
    #[serde(default)]
    pub hints: Vec<Hints>,
    /// `namespace/name` of the pending pods before which the QueueSort plugin puts the pod, sorted. Only the program with
    /// the plugins of scheduler-plugins fills it.
    #[serde(default)]
    pub before: Vec<String>,
}

/// Name of the claim for extended resources until it is created.
pub const EXTENDED_CLAIM: &str = "<extended-resources>";

/// Devices that DynamicResources chooses for a claim on one node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClaimAllocation {
    /// Name of the claim.
    pub claim: String,
    /// Requests of a claim that the plugin itself creates, for extended resources; otherwise empty.
    #[serde(default)]
    pub requests: Vec<Value>,
    /// Requests that give containers their extended resources, for the same claim.
    #[serde(default)]
    pub mappings: Vec<Value>,
    /// The `allocation` that the plugin would write, with the same share ID everywhere.
    pub allocation: Value,
}

/// Candidates of DefaultPreemption.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Preemption {
    /// The node that DefaultPreemption chooses; empty if there are no candidates.
    pub node: String,
    /// Candidates by node.
    pub candidates: BTreeMap<String, Candidate>,
}

/// Victims on one node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Candidate {
    /// `namespace/name`, most important pod first.
    pub victims: Vec<String>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: i64,
}

/// Rejection or error of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// Name of the plugin; empty for a status of the framework.
    pub plugin: String,
    /// `Unschedulable`, `UnschedulableAndUnresolvable`, `Error`, ...
    pub code: String,
    /// Reasons, sorted.
    pub reasons: Vec<String>,
}

/// Score of one node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeScore {
    /// Sum over the plugins.
    pub total: i64,
    /// Normalized, weighted score of each plugin that PreScore did not skip.
    pub plugins: BTreeMap<String, i64>,
}

/// The reason the oracle did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Go program with the real plugins could not be built.
    #[error(transparent)]
    Components(#[from] crate::components::Error),
    /// The process could not be started.
    #[error("cannot run the verdict oracle: {0}")]
    Io(#[from] io::Error),
    /// The process exited; the value is the end of its log.
    #[error("the verdict oracle exited; the end of its log:\n{0}")]
    Ended(String),
    /// The output is not a response.
    #[error("the verdict oracle returned an invalid response: {0}")]
    Answer(#[from] serde_json::Error),
    /// The ID of the response differs from that of the request.
    #[error("the verdict oracle answered request {got} instead of {expected}")]
    Order {
        /// ID of the request.
        expected: i64,
        /// ID of the response.
        got: i64,
    },
}

/// The running oracle. Dropping it kills the process.
#[derive(Debug)]
pub struct VerdictOracle {
    release: Release,
    process: LineProcess,
    /// Log of the plugins.
    log: File,
}

impl VerdictOracle {
    /// Builds the Go program with the real plugins of a release if necessary, and starts the oracle.
    pub fn start(release: Release) -> Result<Self, Error> {
        Self::with_features(release, &[])
    }

    /// Starts the oracle with these feature gates enabled.
    pub fn with_features(release: Release, features: &[String]) -> Result<Self, Error> {
        let gates: Vec<String> = features.iter().map(|feature| format!("{feature}=true")).collect();
        let log = tempfile::tempfile()?;
        let mut command = Command::new(RealBinary::ensure(release)?.path());
        command.arg("verdicts").arg(format!("--feature-gates={}", gates.join(",")));
        let process = LineProcess::start(command.stderr(log.try_clone()?))?;
        Ok(Self { release, process, log })
    }

    /// Starts another program that answers the same requests, about Kubernetes 1.36 or older.
    pub(crate) fn of_program(program: &Path) -> Result<Self, Error> {
        let log = tempfile::tempfile()?;
        let process = LineProcess::start(Command::new(program).stderr(log.try_clone()?))?;
        Ok(Self { release: Release::V1_36, process, log })
    }

    /// The release of the plugins.
    pub(crate) fn release(&self) -> Release {
        self.release
    }

    /// Sends a request and waits for the response.
    pub fn ask(&mut self, request: &Request) -> Result<Response, Error> {
        let request = &*in_version_of(self.release, request);
        let Some(line) = self.process.ask(request)? else { return Err(Error::Ended(self.log_tail())) };
        let response: Response = serde_json::from_slice(line)?;
        if response.id == request.id {
            Ok(response)
        } else {
            Err(Error::Order { expected: request.id, got: response.id })
        }
    }
}

/// Returns the request with taint rules for devices in the version that the release's plugins read.
fn in_version_of(release: Release, request: &Request) -> Cow<'_, Request> {
    let is_rule = |object: &&Value| object["kind"] == "DeviceTaintRule";
    if release >= Release::V1_37 || !request.objects.iter().any(|object| is_rule(&object)) {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    for rule in request.objects.iter_mut().filter(|object| is_rule(&&**object)) {
        rule["apiVersion"] = "resource.k8s.io/v1beta2".into();
    }
    Cow::Owned(request)
}

impl VerdictOracle {
    /// The last 4 KiB of the log.
    fn log_tail(&mut self) -> String {
        let mut bytes = Vec::new();
        let end = self.log.seek(SeekFrom::End(0)).unwrap_or(0);
        let read = self
            .log
            .seek(SeekFrom::Start(end.saturating_sub(4096)))
            .and_then(|_| self.log.read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}
