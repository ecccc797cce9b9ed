use serde_json::json;

use super::*;
use crate::{
    Labels, PodDisruptionBudget, Service, Str, Timestamp, Workload, WorkloadKind,
    pod::{EXTENDED_CLAIM, InTreeDisk, Phase, PodClaim, Volume, VolumeSource},
    requests::{StatusRule, host_ports, pod_request_list, spec_request},
    selector::{LabelSelector, Operator},
    taint::{TaintEffect, TolerationOperator},
};

fn pod(value: &Value) -> Pod {
    let from_value = Decoder::new().pod_value(value).unwrap();
    let from_bytes = Decoder::new().pod(value.to_string().as_bytes()).unwrap();
    assert_eq!(from_value, from_bytes);
    from_bytes
}

fn manifest(value: &Value) -> Pod {
    Decoder::new().with_api_defaults().pod_value(value).unwrap()
}

#[test]
fn a_pod_is_decoded_with_its_metadata_and_spec_and_status() {
    let pod = pod(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "labels": {"b": "2", "a": "1"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"x\":1}", "k": "v"},
            "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [{"fieldsV1": {"f:x": {}}}],
            "ownerReferences": [
                {"kind": "Other", "name": "o"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "ru", "controller": true}
            ]
        },
        "spec": {
            "nodeName": "n1", "schedulerName": "mine", "priority": 5, "preemptionPolicy": "Never",
            "schedulingGates": [{"name": "g1"}, {"name": "g2"}],
            "nodeSelector": {}, "hostUsers": false, "hostNetwork": true,
            "tolerations": [
                {"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoExecute"}, {"effect": "Odd"}
            ],
            "containers": [{
                "name": "c", "image": "img", "resources": {"requests": {"cpu": "100.1m", "memory": 1.5}},
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1"}]
            }],
            "initContainers": [{"name": "s", "restartPolicy": "Always",
                "restartPolicyRules": [{"action": "RestartAllContainers"}]}],
            "overhead": {"cpu": "1m"}, "resources": {"requests": {"memory": "1Ki"}},
            "schedulingGroup": {"podGroupName": "pg"}, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
        },
        "status": {
            "phase": "Running", "nominatedNodeName": "", "startTime": "2026-01-02T03:04:06Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}},
                "allocatedResources": {"cpu": "3"}}, {"name": "bare"},
                {"name": "new", "allocatedResources": {"cpu": "1"}}],
            "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "ext"}
        }
    }));
    assert_eq!((pod.full_name().as_str(), pod.uid.as_str(), pod.generation), ("ns/p", "u", 3));
    assert_eq!(pod.labels, [("a", "1"), ("b", "2")].into_iter().collect());
    assert_eq!(pod.annotations, [("k", "v")].into_iter().collect());
    assert_eq!(pod.created, Timestamp::parse("2026-01-02T03:04:05Z").ok());
    assert_eq!(pod.controller.as_ref().map(|o| o.name.as_str()), Some("rs"));
    assert_eq!(pod.node_name, Some(Str::from("n1")));
    assert_eq!(pod.scheduling_gates, ["g1", "g2"]);
    let spec = &pod.spec;
    assert_eq!((spec.scheduler_name.as_str(), spec.priority, spec.never_preempts), ("mine", 5, true));
    assert_eq!(spec.node_selector, Some(Labels::default()));
    assert_eq!(spec.tolerations.len(), 2);
    assert_eq!(spec.tolerations[0].operator, TolerationOperator::Exists);
    assert_eq!(spec.tolerations[1].effect, Some(TaintEffect::NoExecute));
    assert_eq!(spec.containers[0].requests, [("cpu".into(), 101), ("memory".into(), 2)]);
    let ports: Vec<_> =
        host_ports(spec).iter().map(|p| format!("{}/{}/{}", p.protocol, p.ip, p.port)).collect();
    assert_eq!(ports, ["TCP/10.0.0.1/81"]);
    assert!(spec.restarts_all_containers && spec.host_network && spec.init_containers[0].restart_always);
    assert_eq!((spec.host_users, spec.pod_group.as_deref()), (Some(false), Some("pg")));
    let claim = PodClaim { name: "gpu".into(), claim: None, template: Some("gpus".into()) };
    assert_eq!(spec.resource_claims, [claim]);
    assert_eq!((pod.status.phase, &pod.status.nominated_node_name), (Phase::Running, &None));
    assert_eq!(pod.status.conditions.len(), 1);
    let resources = pod.status.container_resources.iter().map(|c| (c.name.as_str(), c.requests.is_some()));
    assert_eq!(resources.collect::<Vec<_>>(), [("c", true), ("new", false)]);
    assert_eq!(pod.status.resource_claims.get(EXTENDED_CLAIM).map(Str::as_str), Some("ext"));
    assert_eq!(
        pod_request_list(&pod, StatusRule::default()),
        [("cpu".into(), 3001), ("memory".into(), 1024)]
    );
}

#[test]
fn affinity_and_spreading_are_decoded_and_absent_differs_from_empty() {
    let pod = pod(&json!({"spec": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}, null]},
                "preferredDuringSchedulingIgnoredDuringExecution": []
            },
            "podAffinity": {},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9,
                "podAffinityTerm": {"topologyKey": "zone", "namespaceSelector": {}, "namespaces": ["x"]}}]}
        },
        "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}}, "nodeTaintsPolicy": "Honor", "minDomains": 3}]
    }}));
    let node_affinity = pod.spec.node_affinity.as_ref().unwrap();
    let terms = &node_affinity.required.as_ref().unwrap().terms;
    assert_eq!((terms.len(), terms[0].match_expressions[0].operator.clone()), (2, Operator::Gt));
    assert_eq!(node_affinity.preferred, Some(vec![]));
    assert_eq!(pod.spec.pod_affinity, Some(Default::default()));
    let (weight, term) = &pod.spec.pod_anti_affinity.as_ref().unwrap().preferred[0];
    assert_eq!((*weight, &term.label_selector), (9, &None));
    assert_eq!(term.namespace_selector, Some(Default::default()));
    let spread = &pod.spec.topology_spread[0];
    assert!(spread.hard && spread.honor_node_taints && !spread.ignore_node_affinity);
    assert_eq!((spread.max_skew, spread.min_domains), (2, Some(3)));
}

#[test]
fn only_volumes_that_affect_placement_are_kept() {
    let pod = pod(&json!({"spec": {"volumes": [
        {"name": "a", "configMap": {"name": "x"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "pvc"}},
        {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "d", "image": {"reference": "i"}},
        {"name": "e", "csi": {"driver": "d"}}, {"name": "f", "gcePersistentDisk": {"pdName": "p"}},
        {"name": "g", "hostPath": {"path": "/"}}, {"name": "h", "emptyDir": {}}
    ]}}));
    let sources: Vec<_> = pod.spec.volumes.iter().map(|v| v.source.clone()).collect();
    assert_eq!(
        sources,
        [
            VolumeSource::Claim("pvc".into()),
            VolumeSource::Ephemeral,
            VolumeSource::Image("i".into()),
            VolumeSource::InlineCsi("d".into()),
            VolumeSource::InTree(InTreeDisk::GcePersistentDisk { name: "p".into(), read_only: false }),
        ]
    );
}

#[test]
fn in_tree_disks_are_decoded_with_the_defaults_of_the_api_server() {
    let disk = |json: serde_json::Value| match &pod(&json!({"spec": {"volumes": [json]}})).spec.volumes[..] {
        [Volume { source: VolumeSource::InTree(disk), .. }] => disk.clone(),
        other => panic!("{other:?}"),
    };
    for (json, expected) in [
        (
            json!({"gcePersistentDisk": {"pdName": "p", "readOnly": true}}),
            InTreeDisk::GcePersistentDisk { name: "p".into(), read_only: true },
        ),
        (
            json!({"awsElasticBlockStore": {"volumeID": "v"}}),
            InTreeDisk::AwsElasticBlockStore { volume_id: "v".into() },
        ),
        (
            json!({"azureDisk": {"diskURI": "u"}}),
            InTreeDisk::AzureDisk { uri: "u".into(), kind: "Shared".into() },
        ),
        (
            json!({"azureDisk": {"diskURI": "u", "kind": "Managed"}}),
            InTreeDisk::AzureDisk { uri: "u".into(), kind: "Managed".into() },
        ),
        (json!({"azureFile": {"shareName": "s"}}), InTreeDisk::AzureFile),
        (json!({"cinder": {"volumeID": "v"}}), InTreeDisk::Cinder { volume_id: "v".into() }),
        (json!({"iscsi": {"iqn": "i"}}), InTreeDisk::Iscsi { iqn: "i".into(), read_only: false }),
        (json!({"portworxVolume": {"volumeID": "v"}}), InTreeDisk::PortworxVolume { volume_id: "v".into() }),
        (
            json!({"rbd": {"monitors": ["a", "b"], "image": "i", "readOnly": true}}),
            InTreeDisk::Rbd {
                monitors: vec!["a".into(), "b".into()],
                pool: "rbd".into(),
                image: "i".into(),
                read_only: true,
            },
        ),
        (json!({"vsphereVolume": {"volumePath": "p"}}), InTreeDisk::VsphereVolume),
    ] {
        assert_eq!(disk(json), expected);
    }
}

#[test]
fn null_means_absent() {
    let nulls = pod(&json!({"metadata": {"name": null, "labels": null, "creationTimestamp": null}, "spec": {
        "nodeName": null, "affinity": null, "nodeSelector": null, "priority": null, "volumes": null,
        "containers": [{"name": "c", "resources": {"requests": null}, "ports": null}],
        "overhead": null, "hostNetwork": null}, "status": null}));
    let absent = pod(&json!({"spec": {"containers": [{"name": "c"}]}}));
    assert_eq!(nulls, absent);
    assert_eq!(absent.spec.scheduler_name, "default-scheduler");
    assert_eq!(pod(&json!({})).spec.scheduler_name, "default-scheduler");
}

#[test]
fn errors_name_the_field() {
    for (value, path, problem) in [
        (
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1x"}}}]}}),
            "spec.containers[0].resources.requests.cpu",
            "quantity \"1x\": quantities must match",
        ),
        (
            json!({"spec": {"priority": "high"}}),
            "spec.priority",
            "invalid type: string \"high\", expected i32",
        ),
        (json!({"metadata": {"labels": {"a": 1}}}), "metadata.labels.a", "expected a string"),
        (json!({"metadata": {"creationTimestamp": "now"}}), "metadata.creationTimestamp", "now"),
        (json!({"spec": {"tolerations": {}}}), "spec.tolerations", "expected a list"),
    ] {
        let from_value = Decoder::new().pod_value(&value).unwrap_err();
        let from_bytes = Decoder::new().pod(value.to_string().as_bytes()).unwrap_err();
        assert!(!from_value.problem.contains(" at line "), "{from_value}");
        for error in [from_value, from_bytes] {
            assert_eq!((error.kind, error.path.as_str()), ("Pod", path));
            assert!(error.problem.contains(problem), "{error}");
        }
    }
    let broken = Decoder::new().node(b"{\"spec\": {}} x").unwrap_err();
    assert_eq!(broken.to_string(), "Node: trailing characters at line 1 column 14");
}

#[test]
fn a_node_is_decoded_with_the_fields_that_scheduling_reads() {
    let value = json!({
        "metadata": {"name": "n", "uid": "u", "labels": {"z": "a"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}, {"effect": "Odd"}]},
        "status": {
            "capacity": {"cpu": "9"}, "allocatable": {"cpu": "1500m", "memory": "1Ki", "pods": "110", "a.b/c": 2, "odd": 1},
            "images": [{"names": ["i:1", "i@sha256:0"], "sizeBytes": 12}],
            "declaredFeatures": ["B", "A"],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}]
        }
    });
    let node = Decoder::new().node(value.to_string().as_bytes()).unwrap();
    assert_eq!(node, Decoder::new().node_value(&value).unwrap());
    assert!(node.unschedulable && node.taints.len() == 1);
    assert_eq!(
        (node.allocatable.milli_cpu, node.allocatable.memory, node.allocatable.pods),
        (1500, 1024, 110)
    );
    assert_eq!(node.allocatable.scalars, [("a.b/c".into(), 2)]);
    assert_eq!((node.capacity.milli_cpu, node.capacity.memory), (9000, 0));
    assert_eq!((node.images[0].names.len(), node.images[0].size_bytes), (2, 12));
    assert_eq!(*node.declared_features, ["A", "B"]);
    assert_eq!(node.conditions.get("Ready").map(Str::as_str), Some("True"));
}

#[test]
fn manifests_get_the_defaults_that_the_api_server_would_set() {
    let value = json!({
        "metadata": {"name": "p", "labels": {"rev": "1"}},
        "spec": {
            "hostNetwork": true,
            "containers": [{
                "name": "c", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "2", "memory": "5"}, "requests": {"cpu": "1"}}
            }],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["rev"], "mismatchLabelKeys": ["none"]}]}}
        }
    });
    let filled = manifest(&value);
    assert_eq!(filled.namespace, "default");
    let request = spec_request(&filled.spec);
    assert_eq!((request.milli_cpu, request.memory), (1000, 5));
    assert_eq!(host_ports(&filled.spec).len(), 1);
    let term = &filled.spec.pod_affinity.as_ref().unwrap().required[0];
    let expressions = &term.label_selector.as_ref().unwrap().match_expressions;
    assert_eq!((expressions.len(), expressions[0].operator.clone()), (1, Operator::In));
    let plain = pod(&value);
    assert_eq!((plain.namespace.as_str(), spec_request(&plain.spec).memory), ("", 0));
    assert_eq!(host_ports(&plain.spec), []);
}

#[test]
fn a_namespace_and_a_priority_class_and_a_reference_are_decoded() {
    let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}});
    let namespace = |mut decoder: Decoder| match decoder.object_value(ObjectKind::Namespace, &value) {
        Ok(Object::Namespace(namespace)) => namespace,
        other => panic!("{other:?}"),
    };
    let sent = namespace(Decoder::new());
    assert_eq!((sent.name.as_str(), sent.labels.len()), ("n", 1));
    let filled = namespace(Decoder::new().with_api_defaults());
    assert_eq!(filled.labels.get("kubernetes.io/metadata.name").map(Str::as_str), Some("n"));
    let reference = Decoder::new().object_ref_value(&value).unwrap();
    assert_eq!((reference.kind.as_str(), reference.uid.as_str()), ("Namespace", "u"));
    let value =
        json!({"metadata": {"name": "high"}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"});
    let class = Decoder::new().priority_class_value(&value).unwrap();
    assert_eq!((class.value, class.global_default, class.never_preempts), (7, true, true));
    let node = Decoder::new().with_api_defaults().node(br#"{"status": {"capacity": {"cpu": 2}}}"#).unwrap();
    assert_eq!(node.allocatable.milli_cpu, 2000);
}

/// Decodes an object from bytes and from a value. The results must agree.
fn object(kind: ObjectKind, value: &Value) -> Object {
    let text = value.to_string();
    let object = Decoder::new().object(kind, text.as_bytes()).unwrap();
    assert_eq!(Decoder::new().object_value(kind, value).unwrap(), object);
    let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    assert_eq!(ObjectDraft::read(kind, Encoded::Json(text.as_bytes())).unwrap().version(), version);
    object
}

#[test]
fn an_absent_selector_differs_from_an_empty_one() {
    let absent = [json!({}), json!({"spec": null}), json!({"spec": {"selector": null}})];
    let empty = json!({"spec": {"selector": {}}});
    let has_selector = |kind, value: &Value| match object(kind, value) {
        Object::Namespace(_) => false,
        Object::Service(service) => service.selector.is_some(),
        Object::Workload(workload) => workload.selector.is_some(),
        Object::PodDisruptionBudget(budget) => budget.selector.is_some(),
    };
    for kind in ObjectKind::ALL {
        assert!(absent.iter().all(|value| !has_selector(kind, value)), "{kind:?}");
        assert_eq!(has_selector(kind, &empty), kind.is_namespaced(), "{kind:?}");
    }
}

#[test]
fn services_and_replication_controllers_select_by_a_map() {
    let value = json!({
        "metadata": {"name": "s", "namespace": "ns", "resourceVersion": "7"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}, "status": {"loadBalancer": {}}
    });
    let labels: Labels = [("app", "web")].into_iter().collect();
    let (namespace, name) = (Str::from("ns"), Str::from("s"));
    let service =
        Service { namespace: namespace.clone(), name: name.clone(), selector: Some(labels.clone()) };
    assert_eq!(object(ObjectKind::Service, &value), Object::Service(service));
    let kind = WorkloadKind::ReplicationController;
    let selector = Some(LabelSelector { match_labels: labels, ..LabelSelector::default() });
    let controller = Workload { kind, namespace, name, selector };
    assert_eq!(object(ObjectKind::Workload(kind), &value), Object::Workload(controller));
}

#[test]
fn replica_sets_and_stateful_sets_select_by_expressions() {
    for kind in [WorkloadKind::ReplicaSet, WorkloadKind::StatefulSet] {
        let value = json!({
            "metadata": {"name": "w", "namespace": "ns", "resourceVersion": "7"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c"}]}}, "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "Exists"}]}}
        });
        let Object::Workload(workload) = object(ObjectKind::Workload(kind), &value) else {
            panic!("{kind:?}")
        };
        assert_eq!((workload.kind, workload.name.as_str()), (kind, "w"));
        let selector = workload.selector.unwrap();
        assert_eq!((selector.match_labels.len(), selector.match_expressions.len()), (1, 1));
    }
}

#[test]
fn a_disruption_budget_is_decoded_with_the_disruptions_that_it_still_allows() {
    let value = json!({
        "metadata": {"name": "b", "namespace": "ns", "resourceVersion": "7"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 2, "currentHealthy": 4, "disruptedPods": {"p": "2026-01-01T00:00:00Z", "q": null}}
    });
    let Object::PodDisruptionBudget(budget) = object(ObjectKind::PodDisruptionBudget, &value) else {
        panic!()
    };
    assert_eq!((budget.name.as_str(), budget.namespace.as_str()), ("b", "ns"));
    assert_eq!(budget.selector.unwrap().match_labels.len(), 1);
    assert_eq!(budget.disruptions_allowed, 2);
    assert_eq!(budget.disrupted_pods, ["p", "q"]);
    let Object::PodDisruptionBudget(new) = object(ObjectKind::PodDisruptionBudget, &json!({})) else {
        panic!()
    };
    assert_eq!(new, PodDisruptionBudget::default());
}

#[test]
fn manifests_without_a_namespace_are_in_the_default_namespace() {
    let value = json!({"metadata": {"name": "x"}});
    for kind in ObjectKind::ALL {
        let object = Decoder::new().with_api_defaults().object_value(kind, &value).unwrap();
        assert_eq!(object.key().namespace, if kind.is_namespaced() { "default" } else { "" }, "{kind:?}");
    }
}

#[test]
fn errors_in_selectors_name_the_kind_and_the_field() {
    for (kind, selector, path) in [
        (ObjectKind::Service, json!({"app": 1}), "spec.selector.app"),
        (ObjectKind::PodDisruptionBudget, json!({"matchLabels": []}), "spec.selector.matchLabels"),
    ] {
        let value = json!({"spec": {"selector": selector}});
        let error = Decoder::new().object_value(kind, &value).unwrap_err();
        assert_eq!((error.kind, error.path.as_str()), (kind.name(), path));
        let from_bytes = Decoder::new().object(kind, value.to_string().as_bytes()).unwrap_err();
        assert_eq!(from_bytes.path, path);
    }
}

#[test]
fn bind_mount_options_of_any_container_are_noticed() {
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for (options, expected) in [(json!(["ro"]), true), (json!([]), false)] {
            let mounts =
                json!([{"name": "v", "mountPath": "/a"}, {"name": "w", "bindMountOptions": options}]);
            let pod = pod(&json!({"spec": {containers: [{"name": "c", "volumeMounts": mounts}]}}));
            assert_eq!(pod.spec.has_mount_options, expected, "{containers}");
        }
    }
}
