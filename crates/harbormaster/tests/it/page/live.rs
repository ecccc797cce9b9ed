//! The live page: of a sandbox, and on the secure port of a scheduler.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use harbormaster_oracle::components::{Key, free_ports};
use serde_json::{Value, json};

use super::opened::Opened;
use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, default_config, node, pod},
    port::ask,
    process::{Harbormaster, with_open_port},
    server::Server,
};

const PODS_OF_SANDBOX: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {name: small}, spec: {nodeSelector: {kubernetes.io/hostname: node-2}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 64}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: held}, spec: {schedulingGates: [{name: example.com/quota}], containers: [{name: c, image: i}]}}
"#;

/// A sandbox that serves until it is dropped.
struct Sandbox {
    child: Child,
    url: String,
}

impl Sandbox {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("pods.yaml"), PODS_OF_SANDBOX).expect("the manifests are written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        let mut child = command
            .args(["sandbox", "--serve", "--nodes", "3", "-f", "pods.yaml"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sandbox starts");
        let out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
        let mut lines = out.lines().map(|line| line.expect("the output is UTF-8"));
        let url = lines.find_map(|line| Some(line.strip_prefix("Page for a browser: ")?.to_owned()));
        let url = url.expect("the sandbox names its page");
        // The sandbox must be able to go on writing.
        std::thread::spawn(move || lines.for_each(drop));
        let sandbox = Self { child, url };
        eventually("every pod is decided", PATIENCE, || sandbox.is_settled().then_some(()));
        sandbox
    }
}

impl Sandbox {
    /// Returns true if the page's data contain the pods of [`PODS_OF_SANDBOX`] as they are in the end.
    fn is_settled(&self) -> bool {
        let reply = ureq::get(format!("{}/data", self.url)).call();
        let data =
            reply.ok().and_then(|mut reply| reply.body_mut().read_to_string().ok()).unwrap_or_default();
        data.contains(r#""pods":[["default/small""#) && data.contains("Insufficient cpu")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask_form(page: &mut Opened, fields: &[(&str, &str)]) -> String {
    for (name, value) in fields {
        page.value(&format!("document.querySelector('#fit [name={name}]').value = {}", json!(value)));
    }
    page.value("document.getElementById('answer').textContent = ''");
    page.click("#fit button");
    page.wait_for("!['', 'Asking …'].includes(document.getElementById('answer').textContent)");
    page.text("#answer")
}

#[test]
fn the_page_of_a_sandbox_shows_what_happens() {
    let sandbox = Sandbox::start();
    let mut page = Opened::at(&sandbox.url);
    page.wait_for(
        "document.getElementById('status').textContent.startsWith('3 nodes, 1 pod on them, 2 waiting, ')",
    );
    assert_eq!(page.text("#queue-counts"), "1 unschedulable, 1 gated");
    page.click("#queue-table button");
    page.wait_for("document.querySelector('#pod-wakers td') !== null");
    assert_eq!(page.text("#pod-title"), "Pod default/huge");
    assert_eq!(page.rows("#pod-reasons"), json!([["3", "Insufficient cpu"]]));
    assert_eq!(page.rows("#pod-wakers")[0][0], "NodeResourcesFit");
    let facts = page.facts("#pod-facts");
    assert_eq!((&facts["state"], &facts["attempts"]), (&json!("unschedulable"), &json!("1")), "{facts}");
    page.value("document.getElementById('boxes').focus()");
    page.press(&[Key::Right, Key::Enter]);
    assert_eq!(page.text("#node-title"), "Node node-2");
    assert_eq!(page.text("#node-pods tbody tr td"), "default/small");
    page.wait_for("view.samples.length > 1");
    assert_eq!(page.value("document.querySelectorAll('#charts svg[role=img]').length"), 3);
    let label = page.value("document.querySelector('#chart-queue svg').getAttribute('aria-label')");
    assert_eq!(label, "Pods that wait: now 2, at most 2");
    page.ends_quietly();
}

#[test]
fn the_form_says_where_a_pod_would_fit_and_how_often() {
    let sandbox = Sandbox::start();
    let mut page = Opened::at(&sandbox.url);
    page.wait_for("view.scene.nodes.length === 3 && view.scene.podCount === 1");
    let cpus = page.value("view.scene.nodes.map((node) => (node.allocatable[0] - node.requested[0]) / 1000)");
    let free: i64 =
        cpus.as_array().expect("a list").iter().map(|cpu| cpu.as_f64().unwrap_or_default() as i64).sum();
    let answer = ask_form(&mut page, &[("cpu", "1"), ("memory", "1Mi")]);
    assert_eq!(answer, format!("Fits on 3 of 3 nodes. There is room for {free} copies."));
    let answer = ask_form(&mut page, &[("selector", "kubernetes.io/hostname=node-1"), ("cpu", "500m")]);
    assert!(answer.starts_with("Fits on 1 of 3 nodes."), "{answer}");
    let answer = ask_form(&mut page, &[("selector", "disk=ssd")]);
    assert!(
        answer.starts_with("Fits on 0 of 3 nodes. 0/3 nodes are available: 3 node(s) didn't match"),
        "{answer}"
    );
    let answer = ask_form(&mut page, &[("cpu", "many")]);
    assert!(answer.contains("many"), "the mistake is told: {answer}");
    assert_eq!(page.value("view.scene.podCount"), 1, "the question has no effect");
    page.ends_quietly();
}

#[test]
fn the_secure_port_serves_the_page_to_those_who_may_see_it() {
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    client.post(NODES, &node("node", json!({}), "1", "8Gi", 110)).expect("the node is created");
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let [port] = free_ports().expect("a port is free");
    let [closed] = free_ports().expect("a port is free");
    let start = |port: u16, allowed: &str| {
        let args = with_open_port(&config, port, allowed);
        Harbormaster::start(&args, cluster.directory().join(format!("{port}.log")))
    };
    let harbormaster = start(port, "/debug/*");
    let create = |name: &str, cpu: &str| {
        client
            .post(PODS, &pod(name, "default-scheduler", json!({"cpu": cpu}), json!({})))
            .expect("the pod is created");
    };
    create("small", "100m");
    create("large", "2");
    wait_until_bound(client, "small");
    wait_until_explained(client, "large");
    let mut page = Opened::at(&format!("https://127.0.0.1:{port}/debug/page"));
    page.wait_for("view.scene.podCount === 1 && view.scene.waiting.some((row) => row.message !== '')");
    page.click("#queue-table button");
    page.wait_for("document.querySelector('#pod-reasons td') !== null");
    assert_eq!(page.rows("#pod-reasons"), json!([["1", "Insufficient cpu"]]));
    let answer = ask_form(&mut page, &[("cpu", "300m"), ("memory", "1Gi")]);
    assert_eq!(answer, "Fits on 1 of 1 node. There is room for 3 copies.");
    page.ends_quietly();

    let served = Served::start(cluster.kubeconfig(), port, &["--insecure-skip-tls-verify"]);
    let mut page = Opened::at(&served.url);
    page.wait_for("view.scene.podCount === 1 && view.scene.waiting.length === 1");
    page.click("#queue-table button");
    page.wait_for("document.querySelector('#pod-reasons td') !== null");
    let answer = ask_form(&mut page, &[("cpu", "2"), ("selector", "disk=ssd,size=a b")]);
    assert!(answer.starts_with("Fits on 0 of 1 node. 0/1 nodes are available"), "{answer}");
    page.ends_quietly();
    harbormaster.ends_well();

    let refusing = start(closed, "/healthz");
    eventually("the port is open", PATIENCE, || {
        ask(closed, "GET", "/healthz", "").filter(|reply| reply.0 == 200)
    });
    for path in ["/debug/page", "/debug/page/data", "/debug/page/fit?cpu=1"] {
        let (status, body) = ask(closed, "GET", path, "").expect("an answer");
        let told: Value = serde_json::from_slice(&body).expect("a status in JSON");
        assert_eq!((status, &told["reason"]), (403, &json!("Forbidden")), "{path}");
    }
    let output = Served::command(cluster.kubeconfig(), closed, &["--insecure-skip-tls-verify"]).output();
    let output = output.expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("cannot get path \"/debug/page\""), "{error}");
    refusing.ends_well();
}

/// The page of a scheduler, served by the command `page` until it is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn command(kubeconfig: &Path, port: u16, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        command.args(["page", "--from", &format!("https://127.0.0.1:{port}"), "--kubeconfig"]);
        command.arg(kubeconfig).args(more);
        command
    }

    fn start(kubeconfig: &Path, port: u16, more: &[&str]) -> Self {
        let mut command = Self::command(kubeconfig, port, more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
        let out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
        let mut lines = out.lines().map(|line| line.expect("the output is UTF-8"));
        let url = lines.find_map(|line| Some(line.strip_prefix("Page for a browser: ")?.to_owned()));
        Self { child, url: url.expect("the command names the page") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn many_questions_at_a_time_leave_the_console_empty() {
    let cluster = Server::Embedded.own();
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let [port] = free_ports().expect("a port is free");
    let args = with_open_port(&config, port, "/debug/*");
    let harbormaster = Harbormaster::start(&args, cluster.directory().join("harbormaster.log"));
    let mut page = Opened::at(&format!("https://127.0.0.1:{port}/debug/page"));
    let answers = page.value(
        "Promise.all(Array.from({length: 200}, (_, at) => fetched(at % 2 ? 'page/data' : 'page/fit?cpu=1'))) \
         .then((answers) => answers.length)",
    );
    assert_eq!(answers, 200);
    page.ends_quietly();
    harbormaster.ends_well();
}

#[test]
fn a_pod_that_gets_its_node_or_goes_before_a_click_is_no_error() {
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    let add_node = |name: &str, cpu: &str| {
        client.post(NODES, &node(name, json!({}), cpu, "8Gi", 110)).expect("the node is created");
    };
    add_node("small", "1");
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let [port] = free_ports().expect("a port is free");
    let args = with_open_port(&config, port, "/debug/*");
    let harbormaster = Harbormaster::start(&args, cluster.directory().join("harbormaster.log"));
    for (name, cpu) in [("large", "2"), ("huge", "64")] {
        let pod = pod(name, "default-scheduler", json!({"cpu": cpu}), json!({}));
        client.post(PODS, &pod).expect("the pod is created");
        wait_until_explained(client, name);
    }
    let mut page = Opened::at(&format!("https://127.0.0.1:{port}/debug/page"));
    page.wait_for("view.scene.waiting.length === 2");
    // The page gets its present state until the test lets it have a newer one.
    page.value(
        "(async () => { const real = window.fetch; const kept = JSON.stringify(await fetched('page/data')); \
         window.held = true; window.fetch = async (path, ...more) => window.held && path === 'page/data' ? \
         new Response(kept) : real(path, ...more); })()",
    );
    add_node("large-enough", "4");
    wait_until_bound(client, "large");
    delete_pod(client, "huge");
    for (row, name) in [(1, "huge"), (2, "large")] {
        eventually("the engine does not wait any more", PATIENCE, || {
            let path = format!("/debug/why?namespace=default&pod={name}");
            let (_, body) = ask(port, "GET", &path, "")?;
            String::from_utf8_lossy(&body).contains("notWaiting").then_some(())
        });
        page.click(&format!("#queue-table tbody tr:nth-child({row}) button"));
        page.wait_for(
            "document.getElementById('pod-facts').innerText.includes('does not wait for this scheduler')",
        );
        assert_eq!(page.text("#pod-title"), format!("Pod default/{name}"));
    }
    page.value("window.held = false");
    page.wait_for("document.getElementById('pod-facts').innerText.includes('large-enough')");
    assert_eq!(page.facts("#pod-facts")["node"], "large-enough");
    page.ends_quietly();
    harbormaster.ends_well();
}
