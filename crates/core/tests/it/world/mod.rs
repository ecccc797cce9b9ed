//! A host for the engine in tests. It keeps a clock, collects the effects, and records every call.

pub(crate) mod faults;
pub(crate) mod steps;

use std::{sync::Arc, time::Duration};

use harbormaster_api::{
    Node, Pod, PodSpec, Release, Resources, Timestamp,
    features::Features,
    pod::{Container, PodCondition},
};
use harbormaster_core::{
    AskTask, Attempted, BindOutcome, BindTask, Effect, EngineConfig, EvictOutcome, EvictTask, Input,
    recording::{Lines, Recorder},
};
use harbormaster_framework::{
    api_call::{Api, ObjectPath},
    cycle::BindCycle,
    outcome::{Permitted, Reject, Stop},
    profile::Profile,
    registry::Registry,
    resource::{RawObject, Resource},
};
use harbormaster_testkit::trial::finished;
use serde_json::Value;

/// An engine and its host.
pub(crate) struct World {
    pub(crate) engine: Recorder<Lines<Vec<u8>>>,
    pub(crate) now: Timestamp,
    effects: Vec<Effect>,
    pods: Vec<Pod>,
}

pub(crate) fn profile() -> Arc<Profile> {
    profile_with(|_| Vec::new())
}

/// Creates a profile with the row-scoped in-tree plugins and the plugins that `add` registers. `add` returns the
/// plugins that it registered, with their points.
pub(crate) fn profile_with(
    add: impl FnOnce(&mut Registry) -> Vec<(&'static str, &'static str)>,
) -> Arc<Profile> {
    profile_for(Release::V1_36, add)
}

/// Like [`profile_with`], for a release of Kubernetes.
pub(crate) fn profile_for(
    release: Release,
    add: impl FnOnce(&mut Registry) -> Vec<(&'static str, &'static str)>,
) -> Arc<Profile> {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let more = add(&mut registry);
    let filters = [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeDeclaredFeatures",
    ];
    let scores = [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ];
    let mut points: Vec<(&str, &[&str])> = vec![
        ("PreEnqueue", &["SchedulingGates"]),
        ("QueueSort", &["PrioritySort"]),
        ("PreFilter", &filters[3..]),
        ("Filter", &filters),
        ("PreScore", &scores[..4]),
        ("Score", &scores),
        ("Bind", &["DefaultBinder"]),
    ];
    points.extend(more.iter().map(|(point, plugin)| (*point, std::slice::from_ref(plugin))));
    harbormaster_testkit::profile_for(Features::of(release), &registry, &points, &[])
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(EngineConfig::new(vec![profile()]))
    }

    pub(crate) fn with(config: EngineConfig) -> Self {
        let now = Timestamp::from_secs(1_000_000_000);
        Self { engine: Recorder::writing(config, Vec::new()), now, effects: Vec::new(), pods: Vec::new() }
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.now.0 += 1_000_000;
        self.engine.handle(input, self.now);
        self.effects.extend(self.engine.take_effects());
    }

    pub(crate) fn reconfigure(&mut self, config: EngineConfig) {
        self.now.0 += 1_000_000;
        self.engine.reconfigure(config, self.now);
        self.effects.extend(self.engine.take_effects());
    }

    /// Adds or replaces a custom object.
    pub(crate) fn tell<R: Resource>(&mut self, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = ObjectPath::of::<R>(text("namespace"), text("name")).key();
        self.input(Input::Custom(RawObject::from_json(key, object.to_string())));
    }

    pub(crate) fn set_node(&mut self, node: Node) {
        self.input(Input::Node(node));
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        self.input(Input::NodeGone(name.into()));
    }

    pub(crate) fn add_pod(&mut self, pod: Pod) {
        self.pods.retain(|p| p.uid != pod.uid);
        self.pods.push(pod.clone());
        self.input(Input::Pod(pod));
    }

    pub(crate) fn add_bound_pod(&mut self, mut pod: Pod, node: &str) {
        pod.node_name = Some(node.into());
        self.add_pod(pod);
    }

    pub(crate) fn remove_pod(&mut self, name: &str) {
        self.pods.retain(|pod| pod.name != name);
        self.input(Input::PodGone(name.into()));
    }

    /// Returns the latest versions of the pods sent to the engine, except deleted pods.
    pub(crate) fn pods(&self) -> &[Pod] {
        &self.pods
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        let nodes = self.engine.cache().cluster.nodes().nodes();
        nodes.filter_map(|node| node.object().map(|node| Node::clone(node))).collect()
    }

    pub(crate) fn bind_finished(&mut self, name: &str, outcome: BindOutcome) {
        self.input(Input::BindFinished { uid: name.into(), outcome });
    }

    pub(crate) fn evict_finished(&mut self, task: EvictTask, outcome: EvictOutcome) {
        self.input(Input::EvictFinished { task, outcome });
    }

    /// Stores the condition in the pod and sends the updated pod to the engine, as the API server would.
    pub(crate) fn record_condition(&mut self, name: &str, reason: &str, message: &str) {
        let mut pod = self.pods.iter().find(|p| p.name == name).unwrap().clone();
        pod.resource_version = format!("{}", self.now.0).into();
        pod.status.conditions = vec![PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: reason.into(),
            message: message.into(),
            last_transition: Some(self.now),
        }];
        self.add_pod(pod);
    }

    /// Takes all requested bindings that have not been taken yet, and returns the last one.
    pub(crate) fn binding(&mut self) -> BindTask {
        let tasks = self.drain(|effect| match effect {
            Effect::Bind(task) => Some(task.clone()),
            _ => None,
        });
        tasks.into_iter().last().unwrap()
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.engine.next_wakeup().filter(|at| *at > self.now).map_or(end, |at| at.min(end));
            self.engine.tick(self.now);
        }
    }

    pub(crate) fn attempt(&mut self) -> Option<Attempted> {
        self.now.0 += 1_000_000;
        let attempted = self.engine.schedule_one(self.now);
        self.effects.extend(self.engine.take_effects());
        attempted
    }

    /// Makes an attempt that takes `time`.
    pub(crate) fn attempt_for(&mut self, time: Duration) -> Option<Attempted> {
        self.now.0 += 1_000_000;
        let (mut next, end) = (self.now, self.now + time);
        let attempted = self.engine.schedule_one_by(&mut || std::mem::replace(&mut next, end));
        self.now = end;
        self.effects.extend(self.engine.take_effects());
        attempted
    }

    /// Takes the pods and nodes of the requested bindings that have not been taken yet.
    pub(crate) fn bindings(&mut self) -> Vec<(String, String)> {
        self.drain(|e| match e {
            Effect::Bind(task) => Some((task.pod().name.to_string(), task.node().to_string())),
            _ => None,
        })
    }

    /// Takes the UIDs and nodes of the requested bindings that have not been taken yet.
    pub(crate) fn binding_uids(&mut self) -> Vec<(String, String)> {
        self.drain(|e| match e {
            Effect::Bind(task) => Some((task.pod().uid.to_string(), task.node().to_string())),
            _ => None,
        })
    }

    /// Takes the requested evictions that have not been taken yet.
    pub(crate) fn evictions(&mut self) -> Vec<EvictTask> {
        self.drain(|e| match e {
            Effect::Evict(task) => Some(task.clone()),
            _ => None,
        })
    }

    /// Takes the questions to extenders that have not been taken yet.
    pub(crate) fn questions(&mut self) -> Vec<AskTask> {
        self.drain(|e| match e {
            Effect::Ask(task) => Some(task.clone()),
            _ => None,
        })
    }

    /// Takes the pods whose nominated node was patched, with the new values.
    pub(crate) fn nominations(&mut self) -> Vec<(String, Option<String>)> {
        self.drain(|e| match e {
            Effect::PatchStatus(patch) => {
                let node = patch.nominated_node.clone()?;
                Some((patch.pod.name.to_string(), node.map(|n| n.to_string())))
            }
            _ => None,
        })
    }

    /// Takes the remaining effects.
    pub(crate) fn all_effects(&mut self) -> Vec<Effect> {
        self.drain(|e| Some(e.clone()))
    }

    /// Adds effects, as if they had not been taken.
    pub(crate) fn put_back(&mut self, effects: Vec<Effect>) {
        self.effects.extend(effects);
    }

    pub(crate) fn events(&mut self) -> Vec<String> {
        self.drain(|e| match e {
            Effect::Event(e) => {
                let kind = if e.warning { "Warning" } else { "Normal" };
                Some(format!("{kind} {} {}: {}", e.reason, e.action, e.note))
            }
            _ => None,
        })
    }

    pub(crate) fn conditions(&mut self) -> Vec<String> {
        self.drain(|e| match e {
            Effect::PatchStatus(patch) => {
                let condition = patch.condition.as_ref()?;
                Some(format!("{} {}: {}", patch.pod.name, condition.reason, condition.message))
            }
            _ => None,
        })
    }

    fn drain<T>(&mut self, pick: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let (mut picked, mut rest) = (Vec::new(), Vec::new());
        for effect in self.effects.drain(..) {
            match pick(&effect) {
                Some(one) => picked.push(one),
                None => rest.push(effect),
            }
        }
        self.effects = rest;
        picked
    }
}

/// Asks extenders and returns their answer.
pub(crate) fn answer_to(task: &AskTask) -> Input {
    let (sender, answer) = std::sync::mpsc::channel();
    let done = move |answer| sender.send(answer).unwrap();
    task.client.begin(&task.pod, task.question.clone(), Box::new(done));
    Input::Answered { number: task.number, answer: answer.recv().unwrap() }
}

/// Runs the PreBind plugins of a binding.
pub(crate) fn pre_bind(task: &BindTask, api: &Api) -> Result<(), String> {
    task.pre_bind.iter().flatten().try_for_each(|plugin| {
        let cx = BindCycle { placement: task.reservation.of(*plugin), api: api.clone() };
        finished(task.profile.plugin(*plugin).pre_bind(&cx)).map_err(|why| why.to_string())
    })
}

pub(crate) fn node(name: &str, milli_cpu: i64) -> Node {
    let allocatable = Resources { milli_cpu, memory: 32 << 30, pods: 110, ..Resources::default() };
    Node { name: name.into(), allocatable, ..Node::default() }
}

pub(crate) fn pod(name: &str, milli_cpu: i64) -> Pod {
    let container = Container {
        name: "c".into(),
        image: "app:v1".into(),
        requests: vec![("cpu".into(), milli_cpu)],
        ..Container::default()
    };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        containers: vec![container],
        ..PodSpec::default()
    };
    Pod {
        uid: name.into(),
        namespace: "default".into(),
        name: name.into(),
        spec: Arc::new(spec),
        ..Pod::default()
    }
}

pub(crate) fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    Arc::make_mut(&mut pod.spec).priority = priority;
    pod
}

pub(crate) fn with_scheduler(mut pod: Pod, name: &str) -> Pod {
    Arc::make_mut(&mut pod.spec).scheduler_name = name.into();
    pod
}

/// Permit for tests: rejects the pod named `unwelcome`, and delays the pod named `patient` for up to five seconds.
pub(crate) fn permit_by_name(pod: &str, unwelcome: &str, patient: &str) -> Result<Permitted, Stop> {
    match pod {
        _ if pod == unwelcome => Err(Reject::evictable("go away").into()),
        _ if pod == patient => Ok(Permitted::Wait(Duration::from_secs(5))),
        _ => Ok(Permitted::Allow),
    }
}
