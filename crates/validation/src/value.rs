//! Reading and writing of unchecked JSON values. A missing value, or a value of the wrong type, reads as empty.

use serde_json::{Map, Value, json};

/// Returns the value at a JSON pointer. Faster than [`Value::pointer`], which copies every step of the pointer.
fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.is_empty() {
        return Some(value);
    }
    let steps = pointer.strip_prefix('/').filter(|steps| !steps.contains('~'));
    let Some(steps) = steps else { return value.pointer(pointer) };
    steps.split('/').try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) if step == "0" || !step.starts_with(['0', '+']) => {
            items.get(step.parse::<usize>().ok()?)
        }
        _ => None,
    })
}

/// Returns the value at a JSON pointer, mutably.
fn at_mut<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    if pointer.is_empty() || pointer.contains('~') {
        return value.pointer_mut(pointer);
    }
    let steps = pointer.strip_prefix('/')?;
    steps.split('/').try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(items) if step == "0" || !step.starts_with(['0', '+']) => {
            items.get_mut(step.parse::<usize>().ok()?)
        }
        _ => None,
    })
}

/// Returns the string at a pointer, or an empty string.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer at a pointer, or 0.
pub fn number(value: &Value, pointer: &str) -> i64 {
    at(value, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns true if the value at a pointer is true.
pub fn is_true(value: &Value, pointer: &str) -> bool {
    at(value, pointer) == Some(&Value::Bool(true))
}

/// Returns the value at a pointer, unless it is null.
pub fn present<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    at(value, pointer).filter(|value| !value.is_null())
}

/// Returns the elements of the list at a pointer.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the elements of the list at a pointer, mutably.
pub fn list_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    at_mut(value, pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Returns the fields of the map at a pointer, with their values.
pub fn entries<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + Clone + use<'a> {
    at(value, pointer).and_then(Value::as_object).into_iter().flatten()
}

/// Converts a value to a string: strings without quotes, anything else as JSON.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns true if an object has a condition of the given type with status True.
pub fn has_condition(object: &Value, name: &str) -> bool {
    let mut conditions = list(object, "/status/conditions").iter();
    conditions.any(|condition| text(condition, "/type") == name && text(condition, "/status") == "True")
}

/// Returns the map in a field, which is created if it is missing or null. Returns `None` if the field has a value of
/// another type.
pub fn map<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    default(value, name, Map::new());
    value.get_mut(name)?.as_object_mut()
}

/// Sets a field that is missing or null.
pub fn default(value: &mut Value, name: &str, to: impl Into<Value>) {
    if let Some(map) = value.as_object_mut() {
        let slot = map.entry(name).or_insert(Value::Null);
        if slot.is_null() {
            *slot = to.into();
        }
    }
}

/// Removes a field from a map and returns its value.
pub fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut()?.remove(name)
}

/// Returns `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Returns `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// Returns `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Returns the reference to the owner that manages an object.
pub fn controller(object: &Value) -> Option<&Value> {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Returns the owner references of an object that `owner` manages.
pub fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_lead_where_those_of_the_json_crate_lead() {
        let mut value = json!({"a": {"b": [1, {"c": 2}], "": 3, "x/y": 4}, "0": [5]});
        for pointer in [
            "",
            "/",
            "a",
            "/a",
            "/a/b/1/c",
            "/a/b/01",
            "/a/b/+1",
            "/a/b/2",
            "/a/",
            "/a/x~1y",
            "/0/0",
            "/a/b/1/c/d",
        ] {
            assert_eq!(at(&value, pointer), value.pointer(pointer), "{pointer}");
            let expected = value.pointer(pointer).cloned();
            assert_eq!(at_mut(&mut value, pointer).cloned(), expected, "{pointer}");
        }
    }
}
