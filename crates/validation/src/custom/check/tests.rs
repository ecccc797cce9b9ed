use serde_json::json;

use super::*;

fn schema() -> Schema {
    Schema::parse(&json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "exclusiveMaximum": true},
            "share": {"type": "number", "multipleOf": 0.5},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "port": {"x-kubernetes-int-or-string": true},
            "ready": {"type": "boolean", "nullable": true},
            "since": {"type": "string", "format": "date-time"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 2},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
            "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        }},
    }}))
}

fn told(spec: Value) -> String {
    let all = schema().check("", &json!({"spec": spec}), None);
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn valid_values_are_accepted() {
    for spec in [
        json!({"name": "ab"}),
        json!({"name": "abcd", "size": 8, "share": 1.5, "mode": "B", "port": "http", "ready": null}),
        json!({"name": "ab", "size": 2.0, "share": 2, "port": 80, "since": "2026-01-01T00:00:00Z"}),
        json!({"name": "ab", "set": ["a", "b"], "map": [{"k": "a"}, {"k": "b"}], "either": {"b": "x"}}),
    ] {
        assert_eq!(told(spec.clone()), "", "{spec}");
    }
}

#[test]
fn errors_have_the_wording_of_the_api_server() {
    for (more, expected) in [
        (
            json!({"name": null}),
            r#"spec.name: Invalid value: "null": spec.name in body must be of type string: "null""#,
        ),
        (
            json!({"name": 5}),
            r#"spec.name: Invalid value: "integer": spec.name in body must be of type string: "integer""#,
        ),
        (
            json!({"name": "a"}),
            r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#,
        ),
        (json!({"name": "abcde"}), "spec.name: Too long: may not be more than 4 bytes"),
        (
            json!({"name": "AB"}),
            r#"spec.name: Invalid value: "AB": spec.name in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (json!({"size": 9}), "spec.size: Invalid value: 9: spec.size in body should be less than 9"),
        (
            json!({"size": 1.5}),
            "spec.size: Invalid value: \"float64\": spec.size in body must be of type int32: \"float64\"; <nil>: Invalid \
             value: \"\": Checked value must be of type integer with format int32 in spec.size",
        ),
        (
            json!({"share": 0.3}),
            "spec.share: Invalid value: 0.3: spec.share in body should be a multiple of 0.5",
        ),
        (json!({"mode": "C"}), r#"spec.mode: Unsupported value: "C": supported values: "A", "B""#),
        (
            json!({"port": true}),
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"since": "now"}),
            r#"spec.since: Invalid value: "now": spec.since in body must be of type date-time: "now""#,
        ),
        (json!({"set": ["a", "a"]}), r#"spec.set[1]: Duplicate value: "a""#),
        (json!({"set": ["a", "b", "c"]}), "spec.set: Too many: 3: must have at most 2 items"),
        (json!({"map": [{"k": "a"}, {"k": "a", "v": 1}]}), r#"spec.map[1]: Duplicate value: {"k":"a"}"#),
        (
            json!({"either": {}}),
            "<nil>: Invalid value: \"\": \"spec.either\" must validate one and only one schema (oneOf). Found none valid; \
             spec.either.a: Required value",
        ),
        (
            json!({"either": {"a": "x", "b": "y"}}),
            "<nil>: Invalid value: \"\": \"spec.either\" must validate one and only one schema (oneOf). Found 2 valid \
             alternatives",
        ),
    ] {
        let mut spec = json!({"name": "ab"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(told(spec), expected);
    }
    let missing = schema().check("", &json!({}), None);
    assert_eq!(missing[0].to_string(), "spec: Required value");
    assert_eq!(told(json!({})), "spec.name: Required value");
}

#[test]
fn only_the_changed_parts_of_an_object_are_checked() {
    let old =
        json!({"spec": {"name": "TOO LONG", "size": 1, "map": [{"k": "a", "v": "x"}, {"k": "b", "v": 1}]}});
    let mut new = old.clone();
    new["spec"]["size"] = json!(2);
    new["spec"]["map"] = json!([{"k": "b", "v": 2}, {"k": "a", "v": "x"}]);
    assert!(schema().check("", &new, Some(&old)).is_empty());
    new["spec"]["size"] = json!(0);
    assert_eq!(schema().check("", &new, Some(&old)).len(), 1);
}

#[test]
fn messages_about_a_status_alone_use_paths_relative_to_the_status() {
    let schema = Schema::parse(&json!({"properties": {"status": {"type": "object", "properties": {
        "phase": {"type": "string"}}}}}));
    let errors = schema.status().unwrap().check("status", &json!({"phase": 1}), None);
    let expected =
        r#"status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#;
    assert_eq!(errors[0].to_string(), expected);
}
