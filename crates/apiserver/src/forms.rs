//! Objects whose wire form differs from their stored form.

use bytes::Bytes;
pub(crate) use harbormaster_validation::forms::{from_stored, to_stored};
use serde_json::{Map, Value};

use crate::{
    kinds::{Form, Kind},
    object::StoredObject,
    schema,
    status::{About, Failure, FieldError, Result},
    value::text,
};

/// Returns the JSON of an object in the form in which the kind is served.
pub(crate) fn json(kind: &Kind, object: &StoredObject) -> Bytes {
    if kind.form == Form::Stored {
        return object.json().clone();
    }
    let mut value = shown(kind, object);
    let fields = value.as_object_mut().map(std::mem::take).unwrap_or_default();
    let others: Map<String, Value> =
        fields.into_iter().filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion")).collect();
    // As in the stored form, these two come first, so that lists of built-in kinds can leave them out.
    let mut json = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\"", kind.kind, kind.api_version());
    if !others.is_empty() {
        json.push(',');
    }
    json.push_str(&Value::Object(others).to_string()[1..]);
    json.into()
}

/// Returns an object in the form in which the kind is served.
pub(crate) fn shown(kind: &Kind, object: &StoredObject) -> Value {
    let mut value = object.value();
    from_stored(kind, &mut value);
    value
}

/// Returns the failure for an object of another API version.
pub(crate) fn other_version(given: &str, expected: &str) -> Failure {
    Failure::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Refuses a body that is not an object, whose `kind` or `apiVersion` contradicts the kind, or whose `metadata` is
/// not an object.
pub(crate) fn check(kind: &Kind, object: &Value) -> Result<()> {
    let Some(map) = object.as_object() else {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: it is not \
             a JSON object",
            kind.kind
        )));
    };
    let said = |map: &Map<String, Value>, name: &str| match map.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => {
            Err(Failure::bad_request(format!("the object provided is unrecognized: {name} is {other}")))
        }
    };
    let (version, expected) = (said(map, "apiVersion")?, kind.api_version());
    let given = said(map, "kind")?;
    if kind.is_custom() && !given.is_empty() && given != kind.kind {
        let about = About { kind: &given, ..kind.about(text(object, "/metadata/name")) };
        let error = FieldError::invalid("kind", given.as_str(), format!("must be {}", kind.kind));
        return Err(Failure::invalid(about, &[error]));
    }
    if !given.is_empty() && given != kind.kind {
        let version = if version.is_empty() { &expected } else { &version };
        let short = version.rsplit('/').next().unwrap_or_default();
        let group = kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
        return Err(Failure::bad_request(format!(
            "{given} in version \"{version}\" cannot be handled as a {0}: converting ({short}.{given}) to ({group}.{0}): \
             unknown conversion",
            kind.kind
        )));
    }
    if !version.is_empty() && version != expected {
        return Err(other_version(&version, &expected));
    }
    match map.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(other) => {
            let into = format!("Go struct field {}.metadata of type v1.ObjectMeta", kind.kind);
            Err(Failure::bad_request(kind.cannot_be_handled(&schema::wrong(other, &into))))
        }
    }
}
