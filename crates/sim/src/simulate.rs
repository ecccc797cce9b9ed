//! Runs the engine under virtual time. Pods are bound and evicted immediately, and time passes only while waiting
//! may change something.

mod checkpoint;
mod copies;
mod devices;
mod groups;
mod leaving;
mod rehearsal;
mod storage;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(crate) use copies::Copies;
use harbormaster_api::{
    Pod, Str, Timestamp,
    pod::{PodCondition, PodStatus},
};
use harbormaster_core::{
    BindOutcome, Effect, Engine, EngineConfig, EvictOutcome, EvictTask, Input, Outcome, StatusPatch,
};
use harbormaster_framework::{pod::PodInfo, profile::Profile};
use harbormaster_world::volumes::Volumes;
pub(crate) use leaving::Leaving;
pub(crate) use rehearsal::{Gang, Rehearsal, Scene, Settled, never_preempting};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::{
    explain::Judge,
    explanation::PodExplanation,
    inventory::Inventory,
    report::{PodReport, Report, Turn},
    verdict::pre_enqueue,
};

/// Start of the simulation, 2026-01-01T00:00:00Z; the value is arbitrary.
const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

/// Time between two inputs, so that pods of equal priority are tried in the order of the manifests.
const STEP: Duration = Duration::from_micros(1);

/// Number of attempts, with no pod placed or evicted in between, after which a pod is expected to fail again.
const MAX_FRUITLESS: u32 = 3;

/// Places the pending pods one after another, as the only scheduler of the cluster would.
///
/// Calls `progress` regularly, between attempts, with the number of placed pods and the number of pods that were
/// pending at the start.
pub fn simulate(config: EngineConfig, cluster: Inventory, progress: &mut dyn FnMut(usize, usize)) -> Report {
    let mut world = SimulatedCluster::new(config, cluster, None);
    world.run(progress);
    world.report()
}

/// Simulates like [`simulate`]. Also returns the cluster at the end.
pub(crate) fn simulate_for_questions(
    config: EngineConfig,
    cluster: Inventory,
    progress: &mut dyn FnMut(usize, usize),
) -> (Report, Settled) {
    let mut world = SimulatedCluster::new(config, cluster, None);
    world.run(progress);
    (world.report(), Settled::from(world))
}

/// Explains the last attempt of each pod in `report` that was tried and that `concerns` selects, with the plugins'
/// verdicts on every node at that time. `report` must be the result of [`simulate`] for the same cluster.
///
/// Runs the simulation again, with the same decisions, until the last of these attempts. To limit memory use, `tell`
/// gets the explanations one by one.
pub fn explain_simulated(
    config: EngineConfig,
    cluster: Inventory,
    report: &Report,
    concerns: &dyn Fn(&PodReport) -> bool,
    tell: &mut dyn FnMut(&PodReport, PodExplanation),
) {
    let pending = cluster.pending.iter().map(|pod| pod.uid.clone()).zip(&report.pods);
    let open = pending.filter(|(_, report)| report.attempts > 0 && concerns(report)).collect();
    let explainer = Explainer { judge: Judge::new(&config), open, tell };
    SimulatedCluster::new(config, cluster, Some(explainer)).run(&mut |_, _| {});
}

/// Collects verdicts before a pod's last attempt changes the cluster.
struct Explainer<'a> {
    /// The cluster as it was before the attempt.
    judge: Judge,
    /// Pods that have not been explained yet, by UID.
    open: FxHashMap<Str, &'a PodReport>,
    tell: &'a mut dyn FnMut(&PodReport, PodExplanation),
}

impl Explainer<'_> {
    fn tried(&mut self, pod: &Arc<PodInfo>, attempts: u32) {
        let is_last = self.open.get(&pod.uid).is_some_and(|report| report.attempts == attempts);
        if is_last
            && let Some(report) = self.open.remove(&pod.uid)
            && let Some(said) = self.judge.explain(pod)
        {
            (self.tell)(report, said);
        }
    }

    fn place(&mut self, pod: &Pod) {
        if let Some(node) = &pod.node_name {
            let info = self.judge.cache.info(pod.clone());
            self.judge.cache.set_pod(info, node);
        }
    }
}

/// The engine and the objects that the API server would hold.
struct SimulatedCluster<'a> {
    engine: Engine,
    profiles: Vec<Arc<Profile>>,
    explainer: Option<Explainer<'a>>,
    now: Timestamp,
    reports: FxHashMap<Str, PodReport>,
    /// UIDs of pending pods in the order of the manifests.
    order: Vec<Str>,
    /// Pods that had a node in the manifests and lost it.
    evicted: Vec<PodReport>,
    objects: FxHashMap<Str, Pod>,
    /// State of the volume controllers and provisioners.
    volumes: Volumes,
    /// Resource claims, by namespace and name.
    claims: BTreeMap<(String, String), Value>,
    version: u64,
    /// For each pod, the number of attempts since any pod was last placed or evicted.
    fruitless: FxHashMap<Str, u32>,
    placed: usize,
    attempts: usize,
    course: Vec<Turn>,
    missing_nodes: BTreeMap<String, usize>,
}

impl<'a> SimulatedCluster<'a> {
    fn new(config: EngineConfig, cluster: Inventory, explainer: Option<Explainer<'a>>) -> Self {
        let mut world = Self {
            explainer,
            engine: Engine::new(config.clone()),
            profiles: config.profiles.clone(),
            now: START,
            reports: FxHashMap::default(),
            order: Vec::new(),
            evicted: Vec::new(),
            objects: FxHashMap::default(),
            volumes: Volumes::default(),
            claims: BTreeMap::new(),
            version: 0,
            fruitless: FxHashMap::default(),
            placed: 0,
            attempts: 0,
            course: Vec::new(),
            missing_nodes: cluster.missing_nodes.clone(),
        };
        world.load(&config, cluster);
        world
    }

    fn load(&mut self, config: &EngineConfig, cluster: Inventory) {
        for object in cluster.raw_objects(&config.resources()) {
            if let Some(explainer) = &mut self.explainer {
                explainer.judge.cache.cluster.set_custom(&object);
            }
            self.input(Input::Custom(object));
        }
        self.claims = devices::claims_of(&cluster);
        self.volumes = cluster.volumes;
        for object in cluster.objects {
            if let Some(explainer) = &mut self.explainer {
                explainer.judge.cache.set_object(object.clone());
            }
            self.input(Input::Object(object));
        }
        for node in cluster.nodes {
            if let Some(explainer) = &mut self.explainer {
                explainer.judge.cache.set_node(Arc::new(node.clone()));
            }
            self.input(Input::Node(node));
        }
        for pod in cluster.bound {
            self.place_for_explanations(&pod);
            self.input(Input::Pod(pod));
        }
        for pod in cluster.pending {
            self.order.push(pod.uid.clone());
            let info = PodInfo::standalone(pod.clone());
            let mut report = PodReport::of(&info);
            match config.profiles.iter().find(|p| *p.name() == pod.spec.scheduler_name) {
                Some(profile) => {
                    let objects = self.engine.cache().cluster.objects();
                    report.pre_enqueue = pre_enqueue(profile, objects, &info, None);
                }
                None => report.mark_foreign(),
            }
            if let Some(status) = &report.pre_enqueue {
                report.message = Some(status.text());
            }
            self.reports.insert(pod.uid.clone(), report);
            self.objects.insert(pod.uid.clone(), pod.clone());
            self.input(Input::Pod(pod));
        }
        self.note_groups();
    }

    fn input(&mut self, input: Input) {
        self.now = self.now + STEP;
        self.engine.handle(input, self.now);
    }

    fn run(&mut self, progress: &mut dyn FnMut(usize, usize)) {
        loop {
            let hope = self.try_all(progress);
            let lengths = self.engine.queue_lengths();
            // Waiting pods need events. In a simulation, only the placement and eviction of other pods cause events.
            let moving = lengths.backoff > 0 || self.engine.bindings_in_progress() > 0;
            let goes_on = moving && hope && self.is_of_interest();
            let Some(wakeup) = self.engine.next_wakeup().filter(|_| goes_on) else { return };
            self.now = wakeup.max(self.now + STEP);
            self.engine.tick(self.now);
            self.carry_out();
        }
    }

    /// Tries pods until none is ready. Returns false if no further attempts are needed: every pod that was tried has
    /// failed too often, or all explanations are complete.
    fn try_all(&mut self, progress: &mut dyn FnMut(usize, usize)) -> bool {
        let (mut tried, mut hope) = (false, false);
        loop {
            if !self.is_of_interest() {
                return false;
            }
            self.now = self.now + STEP;
            let Some(attempted) = self.engine.schedule_one(self.now) else { return hope || !tried };
            tried = true;
            let uids: Vec<Str> = attempted.all().map(|(pod, _)| pod.uid.clone()).collect();
            attempted.all().for_each(|(pod, outcome)| self.note(pod, outcome));
            self.carry_out();
            let tries = |uid: &Str| self.fruitless.get(uid).copied().unwrap_or(0);
            let failed = uids.iter().map(tries).min().unwrap_or(0);
            hope |= failed < MAX_FRUITLESS;
            if failed > MAX_FRUITLESS {
                // The queue hands out pods before their backoff ends if nothing else is ready.
                return hope;
            }
            progress(self.placed, self.order.len());
        }
    }

    fn note(&mut self, pod: &Arc<PodInfo>, outcome: &Outcome) {
        let Some(report) = self.reports.get_mut(&pod.uid) else { return };
        report.attempts += 1;
        self.attempts += 1;
        // Attempts that found a node also count, since the pod may lose the node before it is bound.
        *self.fruitless.entry(pod.uid.clone()).or_default() += 1;
        match outcome {
            Outcome::Assumed { evaluated, feasible, .. } => report.looked_at = Some((*evaluated, *feasible)),
            Outcome::NoNodes | Outcome::Unschedulable(_) | Outcome::Error(_) => {
                report.looked_at = None;
                report.message = outcome.message().map(without_echo);
            }
            // A simulation waits for extenders.
            Outcome::Asking => return,
            Outcome::Skipped => {
                report.message = Some(format!("skip schedule deleting pod: {}", pod.full_name()));
                return;
            }
        }
        if let Some(explainer) = &mut self.explainer {
            explainer.tried(pod, report.attempts);
        }
    }

    fn carry_out(&mut self) {
        loop {
            // Errors of hints and indexes are not part of the report.
            drop(self.engine.take_notes());
            let effects = self.engine.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Bind(task) => {
                        self.give_volumes(&task);
                        self.give_devices(&task);
                        self.bind(&task.pod().uid, task.node());
                    }
                    Effect::PatchStatus(patch) => self.patch(patch),
                    Effect::Evict(task) => self.evict(task),
                    Effect::Call(task) => self.take_unused_devices(&task),
                    // Nothing is written, so there is nothing to call off.
                    Effect::CallOff(_) | Effect::Event(_) | Effect::Group(_) | Effect::Ask(_) => {}
                }
            }
        }
    }

    fn bind(&mut self, uid: &Str, node: &Str) {
        self.input(Input::BindFinished { uid: uid.clone(), outcome: BindOutcome::Bound });
        if let Some(report) = self.reports.get_mut(uid) {
            report.node = Some(node.as_str().to_owned());
            report.message = None;
            let pod = report.pod.clone();
            self.course.push(Turn { attempts: self.attempts, pod, is_placed: true });
        }
        self.placed += 1;
        self.fruitless.clear();
        let Some(mut pod) = self.objects.get(uid).cloned() else { return };
        pod.node_name = Some(node.clone());
        self.place_for_explanations(&pod);
        self.publish(pod);
    }

    /// Removes a victim. No controller replaces it.
    fn evict(&mut self, task: EvictTask) {
        let (victim, uid) = (task.victim.clone(), task.victim.uid.clone());
        let preemptor = self.name_of_preemptor(&task.preemptor);
        self.course.push(Turn { attempts: self.attempts, pod: victim.full_name(), is_placed: false });
        if let Some(report) = self.reports.get_mut(&task.preemptor) {
            report.victims.push(victim.full_name());
        }
        match self.reports.get_mut(&uid) {
            Some(report) => {
                self.placed -= usize::from(report.node.is_some());
                report.preempted(&victim, preemptor);
            }
            None => {
                let mut report = PodReport::of(&victim);
                report.preempted(&victim, preemptor);
                self.evicted.push(report);
            }
        }
        self.objects.remove(&uid);
        self.take_volumes(&victim);
        self.take_devices(&victim);
        if let Some(explainer) = &mut self.explainer {
            explainer.judge.cache.remove(&uid);
        }
        self.fruitless.clear();
        self.input(Input::EvictFinished { task, outcome: EvictOutcome::Evicted });
        self.input(Input::PodGone(uid));
    }

    fn patch(&mut self, patch: StatusPatch) {
        let Some(mut pod) = self.objects.get(&patch.pod.uid).cloned() else { return };
        if let Some(condition) = patch.condition {
            if let Some(report) =
                self.reports.get_mut(&patch.pod.uid).filter(|report| report.lacks_its_binding())
            {
                report.message = Some(condition.message.clone());
            }
            let condition = PodCondition {
                type_: "PodScheduled".into(),
                status: "False".into(),
                reason: condition.reason.into(),
                message: condition.message.into(),
                last_transition: Some(condition.last_transition),
            };
            set_condition(&mut pod.status, condition);
        }
        if let Some(nominated) = patch.nominated_node {
            pod.status.nominated_node_name = nominated;
        }
        self.publish(pod);
    }

    /// Stores a new version of the pod and passes it to the engine.
    fn publish(&mut self, mut pod: Pod) {
        self.version += 1;
        pod.resource_version = self.version.to_string().into();
        self.objects.insert(pod.uid.clone(), pod.clone());
        self.input(Input::Pod(pod));
    }

    fn place_for_explanations(&mut self, pod: &Pod) {
        if let Some(explainer) = &mut self.explainer {
            explainer.place(pod);
        }
    }

    /// Returns true unless the simulation runs only for explanations and all of them are complete.
    fn is_of_interest(&self) -> bool {
        self.explainer.as_ref().is_none_or(|explainer| !explainer.open.is_empty())
    }

    /// Returns the results, and forgets them.
    fn report(&mut self) -> Report {
        self.explain_untried_members();
        for report in self.reports.values_mut().filter(|report| report.lacks_its_binding()) {
            report.looked_at = None;
        }
        let pending = self.order.iter().filter_map(|uid| self.reports.remove(uid));
        let pods = pending.chain(std::mem::take(&mut self.evicted)).collect();
        let (missing_nodes, course) =
            (std::mem::take(&mut self.missing_nodes), std::mem::take(&mut self.course));
        Report { pods, missing_nodes, course }
    }

    /// Removes the pods that wait.
    fn dismiss_waiting(&mut self) {
        let waiting = self.objects.values().filter(|pod| pod.node_name.is_none());
        let waiting: Vec<Str> = waiting.map(|pod| pod.uid.clone()).collect();
        for uid in waiting {
            self.objects.remove(&uid);
            self.input(Input::PodGone(uid));
        }
    }
}

/// Removes the suffix that kube-scheduler appends to a PreFilter plugin's reason if a later plugin does not find its
/// own PreFilter state.
fn without_echo(message: String) -> String {
    match message.strip_suffix(" not found") {
        Some(rest) if rest.ends_with('.') => rest.to_owned(),
        _ => message,
    }
}

fn set_condition(status: &mut PodStatus, condition: PodCondition) {
    match status.conditions.iter_mut().find(|c| c.type_ == condition.type_) {
        Some(known) => *known = condition,
        None => status.conditions.push(condition),
    }
}
