//! A hundred nodes, a thousand pods that fill them to the last CPU, and some pods that fit nowhere, with every plugin
//! in use. The unmodified kube-scheduler and Harbormaster both bind each of the thousand pods once, overfill no node,
//! and explain why the others do not fit.

use std::{collections::BTreeMap, time::Instant};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, create_all, events_by_pod, eventually, list, name_of, wait_until_explained},
    objects::{NODES, PODS, default_config, node, node_of, pod},
    pod_watch::PodWatch,
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};

const NODE_COUNT: usize = 100;
const PODS_PER_NODE: usize = 10;
const POD_COUNT: usize = NODE_COUNT * PODS_PER_NODE;
const MISFITS: usize = 20;
const SCHEDULER: &str = "default-scheduler";

on_both_servers! {
    kube_scheduler_schedules_a_thousand_pods,
    harbormaster_schedules_a_thousand_pods,
}

fn kube_scheduler_schedules_a_thousand_pods(server: Server) {
    let cluster = cluster_with_nodes(server);
    let scheduler =
        cluster.start_kube_scheduler(&default_config().to_string(), &[]).expect("kube-scheduler starts");
    a_thousand_pods_are_scheduled("kube-scheduler", server, &cluster);
    scheduler.stop().expect("kube-scheduler ends");
}

fn harbormaster_schedules_a_thousand_pods(server: Server) {
    let cluster = cluster_with_nodes(server);
    let path =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let log = cluster.directory().join("harbormaster.log");
    let scheduler = Harbormaster::start(&[format!("--config={}", path.display())], log);
    a_thousand_pods_are_scheduled("harbormaster", server, &cluster);
    scheduler.ends_well();
}

fn cluster_with_nodes(server: Server) -> Cluster {
    let cluster = server.own();
    let nodes: Vec<Value> =
        (0..NODE_COUNT).map(|i| node(&format!("node-{i}"), json!({}), "4", "8Gi", 110)).collect();
    create_all(cluster.client(), NODES, &nodes);
    cluster
}

fn pods() -> Vec<Value> {
    let requests = json!({"cpu": "400m", "memory": "100Mi"});
    let mut pods: Vec<Value> =
        (0..POD_COUNT).map(|i| pod(&format!("pod-{i}"), SCHEDULER, requests.clone(), json!({}))).collect();
    // The pods that fit nowhere are interspersed with the others.
    for i in 0..MISFITS {
        let spec = json!({"nodeSelector": {"disk": "none"}});
        pods.insert(i * 37, pod(&format!("misfit-{i}"), SCHEDULER, requests.clone(), spec));
    }
    pods
}

fn a_thousand_pods_are_scheduled(who: &str, server: Server, cluster: &Cluster) {
    let client = cluster.client();
    let watch = PodWatch::start(client);
    let begun = Instant::now();
    create_all(client, PODS, &pods());
    let created = begun.elapsed();
    eventually("every pod that fits is bound", PATIENCE, || (watch.bound() >= POD_COUNT).then_some(()));
    println!("{who}, {server:?}: created in {created:.1?}, bound {:.1?} after the first", begun.elapsed());

    let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
    let all = list(client, PODS);
    for node in all.iter().filter_map(node_of) {
        *per_node.entry(node.to_owned()).or_default() += 1;
    }
    let full: BTreeMap<String, usize> =
        (0..NODE_COUNT).map(|i| (format!("node-{i}"), PODS_PER_NODE)).collect();
    assert_eq!(per_node, full, "no node holds more than it can, so all are full");
    assert_eq!(watch.moved(), Vec::<String>::new());
    assert_eq!(watch.bound(), POD_COUNT);

    let message = "0/100 nodes are available: 100 node(s) didn't match Pod's node affinity/selector. \
        no new claims to deallocate, preemption: 0/100 nodes are available: 100 Preemption is not helpful for scheduling.";
    for i in 0..MISFITS {
        let explained = wait_until_explained(client, &format!("misfit-{i}"));
        assert_eq!(explained, ("Unschedulable".to_owned(), message.to_owned()));
    }
    // Events are written asynchronously.
    let events = eventually("every pod has its event", PATIENCE, || {
        let events = events_by_pod(client);
        (events.len() >= POD_COUNT + MISFITS).then_some(events)
    });
    for pod in &all {
        let name = name_of(pod);
        let (reason, note) = match node_of(pod) {
            Some(node) => ("Scheduled", format!("Successfully assigned default/{name} to {node}")),
            None => ("FailedScheduling", message.to_owned()),
        };
        let events = &events[&(reason.to_owned(), name.to_owned())];
        assert!(events.iter().all(|event| event["note"] == json!(note)), "{events:?}");
        assert!(events.len() == 1 || reason == "FailedScheduling", "{events:?}");
    }
}
