//! The API server, its controllers and the host of an engine, and a naive account of the devices in use.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{Pod, Str, pod::PodClaim};
use harbormaster_core::{BindOutcome, BindTask, Effect, EngineConfig, Input, Outcome};
use harbormaster_framework::{
    api_call::{ApiCall, ObjectPath},
    prelude::*,
};
use harbormaster_plugins::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use harbormaster_testkit::{FakeApi, trial::finished};
use serde_json::{Value, json};

use crate::world::{
    World,
    faults::{Fault, FaultyApi},
    node, pod, pre_bind,
};

pub(super) const DRIVER: &str = "gpu.example.com";
pub(super) const NODES: [&str; 2] = ["n0", "n1"];
/// Pool of the devices that every node can reach.
pub(super) const NETWORK: &str = "net";
const GPU: &str = "example.com/gpu";
/// Pod that Permit rejects.
pub(super) const UNWELCOME: &str = "p0";
/// Pod that Permit delays until its timeout.
pub(super) const PATIENT: &str = "p1";

/// Devices as `pool/name`.
pub(super) type Devices = BTreeSet<String>;

/// A binding cycle.
pub(super) struct Binding {
    task: BindTask,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    PreBound,
    /// The API server has bound the pod, but the engine has not been told that the binding ended.
    Bound,
    Failed,
}

/// The cluster outside the engine. Changes to claims reach the engine late; changes to other objects, except for
/// bindings of pods, reach it at once.
pub(super) struct Model {
    pub(super) world: World,
    config: fn() -> EngineConfig,
    server: FakeApi,
    pub(super) pods: BTreeMap<String, Pod>,
    slices: BTreeMap<String, Value>,
    nodes: BTreeSet<String>,
    pub(super) bindings: Vec<Binding>,
    /// Bindings of killed schedulers that may still write.
    late: Vec<Binding>,
    /// Requests of plugins for pods that gave up their nodes.
    calls: VecDeque<ApiCall>,
    /// Claims by name, as the engine knows them.
    seen: BTreeMap<String, Value>,
    /// Versions of claims that the engine has not seen; `None` for a claim that is gone.
    news: VecDeque<(String, Option<Value>)>,
    /// Devices that were chosen but that the engine has not seen in a claim yet, by UID of the pod and name of the
    /// claim. The name is empty for extended resources.
    chosen: BTreeMap<(String, String), Devices>,
    /// False once the host has reported the end of a binding before the engine saw what the binding wrote, or a write of
    /// a killed scheduler has arrived late. From then on, a device may belong to two claims.
    pub(super) is_orderly: bool,
    incarnation: u32,
}

impl Model {
    pub(super) fn new(config: fn() -> EngineConfig) -> Self {
        let mut model = Self {
            world: World::with(config()),
            config,
            server: FakeApi::default(),
            pods: BTreeMap::new(),
            slices: BTreeMap::new(),
            nodes: BTreeSet::new(),
            bindings: Vec::new(),
            late: Vec::new(),
            calls: VecDeque::new(),
            seen: BTreeMap::new(),
            news: VecDeque::new(),
            chosen: BTreeMap::new(),
            is_orderly: true,
            incarnation: 0,
        };
        model.create_classes();
        NODES.iter().for_each(|name| model.node_comes(name));
        NODES.iter().for_each(|pool| model.slice_comes(pool, 2, true));
        model
    }

    fn create_classes(&mut self) {
        for (name, spec) in [("gpu", json!({})), ("provider", json!({"extendedResourceName": GPU}))] {
            self.world.tell::<DeviceClass>(&json!({"metadata": {"name": name}, "spec": spec}));
        }
    }

    fn next(&mut self) -> u32 {
        self.incarnation += 1;
        self.incarnation
    }

    pub(super) fn node_comes(&mut self, name: &str) {
        self.nodes.insert(name.to_owned());
        self.world.set_node(node(name, 4000));
    }

    pub(super) fn node_goes(&mut self, name: &str) {
        self.nodes.remove(name);
        self.world.remove_node(name);
    }

    /// Creates or replaces the only slice of a pool. A pool that is incomplete lacks another slice.
    pub(super) fn slice_comes(&mut self, pool: &str, devices: u8, is_complete: bool) {
        let (generation, count) = (self.next(), if is_complete { 1 } else { 2 });
        let devices: Vec<_> = (0..devices).map(|at| json!({"name": format!("d{at}")})).collect();
        let mut spec = json!({
            "driver": DRIVER, "devices": devices,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        });
        match pool {
            NETWORK => spec["allNodes"] = true.into(),
            _ => spec["nodeName"] = pool.into(),
        }
        let slice = json!({"metadata": {"name": pool}, "spec": spec});
        self.world.tell::<ResourceSlice>(&slice);
        self.slices.insert(pool.to_owned(), slice);
    }

    pub(super) fn slice_goes(&mut self, pool: &str) {
        if self.slices.remove(pool).is_some() {
            self.world.input(Input::CustomGone(ObjectPath::of::<ResourceSlice>("", pool).key()));
        }
    }

    /// Creates a pod that uses claims, or that wants an extended resource.
    pub(super) fn pod_comes(&mut self, name: &str, claims: &[String], extended: i64) {
        if self.pods.contains_key(name) {
            return;
        }
        let mut new = pod(name, 1);
        new.uid = format!("{name}-{}", self.next()).into();
        let spec = Arc::make_mut(&mut new.spec);
        let entry = |name: &String| PodClaim {
            name: name.as_str().into(),
            claim: Some(name.as_str().into()),
            template: None,
        };
        spec.resource_claims = claims.iter().map(entry).collect();
        if extended > 0 {
            spec.containers[0].requests.push((GPU.into(), extended));
        }
        self.server.set_pod(&PodInfo::standalone(new.clone()));
        self.pods.insert(name.to_owned(), new.clone());
        self.world.add_pod(new);
    }

    pub(super) fn pod_goes(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        let path = ObjectPath::pod(&PodInfo::standalone(pod.clone()));
        finished(self.server.api().call(ApiCall::delete(path))).unwrap();
        let is_being_bound = self.bindings.iter().any(|binding| binding.task.pod().uid == pod.uid);
        if !is_being_bound {
            self.chosen.retain(|(uid, _), _| *uid != *pod.uid);
        }
        self.world.remove_pod(&pod.uid);
    }

    /// Creates a claim for a number of devices.
    pub(super) fn claim_comes(&mut self, name: &str, count: u8) {
        if self.claim(name).is_null() {
            let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
            let uid = format!("{name}-{}", self.next());
            self.server.set::<ResourceClaim>(json!({
                "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "1"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }));
        }
    }

    pub(super) fn claim_is_deleted(&mut self, name: &str) {
        self.send(ApiCall::delete(claim_path(name)));
    }

    pub(super) fn claim_is_labeled(&mut self, name: &str) {
        let label = self.next().to_string();
        self.send(ApiCall::patch(claim_path(name), json!({"metadata": {"labels": {"at": label}}})));
    }

    fn claim(&self, name: &str) -> Value {
        self.server.object(&claim_path(name))
    }

    pub(super) fn claims(&self) -> Vec<Value> {
        self.server.all::<ResourceClaim>("default")
    }

    /// Sends a request that may fail because the object is gone.
    fn send(&self, call: ApiCall) {
        drop(finished(self.server.api().call(call)));
    }

    /// Takes devices back from claims that no pod uses, as the resource claim controller does, and deletes the claims
    /// of pods that are gone.
    pub(super) fn controller_runs(&mut self) {
        let uids: Vec<Value> = self.pods.values().map(|pod| json!(pod.uid)).collect();
        for claim in self.claims() {
            let (path, name) = (claim_path(name_of(&claim)), name_of(&claim));
            let empty = Vec::new();
            let consumers = claim["status"]["reservedFor"].as_array().unwrap_or(&empty);
            let remaining: Vec<_> =
                consumers.iter().filter(|consumer| uids.contains(&consumer["uid"])).collect();
            let is_deleted = !claim["metadata"]["deletionTimestamp"].is_null();
            if remaining.len() < consumers.len() || (remaining.is_empty() && is_deleted) {
                let mut status = json!({ "reservedFor": remaining });
                if remaining.is_empty() {
                    status = json!({"reservedFor": null, "allocation": null});
                }
                self.send(ApiCall::patch(path.clone(), json!({ "status": status })));
            }
            if self.claim(name)["status"]["allocation"].is_null() && remaining.is_empty() {
                self.news();
                self.send(ApiCall::patch(path.clone(), json!({"metadata": {"finalizers": null}})));
            }
            let owner = &claim["metadata"]["ownerReferences"][0]["uid"];
            if !owner.is_null() && !uids.contains(owner) {
                self.send(ApiCall::delete(path));
            }
            self.news();
        }
    }

    /// Puts changes to claims into the watch.
    pub(super) fn news(&mut self) {
        let mut latest = self.seen.clone();
        for (name, claim) in &self.news {
            match claim {
                Some(claim) => drop(latest.insert(name.clone(), claim.clone())),
                None => drop(latest.remove(name)),
            }
        }
        let now: BTreeMap<String, Value> =
            self.claims().into_iter().map(|claim| (name_of(&claim).to_owned(), claim)).collect();
        let names: BTreeSet<String> = latest.keys().chain(now.keys()).cloned().collect();
        for name in names {
            let (old, new) = (latest.get(&name), now.get(&name));
            if old.is_some_and(|old| new.is_none_or(|new| old["metadata"]["uid"] != new["metadata"]["uid"])) {
                self.news.push_back((name.clone(), None));
            }
            if let Some(new) = new.filter(|new| old != Some(*new)) {
                self.news.push_back((name, Some(new.clone())));
            }
        }
    }

    /// Lets the engine see the next changes to claims.
    pub(super) fn see(&mut self, at_most: usize) {
        self.news();
        for _ in 0..at_most.min(self.news.len()) {
            let Some((name, claim)) = self.news.pop_front() else { return };
            self.see_one(name, claim);
        }
    }

    /// Lets the engine see only the latest version of each claim, as after a broken watch.
    pub(super) fn see_latest(&mut self) {
        self.news.clear();
        let now: BTreeMap<String, Value> =
            self.claims().into_iter().map(|claim| (name_of(&claim).to_owned(), claim)).collect();
        let gone: Vec<String> = self.seen.keys().filter(|name| !now.contains_key(*name)).cloned().collect();
        let changed = now.into_iter().filter(|(name, claim)| self.seen.get(name) != Some(claim));
        let changed: Vec<_> = changed.map(|(name, claim)| (name, Some(claim))).collect();
        let all = gone.into_iter().map(|name| (name, None)).chain(changed);
        all.for_each(|(name, claim)| self.see_one(name, claim));
    }

    fn see_one(&mut self, name: String, claim: Option<Value>) {
        let Some(claim) = claim else {
            self.world.input(Input::CustomGone(claim_path(&name).key()));
            self.chosen.retain(|(_, chosen), _| *chosen != name);
            self.seen.remove(&name);
            return;
        };
        self.world.tell::<ResourceClaim>(&claim);
        let old = self.seen.get(&name);
        let is_another = old.is_some_and(|old| old["metadata"]["uid"] != claim["metadata"]["uid"]);
        if is_another || !claim["status"]["allocation"].is_null() {
            let owner = claim["metadata"]["ownerReferences"][0]["uid"].as_str();
            let is_seen =
                |uid: &str, chosen: &str| chosen == name || (chosen.is_empty() && Some(uid) == owner);
            self.chosen.retain(|(uid, chosen), _| !is_seen(uid, chosen));
        }
        self.seen.insert(name, claim);
    }

    /// Makes an attempt. Notes the devices that it chose. Returns false if there was nothing to do.
    pub(super) fn attempt(&mut self) -> bool {
        let before = self.visible();
        let Some(attempted) = self.world.attempt() else { return false };
        if matches!(attempted.outcome, Outcome::Assumed { .. }) {
            for (claim, devices) in self.visible() {
                if !before.contains_key(&claim) {
                    let name = if claim.starts_with('<') { String::new() } else { claim };
                    self.chosen.insert((attempted.pod.uid.to_string(), name), devices);
                }
            }
        }
        self.collect();
        true
    }

    /// Takes the engine's effects.
    fn collect(&mut self) {
        for effect in self.world.all_effects() {
            match effect {
                Effect::Bind(task) => self.bindings.push(Binding { task, stage: Stage::New }),
                Effect::Call(task) => self.calls.extend(task.calls),
                _ => {}
            }
        }
    }

    /// Runs PreBind of one binding.
    pub(super) fn pre_bind(&mut self, which: u8, fault: Fault, after: usize) {
        let Some(at) = self.pick(which, Stage::New) else { return };
        let api = FaultyApi::to(&self.server, fault, after);
        let result = pre_bind(&self.bindings[at].task, &api);
        self.bindings[at].stage = if result.is_ok() { Stage::PreBound } else { Stage::Failed };
        self.news();
    }

    /// Lets the API server bind one pod, if it still exists.
    pub(super) fn bind(&mut self, which: u8, is_seen: bool) {
        let Some(at) = self.pick(which, Stage::PreBound) else { return };
        let task = &self.bindings[at].task;
        let pod = self.pods.values_mut().find(|pod| pod.uid == task.pod().uid);
        let Some(pod) = pod else {
            self.bindings[at].stage = Stage::Failed;
            return;
        };
        pod.node_name = Some(task.node().clone());
        let bound = pod.clone();
        self.bindings[at].stage = Stage::Bound;
        if is_seen {
            self.world.add_pod(bound);
        }
    }

    fn pick(&self, which: u8, stage: Stage) -> Option<usize> {
        let those: Vec<usize> =
            (0..self.bindings.len()).filter(|at| self.bindings[*at].stage == stage).collect();
        those.get(usize::from(which) % those.len().max(1)).copied()
    }

    /// Tells the engine how a binding ended. As [`Input::BindFinished`] requires, the engine has seen what the binding
    /// wrote, unless the host does not wait for the watch.
    pub(super) fn binding_ends(&mut self, which: u8, is_patient: bool) {
        if self.bindings.is_empty() {
            return;
        }
        self.is_orderly &= is_patient;
        if is_patient {
            self.see(usize::MAX);
        }
        let Binding { task, stage } = self.bindings.remove(usize::from(which) % self.bindings.len());
        let uid = task.pod().uid.clone();
        let pod = self.pods.values().find(|pod| pod.uid == uid).cloned();
        let is_bound = stage == Stage::Bound;
        if !is_bound || pod.is_none() {
            self.chosen.retain(|(of, _), _| *of != *uid);
        }
        let outcome = if is_bound { BindOutcome::Bound } else { BindOutcome::Failed("broken".to_owned()) };
        self.world.bind_finished(&uid, outcome);
        if let Some(pod) = pod.filter(|_| is_bound) {
            self.world.add_pod(pod);
        }
        self.collect();
    }

    /// Sends the requests of plugins.
    pub(super) fn calls_are_sent(&mut self) {
        while let Some(call) = self.calls.pop_front() {
            self.send(call);
            self.news();
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.world.wait(time);
        self.collect();
        // A pod's wait on Permit may have timed out.
        let engine = &self.world.engine;
        self.chosen.retain(|(uid, _), _| engine.queue().get(&Str::from(uid.as_str())).is_none());
    }

    /// Lets a write of a killed scheduler arrive.
    pub(super) fn late_write(&mut self) {
        let Some(binding) = self.late.pop() else { return };
        self.is_orderly = false;
        // The binding fails if the pod or a claim is gone.
        drop(pre_bind(&binding.task, &FaultyApi::to(&self.server, Fault::None, 0)));
        self.news();
    }

    /// Kills the scheduler in the middle of all bindings, and starts another one. The writes of some bindings are still
    /// under way.
    pub(super) fn restart(&mut self, after: usize, under_way: usize) {
        for _ in 0..under_way {
            let at = self.pick(0, Stage::New);
            self.late.extend(at.map(|at| self.bindings.remove(at)));
        }
        while self.pick(0, Stage::New).is_some() {
            self.pre_bind(0, Fault::Down, after);
        }
        self.bindings.clear();
        self.calls.clear();
        self.chosen.clear();
        self.news.clear();
        self.world = World::with((self.config)());
        self.create_classes();
        self.nodes.iter().for_each(|name| self.world.set_node(node(name, 4000)));
        self.slices.values().for_each(|slice| self.world.tell::<ResourceSlice>(slice));
        self.seen.clear();
        self.see(usize::MAX);
        self.pods.values().for_each(|pod| self.world.add_pod(pod.clone()));
        self.collect();
    }

    /// Completes everything that is under way, without faults, and lets all backoffs end.
    pub(super) fn settle(&mut self) {
        for _ in 0..8 {
            self.wait(Duration::from_secs(15));
            while self.attempt() {}
            while self.pick(0, Stage::New).is_some() {
                self.pre_bind(0, Fault::None, 0);
            }
            while self.pick(0, Stage::PreBound).is_some() {
                self.bind(0, true);
            }
            while !self.bindings.is_empty() {
                self.binding_ends(0, true);
            }
            self.calls_are_sent();
            self.controller_runs();
            self.see(usize::MAX);
        }
    }

    /// Devices in use, keyed by claim, as plugins see them.
    pub(super) fn visible(&self) -> BTreeMap<String, Devices> {
        let claims = self.world.engine.cache().cluster.watched::<ResourceClaim>();
        let with_devices = claims.all().filter_map(|claim| {
            let allocation = claim.status.allocation.as_ref()?;
            let results = allocation.devices.results.iter();
            let devices = results.map(|result| format!("{}/{}", result.pool, result.device)).collect();
            Some((claim.metadata.name.to_string(), devices))
        });
        with_devices.collect()
    }

    /// Devices in use, keyed by claim: those that claims have, as far as the engine has seen, and those that were
    /// chosen for pods that still have their nodes.
    pub(super) fn expected(&self) -> BTreeMap<String, Devices> {
        let mut all: BTreeMap<String, Devices> = with_devices(self.seen.values()).collect();
        for ((uid, claim), devices) in &self.chosen {
            let name = if claim.is_empty() { format!("<extended-resources>/{uid}") } else { claim.clone() };
            all.insert(name, devices.clone());
        }
        all
    }

    /// Devices that several claims have, with the claims.
    pub(super) fn conflicts(&self) -> Vec<(String, Vec<String>)> {
        let mut claims: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (claim, devices) in self.visible() {
            devices.into_iter().for_each(|it| claims.entry(it).or_default().push(format!("default/{claim}")));
        }
        let several = claims.into_iter().filter(|(_, claims)| claims.len() > 1);
        let subject = |device: &str| {
            let (pool, name) = device.split_once('/').unwrap();
            format!("device {name}, pool {pool}, driver {DRIVER}")
        };
        several.map(|(device, claims)| (subject(&device), claims)).collect()
    }

    /// Claims with their allocated devices, according to the API server.
    pub(super) fn allocated(&self) -> Vec<(String, Devices)> {
        with_devices(self.claims().iter()).collect()
    }

    /// Devices that a node can reach.
    pub(super) fn within_reach(&self, node: &str) -> Devices {
        let pools = self.slices.iter().filter(|(pool, slice)| {
            let is_complete = slice["spec"]["pool"]["resourceSliceCount"] == 1;
            is_complete && (*pool == node || *pool == NETWORK)
        });
        let devices = pools.flat_map(|(pool, slice)| {
            let devices = slice["spec"]["devices"].as_array().into_iter().flatten();
            devices.map(move |device| format!("{pool}/{}", name_in(device)))
        });
        devices.collect()
    }

    /// Returns a node on which a pod could run now, given that everything has settled.
    pub(super) fn place_for(&self, pod: &Pod) -> Option<&String> {
        let taken: Devices = self.expected().into_values().flatten().collect();
        self.nodes.iter().find(|node| {
            let free = self.within_reach(node).difference(&taken).count() as i64;
            let extended = pod.spec.containers[0].requests.iter().find(|(name, _)| name == GPU);
            let mut wanted = extended.map_or(0, |(_, amount)| *amount);
            pod.spec.resource_claims.iter().all(|entry| {
                let Some(claim) = entry.claim.as_ref().and_then(|name| self.seen.get(&**name)) else {
                    return false;
                };
                let selector = &claim["status"]["allocation"]["nodeSelector"];
                let only = &selector["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
                if claim["status"]["allocation"].is_null() {
                    wanted +=
                        claim["spec"]["devices"]["requests"][0]["exactly"]["count"].as_i64().unwrap_or(0);
                }
                claim["metadata"]["deletionTimestamp"].is_null() && (only.is_null() || only == *node)
            }) && wanted <= free
        })
    }
}

fn with_devices<'a>(claims: impl Iterator<Item = &'a Value>) -> impl Iterator<Item = (String, Devices)> {
    claims.filter(|claim| !claim["status"]["allocation"].is_null()).map(|claim| {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let devices = results.map(|result| format!("{}/{}", text(&result["pool"]), text(&result["device"])));
        (name_of(claim).to_owned(), devices.collect())
    })
}

fn claim_path(name: &str) -> ObjectPath {
    ObjectPath::of::<ResourceClaim>("default", name)
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn name_in(object: &Value) -> &str {
    object["name"].as_str().unwrap_or_default()
}
