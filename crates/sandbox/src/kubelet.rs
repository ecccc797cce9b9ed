//! Stand-in for the kubelets of all nodes: pods start, fail, finish and disappear, unless their node is stopped.
//!
//! Reading order: `plan` (the next step, according to a pod's status and annotations), `status` (the status to write),
//! `leases`.

mod leases;
mod plan;
mod status;

use std::collections::{BTreeMap, HashMap, HashSet};

use harbormaster_api::Timestamp;
use harbormaster_apiserver::{Event, EventType, Expired, Failure, Store, Watch};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

pub use self::plan::{FAIL_AFTER, READY_AFTER, RUN_FOR};
use self::{
    leases::Leases,
    plan::{Action, NodeState, Step},
};
use crate::{
    Clock, Pace,
    events::{Budget, Events, Kind, Source, reference},
    fields::{annotation, condition, is_finished, list, name, namespace, text, uid},
    network::{Network, host_address},
    nodes,
    sandbox::{SandboxError, carry_on},
};

/// Annotation that, if `true`, stops a node as if its power had been cut.
pub const STOPPED: &str = "sandbox.harbormaster.dev/stopped";

/// Maximum number of pods in a burst for which kubelets send events about containers.
const MOST_TOLD: f64 = 1000.0;
/// Number of further pods per second for which kubelets send these events.
const TOLD_PER_SECOND: f64 = 10.0;

#[derive(Debug)]
pub(crate) struct Kubelet {
    store: Store,
    pods: Watch,
    nodes: Watch,
    network: Network,
    /// Highest node number so far. A node's number determines its address.
    node_count: usize,
    /// Nodes that are not ready.
    troubled: HashMap<String, NodeState>,
    /// Nodes that are stopped by their annotation.
    stopped: HashSet<String>,
    leases: Leases,
    pace: Pace,
    clock: Clock,
    /// Entries by due time. The number distinguishes entries that are due at the same time.
    agenda: BTreeMap<(Timestamp, u64), AgendaEntry>,
    /// Step that the agenda contains for each pod. Keyed by pod UID.
    planned: HashMap<String, Step>,
    /// Number of agenda entries so far.
    entries: u64,
    events: Events,
    told: Budget,
}

#[derive(Debug)]
struct AgendaEntry {
    namespace: String,
    name: String,
    uid: String,
    step: Step,
}

impl Kubelet {
    pub(crate) fn new(store: &Store, pace: Pace, clock: Clock) -> Result<Self, SandboxError> {
        let mut network = Network::new();
        let (nodes, _) = store.list("nodes", "", "", "").map_err(|e| SandboxError::Store(e.to_string()))?;
        // Nodes with a range are recorded before the first node without one gets a range.
        nodes.iter().for_each(|node| network.add_node(&node.value()));
        Ok(Self {
            store: store.clone(),
            pods: watch(store, "pods")?,
            nodes: watch(store, "nodes")?,
            network,
            node_count: nodes.len(),
            troubled: HashMap::new(),
            stopped: HashSet::new(),
            leases: Leases::new(store),
            pace,
            clock,
            agenda: BTreeMap::new(),
            planned: HashMap::new(),
            entries: 0,
            events: Events::new(store),
            told: Budget::new(MOST_TOLD, TOLD_PER_SECOND),
        })
    }

    /// Runs the kubelets. Never returns; it ends only when its task is aborted.
    pub(crate) async fn run(mut self) {
        loop {
            let due = self.agenda.keys().next().map(|(at, _)| *at);
            let lease = async {
                match self.leases.next() {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Nodes come first, because the addresses of pods come from their nodes.
            tokio::select! {
                biased;
                events = self.nodes.next() => self.take_in_nodes(events),
                events = self.pods.next() => self.take_in(events),
                () = self.clock.reaches(due) => self.act(),
                () = lease => self.renew_leases(),
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
                EventType::Deleted => {
                    self.network.remove_node(name(&node));
                    self.troubled.remove(name(&node));
                    self.stopped.remove(name(&node));
                    carry_on("The kubelet", self.leases.remove(name(&node)));
                }
                EventType::Added | EventType::Modified => self.register(&node),
            }
        }
    }

    /// Adds the status, address range and lease that a node does not have yet.
    fn register(&mut self, node: &Value) {
        self.network.add_node(node);
        self.note_state(node);
        if !nodes::is_complete(node) {
            self.node_count += 1;
            let (number, version) = (self.node_count, self.store.kubernetes_version());
            let change = |node: &mut Value| nodes::complete(node, number, &version);
            carry_on("The kubelet", self.store.update_status("nodes", "", name(node), change).map(|_| ()));
        }
        if self.node_state(name(node)) != NodeState::Silent {
            carry_on("The kubelet", self.leases.add(node, Instant::now()));
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

    /// Records the state of a node. If the state has changed, replans the steps of the node's pods.
    fn note_state(&mut self, node: &Value) {
        let name = name(node);
        let is_stopped = is_stopped(node);
        let ready = condition(node, "Ready").map_or("True", |ready| text(ready, "/status"));
        let state = match ready {
            _ if is_stopped => NodeState::Silent,
            "True" => NodeState::Ready,
            "False" => NodeState::NotReady,
            _ => NodeState::Silent,
        };
        if is_stopped {
            self.stopped.insert(name.to_owned());
        } else if self.stopped.remove(name) {
            let revived = self.store.update_status("nodes", "", name, nodes::revive);
            carry_on("The kubelet", revived.map(|_| ()));
        }
        let before = self.node_state(name);
        match state {
            NodeState::Ready => self.troubled.remove(name),
            state => self.troubled.insert(name.to_owned(), state),
        };
        if before != state {
            self.plan_all_on(name);
        }
    }

    /// Replans the next steps of all pods on a node, because the node's state has changed.
    fn plan_all_on(&mut self, node: &str) {
        let pods = self.store.list("pods", "", "", &format!("spec.nodeName={node}"));
        for pod in pods.map(|(pods, _)| pods).unwrap_or_default() {
            let pod = pod.value();
            self.planned.remove(uid(&pod));
            self.plan(&pod);
        }
    }

    fn node_state(&self, node: &str) -> NodeState {
        self.troubled.get(node).copied().unwrap_or(NodeState::Ready)
    }

    fn renew_leases(&mut self) {
        let troubled = &self.troubled;
        let is_silent = |node: &str| troubled.get(node) == Some(&NodeState::Silent);
        carry_on("The kubelet", self.leases.renew_due(Instant::now(), is_silent));
    }

    fn plan(&mut self, pod: &Value) {
        let Some((step, delay)) = self.next(pod) else { return };
        if self.planned.insert(uid(pod).to_owned(), step) == Some(step) {
            return;
        }
        self.entries += 1;
        let due = AgendaEntry {
            namespace: namespace(pod).to_owned(),
            name: name(pod).to_owned(),
            uid: uid(pod).to_owned(),
            step,
        };
        self.agenda.insert((self.clock.now() + delay, self.entries), due);
    }

    fn next(&self, pod: &Value) -> Option<(Step, std::time::Duration)> {
        let node = text(pod, "/spec/nodeName");
        let state = match self.node_state(node) {
            NodeState::Ready if !node.is_empty() && self.store.get("nodes", "", node).is_err() => {
                NodeState::Missing
            }
            state => state,
        };
        plan::next(pod, state, self.pace)
    }

    /// Does everything that is due.
    fn act(&mut self) {
        let now = self.clock.now();
        while let Some(first) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let due = first.remove();
            // Another plan may have replaced this entry.
            if self.planned.get(&due.uid) == Some(&due.step) {
                carry_on("The kubelet", self.carry_out(&due));
            }
        }
    }

    fn carry_out(&mut self, due: &AgendaEntry) -> Result<(), Failure> {
        let pod = self.store.get("pods", &due.namespace, &due.name)?.value();
        // The pod may have been replaced by now, or its plan may be out of date.
        if uid(&pod) != due.uid || self.next(&pod).is_none_or(|(step, _)| step != due.step) {
            return Ok(());
        }
        match due.step.act {
            Action::Start => self.start(due, &pod),
            Action::Ready => self.change(due, |pod| status::set_ready(pod, true)).map(|_| ()),
            Action::Unready => {
                let changed = self.change(due, |pod| status::set_ready(pod, false))?;
                self.tell_unready(&changed);
                Ok(())
            }
            Action::Fail => {
                let failed = self.change(due, status::fail)?;
                self.tell_failure(&failed);
                Ok(())
            }
            Action::Restart => {
                let restarted = self.change(due, status::restart)?;
                self.tell_start(&restarted);
                Ok(())
            }
            Action::Finish => self.change(due, status::finish).map(|_| ()),
            Action::End => self.end(&pod),
        }
    }

    fn start(&mut self, due: &AgendaEntry, pod: &Value) -> Result<(), Failure> {
        let node = self.store.get("nodes", "", text(pod, "/spec/nodeName"))?.value();
        let host = host_address(&node);
        let address = match pod["spec"]["hostNetwork"] == true {
            true => host.to_owned(),
            false => self.network.address(pod),
        };
        let is_ready = self.node_state(name(&node)) == NodeState::Ready;
        let started = self.change(due, |pod| status::start(pod, &address, host, is_ready))?;
        self.tell_start(&started);
        if !plan::is_ready_at_once(&started) {
            self.tell_unready(&started);
        }
        Ok(())
    }

    fn end(&mut self, pod: &Value) -> Result<(), Failure> {
        if text(pod, "/status/phase") == "Running" && self.told.spend() {
            for container in list(pod, "/spec/containers") {
                let message = format!("Stopping container {}", text(container, "/name"));
                self.tell(pod, "containers", container, Kind::Normal, "Killing", &message);
            }
        }
        self.store.delete("pods", namespace(pod), name(pod), Some(0))
    }

    /// Changes the status of an entry's pod, unless the pod's plan is out of date.
    fn change(&self, due: &AgendaEntry, change: impl Fn(&mut Value)) -> Result<Value, Failure> {
        let change = |pod: &mut Value| {
            if uid(pod) == due.uid && self.next(pod).is_some_and(|(step, _)| step == due.step) {
                change(pod);
            }
        };
        let changed = self.store.update_status("pods", &due.namespace, &due.name, change);
        changed.map(|pod| pod.value())
    }

    /// Sends the events about a pod's starting containers. The number of pods with such events is limited, because each
    /// of these pods causes at least three events.
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
                self.tell(pod, field, container, Kind::Normal, "Pulled", &pulled);
                self.tell(pod, field, container, Kind::Normal, "Created", "Container created");
                self.tell(pod, field, container, Kind::Normal, "Started", "Container started");
            }
        }
    }

    /// Sends events about containers that are waiting for their restart.
    fn tell_failure(&mut self, pod: &Value) {
        if !status::is_backing_off(pod) || !self.told.spend() {
            return;
        }
        for container in list(pod, "/spec/containers") {
            let message = format!(
                "Back-off restarting failed container {} in pod {}_{}({})",
                text(container, "/name"),
                name(pod),
                namespace(pod),
                uid(pod)
            );
            self.tell(pod, "containers", container, Kind::Warning, "BackOff", &message);
        }
    }

    fn tell_unready(&mut self, pod: &Value) {
        if !self.told.spend() {
            return;
        }
        for container in list(pod, "/spec/containers") {
            let message =
                format!("Readiness probe failed: simulated because of the annotation {READY_AFTER}");
            self.tell(pod, "containers", container, Kind::Warning, "Unhealthy", &message);
        }
    }

    fn tell(&self, pod: &Value, field: &str, container: &Value, kind: Kind, reason: &str, message: &str) {
        let mut about = reference(pod);
        about["fieldPath"] = format!("spec.{field}{{{}}}", text(container, "/name")).into();
        let source = Source { component: "kubelet", host: text(pod, "/spec/nodeName") };
        self.events.tell_about(source, &about, kind, reason, message);
    }
}

/// Returns true if a node is stopped by its annotation.
pub(crate) fn is_stopped(node: &Value) -> bool {
    annotation(node, STOPPED) == Some("true")
}

fn watch(store: &Store, resource: &str) -> Result<Watch, SandboxError> {
    store.watch(resource, "", "", "").map_err(|e| SandboxError::Store(e.to_string()))
}
