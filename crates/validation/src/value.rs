//! Reading and writing JSON values of unchecked form: missing values and those of another type read as empty.

use serde_json::{Map, Value, json};

/// Text at a pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a pointer, or 0.
pub fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns true if the value at a pointer is true.
pub fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer) == Some(&Value::Bool(true))
}

/// Returns the value at a pointer, unless it is null.
pub fn present<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|value| !value.is_null())
}

/// The elements of a list.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The elements of a list, to be changed.
pub fn list_mut<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    value.pointer_mut(pointer).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The fields of a map with their values.
pub fn entries<'a>(
    value: &'a Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + Clone + use<'a> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

/// A value as a text: texts without quotes, anything else as JSON.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns true if an object has a condition of that type with status True.
pub fn has_condition(object: &Value, name: &str) -> bool {
    let mut conditions = list(object, "/status/conditions").iter();
    conditions.any(|condition| text(condition, "/type") == name && text(condition, "/status") == "True")
}

/// The map under a name, made if it is missing. A value of another type is left alone and the map is lost.
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

/// Takes a field out of a map.
pub fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut()?.remove(name)
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The owner that manages an object.
pub fn controller(object: &Value) -> Option<&Value> {
    let owners = list(object, "/metadata/ownerReferences");
    owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// A reference to the owner that manages an object.
pub fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    }])
}
