//! Simulations of small clusters.

use harbormaster_api::{Node, Pod, Release, features::Features};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{
    Explained, Inventory, PodExplanation, PodReport, Report, explain_independent, explain_simulated,
    independent, simulate,
};
use harbormaster_testkit::{NodeBuilder, PodBuilder, node, pod};
use serde_json::{Value, json};

fn cluster(nodes: Vec<NodeBuilder>, pods: Vec<PodBuilder>) -> Inventory {
    let nodes: Vec<Node> = nodes.into_iter().map(NodeBuilder::build).collect();
    let pods: Vec<Pod> = pods.into_iter().map(PodBuilder::build).collect();
    let (bound, pending) = pods.into_iter().partition(|pod| pod.node_name.is_some());
    Inventory { nodes, bound, pending, ..Inventory::default() }
}

fn run(cluster: Inventory) -> Report {
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    simulate(setup.engine, cluster, &mut |_, _| {})
}

/// Simulates with an explanation of every pod that was tried, in the order of the pods' last attempts.
fn explained(cluster: Inventory) -> Explained {
    explained_of(cluster, &|_| true)
}

fn explained_of(cluster: Inventory, concerns: &dyn Fn(&PodReport) -> bool) -> Explained {
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let report = simulate(setup.engine.clone(), cluster.clone(), &mut |_, _| {});
    let mut explanations = Vec::new();
    explain_simulated(setup.engine, cluster, &report, concerns, &mut |told, said| {
        assert_eq!(told.pod, said.pod);
        explanations.push(said);
    });
    Explained { report, explanations }
}

fn fits(explanation: &PodExplanation) -> Vec<&str> {
    explanation.fits.iter().flat_map(|group| &group.nodes).map(String::as_str).collect()
}

fn small(name: &str) -> NodeBuilder {
    node(name).allocatable("2", "4Gi", 10)
}

fn outcomes(report: &Report) -> Vec<(&str, Option<&str>, Option<&str>)> {
    report.pods.iter().map(|p| (p.pod.as_str(), p.node.as_deref(), p.message.as_deref())).collect()
}

#[test]
fn pods_see_pods_placed_before_them_and_higher_priority_goes_first() {
    let report = run(cluster(
        vec![small("n")],
        vec![pod("low").cpu("1500m"), pod("high").cpu("1500m").priority(10), pod("tiny").cpu("100m")],
    ));
    let full = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
                1 No preemption victims found for incoming pod.";
    let [low, high, tiny] = report.pods.as_slice() else { panic!("{report:?}") };
    assert_eq!((low.node.as_deref(), low.message.as_deref(), low.attempts), (None, Some(full), 1));
    assert_eq!((high.node.as_deref(), high.attempts, high.looked_at), (Some("n"), 1, Some((1, 1))));
    assert_eq!(tiny.node.as_deref(), Some("n"));
}

#[test]
fn bound_pods_count_and_gated_pods_are_not_tried() {
    let report = run(cluster(
        vec![small("a"), small("b")],
        vec![pod("there").cpu("2").on("a"), pod("p").cpu("1"), pod("gated").gate("example.com/wait")],
    ));
    let [p, gated] = report.pods.as_slice() else { panic!("{report:?}") };
    assert_eq!(p.node.as_deref(), Some("b"));
    assert_eq!((gated.attempts, gated.node.as_deref(), gated.is_gated()), (0, None, true));
    let why = "waiting for scheduling gates: [example.com/wait]";
    assert_eq!(gated.message.as_deref(), Some(why));
    assert_eq!(gated.pre_enqueue.as_ref().unwrap().plugin, "SchedulingGates");
}

#[test]
fn without_nodes_or_a_profile_the_simulation_ends_and_reports_why() {
    let report = run(cluster(vec![], vec![pod("p")]));
    assert_eq!(outcomes(&report), [("default/p", None, Some("no nodes available to schedule pods"))]);
    let other = pod("p").spec(|spec| spec.scheduler_name = "other".into());
    let report = run(cluster(vec![small("n")], vec![other]));
    let why = "no profile has the scheduler name \"other\"";
    assert_eq!(outcomes(&report), [("default/p", None, Some(why))]);
}

#[test]
fn an_explanation_reflects_the_time_of_the_attempt() {
    let explained = explained(cluster(
        vec![small("a"), small("b").unschedulable()],
        vec![pod("first").cpu("1500m"), pod("second").cpu("1500m")],
    ));
    let [first, second] = explained.explanations.as_slice() else { panic!("{explained:?}") };
    assert_eq!(fits(first), ["a"]);
    assert_eq!((&*first.rejected[0].status.plugin, &*first.rejected[0].nodes[0]), ("NodeUnschedulable", "b"));
    let scores = &first.fits[0];
    let sum: i64 = scores.plugins.values().map(|s| s.weighted).sum();
    assert!(scores.total == sum && scores.plugins.contains_key("NodeResourcesFit"), "{scores:?}");
    let full = second.rejected.iter().find(|group| group.nodes == ["a"]).unwrap();
    assert_eq!(
        (full.status.plugin.as_ref(), full.status.reasons.as_slice()),
        ("NodeResourcesFit", &["Insufficient cpu".into()][..])
    );
    assert_eq!(full.lacks, ["wants 1.5 CPUs, 0.5 free"]);
    assert!(second.fits.is_empty());
}

#[test]
fn nodes_with_the_same_verdict_form_a_group_that_shows_what_they_lack() {
    let nodes = vec![
        small("a"),
        small("b"),
        small("c"),
        small("d").taint("team", "red", "NoSchedule"),
        small("e").label("disk", "hdd"),
        small("f"),
        small("g"),
    ];
    let pods = vec![
        pod("1").cpu("1").on("a"),
        pod("2").cpu("500m").host_port(80).on("b"),
        pod("3").host_port(80).on("c"),
        pod("p").cpu("1800m").host_port(80).host_port(81),
    ];
    let explained = explained(cluster(nodes, pods));
    let [p] = explained.explanations.as_slice() else { panic!("{explained:?}") };
    let rejected: Vec<(&str, Vec<&str>, usize)> = p
        .rejected
        .iter()
        .map(|g| (&*g.status.plugin, g.lacks.iter().map(String::as_str).collect(), g.nodes.len()))
        .collect();
    assert_eq!(
        rejected,
        [
            ("NodePorts", vec!["host port 80/TCP is taken"], 2),
            ("NodeResourcesFit", vec!["wants 1.8 CPUs, 1 free"], 1),
            ("TaintToleration", vec!["taint team=red:NoSchedule"], 1),
        ]
    );
    assert_eq!(fits(p), ["e", "f", "g"], "these nodes have the same scores");
    assert_eq!(p.fits.len(), 1);
}

#[test]
fn only_selected_pods_are_explained() {
    let pods = || vec![pod("first").cpu("1"), pod("second").cpu("1"), pod("third").cpu("1")];
    let explained = explained_of(cluster(vec![small("a")], pods()), &|pod| pod.pod == "default/second");
    let [second] = explained.explanations.as_slice() else { panic!("{explained:?}") };
    assert_eq!((second.pod.as_str(), fits(second)), ("default/second", vec!["a"]));
    assert_eq!(explained.report.pods.len(), 3);
}

#[test]
fn a_pod_whose_claim_does_not_exist_waits_with_the_reason() {
    let mut objects = objects();
    let claim = json!({"name": "card", "resourceClaimName": "missing"});
    objects[2]["spec"] = json!({"containers": [], "resourceClaims": [claim]});
    let Explained { report, .. } = explained(Inventory::from_objects(objects, Release::NEWEST).unwrap());
    let [pod] = report.pods.as_slice() else { panic!("{report:?}") };
    assert_eq!(pod.pre_enqueue.as_ref().map(|status| status.plugin.as_ref()), Some("DynamicResources"));
    assert_eq!(pod.message.as_deref(), Some("could not find ResourceClaim \"default/missing\""));
}

#[test]
fn victims_are_gone_and_the_report_names_the_preemptor() {
    let pods = vec![
        pod("there").cpu("1").on("n"),
        pod("more important").cpu("1").priority(20).on("n"),
        pod("high").cpu("1").priority(10),
        pod("low").cpu("1"),
    ];
    let Explained { report, explanations } = explained(cluster(vec![small("n")], pods));
    let why = "Preempted by pod default/high on node n";
    assert_eq!(
        outcomes(&report),
        [
            ("default/high", Some("n"), None),
            ("default/low", None, report.pods[1].message.as_deref()),
            ("default/there", None, Some(why)),
        ]
    );
    let json = serde_json::to_value(&report.pods[2]).unwrap();
    assert_eq!((&json["preemptedBy"], &json["node"]), (&json!("default/high"), &Value::Null));
    assert_eq!(report.pods[0].attempts, 2, "once without success, and once when there was room");
    let high = explanations.iter().find(|said| said.pod == "default/high").unwrap();
    assert_eq!(fits(high), ["n"], "the victim no longer counts");
}

#[test]
fn a_pod_that_was_placed_and_then_preempted_is_reported_once() {
    let pod = |name: &str, cpu: &str, priority: i32, affinity: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
               "spec": {"priority": priority, "affinity": affinity,
                        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    let beside = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "anchor"}}, "topologyKey": "host"}]}});
    let objects = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"host": "n"}},
               "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}),
        pod("high", "1", 10, beside),
        pod("anchor", "500m", 10, Value::Null),
        pod("low", "1500m", 1, Value::Null),
    ];
    let report = run(Inventory::from_objects(objects, Release::NEWEST).unwrap());
    let why = "Preempted by pod default/high on node n";
    let expected = [
        ("default/high", Some("n"), None),
        ("default/anchor", Some("n"), None),
        ("default/low", None, Some(why)),
    ];
    assert_eq!(outcomes(&report), expected);
}

#[test]
fn independent_pods_do_not_see_each_other() {
    let setup = Setup::read(None, &Choices::default()).expect("the default configuration is valid");
    let pods = || vec![pod("first").cpu("1500m"), pod("second").cpu("1500m")];
    let report = independent(&setup.engine, cluster(vec![small("n")], pods()));
    assert_eq!(outcomes(&report), [("default/first", Some("n"), None), ("default/second", Some("n"), None)]);
}

fn objects() -> Vec<Value> {
    let node = |name: &str, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
               "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}}})
    };
    let named = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["small"]}]}]}}});
    vec![
        node("small", "1"),
        node("large", "4"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "affinity": named,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}),
    ]
}

#[test]
fn the_json_form_is_as_documented() {
    let explained = explain_independent(None, Features::default(), objects()).unwrap();
    let outside = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    let code = "UnschedulableAndUnresolvable";
    let expected = json!({
        "pods": [{
            "pod": "default/p", "profile": "default-scheduler", "owner": null, "state": "unschedulable", "node": null,
            "preEnqueue": null, "tried": 1,
            "message": format!("0/2 nodes are available: 1 Insufficient cpu, 1 {outside}."),
        }],
        "totals": {"placed": 0, "unschedulable": 1, "gated": 0, "preempted": 0, "foreign": 0},
        "explanations": [{
            "pod": "default/p",
            "preFilter": null,
            "rejected": [
                {"plugin": "NodeResourcesFit", "code": code, "reasons": ["Insufficient cpu"],
                 "lacks": ["wants 2 CPUs, 1 free and 1 in all"], "nodes": ["small"]},
                {"plugin": "", "code": code, "reasons": [outside], "lacks": [], "nodes": ["large"]},
            ],
            "fits": [],
        }],
    });
    assert_eq!(serde_json::to_value(&explained).unwrap(), expected);
}

#[test]
fn explanations_contain_raw_scores_and_weighted_normalized_scores() {
    let mut objects = objects();
    objects[2]["spec"]["affinity"] = Value::Null;
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                  - plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 5}]}}\n";
    // The second run uses the profile that the thread has kept.
    for _ in 0..2 {
        let report = serde_json::to_value(
            explain_independent(Some(config), Features::default(), objects.clone()).unwrap(),
        )
        .unwrap();
        let large = &report["explanations"][0]["fits"][0];
        let fit = &large["plugins"]["NodeResourcesFit"];
        assert_eq!(fit["weighted"].as_i64().unwrap(), 5 * fit["normalized"].as_i64().unwrap());
        assert!(large["plugins"]["TaintToleration"]["raw"].is_i64(), "{large}");
        assert_eq!(report["pods"][0]["node"], "large");
    }
    assert!(explain_independent(Some("kind: X"), Features::default(), vec![]).is_err());
}

#[test]
fn a_missing_claim_is_reported_once() {
    let mut objects = objects();
    objects[2]["spec"] = json!({
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "index"}}],
    });
    let setup = Setup::read(None, &Choices::default()).unwrap();
    let report =
        simulate(setup.engine, Inventory::from_objects(objects, Release::NEWEST).unwrap(), &mut |_, _| {});
    assert_eq!(
        report.pods[0].message.as_deref(),
        Some("0/2 nodes are available: persistentvolumeclaim \"index\" not found.")
    );
}
