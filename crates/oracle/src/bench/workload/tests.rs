use std::collections::{BTreeMap, BTreeSet};

use harbormaster_setup::{Choices, Setup};

use super::*;

const DEFAULT: SizeOverrides = SizeOverrides { nodes: None, init_pods: None, pods: None, scale: 1.0 };

fn init_pods(workload: &Workload, size: Size) -> Vec<(String, Value)> {
    (0..size.init_pods).map(|index| workload.init_pod(size, index)).collect()
}

fn names(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

#[test]
fn every_workload_has_room_for_its_pods_at_every_scale() {
    for workload in WORKLOADS.iter().chain(&PLUGIN_WORKLOADS) {
        for scale in [1.0, 0.1, 0.013, 0.001] {
            workload.check(SizeOverrides { scale, ..DEFAULT }.of(workload), Release::V1_37).unwrap();
        }
    }
}

#[test]
fn every_init_pod_is_on_a_node_and_in_a_namespace_that_exist() {
    for workload in WORKLOADS.iter().chain(&PLUGIN_WORKLOADS) {
        let size = SizeOverrides { scale: 0.02, ..DEFAULT }.of(workload);
        let nodes: Vec<Value> = (0..size.nodes).map(|index| workload.node(index)).collect();
        let namespaces = workload.namespaces(size);
        let mut pods = BTreeSet::new();
        for (namespace, pod) in init_pods(workload, size) {
            let node = pod["spec"]["nodeName"].as_str().unwrap();
            assert!(names(&nodes).contains(node), "{}: {pod}", workload.name);
            assert!(names(&namespaces).contains(namespace.as_str()), "{}: {namespace}", workload.name);
            pods.insert((namespace, pod["metadata"]["name"].to_string()));
        }
        assert_eq!(pods.len(), size.init_pods, "{}", workload.name);
        assert!(names(&namespaces).contains(MEASURED));
    }
}

#[test]
fn init_pods_are_spread_evenly_and_are_alone_on_a_node_if_they_repel_others() {
    for workload in WORKLOADS.iter().chain(&PLUGIN_WORKLOADS) {
        let size = SizeOverrides { scale: 0.02, ..DEFAULT }.of(workload);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, pod) in init_pods(workload, size) {
            *counts.entry(pod["spec"]["nodeName"].to_string()).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        assert!(most <= size.init_pods.div_ceil(size.nodes), "{}", workload.name);
        if workload.name.contains("AntiAffinity") {
            assert_eq!(most, 1, "{}", workload.name);
        }
    }
}

#[test]
fn a_namespace_selector_matches_all_namespaces_including_a_hundred_with_forty_pods_each() {
    let workload = Workload::named("RequiredPodAntiAffinityWithNSSelector").unwrap();
    let namespaces = workload.namespaces(workload.size);
    assert_eq!(namespaces.len(), 101);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (namespace, _) in init_pods(workload, workload.size) {
        *counts.entry(namespace).or_default() += 1;
    }
    assert_eq!(counts.len(), 100);
    assert!(counts.values().all(|count| *count == 40));
    let pod = workload.measured_pod(0);
    let term =
        &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    for namespace in &namespaces {
        assert_eq!(namespace["metadata"]["labels"], term["namespaceSelector"]["matchLabels"]);
    }
}

#[test]
fn the_pods_of_an_affinity_workload_match_their_own_term_in_both_namespaces() {
    for (name, kind) in
        [("SchedulingPodAffinity", "podAffinity"), ("SchedulingPodAntiAffinity", "podAntiAffinity")]
    {
        let workload = Workload::named(name).unwrap();
        let size = Size { nodes: 3, init_pods: 3, pods: 2 };
        for pod in [workload.measured_pod(0), workload.init_pod(size, 0).1] {
            let term = &pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"][0];
            assert_eq!(term["labelSelector"]["matchLabels"], pod["metadata"]["labels"]);
            assert_eq!(term["namespaces"], json!(["init-0", MEASURED]));
        }
    }
}

#[test]
fn zones_are_equally_large() {
    for (name, zones) in [("plain", 0), ("SchedulingPodAffinity", 1), ("TopologySpreading", 3)] {
        let workload = Workload::named(name).unwrap();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for index in 0..30 {
            if let Some(zone) = workload.node(index)["metadata"]["labels"][pods::ZONE].as_str() {
                *counts.entry(zone.to_owned()).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), zones, "{name}");
        assert!(counts.values().all(|count| count * zones == 30), "{name}");
    }
}

#[test]
fn only_preemptors_have_a_priority() {
    let workload = Workload::named("PreemptionAsync").unwrap();
    let preemptor = workload.churn_pod.unwrap()();
    let [(_, class)] = &workload.fixtures(workload.size)[..] else { panic!("one fixture") };
    assert_eq!(preemptor["spec"]["priorityClassName"], class["metadata"]["name"]);
    for pod in [workload.measured_pod(0), workload.init_pod(workload.size, 0).1] {
        assert_eq!(pod["spec"]["priorityClassName"], Value::Null);
    }
}

#[test]
fn a_size_that_does_not_fit_is_refused_before_the_run() {
    let size = Size { nodes: 10, init_pods: 5, pods: 6 };
    let error =
        Workload::named("SchedulingPodAntiAffinity").unwrap().check(size, Release::V1_36).unwrap_err();
    assert_eq!(
        error.to_string(),
        "SchedulingPodAntiAffinity: 10 nodes have room for 10 init pods and measured pods, not 11"
    );
    let error =
        Workload::named("PreemptionAsync").unwrap().check(Size { init_pods: 41, ..size }, Release::V1_36);
    assert_eq!(
        error.unwrap_err().to_string(),
        "PreemptionAsync: 10 nodes have room for 40 init pods, not 41"
    );
}

#[test]
fn overrides_replace_the_scaled_size_of_a_workload() {
    let workload = Workload::named("TopologySpreading").unwrap();
    assert_eq!(DEFAULT.of(workload), workload.size);
    let overrides = SizeOverrides { pods: Some(7), scale: 0.1, ..DEFAULT };
    assert_eq!(overrides.of(workload), Size { nodes: 500, init_pods: 500, pods: 7 });
}

#[test]
fn anti_affine_deployments_alternate() {
    let workload = Workload::named("DeploymentsApart").unwrap();
    let [first, second, first_again] = [0, 1, GROUPS].map(|index| workload.measured_pod(index));
    let labels = |pod: &Value| pod["metadata"]["labels"].clone();
    assert_ne!(labels(&first), labels(&second));
    assert_eq!(labels(&first), labels(&first_again));
    let terms =
        &first["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["labelSelector"]["matchLabels"], labels(&first));
}

fn storage(workload: &Workload, size: Size) -> Vec<(String, Value)> {
    let of_nodes = (0..size.nodes).flat_map(|index| workload.equipment_of_node(index));
    let of_init_pods = (0..size.init_pods).flat_map(|index| workload.storage_of_init_pod(size, index));
    let of_measured = (0..size.pods).flat_map(|index| workload.storage_of_measured_pod(index));
    of_nodes.chain(of_init_pods).chain(of_measured).collect()
}

#[test]
fn every_pod_of_a_workload_with_bound_volumes_has_a_claim_and_a_volume_bound_to_each_other() {
    for name in ["SchedulingInTreePVs", "SchedulingMigratedInTreePVs", "SchedulingCSIPVs"] {
        let workload = Workload::named(name).unwrap();
        let size = Size { nodes: 3, init_pods: 4, pods: 5 };
        let storage = storage(workload, size);
        let object = |kind: &str, name: &Value| {
            let of_kind = |(collection, object): &&(String, Value)| {
                collection.ends_with(kind) && object["metadata"]["name"] == *name
            };
            storage.iter().find(of_kind).unwrap_or_else(|| panic!("no {kind} {name}"))
        };
        let measured = (0..size.pods).map(|index| (MEASURED.to_owned(), workload.measured_pod(index)));
        let mut used = BTreeSet::new();
        for (namespace, pod) in init_pods(workload, size).into_iter().chain(measured) {
            let name = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
            let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
            let (collection, claim) = object(&claims, name);
            assert_eq!(*collection, claims);
            let (_, volume) = object("persistentvolumes", &claim["spec"]["volumeName"]);
            assert_eq!((&volume["spec"]["claimRef"]["name"]), name);
            assert_eq!(volume["spec"]["claimRef"]["namespace"], namespace.as_str());
            assert!(used.insert(volume["metadata"]["name"].to_string()), "{name} shares its volume");
        }
        let csi_nodes = storage.iter().filter(|(collection, _)| collection.ends_with("csinodes")).count();
        assert_eq!(csi_nodes, if name == "SchedulingInTreePVs" { 0 } else { size.nodes }, "{name}");
    }
}

#[test]
fn there_is_a_local_volume_on_every_node_for_claims_that_wait() {
    let workload = Workload::named("LocalVolumes").unwrap();
    let size = Size { nodes: 3, init_pods: 0, pods: 2 };
    let [(_, class)] = &workload.fixtures(workload.size)[..] else { panic!("one fixture") };
    let class = &class["metadata"]["name"];
    let storage = storage(workload, size);
    assert_eq!(storage.len(), size.nodes + size.pods);
    assert!(storage.iter().all(|(_, object)| object["spec"]["storageClassName"] == *class));
    let (_, volume) = &workload.equipment_of_node(1)[0];
    assert_eq!(volume["metadata"]["name"], "local-node-1");
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["node-1"]));
}

#[test]
fn allocated_claims_have_devices_from_the_slice_of_their_node() {
    let workload = Workload::named("DeviceTaintToleration").unwrap();
    let equipment = workload.equipment_of_node(3);
    let [(_, slice), claims @ ..] = &equipment[..] else { panic!("no slice") };
    let devices = slice["spec"]["devices"].as_array().unwrap();
    let devices = names_of_devices(devices);
    assert_eq!(slice["spec"]["nodeName"], "node-3");
    assert_eq!(devices.len() - claims.len(), devices::FREE_PER_NODE);
    for (_, claim) in claims {
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        assert_eq!(result["pool"], slice["spec"]["pool"]["name"]);
        assert!(devices.contains(result["device"].as_str().unwrap()), "{result}");
        assert_eq!(result["request"], claim["spec"]["devices"]["requests"][0]["name"]);
    }
}

#[test]
fn the_container_of_a_pod_uses_all_claims_of_the_pod() {
    let workload = Workload::named("SchedulingWithMultipleResourceClaims").unwrap();
    let pod = workload.measured_pod(0);
    let names = |claims: &Value| -> Vec<Value> {
        claims.as_array().unwrap().iter().map(|claim| claim["name"].clone()).collect()
    };
    let claims = names(&pod["spec"]["resourceClaims"]);
    assert_eq!(claims.len(), 4);
    assert_eq!(claims, names(&pod["spec"]["containers"][0]["resources"]["claims"]));
}

#[test]
fn every_pod_of_a_gang_workload_is_in_a_gang_that_exists_and_becomes_complete() {
    let workload = Workload::named("GangsOf64").unwrap();
    let size = SizeOverrides { pods: Some(65), ..DEFAULT }.of(workload);
    assert_eq!(size.pods, 128);
    let mut missing: BTreeMap<String, u64> = BTreeMap::new();
    for (_, group) in workload.fixtures(size) {
        let members = group["spec"]["schedulingPolicy"]["gang"]["minCount"].as_u64().unwrap();
        missing.insert(group["metadata"]["name"].as_str().unwrap().to_owned(), members);
    }
    for index in 0..size.pods {
        let pod = workload.measured_pod(index);
        let group = pod["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap();
        *missing.get_mut(group).unwrap() -= 1;
    }
    assert!(missing.len() == 2 && missing.values().all(|missing| *missing == 0), "{missing:?}");
}

#[test]
fn groups_are_refused_with_a_release_that_has_none() {
    let workload = Workload::named("GangScheduling").unwrap();
    let error = workload.check(workload.size, Release::V1_36).unwrap_err();
    assert_eq!(error.to_string(), "GangScheduling: Kubernetes 1.36 has no groups of pods; use --kube 1.37");
}

fn names_of_devices(devices: &[Value]) -> BTreeSet<&str> {
    devices.iter().filter_map(|device| device["name"].as_str()).collect()
}

#[test]
fn templates_differ_in_their_requests_alone() {
    let workload = Workload::named("ManyTemplates").unwrap();
    let pods = (0..2 * GROUPS).map(|index| workload.measured_pod(index)["spec"].to_string());
    let templates: BTreeSet<String> = pods.collect();
    assert_eq!(templates.len(), GROUPS);
    let first = workload.measured_pod(0)["spec"]["containers"][0]["resources"]["requests"].clone();
    assert_eq!(first, json!({"cpu": "100m", "memory": "500Mi"}));
}

#[test]
fn every_profile_has_a_plugin_that_exists() {
    for workload in &PLUGIN_WORKLOADS {
        let profile = workload.profile("http://127.0.0.1:1").unwrap();
        let plugin = workload.name.split('-').next().unwrap();
        assert!(profile["plugins"].to_string().contains(&format!("\"{plugin}\"")), "{plugin}: {profile}");
        let mut choices = Choices::default();
        scheduler_plugins::register(&mut choices.plugins);
        let config = crate::bench::configuration(Some(profile)).to_string();
        Setup::read(Some(("", &config)), &choices).unwrap_or_else(|error| panic!("{plugin}: {error}"));
    }
}

#[test]
fn every_custom_object_is_of_a_defined_resource_in_a_namespace_that_exists() {
    for workload in &PLUGIN_WORKLOADS {
        let size = SizeOverrides { scale: 0.02, ..DEFAULT }.of(workload);
        let definitions = workload.definitions().unwrap();
        let is_defined = |collection: &str| {
            definitions.iter().any(|definition| {
                let spec = &definition["spec"];
                let group = format!("/apis/{}/", spec["group"].as_str().unwrap());
                let plural = format!("/{}", spec["names"]["plural"].as_str().unwrap());
                collection.starts_with(&group) && collection.ends_with(&plural)
            })
        };
        let namespaces = workload.namespaces(size);
        let namespaces: BTreeSet<&str> = names(&namespaces).into_iter().chain(["default"]).collect();
        let objects = workload.fixtures(size).into_iter().chain(workload.equipment_of_node(0));
        for (collection, _) in objects.filter(|(collection, _)| !collection.contains(".k8s.io/v1/")) {
            assert!(is_defined(&collection), "{}: {collection}", workload.name);
            let namespace =
                collection.split_once("/namespaces/").and_then(|(_, rest)| rest.split('/').next());
            assert!(
                namespace.is_none_or(|namespace| namespaces.contains(namespace)),
                "{}: {collection}",
                workload.name
            );
        }
    }
}
