//! Clusters that are changed, and drains.

use harbormaster_manifests::{
    Source,
    edits::{Edit, Step},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{DrainPlan, Inventory, Outcome, Reading, drain_plan, simulate};
use harbormaster_testkit::random::Dice;
use serde_json::{Value, json};

fn setup() -> Setup {
    Setup::read(None, &Choices::default()).expect("the default configuration is valid")
}

fn read(objects: &[Value], edits: &[Edit]) -> Inventory {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let step =
        |edit: &Edit| Step { edit: edit.clone(), source: "--edit".into(), line: None, field: String::new() };
    let steps: Vec<Step> = edits.iter().map(step).collect();
    let how = Reading { fill: true, ..Reading::default() };
    let source = Source { name: "cluster.json".to_owned(), text };
    Inventory::edited(&[source], how, &steps).unwrap_or_else(|errors| panic!("{errors}"))
}

fn outcome(cluster: Inventory) -> Outcome {
    let before = Outcome::before(&cluster);
    before.after(&simulate(setup().engine, cluster, &mut |_, _| {}))
}

fn node(name: &str, cpu: u64) -> Value {
    let allocatable = json!({"cpu": cpu.to_string(), "memory": "8Gi", "pods": "20"});
    json!({
        "apiVersion": "v1", "kind": "Node", "status": {"allocatable": allocatable},
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": format!("z{}", cpu % 2)}},
    })
}

fn spec(cpu: u64) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": format!("{}m", cpu * 100)}}}]})
}

fn workload(kind: &str, name: &str, replicas: usize, cpu: u64) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": spec(cpu)});
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}")},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    });
    if kind == "ReplicaSet" {
        workload["spec"]["replicas"] = replicas.into();
    }
    workload
}

fn pod_of(owner: Option<&Value>, name: &str, on: Option<&str>, cpu: u64) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec(cpu), "status": {"phase": "Pending"},
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}"), "labels": {"app": "none"}},
    });
    if let Some(owner) = owner {
        pod["metadata"]["labels"] = owner["spec"]["template"]["metadata"]["labels"].clone();
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        }]);
    }
    if let Some(node) = on {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// Returns a cluster with nodes `n0` and so on, ReplicaSets `w0` and so on, and a DaemonSet.
fn random_cluster(dice: &mut Dice) -> Vec<Value> {
    let names: Vec<String> = (0..2 + dice.below(4)).map(|n| format!("n{n}")).collect();
    let mut objects: Vec<Value> = names.iter().map(|name| node(name, 1 + dice.below(4))).collect();
    let agent = workload("DaemonSet", "agent", 0, 1);
    objects.extend(names.iter().map(|node| pod_of(Some(&agent), &format!("agent-{node}"), Some(node), 1)));
    objects.push(agent);
    for number in 0..1 + dice.below(4) {
        let (name, cpu, replicas) = (format!("w{number}"), 1 + dice.below(9), dice.below(6));
        let set = workload("ReplicaSet", &name, replicas as usize, cpu);
        for pod in 0..replicas {
            let on = names.get(dice.below(names.len() as u64 + 1) as usize).map(String::as_str);
            objects.push(pod_of(Some(&set), &format!("{name}-x{pod}"), on, cpu));
        }
        objects.push(set);
    }
    objects.push(pod_of(None, "alone", names.first().map(String::as_str), 1 + dice.below(5)));
    objects
}

fn is(object: &Value, kind: &str, name: &str) -> bool {
    object["kind"] == kind && object["metadata"]["name"] == name
}

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

/// Edits the objects as a person with an editor would.
fn by_hand(objects: &mut Vec<Value>, edit: &Edit) {
    // All nodes are left if none is named.
    let leave = |objects: &mut Vec<Value>, node: Option<&str>, gone: bool| {
        objects.retain_mut(|object| {
            let on = object["spec"]["nodeName"].as_str();
            if on.is_none() || node.is_some() && on != node {
                return true;
            }
            if owner(object)["kind"] == "DaemonSet" {
                return !gone;
            }
            object["spec"].as_object_mut().expect("a spec").remove("nodeName");
            object.as_object_mut().expect("a pod").remove("status");
            true
        });
    };
    match edit {
        Edit::Drain { node } => {
            leave(objects, Some(node), false);
            let found = objects.iter_mut().find(|object| is(object, "Node", node)).expect("the node");
            found["spec"] = json!({"unschedulable": true});
        }
        Edit::Remove { node } => {
            leave(objects, Some(node), true);
            objects.retain(|object| !is(object, "Node", node));
        }
        Edit::Repack => leave(objects, None, false),
        Edit::Add { count, like } => {
            let original = objects.iter().find(|object| is(object, "Node", like)).expect("the node").clone();
            for number in 1..=*count {
                let mut copy = original.clone();
                let name = format!("{like}-copy-{number}");
                copy["metadata"]["name"] = name.as_str().into();
                copy["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
                copy.as_object_mut().expect("a node").remove("spec");
                objects.push(copy);
            }
        }
        Edit::Scale { workload, replicas } => {
            let set =
                objects.iter_mut().find(|object| is(object, "ReplicaSet", &workload.name)).expect("the set");
            set["spec"]["replicas"] = (*replicas).into();
        }
        Edit::Delete { object } => {
            objects.retain(|one| {
                !is(one, "ReplicaSet", &object.name) && owner(one)["name"] != object.name.as_str()
            });
        }
        Edit::Set { .. } => unreachable!("settings do not change objects"),
    }
}

fn random_edit(dice: &mut Dice, objects: &[Value]) -> Edit {
    let pick = |dice: &mut Dice, kind: &str| {
        let names: Vec<&str> = objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .filter_map(|object| object["metadata"]["name"].as_str())
            .collect();
        names.get(dice.below(names.len().max(1) as u64) as usize).map(|name| (*name).to_owned())
    };
    let set =
        |dice: &mut Dice| pick(dice, "ReplicaSet").map(|name| format!("rs/{name}").parse().expect("a name"));
    let node = pick(dice, "Node").expect("a node");
    match (dice.below(6), set(dice)) {
        (0, _) => Edit::Drain { node },
        (1, _) if objects.iter().filter(|object| object["kind"] == "Node").count() > 1 => {
            Edit::Remove { node }
        }
        (2, Some(workload)) => Edit::Scale { workload, replicas: dice.below(8) as u32 },
        (3, Some(object)) => Edit::Delete { object },
        (4, _) => Edit::Repack,
        _ => Edit::Add { count: 1 + dice.below(2) as usize, like: node },
    }
}

#[test]
fn a_changed_cluster_is_the_cluster_of_manifests_edited_by_hand() {
    for seed in 0..150 {
        let mut dice = Dice::new(seed);
        let original = random_cluster(&mut dice);
        let (mut edited, mut edits) = (original.clone(), Vec::new());
        for _ in 0..1 + dice.below(3) {
            let edit = random_edit(&mut dice, &edited);
            // By hand, copies of a node are numbered from 1.
            if let Edit::Add { like, .. } = &edit
                && edited.iter().any(|object| is(object, "Node", &format!("{like}-copy-1")))
            {
                continue;
            }
            by_hand(&mut edited, &edit);
            edits.push(edit);
        }
        let words: Vec<String> = edits.iter().map(ToString::to_string).collect();
        assert_eq!(outcome(read(&original, &edits)), outcome(read(&edited, &[])), "seed {seed}: {words:?}");
    }
}

fn budget(name: &str, app: &str, spec: Value, status: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
        "spec": spec, "status": status,
    });
    budget["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    budget
}

fn plan(objects: &[Value], nodes: &[&str]) -> DrainPlan {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    drain_plan(setup().engine, read(objects, &[]), &nodes).0
}

/// Returns the pods of each round with the nodes that they get.
fn rounds(plan: &DrainPlan) -> Vec<Vec<(&str, Option<&str>)>> {
    let rounds = plan.rounds.iter();
    rounds
        .map(|round| round.evictions.iter().map(|one| (one.pod.as_str(), one.to.as_deref())).collect())
        .collect()
}

#[test]
fn pods_wait_for_the_replacements_of_those_before_them_if_their_budget_says_so() {
    let set = workload("ReplicaSet", "web", 3, 5);
    let pods = ["web-a", "web-b", "web-c"].map(|name| pod_of(Some(&set), name, Some("n0"), 5));
    let cluster = |budgets: Vec<Value>| {
        let mut objects = vec![node("n0", 4), node("n1", 4), set.clone()];
        objects.extend(pods.clone());
        objects.extend(budgets);
        objects
    };
    let [a, b, c] = ["default/web-a", "default/web-b", "default/web-c"].map(|pod| (pod, Some("n1")));
    for (spec, expected) in [
        (json!({"maxUnavailable": 1}), vec![vec![a], vec![b], vec![c]]),
        (json!({"minAvailable": "30%"}), vec![vec![a, b], vec![c]]),
        (json!({"minAvailable": 0}), vec![vec![a, b, c]]),
        (json!({"maxUnavailable": 0}), vec![]),
    ] {
        let told = plan(&cluster(vec![budget("b", "web", spec.clone(), json!({}))]), &["n0"]);
        assert_eq!(rounds(&told), expected, "{spec}");
        assert_eq!(told.blocked.len(), if expected.is_empty() { 3 } else { 0 });
        assert_eq!(told.is_incomplete(), expected.is_empty());
    }
    let none = plan(&cluster(Vec::new()), &["n0"]);
    assert_eq!(rounds(&none), [[a, b, c]]);
    let status = json!({"observedGeneration": 1, "expectedPods": 3, "currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0});
    let unhealthy = plan(&cluster(vec![budget("b", "web", json!({"minAvailable": 2}), status)]), &["n0"]);
    let message = "budget default/b needs 2 healthy pods and has 2";
    assert_eq!(unhealthy.blocked.first().map(|pod| pod.message.as_str()), Some(message));
    let two = ["b", "c"].map(|name| budget(name, "web", json!({"minAvailable": 0}), json!({})));
    let told = plan(&cluster(two.to_vec()), &["n0"]);
    assert_eq!(told.blocked[0].budgets, ["default/b", "default/c"]);
    assert!(told.blocked[0].message.contains("more than one disruption budget"), "{told:?}");
}

#[test]
fn a_drain_names_pods_without_room_pods_that_nobody_creates_again_and_pods_that_stay() {
    let set = workload("ReplicaSet", "web", 3, 8);
    let mut objects = vec![node("n0", 4), node("n1", 1), set.clone(), workload("DaemonSet", "agent", 0, 1)];
    objects.extend(["web-a", "web-b", "web-c"].map(|name| pod_of(Some(&set), name, Some("n0"), 8)));
    objects.push(pod_of(None, "alone", Some("n0"), 1));
    let agent = workload("DaemonSet", "agent", 0, 1);
    objects.extend(["n0", "n1"].map(|node| pod_of(Some(&agent), &format!("agent-{node}"), Some(node), 1)));
    objects.push(budget("b", "web", json!({"maxUnavailable": 1}), json!({})));
    let told = plan(&objects, &["n0"]);
    let all: Vec<_> =
        told.evictions().map(|one| (one.pod.as_str(), one.owner.as_deref(), one.to.as_deref())).collect();
    let owner = Some("ReplicaSet default/web");
    let expected =
        [("default/web-a", owner, Some("n1")), ("default/alone", None, None), ("default/web-b", owner, None)];
    assert_eq!(all, expected);
    let message = told.evictions().nth(2).and_then(|one| one.message.as_deref()).unwrap_or_default();
    assert!(
        message.contains("1 Insufficient cpu") && message.contains("1 node(s) were unschedulable"),
        "{message}"
    );
    let blocked: Vec<_> = told.blocked.iter().map(|one| (one.pod.as_str(), one.message.as_str())).collect();
    let why = "budget default/b needs 2 healthy pods and has 2, because these find no room: default/web-b";
    assert_eq!(blocked, [("default/web-c", why)]);
    let staying: Vec<_> = told.staying.iter().map(|one| (one.pod.as_str(), one.reason)).collect();
    assert_eq!(staying, [("default/agent-n0", "DaemonSet")]);
    assert!(told.is_incomplete());
}

/// After every round of a plan, no budget has fewer healthy pods than it needs.
#[test]
fn no_round_takes_more_pods_than_the_budgets_allow() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let mut objects = random_cluster(&mut dice);
        let away = dice.below(3);
        for set in 0..2 {
            objects.push(budget(
                &format!("b{set}"),
                &format!("w{set}"),
                json!({"maxUnavailable": away}),
                json!({}),
            ));
        }
        let told = plan(&objects, &["n0", "n1"]);
        for round in &told.rounds {
            for set in 0..2 {
                let of_set = |one: &&harbormaster_sim::drain::Eviction| {
                    one.pod.starts_with(&format!("default/w{set}-"))
                };
                let count = round.evictions.iter().filter(of_set).count() as u64;
                assert!(count <= away, "seed {seed}: {told:?}");
            }
        }
        let gone = told.evictions().count() + told.blocked.len() + told.staying.len();
        let on_nodes =
            objects.iter().filter(|o| ["n0", "n1"].iter().any(|n| o["spec"]["nodeName"] == *n)).count();
        assert_eq!(gone, on_nodes, "seed {seed}: every pod is in the plan once");
    }
}

#[test]
fn a_pod_that_comes_back_gets_new_ephemeral_volumes() {
    let set = workload("ReplicaSet", "web", 1, 5);
    let mut pod = pod_of(Some(&set), "web-a", Some("n0"), 5);
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}},
    });
    pod["spec"]["volumes"] =
        json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]);
    let mut bound = claim.clone();
    bound["volumeName"] = "disk".into();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web-a", "uid": pod["metadata"]["uid"], "controller": true});
    let is_host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]});
    let storage = [
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": bound, "status": {"phase": "Bound"},
            "metadata": {
                "name": "web-a-scratch", "namespace": "default", "uid": "c", "ownerReferences": [owner],
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "status": {"phase": "Bound"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
                "claimRef": {"namespace": "default", "name": "web-a-scratch", "uid": "c"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [is_host]}]}},
            },
        }),
    ];
    let objects = [vec![node("n0", 4), node("n1", 4), set, pod], storage.to_vec()].concat();
    let told = plan(&objects, &["n0"]);
    assert_eq!(rounds(&told), [[("default/web-a", Some("n1"))]], "{told:?}");
}
