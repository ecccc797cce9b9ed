//! Allocation of claims without pods.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::super::creation::in_parallel;
use super::super::cluster::CLAIMS;
use super::Player;

/// A device, and the node that has it.
#[derive(Debug, PartialEq, Eq)]
struct Device {
    pool: String,
    name: String,
    node: String,
}

impl Player<'_> {
    /// Gives each claim in a namespace, or in all if it is empty, a device of a driver. The claims are spread over the
    /// slices.
    pub(super) fn allocate(&self, namespace: &str, driver: &str) -> Result<()> {
        let claims = match namespace {
            "" => format!("/apis/{CLAIMS}/resourceclaims"),
            namespace => format!("/apis/{CLAIMS}/namespaces/{namespace}/resourceclaims"),
        };
        let claims = self.client().get(&claims)?;
        let is_free = |claim: &&Value| claim["status"].get("allocation").is_none();
        let claims: Vec<_> = items(&claims).iter().filter(is_free).collect();
        let slices = self.client().get(&format!("/apis/{CLAIMS}/resourceslices"))?;
        let devices = devices(items(&slices), driver);
        ensure!(
            claims.len() <= devices.len(),
            "{} claims need devices of {driver}, which has {}",
            claims.len(),
            devices.len()
        );
        in_parallel(self.threads, claims.len(), |index| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let [namespace, name] =
                ["namespace", "name"].map(|field| text(&claims[index]["metadata"][field]));
            let request = text(&claims[index]["spec"]["devices"]["requests"][0]["name"]);
            let path = format!("/apis/{CLAIMS}/namespaces/{namespace}/resourceclaims/{name}/status");
            let status = json!({"status": {"allocation": allocation(driver, &request, &devices[index])}});
            self.client().merge_patch(&path, &status)?;
            Ok(())
        })
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the devices of a driver: first the first device of every slice, then the second ones, and so on.
fn devices(slices: &[Value], driver: &str) -> Vec<Device> {
    let mut devices = Vec::new();
    for slice in slices.iter().map(|slice| &slice["spec"]).filter(|spec| spec["driver"] == driver) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of_slice =
            slice["devices"].as_array().into_iter().flatten().enumerate().map(|(index, device)| {
                let device = Device {
                    pool: text(&slice["pool"]["name"]),
                    name: text(&device["name"]),
                    node: text(&slice["nodeName"]),
                };
                (index, device)
            });
        devices.extend(of_slice);
    }
    devices.sort_by_key(|(index, _)| *index);
    devices.into_iter().map(|(_, device)| device).collect()
}

/// Returns the allocation that a scheduler writes.
fn allocation(driver: &str, request: &str, device: &Device) -> Value {
    let here = json!({"key": "metadata.name", "operator": "In", "values": [device.node]});
    json!({
        "devices": {"results": [{"request": request, "driver": driver, "pool": device.pool, "device": device.name}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_spread_over_the_slices() {
        let slice = |driver: &str, node: &str, devices: &[&str]| {
            let devices: Vec<_> = devices.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"driver": driver, "nodeName": node, "pool": {"name": node}, "devices": devices}})
        };
        let slices = [slice("d", "a", &["1", "2"]), slice("other", "a", &["9"]), slice("d", "b", &["3"])];
        let found: Vec<_> =
            devices(&slices, "d").into_iter().map(|device| (device.node, device.name)).collect();
        let expected =
            [("a", "1"), ("b", "3"), ("a", "2")].map(|(node, name)| (node.to_owned(), name.to_owned()));
        assert_eq!(found, expected);
    }
}
