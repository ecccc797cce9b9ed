//! A scheduler and an API server of Kubernetes 1.37 that serves groups of pods. There is no kubelet, and pods end as
//! soon as they are deleted.

use std::{fs, thread::sleep, time::Duration};

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_oracle::{
    components::ApiClient,
    embedded::{Embedded, Options},
};
use serde_json::{Value, json};

use super::{
    cluster::{PATIENCE, events, eventually, get_pod, wait_until_bound},
    objects::{
        NODES, PODS, PRIORITY_CLASSES, default_config, is_terminating, node, node_of, pod,
        scheduled_condition,
    },
    process::Harbormaster,
    proxy::Proxy,
    server::gates_of_groups,
};

pub const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const SCHEDULER: &str = "default-scheduler";
/// The priorities that pods and groups of tests have. There is a class of each.
const PRIORITIES: [i32; 7] = [5, 10, 15, 50, 100, 200, 500];
/// Long enough for the effects of a wrong decision to show: longer than the backoff.
const QUIET: Duration = Duration::from_millis(1500);

/// A group to create.
pub struct Group(Value);

impl Group {
    pub fn gang(name: &str, min_count: usize) -> Self {
        Self::of(name, json!({"gang": {"minCount": min_count}}))
    }

    pub fn basic(name: &str) -> Self {
        Self::of(name, json!({"basic": {}}))
    }

    fn of(name: &str, policy: Value) -> Self {
        Self(json!({"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}))
    }

    pub fn priority(mut self, priority: i32) -> Self {
        self.0["spec"]["priorityClassName"] = class(priority).into();
        self
    }

    /// Sets the resource claims of the group.
    pub fn claims(mut self, claims: Value) -> Self {
        self.0["spec"]["resourceClaims"] = claims;
        self
    }

    /// Lets the group be disrupted only as a whole.
    pub fn whole(mut self) -> Self {
        self.0["spec"]["disruptionMode"] = json!({"all": {}});
        self
    }
}

/// A pod to create.
#[derive(Clone)]
pub struct NewPod(Value);

impl NewPod {
    pub fn new(name: &str, cpu: &str) -> Self {
        Self(pod(name, SCHEDULER, json!({"cpu": cpu}), json!({"terminationGracePeriodSeconds": 0})))
    }

    pub fn of(self, group: &str) -> Self {
        self.spec("schedulingGroup", json!({"podGroupName": group}))
    }

    pub fn priority(self, priority: i32) -> Self {
        self.spec("priorityClassName", class(priority).into())
    }

    /// Binds the pod from the start.
    pub fn on(self, node: &str) -> Self {
        self.spec("nodeName", node.into())
    }

    /// Restricts the pod to one node.
    pub fn only_on(self, node: &str) -> Self {
        self.spec("nodeSelector", json!({"kubernetes.io/hostname": node}))
    }

    /// Lets the pod prefer one node.
    pub fn rather_on(self, node: &str) -> Self {
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let term = json!({"weight": 100, "preference": {"matchExpressions": [here]}});
        self.spec(
            "affinity",
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}),
        )
    }

    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets a field of the pod's container.
    pub fn container(mut self, field: &str, value: Value) -> Self {
        self.0["spec"]["containers"][0][field] = value;
        self
    }

    /// Holds the pod back with a scheduling gate.
    pub fn gated(self) -> Self {
        self.spec("schedulingGates", json!([{"name": "example.com/gate"}]))
    }
}

/// Name of the class with this priority.
fn class(priority: i32) -> String {
    format!("p{priority}")
}

pub struct GroupScene {
    cluster: Embedded,
    features: Features,
    directory: tempfile::TempDir,
    /// The scheduler's way to the API server.
    pub proxy: Proxy,
}

impl GroupScene {
    /// Starts an API server without nodes.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Starts an API server without nodes, with further feature gates.
    pub fn with(gates: &[Feature]) -> Self {
        let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
        let features = gates.iter().fold(features, |features, gate| features.with(*gate, true));
        let options = Options { minor_version: 37, features, ..Options::default() };
        let cluster = Embedded::start_with(options, |_| Ok(())).expect("the API server starts");
        let proxy = Proxy::new(&cluster);
        proxy.listen();
        let scene =
            Self { cluster, features, directory: tempfile::tempdir().expect("a temporary directory"), proxy };
        for priority in PRIORITIES {
            scene
                .create(PRIORITY_CLASSES, &json!({"metadata": {"name": class(priority)}, "value": priority}));
        }
        scene
    }

    /// Starts an API server with nodes, and a scheduler.
    pub fn started(nodes: &[(&str, &str)]) -> (Self, Harbormaster) {
        let scene = Self::new();
        nodes.iter().for_each(|(name, cpu)| scene.node(name, cpu));
        let scheduler = scene.start();
        (scene, scheduler)
    }

    pub fn start(&self) -> Harbormaster {
        self.start_with(json!({}))
    }

    /// Starts a scheduler with these fields of the configuration, and waits until it knows the cluster: it receives later
    /// pods in the order in which they are created.
    pub fn start_with(&self, fields: Value) -> Harbormaster {
        self.launch(fields, format!("--master=http://127.0.0.1:{}", self.proxy.port))
    }

    /// Starts a scheduler that does not use the proxy, which keeps the connections of schedulers that were killed.
    pub fn start_without_proxy(&self) -> Harbormaster {
        self.launch(json!({}), format!("--kubeconfig={}", self.cluster.kubeconfig().display()))
    }

    /// Starts a scheduler. `way` is the flag that locates the server.
    fn launch(&self, fields: Value, way: String) -> Harbormaster {
        let file = self.directory.path().join("c.json");
        let mut config = default_config();
        config["podInitialBackoffSeconds"] = 1.into();
        config["podMaxBackoffSeconds"] = 1.into();
        for (field, value) in fields.as_object().into_iter().flatten() {
            config[field] = value.clone();
        }
        fs::write(&file, config.to_string()).expect("the file is written");
        let args = [
            format!("--config={}", file.display()),
            way,
            format!("--feature-gates={}", gates_of_groups(self.features).join(",")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let scheduler = Harbormaster::start(&args, self.directory.path().join("log"));
        for kind in ["nodes", "pods", "podgroups.scheduling.k8s.io"] {
            scheduler.wait_for_line(&["Caches populated", &format!("kind=\"{kind}\"")]);
        }
        scheduler
    }

    pub fn client(&self) -> &ApiClient {
        self.cluster.client()
    }

    pub fn create(&self, path: &str, object: &Value) {
        self.client().post(path, object).expect("the object is created");
    }

    pub fn node(&self, name: &str, cpu: &str) {
        self.create(NODES, &node(name, json!({"kubernetes.io/hostname": name}), cpu, "4Gi", 32));
    }

    pub fn group(&self, group: Group) {
        self.create(GROUPS, &group.0);
    }

    pub fn pods(&self, pods: impl IntoIterator<Item = NewPod>) {
        pods.into_iter().for_each(|pod| self.create(PODS, &pod.0));
    }

    /// Creates pods with the same properties and waits until they are bound.
    pub fn bound_pods(&self, names: &[&str], properties: impl Fn(NewPod) -> NewPod) {
        self.pods(names.iter().map(|name| properties(NewPod::new(name, "1"))));
        self.are_bound(names);
    }

    pub fn delete_pod(&self, name: &str) {
        self.client().delete(&format!("{PODS}/{name}?gracePeriodSeconds=0")).expect("the pod is deleted");
    }

    /// Deletes a group, as a controller lets it go that protects groups with unfinished pods.
    /// Waits until the scheduler has seen it.
    pub fn delete_group(&self, name: &str) {
        let path = format!("{GROUPS}/{name}");
        self.client().delete(&path).expect("the group is deleted");
        let patch = json!({"metadata": {"finalizers": null}});
        self.client().merge_patch(&path, &patch).expect("the group is released");
        // Pods come by another watch. A pod that overtakes the deletion would be tried.
        sleep(QUIET);
    }

    pub fn set_min_count(&self, group: &str, min_count: usize) {
        let patch = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}});
        self.client().merge_patch(&format!("{GROUPS}/{group}"), &patch).expect("the group is changed");
    }

    /// Removes the pod's scheduling gate.
    pub fn ungate(&self, name: &str) {
        let patch = json!({"spec": {"schedulingGates": null}});
        self.client().merge_patch(&format!("{PODS}/{name}"), &patch).expect("the pod is changed");
    }

    // --- assertions ---

    /// Waits until all pods are bound.
    pub fn are_bound(&self, names: &[&str]) {
        names.iter().for_each(|name| drop(wait_until_bound(self.client(), name)));
    }

    /// Waits until all pods were found to be unschedulable, and asserts that they have no nodes.
    pub fn are_unschedulable(&self, names: &[&str]) {
        for name in names {
            eventually(&format!("{name} is unschedulable"), PATIENCE, || {
                let pod = get_pod(self.client(), name)?;
                let [status, reason, _] = scheduled_condition(&pod)?;
                (status == "False" && reason == "Unschedulable").then_some(())
            });
            assert!(self.node_of(name).is_none(), "{name} has a node");
        }
    }

    /// Asserts that the pods are left alone: after a while, they have neither nodes nor conditions of an attempt.
    pub fn are_left_alone(&self, names: &[&str]) {
        sleep(QUIET);
        for name in names {
            let pod = get_pod(self.client(), name).expect("the pod exists");
            let tried = scheduled_condition(&pod).is_some_and(|[_, reason, _]| reason != "SchedulingGated");
            assert!(node_of(&pod).is_none() && !tried, "{pod}");
        }
    }

    /// Asserts that after a while the pods still have no nodes.
    pub fn remain_pending(&self, names: &[&str]) {
        sleep(QUIET);
        names.iter().for_each(|name| assert!(self.node_of(name).is_none(), "{name} has a node"));
    }

    /// Waits until all pods were preempted by a group.
    pub fn are_preempted(&self, names: &[&str]) {
        self.are_preempted_by("podgroup", names);
    }

    /// Waits until all pods are gone, and events tell that a preemptor of this kind evicted them.
    pub fn are_preempted_by(&self, kind: &str, names: &[&str]) {
        for name in names {
            eventually(&format!("{name} is gone"), PATIENCE, || {
                get_pod(self.client(), name).is_none().then_some(())
            });
            eventually(&format!("an event about {name}"), PATIENCE, || {
                let note = events(self.client(), name, "Preempted").first()?["note"].as_str()?.to_owned();
                assert!(note.starts_with(&format!("Preempted by {kind} ")), "{note}");
                Some(())
            });
        }
    }

    /// Asserts that the pods keep their nodes and are not evicted.
    pub fn are_spared(&self, names: &[&str]) {
        sleep(QUIET);
        for name in names {
            let pod = get_pod(self.client(), name).expect("the pod exists");
            assert!(node_of(&pod).is_some() && !is_terminating(&pod), "{pod}");
        }
    }

    pub fn node_of(&self, name: &str) -> Option<String> {
        node_of(&get_pod(self.client(), name).expect("the pod exists")).map(str::to_owned)
    }

    /// Waits until the group has a condition with this status and this reason. Returns its message.
    pub fn has_condition(&self, group: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{group} is {reason}"), PATIENCE, || {
            let group = self.client().get(&format!("{GROUPS}/{group}")).ok()?;
            let condition = group["status"]["conditions"].get(0)?;
            assert_eq!(condition["type"], "PodGroupInitiallyScheduled");
            let is_so = condition["status"] == status && condition["reason"] == reason;
            is_so.then(|| condition["message"].as_str().unwrap_or_default().to_owned())
        })
    }
}
