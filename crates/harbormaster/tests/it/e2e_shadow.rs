//! `harbormaster shadow` beside the real kube-scheduler: both decide alike, and the shadow only reads.

#![cfg(unix)]

use std::{fs, path::Path, time::Duration};

use harbormaster_oracle::components::{ApiClient, Component, ControlPlane, free_ports};
use serde_json::{Value, json};

use crate::{
    deploy::{apply, audited_cluster, calls, deploy, token, write_kubeconfig},
    e2e::{
        cluster::{PATIENCE, create_all, eventually, get_pod, list, wait_until_bound, wait_until_explained},
        objects::{NODES, PODS, config, node, node_of, pod},
        process::Harbormaster,
    },
};

const SCHEDULER: &str = "default-scheduler";

/// A cluster with kube-scheduler and a shadow.
struct Scene {
    cluster: ControlPlane,
    files: tempfile::TempDir,
    // Stopped before the API server.
    original: Option<Component>,
}

impl Scene {
    /// Starts kube-scheduler in a cluster of 24 nodes in 3 zones.
    fn new() -> Self {
        let (cluster, files) = audited_cluster();
        create_all(cluster.client(), NODES, &nodes());
        let manifest = fs::read_to_string(deploy("shadow.yaml")).expect("the manifest");
        apply(&cluster, files.path(), &manifest);
        let config = configuration("LeastAllocated").to_string();
        let original = cluster.start_kube_scheduler(&config, &[]).expect("kube-scheduler starts");
        Self { cluster, files, original: Some(original) }
    }

    fn client(&self) -> &ApiClient {
        self.cluster.client()
    }

    /// Starts a shadow with the permissions of the manifest and with a scoring strategy, and waits until it compares.
    fn shadow(&self, strategy: &str, args: &[&str]) -> Shadow {
        let token = token(self.client(), "kube-system", "harbormaster-shadow");
        let kubeconfig = write_kubeconfig(&self.cluster, self.files.path(), &token);
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        fs::write(path("config.json"), configuration(strategy).to_string()).expect("files can be written");
        let mut all = vec!["shadow".to_owned(), "--every=1s".to_owned()];
        all.push(format!("--kubeconfig={kubeconfig}"));
        all.push(format!("--config={}", path("config.json")));
        all.push(format!("--report={}", path("report.json")));
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let process = Harbormaster::start_as("harbormaster", &all, directory.path());
        process.wait_for_line(&["All objects are known"]);
        Shadow { process, directory }
    }

    /// Stops kube-scheduler and asserts that the shadow's requests were allowed and read only.
    fn ends(mut self) {
        self.original.take().expect("kube-scheduler runs").stop().expect("kube-scheduler ends");
        assert_eq!(calls(self.files.path(), false), Default::default(), "nothing is refused");
        let made = calls(self.files.path(), true);
        let reads = |call: &String| ["get ", "list ", "watch "].iter().any(|verb| call.starts_with(verb));
        assert!(made.contains("watch pods") && made.iter().all(reads), "{made:?}");
    }
}

/// A running shadow.
struct Shadow {
    process: Harbormaster,
    directory: tempfile::TempDir,
}

impl Shadow {
    /// Waits until at least this many decisions have been compared, then stops the shadow and returns its report.
    fn report(self, decisions: u64) -> (Value, String) {
        let Self { process, directory } = self;
        eventually("all decisions are compared", PATIENCE, || {
            let lines = process.lines_with(&[" decisions compared, "]);
            let count = lines.last()?.split_once(": ")?.1.split(' ').next()?.parse::<u64>().ok()?;
            (count >= decisions).then_some(())
        });
        let log = process.ends_well();
        (read(&directory.path().join("report.json")), log)
    }
}

/// Returns the configuration of a scheduler whose decisions depend only on the cluster.
fn configuration(strategy: &str) -> Value {
    let mut config = config(SCHEDULER);
    config["parallelism"] = json!(1);
    config["percentageOfNodesToScore"] = json!(100);
    let resources = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
    let args = json!({"scoringStrategy": {"type": strategy, "resources": resources}});
    config["profiles"][0]["pluginConfig"] = json!([{"name": "NodeResourcesFit", "args": args}]);
    config
}

fn read(report: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(report).expect("a report")).expect("the report is JSON")
}

fn nodes() -> Vec<Value> {
    (0..24)
        .map(|at| {
            let (zone, disk) = (["x", "y", "z"][at % 3], ["ssd", "hdd"][at % 2]);
            let name = format!("n{at}");
            let labels =
                json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "disk": disk});
            let cpu = ["8", "16", "32"][at % 3];
            let mut node = node(&name, labels, cpu, "64Gi", 110);
            if at % 6 == 0 {
                let effect = if at % 12 == 0 { "NoSchedule" } else { "PreferNoSchedule" };
                node["spec"]["taints"] = json!([{"key": "team", "value": "red", "effect": effect}]);
            }
            node
        })
        .collect()
}

/// Returns a pod of one of eight shapes; `at` selects the shape.
fn shaped(name: &str, at: usize) -> Value {
    let app = json!({"matchLabels": {"app": format!("app{}", at % 8)}});
    let term = json!({"labelSelector": app, "topologyKey": "kubernetes.io/hostname"});
    let in_zone = json!({"labelSelector": app, "topologyKey": "topology.kubernetes.io/zone"});
    let ssd = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    let spread = |key: &str, when: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": app});
    let spec = match at % 8 {
        0 => json!({}),
        1 => json!({"topologySpreadConstraints": [spread("topology.kubernetes.io/zone", "DoNotSchedule")]}),
        2 => json!({"topologySpreadConstraints": [spread("kubernetes.io/hostname", "ScheduleAnyway")]}),
        3 => {
            json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]}}})
        }
        4 => {
            json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "podAffinityTerm": in_zone}]}}})
        }
        5 => json!({"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "team", "operator": "Exists"}]}),
        6 => {
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": ssd}]}}})
        }
        _ => {
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
        }
    };
    let requests = json!({"cpu": format!("{}m", 50 + 10 * (at % 5)), "memory": "128Mi"});
    let mut pod = pod(name, SCHEDULER, requests, spec);
    pod["metadata"]["labels"] = json!({"app": format!("app{}", at % 8)});
    pod
}

fn count(report: &Value, result: &str) -> u64 {
    report["results"][result].as_u64().expect("a count")
}

#[test]
fn decisions_one_after_the_other_agree_unless_the_configurations_differ() {
    const PODS_BOUND: usize = 320;
    let scene = Scene::new();
    let client = scene.client();
    let [port] = free_ports().expect("a port is free");
    let serving = format!("--secure-port={port}");
    let allowed = "--authorization-always-allow-paths=/metrics,/readyz";
    let args = ["-o=json", &serving, "--bind-address=127.0.0.1", allowed, "--authentication-skip-lookup"];
    let shadow = scene.shadow("LeastAllocated", &args);
    let other = scene.shadow("MostAllocated", &[]);
    client.post(PODS, &pod("huge", SCHEDULER, json!({"cpu": "100"}), json!({}))).expect("the pod is created");
    wait_until_explained(client, "huge");
    for at in 0..PODS_BOUND {
        let name = format!("p{at}");
        client.post(PODS, &shaped(&name, at)).expect("the pod is created");
        // The 23rd pod that repels its own kind finds no node.
        match at / 8 >= 22 && at % 8 == 7 {
            true => drop(wait_until_explained(client, &name)),
            false => drop(wait_until_bound(client, &name)),
        }
    }
    let metrics = ApiClient::new(&format!("https://127.0.0.1:{port}"), "");
    let page = eventually("all decisions are counted", PATIENCE, || {
        let page = metrics.get_text("/metrics").expect("the port answers");
        let numbers = page.lines().filter(|line| line.starts_with("harbormaster_shadow_pods_total{"));
        let sum: u64 = numbers.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        (sum > PODS_BOUND as u64).then_some(page)
    });
    assert!(page.contains("harbormaster_shadow_pods_total{result=\"same\"} "), "{page}");
    let (report, log) = shadow.report(PODS_BOUND as u64 + 1);
    println!("{report:#}");
    assert_eq!(report["alike"], report["decisions"], "{report:#}");
    assert!(count(&report, "same") > 0 && count(&report, "both_waiting") > 0, "{report:#}");
    assert_eq!((&report["causes"], &report["notes"]), (&json!([]), &json!([])));
    assert!(report["untilBound"]["count"].as_u64() >= Some(300) && report["cpuSeconds"].as_f64() > Some(0.0));
    let printed = &log[log.find("\n{").expect("the report is printed too")..];
    let printed: Value =
        serde_json::from_str(&printed[..=printed.rfind('}').expect("its end")]).expect("JSON");
    assert_eq!(printed, report);
    let (report, log) = other.report(PODS_BOUND as u64 / 2);
    println!("{log}");
    assert_eq!((count(&report, "raced"), count(&report, "failed")), (0, 0), "{report:#}");
    let cause = &report["causes"][0];
    assert_eq!(
        (&cause["result"], &cause["cause"]),
        (&json!("elsewhere"), &json!("NodeResourcesFit")),
        "{report:#}"
    );
    scene.ends();
}

#[test]
fn decisions_in_quick_succession_differ_only_by_races() {
    const PODS_CREATED: usize = 600;
    let scene = Scene::new();
    let client = scene.client();
    let shadow = scene.shadow("LeastAllocated", &[]);
    let pods: Vec<Value> =
        (0..PODS_CREATED).filter(|at| at % 8 != 7).map(|at| shaped(&format!("p{at}"), at)).collect();
    create_all(client, PODS, &pods);
    eventually("all pods are bound", PATIENCE, || {
        list(client, PODS).iter().all(|pod| node_of(pod).is_some()).then_some(())
    });
    assert!(get_pod(client, "p0").is_some());
    std::thread::sleep(Duration::from_secs(6));
    let (report, log) = shadow.report(pods.len() as u64);
    println!("{log}");
    // The search for the cluster that the other scheduler saw is limited. On a busy machine, bindings may arrive in an
    // order that is beyond its limits.
    let explained = report["alike"].as_u64().expect("a number") + count(&report, "raced");
    let decisions = report["decisions"].as_u64().expect("a number");
    assert!(explained * 100 >= decisions * 98, "{report:#}");
    scene.ends();
}
