//! Defaults and checks of metadata, for all kinds.

use harbormaster_api::{
    Release,
    labels::{label_value_errors, qualified_name_errors, subdomain_errors},
};
use serde_json::{Map, Value, json};

use super::{Errors, checks::check_form};
use crate::{
    FieldError,
    kinds::{GENERATION, Kind, LABEL_NAME, PATH_NAME, Rules, STATUS, UNCHANGED_IS_0},
    value::{entries, list, map, text},
};

/// The only finalizers without a domain that built-in kinds may have.
const FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// Maximum total size of an object's annotations, in bytes.
const MOST_ANNOTATIONS: usize = 256 << 10;

/// Sets, in a new object, the metadata that only the server may set.
pub fn stamp(kind: &Kind, object: &mut Value, uid: &str, now: &str) {
    let Some(metadata) = map(object, "metadata") else { return };
    for name in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"]
    {
        metadata.remove(name);
    }
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), now.into());
    if kind.has(GENERATION) && !kind.has(UNCHANGED_IS_0) {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Checks the metadata of a new object.
pub(super) fn check(kind: &Kind, object: &Value, errors: &mut Errors) {
    let (name, prefix) = (text(object, "/metadata/name"), text(object, "/metadata/generateName"));
    if !prefix.is_empty() {
        let wrong = name_errors(kind, prefix.strip_suffix('-').unwrap_or(prefix));
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid("metadata.generateName", prefix, why)));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = name_errors(kind, name);
        let wrong = wrong.into_iter().map(|why| FieldError::invalid("metadata.name", name, why));
        // Only device classes declare the form of their names.
        match kind.rules {
            Rules::DeviceClass => errors.declared(|errors| errors.extend(wrong)),
            _ => errors.extend(wrong),
        }
    }
    check_maps(object, errors);
    check_owners(list(object, "/metadata/ownerReferences"), errors);
    for (i, finalizer) in list(object, "/metadata/finalizers").iter().filter_map(Value::as_str).enumerate() {
        check_form(finalizer, "metadata.finalizers", qualified_name_errors, errors);
        if !kind.is_custom() && !finalizer.contains('/') && !FINALIZERS.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{i}]"), finalizer, why));
        }
    }
}

fn check_owners(owners: &[Value], errors: &mut Errors) {
    const PLACE: &str = "metadata.ownerReferences";
    // From 1.37 on, an error names the reference.
    let is_exact = errors.release() >= Release::V1_37;
    for (i, owner) in owners.iter().enumerate() {
        let place = if is_exact { format!("{PLACE}[{i}]") } else { PLACE.to_owned() };
        for part in ["apiVersion", "kind", "name", "uid"] {
            let (value, field) = (text(owner, &format!("/{part}")), format!("{place}.{part}"));
            let is_version = part == "apiVersion";
            let (if_empty, if_wrong) = match is_exact {
                true => ("must not be empty", "must be <group>/<version> or <version>"),
                false if is_version => ("version must not be empty", "version must not be empty"),
                false => ("must not be empty", ""),
            };
            if value.is_empty() && is_exact {
                errors.push(FieldError::required(field, if_empty));
            } else if value.is_empty() {
                errors.push(FieldError::invalid(field, "", if_empty));
            } else if is_version && !is_group_version(value) {
                errors.push(FieldError::invalid(field, value, if_wrong));
            }
        }
    }
}

/// Returns true for a version, with or without a group.
fn is_group_version(version: &str) -> bool {
    version.matches('/').count() < 2 && !version.ends_with('/')
}

/// Returns warnings about finalizers that are added to a custom resource.
pub(super) fn finalizer_warnings(old: Option<&Value>, object: &Value) -> Vec<String> {
    const PLACE: &str = "metadata.finalizers";
    let had = old.map_or(&[] as &[Value], |old| list(old, "/metadata/finalizers"));
    let new = list(object, "/metadata/finalizers").iter().filter(|name| !had.contains(name));
    let plain =
        new.filter_map(Value::as_str).filter(|name| !name.contains('/') && !FINALIZERS.contains(name));
    plain
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "{PLACE}: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other \
                 finalizer writers"
            )
        })
        .collect()
}

fn check_maps(object: &Value, errors: &mut Errors) {
    check_labels(&object["metadata"]["labels"], "metadata.labels", errors);
    check_annotations(&object["metadata"]["annotations"], "metadata.annotations", errors);
}

fn check_annotations(annotations: &Value, field: &str, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in entries(annotations, "") {
        size += key.len() + value.as_str().map_or(0, str::len);
        check_form(key, field, |key| qualified_name_errors(&key.to_lowercase()), errors);
    }
    if size > MOST_ANNOTATIONS {
        errors.push(FieldError::too_long(field, MOST_ANNOTATIONS));
    }
}

/// Checks the metadata of a template from which only labels and annotations are copied to the objects.
pub(super) fn check_template(metadata: &Value, place: &str, errors: &mut Errors) {
    check_annotations(&metadata["annotations"], &format!("{place}.annotations"), errors);
    check_labels(&metadata["labels"], &format!("{place}.labels"), errors);
    for name in [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ] {
        if metadata.get(name).is_some_and(|value| !value.is_null() && value != "" && value != 0) {
            // kube-apiserver derives the path from the name of the Go field.
            let shown = if name == "uid" { "uID" } else { name };
            errors.push(FieldError::forbidden(format!("{place}.{shown}"), "cannot be set"));
        }
    }
}

/// Checks the keys and values of labels.
pub(super) fn check_labels(labels: &Value, field: &str, errors: &mut Errors) {
    for (key, value) in entries(labels, "") {
        let value = value.as_str().unwrap_or_default();
        check_form(key, field, qualified_name_errors, errors);
        check_form(value, field, label_value_errors, errors);
    }
}

fn name_errors(kind: &Kind, name: &str) -> Vec<String> {
    match kind.rules {
        _ if kind.has(PATH_NAME) => path_segment_errors(name),
        _ if kind.has(LABEL_NAME) => label_errors(name),
        Rules::DeviceClass => subdomain_errors(name),
        _ => long_name_errors(name),
    }
}

/// Returns the errors in a string that must fit into a path.
pub(super) fn path_segment_errors(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let found = ['/', '%'].into_iter().filter(|c| name.contains(*c));
    found.map(|c| format!("may not contain '{c}'")).collect()
}

/// Returns the errors in a string that must be a DNS subdomain. The message for most fields limits the length in
/// characters. For prefixes of label keys and names of device classes, it limits the length in bytes, as
/// [`subdomain_errors`] does.
pub(super) fn long_name_errors(name: &str) -> Vec<String> {
    let errors = subdomain_errors(name).into_iter();
    errors.map(|why| why.replace("253 bytes", "253 characters")).collect()
}

/// Returns the errors in a string that must be a DNS label (RFC 1035) and so must begin with a letter.
pub(crate) fn label_1035_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(u8::is_ascii_lowercase) && bytes.last().is_some_and(inner);
    if !ends || !bytes.iter().all(|b| inner(b) || *b == b'-') {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
             is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

pub(super) fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = bytes.first().is_some_and(inner) && bytes.last().is_some_and(inner);
    if subdomain_errors(text).is_empty() && text.contains('.') {
        errors.push("must not contain dots".to_owned());
    } else if !ends || !bytes.iter().all(|b| inner(b) || *b == b'-') {
        errors.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// Checks a DNS label, by a declared rule.
pub(super) fn check_declared_label(name: &str, place: &str, errors: &mut Errors) {
    let form =
        if errors.has_declarations() { |name: &str| in_bytes(label_errors(name)) } else { label_errors };
    errors.declared(|errors| check_form(name, place, form, errors));
}

/// Returns errors in the words of declared rules, which limit the length in bytes.
pub(super) fn in_bytes(errors: Vec<String>) -> Vec<String> {
    errors.into_iter().map(|why| why.replace("63 characters", "63 bytes")).collect()
}

/// Restores the fields that no update may change, increments the generation if necessary, and checks the rest.
pub(super) fn check_update(kind: &Kind, old: &Value, object: &mut Value, errors: &mut Errors) {
    let empty = Map::new();
    let before = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    if let Some(metadata) = map(object, "metadata") {
        for name in ["uid", "name", "namespace"] {
            let (old, new) = (before.get(name), metadata.get(name));
            let given = new.is_some_and(|new| !new.is_null() && new != "");
            if given && new != old {
                let new = new.cloned().unwrap_or_default();
                errors.push(FieldError::invalid(format!("metadata.{name}"), new, "field is immutable"));
            }
        }
        for name in [
            "uid",
            "name",
            "namespace",
            "creationTimestamp",
            "generateName",
            "selfLink",
            "generation",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            match before.get(name) {
                Some(value) => metadata.insert(name.to_owned(), value.clone()),
                None => metadata.remove(name),
            };
        }
        let had = list(old, "/metadata/finalizers");
        let has = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
        let names: Vec<String> = has.filter(|name| !had.contains(name)).map(ToString::to_string).collect();
        if before.contains_key("deletionTimestamp") && !names.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                names.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", why));
        }
    }
    if kind.has(GENERATION)
        && kind.rules != Rules::PriorityClass
        && contents(kind, old) != contents(kind, object)
    {
        let generation = before.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
        object["metadata"]["generation"] = json!(generation);
    }
    check_maps(object, errors);
}

/// Returns the fields whose changes the generation counts. The status counts only for custom resources without a
/// `status` subresource.
fn contents<'a>(kind: &Kind, object: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let has_status = !kind.is_custom() || kind.has(STATUS);
    let counts = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => !has_status,
        _ => true,
    };
    object.as_object().into_iter().flatten().filter(|(name, _)| counts(name)).collect()
}
