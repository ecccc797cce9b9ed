//! Devices that the search chooses, and rules that differ between versions of Kubernetes.

use harbormaster_framework::index::{ClusterView, IndexKind, Indexes};
use harbormaster_testkit::{cluster, node, set_custom};
use serde_json::{Value, json};

use super::super::*;
use crate::devices::books::DeviceQuery;

const DRIVER: &str = "x.example.com";

/// The devices that claims with the given specs get on node `n`, or the error.
fn answer(slices: &[Value], specs: &[Value]) -> String {
    answer_within(slices, specs, 1_000_000)
}

fn answer_within(slices: &[Value], specs: &[Value], max_steps: u64) -> String {
    let mut cluster = cluster([node("n")], []);
    let named = |(at, spec): (usize, &Value)| {
        let name = format!("c{at}");
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": spec}})
    };
    let claims: Vec<_> = specs.iter().enumerate().map(named).collect();
    set_custom::<ResourceClaim>(&mut cluster, claims);
    set_custom::<ResourceSlice>(&mut cluster, slices.iter().cloned());
    set_custom::<DeviceClass>(&mut cluster, [json!({"metadata": {"name": "any"}})]);
    let mut indexes = Indexes::default();
    let view = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
    indexes.add(IndexKind::of::<Devices>(), view).unwrap();
    let claims: Vec<_> = cluster.watched::<ResourceClaim>().all().collect();
    let gates = DeviceGates {
        admin_access: true,
        prioritized_list: true,
        partitionable_devices: true,
        device_taints: true,
        binding_conditions: true,
        consumable_capacity: true,
        ..DeviceGates::default()
    };
    let classes = cluster.watched::<DeviceClass>();
    let query = DeviceQuery { claims: &claims, classes, gates, max_steps };
    match indexes.get::<Devices>().unwrap().allocate(&query, cluster.node(cluster.find("n").unwrap())) {
        Err(error) => error.to_string(),
        Ok(allocations) => {
            let names = |allocation: &Allocation| {
                let results = allocation.devices.results.iter();
                results.map(|result| result.device.to_string()).collect::<Vec<_>>().join(" ")
            };
            allocations.iter().map(names).collect::<Vec<_>>().join(" | ")
        }
    }
}

/// A pool of one slice that every node can reach.
fn pool(driver: &str, name: &str, slices: u64, spec: &Value) -> Value {
    let mut slice = json!({
        "driver": driver, "allNodes": true,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": slices},
    });
    slice.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": format!("{driver}-{name}-{}", spec.to_string().len())}, "spec": slice})
}

fn devices(devices: &[Value]) -> Value {
    pool(DRIVER, "p", 1, &json!({"devices": devices}))
}

fn with_model(name: &str, model: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": model}}})
}

fn request(name: &str, change: &Value) -> Value {
    let mut exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1});
    exactly.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"name": name, "exactly": exactly})
}

fn requests(requests: &[Value]) -> Value {
    json!({"requests": requests})
}

fn some(count: u64) -> Value {
    requests(&[request("r", &json!({"count": count}))])
}

const NONE: &str = "cannot allocate all claims";

#[test]
fn devices_are_chosen_in_the_order_of_pools_slices_and_devices() {
    let of = |driver: &str, name: &str, device: &str| {
        pool(driver, name, 1, &json!({"devices": [{"name": device}]}))
    };
    let waiting = json!({"devices": [{"name": "waits", "bindingConditions": ["ready"]}]});
    let slices = [
        of("y.example.com", "a", "third"),
        of(DRIVER, "b", "second"),
        of(DRIVER, "a", "first"),
        pool("a.example.com", "a", 1, &waiting),
    ];
    assert_eq!(answer(&slices, &[some(4)]), "first second third waits", "binding conditions come last");
}

#[test]
fn an_earlier_claim_gives_up_a_device_that_only_a_later_claim_can_use() {
    let slices = [devices(&[with_model("a", "big"), with_model("b", "small")])];
    let big = json!([{"cel": {"expression": "device.attributes['x.example.com'].model == 'big'"}}]);
    let only_big = requests(&[request("r", &json!({"selectors": big}))]);
    assert_eq!(answer(&slices, &[some(1), only_big.clone()]), "b | a");
    assert_eq!(answer(&slices, &[only_big.clone(), only_big]), NONE);
}

#[test]
fn distinct_values_are_compared_with_the_latest_device_of_each_request() {
    let distinct = |count: u64| {
        let mut claim = some(count);
        claim["constraints"] = json!([{"distinctAttribute": "x.example.com/model"}]);
        claim
    };
    let models = ["a", "b", "a"].iter().enumerate();
    let slices =
        [devices(&models.map(|(at, model)| with_model(&format!("d{at}"), model)).collect::<Vec<_>>())];
    assert_eq!(answer(&slices, &[distinct(3)]), "d0 d1 d2", "d2 has the value of d0");
    let slices = [devices(&[with_model("d0", "a"), with_model("d1", "a")])];
    assert_eq!(answer(&slices, &[distinct(2)]), NONE);
}

#[test]
fn a_device_with_admin_access_is_taken_for_the_rest_of_the_search() {
    let slices = [devices(&[json!({"name": "d"})])];
    let admin = requests(&[request("r", &json!({"adminAccess": true}))]);
    assert_eq!(answer(&slices, &[admin.clone(), admin.clone()]), "d | d");
    assert_eq!(answer(&slices, &[some(1), admin.clone()]), "d | d");
    assert_eq!(answer(&slices, &[admin.clone(), some(1)]), NONE);
    let twice =
        requests(&[request("a", &json!({"adminAccess": true})), request("b", &json!({"adminAccess": true}))]);
    assert_eq!(answer(&slices, &[twice]), NONE, "not twice for one claim");
}

/// A pool whose devices each consume one of `slots`.
fn partitions(driver: &str, slots: u64, devices: &[Value]) -> [Value; 2] {
    let consumes = json!([{"counterSet": "c", "counters": {"slots": {"value": "1"}}}]);
    let consuming = devices.iter().map(|device| {
        let mut device = device.clone();
        device["consumesCounters"] = consumes.clone();
        device
    });
    let counters = json!([{"name": "c", "counters": {"slots": {"value": slots.to_string()}}}]);
    let devices = json!({"devices": consuming.collect::<Vec<_>>()});
    [pool(driver, "p", 2, &json!({"sharedCounters": counters})), pool(driver, "p", 2, &devices)]
}

#[test]
fn a_rejected_device_keeps_its_counters_during_the_search() {
    let tainted = json!({"name": "a", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let slices = |slots| partitions(DRIVER, slots, &[tainted.clone(), json!({"name": "b"})]);
    assert_eq!(answer(&slices(1), &[some(1)]), NONE);
    assert_eq!(answer(&slices(2), &[some(1)]), "b");
}

#[test]
fn pools_of_one_name_share_the_counters_of_the_first_that_is_considered() {
    let [x, y] = [DRIVER, "y.example.com"].map(|driver| {
        let name = |at: u64| json!({"name": format!("{}{at}", &driver[..1])});
        partitions(driver, if driver == DRIVER { 3 } else { 1 }, &[name(0), name(1)])
    });
    let slices: Vec<_> = x.into_iter().chain(y).collect();
    assert_eq!(answer(&slices, &[some(3)]), "x0 x1 y0");
    assert_eq!(answer(&slices, &[some(4)]), NONE, "three slots in all, although each pool has its own");
    let only_y = json!([{"cel": {"expression": "device.driver == 'y.example.com'"}}]);
    let only_y = requests(&[request("r", &json!({"count": 2, "selectors": only_y}))]);
    assert_eq!(answer(&slices, std::slice::from_ref(&only_y)), NONE, "y has one slot if x is not considered");
    assert_eq!(answer(&slices, &[some(1), only_y]), "x0 | y0 y1");
}

#[test]
fn two_requests_for_all_devices_share_what_has_enough_capacity() {
    let all = |amount: &str| {
        let capacity = json!({"requests": {"memory": amount}});
        json!({"allocationMode": "All", "capacity": capacity})
    };
    let device =
        json!({"name": "d", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "4Gi"}}});
    let slices = [devices(&[device])];
    assert_eq!(answer(&slices, &[requests(&[request("a", &all("2Gi")), request("b", &all("2Gi"))])]), "d d");
    assert_eq!(answer(&slices, &[requests(&[request("a", &all("2Gi")), request("b", &all("3Gi"))])]), NONE);
}

#[test]
fn one_request_does_not_get_a_shared_device_twice() {
    let device = json!({"name": "d", "allowMultipleAllocations": true});
    let slices = [devices(&[device])];
    assert_eq!(answer(&slices, &[some(2)]), NONE);
    let twice = requests(&[request("a", &json!({})), request("b", &json!({}))]);
    assert_eq!(answer(&slices, &[twice]), "d d");
}

#[test]
fn amounts_are_rounded_up_to_what_the_policy_allows() {
    let cases = [
        (json!({"validRange": {"min": "1Gi", "step": "512Mi"}}), "1Mi", "1Gi"),
        (json!({"validRange": {"min": "1Gi", "step": "512Mi"}}), "1025Mi", "1536Mi"),
        (json!({"validRange": {"min": "1Gi", "max": "2Gi"}}), "3Gi", NONE),
        (json!({"validValues": ["1Gi", "2Gi"], "default": "1Gi"}), "1025Mi", "2Gi"),
        (json!({"validValues": ["1Gi", "2Gi"], "default": "1Gi"}), "3Gi", NONE),
        (json!(null), "3Gi", "3Gi"),
        (json!(null), "5Gi", NONE),
    ];
    for (policy, wanted, expected) in cases {
        let capacity: slice::DeviceCapacity =
            serde_json::from_value(json!({"value": "4Gi", "requestPolicy": policy})).unwrap();
        let capacity = [("memory".into(), capacity)].into();
        let device = Device { capacity, ..Device::default() };
        let requested = serde_json::from_value(json!({"requests": {"memory": wanted}})).unwrap();
        let fits = capacity::suffices(&device, Some(&requested), |_| 0);
        let amounts = capacity::amounts(&device, Some(&requested));
        let found = if fits { amounts["memory"].to_string() } else { NONE.to_owned() };
        assert_eq!(found, expected, "{policy} {wanted}");
    }
}

#[test]
fn a_capacity_that_the_device_does_not_define_excludes_the_device() {
    let wanted = json!({"capacity": {"requests": {"memory": "1"}}});
    assert_eq!(answer(&[devices(&[json!({"name": "d"})])], &[requests(&[request("r", &wanted)])]), NONE);
}

#[test]
fn a_search_may_be_deep_but_not_endless() {
    let many: Vec<_> = (0..32).map(|at| json!({"name": format!("d{at}")})).collect();
    let admin = requests(&[request("r", &json!({"adminAccess": true, "count": 32}))]);
    let deep = vec![admin; 2_000];
    assert!(answer(&[devices(&many)], &deep).starts_with("d0 d1 d2"));
    let endless = [some(16), some(16), some(1)];
    let timeout = "timed out trying to allocate devices";
    assert_eq!(answer_within(&[devices(&many)], &endless, 10_000), timeout);
    let all = json!({"name": "s", "deviceClassName": "any", "allocationMode": "All"});
    let alternatives: Vec<_> = (0..8)
        .map(|at| json!({"name": format!("s{at}"), "deviceClassName": "any", "allocationMode": "All"}))
        .collect();
    let mut branching: Vec<_> =
        (0..20).map(|_| requests(&[json!({"name": "r", "firstAvailable": alternatives})])).collect();
    branching
        .push(requests(&[json!({"name": "r", "firstAvailable": [all]}), request("x", &json!({"count": 2}))]));
    let shareable = json!({"name": "d", "allowMultipleAllocations": true});
    assert_eq!(
        answer_within(&[devices(&[shareable])], &branching, 10_000),
        timeout,
        "alternatives count, too"
    );
}
