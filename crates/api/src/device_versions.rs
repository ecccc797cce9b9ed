//! Older versions of `resource.k8s.io`. `v1beta2` looks like `v1`. In `v1beta1`, the fields of a device are in `basic`,
//! and the fields of `exactly` are in the request itself.
//!
//! kube-scheduler 1.36 reads `v1` only. Drivers convert in the same way (`k8s.io/dynamic-resource-allocation/client`).

use serde_json::{Map, Value};

/// API group of devices and claims.
pub const GROUP: &str = "resource.k8s.io";

/// Older versions of every kind, most preferred first.
pub const OLDER: [&str; 2] = ["v1beta2", "v1beta1"];

/// Locations of the requests of a claim and of a template.
const REQUESTS: [&str; 2] = ["/spec/devices/requests", "/spec/spec/devices/requests"];

/// Fields of a `v1beta1` request that are in `exactly` in newer versions.
const EXACTLY: [&str; 8] = [
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

/// Converts an object or a part of it from `v1beta1` to `v1`. Fields of the wrong type are left alone.
pub fn upgrade_v1beta1(object: &mut Value) {
    for device in objects(object, "/spec/devices") {
        if let Some(Value::Object(basic)) = device.remove("basic") {
            device.extend(basic);
        }
    }
    for path in REQUESTS {
        for request in objects(object, path) {
            upgrade_request(request);
        }
    }
}

fn upgrade_request(request: &mut Map<String, Value>) {
    let fields = EXACTLY.into_iter().filter_map(|field| request.remove_entry(field));
    let exactly: Map<String, Value> = fields.filter(|(_, value)| is_set(value)).collect();
    if !exactly.is_empty() {
        request.insert("exactly".into(), exactly.into());
    }
}

/// Converts an object or a part of it, such as a patch, from `v1` to `v1beta1`.
pub fn downgrade_v1beta1(object: &mut Value) {
    for path in REQUESTS {
        for request in objects(object, path) {
            if let Some(Value::Object(exactly)) = request.remove("exactly") {
                request.extend(exactly);
            }
        }
    }
}

/// Returns the objects of a list.
fn objects<'a>(object: &'a mut Value, path: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = object.pointer_mut(path).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns false for a value that Go's encoder would have written for a field that is not set.
fn is_set(value: &Value) -> bool {
    !(value.is_null() || *value == "" || *value == 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upgraded(mut object: Value) -> Value {
        upgrade_v1beta1(&mut object);
        object
    }

    fn claim(request: &Value) -> Value {
        json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}, "status": {"x": 1}})
    }

    #[test]
    fn a_v1beta1_request_contains_the_fields_of_exactly() {
        let tolerations = json!([{"key": "k", "operator": "Exists"}]);
        let selectors = json!([{"cel": {"expression": "true"}}]);
        let capacity = json!({"requests": {"memory": "1Gi"}});
        for (old, new) in [
            (
                json!({"name": "r", "deviceClassName": "gpu"}),
                json!({"name": "r", "exactly": {"deviceClassName": "gpu"}}),
            ),
            (
                json!({
                    "name": "r", "deviceClassName": "gpu", "selectors": selectors, "allocationMode": "ExactCount",
                    "count": 2, "adminAccess": true, "tolerations": tolerations, "capacity": capacity,
                }),
                json!({"name": "r", "exactly": {
                    "deviceClassName": "gpu", "selectors": selectors, "allocationMode": "ExactCount",
                    "count": 2, "adminAccess": true, "tolerations": tolerations, "capacity": capacity,
                }}),
            ),
            // An empty list counts as set, as in Kubernetes.
            (json!({"name": "r", "selectors": []}), json!({"name": "r", "exactly": {"selectors": []}})),
            (json!({"name": "r"}), json!({"name": "r"})),
        ] {
            assert_eq!(upgraded(claim(&old)), claim(&new));
            let mut written = claim(&new);
            downgrade_v1beta1(&mut written);
            assert_eq!(written, claim(&old));
        }
    }

    #[test]
    fn a_template_contains_the_requests_of_its_claims() {
        let template = |request: Value| json!({"spec": {"spec": {"devices": {"requests": [request]}}}});
        let old = template(json!({"name": "r", "deviceClassName": "gpu"}));
        let new = template(json!({"name": "r", "exactly": {"deviceClassName": "gpu"}}));
        assert_eq!(upgraded(old), new);
    }

    #[test]
    fn alternatives_are_the_same_in_all_versions() {
        let alternatives = json!([{"name": "a", "deviceClassName": "gpu", "count": 1}]);
        // Servers write an empty class name for a request with alternatives.
        let old = json!({"name": "r", "deviceClassName": "", "firstAvailable": alternatives});
        let new = claim(&json!({"name": "r", "firstAvailable": alternatives}));
        assert_eq!(upgraded(claim(&old)), new);
        let mut written = new.clone();
        downgrade_v1beta1(&mut written);
        assert_eq!(written, new);
    }

    #[test]
    fn a_v1beta1_device_has_its_fields_in_basic() {
        let slice = |devices: Value| json!({"spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p"}, "devices": devices}});
        let fields = json!({
            "attributes": {"model": {"string": "a"}},
            "capacity": {"memory": {"value": "1Gi"}},
            "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
            "nodeName": "n", "allNodes": true, "bindsToNode": true, "allowMultipleAllocations": true,
            "taints": [{"key": "k", "effect": "NoSchedule"}],
            "bindingConditions": ["a"], "bindingFailureConditions": ["b"],
        });
        let mut flat = fields.clone();
        flat["name"] = "x".into();
        let old = slice(json!([{"name": "x", "basic": fields}, {"name": "y", "basic": {}}, {"name": "z"}]));
        assert_eq!(upgraded(old), slice(json!([flat, {"name": "y"}, {"name": "z"}])));
    }

    #[test]
    fn objects_without_fields_that_differ_between_versions_are_left_alone() {
        for object in [
            json!({"spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "a/b"}}),
            json!({"metadata": {"finalizers": ["f"]}}),
            json!({"status": {"allocation": {"devices": {"results": [{"request": "r"}]}}}}),
            json!({"spec": {"devices": {"requests": "many"}}}),
            json!({"spec": {"devices": [1, null]}}),
            json!(null),
        ] {
            assert_eq!(upgraded(object.clone()), object);
            let mut written = object.clone();
            downgrade_v1beta1(&mut written);
            assert_eq!(written, object);
        }
    }
}
