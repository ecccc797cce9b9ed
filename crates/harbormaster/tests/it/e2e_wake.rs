//! Pending pods are retried only when an event can help them. For every event, a test states which pods the event
//! wakes. The real kube-scheduler, which schedules copies of the pods, must wake the same pods.
//!
//! Each pod is rejected by only one plugin. In the first kind of scene, the nodes are small, tainted, unlabelled and
//! cordoned, and every pod accepts all of these properties but one. In the second kind, other pods block the waiting
//! pods, or pods that the waiting pods need are missing. Attempts are counted in the logs. Storage events are tested in
//! `e2e_wake_volumes.rs`.
//!
//! One of kube-scheduler's rules wakes more pods than the event can help: a change of taints, including uncordoning,
//! wakes all pods rejected by a plugin that listens to new nodes but not to taints.

use std::thread::sleep;

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, events, eventually, wait_until_bound},
    objects::{NODES, PODS, node, pod},
    server::{Server, on_both_servers},
    wake_scene::{GATE, OURS, QUIET, THEIRS, WakeScene, placed},
};

on_both_servers! {
    changes_wake_the_same_pods_as_in_kube_scheduler,
    released_resources_wake_the_pods_that_lack_them_and_no_others,
    new_nodes_and_tolerations_wake_the_pods_that_they_help,
    other_pods_wake_the_pods_whose_selectors_match_them,
    nodes_wake_the_pods_whose_topology_they_change,
}

const CPU: &str = "short-of-cpu";
const TAINT: &str = "tainted-out";
const LABEL: &str = "unmatched";
const CORDON: &str = "cordoned-off";
const WAITING: [&str; 5] = [CPU, TAINT, LABEL, CORDON, GATE];

/// Starts a scene with pods that wait for other nodes.
fn waiting_for_nodes(server: Server) -> WakeScene {
    let nodes = ["n1", "n2", "n3", "n4"].map(unwelcoming);
    WakeScene::new(server, &nodes, &[], &[], &WAITING, |scheduler| waiting_pods(scheduler).into())
}

fn everything() -> Value {
    json!([{"operator": "Exists"}])
}

/// Returns a node that is small, tainted and cordoned.
fn unwelcoming(name: &str) -> Value {
    let mut node = node(name, json!({}), "2", "4Gi", 20);
    node["spec"] = json!({
        "unschedulable": true,
        "taints": [{"key": "pool", "value": "x", "effect": "NoSchedule"}],
    });
    node
}

fn waiting_pods(scheduler: &str) -> [Value; 5] {
    let cordon = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    let taint = json!([{"key": "pool", "operator": "Exists"}]);
    let gates = json!([{"name": "example.com/gate"}]);
    let selector = json!({"disk": "ssd"});
    [
        (CPU, "8", json!({"tolerations": everything()})),
        (TAINT, "10m", json!({"tolerations": cordon})),
        (LABEL, "10m", json!({"tolerations": everything(), "nodeSelector": selector})),
        (CORDON, "10m", json!({"tolerations": taint})),
        (GATE, "10m", json!({"tolerations": everything(), "schedulingGates": gates})),
    ]
    .map(|(name, cpu, spec)| pod(&format!("{name}-{scheduler}"), scheduler, json!({"cpu": cpu}), spec))
}

fn changes_wake_the_same_pods_as_in_kube_scheduler(server: Server) {
    let scene = waiting_for_nodes(server);
    for attempts in scene.attempts() {
        let first = WAITING.map(|name| attempts[name]);
        assert_eq!(first, [1, 1, 1, 1, 0], "each pod was tried once, except for the gated pod");
    }

    scene.wakes("more memory", &[], || scene.resize("n1", "2", "64Gi"));
    scene.wakes("more CPU, but not enough", &[], || scene.resize("n1", "4", "64Gi"));
    scene.wakes("another label", &[], || {
        scene.patch_node("n1", json!({"metadata": {"labels": {"disk": "hdd"}}}));
    });
    scene.wakes("another taint", &[CPU, LABEL], || {
        let taints = json!([
            {"key": "pool", "value": "x", "effect": "NoSchedule"},
            {"key": "other", "effect": "NoSchedule"},
        ]);
        scene.patch_node("n1", json!({"spec": {"taints": taints}}));
    });
    scene.wakes("an annotation", &[], || {
        scene.patch_node("n1", json!({"metadata": {"annotations": {"a": "b"}}}));
    });
    scene.wakes("a condition", &[], || {
        scene.patch_status("n1", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    });
    scene.wakes("a node like the others", &[], || {
        scene.client.post(NODES, &unwelcoming("n5")).expect("the node is created");
    });
    scene.wakes("a removed node", &[], || {
        scene.client.delete(&format!("{NODES}/n5")).expect("the node is deleted");
    });
    scene.wakes("a label of a waiting pod", &[], || {
        scene.patch_pods(LABEL, json!({"metadata": {"labels": {"a": "b"}}}));
    });

    scene.helps(CORDON, "n3", &[CORDON, CPU, LABEL], || {
        scene.patch_node("n3", json!({"spec": {"unschedulable": null}}));
    });
    scene.helps(LABEL, "n1", &[LABEL], || {
        scene.patch_node("n1", json!({"metadata": {"labels": {"disk": "ssd"}}}));
    });
    scene.helps(TAINT, "n2", &[TAINT, CPU], || scene.patch_node("n2", json!({"spec": {"taints": []}})));
    scene.helps(CPU, "n4", &[CPU], || scene.resize("n4", "16", "4Gi"));
    let [before, _] = scene.attempts();
    scene.patch_pods(GATE, json!({"spec": {"schedulingGates": null}}));
    wait_until_bound(&scene.client, &format!("{GATE}-{OURS}"));
    let [after, _] = scene.attempts();
    assert_eq!(after[GATE], 1);
    assert!(WAITING[..4].iter().all(|name| after[name] == before[name]), "{after:?}");

    // Each pod that failed once has one failure event and no series.
    for name in [TAINT, CORDON] {
        let failed = events(&scene.client, &format!("{name}-{OURS}"), "FailedScheduling");
        assert!(failed.len() == 1 && failed[0]["series"].is_null(), "{failed:?}");
    }
    assert!(events(&scene.client, &format!("{GATE}-{OURS}"), "FailedScheduling").is_empty());
    for name in WAITING {
        eventually("the event of the binding", PATIENCE, || {
            events(&scene.client, &format!("{name}-{OURS}"), "Scheduled").pop()
        });
    }
    scene.end();
}

fn released_resources_wake_the_pods_that_lack_them_and_no_others(server: Server) {
    let scene = waiting_for_nodes(server);
    let fill = |name: &str, requests: Value| {
        let spec = json!({"nodeName": "n1", "tolerations": everything()});
        scene.client.post(PODS, &pod(name, OURS, requests, spec)).expect("the pod is created");
    };
    scene.wakes("pods that others have placed", &[], || {
        fill("holder", json!({"cpu": "2"}));
        fill("other", json!({"memory": "1Gi"}));
    });
    scene.wakes("a node that would be large enough if it were empty", &[CPU], || {
        scene.resize("n1", "9", "4Gi");
    });
    scene.wakes("a pod that leaves its node", &[CPU], || delete_pod(&scene.client, "other"));
    scene.end();
}

fn new_nodes_and_tolerations_wake_the_pods_that_they_help(server: Server) {
    let scene = waiting_for_nodes(server);
    scene.wakes("new tolerations of the pod itself, helpful or not", &[TAINT], || {
        let more = json!([
            {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
            {"key": "elsewhere", "operator": "Exists"},
        ]);
        scene.patch_pods(TAINT, json!({"spec": {"tolerations": more}}));
    });
    scene.helps(LABEL, "labelled", &[LABEL], || {
        let mut node = unwelcoming("labelled");
        node["metadata"]["labels"] = json!({"disk": "ssd"});
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.helps(CPU, "large", &[CPU], || {
        let mut node = unwelcoming("large");
        node["status"]["allocatable"]["cpu"] = json!("20");
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.helps(TAINT, "untainted", &[TAINT], || {
        let mut node = unwelcoming("untainted");
        node["spec"]["taints"] = json!([]);
        scene.client.post(NODES, &node).expect("the node is created");
    });
    scene.end();
}

const SPREAD: &str = "spread";
const KEYS: &str = "without-keys";
const FRIEND: &str = "friendless";
const FOE: &str = "among-foes";
const OUTCAST: &str = "outcast";
const ROOM: &str = "preempting";
const AMONG_PODS: [&str; 6] = [SPREAD, KEYS, FRIEND, FOE, OUTCAST, ROOM];

/// Returns nodes in two zones, and for each scheduler one node on which a pod must be evicted.
fn zones() -> Vec<Value> {
    let zone = |name: &str, zone: &str| node(name, json!({"zone": zone}), "4", "4Gi", 40);
    let room = |scheduler: &str| {
        node(&format!("room-{scheduler}"), json!({"zone": "a", "room": scheduler}), "8", "4Gi", 40)
    };
    vec![zone("n1", "a"), zone("n2", "b"), room(OURS), room(THEIRS)]
}

/// Returns terms of required affinity or anti-affinity within a zone.
fn terms(labels: &[(&str, &str)]) -> Value {
    let term = |(key, value): &(&str, &str)| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {*key: *value}}});
    json!({"requiredDuringSchedulingIgnoredDuringExecution": labels.iter().map(term).collect::<Vec<_>>()})
}

/// Returns the pods that are in the way of the waiting pods.
fn obstacles() -> Vec<Value> {
    let guard = |name: &str, node: &str| {
        let affinity = json!({"affinity": {"podAntiAffinity": terms(&[("app", "outcast")])}});
        placed(name, node, json!({"app": "guard"}), affinity)
    };
    let labelled = |name: &str, node: &str, app: &str| placed(name, node, json!({"app": app}), json!({}));
    let victim = |scheduler: &str| {
        let mut pod = labelled(&format!("victim-{scheduler}"), &format!("room-{scheduler}"), "victim");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "7"}});
        pod["spec"]["terminationGracePeriodSeconds"] = json!(600);
        pod
    };
    vec![
        labelled("spread-a", "n1", "spread"),
        labelled("spread-b", "n2", "spread"),
        labelled("foe-a1", "n1", "foe"),
        labelled("foe-a2", "n1", "foe"),
        labelled("foe-a3", "n1", "foe"),
        labelled("foe-b", "n2", "foe"),
        guard("guard-a1", "n1"),
        guard("guard-a2", "n1"),
        guard("guard-b", "n2"),
        victim(OURS),
        victim(THEIRS),
    ]
}

fn pods_among_pods(scheduler: &str) -> Vec<Value> {
    let constraint = |key: &str, app: &str| {
        json!({
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        })
    };
    // There is one zone fewer than `minDomains`, so no zone may have more than one such pod. The other scheduler's copy
    // is not counted because it may be bound first.
    let mut three_zones = constraint("zone", "spread");
    three_zones["minDomains"] = json!(3);
    let others: Vec<&str> = [OURS, THEIRS].into_iter().filter(|name| *name != scheduler).collect();
    three_zones["labelSelector"]["matchExpressions"] =
        json!([{"key": "scheduler", "operator": "NotIn", "values": others}]);
    let keys = [constraint("rack", "none"), constraint("row", "none")];
    // Pods without requests fit even on the full nodes.
    [
        (SPREAD, json!({}), json!({"topologySpreadConstraints": [three_zones]})),
        (KEYS, json!({}), json!({"topologySpreadConstraints": keys})),
        (
            FRIEND,
            json!({}),
            json!({"affinity": {"podAffinity": terms(&[("app", "friend"), ("tier", "near")])}}),
        ),
        (FOE, json!({}), json!({"affinity": {"podAntiAffinity": terms(&[("app", "foe")])}})),
        (OUTCAST, json!({}), json!({})),
        (
            ROOM,
            json!({"cpu": "6"}),
            json!({"priorityClassName": "high", "nodeSelector": {"room": scheduler}}),
        ),
    ]
    .map(|(name, requests, spec)| {
        let mut pod = pod(&format!("{name}-{scheduler}"), scheduler, requests, spec);
        pod["metadata"]["labels"] = json!({"app": name, "scheduler": scheduler});
        pod
    })
    .into()
}

fn among_pods(server: Server) -> WakeScene {
    let scene = WakeScene::new(server, &zones(), &obstacles(), &[], &AMONG_PODS, pods_among_pods);
    for attempts in scene.attempts() {
        assert_eq!(AMONG_PODS.map(|name| attempts[name]), [1; 6], "each pod was tried once");
    }
    scene
}

fn other_pods_wake_the_pods_whose_selectors_match_them(server: Server) {
    let scene = among_pods(server);
    let add = |name: &str, labels: Value| {
        let pod = placed(name, "n1", labels, json!({}));
        scene.client.post(PODS, &pod).expect("the pod is created");
    };
    let relabel = |name: &str, labels: Value| {
        let patch = json!({"metadata": {"labels": labels}});
        scene.client.merge_patch(&format!("{PODS}/{name}"), &patch).expect("the patch is accepted");
    };
    let delete = |name: &str| delete_pod(&scene.client, name);

    scene.wakes("an unrelated pod", &[], || add("x", json!({"app": "stranger"})));
    scene.wakes("new labels of an unrelated pod", &[], || relabel("x", json!({"app": "still"})));
    scene.wakes("one more pod to be spread", &[SPREAD], || relabel("x", json!({"app": "spread"})));
    scene.wakes("one pod fewer to be spread", &[SPREAD], || relabel("x", json!({"app": "loner"})));
    scene.wakes("the deletion of an unrelated pod, which frees a place for the preemptor", &[ROOM], || {
        delete("x");
    });
    scene.wakes("pods of another namespace", &[], || {
        for app in ["spread", "friend", "foe"] {
            let pod = placed(app, "n1", json!({"app": app, "tier": "near"}), json!({}));
            scene.client.post("/api/v1/namespaces/other/pods", &pod).expect("the pod is created");
        }
    });
    scene.wakes("relabelled pods of another namespace", &[], || {
        let patch = json!({"metadata": {"labels": {"app": "spread", "tier": null}}});
        for app in ["friend", "foe"] {
            let path = format!("/api/v1/namespaces/other/pods/{app}");
            scene.client.merge_patch(&path, &patch).expect("the patch is accepted");
        }
    });
    scene.wakes("an unbound friend that is created and deleted", &[], || {
        let mut pod = placed("lost", "", json!({"app": "friend", "tier": "near"}), json!({}));
        pod["spec"]["nodeName"] = Value::Null;
        scene.client.post(PODS, &pod).expect("the pod is created");
        delete("lost");
    });
    scene
        .wakes("a pod with one of the two labels of a friend", &[], || add("half", json!({"app": "friend"})));
    scene.wakes("a foe whose label changes", &[FOE], || relabel("foe-a3", json!({"app": "neutral"})));
    scene.wakes("the deletion of one of several foes", &[FOE, ROOM], || delete("foe-a2"));
    scene.wakes("a guard whose label changes", &[], || relabel("guard-a2", json!({"app": "sentry"})));
    scene.wakes("the deletion of one of several guards", &[OUTCAST, ROOM], || delete("guard-a2"));

    scene.helps(FRIEND, "n1", &[FRIEND], || relabel("half", json!({"tier": "near"})));
    scene.helps(OUTCAST, "n2", &[OUTCAST, ROOM], || delete("guard-b"));
    scene.helps(FOE, "n2", &[FOE, ROOM], || delete("foe-b"));
    scene.helps(SPREAD, "n2", &[SPREAD, ROOM], || delete("spread-b"));
    for scheduler in [OURS, THEIRS] {
        delete(&format!("victim-{scheduler}"));
        assert_eq!(
            wait_until_bound(&scene.client, &format!("{ROOM}-{scheduler}")),
            format!("room-{scheduler}")
        );
    }
    scene.end();
}

fn nodes_wake_the_pods_whose_topology_they_change(server: Server) {
    let scene = among_pods(server);
    let add = |name: &str, labels: Value| {
        scene.client.post(NODES, &node(name, labels, "4", "4Gi", 40)).expect("the node is created");
    };
    let label = |labels: Value| scene.patch_node("n4", json!({"metadata": {"labels": labels}}));
    let taint = |taints: Value| scene.patch_node("n4", json!({"spec": {"taints": taints}}));

    scene.wakes("one more node of a zone", &[SPREAD, FRIEND, FOE], || add("n4", json!({"zone": "b"})));
    scene.wakes("another label", &[], || label(json!({"disk": "ssd"})));
    scene.wakes("another zone", &[SPREAD, FRIEND, FOE], || label(json!({"zone": "a"})));
    scene.wakes("one of the two topology keys that a pod needs", &[], || label(json!({"rack": "1"})));
    scene.wakes("a taint", &[SPREAD, FRIEND, FOE, OUTCAST, ROOM], || {
        taint(json!([{"key": "other", "effect": "NoSchedule"}]));
    });
    scene.wakes("the removal of the taint", &[SPREAD, FRIEND, FOE, OUTCAST, ROOM], || taint(json!([])));
    scene.wakes("a removed node", &[SPREAD], || {
        scene.client.delete(&format!("{NODES}/n4")).expect("the node is deleted");
    });
    add("n4", json!({"zone": "a", "rack": "1"}));
    sleep(QUIET);
    scene.helps(KEYS, "n4", &[KEYS], || label(json!({"row": "1"})));
    scene.helps(FOE, "n4", &[FOE, SPREAD], || label(json!({"zone": null})));
    scene.helps(SPREAD, "n5", &[SPREAD, FRIEND], || add("n5", json!({"zone": "c"})));
    scene.end();
}
