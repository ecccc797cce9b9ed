//! Devices that the search chooses.

use harbormaster_api::features::Features;
use harbormaster_framework::index::{ClusterView, IndexKind, Indexes};
use harbormaster_testkit::{cluster, node, set_custom};
use serde_json::{Value, json};

use super::super::*;
use crate::devices::books::DeviceQuery;

pub(super) const DRIVER: &str = "x.example.com";

/// Returns the devices that claims with the given specs get on node `n`, or the error.
fn answer(slices: &[Value], specs: &[Value]) -> String {
    answer_within(slices, specs, 1_000_000)
}

fn answer_within(slices: &[Value], specs: &[Value], max_steps: u64) -> String {
    names(Case { max_steps, ..Case::of(slices, specs) }.allocations())
}

/// Returns the names of the allocated devices, or the error.
pub(super) fn names(answer: Result<Vec<Allocation>, AllocationError>) -> String {
    let names = |allocation: &Allocation| {
        let results = allocation.devices.results.iter();
        results.map(|result| result.device.to_string()).collect::<Vec<_>>().join(" ")
    };
    match answer {
        Err(error) => error.to_string(),
        Ok(allocations) => allocations.iter().map(names).collect::<Vec<_>>().join(" | "),
    }
}

/// Claims `c0`, `c1` and so on that ask for devices on node `n`.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) gates: DeviceGates,
    pub(super) slices: &'a [Value],
    /// Specs of the claims.
    pub(super) specs: &'a [Value],
    /// Claims that are allocated already.
    pub(super) allocated: &'a [Value],
    pub(super) rules: &'a [Value],
    /// Classes in addition to `any`, which includes all devices.
    pub(super) classes: &'a [Value],
    pub(super) max_steps: u64,
}

impl<'a> Case<'a> {
    /// Returns the case with the gates of Kubernetes 1.36.
    pub(super) fn of(slices: &'a [Value], specs: &'a [Value]) -> Self {
        let gates = DeviceGates::of(Features::default());
        Self { gates, slices, specs, allocated: &[], rules: &[], classes: &[], max_steps: 1_000_000 }
    }

    pub(super) fn allocations(&self) -> Result<Vec<Allocation>, AllocationError> {
        let mut cluster = cluster([node("n").label("zone", "a")], []);
        let named = |(at, spec): (usize, &Value)| {
            let name = format!("c{at}");
            json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": spec}})
        };
        let claims: Vec<_> = self.specs.iter().enumerate().map(named).collect();
        set_custom::<ResourceClaim>(&mut cluster, claims.into_iter().chain(self.allocated.iter().cloned()));
        set_custom::<ResourceSlice>(&mut cluster, self.slices.iter().cloned());
        set_custom::<DeviceTaintRule>(&mut cluster, self.rules.iter().cloned());
        let any = json!({"metadata": {"name": "any"}});
        set_custom::<DeviceClass>(&mut cluster, [any].into_iter().chain(self.classes.iter().cloned()));
        let mut indexes = Indexes::default();
        let view = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
        indexes.add(IndexKind::of::<Devices>(), view).unwrap();
        let claims = cluster.watched::<ResourceClaim>();
        let claims: Vec<_> = claims.all().filter(|claim| claim.status.allocation.is_none()).collect();
        let classes = cluster.watched::<DeviceClass>();
        let query = DeviceQuery { claims: &claims, classes, gates: self.gates, max_steps: self.max_steps };
        indexes.get::<Devices>().unwrap().allocate(&query, cluster.node(cluster.find("n").unwrap()))
    }
}

/// A slice that every node can reach, of a pool with `slices` slices.
pub(super) fn pool(driver: &str, name: &str, slices: u64, spec: &Value) -> Value {
    let mut slice = json!({
        "driver": driver, "allNodes": true,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": slices},
    });
    slice.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": format!("{driver}-{name}-{}", spec.to_string().len())}, "spec": slice})
}

pub(super) fn devices(devices: &[Value]) -> Value {
    pool(DRIVER, "p", 1, &json!({"devices": devices}))
}

pub(super) fn with_model(name: &str, model: &str) -> Value {
    json!({"name": name, "attributes": {"model": {"string": model}}})
}

pub(super) fn request(name: &str, change: &Value) -> Value {
    let mut exactly = json!({"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1});
    exactly.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    json!({"name": name, "exactly": exactly})
}

pub(super) fn requests(requests: &[Value]) -> Value {
    json!({"requests": requests})
}

pub(super) fn some(count: u64) -> Value {
    requests(&[request("r", &json!({"count": count}))])
}

pub(super) const NONE: &str = "cannot allocate all claims";

#[test]
fn devices_are_chosen_by_driver_then_pool_and_those_with_binding_conditions_come_last() {
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
    assert_eq!(
        answer(&slices, &[some(4)]),
        "first second third waits",
        "devices with binding conditions come last"
    );
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
fn a_device_given_with_admin_access_is_unavailable_to_later_requests_without_it() {
    let slices = [devices(&[json!({"name": "d"})])];
    let admin = requests(&[request("r", &json!({"adminAccess": true}))]);
    assert_eq!(answer(&slices, &[admin.clone(), admin.clone()]), "d | d");
    assert_eq!(answer(&slices, &[some(1), admin.clone()]), "d | d");
    assert_eq!(answer(&slices, &[admin.clone(), some(1)]), NONE);
    let twice =
        requests(&[request("a", &json!({"adminAccess": true})), request("b", &json!({"adminAccess": true}))]);
    assert_eq!(answer(&slices, &[twice]), NONE, "one claim cannot have a device twice");
}

#[test]
fn two_requests_for_all_devices_share_devices_with_enough_capacity() {
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
        let capacity = [("memory".into(), capacity)].into_iter().collect();
        let device = Device { capacity, ..Device::default() };
        let requested = serde_json::from_value(json!({"requests": {"memory": wanted}})).unwrap();
        let rules = DeviceGates::default().rules;
        let fits = capacity::suffices(&device, Some(&requested), rules, |_| 0).unwrap();
        let amounts = capacity::amounts(&device, Some(&requested), rules);
        let found = if fits { amounts["memory"].to_string() } else { NONE.to_owned() };
        assert_eq!(found, expected, "{policy} {wanted}");
    }
}

#[test]
fn a_device_that_does_not_define_a_requested_capacity_is_excluded() {
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
        "trying an alternative also counts as a step"
    );
}
