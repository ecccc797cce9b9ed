//! Runs both programs against API servers: contention for the last card, the restart of a killed scheduler, and the
//! sniffer's reports.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use harbormaster_oracle::components::ApiClient;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, get_pod, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, config, node, pod},
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    one_of_two_pods_gets_the_last_card_and_the_other_gets_it_afterwards,
    a_restarted_scheduler_knows_which_pod_holds_which_card,
    the_sniffer_reports_the_contents_of_the_file,
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SCVS: &str = "/apis/core.run-linux.com/v1/scvs";
const NAME: &str = "yoda-scheduler";

/// Creates the definition in `deploy/crd.yaml` and waits until Scv objects are served.
fn define(client: &ApiClient) {
    let definition: Value = serde_saphyr::from_str(include_str!("../../deploy/crd.yaml")).unwrap();
    client.post(DEFINITIONS, &definition).unwrap();
    eventually("Scv objects are served", PATIENCE, || client.get(SCVS).ok());
}

/// Creates a node and a report of almost empty cards with 16000 MiB each.
fn create_node(client: &ApiClient, name: &str, cards: u32) {
    client.post(NODES, &node(name, json!({}), "4", "4Gi", 100)).unwrap();
    let card = |id| {
        json!({
            "id": id, "health": "Healthy", "model": "V100", "power": 250, "totalMemory": 16000, "freeMemory": 15990,
            "clock": 877, "core": 1530, "bandwidth": 15760,
        })
    };
    let scv = json!({"apiVersion": "core.run-linux.com/v1", "kind": "Scv", "metadata": {"name": name}});
    client.post(SCVS, &scv).unwrap();
    let cards: Vec<Value> = (0..cards).map(card).collect();
    let status = json!({"cardNumber": cards.len(), "updateTime": "2026-01-01T00:00:00Z", "cardList": cards});
    client.merge_patch(&format!("{SCVS}/{name}/status"), &json!({"status": status})).unwrap();
}

fn create_pod(client: &ApiClient, name: &str, labels: Value) {
    let mut pod = pod(name, NAME, json!({"cpu": "10m"}), json!({}));
    pod["metadata"]["labels"] = labels;
    client.post(PODS, &pod).unwrap();
}

fn start(cluster: &Cluster, log: &str) -> Harbormaster {
    let shipped: Value = serde_saphyr::from_str(include_str!("../../deploy/scheduler-config.yaml")).unwrap();
    let mut config = config(NAME);
    config["profiles"][0]["plugins"] = shipped["profiles"][0]["plugins"].clone();
    config["profiles"][0]["pluginConfig"] = shipped["profiles"][0]["pluginConfig"].clone();
    let config = cluster.write_scheduler_config(&config.to_string()).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_yoda-scheduler"));
    let args = [format!("--config={}", config.display())];
    Harbormaster::start_program(program, &args, cluster.directory().join(log))
}

/// Returns the value of the pod's card annotation.
fn cards_of(client: &ApiClient, name: &str) -> String {
    let pod = get_pod(client, name).unwrap();
    pod["metadata"]["annotations"]["scv/cards"].as_str().unwrap_or_default().to_owned()
}

fn one_of_two_pods_gets_the_last_card_and_the_other_gets_it_afterwards(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    define(client);
    create_node(client, "n1", 1);
    // Both pods exist before the scheduler starts.
    for name in ["a", "b"] {
        create_pod(client, name, json!({"scv/number": "1"}));
    }
    let scheduler = start(&cluster, "yoda.log");
    let bound = |name| get_pod(client, name).is_some_and(|pod| pod["spec"]["nodeName"] == "n1");
    let first = eventually("one pod is bound", PATIENCE, || ["a", "b"].into_iter().find(|name| bound(name)));
    let second = if first == "a" { "b" } else { "a" };
    let (_, message) = wait_until_explained(client, second);
    assert!(message.contains("1 GPU Number Not Fit"), "{message}");
    assert_eq!(cards_of(client, first), "0");
    assert!(!bound(second));
    delete_pod(client, first);
    assert_eq!(wait_until_bound(client, second), "n1");
    assert_eq!(cards_of(client, second), "0");
    scheduler.ends_well();
}

fn a_restarted_scheduler_knows_which_pod_holds_which_card(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    define(client);
    create_node(client, "n1", 2);
    let scheduler = start(&cluster, "first.log");
    let placed = |name: &str, labels: Value| {
        create_pod(client, name, labels);
        wait_until_bound(client, name);
        cards_of(client, name)
    };
    assert_eq!(placed("whole", json!({"scv/number": "1"})), "0");
    assert_eq!(placed("part", json!({"scv/memory": "10000"})), "1");
    assert_eq!(placed("small", json!({"scv/memory": "5000"})), "1");
    // If the scheduler guessed the cards of the other two pods, it would start with card 0.
    delete_pod(client, "whole");
    scheduler.kill();

    let scheduler = start(&cluster, "second.log");
    assert_eq!(placed("next", json!({"scv/number": "1"})), "0");
    create_pod(client, "third", json!({"scv/memory": "5000"}));
    let (_, message) = wait_until_explained(client, "third");
    assert!(message.contains("1 GPU Memory Not Fit"), "{message}");
    delete_pod(client, "small");
    wait_until_bound(client, "third");
    assert_eq!(cards_of(client, "third"), "1");
    scheduler.ends_well();
}

/// A child process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn the_sniffer_reports_the_contents_of_the_file(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    let file = cluster.directory().join("cards.yaml");
    fs::write(&file, "- {id: 0, model: V100, totalMemory: 16000, freeMemory: 9000}\n").unwrap();
    let log = cluster.directory().join("sniffer.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_yoda-sniffer"));
    command.args(["--node=n1", "--interval=50ms"]);
    command.arg("--kubeconfig").arg(cluster.kubeconfig()).arg("--fake").arg(&file);
    let child = command.stdin(Stdio::null()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
    let _sniffer = Running(child);

    // Without the definition, the log explains how to create it, and the sniffer keeps trying.
    eventually("the log names the definition", PATIENCE, || {
        fs::read_to_string(&log).unwrap().contains("apply deploy/crd.yaml").then_some(())
    });
    define(client);
    let reported = |what: &str, free: u64| {
        eventually(what, PATIENCE, || {
            let scv = client.get(&format!("{SCVS}/n1")).ok()?;
            (scv["status"]["freeMemorySum"] == free).then_some(scv)
        })
    };
    let first = reported("the report", 9000);
    assert_eq!(first["spec"], json!({"updateInterval": 50}));
    assert_eq!(first["status"]["cardNumber"], 1);
    assert_eq!(first["status"]["totalMemorySum"], 16000);
    let card = &first["status"]["cardList"][0];
    assert_eq!((&card["health"], &card["model"]), (&json!("Healthy"), &json!("V100")));
    let time = first["status"]["updateTime"].as_str().unwrap();
    assert!(harbormaster::api::Timestamp::parse(time).is_ok(), "{time}");

    // While the file is invalid, the last report stays unchanged; once the file is valid, its cards are reported.
    fs::write(&file, "- {health: Healthy}\n").unwrap();
    eventually("the error is logged", PATIENCE, || {
        fs::read_to_string(&log).unwrap().contains("missing field `id`").then_some(())
    });
    reported("the last report", 9000);
    fs::write(&file, "- {id: 0, totalMemory: 16000, freeMemory: 100}\n- {id: 1, health: Unhealthy}\n")
        .unwrap();
    let second = reported("the next report", 100);
    assert_eq!(second["status"]["cardNumber"], 2);
    assert_eq!(second["status"]["cardList"][1]["health"], "Unhealthy");
}
