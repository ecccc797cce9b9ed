//! Plays a script to a scheduler.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::POLL;
use super::board::Board;
use super::outcome::Outcomes;
use super::script::{Script, Step};
use super::settle::settle;
use crate::components::{ApiClient, ControlPlane, ControlPlaneOptions, Error};
use crate::generate::priority_class_name;
use crate::scheduler::{Contender, Scheduler, StartOptions};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

const PROBE: &str = "zz-probe";

/// Priorities that generated pods may have, as classes.
const PRIORITIES: &[i32] = &[10, -5, 2_000_000];

/// Quiet time after steps whose answer is visible.
const QUIET: Duration = Duration::from_millis(60);

/// Quiet time after steps that may or may not have pods retried.
const QUIET_AFTER_WAKING: Duration = Duration::from_millis(300);

/// After this time a backoff of one second is over: it ends with the first
/// whole second of the clock after the second has passed.
const BACKOFF_OVER: Duration = Duration::from_millis(2100);

/// How long a change may take until a watch shows it.
const ARRIVAL: Duration = Duration::from_secs(30);

/// What a scheduler did with a script.
#[derive(Debug)]
pub struct Play {
    /// The state of all pods after each step.
    pub outcomes: Vec<Outcomes>,
    /// Objects that the API server refused.
    pub refused: usize,
    /// From the first step to the last.
    pub elapsed: Duration,
}

/// A real API server on which scripts are played one after the other.
#[derive(Debug)]
pub struct Stage {
    cluster: ControlPlane,
}

impl Stage {
    /// Starts the API server and creates the priority classes.
    pub fn start() -> Result<Self> {
        let cluster = ControlPlane::start(&ControlPlaneOptions::default())?;
        for priority in PRIORITIES {
            let name = priority_class_name(*priority);
            cluster.client().post(CLASSES, &json!({"metadata": {"name": name}, "value": priority}))?;
            wait_for_class(cluster.client(), &name)?;
        }
        Ok(Self { cluster })
    }

    /// Plays `script` to `contender` on an empty cluster.
    pub fn play(&mut self, script: &Script, contender: &Contender) -> Result<Play> {
        self.clear()?;
        let board = Board::new(self.cluster.client())?;
        let options = StartOptions {
            config: script.config.to_string(),
            feature_gates: vec![format!("OpportunisticBatching={}", script.batching)],
            parity: true,
            metrics: true,
        };
        let start = Instant::now();
        let mut player = Player {
            cluster: &mut self.cluster,
            board,
            contender,
            options,
            scheduler: None,
            refused: 0,
            settled: Instant::now(),
        };
        let mut outcomes = Vec::with_capacity(script.steps.len());
        for (index, step) in script.steps.iter().enumerate() {
            if script.awaits_backoff && step.wakes() {
                sleep(BACKOFF_OVER.saturating_sub(player.settled.elapsed()));
            }
            let context = || format!("{}, step {index}: {}", contender.name(), step.summary());
            player.perform(step).with_context(context)?;
            outcomes.push(player.board.outcomes());
        }
        let refused = player.refused;
        if let Some(scheduler) = player.scheduler.take() {
            scheduler.stop()?;
        }
        Ok(Play { outcomes, refused, elapsed: start.elapsed() })
    }

    fn clear(&self) -> Result<()> {
        let client = self.cluster.client();
        for path in [PODS, NODES, EVENTS] {
            client.delete(&format!("{path}?gracePeriodSeconds=0"))?;
            while !client.get(&format!("{path}?limit=1"))?["items"].as_array().is_some_and(Vec::is_empty) {
                sleep(POLL);
            }
        }
        Ok(())
    }
}

struct Player<'a> {
    cluster: &'a mut ControlPlane,
    board: Board,
    contender: &'a Contender,
    options: StartOptions,
    scheduler: Option<Scheduler>,
    refused: usize,
    /// When the last step was over.
    settled: Instant,
}

impl Player<'_> {
    fn perform(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Restart { objects } => {
                if let Some(scheduler) = self.scheduler.take() {
                    scheduler.stop()?;
                }
                self.create(objects)?;
                self.scheduler = Some(Scheduler::start(self.contender, self.cluster, &self.options)?);
                self.settle(QUIET_AFTER_WAKING)?;
                // A scheduler without new pods shows by this that it works.
                self.probe()
            }
            Step::Create { objects } => {
                self.create(objects)?;
                self.settle(if step.wakes() { QUIET_AFTER_WAKING } else { QUIET })
            }
            Step::Patch { path, patch } => {
                self.attempt(false, |client| client.merge_patch(path, patch))?;
                self.settle(QUIET_AFTER_WAKING)
            }
            Step::Delete { path } => {
                self.attempt(true, |client| client.delete(path))?;
                self.settle(QUIET_AFTER_WAKING)
            }
            Step::Probe => self.probe(),
        }
    }

    fn create(&mut self, objects: &[Value]) -> Result<()> {
        for object in objects {
            let path = if object["kind"] == "Node" { NODES } else { PODS };
            self.attempt(false, |client| client.post(path, object))?;
        }
        Ok(())
    }

    /// Makes a change and waits until watchers see it. A refusal is part of the
    /// play: it is the same for every scheduler.
    fn attempt(&mut self, deletes: bool, call: impl Fn(&ApiClient) -> Result<Value, Error>) -> Result<()> {
        let answer = match call(self.cluster.client()) {
            Err(Error::Refused { status: 400..500, .. }) => {
                self.refused += 1;
                return Ok(());
            }
            answer => answer?,
        };
        // A bound pod that is deleted with grace stays, as nothing plays its kubelet.
        let is_removed =
            deletes && answer["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) == 0;
        let deadline = Instant::now() + ARRIVAL;
        while !self.board.has_seen(&answer, is_removed) {
            if Instant::now() >= deadline {
                bail!("the watch has not shown the change within {ARRIVAL:?}: {answer}");
            }
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn probe(&mut self) -> Result<()> {
        // The default scheduler name is that of the first profile.
        let pod = json!({
            "metadata": {"name": PROBE},
            "spec": {
                "containers": [{"name": "c", "image": "x"}],
                "nodeSelector": {"example.com/probe": "fits-nowhere"},
            },
        });
        self.attempt(false, |client| client.post(PODS, &pod))?;
        self.settle(QUIET)?;
        self.attempt(true, |client| client.delete(&format!("{PODS}/{PROBE}?gracePeriodSeconds=0")))?;
        self.settle(QUIET)
    }

    fn settle(&mut self, quiet: Duration) -> Result<()> {
        let Some(scheduler) = &mut self.scheduler else { bail!("the first step must start the scheduler") };
        settle(&self.board, scheduler, quiet)?;
        self.settled = Instant::now();
        Ok(())
    }
}

/// Admission knows a class a moment after its creation.
fn wait_for_class(client: &ApiClient, name: &str) -> Result<()> {
    let pod = json!({
        "metadata": {"name": "class"},
        "spec": {"priorityClassName": name, "containers": [{"name": "c", "image": "x"}]},
    });
    for _ in 0..1000 {
        match client.post(&format!("{PODS}?dryRun=All"), &pod) {
            Err(Error::Refused { status: 403, .. }) => sleep(POLL),
            result => return Ok(result.map(drop)?),
        }
    }
    bail!("admission does not know the priority class {name}")
}
