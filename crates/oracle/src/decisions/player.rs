//! Plays a script to a scheduler.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::POLL;
use super::board::Board;
use super::kubelet::running_status;
use super::outcome::Outcomes;
use super::paths::{collection, everywhere, kinds};
use super::script::{Script, Step, waits_for_others};
use super::settle::settle;
use crate::components::{ApiClient, ControlPlane, ControlPlaneOptions, Error};
use crate::extenders::{self, Asked, Extenders};
use crate::generate::{namespaces, priority_class_name};
use crate::provisioner::Provisioner;
use crate::scheduler::{Contender, Scheduler, StartOptions};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

const PROBE: &str = "zz-probe";

/// Priorities that generated pods may have, as classes.
const PRIORITIES: &[i32] = &[10, -5, 2_000_000];

/// What has a say in what schedulers see.
const CONTROLLERS: &[&str] = &[
    "disruption-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "ephemeral-volume-controller",
];

/// Quiet time after steps whose answer is visible.
const QUIET: Duration = Duration::from_millis(60);

/// Quiet time after steps that may or may not have pods retried.
const QUIET_AFTER_WAKING: Duration = Duration::from_millis(300);

/// After this time a backoff of one second is over: it ends with the first
/// whole second of the clock after the second has passed.
const BACKOFF_OVER: Duration = Duration::from_millis(2100);

/// By then kube-scheduler has noticed that a pod is gone whose volumes it waits for: it looks once a second.
const MISSED: Duration = Duration::from_millis(2100);

/// How long a change may take until a watch shows it.
const ARRIVAL: Duration = Duration::from_secs(60);

/// What a scheduler did with a script.
#[derive(Debug)]
pub struct Play {
    /// The state of all pods after each step.
    pub outcomes: Vec<Outcomes>,
    /// What extenders were asked in each step. How often is left out: it depends
    /// on when a pod is woken whether it is tried once or twice.
    pub asked: Vec<BTreeSet<Asked>>,
    /// Objects that the API server refused.
    pub refused: usize,
    /// From the first step to the last.
    pub elapsed: Duration,
}

/// A real API server on which scripts are played one after the other.
#[derive(Debug)]
pub struct Stage {
    cluster: ControlPlane,
    extenders: Extenders,
}

impl Stage {
    /// Starts the API server and the controllers of budgets and volumes, and
    /// creates the priority classes and the namespaces.
    pub fn start() -> Result<Self> {
        let options = ControlPlaneOptions {
            controller_manager: true,
            controller_manager_flags: vec![format!("--controllers={}", CONTROLLERS.join(","))],
            ..ControlPlaneOptions::default()
        };
        let cluster = ControlPlane::start(&options)?;
        for priority in PRIORITIES {
            for (policy, suffix) in [("PreemptLowerPriority", ""), ("Never", "-never")] {
                let name = priority_class_name(*priority) + suffix;
                let class =
                    json!({"metadata": {"name": name}, "value": priority, "preemptionPolicy": policy});
                cluster.client().post(CLASSES, &class)?;
                wait_for_class(cluster.client(), &name)?;
            }
        }
        for namespace in namespaces() {
            if namespace["metadata"]["name"] != "default" {
                cluster.client().post(NAMESPACES, &namespace)?;
            }
        }
        let extenders = Extenders::start(cluster.client())?;
        Ok(Self { cluster, extenders })
    }

    /// Plays `script` to `contender` on an empty cluster.
    pub fn play(&mut self, script: &Script, contender: &Contender) -> Result<Play> {
        self.clear()?;
        let provisioners = script.drivers.iter().map(|driver| driver.name.clone()).collect();
        let board = Board::new(self.cluster.client(), provisioners)?;
        let _provisioner = Provisioner::start(self.cluster.client(), script.drivers.clone());
        self.extenders.play(&script.extenders);
        let options = StartOptions {
            config: script.config.to_string().replace(extenders::PLACEHOLDER, &self.extenders.url()),
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
            preempts: script.preempts,
            refused: 0,
            settled: Instant::now(),
            let_go: None,
        };
        let mut outcomes = Vec::with_capacity(script.steps.len());
        let mut asked = Vec::with_capacity(script.steps.len());
        for (index, step) in script.steps.iter().enumerate() {
            let creates = matches!(step, Step::Create { .. });
            if script.awaits_backoff && (step.wakes() || creates && player.has_waiting()) {
                player.await_backoff();
            }
            let context = || format!("{}, step {index}: {}", contender.name(), step.summary());
            player.perform(step).with_context(context)?;
            outcomes.push(player.board.outcomes());
            let names = player.board.names();
            let questions = self.extenders.take_asked(&names);
            asked.push(if step.objects().len() > 1 {
                firsts(questions)
            } else {
                questions.into_iter().collect()
            });
        }
        let refused = player.refused;
        if let Some(scheduler) = player.scheduler.take() {
            scheduler.stop()?;
        }
        Ok(Play { outcomes, asked, refused, elapsed: start.elapsed() })
    }

    fn clear(&self) -> Result<()> {
        let client = self.cluster.client();
        for kind in kinds() {
            // A controller may add an event at any time.
            while !remove_all(client, kind)? && kind != "Event" {
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
    /// Whether to play kubelet.
    preempts: bool,
    refused: usize,
    /// When the last step was over.
    settled: Instant,
    /// When a pod went that the scheduler may have had a node for, and waited for volumes with.
    let_go: Option<Instant>,
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
            Step::Sweep { all } => {
                let is_swept =
                    |pod: &Value| pod["spec"]["nodeName"].is_null() && (*all || waits_for_others(pod));
                for pod in self.board.pods(is_swept) {
                    self.remove(&pod)?;
                }
                self.settle(QUIET)
            }
            Step::Reap => {
                // Others that are woken too would take room here and there, and whether a nominated pod with hard spread or
                // affinity constraints is tried again after each of them depends on when their bindings are confirmed.
                let is_other = |pod: &Value| {
                    pod["spec"]["nodeName"].is_null() && pod["status"]["nominatedNodeName"].is_null()
                };
                for pod in self.board.pods(is_other) {
                    self.remove(&pod)?;
                }
                self.settle(QUIET)?;
                for pod in self.board.pods(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
                    self.await_backoff();
                    self.remove(&pod)?;
                    self.settle(QUIET_AFTER_WAKING)?;
                }
                Ok(())
            }
        }
    }

    fn has_waiting(&self) -> bool {
        !self.board.pods(|pod| pod["spec"]["nodeName"].is_null() && waits_for_others(pod)).is_empty()
    }

    fn await_backoff(&self) {
        sleep(BACKOFF_OVER.saturating_sub(self.settled.elapsed()));
    }

    fn remove(&mut self, pod: &str) -> Result<()> {
        self.attempt(true, |client| client.delete(&format!("{pod}?gracePeriodSeconds=0")))
    }

    fn create(&mut self, objects: &[Value]) -> Result<()> {
        let mut last = &Value::Null;
        for object in objects {
            // Which volume the controller chooses for a claim depends on those that it knows; a pod finds what has been chosen.
            let kind = &object["kind"];
            if kind != last && (kind == "PersistentVolumeClaim" || last == "PersistentVolumeClaim") {
                self.await_claims()?;
            }
            last = kind;
            let path = collection(object);
            self.attempt(false, |client| client.post(&path, object))?;
        }
        Ok(())
    }

    /// Waits for the volume controller and the provisioner.
    fn await_claims(&self) -> Result<()> {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            let is_quiet = || self.board.quiet_for() >= QUIET_AFTER_WAKING;
            if is_quiet() && self.board.unfinished_claims().is_none() && is_quiet() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = self.board.unfinished_claims().unwrap_or_else(|| "they never rest".to_owned());
                bail!("claims and volumes are not ready after {ARRIVAL:?}: {why}");
            }
            sleep(POLL);
        }
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
        if deletes && may_wait_for_volumes(&answer) {
            self.let_go = Some(Instant::now());
        }
        Ok(())
    }

    fn probe(&mut self) -> Result<()> {
        // The default scheduler name is that of the first profile.
        let pod = json!({
            "metadata": {"name": PROBE},
            "spec": {
                // Nobody has less, so it preempts nobody.
                "priorityClassName": priority_class_name(-5),
                "containers": [{"name": "c", "image": "x"}],
                "nodeSelector": {"example.com/probe": "fits-nowhere"},
            },
        });
        self.attempt(false, |client| client.post(PODS, &pod))?;
        self.settle(QUIET)?;
        self.remove(&format!("{PODS}/{PROBE}"))?;
        self.settle(QUIET)
    }

    /// Lets the scheduler, and then the kubelets of pods that it has bound, come
    /// to rest.
    fn settle(&mut self, quiet: Duration) -> Result<()> {
        if let Some(at) = self.let_go.take() {
            sleep(MISSED.saturating_sub(at.elapsed()));
        }
        loop {
            let Some(scheduler) = &mut self.scheduler else {
                bail!("the first step must start the scheduler")
            };
            settle(&self.board, scheduler, quiet)?;
            let is_new = |pod: &Value| {
                pod["spec"]["nodeName"].is_string()
                    && pod["status"]["startTime"].is_null()
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            let pods = if self.preempts { self.board.pods(is_new) } else { Vec::new() };
            if pods.is_empty() {
                break;
            }
            for pod in pods {
                let status = running_status(pod.rsplit('/').next().unwrap_or_default());
                let patch = json!({"status": status});
                self.attempt(false, |client| client.strategic_patch(&format!("{pod}/status"), &patch))?;
            }
        }
        self.settled = Instant::now();
        Ok(())
    }
}

/// What each extender is asked first of each pod and verb. Whether a pod of many is tried again, and what it finds
/// then, depends on when the bindings of others are confirmed.
fn firsts(questions: Vec<Asked>) -> BTreeSet<Asked> {
    let mut seen = BTreeSet::new();
    let of_pod = |asked: &Asked| [&asked.extender, &asked.verb, &asked.pod].map(String::clone);
    questions.into_iter().filter(|asked| seen.insert(of_pod(asked))).collect()
}

/// Whether a pod may have been given a node that is not written, because its claims wait for volumes.
fn may_wait_for_volumes(pod: &Value) -> bool {
    let has_claim =
        |volume: &Value| volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object();
    pod["kind"] == "Pod"
        && pod["spec"]["nodeName"].is_null()
        && pod["spec"]["volumes"].as_array().is_some_and(|volumes| volumes.iter().any(has_claim))
}

/// Asks for the end of all objects of `kind`, and tells whether there was none.
fn remove_all(client: &ApiClient, kind: &str) -> Result<bool> {
    let list = client.get(&everywhere(kind))?;
    let mut collections = BTreeSet::new();
    for item in list["items"].as_array().into_iter().flatten() {
        let mut object = item.clone();
        object["kind"] = kind.into();
        // The API server's own service would come back.
        if object["metadata"]["name"] != "kubernetes" {
            collections.insert(collection(&object));
        }
    }
    for collection in &collections {
        // Without a garbage collector nothing else ends a ReplicationController.
        client.delete(&format!("{collection}?gracePeriodSeconds=0&propagationPolicy=Background"))?;
    }
    Ok(collections.is_empty())
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
