//! Runs the program with real schedulers and a real kube-apiserver.

#![cfg(unix)]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use harbormaster_oracle::{
    components::{ApiClient, ControlPlane, ControlPlaneOptions},
    harbormaster::harbormaster_binary,
    process::terminate,
    scheduler::{Contender, Scheduler, StartOptions},
};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, create_priority_classes, delete_pod, eventually, get_pod, wait_until_bound,
        wait_until_explained,
    },
    objects::{NODES, PODS, node, pod},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
const NAME: &str = "metrics-extender";
const LABEL: &str = "filter.xy.com";
const ARTICLE: [(&str, &str); 3] = [("k8s-master", "264m"), ("k8s-node1", "87m"), ("k8s-node2", "67m")];
const NO_METRICS: &str = "the server could not find the requested resource (get nodes.metrics.k8s.io)";

/// All schedulers that can call extenders.
fn schedulers() -> Vec<Contender> {
    let harbormaster = harbormaster_binary(false).expect("cargo builds harbormaster");
    vec![Contender::KubeScheduler, Contender::Harbormaster(harbormaster)]
}

/// The program as a process, killed on drop.
struct Extender {
    child: Child,
    log: PathBuf,
    client: ApiClient,
    url: String,
}

impl Drop for Extender {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the extender's log:\n{}", self.log());
        }
        // Fails only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Extender {
    fn start(kubeconfig: &Path, args: &[&str], log: PathBuf) -> Self {
        let output = File::create(&log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metrics-extender"));
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args(["--listen=127.0.0.1:0", "--refresh=1s", "--max-age=3s", "--verbose"]).args(args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn().unwrap();
        let address = eventually("the extender logs its address", PATIENCE, || {
            let log = fs::read_to_string(&log).unwrap();
            let (_, rest) = log.split_once("address=")?;
            rest.split_once(char::is_whitespace).map(|(address, _)| address.to_owned())
        });
        let url = format!("http://{address}");
        let extender = Self { child, log, client: ApiClient::new(&url, ""), url };
        eventually("the extender is ready", PATIENCE, || extender.client.get_text("/readyz").ok());
        extender
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the number of successful requests for a verb.
    fn answered(&self, verb: &str) -> u64 {
        let text = self.client.get_text("/metrics").unwrap();
        let line = format!("extender_requests_total{{code=\"200\",verb=\"{verb}\"}} ");
        text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap()
    }

    /// Returns prioritize's scores for the given nodes; nodes without a score are absent.
    fn scores(&self, nodes: &[&str]) -> Vec<(String, i64)> {
        let args = json!({"Pod": {"metadata": {"name": "asked"}}, "Nodes": null, "NodeNames": nodes});
        let answer = self.client.post("/scheduler/prioritize", &args).unwrap();
        let scores = answer.as_array().unwrap().iter();
        let mut scores: Vec<_> = scores
            .map(|score| (score["Host"].as_str().unwrap().to_owned(), score["Score"].as_i64().unwrap()))
            .collect();
        scores.sort();
        scores
    }

    /// Waits until the extender has the usage of all nodes; nodes without metrics get no points.
    fn wait_for_scores(&self) {
        let names = ARTICLE.map(|(name, _)| name);
        let known = || self.scores(&names).iter().filter(|(_, score)| *score != 0).count() == names.len();
        eventually("the extender has the usage of all nodes", PATIENCE, || known().then_some(()));
    }
}

/// A cluster with an extender and a scheduler that calls it. Fields are dropped in declaration order.
struct World {
    scheduler: Scheduler,
    extender: Extender,
    cluster: ControlPlane,
}

impl World {
    /// Starts a cluster with the given nodes, the extender and the scheduler; merges `change` into the example
    /// configuration.
    fn start(contender: &Contender, args: &[&str], change: &Value, nodes: &[Value]) -> Self {
        let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
        for node in nodes {
            cluster.client().post(NODES, node).unwrap();
        }
        let extender = Extender::start(cluster.kubeconfig(), args, cluster.directory().join("extender.log"));
        let mut config =
            documents(include_str!("../../../../examples/metrics-extender/scheduler.yaml")).remove(0);
        config["extenders"][0]["urlPrefix"] = json!(format!("{}/scheduler", extender.url));
        for (field, value) in change.as_object().unwrap() {
            config["extenders"][0][field] = value.clone();
        }
        let options = StartOptions { config: config.to_string(), ..StartOptions::default() };
        let scheduler = Scheduler::start(contender, &cluster, &options).unwrap();
        Self { scheduler, extender, cluster }
    }

    fn client(&self) -> &ApiClient {
        self.cluster.client()
    }

    fn label(&self, node: &str) {
        let patch = json!({"metadata": {"labels": {LABEL: "true"}}});
        self.client().merge_patch(&format!("{NODES}/{node}"), &patch).unwrap();
    }

    fn create_pod(&self, name: &str, requests: Value, spec: Value) {
        self.client().post(PODS, &pod(name, NAME, requests, spec)).unwrap();
    }

    /// Makes the API server serve metrics-server's API group, and creates metrics of the nodes.
    fn install_metrics(&self) {
        let manifests = include_str!("../../../../examples/metrics-extender/cluster/2-metrics.yaml");
        let mut told = documents(manifests);
        self.client().post(DEFINITIONS, &told.remove(0)).unwrap();
        eventually("the group is served", PATIENCE, || self.client().get(METRICS).ok());
        let is_article = told.iter().map(|metrics| {
            (metrics["metadata"]["name"].as_str().unwrap(), metrics["usage"]["cpu"].as_str().unwrap())
        });
        assert!(is_article.eq(ARTICLE), "the example has the article's numbers");
        for metrics in &told {
            eventually("the metrics are accepted", PATIENCE, || self.client().post(METRICS, metrics).ok());
        }
    }

    fn end(self) {
        self.scheduler.stop().unwrap();
    }
}

/// Returns the nodes from the article, each with the given number of CPUs and without the label.
fn nodes(cpu: &str) -> Vec<Value> {
    ARTICLE.iter().map(|(name, _)| node(name, json!({}), cpu, "8Gi", 110)).collect()
}

fn documents(manifests: &str) -> Vec<Value> {
    manifests.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn zero_grace() -> Value {
    json!({"terminationGracePeriodSeconds": 0})
}

/// Runs the article's demonstration from beginning to end.
fn demonstration(contender: &Contender, args: &[&str], change: &Value, message: &str, scores: [i64; 3]) {
    let world = World::start(contender, args, change, &nodes("4"));
    world.create_pod("first", json!({}), json!({}));
    let (_, said) = wait_until_explained(world.client(), "first");
    assert!(said.starts_with(message), "{said}");
    world.label("k8s-node1");
    assert_eq!(wait_until_bound(world.client(), "first"), "k8s-node1");
    assert_eq!(world.extender.answered("prioritize"), 0, "with one node, there is nothing to prioritize");
    world.label("k8s-node2");
    // The scheduler may see the label slightly later than the pod.
    let mut number = 0;
    eventually("two nodes fit", PATIENCE, || {
        number += 1;
        let name = format!("second-{number}");
        world.create_pod(&name, json!({}), zero_grace());
        wait_until_bound(world.client(), &name);
        delete_pod(world.client(), &name);
        (world.extender.answered("prioritize") > 0).then_some(())
    });
    assert!(world.extender.log().contains(NO_METRICS));
    assert!(world.extender.scores(&["k8s-node1", "k8s-node2"]).is_empty());
    world.install_metrics();
    world.extender.wait_for_scores();
    let names = ARTICLE.map(|(name, _)| name);
    let expected: Vec<_> =
        names.iter().zip(scores).map(|(name, score)| ((*name).to_owned(), score)).collect();
    assert_eq!(world.extender.scores(&names), expected);
    // Six pods, so that the right result is unlikely to be a coincidence.
    for number in 0..6 {
        let name = format!("third-{number}");
        world.create_pod(&name, json!({}), zero_grace());
        assert_eq!(wait_until_bound(world.client(), &name), "k8s-node2");
        delete_pod(world.client(), &name);
    }
    assert!(world.extender.log().contains("node=\"k8s-node2\" millicores=67"), "scores are logged");
    // Without metrics-server, pods are still scheduled.
    world.client().delete(&format!("{DEFINITIONS}/nodes.metrics.k8s.io")).unwrap();
    eventually("the last metrics are too old", PATIENCE, || {
        world.extender.scores(&["k8s-node1", "k8s-node2"]).is_empty().then_some(())
    });
    world.create_pod("fourth", json!({}), json!({}));
    wait_until_bound(world.client(), "fourth");
    world.end();
}

#[test]
fn in_literal_mode_the_demonstration_runs_as_in_the_article() {
    for contender in schedulers() {
        let message = "all node do not have label filter.xy.com";
        demonstration(&contender, &["--mode=literal"], &json!({}), message, [-196, -19, 1]);
    }
}

#[test]
fn in_corrected_mode_the_demonstration_ends_as_in_the_article_whether_nodes_are_sent_as_objects_or_names() {
    for contender in schedulers() {
        for by_name in [false, true] {
            let message = "0/3 nodes are available: 3 node(s) had no label filter.xy.com.";
            demonstration(&contender, &[], &json!({"nodeCacheCapable": by_name}), message, [3, 8, 10]);
        }
    }
}

/// All nodes are full. The pod on the labeled node is evicted, although the pods on the other nodes have lower
/// priorities.
#[test]
fn a_preemptor_gets_the_labeled_node_whether_nodes_are_sent_as_objects_or_names() {
    for contender in schedulers() {
        for by_name in [false, true] {
            let world = World::start(&contender, &[], &json!({"nodeCacheCapable": by_name}), &nodes("1"));
            let client = world.client();
            create_priority_classes(client);
            world.label("k8s-node1");
            for (name, _) in ARTICLE {
                let mut spec = json!({"nodeName": name, "terminationGracePeriodSeconds": 0});
                if name == "k8s-node1" {
                    spec["priorityClassName"] = json!("middle");
                }
                client.post(PODS, &pod(&format!("on-{name}"), "nobody", json!({"cpu": "1"}), spec)).unwrap();
            }
            world.create_pod("important", json!({"cpu": "1"}), json!({"priorityClassName": "high"}));
            assert_eq!(wait_until_bound(client, "important"), "k8s-node1");
            assert!(world.extender.answered("preempt") > 0);
            assert!(get_pod(client, "on-k8s-node1").is_none());
            for other in ["on-k8s-master", "on-k8s-node2"] {
                let left = get_pod(client, other).unwrap();
                assert!(left["metadata"]["deletionTimestamp"].is_null(), "{other} is not evicted");
            }
            world.end();
        }
    }
}

#[test]
fn the_example_pod_is_placed_as_documented() {
    let nodes = documents(include_str!("../../../../examples/metrics-extender/cluster/1-nodes.yaml"));
    for contender in schedulers() {
        let world = World::start(&contender, &[], &json!({}), &nodes);
        world.install_metrics();
        world.extender.wait_for_scores();
        for pod in documents(include_str!("../../../../examples/metrics-extender/cluster/3-pods.yaml")) {
            world.client().post(PODS, &pod).unwrap();
        }
        assert_eq!(wait_until_bound(world.client(), "test"), "k8s-node2");
        world.end();
    }
}

#[test]
fn the_extender_binds_if_configured() {
    for contender in schedulers() {
        let world = World::start(&contender, &["--bind"], &json!({"bindVerb": "bind"}), &nodes("4"));
        world.label("k8s-node2");
        world.create_pod("bound", json!({}), json!({}));
        assert_eq!(wait_until_bound(world.client(), "bound"), "k8s-node2");
        assert_eq!(world.extender.answered("bind"), 1);
        world.end();
    }
}

/// Checks that the permissions of the role in `deploy/extender.yaml` suffice.
#[test]
fn the_deployed_role_suffices() {
    let directory = tempfile::tempdir().unwrap();
    // Tokens for the administrator, as in the other test clusters, and for the extender's account.
    let tokens = directory.path().join("tokens.csv");
    let extender = "extender-token,system:serviceaccount:kube-system:metrics-extender,extender";
    fs::write(&tokens, format!("harbormaster-admin,admin,admin,system:masters\n{extender}\n")).unwrap();
    let flags =
        vec!["--authorization-mode=RBAC".to_owned(), format!("--token-auth-file={}", tokens.display())];
    let options = ControlPlaneOptions { apiserver_flags: flags, ..ControlPlaneOptions::default() };
    let cluster = ControlPlane::start(&options).unwrap();
    let client = cluster.client();
    for (name, _) in ARTICLE {
        client.post(NODES, &node(name, json!({LABEL: ""}), "4", "8Gi", 110)).unwrap();
    }
    let manifests = include_str!("../../deploy/extender.yaml");
    for object in documents(manifests) {
        let path = match object["kind"].as_str().unwrap() {
            "ServiceAccount" => "/api/v1/namespaces/kube-system/serviceaccounts",
            "Service" => "/api/v1/namespaces/kube-system/services",
            "Deployment" => "/apis/apps/v1/namespaces/kube-system/deployments",
            "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            other => panic!("no path for kind {other}"),
        };
        eventually("the manifest is accepted", PATIENCE, || {
            client.post(&format!("{path}?fieldValidation=Strict"), &object).ok()
        });
    }
    let kubeconfig = cluster.directory().join("extender.kubeconfig");
    let text = fs::read_to_string(cluster.kubeconfig()).unwrap();
    fs::write(&kubeconfig, text.replace(cluster.token(), "extender-token")).unwrap();
    // The extender is ready after listing nodes.
    let extender = Extender::start(&kubeconfig, &[], cluster.directory().join("extender.log"));
    let said = || extender.log().contains(NO_METRICS).then_some(());
    eventually("metrics are requested, but do not exist", PATIENCE, said);
    let args = json!({"Pod": {}, "NodeNames": ["k8s-node1", "new"]});
    let filter = || extender.client.post("/scheduler/filter", &args).unwrap()["NodeNames"].clone();
    assert_eq!(filter(), json!(["k8s-node1"]));
    client.post(NODES, &node("new", json!({LABEL: ""}), "4", "8Gi", 110)).unwrap();
    let heard = || (filter() == json!(["k8s-node1", "new"])).then_some(());
    eventually("nodes are watched", PATIENCE, heard);
    let log = extender.log();
    assert!(!log.contains("forbidden"), "{log}");
}

/// SIGTERM ends the program with exit code 0.
#[test]
fn the_program_ends_on_sigterm() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let nobody = "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], \
                  contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}";
    fs::write(&kubeconfig, nobody).unwrap();
    let log = directory.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_metrics-extender"));
    command.arg("--kubeconfig").arg(&kubeconfig).arg("--listen=127.0.0.1:0");
    let mut child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    eventually("the extender serves", PATIENCE, || {
        fs::read_to_string(&log).unwrap().contains("Serving").then_some(())
    });
    assert!(terminate(child.id()).unwrap());
    let status = eventually("the program has ended", Duration::from_secs(60), || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("Received a stop signal"), "{said}");
}
