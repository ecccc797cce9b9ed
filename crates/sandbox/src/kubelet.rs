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
    watch: Watch,
    pace: Pace,
    /// What is to be done when. The number tells apart what is due at the same time.
    agenda: BTreeMap<(Instant, u64), Due>,
    /// By UID: what the agenda holds for a pod.
    planned: HashMap<String, Act>,
    /// How many entries the agenda has had.
    entries: u64,
    events: Events,
    told: Budget,
    /// How many pods have been started.
    started: u32,
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
        Ok(Self {
            store: store.clone(),
            watch: watch(store)?,
            pace,
            agenda: BTreeMap::new(),
            planned: HashMap::new(),
            entries: 0,
            events: Events::new(store),
            told: Budget::new(MOST_TOLD, TOLD_PER_SECOND),
            started: 0,
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
            tokio::select! {
                events = self.watch.next() => self.take_in(events),
                () = wake => self.act(),
            }
        }
    }

    fn take_in(&mut self, events: Result<Vec<Event>, Expired>) {
        let Ok(events) = events else {
            match watch(&self.store) {
                Ok(watch) => self.watch = watch,
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
                Act::Start => {
                    self.started += 1;
                    let pod_ip = pod_address(self.started);
                    let host_ip = self.host_address(&due.namespace, &due.name);
                    self.change(&due, |pod| start(pod, &pod_ip, &host_ip)).map(|pod| self.tell_start(&pod))
                }
                Act::Finish => self.change(&due, finish).map(|_| ()),
            };
            carry_on("The kubelet", done);
        }
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

    fn host_address(&self, namespace: &str, name: &str) -> String {
        let node = self.store.get("pods", namespace, name).and_then(|pod| {
            let pod = pod.value();
            self.store.get("nodes", "", text(&pod, "/spec/nodeName"))
        });
        let Ok(node) = node else { return String::new() };
        let node = node.value();
        let addresses = list(&node, "/status/addresses");
        let internal = addresses.iter().find(|address| text(address, "/type") == "InternalIP");
        internal.map(|address| text(address, "/address").to_owned()).unwrap_or_default()
    }
}

fn watch(store: &Store) -> Result<Watch, SandboxError> {
    store.watch("pods", "", "", "").map_err(|e| SandboxError::Store(e.to_string()))
}

/// The address of the pod that was started as that many.
fn pod_address(number: u32) -> String {
    format!("10.{}.{}.{}", 128 | number >> 16 & 0x7f, number >> 8 & 0xff, number & 0xff)
}

fn start(pod: &mut Value, pod_ip: &str, host_ip: &str) {
    if is_finished(pod) {
        return;
    }
    let started = now();
    let ip = if pod["spec"]["hostNetwork"] == true { host_ip } else { pod_ip };
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
