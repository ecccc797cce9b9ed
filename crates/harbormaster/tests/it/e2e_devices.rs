//! Pods with resource claims: kube-scheduler and Harbormaster choose the same devices, write the same claims and give
//! the same reasons.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_oracle::{
    components::ApiClient,
    scheduler::{Contender, Scheduler, StartOptions},
};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, delete_pod, events, eventually, list, name_of, wait_until_bound, wait_until_explained,
    },
    objects::{EVENTS, NODES, PODS, default_config, node, pod},
    process::Harbormaster,
    server::{Server, on_both_servers},
};

on_both_servers! {
    both_schedulers_give_the_same_devices_and_reasons,
    both_schedulers_serve_extended_resources_alike,
    both_schedulers_wait_for_binding_conditions_alike,
    the_claim_for_extended_resources_is_deleted_with_its_pod,
    a_claim_that_no_node_can_use_gets_other_devices,
    claims_from_templates_are_created_and_their_devices_are_freed_with_their_pods,
}

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const DRIVER: &str = "gpu.example.com";
const SCHEDULER: &str = "default-scheduler";

fn class(name: &str, expression: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// Returns a slice with the GPUs of a node, given by name and model.
fn slice(node: &str, gpus: &[(&str, &str)]) -> Value {
    let device = |(name, model): &(&str, &str)| {
        let memory = json!({"memory": {"value": "80Gi"}});
        json!({"name": name, "attributes": {"model": {"string": model}}, "capacity": memory})
    };
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    let devices: Vec<_> = gpus.iter().map(device).collect();
    json!({
        "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    })
}

/// Returns a claim for a number of devices of a device class.
fn claim(name: &str, class: &str, count: u32) -> Value {
    let exactly = json!({"deviceClassName": class, "count": count});
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

/// Returns a pod that uses a claim.
fn user(name: &str, claim: &str) -> Value {
    let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod(name, SCHEDULER, json!({"cpu": "1"}), json!({"resourceClaims": claims}))
}

/// Creates two nodes with GPUs, and three device classes: one for all GPUs, one for the GPUs of one model, and one with
/// a failing selector.
fn create_world(client: &ApiClient) {
    let create = |path: &str, object: Value| drop(client.post(path, &object).expect("it is created"));
    // The nodes differ in size, so that no choice between them is arbitrary.
    for (name, cpu, gpus) in
        [("n1", "8", vec![("gpu-0", "a1"), ("gpu-1", "b2")]), ("n2", "32", vec![("gpu-0", "b2")])]
    {
        create(NODES, node(name, json!({}), cpu, "8Gi", 100));
        create(SLICES, slice(name, &gpus));
    }
    create(CLASSES, class("gpu", &format!("device.driver == '{DRIVER}'")));
    let of_model = format!("device.attributes['{DRIVER}'].model == 'b2'");
    create(CLASSES, class("b2", &of_model));
    create(CLASSES, class("broken", &format!("device.attributes['{DRIVER}'].missing == 'x'")));
}

/// Returns the finalizers and status of each claim, keyed by name, without the fields that differ between clusters.
fn claims(client: &ApiClient) -> BTreeMap<String, Value> {
    let comparable = |claim: &Value| {
        let mut claim = claim.clone();
        if let Some(allocation) = claim["status"]["allocation"].as_object_mut() {
            allocation.remove("allocationTimestamp").expect("an allocation has its time");
        }
        for consumer in claim["status"]["reservedFor"].as_array_mut().into_iter().flatten() {
            consumer["uid"] = Value::Null;
        }
        json!({"finalizers": claim["metadata"]["finalizers"], "status": claim["status"]})
    };
    list(client, CLAIMS).iter().map(|claim| (name_of(claim).to_owned(), comparable(claim))).collect()
}

/// Creates pods and returns the scheduler's decisions: the pods' nodes or the reasons why they have none, and the
/// claims.
fn result(client: &ApiClient) -> (Vec<String>, BTreeMap<String, Value>) {
    create_world(client);
    let mut said = Vec::new();
    for (name, class, count) in [
        ("one", "b2", 1),
        ("two", "gpu", 1),
        ("three", "gpu", 1),
        ("four", "gpu", 1),
        ("odd", "broken", 1),
        ("none", "absent", 1),
    ] {
        client.post(CLAIMS, &claim(name, class, count)).expect("it is created");
        client.post(PODS, &user(name, name)).expect("it is created");
        said.push(match name {
            "one" | "two" | "three" => format!("{name} on {}", wait_until_bound(client, name)),
            _ => format!("{name}: {:?}", wait_until_explained(client, name)),
        });
    }
    client.post(PODS, &user("sharing", "one")).expect("it is created");
    said.push(format!("sharing on {}", wait_until_bound(client, "sharing")));
    (said, claims(client))
}

/// Calls `result` in a cluster with kube-scheduler and in another cluster with Harbormaster, and returns both results.
fn of_both<T>(server: Server, result: fn(&ApiClient) -> T) -> (T, T) {
    let theirs = {
        let cluster = server.own();
        let config = default_config().to_string();
        let options = StartOptions { config, parity: true, ..StartOptions::default() };
        let _scheduler =
            Scheduler::start(&Contender::KubeScheduler, &cluster, &options).expect("kube-scheduler starts");
        result(cluster.client())
    };
    let cluster = server.own();
    let config = cluster.write_scheduler_config(&default_config().to_string()).expect("it is written");
    let log = cluster.directory().join("harbormaster.log");
    let _harbormaster =
        Harbormaster::start(&[format!("--config={}", config.display()), "--parity".into()], log);
    (theirs, result(cluster.client()))
}

fn both_schedulers_give_the_same_devices_and_reasons(server: Server) {
    let (theirs, ours) = of_both(server, result);
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
}

/// Extended resource of the device class `provider`.
const RESOURCE: &str = "example.com/gpu";

/// Creates a device class that provides [`RESOURCE`].
fn create_provider(client: &ApiClient) {
    let mut provider = class("provider", &format!("device.driver == '{DRIVER}'"));
    provider["spec"]["extendedResourceName"] = RESOURCE.into();
    client.post(CLASSES, &provider).expect("it is created");
}

/// Returns a pod whose containers request these amounts of an extended resource: first those of the init containers,
/// then those of the containers.
fn wanting(name: &str, resource: &str, init: &[u32], main: &[u32]) -> Value {
    let container = |kind: &str, at: usize, amount: u32| {
        let amounts = json!({resource: amount.to_string()});
        let resources = json!({"requests": amounts, "limits": amounts});
        json!({"name": format!("{kind}-{at}"), "image": "i", "resources": resources})
    };
    let all = |kind: &str, amounts: &[u32]| {
        amounts.iter().enumerate().map(|(at, amount)| container(kind, at, *amount)).collect::<Vec<_>>()
    };
    let more = json!({"initContainers": all("init", init), "containers": all("main", main)});
    pod(name, SCHEDULER, json!({}), more)
}

/// Creates pods with extended resources and returns the scheduler's decisions: the pods' nodes or the reasons why they
/// have none, and the statuses and claims that the scheduler writes.
fn extended(client: &ApiClient) -> (Vec<String>, Vec<Value>) {
    create_world(client);
    create_provider(client);
    let mut plugged = node("n3", json!({}), "4", "8Gi", 100);
    plugged["status"]["allocatable"][RESOURCE] = "4".into();
    plugged["status"]["capacity"][RESOURCE] = "4".into();
    client.post(NODES, &plugged).expect("it is created");
    let own_name = "deviceclass.resource.kubernetes.io/provider";
    let (mut said, mut written) = (Vec::new(), Vec::new());
    // Each pod can get at most one node, even if the scheduler has not seen all objects yet at its first attempt.
    for (name, resource, init, main, node) in [
        ("init", RESOURCE, [2].as_slice(), [1].as_slice(), Some("n1")),
        ("plugged", RESOURCE, &[], &[3], Some("n3")),
        ("by-class", own_name, &[], &[1], Some("n2")),
        ("too-much", RESOURCE, &[], &[2], None),
        ("unknown", "example.com/unknown", &[], &[1], None),
        ("one", RESOURCE, &[], &[1], Some("n3")),
    ] {
        let mut pod = wanting(name, resource, init, main);
        if let Some(node) = node {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let terms = json!([{"matchFields": [field]}]);
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            pod["spec"]["affinity"] = json!({ "nodeAffinity": required });
        }
        client.post(PODS, &pod).expect("it is created");
        if node.is_none() {
            said.push(format!("{name}: {:?}", wait_until_explained(client, name)));
            continue;
        }
        said.push(format!("{name} on {}", wait_until_bound(client, name)));
        let pod = client.get(&format!("{PODS}/{name}")).expect("it exists");
        let mut status = pod["status"]["extendedResourceClaimStatus"].clone();
        if let Some(claim) = status["resourceClaimName"].as_str().map(str::to_owned) {
            assert!(claim.starts_with(&format!("{name}-extended-resources-")), "{claim}");
            status["resourceClaimName"] = Value::Null;
        }
        written.push(json!({ name: status }));
    }
    let by_prefix = |claim: &Value| claim["metadata"]["generateName"].as_str().map(str::to_owned);
    let mut claims = list(client, CLAIMS);
    claims.sort_by_key(by_prefix);
    written.extend(claims.into_iter().map(|mut claim| {
        if let Some(allocation) = claim["status"]["allocation"].as_object_mut() {
            allocation.remove("allocationTimestamp");
        }
        let metadata = claim["metadata"].take();
        let mut owner = metadata["ownerReferences"][0].clone();
        (owner["uid"], claim["status"]["reservedFor"][0]["uid"]) = (Value::Null, Value::Null);
        let parts = ["generateName", "annotations", "finalizers"].map(|part| metadata[part].clone());
        json!({"metadata": parts, "owner": owner, "spec": claim["spec"], "status": claim["status"]})
    }));
    (said, written)
}

fn both_schedulers_serve_extended_resources_alike(server: Server) {
    let (theirs, ours) = of_both(server, extended);
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
}

/// Waits until a claim has a device about which nothing has been reported, and reports a condition of the device.
fn report(client: &ApiClient, claim: &str, condition: &str) {
    let path = format!("{CLAIMS}/{claim}");
    let result = eventually(&format!("{claim} has a device"), PATIENCE, || {
        let status = client.get(&path).expect("it exists")["status"].take();
        let is_reserved = status["reservedFor"].is_array() && status["devices"].is_null();
        let result = &status["allocation"]["devices"]["results"][0];
        (is_reserved && result.is_object()).then(|| result.clone())
    });
    let condition = json!({
        "type": condition, "status": "True", "reason": "R", "message": "it \"is\"",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let [driver, pool, device] = ["driver", "pool", "device"].map(|field| result[field].clone());
    let device = json!({"driver": driver, "pool": pool, "device": device, "conditions": [condition]});
    let status = json!({"status": {"devices": [device]}});
    client.merge_patch(&format!("{path}/status"), &status).expect("it is written");
}

/// Creates pods whose devices have binding conditions, and returns the events about the pods, without repetitions.
fn awaited(client: &ApiClient) -> BTreeSet<[String; 5]> {
    client.post(NODES, &node("n1", json!({}), "8", "8Gi", 100)).expect("it is created");
    let mut slice = slice("n1", &[("gpu-0", "a1"), ("gpu-1", "a1")]);
    for device in slice["spec"]["devices"].as_array_mut().expect("a slice has devices") {
        device["bindingConditions"] = json!(["Ready"]);
        device["bindingFailureConditions"] = json!(["Broken"]);
        device["bindsToNode"] = json!(true);
    }
    client.post(SLICES, &slice).expect("it is created");
    client.post(CLASSES, &class("gpu", &format!("device.driver == '{DRIVER}'"))).expect("it is created");
    for (name, conditions) in [("ready", ["Ready"].as_slice()), ("broken", &["Broken", "Ready"])] {
        client.post(CLAIMS, &claim(name, "gpu", 1)).expect("it is created");
        client.post(PODS, &user(name, name)).expect("it is created");
        conditions.iter().for_each(|condition| report(client, name, condition));
        wait_until_bound(client, name);
        // Events are written asynchronously.
        eventually("the last event is written", PATIENCE, || events(client, name, "Scheduled").pop());
    }
    let all = list(client, EVENTS);
    let fields = ["type", "reason", "action", "note", "reportingController"];
    let of = |event: &Value| fields.map(|field| event[field].as_str().unwrap_or_default().to_owned());
    // The API server writes events about its services.
    all.iter().filter(|event| event["regarding"]["kind"] == "Pod").map(of).collect()
}

fn both_schedulers_wait_for_binding_conditions_alike(server: Server) {
    let (theirs, ours) = of_both(server, awaited);
    assert_eq!(ours, theirs);
    assert!(ours.iter().any(|event| event[1] == "BindingConditionsPending"), "{ours:?}");
}

fn the_claim_for_extended_resources_is_deleted_with_its_pod(server: Server) {
    let (cluster, _harbormaster) = started(server);
    let client = cluster.client();
    create_provider(client);
    for name in ["a", "b"] {
        client.post(PODS, &wanting(name, RESOURCE, &[], &[1])).expect("it is created");
        wait_until_bound(client, name);
    }
    client.post(PODS, &wanting("c", RESOURCE, &[], &[2])).expect("it is created");
    wait_until_explained(client, "c");
    let count = || list(client, CLAIMS).len();
    assert_eq!(count(), 2);
    delete_pod(client, "a");
    delete_pod(client, "b");
    wait_until_bound(client, "c");
    eventually("the claims of the deleted pods are gone", PATIENCE, || (count() == 1).then_some(()));
}

/// Starts a cluster with the objects of [`create_world`], and Harbormaster.
fn started(server: Server) -> (crate::e2e::server::Cluster, Harbormaster) {
    let cluster = server.own_with_controllers();
    create_world(cluster.client());
    let config = cluster.write_scheduler_config(&default_config().to_string()).expect("it is written");
    let log = cluster.directory().join("harbormaster.log");
    let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
    (cluster, harbormaster)
}

fn a_claim_that_no_node_can_use_gets_other_devices(server: Server) {
    let (cluster, _harbormaster) = started(server);
    let client = cluster.client();
    // The claim's devices are on a node that does not exist.
    client.post(CLAIMS, &claim("lost", "gpu", 1)).expect("it is created");
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["gone"]});
    let results = json!([{"request": "r", "driver": DRIVER, "pool": "gone", "device": "gpu-9"}]);
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    let status =
        json!({"status": {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}});
    client.merge_patch(&format!("{CLAIMS}/lost/status"), &status).expect("it is written");
    client.post(PODS, &user("finder", "lost")).expect("it is created");
    let node = wait_until_bound(client, "finder");
    let claim = client.get(&format!("{CLAIMS}/lost")).expect("it exists");
    let result = &claim["status"]["allocation"]["devices"]["results"][0];
    assert_eq!(result["pool"], node, "{claim}");
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "finder");
}

fn claims_from_templates_are_created_and_their_devices_are_freed_with_their_pods(server: Server) {
    let (cluster, _harbormaster) = started(server);
    let client = cluster.client();
    let exactly = json!({"deviceClassName": "gpu"});
    let spec = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    client.post(TEMPLATES, &json!({"metadata": {"name": "gpu"}, "spec": spec})).expect("it is created");
    let from_template = |name: &str| {
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        pod(name, SCHEDULER, json!({}), json!({"resourceClaims": claims}))
    };
    for name in ["a", "b", "c"] {
        client.post(PODS, &from_template(name)).expect("it is created");
        wait_until_bound(client, name);
    }
    let taken = || {
        let devices = list(client, CLAIMS).into_iter().filter_map(|claim| {
            let result = claim["status"]["allocation"]["devices"]["results"][0].clone();
            Some(format!("{}/{}", result["pool"].as_str()?, result["device"].as_str()?))
        });
        devices.collect::<BTreeSet<_>>()
    };
    assert_eq!(taken().len(), 3, "every pod has its own device");
    client.post(PODS, &from_template("d")).expect("it is created");
    wait_until_explained(client, "d");
    delete_pod(client, "a");
    eventually("the device of the deleted pod is used", PATIENCE, || {
        let pod = client.get(&format!("{PODS}/d")).ok()?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    });
    assert_eq!(taken().len(), 3);
}
