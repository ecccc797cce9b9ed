//! Pods with resource claims: kube-scheduler and Harbormaster choose the same devices, write the same claims and give
//! the same reasons.

use std::collections::BTreeMap;

use harbormaster_oracle::{
    components::ApiClient,
    scheduler::{Contender, Scheduler, StartOptions},
};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, list, name_of, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, default_config, node, pod},
    process::Harbormaster,
    server::{Server, on_both_servers},
};

on_both_servers! {
    both_schedulers_give_the_same_devices_and_reasons,
    a_claim_that_no_node_can_use_gets_other_devices,
    claims_of_templates_are_created_allocated_and_given_back,
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

/// Returns a claim for a number of devices of a class.
fn claim(name: &str, class: &str, count: u32) -> Value {
    let exactly = json!({"deviceClassName": class, "count": count});
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

/// Returns a pod that uses a claim.
fn user(name: &str, claim: &str) -> Value {
    let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod(name, SCHEDULER, json!({"cpu": "1"}), json!({"resourceClaims": claims}))
}

/// Creates two nodes with GPUs, and classes for all GPUs, for those of one model, and one with a wrong selector.
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

/// Claims by name: finalizers and status, without what differs between clusters.
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

/// Creates pods and returns what a scheduler decides: their nodes or the reasons why they have none, and the claims.
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

fn both_schedulers_give_the_same_devices_and_reasons(server: Server) {
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
    let ours = result(cluster.client());
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
}

/// Starts a cluster with the world and Harbormaster.
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

fn claims_of_templates_are_created_allocated_and_given_back(server: Server) {
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
        devices.collect::<std::collections::BTreeSet<_>>()
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
