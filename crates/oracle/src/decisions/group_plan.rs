//! Generation of scripts with groups of pods. See [`super::groups`] for what makes them comparable.

use serde_json::{Value, json};

use super::cluster_view::BUDGET_LABEL;
use super::group_claims::GroupClaims;
use super::groups::MOST_MEMBERS;
use super::paths::{NODES, POD_GROUP, path};
use super::plan::{Options, Size};
use super::script::{Script, Step};
use crate::generate::{Random, priority_class_name};

/// Most nodes of a script, so that groups fill them.
const MOST_NODES: usize = 8;

/// Priorities of groups and of their members.
const PRIORITIES: &[i32] = &[-5, -5, -5, 10, 10, 2_000_000];

/// Priorities of pods on their own that may preempt others.
const PREEMPTORS: &[i32] = &[10, 10, 2_000_000];

/// Suffix of the priority classes whose pods preempt no others.
const NEVER: &str = "-never";

/// Label of the nodes that are in a rack. All racks have the same name, because kube-scheduler tries several placements
/// in random order, and reports the first one that it has tried.
const RACK: &str = "rack";

/// Label with which each node is a domain of its own.
const HOST: &str = "kubernetes.io/hostname";

/// Topology constraints of the groups of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    /// There are none.
    None,
    /// Groups must be in the only rack, to which some of the nodes belong.
    OneRack,
    /// Groups must be on one node each. They are small, and all nodes have different sizes, so that every group fits and
    /// one of the nodes is the best.
    Hosts,
}

impl Topology {
    fn key(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::OneRack => Some(RACK),
            Self::Hosts => Some(HOST),
        }
    }
}

/// A script with groups, under construction.
pub(super) struct GroupPlan {
    random: Random,
    topology: Topology,
    /// Resource claims, if groups have some.
    claims: Option<GroupClaims>,
    /// True if the preemption policies of groups count. If they do not, those of the members do.
    has_policies: bool,
    /// True if preempted pods keep terminating until a later step removes them.
    terminates_slowly: bool,
    nodes: Vec<String>,
    next_node: usize,
    next_pod: usize,
    next_group: usize,
    /// True if the script has a group that is disrupted as a whole.
    has_whole_group: bool,
    /// Paths of pods that were created earlier and may have a node.
    running: Vec<String>,
    changes: usize,
    steps: Vec<Step>,
}

/// A group that the script is working on.
struct Group {
    object: Value,
    /// Specs of its members, from which new ones are made.
    templates: Vec<Value>,
    /// Paths of its members.
    members: Vec<String>,
    /// Minimum number of members; `None` for a basic group.
    min_count: Option<usize>,
}

impl GroupPlan {
    /// With the option `topology`, most groups have topology constraints; with `devices`, most have resource claims.
    pub(super) fn new(seed: u64, options: Options) -> Self {
        Self {
            random: Random::new(seed),
            topology: match seed % 3 {
                _ if !options.topology => Topology::None,
                2 => Topology::Hosts,
                _ => Topology::OneRack,
            },
            claims: options.devices.then(|| GroupClaims::new(seed)),
            has_policies: seed % 5 < 2,
            terminates_slowly: seed % 4 == 3,
            nodes: Vec::new(),
            next_node: 0,
            next_pod: 0,
            next_group: 0,
            has_whole_group: false,
            running: Vec::new(),
            changes: 0,
            steps: Vec::new(),
        }
    }

    pub(super) fn script(mut self, seed: u64, size: Size) -> Script {
        self.begin(size);
        while self.changes < size.changes {
            self.add_singles();
            self.add_preemptors();
            let group = self.add_group();
            self.change_group(group);
            self.clear_up();
        }
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 1,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "clientConnection": {"qps": 5000, "burst": 5000},
        });
        Script {
            seed,
            config,
            batching: false,
            awaits_backoff: false,
            preempts: true,
            devices: false,
            groups: true,
            topology: self.topology != Topology::None,
            group_policies: self.has_policies,
            group_claims: self.claims.is_some(),
            drivers: Vec::new(),
            extenders: Vec::new(),
            steps: self.steps,
        }
    }

    fn begin(&mut self, size: Size) {
        let count = self.random.range(2, size.nodes.clamp(2, MOST_NODES));
        let mut objects: Vec<Value> = (0..count).map(|_| self.new_node()).collect();
        for value in ["a", "b"] {
            objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": format!("budget-{value}"), "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {BUDGET_LABEL: value}},
                    "minAvailable": self.random.pick(&[0, 1, 2, 1000]),
                },
            }));
        }
        if let Some(claims) = &mut self.claims {
            objects.extend(claims.infrastructure(&self.nodes));
        }
        objects.extend((0..count).map(|_| self.new_bound_pod()));
        self.steps.push(Step::Restart { objects });
    }

    /// Adds pods that are on their own and preempt no others.
    fn add_singles(&mut self) {
        if self.random.chance(40) {
            let objects =
                (0..self.random.range(1, 4)).map(|_| self.new_single(&priority_class_name(-5))).collect();
            self.create(objects);
        }
        self.clear_up();
    }

    /// Adds pods that may preempt others, one at a time.
    fn add_preemptors(&mut self) {
        for _ in 0..self.random.below(3) {
            let class = priority_class_name(*self.random.pick(PREEMPTORS));
            let mut pod = self.new_single(&class);
            if self.has_whole_group {
                // On any node with a member, the whole group would be the victim: kube-scheduler would choose at random.
                let node = self.random.pick(&self.nodes).clone();
                pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
            }
            self.create(vec![pod]);
            self.clear_up();
        }
    }

    /// Removes terminating pods, and pods without a node.
    fn clear_up(&mut self) {
        if self.terminates_slowly {
            self.steps.push(Step::Reap);
        }
        self.steps.push(Step::Sweep { all: true });
    }

    fn create(&mut self, objects: Vec<Value>) {
        self.steps.push(Step::Create { objects });
    }

    fn add_group(&mut self) -> Group {
        let mut group = self.new_group();
        if let Some(claims) = &mut self.claims {
            let claim = claims.add_to(&mut group.object, &mut group.templates, &self.nodes);
            claim.into_iter().for_each(|claim| self.create(vec![claim]));
        }
        self.create(vec![group.object.clone()]);
        let count = match group.min_count {
            Some(needed) => (needed + self.random.below(3)).saturating_sub(self.random.below(4) / 3).max(1),
            None => self.random.range(1, 5),
        };
        let mut objects: Vec<Value> = (0..count).map(|_| self.new_member(&mut group)).collect();
        if count > group.min_count.unwrap_or(1) {
            // The others join this one, which no scheduler tries.
            objects[0]["spec"]["schedulingGates"] = json!([{"name": "example.com/all-exist"}]);
            self.create(objects);
            let path = group.members[0].clone();
            self.patch(path, json!({"spec": {"schedulingGates": null}}));
        } else {
            self.create(objects);
        }
        group
    }

    fn change_group(&mut self, mut group: Group) {
        for _ in 0..self.random.range(1, 4) {
            self.changes += 1;
            if self.terminates_slowly && self.random.chance(40) {
                self.steps.push(Step::Reap);
            }
            match self.random.below(14) {
                0 | 1 => {
                    let node = self.new_node();
                    self.create(vec![node]);
                }
                2 | 3 if self.topology != Topology::Hosts => self.resize_node(),
                4 if self.nodes.len() > 2 => {
                    let node = self.nodes.swap_remove(self.random.below(self.nodes.len()));
                    self.steps.push(Step::Drain { node });
                }
                4..=6 => self.delete_running(),
                7 if group.members.len() > 1 => {
                    let member = group.members.swap_remove(self.random.below(group.members.len()));
                    self.delete_pod(&member);
                }
                7..=9 if group.members.len() < MOST_MEMBERS => {
                    let member = self.new_member(&mut group);
                    self.create(vec![member]);
                }
                10 => {
                    let pod = self.new_bound_pod();
                    self.create(vec![pod]);
                }
                11 if self.topology == Topology::OneRack => self.join_rack(),
                _ => self.change_min_count(&mut group),
            }
        }
        if self.claims.as_mut().is_some_and(GroupClaims::ends_group) {
            for member in std::mem::take(&mut group.members) {
                self.delete_pod(&member);
            }
            self.steps.push(Step::Delete { path: path(&group.object) });
        }
        self.running.append(&mut group.members);
    }

    fn change_min_count(&mut self, group: &mut Group) {
        let Some(old) = group.min_count else { return };
        let new = if self.random.chance(60) { old.saturating_sub(1).max(1) } else { old + 1 };
        group.min_count = Some(new);
        let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": new}}}});
        self.patch(path(&group.object), patch);
    }

    /// Puts a node into the rack.
    fn join_rack(&mut self) {
        let node = self.random.pick(&self.nodes).clone();
        self.patch(format!("{NODES}/{node}"), json!({"metadata": {"labels": {RACK: "a"}}}));
    }

    fn resize_node(&mut self) {
        let node = self.random.pick(&self.nodes).clone();
        let amounts = self.amounts();
        let status = json!({"status": {"allocatable": amounts, "capacity": amounts}});
        self.patch(format!("{NODES}/{node}/status"), status);
    }

    fn delete_running(&mut self) {
        if !self.running.is_empty() {
            let pod = self.running.swap_remove(self.random.below(self.running.len()));
            self.delete_pod(&pod);
        }
    }

    fn delete_pod(&mut self, path: &str) {
        self.steps.push(Step::Delete { path: format!("{path}?gracePeriodSeconds=0") });
    }

    fn patch(&mut self, path: String, patch: Value) {
        self.steps.push(Step::Patch { path, patch });
    }

    fn amounts(&mut self) -> Value {
        if self.topology == Topology::Hosts {
            const SIZES: [&str; 10] = ["4", "5", "6500m", "8", "10", "12500m", "16", "20", "25", "32"];
            let cpu = SIZES[self.next_node % SIZES.len()];
            return json!({"cpu": cpu, "memory": "16Gi", "pods": "40"});
        }
        if self.claims.is_some() {
            // There is room for all members, so that devices alone decide.
            return json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
        }
        json!({"cpu": self.random.pick(&["2", "3", "4"]), "memory": "16Gi", "pods": self.random.pick(&["4", "20"])})
    }

    fn new_node(&mut self) -> Value {
        let name = format!("node-{}", self.next_node);
        self.next_node += 1;
        self.nodes.push(name.clone());
        let amounts = self.amounts();
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "disk": self.random.pick(&["ssd", "ssd", "hdd"]),
                    "topology.kubernetes.io/zone": self.random.pick(&["a", "b"]),
                },
            },
            "status": {"allocatable": amounts, "capacity": amounts},
        });
        if self.topology == Topology::OneRack && self.random.chance(65) {
            node["metadata"]["labels"][RACK] = "a".into();
        }
        node
    }

    /// Spec of a pod of a priority class, which requests a few CPUs and memory.
    fn new_spec(&mut self, class: &str) -> Value {
        let cpu = *self.random.pick(&["250m", "500m", "1", "1500m", "2"]);
        let requests = json!({"cpu": cpu, "memory": self.random.pick(&["100Mi", "1Gi", "3Gi"])});
        let mut spec = json!({
            "priorityClassName": class,
            "terminationGracePeriodSeconds": if self.terminates_slowly { 30 } else { 0 },
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        });
        if self.random.chance(20) {
            spec["nodeSelector"] = json!({"disk": self.random.pick(&["ssd", "hdd"])});
        }
        spec
    }

    fn new_single(&mut self, class: &str) -> Value {
        let spec = self.new_spec(class);
        let pod = self.new_pod("pod", spec);
        self.running.push(path(&pod));
        pod
    }

    fn new_bound_pod(&mut self) -> Value {
        let mut spec = self.new_spec(&priority_class_name(-5));
        spec["nodeName"] = self.random.pick(&self.nodes).as_str().into();
        let pod = self.new_pod("bound", spec);
        self.running.push(path(&pod));
        pod
    }

    fn new_pod(&mut self, kind: &str, spec: Value) -> Value {
        let name = format!("{kind}-{}", self.next_pod);
        self.next_pod += 1;
        let mut labels = json!({});
        if self.random.chance(40) {
            labels[BUDGET_LABEL] = (*self.random.pick(&["a", "b"])).into();
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": spec,
        })
    }

    fn new_group(&mut self) -> Group {
        let name = format!("group-{}", self.next_group);
        self.next_group += 1;
        let priority = *self.random.pick(PRIORITIES);
        let mut class = priority_class_name(priority);
        let min_count = self.random.chance(75).then(|| self.random.range(1, 6));
        let policy = min_count.map_or(json!({"basic": {}}), |count| json!({"gang": {"minCount": count}}));
        let never_preempts = self.has_policies && self.random.chance(30);
        if never_preempts {
            class += NEVER;
        }
        let mut spec = json!({"schedulingPolicy": policy, "priorityClassName": class});
        if never_preempts {
            spec["preemptionPolicy"] = "Never".into();
        }
        if let Some(key) = self.topology.key().filter(|_| self.random.chance(75)) {
            spec["schedulingConstraints"] = json!({"topology": [{"key": key}]});
        }
        if self.random.chance(35) {
            spec["disruptionMode"] = json!({"all": {}});
            self.has_whole_group = true;
        }
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": POD_GROUP,
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        // If policies of groups count, members with another policy are an error.
        if !never_preempts && self.random.chance(10) {
            class += NEVER;
        }
        let kinds = *self.random.pick(&[1, 1, 1, 2, 3]);
        let templates = (0..kinds).map(|_| self.new_template(&name, &class)).collect();
        Group { object, templates, members: Vec::new(), min_count }
    }

    fn new_template(&mut self, group: &str, class: &str) -> Value {
        let mut spec = self.new_spec(class);
        if self.topology == Topology::Hosts {
            let requests = json!({"cpu": "200m", "memory": "100Mi"});
            spec["containers"][0]["resources"]["requests"] = requests;
            spec["schedulingGroup"] = json!({"podGroupName": group});
            spec.as_object_mut().map(|fields| fields.remove("nodeSelector"));
            return spec;
        }
        spec["schedulingGroup"] = json!({"podGroupName": group});
        let selector = json!({"matchLabels": {"group": group}});
        match self.random.below(10) {
            0 => {
                let key = "kubernetes.io/hostname";
                let term = json!({"labelSelector": selector, "topologyKey": key});
                spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                    json!([term]);
            }
            1 => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
                }]);
            }
            _ => {}
        }
        spec
    }

    fn new_member(&mut self, group: &mut Group) -> Value {
        let spec = self.random.pick(&group.templates).clone();
        let mut pod = self.new_pod("member", spec);
        pod["metadata"]["labels"]["group"] = group.object["metadata"]["name"].clone();
        group.members.push(path(&pod));
        pod
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(seed: u64) -> Script {
        GroupPlan::new(seed, Options::default()).script(seed, Size { nodes: 8, pods: 0, changes: 20 })
    }

    #[test]
    fn a_seed_always_generates_the_same_script_with_groups() {
        assert_eq!(script(3), script(3));
        let text = serde_json::to_string(&(0..20).map(script).collect::<Vec<_>>()).unwrap();
        for part in [
            "\"basic\"",
            "\"minCount\":6",
            "disruptionMode",
            "-never",
            "\"Never\"",
            "podAntiAffinity",
            "maxSkew",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
