//! Debugging a running process: SIGUSR2, and a new verbosity over the secure port.

use harbormaster_oracle::components::free_ports;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, default_config, node, pod},
    port::ask,
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    a_signal_triggers_a_dump_and_a_comparison_and_scheduling_continues,
    a_new_verbosity_reaches_the_engine,
}

const SCHEDULER: &str = "default-scheduler";
const COMPARED: &str = "Compared cache and queue with the API server";

fn start(cluster: &Cluster, flags: &[&str]) -> Harbormaster {
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let args: Vec<String> = flags.chain([format!("--config={}", config.display())]).collect();
    Harbormaster::start(&args, cluster.directory().join("harbormaster.log"))
}

fn create(cluster: &Cluster, name: &str, scheduler: &str, spec: Value) {
    let pod = pod(name, scheduler, json!({"cpu": "100m"}), spec);
    cluster.client().post(PODS, &pod).expect("the pod is created");
}

fn a_signal_triggers_a_dump_and_a_comparison_and_scheduling_continues(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    for name in ["node-a", "node-b"] {
        client.post(NODES, &node(name, json!({}), "4", "8Gi", 110)).expect("the node is created");
    }
    let harbormaster = start(&cluster, &[]);
    for name in ["one", "two", "three"] {
        create(&cluster, name, SCHEDULER, json!({}));
        wait_until_bound(client, name);
    }
    create(&cluster, "misfit", SCHEDULER, json!({"nodeSelector": {"disk": "none"}}));
    wait_until_explained(client, "misfit");
    create(&cluster, "theirs", "another", json!({}));

    harbormaster.signal("USR2");
    let queue = harbormaster.wait_for_line(&["Dump of scheduling queue"]);
    assert!(queue.contains("summary=\"activeQ:0; backoffQ:0; unschedulablePods:1\""), "{queue}");
    assert!(queue.contains("name: misfit, namespace: default") && !queue.contains("theirs"), "{queue}");
    let compared = harbormaster.wait_for_line(&[COMPARED]);
    assert!(compared.contains("nodes=2 pods=5 differences=0"), "{compared}");
    assert_eq!(harbormaster.lines_with(&["Cache mismatch"]), Vec::<String>::new());
    let nodes = harbormaster.lines_with(&["Dump of cached NodeInfo"]);
    let about =
        |name: &str| nodes.iter().find(|line| line.contains(&format!("Node name: {name}\\nDeleted: false")));
    let told = [about("node-a"), about("node-b")].map(|line| line.expect("each node has a line"));
    for name in ["one", "two", "three"] {
        let lines = told.iter().filter(|line| line.contains(&format!("name: {name}, namespace: default")));
        assert_eq!(lines.count(), 1, "{name} is on one node: {nodes:?}");
    }

    create(&cluster, "after", SCHEDULER, json!({}));
    wait_until_bound(client, "after");
    harbormaster.signal("USR2");
    eventually("a second comparison", PATIENCE, || {
        let compared = harbormaster.lines_with(&[COMPARED]);
        (compared.len() == 2 && compared[1].contains("pods=6 differences=0")).then_some(())
    });
    harbormaster.ends_well();
}

fn a_new_verbosity_reaches_the_engine(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    client.post(NODES, &node("node", json!({}), "4", "8Gi", 110)).expect("the node is created");
    let [port] = free_ports().expect("a port is free");
    let open = "--authorization-always-allow-paths=/debug/flags/v";
    let harbormaster = start(&cluster, &[&format!("--secure-port={port}"), "--bind-address=127.0.0.1", open]);
    create(&cluster, "before", SCHEDULER, json!({}));
    wait_until_bound(client, "before");
    let moves = |pod: &str| {
        harbormaster.lines_with(&["Pod moved to an internal scheduling queue", &format!("default/{pod}")])
    };
    assert_eq!(moves("before"), Vec::<String>::new(), "moves in the queue are not logged at verbosity 4");

    let set = |v: &str| eventually("the port answers", PATIENCE, || ask(port, "PUT", "/debug/flags/v", v));
    assert_eq!(set("5"), (200, b"successfully set klog.logging.verbosity to 5\n".to_vec()));
    // A pod that is created at once may be faster than the new verbosity.
    let mut pods = (0..).map(|number| format!("between-{number}"));
    eventually("moves of a pod are logged", PATIENCE, || {
        let name = pods.next()?;
        create(&cluster, &name, SCHEDULER, json!({}));
        wait_until_bound(client, &name);
        (!moves(&name).is_empty()).then_some(())
    });

    assert_eq!(set("2").0, 200);
    create(&cluster, "after", SCHEDULER, json!({}));
    wait_until_bound(client, "after");
    assert_eq!(moves("after"), Vec::<String>::new());
    harbormaster.ends_well();
}
