//! Harbormaster's shadow beside the real kube-scheduler.
//!
//! kube-scheduler decides while a script is played, and `harbormaster shadow --parity` compares every decision on the
//! same API server. A shadow starts before each start of kube-scheduler and ends after it, because both must list the
//! nodes in the same order. Afterwards, the shadow must have compared every pod that has a node or was left waiting.
//! The audit log of the API server shows whether the shadow has written anything.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::outcome::{Outcomes, PodOutcome};
use super::player::Stage;
use super::script::{Script, Step};
use crate::components::Endpoint;
use crate::scheduler::{Scheduler, StartOptions};

/// Time that a shadow has to see the last decisions.
const ARRIVAL: Duration = Duration::from_millis(300);

/// Start of the user agent of Harbormaster's requests.
const USER_AGENT: &str = "harbormaster/";

/// Result for one script.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Seed of the script.
    pub seed: u64,
    /// Number of steps in the script.
    pub steps: usize,
    /// Number of pods that both schedulers put on the same node.
    pub same: usize,
    /// Number of times that both schedulers found no node.
    pub waiting: usize,
    /// Number of decisions that are alike only on the cluster without the latest changes, or with the next ones.
    pub raced: usize,
    /// Number of pods on different nodes with the same score. Which one is chosen depends on where the search starts.
    /// Attempts that end with the same message as before move the start, and the shadow does not see them.
    pub tied: usize,
    /// Number of pods for which both schedulers evict the same pods.
    pub preemptions: usize,
    /// Number of requests of the shadow that read.
    pub reads: usize,
    /// Requests of the shadow that write.
    pub writes: Vec<String>,
    /// Decisions that differ or were not compared.
    pub objections: Vec<String>,
    /// Duration.
    pub total: Duration,
}

impl ShadowReport {
    /// Returns true if all decisions were compared and alike, and the shadow has not written anything.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.objections.is_empty() && self.writes.is_empty() && self.reads > 0
    }
}

impl fmt::Display for ShadowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, steps, same, waiting, raced, tied, preemptions, reads, writes, .. } = self;
        write!(
            f,
            "seed {seed}: {steps} steps, {same} on the same node, {waiting} times no node, {raced} raced, {tied} tied, {preemptions} equal \
             preemptions, {reads} reads, {} writes, {:.1} s: {}",
            writes.len(),
            self.total.as_secs_f64(),
            if self.agrees() { "agrees" } else { "DIFFERENT" }
        )?;
        let lines = self.objections.iter().chain(writes);
        lines.into_iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Plays `script` with kube-scheduler on a stage that is [audited](Stage::audited), beside the shadow of the program
/// `binary`.
pub fn shadow(stage: &mut Stage, script: &Script, binary: &Path) -> Result<ShadowReport> {
    let start = Instant::now();
    let (run, told) = stage.shadow(script, binary)?;
    let (reads, writes) = stage.audit()?;
    let count = |field: &str, value: &str| told.iter().filter(|line| line[field] == value).count();
    Ok(ShadowReport {
        seed: script.seed,
        steps: script.steps.len(),
        same: count("result", "same"),
        waiting: count("result", "both_waiting"),
        raced: count("result", "raced"),
        tied: count("result", "equal"),
        preemptions: count("preemption", "equal"),
        reads,
        writes,
        objections: differences(&told).chain(missing(script, &run.outcomes, &told)).collect(),
        total: start.elapsed(),
    })
}

/// Describes the results of the shadow that are differences.
fn differences(told: &[Value]) -> impl Iterator<Item = String> {
    told.iter().filter_map(|line| {
        let result = line["result"].as_str().or(line["preemption"].as_str()).unwrap_or("unreadable");
        let agrees = ["same", "both_waiting", "raced", "equal"].contains(&result)
            && line["result"].is_string()
            || line["preemption"] == "equal";
        (!agrees).then(|| format!("{}: {result}: {line}", line["pod"].as_str().unwrap_or_default()))
    })
}

/// Describes the decisions that the shadow has not compared.
fn missing(script: &Script, outcomes: &[Outcomes], told: &[Value]) -> BTreeSet<String> {
    let has_node = |object: &&Value| object["spec"]["nodeName"].is_string();
    let created = script.steps.iter().flat_map(Step::objects).filter(has_node);
    let on_nodes: BTreeSet<&str> = created.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    let decided = |line: &Value| {
        let name = line["pod"].as_str()?.rsplit('/').next()?.to_owned();
        line["result"].is_string().then(|| (name, line["theirs"].as_str().unwrap_or_default().to_owned()))
    };
    let compared: BTreeSet<(String, String)> = told.iter().filter_map(decided).collect();
    let decisions = outcomes.iter().enumerate().flat_map(|(step, outcomes)| {
        let pods = outcomes.pods.iter().filter(|(name, _)| !on_nodes.contains(name.as_str()));
        pods.filter_map(move |(name, outcome)| Some((step, name, decision(outcome)?)))
    });
    let mut missing = BTreeSet::new();
    let mut known = BTreeSet::new();
    for (step, name, node) in decisions {
        let decision = (name.clone(), node.to_owned());
        if !compared.contains(&decision) && known.insert(decision) {
            let place = if node.is_empty() { "no node" } else { node };
            missing.insert(format!("{name}: not compared: kube-scheduler chose {place} in step {step}"));
        }
    }
    missing
}

/// Returns the node that kube-scheduler chose for a pod, which is empty if it left the pod waiting; `None` if it has not
/// decided.
fn decision(outcome: &PodOutcome) -> Option<&str> {
    let is_left = outcome.condition[..2] == ["False", "Unschedulable"];
    (!outcome.node.is_empty() || is_left).then_some(outcome.node.as_str())
}

/// The shadow of a scheduler that is stopped and started again.
#[derive(Debug)]
pub(super) struct Shadow {
    binary: PathBuf,
    running: Option<(Scheduler, PathBuf)>,
    /// Number of starts.
    starts: usize,
    told: Vec<Value>,
}

impl Shadow {
    pub(super) fn new(binary: &Path) -> Self {
        Self { binary: binary.to_owned(), running: None, starts: 0, told: Vec::new() }
    }

    /// Starts a shadow and waits until it compares.
    pub(super) fn start(&mut self, cluster: &Endpoint, options: &StartOptions) -> Result<()> {
        self.starts += 1;
        let file = cluster.directory().join(format!("shadow-{}.jsonl", self.starts));
        let flags = [format!("--decisions={}", file.display())];
        self.running = Some((Scheduler::start_shadow(&self.binary, cluster, options, &flags)?, file));
        Ok(())
    }

    /// Stops the shadow and keeps what it has told.
    pub(super) fn stop(&mut self) -> Result<()> {
        let Some((mut process, file)) = self.running.take() else { return Ok(()) };
        sleep(ARRIVAL);
        process.check()?;
        process.stop()?;
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        for line in text.lines() {
            self.told.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
        Ok(())
    }

    pub(super) fn into_told(self) -> Vec<Value> {
        self.told
    }
}

/// The audit log of an API server.
#[derive(Debug)]
pub(super) struct AuditLog {
    directory: TempDir,
    /// Position up to which the log has been read.
    read: u64,
}

impl AuditLog {
    pub(super) fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}],
        });
        fs::write(directory.path().join("policy.json"), policy.to_string())?;
        Ok(Self { directory, read: 0 })
    }

    /// Flags for the API server.
    pub(super) fn flags(&self) -> Vec<String> {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        vec![
            format!("--audit-policy-file={}", path("policy.json")),
            format!("--audit-log-path={}", path("audit.log")),
        ]
    }

    /// Returns the number of requests of Harbormaster that read since the last call, and its other requests.
    pub(super) fn requests(&mut self) -> Result<(usize, Vec<String>)> {
        let mut file = fs::File::open(self.directory.path().join("audit.log"))?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let mut counted = (0, Vec::new());
        for line in text[..whole].lines() {
            let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let is_own = event["userAgent"].as_str().is_some_and(|agent| agent.starts_with(USER_AGENT));
            match event["verb"].as_str().unwrap_or_default() {
                _ if !is_own => {}
                "get" | "list" | "watch" => counted.0 += 1,
                verb => counted.1.push(format!("the shadow wrote: {verb} {}", event["requestURI"])),
            }
        }
        Ok(counted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn outcomes(pods: &[(&str, &str, &str)]) -> Outcomes {
        let outcome = |(name, node, reason): &(&str, &str, &str)| {
            let status = if node.is_empty() { "False" } else { "True" };
            let condition = [status.to_owned(), (*reason).to_owned(), String::new()];
            ((*name).to_owned(), PodOutcome { node: (*node).to_owned(), condition, ..PodOutcome::default() })
        };
        Outcomes { pods: pods.iter().map(outcome).collect(), resource_claims: BTreeMap::new() }
    }

    #[test]
    fn every_decision_of_the_scheduler_must_be_compared_and_alike() {
        let script = json!({
            "seed": 1, "config": {}, "batching": false, "awaitsBackoff": false,
            "steps": [{"do": "restart", "objects": [{"metadata": {"name": "own"}, "spec": {"nodeName": "n"}}]}],
        });
        let script: Script = serde_json::from_value(script).unwrap();
        let told = [
            json!({"pod": "default/a", "theirs": "n", "ours": "n", "result": "same"}),
            json!({"pod": "default/b", "theirs": null, "ours": null, "result": "both_waiting"}),
            json!({"pod": "default/c", "theirs": "n", "ours": "m", "result": "elsewhere"}),
            json!({"pod": "default/c", "preemption": "equal"}),
            json!({"pod": "default/d", "preemption": "only_ours"}),
        ];
        let found: Vec<String> = differences(&told).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("default/c: elsewhere") && found[1].starts_with("default/d: only_ours"));
        let steps = [
            outcomes(&[("own", "n", ""), ("a", "", "SchedulingGated"), ("b", "", "Unschedulable")]),
            outcomes(&[("a", "n", ""), ("b", "m", ""), ("c", "n", ""), ("d", "", "Unschedulable")]),
        ];
        let missing: Vec<String> = missing(&script, &steps, &told).into_iter().collect();
        let expected = [
            "b: not compared: kube-scheduler chose m in step 1",
            "d: not compared: kube-scheduler chose no node in step 1",
        ];
        assert_eq!(missing, expected);
    }
}
