//! Objects that are read and written in another form than they are stored in.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    kinds::{Form, Kind},
    object::Object,
    schema,
    status::{Failure, Result},
};

/// `v1` events and `events.k8s.io/v1` events name the same things differently.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
];

/// From the form of the request to the stored one; `kind` and `apiVersion` are written in any case.
pub(crate) fn to_stored(kind: &Kind, object: &mut Value) {
    let version = match &kind.form {
        Form::Stored => kind.api_version(),
        Form::NewEvents => {
            rename(object, |(old, new)| (new, old));
            "v1".to_owned()
        }
        Form::Version(stored) => stored.clone(),
    };
    name(kind, object, version);
}

/// From the stored form to that of the kind.
pub(crate) fn from_stored(kind: &Kind, object: &mut Value) {
    match kind.form {
        Form::Stored => return,
        Form::NewEvents => {
            rename(object, |both| both);
            if let Some(map) = object.as_object_mut() {
                map.retain(|name, value| !(name.starts_with("reporting") && value == ""));
            }
        }
        Form::Version(_) => {}
    }
    name(kind, object, kind.api_version());
}

/// The JSON of an object in the form of the kind.
pub(crate) fn json(kind: &Kind, object: &Object) -> Bytes {
    if kind.form == Form::Stored {
        return object.json().clone();
    }
    shown(kind, object).to_string().into()
}

/// An object in the form of the kind.
pub(crate) fn shown(kind: &Kind, object: &Object) -> Value {
    let mut value = object.value();
    from_stored(kind, &mut value);
    value
}

fn name(kind: &Kind, object: &mut Value, version: String) {
    if let Some(map) = object.as_object_mut() {
        map.insert("kind".into(), kind.kind.as_str().into());
        map.insert("apiVersion".into(), version.into());
    }
}

fn rename(object: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    if let Some(map) = object.as_object_mut() {
        for (from, to) in EVENT_FIELDS.map(direction) {
            if let Some(value) = map.remove(from) {
                map.insert(to.to_owned(), value);
            }
        }
    }
}

/// Whether a body may be an object of that kind: what it says of itself must agree.
pub(crate) fn check(kind: &Kind, object: &Value) -> Result<()> {
    let Some(map) = object.as_object() else {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: it is no \
             JSON object",
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
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    match map.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(other) => {
            let into = format!("Go struct field {}.metadata of type v1.ObjectMeta", kind.kind);
            Err(Failure::bad_request(kind.cannot_be_handled(&schema::wrong(other, &into))))
        }
    }
}
