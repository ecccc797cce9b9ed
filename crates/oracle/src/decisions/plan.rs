//! Generation of scripts from seeds.

use serde_json::{Value, json};

use harbormaster_api::Release;

use super::cluster_view::BUDGET_LABEL;
use super::devices::{Change, Devices};
use super::extenders::add_extenders;
use super::group_plan::GroupPlan;
use super::paths::{NODES, path};
use super::script::{Script, Step, stop_waiting_for_others};
use super::storage::{Isolation, Storage, hasty_profile};
use crate::generate::{Generator, Random, namespaces, priority_class_name, push, service, taint};
use crate::provisioner::Driver;

/// Size of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of nodes; a few are added later.
    pub nodes: usize,
    /// Number of pods to schedule.
    pub pods: usize,
    /// Number of changes to nodes and pods after the start.
    pub changes: usize,
}

/// Optional features of scripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// True if opportunistic batching (KEP-5598) is enabled.
    pub batching: bool,
    /// True if pods have persistent volume claims.
    pub volumes: bool,
    /// True if pods have resource claims, or, if they form groups, if groups have resource claims.
    pub devices: bool,
    /// True if the configuration has extenders.
    pub extenders: bool,
    /// True if pods form groups. Such scripts have none of the features above but `devices`.
    pub groups: bool,
    /// True if groups have topology constraints.
    pub topology: bool,
    /// Release of the schedulers.
    pub release: Release,
}

/// A backoff that never expires during a script, in seconds.
const ENDLESS: u32 = 100_000;

/// Values of [`BUDGET_LABEL`].
const BUDGETS: &[&str] = &["a", "b", "c"];

impl Script {
    /// Generates the script for `seed`.
    #[must_use]
    pub fn new(seed: u64, size: Size, options: Options) -> Self {
        if options.groups {
            return GroupPlan::new(seed, options).script(seed, size);
        }
        let mut script = Plan::new(seed, size, options).script(seed, size, options.batching);
        if options.extenders {
            add_extenders(&mut script);
        }
        script
    }
}

/// A script under construction.
struct Plan {
    generator: Generator,
    /// Volumes and their claims, if pods have persistent volume claims.
    storage: Option<Storage>,
    /// Devices and resource claims, if pods have resource claims.
    devices: Option<Devices>,
    /// Chooses the steps, but not the objects in them.
    random: Random,
    /// True in every second script. In these scripts, pods preempt others and are retried in order of priority. In the
    /// other scripts, all pods have the same priority and are retried in the order of their timestamps in the queue.
    preempts: bool,
    /// True if there are extenders. Any change may then wake a pod, because an extender may have rejected the pod.
    has_extenders: bool,
    /// True if deleted pods keep terminating until a later step removes them.
    terminates_slowly: bool,
    nodes: Vec<String>,
    deleted_nodes: Vec<String>,
    next_node: usize,
    /// Paths of pods.
    pods: Vec<String>,
    gated: Vec<(String, Value)>,
    /// Paths of services and budgets.
    extras: Vec<String>,
    next_pod: usize,
    next_bound: usize,
    next_extra: usize,
    steps: Vec<Step>,
}

impl Plan {
    fn new(seed: u64, size: Size, options: Options) -> Self {
        let mut random = Random::new(seed);
        let mut generator = Generator::new(random.fork(), true, size.nodes);
        generator.world.priorities = vec![0];
        let preempts = seed % 2 == 1;
        let storage = options.volumes.then(|| Storage::new(random.fork(), preempts));
        let devices = options.devices.then(|| Devices::new(random.fork(), preempts, options.release));
        if options.devices {
            // Devices should decide more often than other requirements.
            generator.thin_out(35);
        }
        Self {
            generator,
            storage,
            devices,
            random,
            has_extenders: options.extenders,
            preempts,
            terminates_slowly: seed % 4 == 3,
            nodes: Vec::new(),
            deleted_nodes: Vec::new(),
            next_node: 0,
            pods: Vec::new(),
            gated: Vec::new(),
            extras: Vec::new(),
            next_pod: 0,
            next_bound: 0,
            next_extra: 0,
            steps: Vec::new(),
        }
    }

    fn script(mut self, seed: u64, size: Size, batching: bool) -> Script {
        let mut config = self.generator.config();
        for profile in config["profiles"].as_array_mut().into_iter().flatten() {
            soften_spread_defaults(profile);
            if let Some(devices) = &mut self.devices {
                devices.score(profile);
            }
        }
        if self.storage.is_some() {
            push(&mut config["profiles"], hasty_profile());
        }
        let backoff = if self.preempts { 1 } else { ENDLESS };
        config["podInitialBackoffSeconds"] = backoff.into();
        config["podMaxBackoffSeconds"] = backoff.into();
        config["clientConnection"] = json!({"qps": 5000, "burst": 5000});
        if size.nodes >= 100 && self.random.chance(70) {
            config["percentageOfNodesToScore"] = (*self.random.pick(&[0, 10, 40, 100])).into();
        }
        self.begin(size);
        for change in 0..size.changes {
            let left = size.pods.saturating_sub(self.next_pod);
            // Spread the remaining pods over the remaining changes.
            if left > 0 {
                self.create_pods(left.div_ceil(size.changes - change), left);
            }
            self.change();
            if self.preempts {
                self.add_preemptors();
            }
        }
        let devices = self.devices.is_some();
        let drivers = self.add_claims_to_start();
        let (awaits_backoff, preempts) = (self.preempts, self.preempts);
        let extenders = Vec::new();
        Script {
            seed,
            config,
            batching,
            awaits_backoff,
            preempts,
            devices,
            groups: false,
            group_claims: false,
            topology: false,
            group_policies: false,
            drivers,
            extenders,
            steps: self.steps,
        }
    }

    fn begin(&mut self, size: Size) {
        let mut objects = self.generator.objects();
        objects.retain(|object| object["kind"] != "Namespace");
        if let Some(storage) = &mut self.storage {
            objects.extend(storage.infrastructure());
        }
        if let Some(devices) = &mut self.devices {
            objects.extend(devices.infrastructure(&self.generator.world));
        }
        for _ in 0..size.nodes * 9 / 10 + 1 {
            let node = self.new_node();
            objects.extend(self.node_drivers());
            objects.push(node);
        }
        if let Some(storage) = &mut self.storage {
            storage.add_volumes(size.pods / 3, &self.nodes);
        }
        if self.preempts {
            objects.extend((0..4).map(|_| self.new_budget()));
        }
        let bound = if self.preempts { size.nodes * 3 } else { size.nodes / 2 };
        objects.extend((0..bound).map(|_| self.new_bound_pod()));
        objects.extend((0..size.pods * 2 / 5).map(|_| self.new_pod_of_batch(true)));
        self.steps.push(Step::Restart { objects });
    }

    /// Inserts volumes, persistent volume claims and the objects of devices before the first pod, so that the volume
    /// controller need not handle them later in the script.
    fn add_claims_to_start(&mut self) -> Vec<Driver> {
        let (mut claims, drivers) = self.storage.take().map(Storage::finish).unwrap_or_default();
        claims.extend(self.devices.take().map(Devices::finish).unwrap_or_default());
        if let Some(Step::Restart { objects }) = self.steps.first_mut() {
            let first = objects.iter().position(|object| object["kind"] == "Pod").unwrap_or(objects.len());
            objects.splice(first..first, claims);
        }
        drivers
    }

    fn create_pods(&mut self, average: usize, left: usize) {
        let count = self.random.range(0, average * 2).min(left);
        match self.random.below(10) {
            0 => {
                self.steps.push(Step::Sweep { all: self.has_extenders });
                let objects = (0..count + 1).map(|_| self.new_pod_of_batch(true)).collect();
                self.steps.push(Step::Restart { objects });
            }
            1..=5 if count > 0 => {
                self.steps.push(Step::Sweep { all: self.has_extenders });
                let objects = (0..count).map(|_| self.new_pod_of_batch(false)).collect();
                self.steps.push(Step::Create { objects });
            }
            _ => {
                for _ in 0..count {
                    let mut pod = self.new_pod(true);
                    self.add_claims_alone(&mut pod);
                    self.steps.push(Step::Create { objects: vec![pod] });
                }
            }
        }
    }

    /// Adds pods that may preempt others. During a preemption, no other pod may be ready to be tried, because the
    /// result of its attempt would depend on timing. If victims terminate immediately, no other pod may be pending; if
    /// they keep terminating until a later step, no pod is woken.
    fn add_preemptors(&mut self) {
        for _ in 0..self.random.range(1, if self.terminates_slowly { 2 } else { 4 }) {
            if !self.terminates_slowly {
                self.steps.push(Step::Sweep { all: true });
            }
            let mut preemptor = self.new_preemptor();
            self.add_claims_alone(&mut preemptor);
            self.steps.push(Step::Create { objects: vec![preemptor] });
        }
        if self.terminates_slowly {
            self.steps.push(Step::Reap);
            // If a pending preemptor were woken later, several pods would preempt.
            self.steps.push(Step::Sweep { all: true });
        }
    }

    /// Adds volumes and devices to a pod that is tried alone.
    fn add_claims_alone(&mut self, pod: &mut Value) {
        let storage = self.storage.as_mut().map(|storage| storage.add_volumes_to(pod, Isolation::Alone));
        let devices = self.devices.as_mut().map(|devices| devices.add_to(pod, Isolation::Alone));
        if [storage, devices].contains(&Some(Isolation::NoOtherClaims)) {
            self.steps.push(Step::Sweep { all: false });
        }
    }

    fn change(&mut self) {
        if self.nodes.len() < 2 {
            return self.add_node();
        }
        if self.storage.is_some() && self.random.chance(30) {
            return self.change_storage();
        }
        if self.devices.is_some() && self.random.chance(60) {
            return self.change_devices();
        }
        let node = self.random.pick(&self.nodes).clone();
        let path = format!("{NODES}/{node}");
        match self.random.below(22) {
            0..=2 => self.add_node(),
            3 | 4 => self.delete_node(&node),
            5 => self.patch(path, json!({"spec": {"unschedulable": true}})),
            6 | 7 => self.patch(path, json!({"spec": {"unschedulable": null}})),
            8 => {
                let taints = [taint(&mut self.random)];
                self.patch(path, json!({"spec": {"taints": taints}}));
            }
            9 | 10 => self.patch(path, json!({"spec": {"taints": null}})),
            11 | 12 => self.relabel(path),
            13 => {
                let cpu = *self.random.pick(&["1", "3", "6", "20"]);
                let memory = *self.random.pick(&["1Gi", "6Gi", "40Gi"]);
                let amounts = json!({"cpu": cpu, "memory": memory, "pods": "110"});
                self.patch_status(path, &json!({"allocatable": amounts, "capacity": amounts}));
            }
            14 => {
                let images = self.generator.node("any")["status"]["images"].take();
                self.steps.push(Step::Probe);
                self.patch_status(path, &json!({"images": images}));
            }
            15 | 16 => self.delete_pod(),
            17 => self.ungate(),
            18 => {
                if let Some(pod) = self.random_pod() {
                    let app = *self.random.pick(&["web", "cache"]);
                    self.patch(pod, json!({"metadata": {"labels": {"app": app}}}));
                }
            }
            19 => self.add_extra(),
            20 if !self.extras.is_empty() => {
                let path = self.extras.swap_remove(self.random.below(self.extras.len()));
                self.steps.push(Step::Delete { path });
            }
            _ => {
                let pod = self.new_bound_pod();
                self.steps.push(Step::Create { objects: vec![pod] });
            }
        }
    }

    fn change_devices(&mut self) {
        if self.devices.as_mut().is_some_and(Devices::shares_new_claim) {
            return self.share_new_claim();
        }
        let world = &self.generator.world;
        for change in self.devices.as_mut().map(|devices| devices.change(world)).unwrap_or_default() {
            self.steps.push(match change {
                Change::Create(object) => Step::Create { objects: vec![object] },
                Change::Patch(path, patch) => Step::Patch { path, patch },
                Change::Delete(path) => Step::Delete { path },
            });
        }
    }

    /// Two pods arrive one after the other and use the same claim, which has no devices yet. Whether the second one must
    /// wait until the devices are written depends on timing, so no other pod may be pending.
    fn share_new_claim(&mut self) {
        self.steps.push(Step::Sweep { all: true });
        let mut pods = [self.new_pod(false), self.new_pod(false)];
        let namespace = pods[0]["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let Some(devices) = &mut self.devices else { return };
        let entry = devices.entry_of_new_shared(&namespace);
        for pod in &mut pods {
            stop_waiting_for_others(pod);
            pod["metadata"]["namespace"] = namespace.as_str().into();
            pod["spec"]["resourceClaims"] = json!([entry]);
            if let Some(spec) = pod["spec"].as_object_mut() {
                spec.remove("schedulingGates");
            }
        }
        self.steps.push(Step::Create { objects: pods.into() });
    }

    fn change_storage(&mut self) {
        let node = self.random.pick(&self.nodes).clone();
        let Some(storage) = &mut self.storage else { return };
        match self.random.below(4) {
            0 => {
                // Schedulers see the new volume twice, before and after the volume controller updates it, so only one
                // pod may wait for volumes.
                self.steps.push(Step::Sweep { all: false });
                let mut pod = self.new_pod(true);
                let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
                let Some(storage) = &mut self.storage else { return };
                let (pod_volume, volume) = storage.giant(&namespace, &self.nodes);
                push(&mut pod["spec"]["volumes"], pod_volume);
                self.steps.push(Step::Create { objects: vec![pod] });
                self.steps.push(Step::Create { objects: vec![volume] });
            }
            1 => {
                let (path, patch) = storage.other_capacity();
                self.patch(path, patch);
            }
            2 => {
                let (path, patch) = storage.other_limits(&node);
                self.patch(path, patch);
            }
            _ => {
                if let Some(claim) = storage.late_claim() {
                    self.steps.push(Step::Create { objects: vec![claim] });
                }
            }
        }
    }

    fn add_node(&mut self) {
        self.steps.push(Step::Probe);
        let node = if self.deleted_nodes.is_empty() || self.random.chance(50) {
            self.new_node()
        } else {
            let name = self.deleted_nodes.swap_remove(self.random.below(self.deleted_nodes.len()));
            self.named_node(name)
        };
        self.steps.push(Step::Create { objects: vec![node] });
        // The CSINode already exists if the node has existed before.
        if let Some(drivers) = self.node_drivers() {
            self.steps.push(Step::Create { objects: vec![drivers] });
        }
        let (devices, node) = (self.devices.as_mut(), self.nodes.last());
        let slices =
            devices.zip(node).map(|(devices, node)| devices.node_slices(&self.generator.world, node));
        for slice in slices.unwrap_or_default() {
            self.steps.push(Step::Create { objects: vec![slice] });
        }
    }

    /// Returns the CSINode with the drivers on the newest node.
    fn node_drivers(&mut self) -> Option<Value> {
        self.storage.as_mut()?.node_drivers(self.nodes.last()?)
    }

    fn delete_node(&mut self, name: &str) {
        self.steps.push(Step::Probe);
        self.nodes.retain(|node| node != name);
        self.deleted_nodes.push(name.to_owned());
        self.steps.push(Step::Delete { path: format!("{NODES}/{name}") });
    }

    fn relabel(&mut self, path: String) {
        let label = *self.random.pick(&["disk", "cores", "example.com/pool", "topology.kubernetes.io/zone"]);
        let value = match label {
            "disk" => *self.random.pick(&["ssd", "hdd"]),
            "cores" => *self.random.pick(&["2", "16"]),
            "example.com/pool" => *self.random.pick(&["blue", ""]),
            _ => *self.random.pick(&["a", "b", "d"]),
        };
        let value = if self.random.chance(20) { Value::Null } else { value.into() };
        self.patch(path, json!({"metadata": {"labels": {label: value}}}));
    }

    fn delete_pod(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let pod = self.pods.swap_remove(self.random.below(self.pods.len()));
        self.gated.retain(|(name, _)| *name != pod);
        let grace = if self.random.chance(80) { "?gracePeriodSeconds=0" } else { "" };
        self.steps.push(Step::Delete { path: pod + grace });
    }

    fn ungate(&mut self) {
        if self.gated.is_empty() {
            return;
        }
        let (pod, mut gates) = self.gated.swap_remove(self.random.below(self.gated.len()));
        let mut left = gates.as_array_mut().map(std::mem::take).unwrap_or_default();
        left.pop();
        if left.is_empty() || self.random.chance(60) {
            self.patch(pod, json!({"spec": {"schedulingGates": null}}));
        } else {
            self.patch(pod.clone(), json!({"spec": {"schedulingGates": left}}));
            self.gated.push((pod, left.into()));
        }
    }

    fn patch(&mut self, path: String, patch: Value) {
        self.steps.push(Step::Patch { path, patch });
    }

    fn patch_status(&mut self, path: String, status: &Value) {
        self.patch(format!("{path}/status"), json!({"status": status}));
    }

    fn random_pod(&mut self) -> Option<String> {
        if self.pods.is_empty() { None } else { Some(self.random.pick(&self.pods).clone()) }
    }

    fn new_node(&mut self) -> Value {
        let name = format!("node-{}", self.next_node);
        self.next_node += 1;
        self.named_node(name)
    }

    fn named_node(&mut self, name: String) -> Value {
        let mut node = self.generator.node(&name);
        if let Some(storage) = &mut self.storage {
            storage.add_topology(&mut node);
        }
        self.nodes.push(name);
        if self.preempts {
            // The node is small, so that it fills up.
            let cpu = *self.random.pick(&["2", "3", "4"]);
            for amounts in ["allocatable", "capacity"] {
                for (resource, amount) in [("cpu", cpu), ("memory", "16Gi"), ("pods", "20")] {
                    node["status"][amounts][resource] = amount.into();
                }
            }
        }
        node
    }

    fn add_extra(&mut self) {
        let object = if self.preempts && self.random.chance(60) {
            self.new_budget()
        } else {
            let namespace = self.random_namespace();
            let name = format!("late-{}", self.next_extra);
            self.next_extra += 1;
            service(&mut self.random, &namespace, &name)
        };
        self.extras.push(path(&object));
        self.steps.push(Step::Create { objects: vec![object] });
    }

    fn new_budget(&mut self) -> Value {
        let value = *self.random.pick(BUDGETS);
        // Most pods are in the namespace `default`. A second budget with the same name is rejected.
        let namespace = if self.random.chance(60) { "default".to_owned() } else { self.random_namespace() };
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{value}"), "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": {BUDGET_LABEL: value}},
                "minAvailable": self.random.pick(&[0, 2, 5, 10, 1000]),
            },
        })
    }

    fn random_namespace(&mut self) -> String {
        let namespaces = namespaces();
        self.random.pick(&namespaces)["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }

    fn new_bound_pod(&mut self) -> Value {
        let node = self.random.pick(&self.nodes).clone();
        let name = format!("bound-{}", self.next_bound);
        self.next_bound += 1;
        let mut pod = self.generator.bound_pod(&name, &node);
        // Bound pods have no host ports: no kubelet would run two pods with the same host port, and kube-scheduler
        // frees the port when the first of the two is deleted.
        for containers in ["containers", "initContainers"] {
            for container in pod["spec"][containers].as_array_mut().into_iter().flatten() {
                container.as_object_mut().map(|container| container.remove("ports"));
            }
        }
        if let Some(storage) = &mut self.storage {
            storage.add_volume_to_bound(&mut pod);
        }
        self.prepare(&mut pod, true);
        self.pods.push(path(&pod));
        pod
    }

    /// A pod that does not preempt. Unless `any_priority` is true, it has the lowest priority.
    fn new_pod(&mut self, any_priority: bool) -> Value {
        // The names are in random order, because they determine the order of pods after a restart.
        let name = format!("pod-{}-{}", self.random.below(1000), self.next_pod);
        self.next_pod += 1;
        let mut pod = self.generator.pending_pod(&name);
        if let Some(devices) = &mut self.devices {
            devices.place(&mut pod);
        }
        self.prepare(&mut pod, any_priority);
        let path = path(&pod);
        if pod["spec"]["schedulingGates"].is_array() {
            self.gated.push((path.clone(), pod["spec"]["schedulingGates"].clone()));
        }
        self.pods.push(path);
        pod
    }

    /// A pod that is tried in a row with others. It has no constraints that the binding of another pod can satisfy,
    /// because the time at which it would be retried after that binding is uncertain.
    fn new_pod_of_batch(&mut self, any_priority: bool) -> Value {
        let mut pod = self.new_pod(any_priority);
        stop_waiting_for_others(&mut pod);
        if let Some(storage) = &mut self.storage {
            storage.add_volumes_to(&mut pod, Isolation::InBatch);
        }
        if let Some(devices) = &mut self.devices {
            devices.add_to(&mut pod, Isolation::InBatch);
        }
        pod
    }

    /// A pod that may preempt others and needs resources.
    fn new_preemptor(&mut self) -> Value {
        let mut pod = self.new_pod(false);
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("priorityClassName");
            spec.remove("schedulingGates");
        }
        match self.random.below(20) {
            0..4 => {}
            4 => pod["spec"]["priorityClassName"] = never(2_000_000).into(),
            5..14 => pod["spec"]["priorityClassName"] = priority_class_name(10).into(),
            _ => pod["spec"]["priorityClassName"] = priority_class_name(2_000_000).into(),
        }
        let cpu = *self.random.pick(&["500m", "1", "1500m", "2"]);
        request_cpu(&mut pod, cpu);
        // Preemption cannot help on nodes that the pod's selector, affinity or tolerations exclude.
        let Some(spec) = pod["spec"].as_object_mut() else { return pod };
        if self.random.chance(70) {
            spec.remove("nodeSelector");
            spec.insert("tolerations".to_owned(), json!([{"operator": "Exists"}]));
            if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
                affinity.remove("nodeAffinity");
            }
        }
        if self.random.chance(30) {
            spec.remove("affinity");
            spec.remove("topologySpreadConstraints");
        }
        pod
    }

    /// Sets requests, priority class, grace period and budget if pods preempt. A pod without a priority class would
    /// preempt pods of the lowest class, so every pod gets a class.
    fn prepare(&mut self, pod: &mut Value, any_priority: bool) {
        if !self.preempts {
            return;
        }
        let classes = [priority_class_name(-5), priority_class_name(-5), never(10), never(2_000_000)];
        let cpu = *self.random.pick(&["250m", "500m", "1"]);
        request_cpu(pod, cpu);
        let class = if any_priority { self.random.pick(&classes) } else { &classes[0] };
        pod["spec"]["priorityClassName"] = class.as_str().into();
        pod["spec"]["terminationGracePeriodSeconds"] = if self.terminates_slowly { 30 } else { 0 }.into();
        if self.random.chance(50) {
            pod["metadata"]["labels"][BUDGET_LABEL] = (*self.random.pick(BUDGETS)).into();
        }
    }
}

/// Keeps only soft default constraints, because hard constraints would make every pod wait for others.
fn soften_spread_defaults(profile: &mut Value) {
    let plugins = profile.get_mut("pluginConfig").and_then(Value::as_array_mut);
    for plugin in plugins.into_iter().flatten() {
        if let Some(Value::Array(constraints)) = plugin.pointer_mut("/args/defaultConstraints") {
            constraints.retain(|constraint| constraint["whenUnsatisfiable"] == "ScheduleAnyway");
        }
    }
}

fn request_cpu(pod: &mut Value, cpu: &str) {
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    resources["requests"]["cpu"] = cpu.into();
    if !resources["limits"]["cpu"].is_null() {
        resources["limits"]["cpu"] = cpu.into();
    }
}

fn never(priority: i32) -> String {
    priority_class_name(priority) + "-never"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { nodes: 20, pods: 60, changes: 20 };

    #[test]
    fn a_seed_always_generates_the_same_script_which_begins_with_a_restart() {
        let script = Script::new(4, SIZE, Options::default());
        assert_eq!(script, Script::new(4, SIZE, Options::default()));
        let pods =
            script.steps.iter().flat_map(Step::objects).filter(|object| crate::generate::is_pending(object));
        assert!(pods.count() >= 24);
        assert!(matches!(script.steps[0], Step::Restart { .. }));
    }

    #[test]
    fn scripts_with_devices_have_every_kind_of_claim() {
        let options = Options { devices: true, ..Options::default() };
        let scripts: Vec<Script> = (0..30).map(|seed| Script::new(seed, SIZE, options)).collect();
        let text = serde_json::to_string(&scripts).unwrap();
        for part in [
            "ResourceClaimTemplate",
            "\"shared-",
            "\"allocated-",
            "\"late-",
            "extendedResourceName",
            "adminAccess",
            "firstAvailable",
            "matchAttribute",
            "sharedCounters",
            "allowMultipleAllocations",
            "shareID",
            "\"allocationMode\":\"All\"",
            "\"patch\":{\"spec\":{\"devices\"",
            "\"patch\":{\"spec\":{\"pool\"",
            "\"patch\":{\"spec\":{\"extendedResourceName\":null",
            "\"patch\":{\"status\":{\"allocation\":null",
            "bindingConditions",
            "\"resources\":[{\"name\":\"example.com/gpu\"",
        ] {
            assert!(text.contains(part), "{part}");
        }
        for script in scripts.iter().filter(|script| script.awaits_backoff) {
            // An attempt with such a request may end with an error, which then changes with every retry.
            let text = serde_json::to_string(script).unwrap();
            assert!(!text.contains("\"allocationMode\":\"All\""), "seed {}", script.seed);
        }
    }

    #[test]
    fn pods_of_a_create_step_have_the_same_priority_class() {
        for seed in 0..40 {
            let script = Script::new(seed, SIZE, Options::default());
            for step in &script.steps {
                let classes = |objects: &[Value]| {
                    let class = |pod: &Value| pod["spec"]["priorityClassName"].to_string();
                    objects.iter().map(class).collect::<std::collections::BTreeSet<_>>().len()
                };
                match step {
                    Step::Create { objects } if objects.len() > 1 => {
                        assert!(objects.iter().all(crate::generate::is_pending));
                        assert_eq!(classes(objects), 1);
                    }
                    step if !script.preempts => assert!(classes(step.objects()) <= 1),
                    _ => {}
                }
            }
        }
    }
}
