//! Strategic merge patches: a list of a built-in type is merged by key, united as a set or replaced, as its type
//! specifies.

use serde_json::{Map, Value};

use crate::value::shown;

/// Position of a map in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) kind: &'a str,
    /// Field that holds the map, or that holds the list containing the map; empty at the top level.
    pub(super) parent: &'a str,
}

/// Strategy for patching a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Replace,
    /// Elements with the same value in the key field are the same element.
    Merge(&'static str),
    /// The list is a set of plain values.
    Union,
}

/// Returns the strategy that the `patchStrategy` and `patchMergeKey` tags of the API types specify.
fn strategy(place: Place<'_>, field: &str) -> Strategy {
    let in_container = matches!(place.parent, "containers" | "initContainers" | "ephemeralContainers");
    Strategy::Merge(match field {
        "conditions" => "type",
        "addresses" if place.kind == "Node" => "type",
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "imagePullSecrets"
        | "schedulingGates"
        | "resourceClaims"
        | "resourceClaimStatuses" => "name",
        "env" if in_container => "name",
        "secrets" if place.kind == "ServiceAccount" => "name",
        "drivers" if place.kind == "CSINode" => "name",
        "ports" if in_container => "containerPort",
        "ports" if place.kind == "Service" && place.parent == "spec" => "port",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "topologySpreadConstraints" => "topologyKey",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "ownerReferences" | "reservedFor" => "uid",
        "finalizers" | "podCIDRs" => return Strategy::Union,
        _ => return Strategy::Replace,
    })
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into a map.
pub(super) fn merge(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    place: Place<'_>,
) -> Result<(), String> {
    match patch.remove(DIRECTIVE).map_or("merge".to_owned(), |directive| shown(&directive)).as_str() {
        "merge" => {}
        "replace" => {
            *original = patch;
            return Ok(());
        }
        "delete" => {
            original.clear();
            return Ok(());
        }
        other => return Err(format!("unknown patch type found: {other}")),
    }
    if let Some(Value::Array(keys)) = patch.remove(RETAIN) {
        original.retain(|key, _| keys.iter().any(|kept| kept == key));
    }
    let (directives, fields): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(name, _)| name.starts_with(ORDER) || name.starts_with(DELETE));
    for (name, values) in &directives {
        if let (Some(field), Value::Array(values)) = (name.strip_prefix(DELETE), values)
            && let Some(Value::Array(list)) = original.get_mut(field)
        {
            list.retain(|element| !values.contains(element));
        }
    }
    let ordered = directives.iter().filter_map(|(name, order)| {
        let field = name.strip_prefix(ORDER)?;
        let before = original.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        Some((field, order.as_array()?, before))
    });
    let ordered: Vec<_> = ordered.collect();
    for (name, value) in fields {
        merge_field(original, name, value, place)?;
    }
    for (field, order, before) in ordered {
        if let Some(Value::Array(list)) = original.get_mut(field) {
            *list = arranged(std::mem::take(list), order, &before, strategy(place, field));
        }
    }
    Ok(())
}

fn merge_field(
    original: &mut Map<String, Value>,
    name: String,
    value: Value,
    place: Place<'_>,
) -> Result<(), String> {
    match value {
        Value::Null => {
            original.remove(&name);
        }
        // A disruption budget's selector is replaced as a whole.
        Value::Object(patch) if place.kind == "PodDisruptionBudget" && name == "selector" => {
            original.insert(name, Value::Object(patch));
        }
        Value::Object(patch) => {
            let inner = Place { kind: place.kind, parent: &name };
            let mut map = match original.remove(&name) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let deleted = patch.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
            merge(&mut map, patch, inner)?;
            if !deleted {
                original.insert(name, Value::Object(map));
            }
        }
        Value::Array(patch) => {
            let old = match original.remove(&name) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            let strategy = strategy(place, &name);
            let (order, before) = (patch.clone(), old.clone());
            let list = match strategy {
                Strategy::Replace => patch,
                Strategy::Union => arranged(union(old, patch), &order, &before, strategy),
                Strategy::Merge(key) => {
                    let merged = by_key(old, patch, key, Place { kind: place.kind, parent: &name })?;
                    arranged(merged, &order, &before, strategy)
                }
            };
            original.insert(name, Value::Array(list));
        }
        plain => {
            original.insert(name, plain);
        }
    }
    Ok(())
}

fn union(mut list: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    for value in patch {
        if !list.contains(&value) {
            list.push(value);
        }
    }
    list
}

fn by_key(
    mut list: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    place: Place<'_>,
) -> Result<Vec<Value>, String> {
    let directive = |element: &Value| element.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|element| directive(element).as_deref() == Some("replace")) {
        return Ok(patch.into_iter().filter(|element| directive(element).is_none()).collect());
    }
    for element in patch {
        let directive = directive(&element);
        let Value::Object(element) = element else {
            return Err(format!("the elements of {} must be objects", place.parent));
        };
        let Some(identity) = element.get(key).cloned() else {
            return Err(format!(
                "map: {} does not contain declared merge key: {key}",
                Value::Object(element)
            ));
        };
        if directive.as_deref() == Some("delete") {
            list.retain(|old| old.get(key) != Some(&identity));
            continue;
        }
        let found =
            list.iter_mut().find(|old| old.get(key) == Some(&identity)).and_then(Value::as_object_mut);
        match found {
            Some(old) => merge(old, element, place)?,
            None => {
                let mut new = Map::new();
                merge(&mut new, element, place)?;
                list.push(Value::Object(new));
            }
        }
    }
    Ok(list)
}

/// Sorts the elements named by `order` into that order. The other elements keep their order, and each precedes the
/// elements that it preceded in `before`.
fn arranged(merged: Vec<Value>, order: &[Value], before: &[Value], strategy: Strategy) -> Vec<Value> {
    let same = |a: &Value, b: &Value| match strategy {
        Strategy::Merge(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        _ => a == b,
    };
    let place = |list: &[Value], one: &Value| list.iter().position(|other| same(other, one));
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| place(order, element).is_some());
    named.sort_by_key(|element| place(order, element));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    let mut list = Vec::new();
    while let Some(other) = others.peek() {
        let is_first = named.peek().is_none_or(|named| {
            let places = place(before, other).zip(place(before, named));
            places.is_some_and(|(other, named)| other < named)
        });
        list.extend(if is_first { others.next() } else { named.next() });
    }
    list.extend(named);
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(kind: &str, original: Value, patch: Value) -> Result<Value, String> {
        let (Value::Object(mut original), Value::Object(patch)) = (original, patch) else {
            panic!("objects")
        };
        merge(&mut original, patch, Place { kind, parent: "" })?;
        Ok(Value::Object(original))
    }

    #[test]
    fn patches_merge_as_in_kube_apiserver() {
        for (name, original, patch, expected) in [
            (
                "elements merge by key",
                json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}]}}),
                json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "env": [{"name": "Y"}], "image": null}]}}),
                json!({"spec": {"containers": [{"name": "b"},
                                               {"name": "a", "env": [{"name": "Y"}, {"name": "X", "value": "1"}]}]}}),
            ),
            (
                "an element is deleted",
                json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}}),
                json!({"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}),
                json!({"status": {"conditions": [{"type": "B"}]}}),
            ),
            (
                "a list is replaced on demand",
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "b"}]}}),
                json!({"spec": {"containers": [{"name": "b"}]}}),
            ),
            (
                "a map is replaced on demand",
                json!({"spec": {"nodeSelector": {"a": "b"}}}),
                json!({"spec": {"nodeSelector": {"c": "d", "$patch": "replace"}}}),
                json!({"spec": {"nodeSelector": {"c": "d"}}}),
            ),
            (
                "atomic lists are replaced",
                json!({"spec": {"tolerations": [{"key": "a"}], "taints": [{"key": "a"}]}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "taints": [{"key": "b"}]}}),
                json!({"spec": {"tolerations": [{"key": "b"}], "taints": [{"key": "b"}]}}),
            ),
            (
                "sets of strings are merged",
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["c", "b"]}}),
            ),
            (
                "keys that are not retained are removed",
                json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
                json!({"spec": {"strategy": {"type": "Recreate", "$retainKeys": ["type"]}}}),
                json!({"spec": {"strategy": {"type": "Recreate"}}}),
            ),
            (
                "elements named by $setElementOrder are put in that order, and other elements stay",
                json!({"spec": {"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]}}),
                json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
                                "containers": [{"name": "c"}]}}),
                json!({"spec": {"containers": [{"name": "c"}, {"name": "server"}, {"name": "b"}, {"name": "a"}]}}),
            ),
            (
                "ports of containers merge by containerPort",
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]}}),
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "protocol": "UDP"}]}]}}),
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x", "protocol": "UDP"}]}]}}),
            ),
        ] {
            assert_eq!(merged("Pod", original, patch), Ok(expected), "{name}");
        }
        let original = json!({"spec": {"ports": [{"port": 1, "name": "x"}]}});
        let patch = json!({"spec": {"ports": [{"port": 2}]}});
        let both = json!({"spec": {"ports": [{"port": 2}, {"port": 1, "name": "x"}]}});
        assert_eq!(merged("Service", original, patch), Ok(both));
    }

    #[test]
    fn a_patch_that_cannot_be_merged_is_refused_with_a_reason() {
        let containers = |element: Value| merged("Pod", json!({}), json!({"containers": [element]}));
        assert!(containers(json!({"image": "x"})).unwrap_err().contains("merge key: name"));
        assert!(containers(json!(5)).is_err());
        assert!(
            merged("Pod", json!({}), json!({"$patch": "explode"}))
                .unwrap_err()
                .contains("unknown patch type")
        );
    }
}
