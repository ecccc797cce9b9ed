//! Custom resources: versions of their definitions, and the treatment of their objects.
//!
//! Reading order: [`Schema`] (the structural schema of a version), `shape` (pruning and defaulting), `check`
//! (validation), `format` (formats of strings). [`admission`](crate::admission) checks the definitions themselves.
//!
//! Rules in CEL (`x-kubernetes-validations`) are accepted but not applied, and conversion webhooks are not called:
//! conversions change only the `apiVersion`.

mod check;
mod format;
mod schema;
mod shape;

use serde_json::Value;

pub(crate) use format::is_known as is_known_format;
pub use schema::Schema;
pub(crate) use shape::Pruned;

use crate::{
    FieldError,
    value::{is_true, shown, text},
};

/// One version of a custom resource, as its definition describes it.
#[derive(Debug)]
pub struct Custom {
    /// Schema of the objects.
    pub schema: Schema,
    /// Paths of the fields that the `scale` subresource reads and writes, if the version has this subresource.
    pub scale: Option<ScalePaths>,
    /// Deprecation warning for users of the version; empty if there is none.
    pub warning: String,
    /// True if the definition is being deleted. If so, no new objects may be created.
    pub ending: bool,
}

/// JSON paths (`.spec.replicas`) of the fields that the `scale` subresource reads and writes.
#[derive(Clone, Debug, Default)]
pub struct ScalePaths {
    /// Path of the desired number of replicas.
    pub spec: String,
    /// Path of the current number of replicas.
    pub status: String,
    /// Path of the label selector in string form; empty if there is none.
    pub selector: String,
}

impl ScalePaths {
    /// Returns the JSON pointer for a simple JSON path.
    pub fn pointer(path: &str) -> String {
        path.replace('.', "/")
    }
}

impl Custom {
    /// Reads a version of a definition.
    pub(crate) fn new(definition: &Value, version: &Value) -> Self {
        let empty = Value::Null;
        let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
            spec: text(scale, "/specReplicasPath").to_owned(),
            status: text(scale, "/statusReplicasPath").to_owned(),
            selector: text(scale, "/labelSelectorPath").to_owned(),
        });
        let own = version.get("deprecationWarning").and_then(Value::as_str);
        let warning = match (is_true(version, "/deprecated"), own) {
            (false, _) => String::new(),
            (true, Some(own)) => own.to_owned(),
            (true, None) => {
                let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
                format!("{group}/{} {kind} is deprecated", text(version, "/name"))
            }
        };
        Self {
            schema: Schema::parse(version.pointer("/schema/openAPIV3Schema").unwrap_or(&empty)),
            scale,
            warning,
            ending: definition.pointer("/metadata/deletionTimestamp").is_some(),
        }
    }

    /// Checks an object of the version. `status_only` is true if only the status can be changed.
    pub(crate) fn check(
        &self,
        status_only: bool,
        object: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        if !status_only {
            errors.extend(self.schema.check("", object, old));
        } else if let (Some(schema), Some(status)) = (self.schema.status(), object.get("status")) {
            errors.extend(schema.check("status", status, old.and_then(|old| old.get("status"))));
        }
        if let Some(scale) = &self.scale {
            check_replicas(object, &scale.status, errors);
            if !status_only {
                check_replicas(object, &scale.spec, errors);
            }
        }
    }
}

fn check_replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let number = match object.pointer(&ScalePaths::pointer(path)) {
        None => 0,
        Some(value) => match value.as_i64() {
            Some(number) => number,
            None => {
                let is = match value {
                    Value::Null => "<nil>",
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "float64",
                    Value::String(_) => "string",
                    Value::Array(_) => "[]interface {}",
                    Value::Object(_) => "map[string]interface {}",
                };
                let value = shown(value);
                let why = format!("{path} accessor error: {value} is of the type {is}, expected int64");
                errors.push(FieldError::invalid(path, 0, why));
                return;
            }
        },
    };
    let why = match number {
        ..0 => "should be a non-negative integer",
        n if n > i64::from(i32::MAX) => "should be less than or equal to 2147483647",
        _ => return,
    };
    errors.push(FieldError::invalid(path, number, why));
}
