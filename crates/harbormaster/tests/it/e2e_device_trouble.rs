//! Pods with devices under faults: whatever happens to the writes of their claims, and even if the scheduler is killed
//! between two writes, every pod gets its devices, no device belongs to two claims, and no device is lost.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually, list, name_of, wait_until_bound, wait_until_explained},
    objects::PODS,
    objects::pod,
    proxy::{Fault, Gate, Request, write_faults},
    scene::{Scene, statuses},
    server::{Server, on_both_servers},
};

on_both_servers! {
    pods_are_bound_even_if_writes_of_their_claims_fail,
    the_next_scheduler_continues_after_one_is_killed_at_any_write,
}

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// One test's part of a cluster: a node with devices, which no other scene can use.
struct DeviceScene(Scene);

impl DeviceScene {
    fn new(server: Server, name: &'static str, devices: usize) -> Self {
        let scene = Scene::on(server.shared(), name);
        scene.create_node("node", "8", "a");
        let driver = format!("{name}.example.com");
        let selector = json!({"cel": {"expression": format!("device.driver == '{driver}'")}});
        let class = json!({"metadata": {"name": name}, "spec": {"selectors": [selector]}});
        scene.client.post(CLASSES, &class).expect("the class is created");
        let devices: Vec<_> = (0..devices).map(|at| json!({"name": format!("d-{at}")})).collect();
        let node = scene.full("node");
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": driver, "nodeName": node, "pool": pool, "devices": devices});
        scene
            .client
            .post(SLICES, &json!({"metadata": {"name": name}, "spec": spec}))
            .expect("the slice is created");
        Self(scene)
    }

    /// Creates a pod and a claim of the same name.
    fn create_user(&self, name: &str) {
        let Self(scene) = self;
        let exactly = json!({"deviceClassName": scene.name});
        let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exactly}]}});
        let full = scene.full(name);
        scene
            .client
            .post(CLAIMS, &json!({"metadata": {"name": full}, "spec": spec}))
            .expect("the claim is created");
        let claims = json!([{"name": "device", "resourceClaimName": full}]);
        let user = pod(&full, scene.name, json!({"cpu": "10m"}), json!({"resourceClaims": claims}));
        scene.client.post(PODS, &user).expect("the pod is created");
    }

    /// Returns a predicate for requests that give the claim its device.
    fn is_allocating(&self, claim: &str) -> impl Fn(&Request) -> bool + Clone + Send + 'static {
        let path = format!("{CLAIMS}/{}/status", self.0.full(claim));
        move |request: &Request| request.method == "PATCH" && request.path == path
    }

    /// Returns a predicate for requests that add the finalizer of the claim.
    fn is_protecting(&self, claim: &str) -> impl Fn(&Request) -> bool + Clone + Send + 'static {
        let path = format!("{CLAIMS}/{}", self.0.full(claim));
        move |request: &Request| request.method == "PATCH" && request.path == path
    }

    /// Asserts that all pods are bound, that each has a device of its own, and that `free` more devices can be used.
    fn all_is_well(&self, pods: &[&str], free: usize) {
        let Self(scene) = self;
        let more: Vec<String> = (0..free).map(|at| format!("more-{at}")).collect();
        more.iter().for_each(|name| self.create_user(name));
        let all = pods.iter().copied().chain(more.iter().map(String::as_str));
        let mut devices: BTreeMap<String, Value> = BTreeMap::new();
        for name in all {
            let full = scene.full(name);
            wait_until_bound(&scene.client, &full);
            let claims = list(&scene.client, CLAIMS);
            let claim = claims.iter().find(|claim| name_of(claim) == full).expect("the claim is there");
            let results =
                claim["status"]["allocation"]["devices"]["results"].as_array().expect("it has devices");
            assert_eq!(results.len(), 1, "{claim}");
            let consumers = claim["status"]["reservedFor"].as_array().expect("it has consumers");
            assert!(consumers.len() == 1 && consumers[0]["name"] == full, "{claim}");
            assert_eq!(claim["metadata"]["finalizers"].as_array().map(Vec::len), Some(1), "{claim}");
            let taken = devices.insert(results[0]["device"].to_string(), claim.clone());
            assert!(taken.is_none(), "{claim} and {taken:?} have the same device");
        }
        self.create_user("too-many");
        let (_, message) = wait_until_explained(&scene.client, &scene.full("too-many"));
        assert!(message.contains("cannot allocate all claims"), "{message}");
    }
}

fn pods_are_bound_even_if_writes_of_their_claims_fail(server: Server) {
    let conflicts = ("conflicts", 5, Fault::status(409, "Conflict"));
    let faults: Vec<_> = write_faults().into_iter().chain([conflicts]).collect();
    let names: Vec<&str> = faults.iter().map(|(name, ..)| *name).collect();
    let scene = DeviceScene::new(server, "claims-fail", names.len() + 2);
    for (name, times, fault) in faults.clone() {
        scene.0.proxy.fault(times, fault, scene.is_allocating(name));
    }
    let harbormaster = scene.0.started();
    names.iter().for_each(|name| scene.create_user(name));
    for (name, times, _) in faults {
        scene.0.is_bound(name);
        let answers = statuses(&scene.0.proxy.records(scene.is_allocating(name)));
        assert!((times..=times + 6).contains(&answers.len()), "{name}: {answers:?}");
        assert_ne!(answers[0], 200, "{name}: {answers:?}");
    }
    let full = |name: &str| scene.0.full(name);
    assert_eq!(harbormaster.failed_bindings(&full("conflict")), 0, "a conflict is retried");
    for name in ["conflicts", "failing", "away", "refused"] {
        assert!(harbormaster.attempts(&full(name)) >= 2, "{name} is scheduled again");
    }
    scene.all_is_well(&names, 2);
    scene.0.ends_well(harbormaster);
}

fn the_next_scheduler_continues_after_one_is_killed_at_any_write(server: Server) {
    let scene = DeviceScene::new(server, "device-kill", 5);
    let gate = Gate::default();
    scene.0.proxy.fault(1, Fault::hold(&gate), scene.is_protecting("unprotected"));
    scene.0.proxy.fault(1, Fault::hold(&gate), scene.is_allocating("protected"));
    scene.0.fault_binds("allocated", 1, Fault::hold(&gate));
    let first = scene.0.started();
    let pods = ["unprotected", "protected", "allocated"];
    pods.iter().for_each(|name| scene.create_user(name));
    eventually("the requests of all three pods are held", PATIENCE, || (gate.came() == 3).then_some(()));
    first.kill();
    let second = scene.0.start();
    scene.all_is_well(&pods, 2);
    scene.0.ends_well(second);
}
