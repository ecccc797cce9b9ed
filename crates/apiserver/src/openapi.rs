//! The part of OpenAPI that kubectl reads. It announces server-side field validation, and provides `kubectl explain`
//! with everything except the descriptions of built-in types. kubectl 1.27 looks for field validation only in version 2
//! of OpenAPI, in protobuf.

mod schemas;

use serde_json::{Map, Value, json};

use crate::{
    kinds::{Kind, Kinds, REVIEW},
    status::{Failure, Result},
};

/// Media type that kubectl requests to get version 2.
pub(crate) const ACCEPTED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// Media type of the response. It differs from [`ACCEPTED`], which is not well-formed.
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Handles `/openapi/v2`. The document has one patch operation for each kind except reviews, with the parameter that
/// kubectl looks for. The field numbers come from gnostic's `OpenAPIv2.proto`.
pub(crate) fn version_2(kinds: &Kinds, kubernetes_version: &str) -> Vec<u8> {
    let paths = kinds.all().iter().filter(|kind| !kind.has(REVIEW)).map(|kind| {
        let parameter = [text(2, "query"), text(4, "fieldValidation"), text(6, "string")].concat();
        let parameter = nested(&[8, 1, 2, 3], parameter);
        let (group, version, name) = (&kind.group, &kind.version, &kind.kind);
        let gvk = format!("group: \"{group}\"\nversion: {version}\nkind: {name}\n");
        let gvk = [text(1, "x-kubernetes-group-version-kind"), nested(&[2], text(2, &gvk))].concat();
        let patch = [parameter, nested(&[13], gvk)].concat();
        let path = format!("/{}/{}", kind.api_version(), kind.plural);
        nested(&[8, 2], [text(1, &path), nested(&[2, 8], patch)].concat())
    });
    let info = [text(1, "Kubernetes"), text(2, kubernetes_version)].concat();
    [text(1, "2.0"), nested(&[2], info)].into_iter().chain(paths).flatten().collect()
}

/// Wraps a message in nested fields; `fields` contains the field numbers, the outermost first.
fn nested(fields: &[u8], mut message: Vec<u8>) -> Vec<u8> {
    for field in fields.iter().rev() {
        let mut outer = vec![field << 3 | 2];
        let mut length = message.len();
        while length > 0x7f {
            outer.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.append(&mut message);
        message = outer;
    }
    message
}

fn text(field: u8, text: &str) -> Vec<u8> {
    nested(&[field], text.as_bytes().to_vec())
}

/// Handles `/openapi/v3` and its documents. They announce field validation and contain the schemas of the kinds.
pub(crate) fn version_3(kinds: &Kinds, path: &[String], kubernetes_version: &str) -> Result<Value> {
    let place = |group: &str, version: &str| match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    };
    let all = kinds.versions();
    let path = path.join("/");
    if path.is_empty() {
        let documents: Map<String, Value> = all
            .into_iter()
            .map(|(group, version)| {
                let place = place(group, version);
                // The URL has no hash: documents change with custom resource definitions and must not be cached.
                let url = format!("/openapi/v3/{place}");
                (place, json!({"serverRelativeURL": url}))
            })
            .collect();
        return Ok(json!({"paths": documents}));
    }
    let found = all.into_iter().find(|(group, version)| place(group, version) == path);
    let (group, version) = found.ok_or_else(Failure::no_such_page)?;
    let paths: Map<String, Value> = kinds
        .of_version(group, version)
        .filter(|kind| !kind.has(REVIEW))
        .flat_map(|kind| {
            let namespaces = if kind.is_namespaced() { "namespaces/{namespace}/" } else { "" };
            let collection = format!("/{path}/{namespaces}{}", kind.plural);
            let object = format!("{collection}/{{name}}");
            // The path of a list across all namespaces. For a cluster-scoped kind, it equals `collection`.
            let all = format!("/{path}/{}", kind.plural);
            let list = json!({"get": operation(kind, "list")});
            [(collection, list.clone()), (all, list), (object, json!({"patch": patch_operation(kind)}))]
        })
        .collect();
    Ok(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version},
        "paths": paths,
        "components": {"schemas": schemas::schemas(kinds, kinds.of_version(group, version).map(AsRef::as_ref))},
    }))
}

fn patch_operation(kind: &Kind) -> Value {
    let query =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let mut patch = operation(kind, "patch");
    patch["parameters"] =
        json!([query("dryRun"), query("fieldManager"), query("fieldValidation"), query("force")]);
    patch
}

fn operation(kind: &Kind, action: &str) -> Value {
    json!({
        "description": format!("{action} objects of the kind {}", kind.kind),
        "operationId": format!("{action}{}", kind.kind),
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    })
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{
        Release,
        features::{Feature, Features},
    };

    use super::*;
    use crate::shelf::Versions;

    fn kinds() -> Kinds {
        let features = Features::of(Release::V1_37).with(Feature::GenericWorkload, true);
        Kinds::of_table(features, &Versions::new(), 1)
    }

    #[test]
    fn nested_messages_are_preceded_by_their_lengths() {
        assert_eq!(text(1, "ab"), [0x0a, 2, b'a', b'b']);
        assert_eq!(nested(&[2, 1], vec![7; 200])[..6], [0x12, 203, 1, 0x0a, 200, 1]);
        let document = version_2(&kinds(), "v1.36.1");
        assert!(document.windows(15).any(|window| window == b"fieldValidation"));
    }

    #[test]
    fn a_document_contains_the_schemas_that_its_schemas_reference() {
        let kinds = kinds();
        for (group, version) in kinds.versions() {
            let place = if group.is_empty() { vec!["api", version] } else { vec!["apis", group, version] };
            let place: Vec<String> = place.into_iter().map(str::to_owned).collect();
            let document = version_3(&kinds, &place, "v1.36.1").unwrap();
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let text = document.to_string();
            for name in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next())
            {
                assert!(schemas.contains_key(name), "{group}/{version}: {name}");
            }
            for kind in kinds.of_version(group, version).filter(|kind| !kind.has(REVIEW)) {
                let is_of = |schema: &Value| {
                    let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                    kinds.is_some_and(|all| all.iter().any(|one| one["kind"] == kind.kind.as_str()))
                };
                assert!(schemas.values().any(is_of), "{group}/{version}: {}", kind.kind);
            }
        }
    }
}
