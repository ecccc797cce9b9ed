//! A stand-in for the kubelets of all nodes: pods start, finish and go.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use harbormaster_api::args::GoDuration;
use harbormaster_apiserver::{Event, EventType, Expired, Failure, Store, Watch};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::{
    Pace,
    events::{Budget, Events, Kind, Source, reference},
    fields::{controller, is_ending, is_finished, list, name, namespace, now, set_condition, text, uid},
    network::{Network, host_address},
    nodes,
    sandbox::{SandboxError, carry_on},
};

/// The annotation of a pod that may end: how long it runs, as in `90s` or `1m30s`.
pub const RUN_FOR: &str = "sandbox.harbormaster.dev/run-for";

/// Of how many pods in a row kubelets tell what they do to their containers.
const MOST_TOLD: f64 = 1000.0;
/// Of how many more every second.
const TOLD_PER_SECOND: f64 = 10.0;

/// What a kubelet does to a pod next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Start,
    Finish,
    End,
}

#[derive(Debug)]
pub(crate) struct Kubelet {
    store: Store,
    pods: Watch,
    nodes: Watch,
    network: Network,
    /// How many nodes there have been.
    node_count: usize,
    pace: Pace,
    /// What is to be done when. The number tells apart what is due at the same time.
    agenda: BTreeMap<(Instant, u64), Due>,
    /// By UID: what the agenda holds for a pod.
    planned: HashMap<String, Act>,
    /// How many entries the agenda has had.
    entries: u64,
    events: Events,
    told: Budget,
}

#[derive(Debug)]
struct Due {
    namespace: String,
    name: String,
    uid: String,
    act: Act,
}

impl Kubelet {
    pub(crate) fn new(store: &Store, pace: Pace) -> Result<Self, SandboxError> {
        let mut network = Network::new();
        let (nodes, _) = store.list("nodes", "", "", "").map_err(|e| SandboxError::Store(e.to_string()))?;
        // All that have a range, before the first that has none gets one.
        nodes.iter().for_each(|node| network.add_node(&node.value()));
        Ok(Self {
            store: store.clone(),
            pods: watch(store, "pods")?,
            nodes: watch(store, "nodes")?,
            network,
            node_count: nodes.len(),
            pace,
            agenda: BTreeMap::new(),
            planned: HashMap::new(),
            entries: 0,
            events: Events::new(store),
            told: Budget::new(MOST_TOLD, TOLD_PER_SECOND),
        })
    }

    /// Ends with its task only.
    pub(crate) async fn run(mut self) {
        loop {
            let due = self.agenda.keys().next().map(|(at, _)| *at);
            let wake = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Pods have the addresses of their nodes.
            tokio::select! {
                biased;
                events = self.nodes.next() => self.take_in_nodes(events),
                events = self.pods.next() => self.take_in(events),
                () = wake => self.act(),
            }
        }
    }

    fn take_in(&mut self, events: Result<Vec<Event>, Expired>) {
        let Ok(events) = events else {
            match watch(&self.store, "pods") {
                Ok(watch) => self.pods = watch,
                Err(error) => tracing::error!(err = %error, "Pods cannot be watched"),
            }
            return;
        };
        for Event { event, object } in events {
            let pod = object.value();
            if event == EventType::Deleted {
                self.planned.remove(uid(&pod));
            } else {
                self.plan(&pod);
            }
            if event == EventType::Deleted || is_finished(&pod) {
                self.network.remove_pod(uid(&pod));
            } else {
                self.network.add_pod(&pod);
            }
        }
    }

    fn take_in_nodes(&mut self, events: Result<Vec<Event>, Expired>) {
        let Ok(events) = events else {
            match watch(&self.store, "nodes") {
                Ok(watch) => self.nodes = watch,
                Err(error) => tracing::error!(err = %error, "Nodes cannot be watched"),
            }
            return;
        };
        for Event { event, object } in events {
            let node = object.value();
            match event {
                EventType::Deleted => self.network.remove_node(name(&node)),
                EventType::Added | EventType::Modified => self.register(&node),
            }
        }
    }

    /// Gives a node what it lacks: a status, and a range of addresses.
    fn register(&mut self, node: &Value) {
        self.network.add_node(node);
        if !nodes::is_complete(node) {
            self.node_count += 1;
            let number = self.node_count;
            let change = |node: &mut Value| nodes::complete(node, number);
            carry_on("The kubelet", self.store.update_status("nodes", "", name(node), change).map(|_| ()));
        }
        if text(node, "/spec/podCIDR").is_empty()
            && let Some(range) = self.network.free_range()
        {
            let change = |node: &mut Value| {
                if text(node, "/spec/podCIDR").is_empty() {
                    node["spec"]["podCIDR"] = range.as_str().into();
                    node["spec"]["podCIDRs"] = json!([range]);
                }
            };
            match self.store.update("nodes", "", name(node), change) {
                Ok(node) => self.network.add_node(&node.value()),
                Err(failure) => carry_on("The kubelet", Err(failure)),
            }
        }
    }

    fn plan(&mut self, pod: &Value) {
        let Some((act, delay)) = self.next(pod) else { return };
        if self.planned.insert(uid(pod).to_owned(), act) == Some(act) {
            return;
        }
        self.entries += 1;
        let due = Due {
            namespace: namespace(pod).to_owned(),
            name: name(pod).to_owned(),
            uid: uid(pod).to_owned(),
            act,
        };
        self.agenda.insert((Instant::now() + delay, self.entries), due);
    }

    fn next(&self, pod: &Value) -> Option<(Act, Duration)> {
        let node = text(pod, "/spec/nodeName");
        if node.is_empty() {
            return None;
        }
        if is_ending(pod) {
            return Some((Act::End, self.pace.stop));
        }
        match text(pod, "/status/phase") {
            // Nobody speaks for a node that does not exist.
            "Pending" if self.store.get("nodes", "", node).is_ok() => Some((Act::Start, self.pace.start)),
            "Running" => Some((Act::Finish, self.run_time(pod)?)),
            _ => None,
        }
    }

    /// How long a pod runs, if it may end by itself.
    fn run_time(&self, pod: &Value) -> Option<Duration> {
        if text(pod, "/spec/restartPolicy") == "Always" {
            return None;
        }
        let annotation = pod.pointer("/metadata/annotations").and_then(|all| all.get(RUN_FOR)?.as_str());
        match annotation.map(str::parse::<GoDuration>) {
            Some(Ok(given)) => Some(given.to_std()),
            Some(Err(error)) => {
                tracing::warn!(pod = name(pod), err = %error, "The annotation {RUN_FOR} is no duration");
                None
            }
            None => controller(pod).filter(|owner| owner["kind"] == "Job").map(|_| self.pace.run_for),
        }
    }

    /// Does everything that is due.
    fn act(&mut self) {
        let now = Instant::now();
        while let Some(first) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let due = first.remove();
            // Another plan may have taken its place.
            if self.planned.get(&due.uid) != Some(&due.act) {
                continue;
            }
            let done = match due.act {
                Act::End => self.end(&due),
                Act::Start => self.start(&due),
                Act::Finish => self.change(&due, finish).map(|_| ()),
            };
            carry_on("The kubelet", done);
        }
    }

    fn start(&mut self, due: &Due) -> Result<(), Failure> {
        let pod = self.store.get("pods", &due.namespace, &due.name)?.value();
        let node = self.store.get("nodes", "", text(&pod, "/spec/nodeName"))?.value();
        if uid(&pod) != due.uid || is_ending(&pod) || is_finished(&pod) {
            return Ok(());
        }
        let host = host_address(&node);
        let address = match pod["spec"]["hostNetwork"] == true {
            true => host.to_owned(),
            false => self.network.address(&pod),
        };
        let started = self.change(due, |pod| start(pod, &address, host))?;
        self.tell_start(&started);
        Ok(())
    }

    fn end(&mut self, due: &Due) -> Result<(), Failure> {
        let pod = match self.store.get("pods", &due.namespace, &due.name) {
            Ok(pod) => pod.value(),
            Err(_) => return Ok(()),
        };
        if uid(&pod) != due.uid {
            return Ok(());
        }
        if text(&pod, "/status/phase") == "Running" && self.told.spend() {
            for container in list(&pod, "/spec/containers") {
                let message = format!("Stopping container {}", text(container, "/name"));
                self.tell(&pod, "containers", container, "Killing", &message);
            }
        }
        self.store.delete("pods", &due.namespace, &due.name, Some(0))
    }

    /// Changes the status of the pod that is due, unless it is being deleted or another one by now.
    fn change(&self, due: &Due, change: impl Fn(&mut Value)) -> Result<Value, Failure> {
        let change = |pod: &mut Value| {
            if uid(pod) == due.uid && !is_ending(pod) {
                change(pod);
            }
        };
        let changed = self.store.update_status("pods", &due.namespace, &due.name, change);
        changed.map(|pod| pod.value())
    }

    /// Tells what kubelets tell of containers that start: of so many pods only, since each has at least three events.
    fn tell_start(&mut self, pod: &Value) {
        if text(pod, "/status/phase") != "Running" || !self.told.spend() {
            return;
        }
        for field in ["initContainers", "containers"] {
            for container in list(pod, &format!("/spec/{field}")) {
                let image = text(container, "/image");
                let pulled = format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                );
                self.tell(pod, field, container, "Pulled", &pulled);
                self.tell(pod, field, container, "Created", "Container created");
                self.tell(pod, field, container, "Started", "Container started");
            }
        }
    }

    fn tell(&self, pod: &Value, field: &str, container: &Value, reason: &str, message: &str) {
        let mut about = reference(pod);
        about["fieldPath"] = format!("spec.{field}{{{}}}", text(container, "/name")).into();
        let source = Source { component: "kubelet", host: text(pod, "/spec/nodeName") };
        self.events.tell_about(source, &about, Kind::Normal, reason, message);
    }
}

fn watch(store: &Store, resource: &str) -> Result<Watch, SandboxError> {
    store.watch(resource, "", "", "").map_err(|e| SandboxError::Store(e.to_string()))
}

fn start(pod: &mut Value, ip: &str, host_ip: &str) {
    if is_finished(pod) {
        return;
    }
    let started = now();
    let running = json!({"running": {"startedAt": started}});
    let containers = containers(pod, "/spec/containers", true, |_| running.clone());
    let done = json!({"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started});
    let done = json!({"terminated": done});
    let first = containers_of(pod, "/spec/initContainers", |container| {
        // Sidecars run on.
        if text(container, "/restartPolicy") == "Always" { running.clone() } else { done.clone() }
    });
    let status = &mut pod["status"];
    status["phase"] = "Running".into();
    status["startTime"] = started.into();
    status["podIP"] = ip.into();
    status["podIPs"] = json!([{"ip": ip}]);
    status["hostIP"] = host_ip.into();
    status["hostIPs"] = json!([{"ip": host_ip}]);
    status["containerStatuses"] = containers;
    if let Some(first) = first {
        status["initContainerStatuses"] = first;
    }
    for condition in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
        set_condition(pod, condition, true, "", "");
    }
}

fn finish(pod: &mut Value) {
    if is_finished(pod) {
        return;
    }
    let began = pod["status"]["startTime"].clone();
    let state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": now()}});
    pod["status"]["containerStatuses"] = containers(pod, "/spec/containers", false, |_| state.clone());
    pod["status"]["phase"] = "Succeeded".into();
    for condition in ["Ready", "ContainersReady"] {
        set_condition(pod, condition, false, "PodCompleted", "");
    }
}

fn containers_of(pod: &Value, pointer: &str, state: impl Fn(&Value) -> Value) -> Option<Value> {
    if list(pod, pointer).is_empty() { None } else { Some(containers(pod, pointer, true, state)) }
}

fn containers(pod: &Value, pointer: &str, ready: bool, state: impl Fn(&Value) -> Value) -> Value {
    let status = |container: &Value| {
        let name = text(container, "/name");
        json!({
            "name": name, "image": container["image"], "imageID": format!("sandbox://{}", text(container, "/image")),
            "containerID": format!("sandbox://{}/{name}", uid(pod)), "restartCount": 0, "ready": ready,
            "started": ready, "state": state(container), "lastState": {},
        })
    };
    list(pod, pointer).iter().map(status).collect()
}
