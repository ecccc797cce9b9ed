use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use serde_json::{Value, json};

use crate::{Failure, Options, Store};

fn store() -> Store {
    Store::new(Options::default())
}

/// Returns a pod with additional fields in its spec.
fn pod(more: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json_patch::merge(&mut pod["spec"], &more);
    pod
}

fn refused(object: Value) -> Failure {
    store().create("pods", object.clone()).map(|_| panic!("accepted: {object}")).unwrap_err()
}

#[test]
fn a_pod_gets_the_defaults_of_the_api() {
    let container = json!({"name": "c", "image": "example.com:5000/i", "ports": [{"containerPort": 80}],
                           "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"memory": "512Mi"}}});
    let spec =
        store().create("pods", pod(json!({"containers": [container]}))).unwrap().value()["spec"].clone();
    for (pointer, expected) in [
        ("/restartPolicy", json!("Always")),
        ("/schedulerName", json!("default-scheduler")),
        ("/terminationGracePeriodSeconds", json!(30)),
        ("/enableServiceLinks", json!(true)),
        ("/priority", json!(0)),
        ("/preemptionPolicy", json!("PreemptLowerPriority")),
        ("/containers/0/imagePullPolicy", json!("Always")),
        ("/containers/0/ports/0/protocol", json!("TCP")),
        (
            "/containers/0/resources",
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "512Mi"}}),
        ),
        ("/tolerations/0/key", json!("node.kubernetes.io/not-ready")),
        ("/tolerations/1/tolerationSeconds", json!(300)),
    ] {
        assert_eq!(spec.pointer(pointer), Some(&expected), "{pointer}");
    }
}

#[test]
fn the_refusal_of_an_invalid_pod_names_the_field() {
    let long = "x".repeat(64);
    for (more, message) in [
        (json!({"containers": []}), "spec.containers: Required value"),
        (json!({"containers": [{"name": "c"}]}), "spec.containers[0].image: Required value"),
        (
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
            "spec.containers[1].name: Duplicate value: \"c\"",
        ),
        (
            json!({"restartPolicy": "Maybe"}),
            "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]}),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"a.b/gpu": "1"}}}]}),
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
            "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ),
        (
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: \
             must have at least one node selector term",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}}}),
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: \
             must be in the range 1-100",
        ),
        (
            json!({"schedulingGates": [{"name": "a"}], "nodeName": "n"}),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"]}]}),
            "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        (
            json!({"resources": {"requests": {"cpu": "1"}}, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}),
            "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
        ),
        (json!({"nodeSelector": {"a": long}}), "spec.nodeSelector: Invalid value: \"xxxx"),
    ] {
        let failure = refused(pod(more));
        assert!(failure.message.starts_with(&format!("Pod \"a\" is invalid: {message}")), "{failure}");
        assert_eq!((failure.code, failure.reason), (422, "Invalid"));
    }
}

#[test]
fn match_label_keys_are_merged_into_label_selectors() {
    let term = json!({"topologyKey": "z", "matchLabelKeys": ["a", "absent"], "mismatchLabelKeys": ["b"],
                      "labelSelector": {"matchLabels": {"app": "a"}}});
    let mut pod = pod(json!({
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": term}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway",
                                       "matchLabelKeys": ["a"], "labelSelector": {}}],
    }));
    pod["metadata"]["labels"] = json!({"a": "1", "b": "2"});
    let spec = store().create("pods", pod).unwrap().value()["spec"].clone();
    let (equal, unequal) = (
        json!({"key": "a", "operator": "In", "values": ["1"]}),
        json!({"key": "b", "operator": "NotIn", "values": ["2"]}),
    );
    let of_term =
        "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
    let of_constraint = "/topologySpreadConstraints/0";
    for (place, expected) in [(of_term, json!([equal, unequal])), (of_constraint, json!([equal]))] {
        let expressions = spec.pointer(&format!("{place}/labelSelector/matchExpressions"));
        assert_eq!(expressions, Some(&expected), "{place}");
    }
}

#[test]
fn pod_level_requests_default_to_those_of_the_containers_or_else_to_pod_level_limits() {
    let created = store().create(
        "pods",
        pod(json!({
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "1Gi"}}}],
            "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        })),
    );
    let pod = created.unwrap().value();
    assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(pod["status"]["qosClass"], json!("Burstable"));
}

#[test]
fn overhead_needs_a_runtime_class() {
    let failure = refused(pod(json!({"overhead": {"cpu": "1"}})));
    assert_eq!((failure.code, failure.reason), (403, "Forbidden"));
    let store = store();
    let named = |overhead: Value| pod(json!({"overhead": overhead, "runtimeClassName": "sandboxed"}));
    let failure = store.create("pods", named(json!({"cpu": "1"}))).unwrap_err();
    assert_eq!(
        failure.message,
        "pods \"a\" is forbidden: pod rejected: RuntimeClass \"sandboxed\" not found"
    );
    let class = |cpu: &str| json!({"metadata": {"name": "sandboxed"}, "handler": "h", "overhead": {"podFixed": {"cpu": cpu}}});
    store.create("runtimeclasses.node.k8s.io", class("1")).unwrap();
    store.create("pods", named(json!({"cpu": "1000m"}))).unwrap();
    store.merge("runtimeclasses.node.k8s.io", "", "sandboxed", false, &class("-1")).unwrap();
    let failure = store.create("pods", named(json!({"cpu": "-1"}))).unwrap_err();
    let message = "Pod \"a\" is invalid: spec.overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0";
    assert_eq!(failure.message, message);
}

#[test]
fn pods_with_wrong_types_are_refused_before_validation() {
    for (more, words) in [
        (json!({"containers": 5}), "spec.containers"),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}]}),
            "quantities must match",
        ),
        (json!({"tolerations": "x"}), "tolerations"),
        (json!({"nodeSelector": {"a": 1}}), "nodeSelector"),
    ] {
        let failure = refused(pod(more));
        assert_eq!(failure.code, 400, "{failure}");
        assert!(
            failure.message.starts_with("Pod in version \"v1\" cannot be handled as a Pod: "),
            "{failure}"
        );
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[test]
fn a_pods_priority_comes_from_its_class() {
    let store = store();
    let class = |name: &str, value: i64, more: Value| {
        let mut class = json!({"metadata": {"name": name}, "value": value});
        json_patch::merge(&mut class, &more);
        store.create("priorityclasses.scheduling.k8s.io", class)
    };
    class("high", 1000, json!({"preemptionPolicy": "Never"})).unwrap();
    let high = store.create("pods", pod(json!({"priorityClassName": "high"}))).unwrap().value();
    assert_eq!(
        (&high["spec"]["priority"], &high["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    let missing = store.create("pods", pod(json!({"priorityClassName": "none"}))).unwrap_err();
    assert_eq!(missing.message, "pods \"a\" is forbidden: no PriorityClass with name none was found");
    let given = store.create("pods", pod(json!({"priority": 5}))).unwrap_err();
    assert!(given.message.contains("the integer value of priority (5) must not be provided"), "{given}");
    class("usual", 7, json!({"globalDefault": true})).unwrap();
    let mut other = pod(json!({}));
    other["metadata"]["name"] = json!("b");
    let usual = store.create("pods", other).unwrap().value();
    assert_eq!(
        (&usual["spec"]["priority"], &usual["spec"]["priorityClassName"]),
        (&json!(7), &json!("usual"))
    );
    for (name, value, more, words) in [
        (
            "second",
            1,
            json!({"globalDefault": true}),
            "PriorityClass usual is already marked as default. Only one default can exist",
        ),
        ("huge", 1_000_000_001, json!({}), "maximum allowed value of a user defined priority is 1000000000"),
        (
            "system-mine",
            1,
            json!({}),
            "priority class names with 'system-' prefix are reserved for system use only.",
        ),
    ] {
        let failure = class(name, value, more).unwrap_err();
        assert!(failure.message.contains(words), "{failure}");
    }
    let changed = store.update("priorityclasses.scheduling.k8s.io", "", "high", |c| c["value"] = json!(2));
    assert!(changed.unwrap_err().message.ends_with("value: Forbidden: may not be changed in an update."));
}

#[test]
fn most_fields_of_an_existing_pod_are_immutable() {
    let store = store();
    store.create("pods", pod(json!({"activeDeadlineSeconds": 10}))).unwrap();
    let change = |change: fn(&mut Value)| store.update("pods", "default", "a", change).map(|_| ());
    change(|pod| pod["spec"]["containers"][0]["image"] = json!("j")).unwrap();
    change(|pod| pod["spec"]["activeDeadlineSeconds"] = json!(5)).unwrap();
    change(|pod| {
        let more = json!({"key": "k", "operator": "Exists"});
        pod["spec"]["tolerations"].as_array_mut().unwrap().push(more);
    })
    .unwrap();
    for (refused, words) in [
        (
            (|pod| pod["spec"]["nodeName"] = json!("n")) as fn(&mut Value),
            "spec: Forbidden: pod updates may not change fields other than",
        ),
        (
            |pod| pod["spec"]["tolerations"] = json!([]),
            "spec.tolerations: Forbidden: existing toleration can not be modified",
        ),
        (
            |pod| pod["spec"]["containers"] = json!([]),
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            |pod| pod["spec"]["activeDeadlineSeconds"] = json!(50),
            "must be less than or equal to previous value",
        ),
        (
            |pod| pod["spec"]["schedulingGates"] = json!([{"name": "g"}]),
            "only deletion is allowed, but found new scheduling gate 'g'",
        ),
    ] {
        let failure = change(refused).unwrap_err();
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[test]
fn fields_set_by_admission_survive_updates_that_omit_them() {
    let store = store();
    let before = store.create("pods", pod(json!({}))).unwrap().value();
    let updated = store.update("pods", "default", "a", |pod| {
        pod["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        pod["spec"]["priority"] = Value::Null;
        pod["spec"]["preemptionPolicy"] = Value::Null;
    });
    let after = updated.unwrap().value();
    let tolerations = after["spec"]["tolerations"].as_array().unwrap();
    assert_eq!(tolerations[0]["key"], json!("k"));
    assert_eq!(&tolerations[1..], before["spec"]["tolerations"].as_array().unwrap());
    for field in ["priority", "preemptionPolicy"] {
        assert_eq!(after["spec"][field], before["spec"][field]);
    }
}

#[test]
fn a_gated_pod_has_a_condition_and_its_node_selector_may_be_extended() {
    let store = store();
    let created = store.create("pods", pod(json!({"schedulingGates": [{"name": "g"}]}))).unwrap().value();
    assert_eq!(created["status"]["conditions"][0]["reason"], json!("SchedulingGated"));
    assert!(store.bind("default", "a", "n").unwrap_err().message.contains("non-empty .spec.schedulingGates"));
    store.update("pods", "default", "a", |pod| pod["spec"]["nodeSelector"] = json!({"zone": "a"})).unwrap();
    store.update("pods", "default", "a", |pod| pod["spec"]["schedulingGates"] = json!([])).unwrap();
    store.bind("default", "a", "n").unwrap();
}

#[test]
fn a_nodes_taints_are_checked_and_allocatable_defaults_to_capacity() {
    let store = store();
    let node = |taints: Value| json!({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"capacity": {"cpu": 4, "memory": "1024Ki"}}});
    let double = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]);
    assert!(
        store
            .create("nodes", node(double))
            .unwrap_err()
            .message
            .contains("metadata.taints[1]: Duplicate value")
    );
    let odd = json!([{"key": "a", "effect": "Sometimes"}]);
    assert!(
        store.create("nodes", node(odd)).unwrap_err().message.contains("Unsupported value: \"Sometimes\"")
    );
    let created = store.create("nodes", node(json!([]))).unwrap().value();
    assert_eq!(created["status"]["allocatable"], json!({"cpu": "4", "memory": "1Mi"}));
    let tainting = Store::new(Options { taint_new_nodes: true, ..Options::default() });
    let tainted = tainting.create("nodes", node(json!([]))).unwrap().value();
    assert_eq!(tainted["spec"]["taints"][0]["key"], json!("node.kubernetes.io/not-ready"));
}

#[test]
fn invalid_metadata_is_refused() {
    for (metadata, words) in [
        (json!({"name": "A"}), "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain"),
        (json!({"name": "a", "labels": {"-": "x"}}), "metadata.labels: Invalid value: \"-\": name part"),
        (json!({"name": "a", "labels": {"x": "-"}}), "metadata.labels: Invalid value: \"-\": a valid label"),
        (json!({"name": "a", "annotations": {"b c": ""}}), "metadata.annotations: Invalid value: \"b c\""),
        (json!({"name": "a", "annotations": {"b": "x".repeat(300_000)}}), "metadata.annotations: Too long"),
    ] {
        let failure = store().create("configmaps", json!({"metadata": metadata})).unwrap_err();
        assert!(failure.message.contains(words), "{failure}");
    }
    for metadata in [json!({"name": "a", "labels": {"x": 5}}), json!({"name": "a", "finalizers": "x"})] {
        assert_eq!(store().create("configmaps", json!({"metadata": metadata})).unwrap_err().code, 400);
    }
}

#[test]
fn a_workloads_selector_must_match_its_template() {
    let workload = |labels: Value| json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let failure = store().create("deployments.apps", workload(json!({"a": "c"}))).unwrap_err();
    assert!(failure.message.contains("`selector` does not match template `labels`"), "{failure}");
    let created = store().create("deployments.apps", workload(json!({"a": "b"}))).unwrap().value();
    assert_eq!(
        (&created["spec"]["replicas"], &created["spec"]["strategy"]["type"]),
        (&json!(1), &json!("RollingUpdate"))
    );
}

#[test]
fn services_have_distinct_addresses_and_node_ports() {
    let store = store();
    let create = |name: &str, spec: Value| {
        let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        json_patch::merge(&mut service["spec"], &spec);
        store.create("services", service)
    };
    let address =
        |name: &str| store.get("services", "default", name).unwrap().value()["spec"]["clusterIP"].clone();
    create("a", json!({})).unwrap();
    create("b", json!({})).unwrap();
    assert_ne!(address("a"), address("b"));
    create("headless", json!({"clusterIP": "None"})).unwrap();
    create("also-headless", json!({"clusterIP": "None"})).unwrap();
    assert_eq!(address("also-headless"), json!("None"));
    create("given", json!({"clusterIP": "10.96.0.7"})).unwrap();
    let failure = create("twice", json!({"clusterIP": "10.96.0.7"})).unwrap_err();
    assert_eq!(
        failure.message,
        "Service \"twice\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.7\"]: failed to allocate IP 10.96.0.7: \
         provided IP is already allocated"
    );
    let door = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]});
    create("door", door.clone()).unwrap();
    let failure = create("door-2", door).unwrap_err();
    assert!(
        failure
            .message
            .ends_with("spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated")
    );
    let relabelled = store
        .update("services", "default", "door", |service| service["metadata"]["labels"] = json!({"a": "b"}));
    assert_eq!(relabelled.unwrap().value()["spec"]["ports"][0]["nodePort"], 30080);
}

#[test]
fn the_status_of_a_pod_group_is_written_alone() {
    let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
    let store = Store::new(Options { features, ..Options::default() });
    let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
                       "status": {"conditions": [{"type": "Given"}]}});
    let created = store.create("podgroups.scheduling.k8s.io", group).unwrap().value();
    assert_eq!((&created["status"], created["metadata"].get("generation")), (&json!({}), None));
    let condition = json!({"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled",
                           "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"metadata": {"labels": {"a": "b"}, "finalizers": null},
                       "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}}, "status": {"conditions": [condition]}});
    let changed = store.merge("podgroups.scheduling.k8s.io", "default", "g", true, &patch).unwrap().value();
    assert_eq!((&changed["spec"], &changed["status"]["conditions"]), (&created["spec"], &json!([condition])));
    assert_eq!(changed["metadata"].get("labels"), None);
    assert_eq!(changed["metadata"]["finalizers"], created["metadata"]["finalizers"]);
}
