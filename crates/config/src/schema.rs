//! JSON schema of the configuration for editors, generated from the decoded types.
//!
//! schemars reads serde's attributes and the doc comments of fields. This module adds the rules that these sources do
//! not express: the version, the arguments of each plugin, the names of plugins, and the rejection of unknown fields.

use harbormaster_api::Release;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::{
    config::{API_VERSION, KIND},
    in_tree::in_tree,
    load::FileConfig,
    plugin_args::PluginArgs,
};

/// Returns the JSON schema (draft 7, which editors support best) of `KubeSchedulerConfiguration`.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    let args = PluginArgs::schemas(&mut generator);
    let mut schema = generator.into_root_schema_for::<FileConfig>().to_value();
    schema["title"] = json!(KIND);
    schema["description"] = json!("Configuration of Harbormaster, a drop-in replacement for kube-scheduler.");
    schema["required"] = json!(["apiVersion", "kind"]);
    schema["properties"]["apiVersion"] = json!({ "const": API_VERSION });
    schema["properties"]["kind"] = json!({ "const": KIND });
    let definitions = &mut schema["definitions"];
    let mut by_plugin = Vec::new();
    for (kind, args) in args {
        let plugin = kind.strip_suffix("Args").unwrap_or(kind);
        let is_plugin = json!({ "properties": { "name": { "const": plugin } }, "required": ["name"] });
        by_plugin.push(json!({ "if": is_plugin, "then": { "properties": { "args": args } } }));
        // The arguments of a plugin may contain a version and a kind.
        definitions[kind]["properties"]["apiVersion"] = json!({ "const": API_VERSION });
        definitions[kind]["properties"]["kind"] = json!({ "const": kind });
    }
    definitions["PluginConfig"]["allOf"] = json!(by_plugin);
    let names: Vec<&str> = in_tree(Release::NEWEST).map(|plugin| plugin.name).collect();
    for definition in ["PluginConfig", "PluginRef"] {
        // `{}` allows all other names: out-of-tree plugins and `*`.
        definitions[definition]["properties"]["name"]["anyOf"] = json!([{ "enum": names }, {}]);
    }
    tidy(&mut schema);
    schema
}

/// Forbids unknown fields and removes empty defaults and number formats.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("type").is_some_and(|kind| kind == "object") && object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            if object.get("default").is_some_and(|default| default.is_null() || default == "") {
                object.remove("default");
            }
            object.remove("format");
            // The keys of `properties` are field names, not schema keywords.
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                properties.values_mut().for_each(tidy);
            }
            let rest =
                object.iter_mut().filter(|(key, _)| !["properties", "default"].contains(&key.as_str()));
            rest.for_each(|(_, value)| tidy(value));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_top_level_field_that_is_written_is_in_the_schema() {
        let (schema, written) =
            (json_schema(), crate::KubeSchedulerConfiguration::default_config().to_value(Release::NEWEST));
        for field in written.as_object().unwrap().keys() {
            assert!(schema["properties"].get(field).is_some(), "{field}");
        }
        assert_eq!(schema["additionalProperties"], false);
        let lease = &schema["definitions"]["LeaderElection"]["properties"]["leaseDuration"];
        assert_eq!(lease["default"], "15s");
        assert!(lease["description"].as_str().is_some_and(|text| text.contains("lease")), "{lease}");
    }

    #[test]
    fn every_field_that_is_not_self_explanatory_has_a_description() {
        let schema = json_schema();
        let definitions = schema["definitions"].as_object().unwrap();
        for (name, definition) in definitions.iter().chain([(&"".to_owned(), &schema)]) {
            let properties = definition.get("properties").and_then(Value::as_object).into_iter().flatten();
            for (field, property) in properties {
                let is_self_explanatory =
                    property.get("const").is_some() || name == "ExtenderTls" || name == "Plugins";
                let described = property.get("description").is_some();
                assert!(described || is_self_explanatory, "{name}.{field}: {property}");
            }
        }
    }
}
