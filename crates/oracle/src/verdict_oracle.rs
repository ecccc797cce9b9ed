//! What every real scheduler plugin says about every node.
//!
//! A [`VerdictOracle`] is the role `verdicts` of the real program: one process
//! that answers any number of questions, each with a cluster of its own, at
//! about 400,000 pod and node pairs per second. Objects get the API
//! server's defaults before they are evaluated; unknown fields are an error.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::components::RealBinary;
use crate::generate::is_pending;

/// A cluster, and which of its pending pods to evaluate. Pending pods do not
/// see each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Request {
    /// Comes back in the response.
    pub id: i64,
    /// A KubeSchedulerConfiguration v1; `None` for the defaults. No extenders.
    pub config: Option<Value>,
    /// Kubernetes objects with `apiVersion` and `kind`. A pod with
    /// `spec.nodeName` is bound; finished pods do not count.
    pub objects: Vec<Value>,
    /// `namespace/name` of pending pods; empty for all, in the order of
    /// `objects`.
    pub pods: Vec<String>,
    /// Asks about evictions for the pods that fit nowhere.
    pub preempt: bool,
    /// Asks the plugins' queueing hints about these changes, for every pod.
    pub changes: Vec<Change>,
}

/// An object before and after; one of them is `None` when it appears or goes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// Before.
    pub old: Option<Value>,
    /// After.
    pub new: Option<Value>,
}

impl Change {
    /// `namespace/name` of the pod without a node that is updated, if it is one.
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

/// Answers to a change: `Queue`, `QueueSkip` or `Error` by plugin and event, such as `NodePorts AssignedPodDelete`.
pub type Hints = BTreeMap<String, String>;

/// The answer to one [`Request`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Response {
    /// The request's id.
    pub id: i64,
    /// Why the request could not be evaluated at all; `pods` is empty then.
    pub error: Option<String>,
    /// One verdict per pod, in the order asked for.
    pub pods: Vec<PodVerdict>,
}

/// What the plugins of a pod's profile say.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVerdict {
    /// `namespace/name`.
    pub pod: String,
    /// The profile, that is `spec.schedulerName`.
    pub profile: String,
    /// Why the pod could not be evaluated to the end, for instance a profile
    /// that does not exist or a plugin that failed.
    pub error: Option<String>,
    /// The first PreEnqueue rejection; the later points are evaluated anyway.
    pub pre_enqueue: Option<Status>,
    /// The rejection of the pod as a whole; `nodes` is empty then.
    pub pre_filter: Option<Status>,
    /// Every node; `None` where the pod fits. A node outside the set that
    /// PreFilter returned has a status without a plugin.
    pub nodes: BTreeMap<String, Option<Status>>,
    /// Every node where the pod fits, even when it is the only one.
    pub scores: BTreeMap<String, NodeScore>,
    /// Pods that may make way, if that was asked and the pod fits nowhere.
    #[serde(default)]
    pub preemption: Option<Preemption>,
    /// Answers to each of [`Request::changes`]; none from a profile that does not exist.
    #[serde(default)]
    pub hints: Vec<Hints>,
}

/// DefaultPreemption's answer for every node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Preemption {
    /// The node that it chooses among all; empty without candidates.
    pub node: String,
    /// Every node where evictions make room.
    pub candidates: BTreeMap<String, Candidate>,
}

/// Whom one node would lose.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Candidate {
    /// `namespace/name`, the most important pod first.
    pub victims: Vec<String>,
    /// Number of them that break a disruption budget.
    pub violations: i64,
}

/// A plugin's rejection, or its error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// The plugin's name; empty for a status of the framework itself.
    pub plugin: String,
    /// `Unschedulable`, `UnschedulableAndUnresolvable`, `Error`, ...
    pub code: String,
    /// Sorted.
    pub reasons: Vec<String>,
}

/// The score of one node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeScore {
    /// The sum over the plugins.
    pub total: i64,
    /// Normalised, weighted score of each plugin that PreScore did not skip.
    pub plugins: BTreeMap<String, i64>,
}

/// Why the oracle did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The real program could not be built.
    #[error(transparent)]
    Components(#[from] crate::components::Error),
    /// The process could not be started.
    #[error("the verdict oracle: {0}")]
    Io(#[from] io::Error),
    /// The process ended; this is the end of its log.
    #[error("the verdict oracle has ended; the end of its log:\n{0}")]
    Ended(String),
    /// A line that is not a response.
    #[error("the verdict oracle answered with something else: {0}")]
    Answer(#[from] serde_json::Error),
    /// A response to another request.
    #[error("the verdict oracle answered request {got} instead of {asked}")]
    Order {
        /// The id asked for.
        asked: i64,
        /// The id that came.
        got: i64,
    },
}

/// The running oracle. It ends with this value or with this process.
#[derive(Debug)]
pub struct VerdictOracle {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What the plugins log.
    log: File,
    line: Vec<u8>,
}

impl VerdictOracle {
    /// Builds the real program if need be and starts the oracle.
    pub fn start() -> Result<Self, Error> {
        Self::with_features(&[])
    }

    /// The same with these feature gates on; they hold as long as it runs.
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

    /// Asks one question and waits for the answer.
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
            Err(Error::Order { asked: request.id, got: response.id })
        }
    }
}

impl VerdictOracle {
    /// The last 4 KiB that the process has logged.
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
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
