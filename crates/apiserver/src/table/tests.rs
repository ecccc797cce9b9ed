use harbormaster_api::{
    Release,
    features::{Feature, Features},
};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

/// Returns the cells of an object as strings.
fn cells(columns: &[Column], object: &Value) -> Vec<String> {
    let now = Timestamp::parse(NOW).unwrap();
    let table = table(columns, std::iter::once(object.clone()), Include::None, json!({}), now);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    cells.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)).collect()
}

#[test]
fn a_pods_status_summarizes_its_containers() {
    let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
    let broken = json!({"name": "b", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}});
    for (status, deleted, expected) in [
        (json!({"phase": "Pending"}), false, ["0/2", "Pending", "0"]),
        (json!({"phase": "Running", "containerStatuses": [running]}), false, ["1/2", "Running", "0"]),
        (json!({"phase": "Running"}), true, ["0/2", "Terminating", "0"]),
        (json!({"phase": "Succeeded"}), true, ["0/2", "Succeeded", "0"]),
        (
            json!({"phase": "Running", "containerStatuses": [running, broken]}),
            false,
            ["1/2", "CrashLoopBackOff", "3 (5m ago)"],
        ),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            false,
            ["0/2", "SchedulingGated", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}]}),
            false,
            ["0/2", "Init:ExitCode:2", "0"],
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            false,
            ["0/2", "Error", "0"],
        ),
    ] {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{}, {}], "initContainers": [{"name": "i"}]},
            "status": status,
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        let cells = cells(columns::PODS, &pod);
        assert_eq!(cells[1..4], expected, "{pod}");
        assert_eq!((cells[4].as_str(), cells[6].as_str()), ("60m", "<none>"));
    }
}

#[test]
fn a_nodes_statuses_and_its_roles_are_each_joined_with_commas() {
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"kubeletVersion": "v1"}},
    });
    assert_eq!(
        cells(columns::NODES, &node)[..5],
        ["n", "NotReady,SchedulingDisabled", "a,b", "<unknown>", "v1"]
    );
}

#[test]
fn a_row_contains_as_much_of_the_object_as_requested() {
    let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Succeeded"}});
    let row = |include| {
        table(columns::PODS, std::iter::once(pod.clone()), include, json!({}), Timestamp::default())["rows"]
            [0]
        .clone()
    };
    assert_eq!(row(Include::None).get("object"), None);
    assert_eq!(row(Include::Metadata)["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row(Include::Object)["object"], pod);
    assert_eq!(row(Include::None)["conditions"][0]["reason"], "Succeeded");
}

#[test]
fn a_group_is_pending_until_its_conditions_say_otherwise() {
    let condition =
        |name: &str, status: &str, reason: &str| json!({"type": name, "status": status, "reason": reason});
    let placed = |status: &str| condition("PodGroupInitiallyScheduled", status, "Whatever");
    let target = condition("DisruptionTarget", "True", "PreemptionByScheduler");
    for (policy, conditions, expected) in [
        ("basic", vec![], ["Basic", "<none>", "Pending"]),
        ("gang", vec![placed("False")], ["Gang", "<none>", "Unschedulable"]),
        ("gang", vec![placed("True")], ["Gang", "<none>", "Scheduled"]),
        ("gang", vec![target, placed("True")], ["Gang", "<none>", "PreemptionByScheduler"]),
    ] {
        let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {policy: {}}},
                           "status": {"conditions": conditions}});
        assert_eq!(cells(columns::POD_GROUPS, &group)[1..4], expected, "{group}");
    }
}

#[test]
fn every_column_copes_with_malformed_objects() {
    let odd = json!({"metadata": 5, "spec": [], "status": "x", "kind": []});
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    for kind in crate::kinds::Kinds::of_table(features, &crate::shelf::Versions::new(), 1).all() {
        assert_eq!(cells(&kind.columns, &odd).len(), kind.columns.len(), "{}", kind.kind);
        assert_eq!(cells(&kind.columns, &json!(null)).len(), kind.columns.len(), "{}", kind.kind);
    }
}

#[test]
fn a_definition_shows_its_served_versions_from_1_37_on() {
    let version =
        |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage});
    let definition = json!({
        "metadata": {"name": "things.example.com", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "shortNames": ["t", "th"]},
            "versions": [version("v1", true, true), version("v1beta1", false, false), version("v1alpha1", true, false)],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    let shown = |release| {
        cells(columns::of("apiextensions.k8s.io", "customresourcedefinitions", release), &definition)
    };
    let created = "2026-01-01T00:00:00Z";
    assert_eq!(shown(Release::V1_36), ["things.example.com", created]);
    let expected = [
        "things.example.com",
        "Namespaced",
        "v1(storage),v1alpha1",
        created,
        "example.com",
        "Thing",
        "t,th",
        "true",
    ];
    assert_eq!(shown(Release::V1_37), expected);
}
