//! Objects whose stored form differs from the form that clients read and write.

use serde_json::Value;

use crate::{
    admission::autoscaler,
    kinds::{Form, Kind},
};

/// Fields that have different names in `v1` events and in `events.k8s.io/v1` events.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
];

/// Converts an object from the form of the request to the stored form. Always writes `kind` and `apiVersion`.
pub fn to_stored(kind: &Kind, object: &mut Value) {
    let version = match &kind.form {
        Form::Stored => kind.api_version(),
        Form::NewEvents => {
            rename(object, |(old, new)| (new, old));
            "v1".to_owned()
        }
        Form::OldAutoscalers => {
            autoscaler::to_new(object);
            "autoscaling/v2".to_owned()
        }
        Form::Version(stored) => stored.clone(),
    };
    name(kind, object, version);
}

/// Converts an object from the stored form to the kind's form.
pub fn from_stored(kind: &Kind, object: &mut Value) {
    match kind.form {
        Form::Stored => return,
        Form::NewEvents => {
            rename(object, |both| both);
            if let Some(map) = object.as_object_mut() {
                map.retain(|name, value| !(name.starts_with("reporting") && value == ""));
            }
        }
        Form::OldAutoscalers => autoscaler::to_old(object),
        Form::Version(_) => {
            if let Some(custom) = &kind.custom {
                custom.schema.shape(object);
            }
        }
    }
    name(kind, object, kind.api_version());
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
