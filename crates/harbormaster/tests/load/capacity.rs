//! A thousand nodes and five thousand pods, a tenth of which fit nowhere: all other pods are bound exactly once, no
//! node is overfull, and the pending pods get kube-scheduler's messages.
//!
//! At the same time the real kube-scheduler schedules copies of the pods that fit nowhere (the impossible pods) under
//! another scheduler name. Nodes form pools, each with its own label and taint, so that no message depends on the
//! placement of other pods.

use std::{collections::BTreeMap, sync::Mutex, time::Instant};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, create_all, events_by_pod, eventually, list, name_of},
    objects::{NODES, PODS, config, node, node_of, pod, scheduled_condition},
    pod_watch::PodWatch,
    process::Harbormaster,
    server::{Server, on_both_servers},
};

on_both_servers! {
    five_thousand_pods_are_bound_once_or_explained_as_by_kube_scheduler,
}

const OURS: &str = "default-scheduler";
const THEIRS: &str = "reference";
const COPIES: usize = 50;

/// A pool of identical nodes, and the pods that are scheduled to it.
struct Pool {
    name: &'static str,
    nodes: usize,
    cpu: u64,
    memory_mi: u64,
    pods: u64,
    /// Number of pods, and the requests of each. In all pools but the first and the last two, these pods fill the pool
    /// completely.
    demands: &'static [(usize, Demand)],
}

/// Requests of a pod.
#[derive(Clone, Copy, Default)]
struct Demand {
    milli_cpu: u64,
    memory_mi: u64,
    host_port: Option<u16>,
}

const fn demand(milli_cpu: u64, memory_mi: u64) -> Demand {
    Demand { milli_cpu, memory_mi, host_port: None }
}

const ON_PORT: Demand = Demand { milli_cpu: 10, memory_mi: 10, host_port: Some(8080) };

const POOLS: &[Pool] = &[
    Pool {
        name: "general",
        nodes: 700,
        cpu: 4,
        memory_mi: 16384,
        pods: 110,
        demands: &[
            (1000, demand(100, 256)),
            (1000, demand(500, 1024)),
            (780, demand(1000, 512)),
            (600, demand(250, 2048)),
        ],
    },
    Pool { name: "cpu", nodes: 100, cpu: 2, memory_mi: 8192, pods: 110, demands: &[(400, demand(500, 64))] },
    Pool {
        name: "memory",
        nodes: 100,
        cpu: 16,
        memory_mi: 8192,
        pods: 110,
        demands: &[(400, demand(100, 2048))],
    },
    Pool { name: "slots", nodes: 50, cpu: 16, memory_mi: 8192, pods: 6, demands: &[(300, demand(0, 0))] },
    Pool { name: "ports", nodes: 20, cpu: 16, memory_mi: 8192, pods: 110, demands: &[(20, ON_PORT)] },
    // Only impossible pods select these two pools: on each node, port 8080 is already in use or the node is cordoned.
    Pool { name: "held", nodes: 15, cpu: 16, memory_mi: 8192, pods: 110, demands: &[] },
    Pool { name: "cordoned", nodes: 15, cpu: 16, memory_mi: 8192, pods: 110, demands: &[] },
];

fn tolerates(pool: &str) -> Value {
    json!([{"key": "pool", "operator": "Equal", "value": pool, "effect": "NoSchedule"}])
}

fn nodes() -> Vec<Value> {
    let mut nodes = Vec::new();
    for pool in POOLS {
        for index in 0..pool.nodes {
            let name = format!("{}-{index}", pool.name);
            let (cpu, memory) = (pool.cpu.to_string(), format!("{}Mi", pool.memory_mi));
            let mut node = node(&name, json!({"pool": pool.name}), &cpu, &memory, pool.pods as u32);
            node["spec"]["taints"] = json!([{"key": "pool", "value": pool.name, "effect": "NoSchedule"}]);
            if pool.name == "cordoned" {
                node["spec"]["unschedulable"] = json!(true);
            }
            nodes.push(node);
        }
    }
    nodes
}

fn pod_with(name: &str, demand: Demand, spec: Value) -> Value {
    let requests = match demand {
        Demand { milli_cpu: 0, memory_mi: 0, .. } => json!({}),
        Demand { milli_cpu, memory_mi, .. } => {
            json!({"cpu": format!("{milli_cpu}m"), "memory": format!("{memory_mi}Mi")})
        }
    };
    let mut pod = pod(name, OURS, requests, spec);
    if let Some(port) = demand.host_port {
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    }
    pod
}

/// Returns pods that are already placed and occupy a host port.
fn holders() -> Vec<Value> {
    let held = POOLS.iter().find(|pool| pool.name == "held").expect("the pool");
    let holder = |index: usize| {
        pod_with(&format!("holder-{index}"), ON_PORT, json!({"nodeName": format!("held-{index}")}))
    };
    (0..held.nodes).map(holder).collect()
}

/// Returns the pods that fit, with their requests.
fn possible() -> Vec<(Value, Demand)> {
    let mut pods = Vec::new();
    for pool in POOLS {
        for (count, demand) in pool.demands {
            for _ in 0..*count {
                let spec = json!({"tolerations": tolerates(pool.name), "nodeSelector": {"pool": pool.name}});
                pods.push((pod_with(&format!("ok-{}", pods.len()), *demand, spec), *demand));
            }
        }
    }
    pods
}

/// Returns one pod of each impossible kind, without a name.
fn impossible() -> Vec<(&'static str, Value)> {
    let small = demand(10, 10);
    let general = || json!({"tolerations": tolerates("general")});
    let everywhere = || json!([{"operator": "Exists"}]);
    let term = |expressions: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [expressions]}}});
    let mut devices = pod_with("", small, general());
    let resources = json!({"example.com/gpu": "1"});
    devices["spec"]["containers"][0]["resources"] = json!({"requests": resources, "limits": resources});
    let mut greedy = pod_with("", demand(64_000, 1 << 20), general());
    let resources = &mut greedy["spec"]["containers"][0]["resources"];
    resources["requests"]["example.com/gpu"] = json!("2");
    resources["limits"] = json!({"example.com/gpu": "2"});
    vec![
        ("cpu", pod_with("", demand(64_000, 10), general())),
        ("memory", pod_with("", demand(10, 1 << 20), general())),
        ("device", devices),
        ("greedy", greedy),
        ("untolerated", pod_with("", small, json!({}))),
        (
            "selector",
            pod_with("", small, json!({"tolerations": everywhere(), "nodeSelector": {"disk": "nvme"}})),
        ),
        (
            "affinity",
            pod_with(
                "",
                small,
                json!({
                    "tolerations": tolerates("cpu"),
                    "affinity": term(json!({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["cpu"]}]})),
                }),
            ),
        ),
        (
            "absent",
            pod_with(
                "",
                small,
                json!({
                    "tolerations": everywhere(),
                    "affinity": term(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["nowhere"]}]})),
                }),
            ),
        ),
        (
            "port",
            pod_with(
                "",
                ON_PORT,
                json!({"tolerations": tolerates("held"), "nodeSelector": {"pool": "held"}}),
            ),
        ),
        (
            "cordoned",
            pod_with(
                "",
                small,
                json!({"tolerations": tolerates("cordoned"), "nodeSelector": {"pool": "cordoned"}}),
            ),
        ),
    ]
}

fn named(pod: &Value, name: &str, scheduler: &str) -> Value {
    let mut pod = pod.clone();
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["schedulerName"] = json!(scheduler);
    pod
}

/// Usage per node: milli-CPU, MiB, pods, and pods on port 8080.
type Usage = BTreeMap<String, [u64; 4]>;

fn assert_within_capacity(usage: &Usage) {
    for pool in POOLS {
        for index in 0..pool.nodes {
            let node = format!("{}-{index}", pool.name);
            let [cpu, memory, pods, ports] = usage.get(&node).copied().unwrap_or_default();
            assert!(
                cpu <= pool.cpu * 1000 && memory <= pool.memory_mi && pods <= pool.pods && ports <= 1,
                "{node} is over capacity: {cpu}m CPU, {memory}Mi, {pods} pods, {ports} on port 8080"
            );
        }
    }
}

fn five_thousand_pods_are_bound_once_or_explained_as_by_kube_scheduler(server: Server) {
    let begun = Instant::now();
    let cluster = server.own();
    let client = cluster.client().clone();
    create_all(&client, NODES, &nodes());
    create_all(&client, PODS, &holders());
    println!("{:.1?}: {} nodes", begun.elapsed(), nodes().len());

    let watch = PodWatch::start(&client);
    let config_path =
        cluster.write_scheduler_config(&config(OURS).to_string()).expect("the configuration is written");
    let harbormaster = Harbormaster::start(
        &[format!("--config={}", config_path.display())],
        cluster.directory().join("harbormaster.log"),
    );
    let original =
        cluster.start_kube_scheduler(&config(THEIRS).to_string(), &[]).expect("kube-scheduler starts");

    let possible = possible();
    let kinds = impossible();
    let mut pods: Vec<Value> = possible.iter().map(|(pod, _)| pod.clone()).collect();
    // The impossible pods are interspersed with the others.
    for (kind, pod) in &kinds {
        for copy in 0..COPIES {
            let at = (copy * 97 + 13 * pods.len()) % pods.len();
            pods.insert(at, named(pod, &format!("no-{kind}-{copy}"), OURS));
        }
    }
    let references: Vec<Value> =
        kinds.iter().map(|(kind, pod)| named(pod, &format!("reference-{kind}"), THEIRS)).collect();
    create_all(&client, PODS, &references);
    let created = Instant::now();
    create_all(&client, PODS, &pods);
    println!("{:.1?}: {} pods created in {:.1?}", begun.elapsed(), pods.len(), created.elapsed());

    eventually("every possible pod is bound", PATIENCE, || (watch.bound() >= possible.len()).then_some(()));
    println!("{:.1?}: {} pods bound", begun.elapsed(), watch.bound());
    let all = eventually("every impossible pod is explained", PATIENCE, || {
        let all = list(&client, PODS);
        let answered = |pod: &Value| node_of(pod).is_some() || scheduled_condition(pod).is_some();
        all.iter().all(answered).then_some(all)
    });
    println!("{:.1?}: all answered", begun.elapsed());
    assert_eq!(watch.moved(), Vec::<String>::new());
    assert_eq!(watch.bound(), possible.len());

    // The usage of each node, recomputed from the pods, stays within its capacity.
    let demands: BTreeMap<&str, Demand> =
        possible.iter().map(|(pod, demand)| (name_of(pod), *demand)).collect();
    let mut usage = Usage::new();
    for pod in &all {
        let Some(node) = node_of(pod) else { continue };
        let demand = demands.get(name_of(pod)).copied().unwrap_or(ON_PORT);
        let used = usage.entry(node.to_owned()).or_default();
        let of_pod = [demand.milli_cpu, demand.memory_mi, 1, u64::from(demand.host_port.is_some())];
        for (sum, part) in used.iter_mut().zip(of_pod) {
            *sum += part;
        }
    }
    assert_within_capacity(&usage);

    // The conditions are exactly those that kube-scheduler writes.
    let conditions: BTreeMap<&str, Option<[&str; 3]>> = all
        .iter()
        .filter(|pod| node_of(pod).is_none())
        .map(|pod| (name_of(pod), scheduled_condition(pod)))
        .collect();
    assert_eq!(conditions.len(), kinds.len() * (COPIES + 1));
    for (kind, _) in &kinds {
        let reference = conditions[&*format!("reference-{kind}")];
        assert!(
            reference.is_some_and(
                |[_, reason, message]| reason == "Unschedulable" && message.starts_with("0/1000 nodes")
            ),
            "{kind}: {reference:?}"
        );
        for copy in 0..COPIES {
            assert_eq!(conditions[&*format!("no-{kind}-{copy}")], reference, "{kind}");
        }
    }

    // The events are exactly those that kube-scheduler writes. They are written asynchronously.
    let count = possible.len() + kinds.len() * (COPIES + 1);
    let last = Mutex::new(BTreeMap::new());
    eventually("every pod has its event", PATIENCE, || {
        let events = events_by_pod(&client);
        let complete = events.len() >= count;
        *last.lock().expect("no panic yet") = events;
        complete.then_some(())
    });
    let events = last.into_inner().expect("no panic yet");
    let field = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    for pod in &all {
        let (Some(node), true) = (node_of(pod), demands.contains_key(name_of(pod))) else { continue };
        let event = &events[&("Scheduled".to_owned(), name_of(pod).to_owned())];
        assert_eq!(event.len(), 1, "{event:?}");
        let note = format!("Successfully assigned default/{} to {node}", name_of(pod));
        let [got, action, kind, by] =
            ["note", "action", "type", "reportingController"].map(|name| field(&event[0], name));
        assert_eq!([got, action, kind, by], [note.as_str(), "Binding", "Normal", OURS]);
    }
    let failed = |pod: &str| {
        let events = &events[&("FailedScheduling".to_owned(), pod.to_owned())];
        ["note", "action", "type"].map(|name| field(&events[0], name))
    };
    for (kind, _) in &kinds {
        let reference = failed(&format!("reference-{kind}"));
        for copy in 0..COPIES {
            let name = format!("no-{kind}-{copy}");
            assert_eq!(failed(&name), reference, "{name}");
            let event = &events[&("FailedScheduling".to_owned(), name)][0];
            assert_eq!(event["reportingController"], OURS);
        }
    }
    println!("{:.1?}: {} events", begun.elapsed(), events.len());

    // Pods that no event could help are tried three times at most, on average.
    let log = harbormaster.log();
    let tries =
        log.lines().filter(|line| line.contains("Attempting") && line.contains("default/no-")).count();
    println!("{tries} attempts of {} impossible pods", kinds.len() * COPIES);
    assert!(tries <= 3 * kinds.len() * COPIES, "{tries}");
    harbormaster.ends_well();
    original.stop().expect("kube-scheduler ends");
}
