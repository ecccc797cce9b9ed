//! The verdict oracle's answers match the documentation of kube-scheduler.

use harbormaster_oracle::verdict_oracle::{Request, Status, VerdictOracle};
use serde_json::{Value, json};

use crate::releases::MAIN;

fn node(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": "10"},
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "10"},
        },
    })
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "x"}]);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

fn cpu(request: &str) -> Value {
    json!([{"name": "c", "image": "x", "resources": {"requests": {"cpu": request}}}])
}

fn status(plugin: &str, code: &str, reasons: &[&str]) -> Status {
    Status {
        plugin: plugin.to_owned(),
        code: code.to_owned(),
        reasons: reasons.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn nodes_get_the_real_verdicts_and_fitting_nodes_also_the_real_scores() {
    let mut oracle = VerdictOracle::start(MAIN).unwrap();
    let request = Request {
        id: 7,
        objects: vec![
            node("small", "1", "1Gi"),
            node("large", "4", "8Gi"),
            pod("bound", &json!({"nodeName": "large", "containers": cpu("1")})),
            pod("p", &json!({"containers": cpu("2")})),
            pod("q", &json!({"containers": cpu("3500m")})),
            pod("gated", &json!({"schedulingGates": [{"name": "example.com/gate"}]})),
            pod("bare", &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]})),
        ],
        ..Request::default()
    };
    let response = oracle.ask(&request).unwrap();
    assert_eq!(response.error, None);
    let [p, q, gated, bare] = response.pods.as_slice() else { panic!("{response:?}") };

    assert_eq!((p.pod.as_str(), p.profile.as_str()), ("default/p", "default-scheduler"));
    // The request exceeds the node's capacity, so removing pods cannot help.
    let too_small = status("NodeResourcesFit", "UnschedulableAndUnresolvable", &["Insufficient cpu"]);
    assert_eq!(p.nodes["small"], Some(too_small));
    assert_eq!(p.nodes["large"], None);
    assert_eq!(p.scores.keys().collect::<Vec<_>>(), ["large"]);
    let score = &p.scores["large"];
    // LeastAllocated: (4-3)/4 of the CPU is 25; memory, with 200Mi for each of the two pods, is 95.
    assert_eq!(score.plugins["NodeResourcesFit"], (25 + 95) / 2);
    assert_eq!(score.plugins["TaintToleration"], 300);
    assert_eq!(score.total, score.plugins.values().sum::<i64>());

    // The request exceeds the free amount but not the capacity.
    assert_eq!(q.nodes["large"], Some(status("NodeResourcesFit", "Unschedulable", &["Insufficient cpu"])));
    assert!(q.scores.is_empty());

    let gate = ["waiting for scheduling gates: [example.com/gate]"];
    assert_eq!(gated.pre_enqueue, Some(status("SchedulingGates", "UnschedulableAndUnresolvable", &gate)));
    assert_eq!(gated.nodes.len(), 2);

    let rejection = bare.pre_filter.as_ref().unwrap();
    assert_eq!(rejection.reasons, [r#"persistentvolumeclaim "none" not found"#]);
    assert!(bare.nodes.is_empty() && bare.scores.is_empty());
}

#[test]
fn a_configuration_and_a_selection_of_pods_are_honored() {
    let mut oracle = VerdictOracle::start(MAIN).unwrap();
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "schedulerName": "packer",
            "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
                "type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}],
            }}}],
        }],
    });
    let request = Request {
        id: 1,
        config: Some(config),
        objects: vec![
            node("n", "4", "8Gi"),
            pod("other", &json!({})),
            pod("p", &json!({"schedulerName": "packer", "containers": cpu("3")})),
        ],
        pods: vec!["default/p".to_owned(), "default/other".to_owned()],
        ..Request::default()
    };
    let response = oracle.ask(&request).unwrap();
    let [p, other] = response.pods.as_slice() else { panic!("{response:?}") };
    assert_eq!(p.scores["n"].plugins["NodeResourcesFit"], 75);
    assert!(!p.scores["n"].plugins.contains_key("TaintToleration"));
    assert_eq!(other.error.as_deref(), Some(r#"no profile has the scheduler name "default-scheduler""#));
}

#[test]
fn the_status_of_a_node_excluded_by_prefilter_contains_the_plugin_name() {
    let mut oracle = VerdictOracle::start(MAIN).unwrap();
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}],
    }}}});
    let request = Request {
        objects: vec![node("a", "1", "1Gi"), node("b", "1", "1Gi"), pod("p", &affinity)],
        ..Request::default()
    };
    let response = oracle.ask(&request).unwrap();
    let excluded = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    let nodes = &response.pods[0].nodes;
    assert_eq!(nodes["a"], None);
    assert_eq!(nodes["b"], Some(status("", "UnschedulableAndUnresolvable", &[excluded])));
}

#[test]
fn a_bad_request_is_reported_and_the_next_one_is_answered() {
    let mut oracle = VerdictOracle::start(MAIN).unwrap();
    for (object, expected) in [
        (json!({"apiVersion": "v1", "kind": "Node", "metadata": {"nam": "n"}}), "unknown field"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            "no scheduler plugin reads",
        ),
        (json!({"apiVersion": "v1", "kind": "Node"}), "without metadata.name"),
    ] {
        let response = oracle.ask(&Request { objects: vec![object], ..Request::default() }).unwrap();
        let error = response.error.unwrap();
        assert!(error.starts_with("objects[0]: ") && error.contains(expected), "{error}");
    }
    let response = oracle.ask(&Request { id: 3, ..Request::default() }).unwrap();
    assert_eq!((response.error, response.pods), (None, vec![]));
}
