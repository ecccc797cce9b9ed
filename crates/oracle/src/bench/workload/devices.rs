//! Devices of nodes, and claims of pods for these devices.

use serde_json::{Value, json};

use super::{Creation, MEASURED};

/// Number of devices of a node that are free when a run starts.
pub(super) const FREE_PER_NODE: usize = 5;

/// Number of devices of a node that are allocated to claims when a run starts.
const ALLOCATED_PER_NODE: usize = 5;

const DRIVER: &str = "test-driver.cdi.k8s.io";

/// Class of the devices of [`DRIVER`].
const CLASS: &str = "test-class";

/// Class of the devices of a driver that does not exist.
const EMPTY_CLASS: &str = "no-devices-class";

/// Name of the only request of a claim.
const REQUEST: &str = "req-0";

const TEMPLATE: &str = "test-claim-template";

const TAINT: &str = "example.com/taint";

const API_VERSION: &str = "resource.k8s.io/v1";

/// The nodes' devices, and the claims of the measured pods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices {
    pub(super) request: Request,
    /// Number of claims of a measured pod. Each is for one device.
    pub(super) claims_per_pod: usize,
}

/// Request for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A device of [`CLASS`].
    Exactly,
    /// A device of [`EMPTY_CLASS`], or else of [`CLASS`].
    FirstAvailable,
    /// A device of [`CLASS`], even a tainted one. With this request, all devices are tainted.
    Tolerating,
}

impl Devices {
    /// Returns the classes, and the template of the claims of measured pods.
    pub(super) fn fixtures(&self) -> Vec<Creation> {
        let template = json!({
            "metadata": {"name": TEMPLATE},
            "spec": {"spec": self.request.claim_spec()},
        });
        vec![
            class(CLASS, DRIVER),
            class(EMPTY_CLASS, "no-such-driver.cdi.k8s.io"),
            (collection(MEASURED, "resourceclaimtemplates"), template),
        ]
    }

    /// Returns a slice with the devices of a node, and claims in `namespace` to which some of these devices are
    /// allocated.
    pub(super) fn of_node(&self, namespace: &str, node: &str) -> Vec<Creation> {
        let claims = (0..ALLOCATED_PER_NODE).map(|index| {
            let mut claim = json!({
                "metadata": {"name": format!("{node}-{index}")},
                "spec": Request::Exactly.claim_spec(),
            });
            claim["status"] = json!({"allocation": allocation(node, index)});
            (collection(namespace, "resourceclaims"), claim)
        });
        [self.slice(node)].into_iter().chain(claims).collect()
    }

    /// Adds the claims to a measured pod.
    pub(super) fn claim_for(&self, pod: &mut Value) {
        let names = || (0..self.claims_per_pod).map(|index| format!("resource-{index}"));
        let claims = names().map(|name| json!({"name": name, "resourceClaimTemplateName": TEMPLATE}));
        pod["spec"]["resourceClaims"] = claims.collect();
        pod["spec"]["containers"][0]["resources"]["claims"] =
            names().map(|name| json!({"name": name})).collect();
    }

    fn slice(&self, node: &str) -> Creation {
        let devices = (0..ALLOCATED_PER_NODE + FREE_PER_NODE).map(|index| {
            let mut device = json!({"name": device_name(index)});
            if self.request == Request::Tolerating {
                device["taints"] = json!([{"key": TAINT, "effect": "NoSchedule"}]);
            }
            device
        });
        let slice = json!({
            "metadata": {"name": format!("{node}-devices")},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices.collect::<Vec<_>>(),
            },
        });
        (format!("/apis/{API_VERSION}/resourceslices"), slice)
    }
}

impl Request {
    fn claim_spec(self) -> Value {
        let mut request = json!({"name": REQUEST});
        match self {
            Self::Exactly => request["exactly"] = json!({"deviceClassName": CLASS}),
            Self::Tolerating => {
                let tolerations = json!([{"key": TAINT, "operator": "Exists"}]);
                request["exactly"] = json!({"deviceClassName": CLASS, "tolerations": tolerations});
            }
            Self::FirstAvailable => {
                request["firstAvailable"] = json!([
                    {"name": "sub-0", "deviceClassName": EMPTY_CLASS},
                    {"name": "sub-1", "deviceClassName": CLASS},
                ]);
            }
        }
        json!({"devices": {"requests": [request]}})
    }
}

fn class(name: &str, driver: &str) -> Creation {
    let expression = format!("device.driver == \"{driver}\"");
    let class = json!({
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    });
    (format!("/apis/{API_VERSION}/deviceclasses"), class)
}

/// Returns the allocation that a scheduler writes for the device of a node.
fn allocation(node: &str, device: usize) -> Value {
    let here = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "devices": {"results": [
            {"request": REQUEST, "driver": DRIVER, "pool": node, "device": device_name(device)},
        ]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    })
}

fn device_name(index: usize) -> String {
    format!("device-{index}")
}

fn collection(namespace: &str, plural: &str) -> String {
    format!("/apis/{API_VERSION}/namespaces/{namespace}/{plural}")
}
