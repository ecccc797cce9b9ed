//! HTTP extenders take part in scheduling: they filter, score and bind, and an extender that hangs delays only the pods
//! that need it.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, create_priority_classes, events, eventually, wait_until_bound, wait_until_explained,
    },
    extender::Extender,
    objects::{NODES, PODS, config, default_config, is_terminating, node_of, pod},
    process::Harbormaster,
    scene::Scene,
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    an_extender_filters_and_scores_and_binds,
    a_pod_that_an_extender_rejects_gets_the_reason_and_is_retried_after_a_node_changes,
    an_extender_that_hangs_fails_only_the_pods_that_need_it,
    hundreds_of_pods_are_bound_while_an_extender_hangs,
    an_ignorable_extender_is_ignored_when_it_hangs,
    an_extender_chooses_the_victims,
}

const GPU: &str = "example.com/gpu";

/// Starts a scheduler with the given extender, and creates the nodes `a`, `b` and `c` with 2 CPUs each.
fn started(server: Server, name: &'static str, extender: Value) -> (Scene, Harbormaster) {
    started_on(server.shared(), name, extender)
}

fn started_on(cluster: Arc<Cluster>, name: &'static str, extender: Value) -> (Scene, Harbormaster) {
    let scene = Scene::on(cluster, name);
    create_priority_classes(&scene.client);
    ["a", "b", "c"].iter().for_each(|node| scene.create_node(node, "2", node));
    scene.proxy.listen();
    let mut config = config(name);
    config["extenders"] = json!([extender]);
    let harbormaster = scene.start_with(&config, format!("--master=http://127.0.0.1:{}", scene.proxy.port));
    (scene, harbormaster)
}

fn names(args: &Value) -> Vec<String> {
    let items = args["Nodes"]["items"].as_array().expect("the arguments contain nodes");
    items.iter().map(|node| node["metadata"]["name"].as_str().expect("nodes have names").to_owned()).collect()
}

/// Returns the names of the candidate nodes that end with `end`.
fn ending(args: &Value, end: &str) -> Vec<String> {
    names(args).into_iter().filter(|name| name.ends_with(end)).collect()
}

/// Accepts the candidate nodes whose names end with one of `ends`, and rejects the others as "off limits".
fn only(args: &Value, ends: &[&str]) -> Value {
    let passes = |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        ends.iter().any(|end| name.ends_with(end))
    };
    let items = args["Nodes"]["items"].as_array().expect("the arguments contain nodes");
    let (pass, fail): (Vec<_>, Vec<_>) = items.iter().cloned().partition(passes);
    let failed = fail
        .iter()
        .map(|node| (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), json!("off limits")));
    let failed: serde_json::Map<String, Value> = failed.collect();
    json!({ "nodes": { "items": pass }, "failedNodes": failed, "error": "" })
}

fn an_extender_filters_and_scores_and_binds(server: Server) {
    // The cluster ends when its last handle is dropped. This handle keeps it running while the extender binds.
    let cluster = server.shared();
    let client = cluster.client().clone();
    let extender = Extender::start(move |verb, args| {
        Some(match verb {
            "filter" => only(args, &["-b", "-c"]),
            "prioritize" => json!(
                ending(args, "-c")
                    .iter()
                    .map(|host| json!({ "Host": host, "Score": 10 }))
                    .collect::<Vec<_>>()
            ),
            "bind" => {
                let (name, node) = (args["PodName"].as_str().unwrap_or_default(), &args["Node"]);
                let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name, "uid": args["PodUID"] }, "target": { "kind": "Node", "name": node } });
                let bound = client.post(&format!("{PODS}/{name}/binding"), &binding);
                json!({ "Error": bound.err().map(|error| error.to_string()).unwrap_or_default() })
            }
            other => panic!("{other} is not a verb of the configuration"),
        })
    });
    let (scene, harbormaster) = started(
        server,
        "extended",
        json!({
            "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 5,
        }),
    );
    // The extender also receives fields on which no decision depends.
    let name = scene.full("pod");
    let mut object =
        pod(&name, scene.name, json!({"cpu": "100m"}), json!({"nodeSelector": {"scene": scene.name}}));
    object["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "B"}]);
    scene.client.post(PODS, &object).expect("the pod is created");
    assert!(wait_until_bound(&scene.client, &name).ends_with("-c"));
    eventually("the event of the binding", PATIENCE, || events(&scene.client, &name, "Scheduled").pop());
    let [filter] = extender.asked("filter", &name).try_into().expect("the extender is called once");
    assert_eq!(filter["Pod"]["spec"]["containers"][0]["env"], json!([{"name": "A", "value": "B"}]));
    assert!(
        filter["Pod"].get("kind").is_none() && filter["Pod"]["metadata"].get("managedFields").is_none(),
        "{filter}"
    );
    assert_eq!((names(&filter).len(), &filter["NodeNames"]), (3, &Value::Null));
    let stored = scene.client.get(&format!("{NODES}/{}", scene.full("a"))).expect("the node is there");
    let shown = filter["Nodes"]["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|node| node["metadata"]["name"] == *scene.full("a"));
    assert_eq!(shown.map(|node| &node["metadata"]["uid"]), Some(&stored["metadata"]["uid"]));
    assert_eq!(names(&extender.asked("prioritize", &name)[0]).len(), 2);
    assert_eq!(extender.asked("bind", &name).len(), 1);
    assert!(scene.binds("pod").is_empty(), "the scheduler itself binds nothing");
    harbormaster.ends_well();
}

fn a_pod_that_an_extender_rejects_gets_the_reason_and_is_retried_after_a_node_changes(server: Server) {
    let extender = Extender::start(|_, args| {
        let marked = |node: &&Value| !node["metadata"]["annotations"]["open"].is_null();
        let items = args["Nodes"]["items"].as_array().expect("the arguments contain nodes");
        let open: Vec<&Value> = items.iter().filter(marked).collect();
        let failed: serde_json::Map<String, Value> = match open.is_empty() {
            true => names(args).into_iter().map(|name| (name, json!("not open"))).collect(),
            false => serde_json::Map::new(),
        };
        Some(json!({ "Nodes": { "items": open }, "FailedNodes": failed }))
    });
    let (scene, harbormaster) =
        started(server, "rejected", json!({"urlPrefix": extender.url, "filterVerb": "filter"}));
    scene.create("pod", "100m");
    let (reason, message) = wait_until_explained(&scene.client, &scene.full("pod"));
    assert_eq!(reason, "Unschedulable");
    let others = message.contains("3 not open");
    assert!(others && message.contains("nodes are available: "), "{message}");
    let path = format!("{NODES}/{}", scene.full("b"));
    let patch = json!({"metadata": {"annotations": {"open": "yes"}}});
    scene.client.merge_patch(&path, &patch).expect("the node is patched");
    assert!(wait_until_bound(&scene.client, &scene.full("pod")).ends_with("-b"));
    harbormaster.ends_well();
}

/// Creates a pod with a request for a resource that an extender manages and the scheduler ignores.
fn create_with_gpu(scene: &Scene, name: &str) {
    let mut object = pod(
        &scene.full(name),
        scene.name,
        json!({"cpu": "10m"}),
        json!({"nodeSelector": {"scene": scene.name}}),
    );
    object["spec"]["containers"][0]["resources"] = json!({"requests": {GPU: "1"}, "limits": {GPU: "1"}});
    scene.client.post(PODS, &object).expect("the pod is created");
}

fn an_extender_that_hangs_fails_only_the_pods_that_need_it(server: Server) {
    let extender = Extender::start(|_, _| None);
    let (scene, harbormaster) = started(
        server,
        "hanging",
        json!({
            "urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "1s",
            "managedResources": [{"name": GPU, "ignoredByScheduler": true}],
        }),
    );
    create_with_gpu(&scene, "gpu");
    eventually("the extender is called", PATIENCE, || extender.asked("filter", &scene.full("gpu")).pop());
    for at in 0..5 {
        scene.create(&format!("plain-{at}"), "10m");
    }
    (0..5).for_each(|at| scene.is_bound(&format!("plain-{at}")));
    let (reason, message) = wait_until_explained(&scene.client, &scene.full("gpu"));
    assert_eq!(reason, "SchedulerError");
    let expected = format!(
        "Post \"{}/filter\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        extender.url
    );
    assert_eq!(message, expected);
    assert!(scene.is_pending("gpu"));
    assert!((0..5).all(|at| extender.asked("filter", &scene.full(&format!("plain-{at}"))).is_empty()));
    harbormaster.ends_well();
}

/// Keeps requests waiting until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().expect("no thread panicked") = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.0.lock().expect("no thread panicked");
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open).expect("no thread panicked"));
    }
}

fn hundreds_of_pods_are_bound_while_an_extender_hangs(server: Server) {
    const OTHERS: usize = 500;
    let gate = Gate::default();
    let closed = gate.clone();
    let extender = Extender::start(move |_, args| {
        closed.pass();
        Some(only(args, &["-b", "-c"]))
    });
    // So many pods would disturb tests on a shared server, which watch them too.
    let (scene, harbormaster) = started_on(
        Arc::new(server.own()),
        "delayed",
        json!({
            "urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "10m",
            "managedResources": [{"name": GPU, "ignoredByScheduler": true}],
        }),
    );
    // These nodes have room for the other pods, without those that the extender accepts.
    ["d", "e", "f", "g", "h"].iter().for_each(|node| scene.create_node(node, "2", node));
    let managed: Vec<String> = (0..5).map(|at| format!("gpu-{at}")).collect();
    managed.iter().for_each(|name| create_with_gpu(&scene, name));
    let asked =
        || managed.iter().map(|name| extender.asked("filter", &scene.full(name)).len()).sum::<usize>();
    eventually("the extender is called", PATIENCE, || (asked() > 0).then_some(()));
    (0..OTHERS).for_each(|at| scene.create(&format!("plain-{at}"), "1m"));
    let prefix = scene.full("plain-");
    let is_bound = |pod: &&Value| {
        pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&prefix))
            && node_of(pod).is_some()
    };
    eventually("all other pods are bound", PATIENCE, || {
        let pods = scene.client.get(PODS).expect("the pods are listed");
        let bound = pods["items"].as_array().into_iter().flatten().filter(is_bound).count();
        (bound == OTHERS).then_some(())
    });
    assert!(managed.iter().all(|name| scene.is_pending(name)));
    assert_eq!(asked(), 1, "the extender is asked about one pod at a time");
    gate.open();
    for name in &managed {
        let node = wait_until_bound(&scene.client, &scene.full(name));
        assert!(node.ends_with("-b") || node.ends_with("-c"), "{name} is on {node}");
    }
    harbormaster.ends_well();
}

fn an_ignorable_extender_is_ignored_when_it_hangs(server: Server) {
    let extender = Extender::start(|_, _| None);
    let (scene, harbormaster) = started(
        server,
        "ignored",
        json!({
            "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1,
            "httpTimeout": "500ms", "ignorable": true,
        }),
    );
    let begun = Instant::now();
    scene.create("pod", "10m");
    scene.is_bound("pod");
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "the scheduler waits until filter and prioritize time out"
    );
    harbormaster.wait_for_line(&["Skipping extender as it returned error and has ignorable flag set"]);
    harbormaster.ends_well();
}

fn an_extender_chooses_the_victims(server: Server) {
    let extender = Extender::start(|_, args| {
        let victims = args["NodeNameToMetaVictims"].as_object().expect("the arguments contain victims");
        let kept = victims.iter().filter(|(node, _)| node.ends_with("-b"));
        let kept: serde_json::Map<String, Value> =
            kept.map(|(node, victims)| (node.clone(), victims.clone())).collect();
        Some(json!({ "NodeNameToMetaVictims": kept }))
    });
    let (scene, harbormaster) = started(
        server,
        "preempts",
        json!({
            "urlPrefix": extender.url, "preemptVerb": "preempt", "nodeCacheCapable": true,
        }),
    );
    for node in ["a", "b", "c"] {
        let class = (node == "b").then_some("middle");
        scene.place(&format!("on-{node}"), class, "2", node, 0);
    }
    let name = scene.full("urgent");
    let spec = json!({"nodeSelector": {"scene": scene.name}, "priorityClassName": "high"});
    let urgent = pod(&name, scene.name, json!({"cpu": "1"}), spec);
    eventually("the placed pods exist", PATIENCE, || scene.get("on-c").filter(|pod| node_of(pod).is_some()));
    scene.client.post(PODS, &urgent).expect("the pod is created");
    eventually("the victim is terminating or gone", PATIENCE, || {
        scene.get("on-b").is_none_or(|pod| is_terminating(&pod)).then_some(())
    });
    if scene.get("on-b").is_some() {
        scene.finish("on-b");
    }
    assert!(wait_until_bound(&scene.client, &name).ends_with("-b"));
    for name in ["on-a", "on-c"] {
        let stays = scene.get(name).is_some_and(|pod| node_of(&pod).is_some() && !is_terminating(&pod));
        assert!(stays, "{name} was evicted");
    }
    let asked = &extender.asked("preempt", &name)[0];
    let on_b = &asked["NodeNameToMetaVictims"][scene.full("b")];
    assert_eq!(
        (asked["NodeNameToVictims"].clone(), on_b["NumPDBViolations"].clone()),
        (Value::Null, json!(0))
    );
    assert!(on_b["Pods"][0]["UID"].is_string(), "{asked}");
    harbormaster.ends_well();
}

/// Returns the output of `simulate` for two nodes of one CPU and two pods, each of which needs more than half a node.
fn simulated(extender: Value, flags: &[&str]) -> String {
    let output = simulation(extender, flags);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

fn simulation(extender: Value, flags: &[&str]) -> std::process::Output {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    };
    let mut config = default_config();
    config["extenders"] = json!([extender]);
    let of = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let with = |mut object: Value, field: &str, value: Value| {
        object[field] = value;
        object.to_string()
    };
    let allocatable = json!({"allocatable": {"cpu": "1", "pods": "9"}});
    let container = json!({
        "name": "c", "image": "i", "env": [{"name": "A", "value": "B"}], "resources": {"requests": {"cpu": "600m"}},
    });
    let spec = json!({ "containers": [container] });
    let manifests = [
        with(of("Node", "node-1"), "status", allocatable.clone()),
        with(of("Node", "node-2"), "status", allocatable),
        with(of("Pod", "a"), "spec", spec.clone()),
        with(of("Pod", "b"), "spec", spec),
    ];
    std::process::Command::new(env!("CARGO_BIN_EXE_harbormaster"))
        .arg("simulate")
        .arg("-f")
        .arg(write("manifests.yaml", manifests.join("\n---\n")))
        .arg("--config")
        .arg(write("config.yaml", config.to_string()))
        .args(flags)
        .output()
        .expect("the binary runs")
}

#[test]
fn a_simulation_calls_extenders_unless_a_flag_forbids_it() {
    let extender = Extender::start(|verb, args| {
        assert_eq!(verb, "filter", "extenders do not bind in a simulation");
        Some(only(args, &["-1"]))
    });
    let config = json!({"urlPrefix": extender.url, "filterVerb": "filter", "bindVerb": "bind"});
    let asked = simulated(config.clone(), &[]);
    assert!(asked.contains("2 pods: 1 placed, 1 unschedulable"), "{asked}");
    assert!(asked.contains("1 Insufficient cpu, 1 off limits"), "{asked}");
    let shown = &extender.asked("filter", "a")[0]["Pod"]["spec"]["containers"][0]["env"];
    assert_eq!(*shown, json!([{"name": "A", "value": "B"}]));
    let independent = simulated(config.clone(), &["--independent"]);
    assert!(independent.contains("2 pods: 2 placed"), "{independent}");
    let before = extender.asked("filter", "a").len();
    let alone = simulated(config, &["--no-extenders"]);
    assert!(alone.contains("2 pods: 2 placed"), "{alone}");
    assert_eq!(extender.asked("filter", "a").len(), before);
}

#[test]
fn an_explanation_contains_the_results_of_extenders() {
    let extender = Extender::start(|verb, args| {
        let score = |node: &String| json!({"Host": node, "Score": if node.ends_with("-1") { 3 } else { 10 }});
        Some(match (verb, args["Pod"]["metadata"]["name"].as_str()) {
            ("prioritize", _) => names(args).iter().map(score).collect(),
            (_, Some("a")) => only(args, &["-1", "-2"]),
            (_, _) => only(args, &["-2"]),
        })
    });
    let config = json!({
        "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2,
    });
    let said = simulated(config, &["--explain", "--independent", "-o", "json"]);
    let said: Value = serde_json::from_str(&said).expect("the output is JSON");
    let [a, b] = [&said["explanations"][0], &said["explanations"][1]];
    let scores: Vec<(&str, i64)> = (a["fits"].as_array().into_iter().flatten())
        .filter_map(|fits| {
            Some((fits["nodes"][0].as_str()?, fits["plugins"]["Extender"]["weighted"].as_i64()?))
        })
        .collect();
    assert_eq!(scores, [("node-2", 200), ("node-1", 60)]);
    assert_eq!(
        (&b["rejected"][0]["plugin"], &b["rejected"][0]["nodes"]),
        (&json!("Extender"), &json!(["node-1"]))
    );
    assert_eq!(b["rejected"][0]["reasons"], json!(["off limits"]));
    assert_eq!(b["fits"][0]["nodes"], json!(["node-2"]));
}

#[test]
fn certificates_are_verified_over_https_unless_the_configuration_disables_verification() {
    // Any server that rejects anonymous clients will do.
    let cluster = Server::Embedded.shared();
    let url = cluster.server_url();
    for (unchecked, config) in [
        (true, json!({"enableHTTPS": true})),
        (true, json!({"tlsConfig": {"insecure": true}})),
        (false, json!({})),
    ] {
        let mut extender = config.clone();
        extender["urlPrefix"] = json!(url);
        extender["filterVerb"] = json!("filter");
        let failed = simulation(extender, &[]);
        assert_eq!(failed.status.code(), Some(1));
        let said = String::from_utf8_lossy(&failed.stderr);
        let reached = said.contains(&format!("failed filter with extender at URL {url}/filter, code 4"));
        assert_eq!(reached, unchecked, "{config}: {said}");
        assert_eq!(said.to_lowercase().contains("certificate"), !unchecked, "{config}: {said}");
    }
}
