//! A scheduler connected to the API server through a proxy that injects faults.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use harbormaster_oracle::components::{ApiClient, Endpoint, Error};
use serde_json::{Value, json};

use super::{
    cluster::{PATIENCE, create_priority_classes, eventually, get_pod, wait_until_bound},
    objects::{NODES, PODS, config, is_terminating, node, node_of, pod},
    pod_watch::PodWatch,
    process::Harbormaster,
    proxy::{Fault, Proxy, Record, Request},
    server::{Cluster, Server},
};

/// Names of all watched resources, as they appear in the log.
const WATCHED: [&str; 17] = [
    "nodes",
    "pods",
    "namespaces",
    "services",
    "replicationcontrollers",
    "replicasets",
    "statefulsets",
    "poddisruptionbudgets",
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceslices.resource.k8s.io",
];

/// One test's part of the cluster: a scheduler name, nodes with a label, and a proxy.
pub struct Scene {
    pub name: &'static str,
    pub proxy: Proxy,
    pub client: ApiClient,
    pub watch: PodWatch,
    cluster: Arc<Cluster>,
    /// Number of schedulers started.
    started: AtomicUsize,
}

impl Scene {
    /// Creates a scene with one node of 2 CPUs.
    pub fn new(server: Server, name: &'static str) -> Self {
        let scene = Self::on(server.shared(), name);
        create_priority_classes(&scene.client);
        scene.create_node("node", "2", "a");
        scene
    }

    /// Creates a scene without nodes.
    pub fn on(cluster: Arc<Cluster>, name: &'static str) -> Self {
        let client = cluster.client().clone();
        let (proxy, watch) = (Proxy::new(&cluster), PodWatch::start(&client));
        Self { name, proxy, watch, client, cluster, started: AtomicUsize::new(0) }
    }

    pub fn create_node(&self, name: &str, cpu: &str, rack: &str) {
        let labels = json!({"scene": self.name, "rack": rack});
        let node = node(&self.full(name), labels, cpu, "4Gi", 100);
        self.client.post(NODES, &node).expect("the node is created");
    }

    /// Creates a pod for this scene's nodes.
    pub fn create(&self, name: &str, cpu: &str) {
        self.create_for(name, cpu, json!({"scene": self.name}));
    }

    pub fn create_for(&self, name: &str, cpu: &str, node_selector: Value) {
        let spec = json!({"nodeSelector": node_selector});
        let pod = pod(&self.full(name), self.name, json!({"cpu": cpu}), spec);
        self.client.post(PODS, &pod).expect("the pod is created");
    }

    /// Creates a pod for the nodes of one rack, with or without a priority class.
    pub fn create_ranked(&self, name: &str, class: Option<&str>, cpu: &str, rack: &str) {
        let spec = json!({
            "nodeSelector": {"scene": self.name, "rack": rack},
            "priorityClassName": class,
        });
        let pod = pod(&self.full(name), self.name, json!({"cpu": cpu}), spec);
        self.client.post(PODS, &pod).expect("the pod is created");
    }

    /// Creates a pod that is already bound to a node and has a grace period of `seconds`.
    pub fn place(&self, name: &str, class: Option<&str>, cpu: &str, node: &str, seconds: u32) {
        let pod = self.placed(name, class, cpu, node, seconds);
        self.client.post(PODS, &pod).expect("the pod is created");
    }

    /// Returns the pod that [`Self::place`] creates.
    pub fn placed(&self, name: &str, class: Option<&str>, cpu: &str, node: &str, seconds: u32) -> Value {
        let spec = json!({
            "nodeName": self.full(node),
            "priorityClassName": class,
            "terminationGracePeriodSeconds": seconds,
        });
        pod(&self.full(name), self.name, json!({"cpu": cpu}), spec)
    }

    /// Returns the names of this scene's evicted pods, without the scene's prefix.
    pub fn evicted(&self) -> Vec<String> {
        let prefix = self.full("");
        self.watch.evicted().iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        get_pod(&self.client, &self.full(name))
    }

    /// Waits until the pod is being deleted, and returns it.
    pub fn is_going(&self, name: &str) -> Value {
        eventually(&format!("{name} is being deleted"), PATIENCE, || self.get(name).filter(is_terminating))
    }

    /// Waits until the pod is nominated to a node, and returns the node.
    pub fn is_nominated(&self, name: &str) -> String {
        eventually(&format!("{name} is nominated"), PATIENCE, || {
            self.get(name)?["status"]["nominatedNodeName"].as_str().map(str::to_owned)
        })
    }

    /// Removes a terminated pod, as a kubelet does. The server may have removed it in the meantime.
    pub fn finish(&self, name: &str) {
        let path = format!("{PODS}/{}?gracePeriodSeconds=0", self.full(name));
        match self.client.delete(&path) {
            Ok(_) | Err(Error::Refused { status: 404, .. }) => {}
            Err(error) => panic!("the pod cannot be removed: {error}"),
        }
    }

    /// Returns the name with the scene's prefix, which makes it unique in the cluster.
    pub fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.cluster
    }

    pub fn start(&self) -> Harbormaster {
        self.start_with(&config(self.name), format!("--master=http://127.0.0.1:{}", self.proxy.port))
    }

    /// Starts Harbormaster with the given configuration. `way` is the flag that locates the server.
    pub fn start_with(&self, config: &Value, way: String) -> Harbormaster {
        self.start_with_flags(config, vec![way])
    }

    /// Starts Harbormaster with the given configuration and flags, one of which locates the server.
    pub fn start_with_flags(&self, config: &Value, mut flags: Vec<String>) -> Harbormaster {
        // Each log has its own name, because several processes may run, at the same time or one after another.
        let started = self.started.fetch_add(1, Ordering::Relaxed);
        let path = self.cluster.directory().join(format!("{}-{started}.json", self.name));
        std::fs::write(&path, config.to_string()).expect("the configuration is written");
        flags.push(format!("--config={}", path.display()));
        Harbormaster::start(&flags, path.with_extension("log"))
    }

    /// Makes the proxy listen, starts Harbormaster, and waits until Harbormaster's watches are open.
    pub fn started(&self) -> Harbormaster {
        self.proxy.listen();
        let harbormaster = self.start();
        self.wait_until_watched(&harbormaster);
        harbormaster
    }

    pub fn wait_until_watched(&self, harbormaster: &Harbormaster) {
        for kind in WATCHED {
            harbormaster.wait_for_line(&["Caches populated", &format!("kind=\"{kind}\"")]);
        }
    }

    pub fn is_bound(&self, name: &str) {
        wait_until_bound(&self.client, &self.full(name));
    }

    /// Creates a pod and asserts that a single request binds it.
    pub fn another_is_bound(&self, name: &str) {
        self.create(name, "10m");
        self.is_bound(name);
        self.has_statuses(name, &[201]);
    }

    pub fn is_pending(&self, name: &str) -> bool {
        get_pod(&self.client, &self.full(name)).is_some_and(|pod| node_of(&pod).is_none())
    }

    pub fn binds(&self, name: &str) -> Vec<Record> {
        let name = self.full(name);
        self.proxy.records(|request| request.is_bind_of(&name))
    }

    /// Asserts the statuses of the requests to bind a pod. The proxy records a request a moment after the API server
    /// has handled it.
    pub fn has_statuses(&self, name: &str, expected: &[u16]) {
        let name = self.full(name);
        self.answers(expected, |request| request.is_bind_of(&name));
    }

    /// Asserts the statuses of the requests that match.
    pub fn answers(&self, expected: &[u16], matches: impl Fn(&Request) -> bool) {
        eventually("the proxy has recorded all requests", PATIENCE, || {
            (self.proxy.count(&matches) >= expected.len()).then_some(())
        });
        assert_eq!(statuses(&self.proxy.records(&matches)), expected);
    }

    /// Asserts that the last matching request got the status `answered`, and that all earlier matching requests (at
    /// least one) got `refused`.
    pub fn answers_end_with(&self, refused: u16, answered: u16, matches: impl Fn(&Request) -> bool) {
        eventually(&format!("the last request has the status {answered}"), PATIENCE, || {
            let statuses = statuses(&self.proxy.records(&matches));
            (statuses.last() == Some(&answered)).then_some(())
        });
        let statuses = statuses(&self.proxy.records(&matches));
        let (_, before) = statuses.split_last().expect("some records");
        assert!(!before.is_empty() && before.iter().all(|status| *status == refused), "{statuses:?}");
    }

    pub fn fault_binds(&self, name: &str, times: usize, fault: Fault) {
        let name = self.full(name);
        self.proxy.fault(times, fault, move |request| request.is_bind_of(&name));
    }

    /// Creates pods that request 100m CPU; twenty fill a node.
    pub fn create_many(&self, count: usize) {
        for index in 0..count {
            self.create(&format!("many-{index}"), "100m");
        }
    }

    /// Waits until all pods of [`Self::create_many`] are bound, and asserts that each was bound once and no node is
    /// overfull.
    pub fn many_are_bound(&self, count: usize) {
        let prefix = self.full("many-");
        let nodes = eventually(&format!("{count} pods are bound"), PATIENCE, || {
            let list = self.client.get(PODS).expect("the API server answers");
            let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
            for pod in list["items"].as_array().into_iter().flatten() {
                let is_one = pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&prefix));
                if let (true, Some(node)) = (is_one, node_of(pod)) {
                    *nodes.entry(node.to_owned()).or_default() += 1;
                }
            }
            (nodes.values().sum::<usize>() == count).then_some(nodes)
        });
        assert!(nodes.values().all(|pods| *pods <= 20), "{nodes:?}");
        // The watch may lag behind the list.
        let times = |index: usize| self.watch.times_bound(&format!("{prefix}{index}"));
        eventually("the watch reports every binding", PATIENCE, || {
            (0..count).all(|i| times(i) > 0).then_some(())
        });
        assert_eq!(self.watch.moved(), Vec::<String>::new());
        for index in 0..count {
            assert_eq!(times(index), 1);
        }
    }

    /// Asserts that no pod changed its node and that the process exits successfully. Returns its log.
    pub fn ends_well(self, harbormaster: Harbormaster) -> String {
        let log = harbormaster.ends_well();
        assert_eq!(self.watch.moved(), Vec::<String>::new());
        log
    }
}

pub fn statuses(records: &[Record]) -> Vec<u16> {
    records.iter().map(|record| record.status).collect()
}
