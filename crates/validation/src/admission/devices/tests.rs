use harbormaster_api::{Release, Timestamp, features::Features};
use serde_json::{Value, json};

use super::super::{Context, Others, Refusal};
use crate::kinds;

/// A cluster in which every namespace exists, without labels.
struct Plain;

impl Others for Plain {
    fn all(&self, _: &str) -> Vec<Value> {
        Vec::new()
    }

    fn get(&self, resource: &str, name: &str) -> Option<Value> {
        (resource == "namespaces").then(|| json!({"metadata": {"name": name}}))
    }
}

/// Admits a new object or, if `old` is given, a changed object.
fn admit(old: Option<&Value>, object: Value, status_only: bool) -> Result<Value, Vec<String>> {
    admit_in(Features::default(), old, object, status_only)
}

/// Like [`admit`], in a release.
fn admit_in(
    features: Features,
    old: Option<&Value>,
    object: Value,
    status_only: bool,
) -> Result<Value, Vec<String>> {
    let mut object = object;
    let name = object["kind"].as_str().unwrap_or_default().to_owned();
    let kinds = kinds::table(features);
    let kind = kinds.iter().find(|kind| kind.kind == name).unwrap();
    let context = Context {
        kind,
        others: &Plain,
        now: Timestamp::default(),
        features,
        default_tolerations: false,
        taint_new_nodes: false,
        status_only,
    };
    let admitted = match old {
        None => context.create(&mut object),
        Some(old) => context.update(old, &mut object),
    };
    match admitted {
        Ok(()) => Ok(object),
        Err(Refusal::Invalid(errors)) => Err(errors.iter().map(ToString::to_string).collect()),
        Err(other) => panic!("{other:?}"),
    }
}

fn claim(devices: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
           "metadata": {"name": "a", "namespace": "default"}, "spec": {"devices": devices}})
}

fn template(devices: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
           "metadata": {"name": "a", "namespace": "default"}, "spec": {"spec": {"devices": devices}}})
}

fn slice(more: Value) -> Value {
    let mut slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"},
        "spec": {"driver": "d.example", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1}}});
    for (name, value) in more.as_object().unwrap() {
        slice["spec"][name] = value.clone();
    }
    slice
}

fn class(spec: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a"}, "spec": spec})
}

/// Returns requests for `count` devices of the class `gpu`.
fn gpus(name: &str, count: i64) -> Value {
    json!({"name": name, "exactly": {"deviceClassName": "gpu", "count": count}})
}

fn allocated() -> Value {
    let mut claim = admit(None, claim(json!({"requests": [gpus("r", 1)]})), false).unwrap();
    claim["status"] = json!({
        "allocation": {"devices": {"results":
            [{"request": "r", "driver": "d.example", "pool": "p", "device": "gpu-0"}]}},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
    });
    claim
}

#[test]
fn requests_get_their_defaults() {
    let requests = json!([
        {"name": "a", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "a"}]}},
        {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"},
                                         {"name": "y", "deviceClassName": "gpu", "allocationMode": "All"}]},
    ]);
    let claim = admit(None, claim(json!({"requests": requests.clone()})), false).unwrap();
    let template = admit(None, template(json!({"requests": requests})), false).unwrap();
    let devices = &claim["spec"]["devices"];
    assert_eq!(devices, &template["spec"]["spec"]["devices"]);
    for (pointer, expected) in [
        ("/requests/0/exactly/allocationMode", json!("ExactCount")),
        ("/requests/0/exactly/count", json!(1)),
        ("/requests/0/exactly/tolerations/0/operator", json!("Equal")),
        ("/requests/1/firstAvailable/0/count", json!(1)),
    ] {
        assert_eq!(devices.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert_eq!(devices.pointer("/requests/1/firstAvailable/1/count"), None);
}

#[test]
fn invalid_claims_are_refused_with_the_field() {
    let exactly = |more: Value| {
        let mut request = gpus("r", 1);
        for (name, value) in more.as_object().unwrap() {
            request["exactly"][name] = value.clone();
        }
        json!({"requests": [request]})
    };
    const SUBREQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    for (devices, expected) in [
        (
            json!({"requests": [{"name": "r"}]}),
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        ),
        (
            json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "c"},
                                 "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}]}),
            "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, \
             but multiple fields are set",
        ),
        (
            json!({"requests": [gpus("r", 1), gpus("r", 1)]}),
            "spec.devices.requests[1]: Duplicate value: \"r\"",
        ),
        (
            json!({"requests": vec![gpus("r", 1); 33]}),
            "spec.devices.requests: Too many: 33: must have at most 32 items",
        ),
        (
            exactly(json!({"deviceClassName": ""})),
            "spec.devices.requests[0].exactly.deviceClassName: Required value",
        ),
        (
            exactly(json!({"count": -1})),
            "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero",
        ),
        (
            exactly(json!({"allocationMode": "All", "count": 2})),
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        ),
        (
            exactly(json!({"allocationMode": "Some"})),
            "spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \
             \"ExactCount\"",
        ),
        (
            exactly(json!({"selectors": [{}]})),
            "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
        ),
        (
            exactly(json!({"selectors": [{"cel": {"expression": "x".repeat(10241)}}]})),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
        ),
        (
            exactly(json!({"selectors": [{"cel": {"expression": "device.vendor == 'a'"}}]})),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.vendor == 'a'\": \
             compilation failed: ERROR: <input>:1:7: undefined field 'vendor'\n | device.vendor == 'a'\n | ......^",
        ),
        (
            exactly(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]})),
            "spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"b\": must be empty for operator \
             `Exists`",
        ),
        (
            exactly(json!({"tolerations": [{"key": "a", "effect": "PreferNoSchedule"}]})),
            "spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: \"PreferNoSchedule\": supported \
             values: \"NoExecute\", \"NoSchedule\", \"None\"",
        ),
        (
            exactly(json!({"adminAccess": true})),
            "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the \
             `resource.kubernetes.io/admin-access: true` label on the containing namespace",
        ),
        (
            json!({"requests": [gpus("r", 1)], "constraints": [{"matchAttribute": "model"}]}),
            "spec.devices.constraints[0].matchAttribute: Invalid value: \"model\": a fully qualified name must be a domain \
             and a name separated by a slash",
        ),
        (
            json!({"requests": [gpus("r", 1)], "constraints": [{"requests": ["r"]}]}),
            "spec.devices.constraints[0]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is \
             required, but multiple fields are set",
        ),
        (
            json!({"requests": [gpus("r", 1)], "constraints": [{"requests": ["x"], "matchAttribute": "d.example/a"}]}),
            &format!("spec.devices.constraints[0].requests[0]: Invalid value: \"x\": {SUBREQUEST}"),
        ),
        (
            json!({"requests": [gpus("r", 1)], "config": [{"requests": ["r/s/t"], "opaque": {"driver": "d", "parameters": {}}}]}),
            &format!("spec.devices.config[0].requests[0]: Invalid value: \"r/s/t\": {SUBREQUEST}"),
        ),
        (
            json!({"config": [{"opaque": {"driver": "d", "parameters": 5}}]}),
            "spec.devices.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
        ),
        (json!({"config": [{}]}), "spec.devices.config[0].opaque: Required value"),
    ] {
        let refused = admit(None, claim(devices.clone()), false);
        assert_eq!(refused, Err(vec![expected.to_owned()]), "{devices}");
    }
}

#[test]
fn specs_of_claims_and_templates_are_immutable() {
    for (old, new) in [
        (claim(json!({"requests": [gpus("r", 1)]})), claim(json!({"requests": [gpus("r", 2)]}))),
        (template(json!({"requests": [gpus("r", 1)]})), template(json!({"requests": [gpus("r", 2)]}))),
    ] {
        let old = admit(None, old, false).unwrap();
        assert!(admit(Some(&old), old.clone(), false).is_ok());
        let errors = admit(Some(&old), new, false).unwrap_err();
        assert!(
            errors[0].starts_with("spec: Invalid value: ") && errors[0].ends_with(": field is immutable")
        );
    }
}

#[test]
fn a_template_sets_only_labels_and_annotations() {
    let mut template = template(json!({}));
    template["spec"]["metadata"] = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    assert!(admit(None, template.clone(), false).is_ok());
    template["spec"]["metadata"] = json!({"name": "x", "labels": {"a": "-"}});
    let errors = admit(None, template, false).unwrap_err();
    assert!(errors[0].starts_with("spec.metadata.labels: Invalid value"), "{errors:?}");
    assert_eq!(errors[1..], ["spec.metadata.name: Forbidden: cannot be set"]);
}

#[test]
fn an_allocation_can_be_removed_but_not_changed_and_reservations_need_it() {
    let free = admit(None, claim(json!({"requests": [gpus("r", 1)]})), false).unwrap();
    let held = allocated();
    assert_eq!(admit(Some(&free), held.clone(), true).as_ref(), Ok(&held));
    assert_eq!(
        admit(Some(&held), free.clone(), true).map(|claim| claim["status"].clone()),
        Ok(free["status"].clone())
    );

    let change = |pointer: &str, value: Value| {
        let mut claim = held.clone();
        *claim.pointer_mut(pointer).unwrap() = value;
        claim
    };
    let consumer = |uid: usize| json!({"resource": "pods", "name": "x", "uid": uid.to_string()});
    let result = |field: &str| format!("/status/allocation/devices/results/0/{field}");
    for (old, new, expected) in [
        (
            &free,
            change("/status/allocation", Value::Null),
            vec!["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        ),
        (
            &held,
            change("/status/reservedFor", (0..257).map(consumer).collect()),
            vec!["status.reservedFor: Too many: 257: must have at most 256 items"],
        ),
        (
            &held,
            change("/status/reservedFor", json!([consumer(1), consumer(1)])),
            vec!["status.reservedFor[1]: Duplicate value: \"1\""],
        ),
        (
            &held,
            change("/status/reservedFor/0/uid", json!("")),
            vec!["status.reservedFor[0].uid: Required value"],
        ),
        (
            &free,
            change(&result("request"), json!("s")),
            vec![
                "status.allocation.devices.results[0].request: Invalid value: \"s\": must be the name of a request in the \
                 claim or the name of a request and a subrequest separated by '/'",
            ],
        ),
        (
            &free,
            change(&result("driver"), json!("")),
            vec!["status.allocation.devices.results[0].driver: Required value"],
        ),
    ] {
        let refused = admit(Some(old), new, true).unwrap_err();
        assert_eq!(refused, expected);
    }
    let errors = admit(Some(&held), change(&result("device"), json!("gpu-1")), true).unwrap_err();
    assert!(
        errors[0].starts_with("status.allocation: Invalid value: ")
            && errors[0].ends_with(": field is immutable")
    );
}

#[test]
fn a_claim_that_is_being_deleted_gets_no_more_consumers() {
    let mut old = allocated();
    old["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    old["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    let mut new = old.clone();
    new["status"]["reservedFor"] = json!([]);
    assert!(admit(Some(&old), new.clone(), true).is_ok());
    new["status"]["reservedFor"] = json!([{"resource": "pods", "name": "b", "uid": "2"}]);
    let refused = admit(Some(&old), new, true).unwrap_err();
    let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    assert_eq!(refused, [format!("status.reservedFor: Forbidden: {why}")]);
}

#[test]
fn the_status_of_a_device_is_removed_with_its_allocation() {
    let device = |name: &str| json!({"driver": "d.example", "pool": "p", "device": name});
    let mut old = allocated();
    old["status"]["devices"] = json!([device("gpu-0")]);
    assert!(admit(Some(&allocated()), old.clone(), true).is_ok());
    let mut other = old.clone();
    other["status"]["devices"] = json!([device("gpu-1")]);
    let refused = admit(Some(&allocated()), other, true).unwrap_err();
    assert!(refused[0].ends_with("must be an allocated device in the claim"), "{refused:?}");
    let mut new = old.clone();
    new["status"] = json!({"devices": [device("gpu-0")]});
    assert_eq!(admit(Some(&old), new, true).unwrap()["status"], json!({}));
}

#[test]
fn invalid_slices_are_refused_with_the_field() {
    let device = |more: Value| {
        let mut device = more;
        device["name"] = "gpu-0".into();
        slice(json!({"devices": [device]}))
    };
    let named = |i: usize| json!({"name": format!("gpu-{i}")});
    let many = |count: usize| (0..count).map(named).collect::<Vec<_>>();
    let counters: Value = (0..33).map(|i| (format!("c{i}"), json!({"value": "1"}))).collect();
    let policy = |policy: Value| {
        device(json!({"allowMultipleAllocations": true,
                      "capacity": {"memory": {"value": "10Gi", "requestPolicy": policy}}}))
    };
    for (slice, expected) in [
        (slice(json!({"driver": ""})), "spec.driver: Required value"),
        (
            slice(json!({"nodeName": null})),
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
             required",
        ),
        (
            slice(json!({"allNodes": true})),
            "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
             `perDeviceNodeSelection` is required, but multiple fields are set",
        ),
        (
            slice(json!({"allNodes": false})),
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
        ),
        (
            slice(json!({"pool": {"name": "p", "resourceSliceCount": 0, "generation": 1}})),
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
        ),
        (slice(json!({"devices": many(129)})), "spec.devices: Too many: 129: must have at most 128 items"),
        (slice(json!({"devices": [named(0), named(0)]})), "spec.devices[1]: Duplicate value: \"gpu-0\""),
        (
            slice(json!({"devices": many(64).into_iter()
                .chain([json!({"name": "x", "taints": [{"key": "a", "effect": "NoSchedule"}]})]).collect::<Vec<_>>()})),
            "spec.devices: Too many: 65: must have at most 64 items",
        ),
        (
            slice(
                json!({"devices": [named(0)], "sharedCounters": [{"name": "a", "counters": {"c": {"value": "1"}}}]}),
            ),
            "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
        ),
        (
            slice(json!({"sharedCounters": [{"name": "a", "counters": counters}]})),
            "spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items",
        ),
        (
            device(json!({"attributes": {"a": {"int": 1, "bool": true}}})),
            "spec.devices[0].attributes[a]: Invalid value: {\"bool\":true,\"int\":1}: exactly one value must be specified",
        ),
        (
            device(json!({"attributes": {"a": {"strings": ["off by default"]}}})),
            "spec.devices[0].attributes[a]: Invalid value: \"\": exactly one value must be specified",
        ),
        (
            device(json!({"attributes": {"v": {"version": "1.0"}}})),
            "spec.devices[0].attributes[v].version: Invalid value: \"1.0\": must be a string compatible with semver.org \
             spec 2.0.0",
        ),
        (
            device(json!({"attributes": {"/a": {"int": 1}}})),
            "spec.devices[0].attributes: Invalid value: \"\": the domain must not be empty",
        ),
        (
            device(
                json!({"attributes": (0..33).map(|i| (format!("a{i}"), json!({"int": i}))).collect::<Value>()}),
            ),
            "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
        ),
        (
            device(json!({"capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}}})),
            "spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true",
        ),
        (
            policy(json!({"default": "1Gi", "validValues": ["2Gi"]})),
            "spec.devices[0].capacity[memory].requestPolicy.validValues: Invalid value: \"1Gi\": default value is not valid \
             according to the requestPolicy",
        ),
        (
            policy(json!({"validRange": {"min": "1Gi"}})),
            "spec.devices[0].capacity[memory].requestPolicy.default: Required value: required when validRange is defined",
        ),
        (
            policy(json!({"default": "3Gi", "validRange": {"min": "1Gi", "step": "4Gi"}})),
            "spec.devices[0].capacity[memory].requestPolicy.validRange.step: Invalid value: \"3Gi\": value is not a multiple \
             of a given step (4Gi) from (1Gi)",
        ),
        (
            device(json!({"nodeName": "n"})),
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if \
             `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        ),
        (
            device(json!({"bindingConditions": ["a"]})),
            "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use \
             bindingConditions",
        ),
        (device(json!({"taints": [{"key": "a"}]})), "spec.devices[0].taints[0].effect: Required value"),
    ] {
        let refused = admit(None, slice.clone(), false);
        assert_eq!(refused, Err(vec![expected.to_owned()]), "{slice}");
    }
}

#[test]
fn a_slice_keeps_its_driver_its_pool_and_its_node() {
    let device = json!({"name": "gpu-0", "taints": [{"key": "a", "effect": "NoSchedule"}]});
    let old = admit(None, slice(json!({"devices": [device]})), false).unwrap();
    assert_eq!(old["spec"]["devices"][0]["taints"][0]["timeAdded"], "1970-01-01T00:00:00Z");
    for (more, expected) in [
        (json!({"driver": "e.example"}), "spec.driver: Invalid value: \"e.example\": field is immutable"),
        (json!({"nodeName": "m"}), "spec.nodeName: Invalid value: \"m\": field is immutable"),
        (
            json!({"pool": {"name": "q", "resourceSliceCount": 1, "generation": 2}}),
            "spec.pool.name: Invalid value: \"q\": field is immutable",
        ),
    ] {
        assert_eq!(admit(Some(&old), slice(more), false), Err(vec![expected.to_owned()]));
    }
}

#[test]
fn invalid_classes_are_refused_with_the_field() {
    for (spec, expected) in [
        (json!({"selectors": [{}]}), "spec.selectors[0].cel: Required value"),
        (
            json!({"extendedResourceName": "gpu"}),
            "spec.extendedResourceName: Invalid value: \"gpu\": must be a valid extended resource name",
        ),
        (
            json!({"config": [{"opaque": {"driver": "", "parameters": {}}}]}),
            "spec.config[0].opaque.driver: Required value",
        ),
    ] {
        assert_eq!(admit(None, class(spec), false), Err(vec![expected.to_owned()]));
    }
    assert!(admit(None, class(json!({"extendedResourceName": "example.com/gpu"})), false).is_ok());
}

fn taint_rule(spec: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
           "metadata": {"name": "a", "resourceVersion": "1"}, "spec": spec})
}

#[test]
fn a_taint_rule_needs_a_key_and_an_effect_and_valid_names() {
    let taint = json!({"key": "a", "effect": "None"});
    let invalid =
        |field: &str, value: &str| format!("spec.deviceSelector.{field}: Invalid value: \"{value}\": ");
    for (spec, expected) in [
        (json!({"taint": taint}), None),
        (json!({"taint": taint, "deviceSelector": {}}), None),
        (
            json!({"taint": taint, "deviceSelector": {"driver": "d.example", "pool": "a/b", "device": "c"}}),
            None,
        ),
        (
            json!({"taint": taint, "deviceSelector": {"driver": ""}}),
            Some("spec.deviceSelector.driver: Required value".to_owned()),
        ),
        (json!({"taint": taint, "deviceSelector": {"pool": "a b"}}), Some(invalid("pool", "a b"))),
        (json!({"taint": taint, "deviceSelector": {"device": "a.b"}}), Some(invalid("device", "a.b"))),
        (json!({"taint": {"key": "a"}}), Some("spec.taint.effect: Required value".to_owned())),
        (
            json!({"taint": {"key": "a", "effect": "No"}}),
            Some("spec.taint.effect: Unsupported value: \"No\"".to_owned()),
        ),
    ] {
        match (admit(None, taint_rule(spec.clone()), false), expected) {
            (Ok(_), None) => {}
            (Err(errors), Some(expected)) => assert!(errors[0].starts_with(&expected), "{spec}: {errors:?}"),
            (found, expected) => panic!("{spec}: {found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn the_time_of_a_rules_taint_is_that_of_its_effect() {
    let rule = |effect: &str, time: &str| {
        taint_rule(json!({"taint": {"key": "a", "effect": effect, "timeAdded": time}}))
    };
    let created = admit(None, taint_rule(json!({"taint": {"key": "a", "effect": "None"}})), false).unwrap();
    assert_eq!(created["spec"]["taint"]["timeAdded"], "1970-01-01T00:00:00Z");
    let (old, other) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
    for (new, expected) in [
        (rule("None", old), old),
        (rule("NoSchedule", old), "1970-01-01T00:00:00Z"),
        (rule("NoSchedule", other), other),
    ] {
        let admitted = admit(Some(&rule("None", old)), new, false).unwrap();
        assert_eq!(admitted["spec"]["taint"]["timeAdded"], expected);
    }
}

#[test]
fn releases_with_declared_rules_report_these_after_the_others() {
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                         start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let features = Features::of(Release::V1_37);
    let refused = |object: Value| admit_in(features, None, object, false).unwrap_err().join("\n");
    let twice = json!({"requests": [{"name": "r", "firstAvailable": [
        {"name": "s", "deviceClassName": "c"}, {"name": "s", "deviceClassName": ""}, {"name": "S", "deviceClassName": "c"},
    ]}]});
    let place = "spec.devices.requests[0].firstAvailable";
    let second = r#"{"name":"s","deviceClassName":"","allocationMode":"ExactCount","count":1}"#;
    assert_eq!(
        refused(claim(twice)),
        format!(
            "{place}[2].name: Invalid value: \"S\": {LABEL}\n{place}[1]: Duplicate value: {second}\n\
             {place}[1].deviceClassName: Required value"
        )
    );
    let config = json!({"config": [{"opaque": {"driver": "D".repeat(64), "parameters": 1}}]});
    assert_eq!(
        refused(class(config)),
        "spec.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object\n\
         spec.config[0].opaque.driver: Too long: may not be more than 63 characters"
    );
    for (name, expected) in [
        ("gpu", "a name must be a domain-prefixed path, such as 'example.com/my-prop'"),
        ("kubernetes.io/gpu", "must not have \"kubernetes.io/\" domain"),
    ] {
        let expected = format!("spec.extendedResourceName: Invalid value: {name:?}: {expected}");
        assert_eq!(refused(class(json!({"extendedResourceName": name}))), expected);
    }
}

#[test]
fn fields_whose_gates_are_off_are_dropped_and_those_of_other_releases_are_unknown() {
    let devices = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "derivedAttributes": [
        {"name": "a/b", "expression": "1"},
    ]}}]});
    let kinds_of = |release| kinds::table(Features::of(release));
    for (release, unknown) in [(Release::V1_36, 1), (Release::V1_37, 0)] {
        let kinds = kinds_of(release);
        let kind = kinds.iter().find(|kind| kind.kind == "ResourceClaim").unwrap();
        let mut object = claim(devices.clone());
        let misfits = crate::schema::inspect(kind, &mut object);
        assert_eq!(misfits.unknown_fields().len(), unknown, "{release}");
        assert_eq!(object.pointer("/spec/devices/requests/0/exactly/derivedAttributes"), None, "{release}");
    }
}
