//! Verdicts of the real scheduler plugins on every node.
//!
//! A [`VerdictOracle`] runs the Go program with the real plugins in the role `verdicts`. One process answers any number
//! of requests, each with its own cluster, at a rate of about 400,000 pairs of a pod and a node per second. Objects get
//! the API server's defaults before they are evaluated; unknown fields are an error.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::components::RealBinary;
use crate::generate::is_pending;

/// A cluster with pending pods to evaluate. Each pending pod is evaluated without the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Request {
    /// ID, which is repeated in the response.
    pub id: i64,
    /// A KubeSchedulerConfiguration v1 without extenders; `None` for the defaults.
    pub config: Option<Value>,
    /// Kubernetes objects with `apiVersion` and `kind`. A pod with
    /// `spec.nodeName` is bound; finished pods are ignored.
    pub objects: Vec<Value>,
    /// `namespace/name` of pending pods; empty for all, in the order of
    /// `objects`.
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

impl Change {
    /// Returns true if the change makes a resource claim unusable for the pod: the claim is deleted or about to be, or
    /// another pod controls a claim that has the name of this pod.
    #[must_use]
    pub fn breaks_claim_of(&self, pod: &Value) -> bool {
        let object = self.new.as_ref().or(self.old.as_ref());
        let Some(claim) = object.filter(|object| object["kind"] == "ResourceClaim") else { return false };
        let metadata = &claim["metadata"];
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let owner = &metadata["ownerReferences"][0];
        let is_owned = owner["controller"] == true && owner["name"] == pod["metadata"]["name"];
        let is_generated = name(claim).starts_with(&format!("{}-", name(pod)));
        let has_other_owner = owner["uid"] == "another-owner";
        let is_deleted = self.new.is_none() || !metadata["deletionTimestamp"].is_null();
        is_deleted || is_generated && (!is_owned || has_other_owner)
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
    /// The reason the request could not be evaluated at all; `pods` is then empty.
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
    /// Status of every node; `None` if the pod fits. A node outside the set that
    /// PreFilter returned has a status without a plugin.
    pub nodes: BTreeMap<String, Option<Status>>,
    /// Score of every node that the pod fits, even if there is only one.
    pub scores: BTreeMap<String, NodeScore>,
    /// Devices for the claims that have none yet, for every node that the pod fits.
    #[serde(default)]
    pub allocations: BTreeMap<String, Vec<ClaimAllocation>>,
    /// Answer of DynamicResources alone if the pod does not fit and the profile has that plugin.
    #[serde(default)]
    pub post_filter: Option<Status>,
    /// Result of preemption, if it was requested and the pod does not fit.
    #[serde(default)]
    pub preemption: Option<Preemption>,
    /// Results of the hints for each of [`Request::changes`]. Empty if the profile does not exist.
    #[serde(default)]
    pub hints: Vec<Hints>,
}

/// Devices that DynamicResources chooses for a claim on one node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClaimAllocation {
    /// Name of the claim.
    pub claim: String,
    /// Requests, if the plugin itself creates the claim, for extended resources.
    #[serde(default)]
    pub requests: Vec<Value>,
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
    #[error("running the verdict oracle: {0}")]
    Io(#[from] io::Error),
    /// The process exited; the value is the end of its log.
    #[error("the verdict oracle has ended; the end of its log:\n{0}")]
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
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Log of the plugins.
    log: File,
    line: Vec<u8>,
}

impl VerdictOracle {
    /// Builds the Go program with the real plugins if necessary, and starts the oracle.
    pub fn start() -> Result<Self, Error> {
        Self::with_features(&[])
    }

    /// Starts the oracle with these feature gates enabled.
    pub fn with_features(features: &[String]) -> Result<Self, Error> {
        let gates: Vec<String> = features.iter().map(|feature| format!("{feature}=true")).collect();
        let log = tempfile::tempfile()?;
        let mut child = Command::new(RealBinary::ensure()?.path())
            .arg("verdicts")
            .arg(format!("--feature-gates={}", gates.join(",")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a child process without pipes").into());
        };
        Ok(Self {
            child,
            input: BufWriter::with_capacity(1 << 16, input),
            output: BufReader::with_capacity(1 << 16, output),
            log,
            line: Vec::new(),
        })
    }

    /// Sends a request and waits for the response.
    pub fn ask(&mut self, request: &Request) -> Result<Response, Error> {
        serde_json::to_writer(&mut self.input, request)?;
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        self.line.clear();
        if self.output.read_until(b'\n', &mut self.line)? == 0 {
            return Err(Error::Ended(self.log_tail()));
        }
        let response: Response = serde_json::from_slice(&self.line)?;
        if response.id == request.id {
            Ok(response)
        } else {
            Err(Error::Order { expected: request.id, got: response.id })
        }
    }
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

impl Drop for VerdictOracle {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
