//! Scripts by seed.

use serde_json::{Value, json};

use super::script::{Script, Step};
use crate::generate::{Generator, Random, taint};

/// How large a script gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Nodes in all; a few join later.
    pub nodes: usize,
    /// Pods that look for a node.
    pub pods: usize,
    /// Changes of nodes and pods after the start.
    pub changes: usize,
}

/// An endless backoff, in seconds.
const ENDLESS: u32 = 100_000;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

impl Script {
    /// The script of `seed`.
    #[must_use]
    pub fn new(seed: u64, size: Size, batching: bool) -> Self {
        Plan::new(seed, size).script(seed, size, batching)
    }
}

struct Plan {
    generator: Generator,
    /// Chooses the steps, apart from the objects in them.
    random: Random,
    awaits_backoff: bool,
    nodes: Vec<String>,
    gone: Vec<String>,
    next_node: usize,
    pods: Vec<String>,
    gated: Vec<(String, Value)>,
    next_pod: usize,
    next_bound: usize,
    steps: Vec<Step>,
}

impl Plan {
    fn new(seed: u64, size: Size) -> Self {
        let mut random = Random::new(seed);
        // Half of the seeds retry by priority, the others by time.
        let awaits_backoff = seed % 2 == 1;
        let mut generator = Generator::new(random.fork(), true, size.nodes);
        if !awaits_backoff {
            generator.world.priorities = vec![0];
        }
        Self {
            generator,
            random,
            awaits_backoff,
            nodes: Vec::new(),
            gone: Vec::new(),
            next_node: 0,
            pods: Vec::new(),
            gated: Vec::new(),
            next_pod: 0,
            next_bound: 0,
            steps: Vec::new(),
        }
    }

    fn script(mut self, seed: u64, size: Size, batching: bool) -> Script {
        let mut config = self.generator.config();
        let backoff = if self.awaits_backoff { 1 } else { ENDLESS };
        config["podInitialBackoffSeconds"] = backoff.into();
        config["podMaxBackoffSeconds"] = backoff.into();
        config["clientConnection"] = json!({"qps": 5000, "burst": 5000});
        if size.nodes >= 100 && self.random.chance(70) {
            config["percentageOfNodesToScore"] = (*self.random.pick(&[0, 10, 40, 100])).into();
        }
        self.begin(size);
        for change in 0..size.changes {
            let left = size.pods.saturating_sub(self.next_pod);
            // The rest of the pods is spread over the rest of the changes.
            if left > 0 {
                self.create_pods(left.div_ceil(size.changes - change), left);
            }
            self.change();
        }
        Script { seed, config, batching, awaits_backoff: self.awaits_backoff, steps: self.steps }
    }

    fn begin(&mut self, size: Size) {
        let mut objects: Vec<Value> = (0..size.nodes * 9 / 10 + 1).map(|_| self.new_node()).collect();
        objects.extend((0..size.nodes / 2).map(|_| self.new_bound_pod()));
        objects.extend((0..size.pods * 2 / 5).map(|_| self.new_pod(true)));
        self.steps.push(Step::Restart { objects });
    }

    fn create_pods(&mut self, average: usize, left: usize) {
        let count = self.random.range(0, average * 2).min(left);
        match self.random.below(10) {
            0 => {
                let objects = (0..count + 1).map(|_| self.new_pod(true)).collect();
                self.steps.push(Step::Restart { objects });
            }
            1..=5 if count > 0 => {
                let objects = (0..count).map(|_| self.new_pod(false)).collect();
                self.steps.push(Step::Create { objects });
            }
            _ => {
                for _ in 0..count {
                    let pod = self.new_pod(true);
                    self.steps.push(Step::Create { objects: vec![pod] });
                }
            }
        }
    }

    fn change(&mut self) {
        if self.nodes.len() < 2 {
            return self.add_node();
        }
        let node = self.random.pick(&self.nodes).clone();
        let path = format!("{NODES}/{node}");
        match self.random.below(20) {
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
                    self.patch(format!("{PODS}/{pod}"), json!({"metadata": {"labels": {"app": app}}}));
                }
            }
            _ => {
                let pod = self.new_bound_pod();
                self.steps.push(Step::Create { objects: vec![pod] });
            }
        }
    }

    fn add_node(&mut self) {
        self.steps.push(Step::Probe);
        let node = if self.gone.is_empty() || self.random.chance(50) {
            self.new_node()
        } else {
            let name = self.gone.swap_remove(self.random.below(self.gone.len()));
            self.named_node(name)
        };
        self.steps.push(Step::Create { objects: vec![node] });
    }

    fn delete_node(&mut self, name: &str) {
        self.steps.push(Step::Probe);
        self.nodes.retain(|node| node != name);
        self.gone.push(name.to_owned());
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
        self.steps.push(Step::Delete { path: format!("{PODS}/{pod}{grace}") });
    }

    fn ungate(&mut self) {
        if self.gated.is_empty() {
            return;
        }
        let (pod, mut gates) = self.gated.swap_remove(self.random.below(self.gated.len()));
        let mut left = gates.as_array_mut().map(std::mem::take).unwrap_or_default();
        left.pop();
        if left.is_empty() || self.random.chance(60) {
            self.patch(format!("{PODS}/{pod}"), json!({"spec": {"schedulingGates": null}}));
        } else {
            self.patch(format!("{PODS}/{pod}"), json!({"spec": {"schedulingGates": left}}));
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
        let node = self.generator.node(&name);
        self.nodes.push(name);
        node
    }

    fn new_bound_pod(&mut self) -> Value {
        let node = self.random.pick(&self.nodes).clone();
        let name = format!("bound-{}", self.next_bound);
        self.next_bound += 1;
        let pod = self.generator.bound_pod(&name, &node);
        self.pods.push(name);
        pod
    }

    /// A pod of any priority, or of the default one.
    fn new_pod(&mut self, any_priority: bool) -> Value {
        // Names in random order: after a restart they decide who comes first.
        let name = format!("pod-{}-{}", self.random.below(1000), self.next_pod);
        self.next_pod += 1;
        let mut pod = self.generator.pending_pod(&name);
        if let (false, Some(spec)) = (any_priority, pod["spec"].as_object_mut()) {
            spec.remove("priorityClassName");
        }
        if pod["spec"]["schedulingGates"].is_array() {
            self.gated.push((name.clone(), pod["spec"]["schedulingGates"].clone()));
        }
        self.pods.push(name);
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { nodes: 20, pods: 60, changes: 20 };

    #[test]
    fn a_seed_always_gives_the_same_script_with_all_its_pods() {
        let script = Script::new(4, SIZE, false);
        assert_eq!(script, Script::new(4, SIZE, false));
        let pods =
            script.steps.iter().flat_map(Step::objects).filter(|object| crate::generate::is_pending(object));
        assert!(pods.count() >= 24);
        assert!(matches!(script.steps[0], Step::Restart { .. }));
    }

    #[test]
    fn the_order_of_retries_never_depends_on_time() {
        for seed in 0..40 {
            let script = Script::new(seed, SIZE, false);
            for step in &script.steps {
                let classes = |objects: &[Value]| {
                    objects.iter().filter(|pod| !pod["spec"]["priorityClassName"].is_null()).count()
                };
                match step {
                    Step::Create { objects } if objects.len() > 1 => {
                        assert!(objects.iter().all(crate::generate::is_pending));
                        assert_eq!(classes(objects), 0);
                    }
                    step if !script.awaits_backoff => assert_eq!(classes(step.objects()), 0),
                    _ => {}
                }
            }
        }
    }
}
