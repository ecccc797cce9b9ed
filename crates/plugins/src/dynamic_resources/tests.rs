//! Shared helpers: short forms for claims, classes and slices, and a cluster with them.

mod binding;
mod extended;
mod filter;
mod gates;
mod groups;
mod hints;

use harbormaster_api::{Release, features::Features, pod::PodClaim};
use harbormaster_testkit::{NodeBuilder, PodBuilder, Trial, cluster, node, pod, set_custom};
use json_patch::merge;
use serde_json::{Value, json};

use super::*;

const DRIVER: &str = "gpu.example.com";

fn plugin() -> DynamicResources {
    plugin_of(Release::V1_36)
}

fn plugin_of(release: Release) -> DynamicResources {
    let args = DynamicResourcesArgs::default();
    DynamicResources::build(args, &BuildCycle { features: Features::of(release) }).unwrap()
}

fn trial() -> Trial {
    Trial::of(plugin())
}

/// A cluster with the classes `gpu`, which includes all devices of the driver, and `any`, which includes all devices.
fn world(nodes: impl IntoIterator<Item = NodeBuilder>) -> Cluster {
    let mut cluster = cluster(nodes, []);
    set_custom::<ResourceClaim>(&mut cluster, []);
    set_custom::<ResourceSlice>(&mut cluster, []);
    set_custom::<DeviceTaintRule>(&mut cluster, []);
    let of_driver = format!("device.driver == '{DRIVER}'");
    set_custom::<DeviceClass>(&mut cluster, [class("gpu", &[&of_driver]), class("any", &[])]);
    cluster
}

fn class(name: &str, selectors: &[&str]) -> Value {
    let selectors: Vec<_> = selectors.iter().map(|text| json!({"cel": {"expression": text}})).collect();
    json!({"metadata": {"name": name}, "spec": {"selectors": selectors}})
}

/// A slice of the driver with the devices of one node. The slice is the whole pool.
fn slice(node: &str, devices: &[Value]) -> Value {
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({
        "metadata": {"name": format!("{node}-slice")},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    })
}

fn device(name: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": "a1"}}})
}

/// A claim in namespace `default` with the given requests.
fn claim(name: &str, requests: &[Value]) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"devices": {"requests": requests}},
    })
}

/// A request for a number of devices of class `gpu`.
fn request(name: &str, count: i64) -> Value {
    exactly(name, &json!({"count": count}))
}

/// A request for devices of class `gpu`, with `change` merged in.
fn exactly(name: &str, change: &Value) -> Value {
    let mut demand = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    merge(&mut demand, change);
    json!({"name": name, "exactly": demand})
}

/// A request with alternatives, each a number of devices of class `gpu`.
fn first_available(name: &str, counts: &[i64]) -> Value {
    let demand = |(at, count): (usize, &i64)| {
        json!({
            "name": format!("option-{at}"), "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
        })
    };
    json!({"name": name, "firstAvailable": counts.iter().enumerate().map(demand).collect::<Vec<_>>()})
}

/// The claim with the given devices allocated on a node, reserved for the pods with these UIDs.
fn allocated(mut claim: Value, node: &str, devices: &[&str], pods: &[&str]) -> Value {
    let results: Vec<_> = devices
        .iter()
        .map(|device| json!({"request": "r", "driver": DRIVER, "pool": node, "device": device}))
        .collect();
    let consumers: Vec<_> =
        pods.iter().map(|uid| json!({"resource": "pods", "name": uid, "uid": uid})).collect();
    let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    claim["status"] = json!({
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [name]}]},
        },
        "reservedFor": consumers,
    });
    claim
}

/// `status.devices` of a claim whose device `a` on `n1` has this condition.
fn reported(condition: &str) -> Value {
    let condition = json!({"type": condition, "status": "True", "reason": "R", "message": "M"});
    json!([{"driver": DRIVER, "pool": "n1", "device": "a", "conditions": [condition]}])
}

/// A pod that names these claims.
fn user(claims: &[&str]) -> PodBuilder {
    let entry = |name: &&str| PodClaim { name: (*name).into(), claim: Some((*name).into()), template: None };
    let entries: Vec<_> = claims.iter().map(entry).collect();
    pod("p").uid("p").spec(|spec| spec.resource_claims = entries)
}

/// Two nodes, `n1` with two devices and `n2` with one, and the given claims.
fn two_nodes(claims: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = world([node("n1"), node("n2")]);
    let slices = [slice("n1", &[device("a"), device("b")]), slice("n2", &[device("c")])];
    set_custom::<ResourceSlice>(&mut cluster, slices);
    set_custom::<ResourceClaim>(&mut cluster, claims);
    cluster
}

/// The message with which the node rejects the pod; empty if the pod fits. Errors are prefixed with `E:`.
fn answer(cluster: &Cluster, pod: PodBuilder, node: &str) -> String {
    answer_of(&plugin(), cluster, pod, node)
}

/// Like [`answer`], for another plugin.
fn answer_of(plugin: &DynamicResources, cluster: &Cluster, pod: PodBuilder, node: &str) -> String {
    let pod = pod.info();
    let indexes = Trial::of(plugin.clone()).indexes(cluster, &pod);
    let cx = Cycle::with_indexes(cluster, &indexes, &pod);
    let judge = || match plugin.pre_filter(&cx)? {
        PreFiltered::Skip => Ok(()),
        PreFiltered::Continue { state, .. } => {
            plugin.filter(&cx, &state, cluster.node(cluster.find(node).unwrap()))
        }
    };
    match judge() {
        Ok(()) => String::new(),
        Err(Stop::Reject(reject)) => {
            assert_eq!(reject.fix, Fix::NothingHelps);
            reject.message()
        }
        Err(Stop::Error(error)) => format!("E:{error}"),
    }
}

/// The devices that the pod's claims get on the node, as `request=device`.
fn devices(cluster: &mut Cluster, pod: PodBuilder, node: &str) -> Vec<String> {
    let placement = trial().reserve(cluster, &pod.info(), node).unwrap();
    let reserved = placement.reservation::<ReservedClaims>().unwrap();
    let allocations = reserved.iter().filter_map(|claim| claim.allocation.as_ref());
    let results = allocations.flat_map(|allocation| &allocation.devices.results);
    results.map(|result| format!("{}={}", result.request, result.device)).collect()
}

const NONE: &str = "cannot allocate all claims";
const UNAVAILABLE: &str = "resourceclaim not available on the node";
