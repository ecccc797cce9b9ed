//! Pods with resource claims on servers that serve only an older version of `resource.k8s.io`, or none.

use std::{fs, process::Command};

use harbormaster_oracle::components::{ApiClient, ControlPlane, ControlPlaneOptions};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{list, wait_until_bound},
    objects::{NODES, PODS, default_config, node, pod},
    process::Harbormaster,
};

const SCHEDULER: &str = "default-scheduler";
const DRIVER: &str = "gpu.example.com";
/// Extended resource of the device class.
const RESOURCE: &str = "example.com/gpu";

/// Starts an API server with the given value of `--runtime-config`, and Harbormaster.
fn start(runtime_config: &str) -> (ControlPlane, Harbormaster) {
    let apiserver_flags = vec![format!("--runtime-config={runtime_config}")];
    let options = ControlPlaneOptions { apiserver_flags, ..ControlPlaneOptions::default() };
    let cluster = ControlPlane::start(&options).expect("the API server starts");
    let config = cluster.write_scheduler_config(&default_config().to_string()).expect("it is written");
    let log = cluster.directory().join("harbormaster.log");
    let harbormaster = Harbormaster::start(&[format!("--config={}", config.display())], log);
    (cluster, harbormaster)
}

/// A version of `resource.k8s.io`.
#[derive(Clone, Copy)]
struct Version(&'static str);

impl Version {
    fn has_basic_devices(self) -> bool {
        self.0 == "v1beta1"
    }

    fn path(self, rest: &str) -> String {
        format!("/apis/resource.k8s.io/{}/{rest}", self.0)
    }

    fn claims(self) -> String {
        self.path("namespaces/default/resourceclaims")
    }

    /// Returns a slice with three devices of the node.
    fn slice(self, node: &str) -> Value {
        let device = |name: &str| {
            let fields = json!({"attributes": {"model": {"string": "a1"}}});
            match self.has_basic_devices() {
                true => json!({"name": name, "basic": fields}),
                false => json!({"name": name, "attributes": fields["attributes"]}),
            }
        };
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let devices = ["gpu-0", "gpu-1", "gpu-2"].map(device);
        let spec = json!({"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices});
        json!({"metadata": {"name": format!("{node}-gpus")}, "spec": spec})
    }

    fn claim(self, name: &str) -> Value {
        let selectors =
            json!([{"cel": {"expression": format!("device.attributes['{DRIVER}'].model == 'a1'")}}]);
        let exactly = json!({"deviceClassName": "gpu", "selectors": selectors});
        let request = match self.has_basic_devices() {
            true => json!({"name": "r", "deviceClassName": "gpu", "selectors": selectors}),
            false => json!({"name": "r", "exactly": exactly}),
        };
        json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    }

    /// Gives a claim a device of a node that does not exist.
    fn misplace(self, client: &ApiClient, claim: &str) {
        let name = json!({"key": "metadata.name", "operator": "In", "values": ["gone"]});
        let results = json!([{"request": "r", "driver": DRIVER, "pool": "gone", "device": "gpu-9"}]);
        let selector = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
        let allocation = json!({"devices": {"results": results}, "nodeSelector": selector});
        let status = json!({"status": {"allocation": allocation}});
        client.merge_patch(&format!("{}/{claim}/status", self.claims()), &status).expect("it is written");
    }
}

fn user(name: &str, claim: &str) -> Value {
    let claims = json!([{"name": "gpu", "resourceClaimName": claim}]);
    pod(name, SCHEDULER, json!({}), json!({"resourceClaims": claims}))
}

fn pods_get_devices_in(version: Version) {
    let runtime_config = format!("resource.k8s.io/v1=false,resource.k8s.io/{}=true", version.0);
    let (cluster, harbormaster) = start(&runtime_config);
    let client = cluster.client();
    let create = |path: &str, object: Value| drop(client.post(path, &object).expect("it is created"));
    create(NODES, node("n1", json!({}), "4", "8Gi", 100));
    create(&version.path("resourceslices"), version.slice("n1"));
    let selectors = json!([{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]);
    let class = json!({"selectors": selectors, "extendedResourceName": RESOURCE});
    create(&version.path("deviceclasses"), json!({"metadata": {"name": "gpu"}, "spec": class}));

    for name in ["one", "lost"] {
        create(&version.claims(), version.claim(name));
    }
    create(PODS, user("a", "one"));
    wait_until_bound(client, "a");
    version.misplace(client, "lost");
    create(PODS, user("b", "lost"));
    wait_until_bound(client, "b");
    let mut extended = pod("c", SCHEDULER, json!({}), json!({}));
    let amounts = json!({ RESOURCE: "1" });
    extended["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    create(PODS, extended);
    wait_until_bound(client, "c");

    let mut devices: Vec<(String, String)> = list(client, &version.claims())
        .iter()
        .map(|claim| {
            let status = &claim["status"];
            let result = &status["allocation"]["devices"]["results"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&status["reservedFor"][0]["name"]), text(&result["device"]))
        })
        .collect();
    devices.sort();
    let expected = [("a", "gpu-0"), ("b", "gpu-1"), ("c", "gpu-2")];
    assert_eq!(devices, expected.map(|(pod, device)| (pod.to_owned(), device.to_owned())));
    let pod = client.get(&format!("{PODS}/c")).expect("it exists");
    assert!(pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"].is_string(), "{pod}");

    let said = harbormaster.lines_with(&["serves only an older version of this kind", version.0]);
    assert_eq!(said.len(), 3, "{said:?}");
    no_device_is_left_in_the_dump(version, &cluster);
}

/// Dumps the cluster, adds a pod with a claim, and checks that the pod finds all devices in use.
fn no_device_is_left_in_the_dump(version: Version, cluster: &ControlPlane) {
    let run = |command: &mut Command| {
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let binary = || Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    let dump = run(binary().args(["dump", "--kubeconfig"]).arg(cluster.kubeconfig()));
    assert!(
        dump.contains(&format!("apiVersion: resource.k8s.io/{}\nkind: ResourceClaim\n", version.0)),
        "{dump}"
    );
    let mut claim = version.claim("late");
    claim["apiVersion"] = format!("resource.k8s.io/{}", version.0).into();
    claim["kind"] = "ResourceClaim".into();
    let mut pod = user("d", "late");
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let file = cluster.directory().join("dump.yaml");
    fs::write(&file, format!("{dump}---\n{claim}\n---\n{pod}\n")).expect("the dump is written");
    let table = run(binary().args(["simulate", "-f"]).arg(file));
    assert!(table.contains("cannot allocate all claims"), "{table}");
}

#[test]
fn pods_get_devices_if_the_server_serves_only_v1beta1() {
    pods_get_devices_in(Version("v1beta1"));
}

#[test]
fn pods_get_devices_if_the_server_serves_only_v1beta2() {
    pods_get_devices_in(Version("v1beta2"));
}

#[test]
fn pods_without_claims_are_bound_if_the_server_does_not_serve_claims() {
    let (cluster, harbormaster) = start("resource.k8s.io/v1=false");
    let client = cluster.client();
    client.post(NODES, &node("n1", json!({}), "4", "8Gi", 100)).expect("it is created");
    client.post(PODS, &user("user", "one")).expect("it is created");
    client.post(PODS, &pod("plain", SCHEDULER, json!({}), json!({}))).expect("it is created");
    wait_until_bound(client, "plain");
    assert_eq!(harbormaster.attempts("user"), 0, "it waits for its claim");
    for kind in ["resourceclaims", "resourceslices", "deviceclasses"] {
        let kind = format!("{kind}.resource.k8s.io");
        let said = harbormaster.lines_with(&["The API server does not serve this kind", &kind]);
        assert_eq!(said.len(), 1, "{said:?}");
    }
}
