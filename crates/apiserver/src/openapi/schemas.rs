//! Schemas of an OpenAPI document, built from the table of types and from custom resource definitions.

use std::collections::BTreeSet;

use harbormaster_api::Release;
use serde_json::{Map, Value, json};

use crate::{
    kinds::{Kind, Kinds},
    schema::{self, Field, Identity, Shape, Type},
    value::{list, remove, text},
};

/// Prefix of references from one schema to another.
const PLACE: &str = "#/components/schemas/";
/// Type of the metadata of every object.
const METADATA: &str = "meta.ObjectMeta";

/// Returns the schemas of the given kinds and of all types that they contain.
pub(super) fn schemas<'a>(kinds: &Kinds, of: impl Iterator<Item = &'a Kind>) -> Map<String, Value> {
    let mut all = Schemas::default();
    for kind in of {
        match schema::type_of(kind) {
            Some(name) => {
                all.add(&name, kind.release);
                if let Some(Value::Object(schema)) = all.schemas.get_mut(&name_of(&name)) {
                    name_kind(schema, kind);
                }
            }
            None => {
                all.add(METADATA, kind.release);
                let name = name_of_custom(kind);
                all.schemas.insert(name, of_definition(kinds, kind));
            }
        }
    }
    all.schemas
}

#[derive(Default)]
struct Schemas {
    schemas: Map<String, Value>,
    known: BTreeSet<String>,
}

impl Schemas {
    /// Adds the schemas of a type and of the types of its fields, as they are in a release.
    fn add(&mut self, name: &str, release: Release) {
        if !self.known.insert(name.to_owned()) {
            return;
        }
        let schema = match schema::find(name) {
            Some(of) => {
                let fields = of.all_fields(release);
                let composed = fields.iter().filter(|field| !is_plain(field.of));
                composed.for_each(|field| self.add(field.of, release));
                of_type(of, &fields, release)
            }
            None => leaf(name),
        };
        self.schemas.insert(name_of(name), schema);
    }
}

fn of_type(of: &Type, fields: &[&Field], release: Release) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), of_field(field))).collect();
    let required = fields.iter().filter(|field| field.is_required(release));
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if of.whole {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

fn of_field(field: &Field) -> Value {
    let element = match field.of {
        "s" => json!({"type": "string"}),
        "b" => json!({"type": "string", "format": "byte"}),
        "i" => json!({"type": "integer", "format": "int32"}),
        "l" => json!({"type": "integer", "format": "int64"}),
        "t" => json!({"type": "boolean"}),
        "d" => json!({"type": "number", "format": "double"}),
        of => json!({"$ref": format!("{PLACE}{}", name_of(of))}),
    };
    let mut schema = match field.shape {
        Shape::List => json!({"type": "array", "items": element}),
        Shape::Map => json!({"type": "object", "additionalProperties": element}),
        Shape::Single | Shape::NonZero | Shape::Inline => element,
    };
    if field.whole {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    match (&field.identity, field.shape) {
        (Identity::Whole, Shape::List) => schema["x-kubernetes-list-type"] = "atomic".into(),
        (Identity::Values, _) => schema["x-kubernetes-list-type"] = "set".into(),
        (Identity::Keys(keys), _) => {
            schema["x-kubernetes-list-type"] = "map".into();
            schema["x-kubernetes-list-map-keys"] = keys.iter().map(|(key, _)| *key).collect();
        }
        (Identity::Whole, _) => {}
    }
    schema
}

fn is_plain(of: &str) -> bool {
    of.len() == 1
}

/// Returns the schema of a type that has no fields.
fn leaf(name: &str) -> Value {
    match name {
        "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "Time" => json!({"type": "string", "format": "date-time"}),
        "IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        _ => json!({"type": "object"}),
    }
}

/// Returns OpenAPI's name for a type of the table.
fn name_of(name: &str) -> String {
    match name.split_once('.') {
        Some(("meta", name)) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        Some(("apiextensions", name)) => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}")
        }
        Some(("apiregistration", name)) => {
            format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.{name}")
        }
        Some(("autoscalingv2", name)) => format!("io.k8s.api.autoscaling.v2.{name}"),
        Some((package, name)) => format!("io.k8s.api.{package}.v1.{name}"),
        None => match name {
            "Quantity" => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            "IntOrString" => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
            "RawExtension" => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
            "SchemaOrMore" => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool".to_owned()
            }
            name => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        },
    }
}

/// Returns OpenAPI's name for a custom resource.
fn name_of_custom(kind: &Kind) -> String {
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

/// Returns the schema that a definition specifies for its resource, plus the fields common to all objects.
fn of_definition(kinds: &Kinds, kind: &Kind) -> Value {
    let definitions = kinds.named("customresourcedefinitions.apiextensions.k8s.io");
    let definition = definitions.and_then(|kind_of| kind_of.shelf.get(&kind.qualified()));
    let definition = definition.map(|object| object.value()).unwrap_or_default();
    let versions = list(&definition, "/spec/versions");
    let version = versions.iter().find(|version| text(version, "/name") == kind.version);
    let schema = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")).cloned();
    let Some(Value::Object(mut schema)) = schema else { return json!({"type": "object"}) };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties["metadata"] = json!({"$ref": format!("{PLACE}{}", name_of(METADATA))});
    name_kind(&mut schema, kind);
    let mut schema = Value::Object(schema);
    remove(&mut schema, "x-kubernetes-preserve-unknown-fields");
    schema
}

/// Adds to a schema the kind of the objects that it describes.
fn name_kind(schema: &mut Map<String, Value>, kind: &Kind) {
    let (group, version, name) = (&kind.group, &kind.version, &kind.kind);
    schema.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!([{"group": group, "version": version, "kind": name}]),
    );
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for field in ["apiVersion", "kind"] {
        properties[field] = json!({"type": "string"});
    }
}
