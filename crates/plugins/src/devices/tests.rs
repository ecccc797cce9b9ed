mod index;
mod random;
mod search;

use serde_json::{Value, json};

use super::{Allocation, ResourceClaim, ResourceSlice, slice::Attribute};

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
fn nulls_decode_as_missing_fields() {
    let nulls = json!({ "spec": { "devices": null }, "status": { "allocation": null, "reservedFor": null } });
    let claim: ResourceClaim = serde_json::from_value(nulls).unwrap();
    assert_eq!(claim, serde_json::from_value(json!({})).unwrap());
    let nulls = json!({ "spec": { "driver": null, "devices": null, "nodeSelector": null } });
    let slice: ResourceSlice = serde_json::from_value(nulls).unwrap();
    assert_eq!(slice, ResourceSlice::default());
}

#[test]
fn an_attribute_has_the_kind_of_its_field() {
    for (wire, attribute) in [
        (json!({ "bool": false }), Attribute::Bool(false)),
        (json!({ "int": 3 }), Attribute::Int(3)),
        (json!({ "string": "" }), Attribute::String("".into())),
        (json!({ "version": "1.2.3" }), Attribute::Version("1.2.3".into())),
        (json!({ "ints": [1, 2] }), Attribute::Ints(vec![1, 2])),
        (json!({ "colour": "red" }), Attribute::Unknown),
        (Value::Object(serde_json::Map::new()), Attribute::Unknown),
    ] {
        let decoded: Attribute = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(decoded, attribute, "{wire}");
    }
}
