//! Patch formats: JSON patch, merge patch and strategic merge patch.

mod strategic;

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::{
    extent,
    status::{Failure, Result},
};

/// Maximum number of operations in a JSON patch.
const MOST_OPERATIONS: usize = 10_000;
/// Maximum number of bytes that a JSON patch may copy and move.
const MOST_COPIED: usize = 3 << 20;

/// Returns true if the content type is that of server-side apply.
pub(crate) fn is_apply(content_type: &str) -> bool {
    content_type == "application/apply-patch+yaml"
}

/// A parsed patch.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7396.
    Merge(Value),
    /// Merges lists by the merge keys of the built-in types.
    Strategic(Map<String, Value>),
}

impl Patch {
    /// Parses a patch of the given content type. Custom resources do not support strategic patches.
    pub(crate) fn parse(content_type: &str, custom: bool, body: &Value) -> Result<Self> {
        match content_type {
            "application/json-patch+json" => {
                let Value::Array(operations) = body else {
                    return Err(Failure::bad_request(
                        "error decoding patch: json: a JSON patch must be a list of operations",
                    ));
                };
                let patch = serde_json::from_value(body.clone());
                let patch: json_patch::Patch = patch.map_err(|e| {
                    tracing::debug!(operations = operations.len(), error = %e, "A JSON patch cannot be read");
                    refused()
                })?;
                if patch.0.len() > MOST_OPERATIONS {
                    let message = format!(
                        "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                        patch.0.len()
                    );
                    return Err(Failure::new(413, "RequestEntityTooLarge", message));
                }
                Ok(Self::Json(patch))
            }
            "application/merge-patch+json" => match body {
                Value::Object(_) => Ok(Self::Merge(body.clone())),
                _ => Err(Failure::bad_request("error decoding patch: json: a merge patch must be an object")),
            },
            "application/strategic-merge-patch+json" if !custom => match body {
                Value::Object(patch) => Ok(Self::Strategic(patch.clone())),
                _ => Err(Failure::bad_request("json: a strategic merge patch must be an object")),
            },
            _ => {
                let strategic = if custom { "" } else { ", application/strategic-merge-patch+json" };
                Err(Failure::unsupported_media(format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json{strategic}, application/apply-patch+yaml"
                )))
            }
        }
    }

    /// Applies the patch to an object of the given kind.
    pub(crate) fn apply(&self, kind: &str, object: &mut Value) -> Result<()> {
        match self {
            Self::Json(patch) => apply_json(patch, object)?,
            Self::Merge(patch) => json_patch::merge(object, patch),
            Self::Strategic(patch) => {
                let patch = patch.clone();
                let place = strategic::Place { kind, parent: "" };
                let map = object.as_object_mut().ok_or_else(not_an_object)?;
                strategic::merge(map, patch, place).map_err(Failure::internal)?;
            }
        }
        if object.is_object() { Ok(()) } else { Err(not_an_object()) }
    }
}

fn not_an_object() -> Failure {
    Failure::bad_request("the patch result is not an object")
}

/// Returns the failure for a JSON patch that cannot be parsed or applied. As in kube-apiserver, the message does not
/// mention the cause.
fn refused() -> Failure {
    Failure::new(422, "Invalid", "the server rejected our request due to an error in our request")
}

fn apply_json(patch: &json_patch::Patch, object: &mut Value) -> Result<()> {
    let refused = |why: String| {
        tracing::debug!(why, "A JSON patch cannot be applied");
        refused()
    };
    let mut copied = 0;
    for operation in &patch.0 {
        let from = match operation {
            PatchOperation::Copy(copy) => object.pointer(copy.from.as_str()),
            PatchOperation::Move(moved) => object.pointer(moved.from.as_str()),
            _ => None,
        };
        // Values that the patch itself contains are at most as deep as a request body.
        let levels = extent::DEEPEST.checked_sub(operation.path().count());
        let taken = levels.and_then(|levels| from.map_or(Some(0), |value| extent::bytes(value, levels)));
        copied += taken.ok_or_else(|| refused("the object is too deep".into()))?;
        if copied > MOST_COPIED {
            return Err(refused(format!("the patch copies more than {MOST_COPIED} bytes")));
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|e| refused(e.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(content_type: &str, object: &Value, patch: &Value) -> Result<Value> {
        let mut object = object.clone();
        Patch::parse(content_type, false, patch)?.apply("Pod", &mut object)?;
        Ok(object)
    }

    #[test]
    fn a_json_patch_applies_its_operations_in_order() {
        let object = json!({"spec": {"a": 1}});
        let patch = json!([{"op": "test", "path": "/spec/a", "value": 1}, {"op": "replace", "path": "/spec/a", "value": 2}]);
        assert_eq!(patched("application/json-patch+json", &object, &patch), Ok(json!({"spec": {"a": 2}})));
        let failing = json!([{"op": "test", "path": "/spec/a", "value": 9}]);
        assert_eq!(patched("application/json-patch+json", &object, &failing).unwrap_err().code, 422);
        let garbage = json!({"op": 1});
        assert_eq!(patched("application/json-patch+json", &object, &garbage).unwrap_err().code, 400);
        let nothing = json!([{"op": "replace", "path": "", "value": 5}]);
        assert_eq!(patched("application/json-patch+json", &object, &nothing).unwrap_err().code, 400);
    }

    #[test]
    fn a_patch_that_repeatedly_doubles_the_object_is_stopped() {
        let object = json!({"a": {"text": "x".repeat(1000)}});
        let doubling: Vec<Value> =
            (0..64).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a/k{i}")})).collect();
        assert_eq!(patched("application/json-patch+json", &object, &json!(doubling)).unwrap_err().code, 422);
    }

    #[test]
    fn a_patch_that_repeatedly_deepens_the_object_is_stopped() {
        let way = "/a".repeat(60);
        let skeleton = (0..60).fold(json!({}), |value, _| json!({"a": value}));
        let mut deepening = vec![json!({"op": "add", "path": "/x", "value": skeleton})];
        for _ in 0..1000 {
            deepening.push(json!({"op": "add", "path": "/y", "value": skeleton}));
            deepening.push(json!({"op": "move", "from": "/x", "path": format!("/y{way}/a")}));
            deepening.push(json!({"op": "move", "from": "/y", "path": "/x"}));
        }
        let failure = patched("application/json-patch+json", &json!({}), &json!(deepening)).unwrap_err();
        assert_eq!(failure.code, 422, "{failure}");
    }

    #[test]
    fn a_merge_patch_replaces_lists_and_removes_fields_that_it_sets_to_null() {
        let object = json!({"spec": {"list": [1, 2], "gone": 1}});
        let patch = json!({"spec": {"list": [3], "gone": null}});
        assert_eq!(
            patched("application/merge-patch+json", &object, &patch),
            Ok(json!({"spec": {"list": [3]}}))
        );
    }

    #[test]
    fn custom_resources_do_not_support_strategic_patches() {
        let strategic = "application/strategic-merge-patch+json";
        assert_eq!(
            Patch::parse(strategic, true, &json!({})).unwrap_err().code,
            415,
            "custom resources have no merge keys"
        );
    }
}
