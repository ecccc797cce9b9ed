mod conflicts;
mod index;
mod random;
mod releases;
mod search;
mod taint_rules;

use serde_json::json;

use super::{Allocation, ResourceClaim, ResourceSlice};

#[test]
fn an_allocation_is_written_as_it_was_read() {
    let allocation = json!({
        "devices": {
            "results": [{
                "request": "gpu/big", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0",
                "adminAccess": true, "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
                "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
                "shareID": "8e0b5d5e-0000-4000-8000-000000000000", "consumedCapacity": {"memory": "10Gi"},
            }],
            "config": [{"source": "FromClass", "requests": ["gpu/big"],
                "opaque": {"driver": "gpu.example.com", "parameters": {"a": [1, null]}}}],
        },
        "nodeSelector": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
            {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        ]},
        "allocationTimestamp": "2026-01-02T03:04:05Z",
    });
    let decoded: Allocation = serde_json::from_value(allocation.clone()).unwrap();
    assert_eq!(serde_json::to_value(&decoded).unwrap(), allocation);
}

#[test]
fn an_empty_allocation_is_written_without_its_empty_fields() {
    let written = serde_json::to_value(Allocation::default()).unwrap();
    assert_eq!(written, json!({ "devices": {} }));
}

#[test]
fn nulls_are_decoded_as_missing_fields() {
    let nulls = json!({ "spec": { "devices": null }, "status": { "allocation": null, "reservedFor": null } });
    let claim: ResourceClaim = serde_json::from_value(nulls).unwrap();
    assert_eq!(claim, serde_json::from_value(json!({})).unwrap());
    let nulls = json!({ "spec": { "driver": null, "devices": null, "nodeSelector": null } });
    let slice: ResourceSlice = serde_json::from_value(nulls).unwrap();
    assert_eq!(slice, ResourceSlice::default());
}
