//! Questions to a running scheduler about a pod that waits.

use std::{fs, process::Command};

use harbormaster_oracle::components::free_ports;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, default_config, node, pod},
    process::{Harbormaster, with_open_port},
    server::Server,
};

const SCHEDULER: &str = "default-scheduler";

#[test]
fn a_running_scheduler_says_why_a_pod_waits_and_what_would_wake_it() {
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    client.post(NODES, &node("node", json!({}), "1", "8Gi", 110)).expect("the node is created");
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let [port] = free_ports().expect("a port is free");
    let args = with_open_port(&config, port, "/debug/why,/configz");
    let harbormaster = Harbormaster::start(&args, cluster.directory().join("harbormaster.log"));
    let create = |name: &str, cpu: &str, spec: Value| {
        client.post(PODS, &pod(name, SCHEDULER, json!({"cpu": cpu}), spec)).expect("the pod is created");
    };
    create("small", "100m", json!({}));
    create("large", "2", json!({}));
    create("gated", "100m", json!({"schedulingGates": [{"name": "example.com/quota"}]}));
    wait_until_bound(client, "small");
    wait_until_explained(client, "large");

    let kubeconfig = cluster.directory().join("port.kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n\
                clusters: [{name: c, cluster: {server: 'https://unused', insecure-skip-tls-verify: true}}]\n";
    fs::write(&kubeconfig, text).expect("the kubeconfig is written");
    let strict = cluster.directory().join("strict.kubeconfig");
    fs::write(&strict, text.replace("insecure-skip-tls-verify: true", "tls-server-name: localhost"))
        .expect("the kubeconfig is written");
    let from = format!("https://127.0.0.1:{port}");
    let why = |pod: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        command.args(["why", pod, "--from", &from, "--insecure-skip-tls-verify", "--kubeconfig"]);
        let output = command.arg(cluster.kubeconfig()).args(more).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let told = eventually("the condition has come back", PATIENCE, || {
        let (_, json, _) = why("default/large", &["-o", "json"]);
        serde_json::from_str::<Value>(&json).ok().filter(|told| !told["message"].is_null())
    });
    assert_eq!((&told["state"], &told["attempts"]), (&"unschedulable".into(), &1.into()), "{told}");
    assert_eq!(told["reasons"], json!([{"nodes": 1, "reason": "Insufficient cpu"}]));
    assert_eq!(told["wokenBy"][0]["plugin"], "NodeResourcesFit");
    assert!(told["triedAgainBy"].is_string(), "{told}");
    let (_, table, _) = why("large", &[]);
    assert!(table.starts_with("default/large waits for an event since "), "{table}");
    assert!(table.contains("NodeResourcesFit"), "{table}");
    let changes = told["simulation"]["remedies"].as_array().map(Vec::len);
    assert!(changes.is_some_and(|changes| changes > 0), "{told}");
    assert!(table.contains("IF YOU") && table.contains("request cpu 0.9 instead of 2"), "{table}");
    let (_, table, _) = why("gated", &[]);
    assert!(table.starts_with("default/gated is held back by SchedulingGates"), "{table}");
    let told = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        command.args(["why", "large", "--from", &from, "--kubeconfig"]).arg(&strict).args(more);
        let output = command.output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (trusted, error) = told(&[]);
    assert!(!trusted && error.contains("certificate"), "the authority is another one: {error}");
    assert_eq!(told(&["--insecure-skip-tls-verify"]), (true, String::new()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    command.args(["why", "large", "--from", &from, "-o", "json", "--kubeconfig"]).arg(&kubeconfig);
    let output = command.output().expect("the program runs");
    let alone: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&alone["state"], &alone["simulation"]), (&json!("unschedulable"), &Value::Null));
    assert!(alone["notSimulated"].is_string(), "the cluster of the kubeconfig cannot be reached: {alone}");
    let (read, error) = told(&["--insecure-skip-tls-verify", "--token-file", "no-token"]);
    assert!(
        !read && error.starts_with("error: credentials for the API server: token file no-token: "),
        "{error}"
    );
    let (read, error) = told(&["--certificate-authority", "no-such-file"]);
    assert!(!read && error.starts_with("error: certificate authority no-such-file: "), "{error}");
    let (found, table, _) = why("small", &[]);
    let expected = "default/small does not wait for this scheduler: ";
    assert!(
        found && table.starts_with(expected) && table.contains("default/small is on node node"),
        "{table}"
    );
    let (found, _, error) = why("nobody", &[]);
    assert!(
        !found && error.contains("default/nobody does not wait") && error.contains("no pod is named"),
        "{error}"
    );
    harbormaster.ends_well();
}
