//! Checks of custom resources.

use harbormaster_api::Str;
use harbormaster_framework::resource::{Resource, ResourceKind, ResourceScope};
use serde_json::{Map, Value, json};

use crate::custom::raw;

/// Checks that a type matches its definition: the names, version and scope must be the same, and the type must accept
/// objects with only the required fields and objects with all fields. `definition` is a `CustomResourceDefinition` as
/// JSON.
///
/// # Panics
/// If the check fails.
pub fn resource_fits_definition<R: Resource + Clone>(definition: &Value) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let scope = match R::SCOPE {
        ResourceScope::Namespaced => "Namespaced",
        ResourceScope::Cluster => "Cluster",
    };
    for (field, says, has) in [
        ("spec.group", R::GROUP, text(&spec["group"])),
        ("spec.names.kind", R::KIND, text(&spec["names"]["kind"])),
        ("spec.names.plural", R::PLURAL, text(&spec["names"]["plural"])),
        ("spec.scope", scope, text(&spec["scope"])),
    ] {
        assert!(says == has, "{}: the definition has {field} {has:?}, the type says {says:?}", R::KIND);
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let version = versions.iter().find(|version| version["name"] == R::VERSION && version["served"] == true);
    let Some(version) = version else {
        panic!("{}: the definition serves no version {:?}", R::KIND, R::VERSION)
    };
    let schema = &version["schema"]["openAPIV3Schema"];
    for (extent_name, extent) in
        [("only the required fields", Extent::Minimal), ("every field", Extent::Full)]
    {
        let mut object = example(schema, extent);
        if !object.is_object() {
            object = json!({});
        }
        object["metadata"] = json!({ "name": "some", "uid": "uid-some" });
        if R::SCOPE == ResourceScope::Namespaced {
            object["metadata"]["namespace"] = json!("default");
        }
        if let Err(why) = ResourceKind::of::<R>().decode(&raw::<R>(&object)) {
            panic!("{}: cannot decode a valid object with {extent_name}: {why}: {object}", R::KIND);
        }
    }
}

/// The fields that a generated object contains.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    Minimal,
    Full,
}

/// Generates a value of the type that the schema specifies. Ignores patterns and maximums.
fn example(schema: &Value, extent: Extent) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|all| all.first()) {
        return first.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return if extent == Extent::Minimal { json!(1) } else { json!("50%") };
    }
    match schema["type"].as_str() {
        Some("object") => example_object(schema, extent),
        Some("array") => {
            let items = schema["minItems"].as_u64().unwrap_or(0).max(u64::from(extent == Extent::Full));
            (0..items).map(|_| example(&schema["items"], extent)).collect()
        }
        Some("boolean") => json!(extent == Extent::Full),
        Some("integer") => schema["minimum"].as_i64().unwrap_or(1).max(1).into(),
        Some("number") => schema["minimum"].as_f64().unwrap_or(1.5).into(),
        Some("string") => "x".into(),
        _ => Value::Object(Map::new()),
    }
}

fn example_object(schema: &Value, extent: Extent) -> Value {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let wanted = properties.filter(|(name, _)| extent == Extent::Full || required.contains(&name.as_str()));
    let mut object: Map<String, Value> = wanted
        .filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()))
        .map(|(name, schema)| (name.clone(), example(schema, extent)))
        .collect();
    if extent == Extent::Full && schema["additionalProperties"].is_object() {
        object.insert(Str::from("some").to_string(), example(&schema["additionalProperties"], extent));
    }
    Value::Object(object)
}
