//! Without `--emulated-version`, the program follows the version of the API server.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use harbormaster_oracle::{components::free_ports, embedded::Embedded};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound},
    objects::{NODES, PODS, node, pod},
    port::ask,
    process::{END, Harbormaster, run_to_end},
    proxy::{Fault, Proxy, Request},
};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
const PATHS: &str = "--authorization-always-allow-paths=/livez,/readyz,/statusz,/metrics,/configz";
const FOLLOWS: &str = "Following the version of the API server";
const NEAREST: &str = "The version of the API server is not implemented: following the nearest release";

/// An API server, and a scheduler with a secure port that is started with a configuration file.
struct Scene {
    cluster: Embedded,
    proxy: Proxy,
    directory: tempfile::TempDir,
    port: u16,
}

impl Scene {
    /// Starts an API server of the given minor version of Kubernetes 1. The proxy before it does not listen yet.
    fn new(minor: u32) -> Self {
        let cluster = Embedded::start_as(minor, |_| Ok(())).expect("the API server starts");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [port] = free_ports().expect("a port is free");
        let scene = Self { proxy: Proxy::new(&cluster), cluster, directory, port };
        scene.write("");
        scene
    }

    fn write(&self, config: &str) {
        fs::write(self.directory.path().join("c.yaml"), format!("{HEAD}{config}"))
            .expect("the file is written");
    }

    fn start(&self, flags: &[&str]) -> Harbormaster {
        let mut args = vec![
            format!("--master=http://127.0.0.1:{}", self.proxy.port),
            format!("--config={}", self.directory.path().join("c.yaml").display()),
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            PATHS.to_owned(),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        Harbormaster::start(&args, self.directory.path().join("log"))
    }

    /// Returns the status and the text of a page of the secure port.
    fn page(&self, path: &str) -> Option<(u16, String)> {
        let (status, body) = ask(self.port, "GET", path, "")?;
        Some((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn wait_for_page(&self, path: &str, text: &str) -> String {
        eventually(&format!("{text} at {path}"), PATIENCE, || {
            self.page(path).map(|(_, page)| page).filter(|page| page.contains(text))
        })
    }

    fn wait_until_ready(&self) {
        self.wait_for_page("/readyz", "ok");
    }

    /// Returns the names of the default plugins in order.
    fn plugins(&self) -> Vec<String> {
        let page = self.wait_for_page("/configz", "multiPoint");
        let config: Value = serde_json::from_str(&page).expect("the page is JSON");
        let plugins = &config["componentconfig"]["profiles"][0]["plugins"]["multiPoint"]["enabled"];
        let plugins = plugins.as_array().expect("a list");
        plugins.iter().filter_map(|plugin| plugin["name"].as_str()).map(str::to_owned).collect()
    }
}

fn is_question(request: &Request) -> bool {
    request.path == "/version"
}

#[test]
fn the_release_is_the_one_nearest_to_the_version_of_the_api_server() {
    for (minor, message, release) in
        [(30, NEAREST, "1.36"), (36, FOLLOWS, "1.36"), (37, FOLLOWS, "1.37"), (99, NEAREST, "1.37")]
    {
        let scene = Scene::new(minor);
        scene.proxy.listen();
        let scheduler = scene.start(&[]);
        let line = scheduler.wait_for_line(&[message]);
        assert!(line.contains(&format!("server=\"v1.{minor}.")), "{line}");
        assert!(line.contains(&format!("release=\"{release}\"")), "{line}");
        scene.wait_until_ready();
        scene.wait_for_page("/statusz", &format!("Emulation version: {release}\n"));
        let metrics = scene.wait_for_page("/metrics", &format!("version_info{{binary=\"{release}\""));
        assert_eq!(metrics.contains("scheduler_queued_entities"), release == "1.37", "1.{minor}");
        let plugins = scene.plugins();
        let position = |name: &str| plugins.iter().position(|plugin| plugin == name);
        let is_name_first = position("NodeName") < position("NodeUnschedulable");
        assert_eq!(is_name_first, release == "1.37", "{plugins:?}");
        let client = scene.cluster.client();
        client.post(NODES, &node("n", json!({}), "1", "1Gi", 10)).expect("the node is created");
        let pod = pod("p", "default-scheduler", json!({"cpu": "1"}), json!({}));
        client.post(PODS, &pod).expect("the pod is created");
        assert_eq!(wait_until_bound(client, "p"), "n");
        assert_eq!(scene.proxy.count(is_question), 1);
        scheduler.ends_well();
    }
}

#[test]
fn the_secure_port_is_open_until_the_api_server_tells_its_version() {
    let scene = Scene::new(37);
    let stage = Arc::new(AtomicUsize::new(0));
    for (number, fault) in [(0, Fault::Break), (1, Fault::status(403, "Forbidden"))] {
        let stage = stage.clone();
        let applies =
            move |request: &Request| is_question(request) && stage.load(Ordering::Relaxed) == number;
        scene.proxy.fault(usize::MAX, fault, applies);
    }
    let scheduler = scene.start(&[]);
    // Nothing listens at the address yet.
    scheduler.wait_for_line(&["The API server cannot be reached", "refused"]);
    assert_eq!(scene.page("/livez"), Some((200, "ok".to_owned())));
    assert_eq!(scene.page("/readyz").map(|(status, _)| status), Some(500));
    assert_eq!(scene.page("/metrics"), Some((200, String::new())));
    scene.proxy.listen();
    eventually("the API server is asked again", PATIENCE, || {
        (scene.proxy.count(is_question) > 0).then_some(())
    });
    stage.store(1, Ordering::Relaxed);
    scheduler.wait_for_line(&["The API server does not tell its version", "injected Forbidden"]);
    stage.store(2, Ordering::Relaxed);
    scheduler.wait_for_line(&[FOLLOWS, "release=\"1.37\""]);
    scene.wait_until_ready();
    let log = scheduler.ends_well();
    assert_eq!(log.matches("does not tell its version").count(), 1, "{log}");
}

#[test]
fn signals_end_a_scheduler_that_waits_for_the_version() {
    let scene = Scene::new(37);
    let mut scheduler = scene.start(&[]);
    scheduler.wait_for_line(&["The API server cannot be reached"]);
    scheduler.signal("HUP");
    scheduler.signal("INT");
    let status = scheduler.wait(END);
    assert_eq!(status.code(), Some(0), "{}", scheduler.log());
}

#[test]
fn a_changed_configuration_keeps_the_release() {
    let scene = Scene::new(37);
    scene.proxy.listen();
    let scheduler = scene.start(&[]);
    scene.wait_until_ready();
    let before = scene.plugins();
    scene.write("podMaxBackoffSeconds: 20\n");
    scheduler.signal("HUP");
    scheduler.wait_for_line(&["The changed configuration file is now in effect"]);
    scene.wait_for_page("/configz", "\"podMaxBackoffSeconds\":20");
    assert_eq!(scene.plugins(), before);
    assert_eq!(scene.proxy.count(is_question), 1);
    scheduler.ends_well();
}

#[test]
fn settings_that_the_followed_release_rejects_are_an_error() {
    let scene = Scene::new(36);
    scene.proxy.listen();
    let mut scheduler = scene.start(&["--feature-gates=SchedulerPreQueueingHints=true"]);
    let status = scheduler.wait(END);
    let log = scheduler.log();
    assert_eq!(status.code(), Some(1), "{log}");
    let expected =
        "Error: the API server has Kubernetes 1.36: unrecognized feature gate: SchedulerPreQueueingHints";
    assert!(log.contains(expected), "{log}");
}

#[test]
fn nobody_is_asked_if_a_flag_names_the_version_or_only_the_configuration_is_written() {
    let scene = Scene::new(36);
    scene.proxy.listen();
    let scheduler = scene.start(&["--emulated-version=1.37"]);
    scene.wait_until_ready();
    scene.wait_for_page("/statusz", "Emulation version: 1.37\n");
    assert_eq!(scene.proxy.count(is_question), 0);
    scheduler.ends_well();

    let directory = tempfile::tempdir().expect("a temporary directory");
    for (flags, expected) in [
        (&[][..], "Wrote configuration for the newest release; --emulated-version selects another one"),
        (&["--emulated-version=1.36"][..], "Wrote configuration"),
    ] {
        let args = ["run", "--write-config-to=written.yaml", "--master=http://127.0.0.1:1"];
        let (code, log) = run_to_end(&[&args, flags].concat(), directory.path(), PATIENCE);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(expected), "{log}");
    }
}
