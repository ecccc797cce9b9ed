//! Tests of an extender with all verbs against the real kube-scheduler and Harbormaster, each with a real
//! kube-apiserver. Requests contain nodes as objects or as names.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use harbormaster_extender::{
    Ask, Binding, Error, Extender, Filtered, Preempted, Preemption, Reject, Scores, Server, Serving,
};
use harbormaster_oracle::{
    components::{ApiClient, ControlPlane, ControlPlaneOptions},
    harbormaster::harbormaster_binary,
    scheduler::{Contender, Scheduler, StartOptions},
};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::oneshot, task::JoinHandle};

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound},
    objects::{NODES, PODS, PRIORITY_CLASSES},
};

const NAME: &str = "with-extender";

/// All schedulers that call extenders.
fn schedulers() -> Vec<Contender> {
    let harbormaster = harbormaster_binary(false).expect("cargo builds harbormaster");
    vec![Contender::KubeScheduler, Contender::Harbormaster(harbormaster)]
}

/// Requests that an extender received.
#[derive(Default)]
struct Heard {
    filter: Vec<Ask>,
    prioritize: Vec<Ask>,
    preempt: Vec<Preemption>,
    bind: Vec<Binding>,
}

type Diary = Arc<Mutex<Heard>>;

/// An extender that rejects node `c`, prefers `b`, allows evictions on `b` only, and binds pods itself.
fn extender(diary: &Diary, client: &ApiClient) -> Extender {
    let filter = {
        let diary = diary.clone();
        move |ask: Ask| {
            let filtered = ask.filter(|node| match node.name() {
                "c" => Err(Reject::unresolvable("node(s) are c")),
                _ => Ok(()),
            });
            diary.lock().unwrap().filter.push(ask);
            std::future::ready(Ok::<Filtered, Error>(filtered))
        }
    };
    let prioritize = {
        let diary = diary.clone();
        move |ask: Ask| {
            let scores = ask.score(|node| if node.name() == "b" { 10 } else { 0 });
            diary.lock().unwrap().prioritize.push(ask);
            std::future::ready(Ok::<Scores, Error>(scores))
        }
    };
    let preempt = {
        let diary = diary.clone();
        move |ask: Preemption| {
            let kept = ask.keep(|node, _| node == "b");
            diary.lock().unwrap().preempt.push(ask);
            std::future::ready(Ok::<Preempted, Error>(kept))
        }
    };
    let (diary, client) = (diary.clone(), client.clone());
    let bind = move |binding: Binding| {
        let (diary, client) = (diary.clone(), client.clone());
        async move {
            let body = json!({
                "metadata": {"name": binding.pod_name, "uid": binding.pod_uid},
                "target": {"kind": "Node", "name": binding.node},
            });
            let path =
                format!("/api/v1/namespaces/{}/pods/{}/binding", binding.pod_namespace, binding.pod_name);
            // Once the pod is bound, the test reads the diary.
            diary.lock().unwrap().bind.push(binding);
            tokio::task::spawn_blocking(move || client.post(&path, &body)).await??;
            Ok(())
        }
    };
    Extender::new().prefix("ext").filter(filter).prioritize(prioritize).preempt(preempt).bind(bind)
}

struct Served {
    runtime: Runtime,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Served {
    fn start(extender: Extender) -> Self {
        let runtime = Runtime::new().unwrap();
        let serving = Serving { listen: ([127, 0, 0, 1], 0).into(), ..Serving::default() };
        let server = runtime.block_on(Server::bind(extender, &serving)).unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let task = runtime.spawn(server.run(async move { drop(stopped.await) }));
        Self { runtime, address, stop, task }
    }

    fn end(self) {
        self.stop.send(()).unwrap();
        self.runtime.block_on(self.task).unwrap();
    }
}

fn configuration(address: SocketAddr, node_cache_capable: bool) -> String {
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"contentType": "application/json"},
        "profiles": [{"schedulerName": NAME}],
        "extenders": [{
            "urlPrefix": format!("http://{address}/ext"),
            "filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "bindVerb": "bind",
            "weight": 5, "nodeCacheCapable": node_cache_capable, "httpTimeout": "30s",
        }],
    })
    .to_string()
}

fn node(name: &str) -> Value {
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let annotations = json!({"note": "<&>\u{2028} \"quoted\" ✓"});
    json!({
        "metadata": {"name": name, "labels": {"disk": "ssd"}, "annotations": annotations},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

fn pod(name: &str, scheduler: &str, cpu: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "annotations": {"note": "<&>\u{2028} \"quoted\" ✓"}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Returns an object without its kind (Go omits the kind from typed objects), without the fields that schedulers drop,
/// and without the fields that change during the test.
fn lasting(mut object: Value) -> Value {
    object.as_object_mut().unwrap().retain(|field, _| field != "kind" && field != "apiVersion");
    for field in ["managedFields", "resourceVersion", "generation", "creationTimestamp"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object["spec"].as_object_mut().unwrap().remove("nodeName");
    object.as_object_mut().unwrap().remove("status");
    object
}

fn all_verbs_are_asked(contender: &Contender, node_cache_capable: bool) {
    let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
    let client = cluster.client();
    for name in ["a", "b", "c"] {
        client.post(NODES, &node(name)).unwrap();
    }
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    client.post(PRIORITY_CLASSES, &class).unwrap();
    let diary = Diary::default();
    let served = Served::start(extender(&diary, client));
    let options =
        StartOptions { config: configuration(served.address, node_cache_capable), ..StartOptions::default() };
    let scheduler = Scheduler::start(contender, &cluster, &options).unwrap();

    // One pod fits everywhere and goes to the node that the extender prefers.
    client.post(PODS, &pod("liked", NAME, "1", json!({}))).unwrap();
    assert_eq!(wait_until_bound(client, "liked"), "b");
    nodes_and_pods_arrived_whole(client, &diary, node_cache_capable);

    // Then all nodes are full, and a pod with a higher priority may evict others.
    client.delete(&format!("{PODS}/liked")).unwrap();
    for name in ["a", "b", "c"] {
        let full = json!({"nodeName": name});
        client.post(PODS, &pod(&format!("on-{name}"), "nobody", "4", full)).unwrap();
    }
    let victim = client.get(&format!("{PODS}/on-b")).unwrap();
    eventually("the priority class is available", PATIENCE, || {
        client.post(PODS, &pod("important", NAME, "4", json!({"priorityClassName": "high"}))).ok()
    });
    assert_eq!(wait_until_bound(client, "important"), "b");
    victims_arrived_whole(&diary, &victim, node_cache_capable);
    for left in ["on-a", "on-c"] {
        client.get(&format!("{PODS}/{left}")).unwrap();
    }
    let bound: Vec<_> = diary.lock().unwrap().bind.iter().map(|binding| binding.pod_name.clone()).collect();
    assert_eq!(bound, ["liked", "important"]);
    scheduler.stop().unwrap();
    served.end();
}

fn nodes_and_pods_arrived_whole(client: &ApiClient, diary: &Diary, node_cache_capable: bool) {
    let heard = diary.lock().unwrap();
    let (filter, prioritize) = (heard.filter.last().unwrap(), heard.prioritize.last().unwrap());
    let names = |ask: &Ask| {
        let mut names: Vec<_> = ask.nodes.iter().map(|node| node.name().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(filter), ["a", "b", "c"]);
    assert_eq!(names(prioritize), ["a", "b"]);
    let pod = client.get(&format!("{PODS}/liked")).unwrap();
    for ask in [filter, prioritize] {
        assert_eq!(lasting(ask.pod.value()), lasting(pod.clone()));
        assert_eq!(ask.pod.metadata.annotation("note"), pod["metadata"]["annotations"]["note"].as_str());
        assert_eq!(ask.pod.spec.containers[0].resources.requests["cpu"], "1");
        assert_eq!(ask.need_objects().is_err(), node_cache_capable);
    }
    for candidate in filter.nodes.iter().filter(|_| !node_cache_capable) {
        let sent = candidate.node().unwrap();
        let stored = client.get(&format!("{NODES}/{}", candidate.name())).unwrap();
        assert_eq!(lasting(sent.value()), lasting(stored.clone()));
        assert_eq!(sent.value()["status"], stored["status"]);
        assert_eq!(sent.metadata.uid, stored["metadata"]["uid"]);
        assert_eq!(candidate.label("disk"), Some("ssd"));
        assert_eq!(candidate.annotation("note"), stored["metadata"]["annotations"]["note"].as_str());
        assert_eq!(sent.status.allocatable["cpu"], "4");
    }
    let binding = &heard.bind[0];
    let fields = [&binding.pod_name, &binding.pod_namespace, &binding.pod_uid, &binding.node];
    assert_eq!(
        fields.map(String::as_str),
        ["liked", "default", pod["metadata"]["uid"].as_str().unwrap(), "b"]
    );
}

fn victims_arrived_whole(diary: &Diary, victim: &Value, node_cache_capable: bool) {
    let heard = diary.lock().unwrap();
    let preemption = heard.preempt.first().expect("preempt was called");
    assert_eq!(preemption.pod.metadata.name, "important");
    assert_eq!(preemption.pod.spec.priority, 1000);
    let victims = &preemption.nodes["b"];
    assert_eq!((victims.pods.len(), victims.pdb_violations), (1, 0));
    assert_eq!(victims.pods[0].uid, victim["metadata"]["uid"].as_str().unwrap());
    match &victims.pods[0].pod {
        Some(sent) => {
            assert!(!node_cache_capable);
            assert_eq!(sent.spec.node_name, "b");
            assert_eq!(lasting(sent.value()), lasting(victim.clone()));
        }
        None => assert!(node_cache_capable),
    }
}

#[test]
fn all_verbs_are_called_with_objects() {
    for contender in schedulers() {
        all_verbs_are_asked(&contender, false);
    }
}

#[test]
fn all_verbs_are_called_with_names() {
    for contender in schedulers() {
        all_verbs_are_asked(&contender, true);
    }
}
