//! Traversal of objects and configurations, field by field: listing fields, comparing, merging and pruning.

use serde_json::{Map, Value};

use super::fields::{Fields, field, shown as step_shown};
use crate::{
    ownership::{InnerField, Parts, Plain, TypedPosition},
    schema::Identity,
    value::shown,
};

/// Step into a list element that has none of the keys.
const NO_KEY: &str = "k:{}";

/// Differences between two objects.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Fields that are new or have a new value.
    pub(super) written: Fields,
    pub(super) removed: Fields,
}

/// Returns the fields of a value.
pub(super) fn fields_of(place: TypedPosition<'_>, value: &Value) -> Fields {
    let mut fields = Fields::default();
    match (place.parts(value), value) {
        (Parts::Fields, Value::Object(map)) => {
            for (name, value) in map {
                let InnerField { place, named } = inner(place, name);
                let mut below = fields_of(place, value);
                below.own |= !named || value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if !below.is_empty() {
                    fields.below.insert(field(name), below);
                }
            }
        }
        (Parts::Elements(identity), Value::Array(list)) => {
            for element in list {
                let mut below = fields_of(place.element(), element);
                below.own = true;
                fields.below.entry(step(&identity, element)).or_default().add(&below);
            }
        }
        // A list or map that is missing or has the wrong type has no fields.
        (Parts::Elements(_), _) | (Parts::Fields, Value::Null) => {}
        (Parts::None | Parts::Fields, _) => fields.own = true,
    }
    fields
}

/// Returns the differences between two values, of which at most one is missing.
pub(super) fn compare(place: TypedPosition<'_>, old: Option<&Value>, new: Option<&Value>) -> Changes {
    let mut changes = Changes::default();
    walk(place, old, new, &mut Vec::new(), &mut changes);
    changes
}

fn walk<'v>(
    place: TypedPosition<'_>,
    old: Option<&'v Value>,
    new: Option<&'v Value>,
    path: &mut Vec<String>,
    changes: &mut Changes,
) {
    let Some(one) = new.filter(|new| !new.is_null()).or(old).or(new) else { return };
    let is_leaf = match place.parts(one) {
        Parts::None => true,
        Parts::Fields => {
            let mut names: Vec<&String> =
                old.into_iter().chain(new).filter_map(Value::as_object).flat_map(Map::keys).collect();
            names.sort_unstable();
            names.dedup();
            for name in &names {
                let get = |value: Option<&'v Value>| value.and_then(|value| value.get(name.as_str()));
                path.push(field(name));
                walk(inner(place, name).place, get(old), get(new), path, changes);
                path.pop();
            }
            names.is_empty()
        }
        Parts::Elements(identity) => {
            let (old, new) = (steps(&identity, old), steps(&identity, new));
            for (at, old) in &old {
                path.push(at.clone());
                walk(place.element(), Some(old), found(&new, at), path, changes);
                path.pop();
            }
            for (at, new) in new.iter().filter(|(at, _)| found(&old, at).is_none()) {
                path.push(at.clone());
                walk(place.element(), None, Some(new), path, changes);
                path.pop();
            }
            old.is_empty() && new.is_empty()
        }
    };
    match (old, new) {
        (None, _) => changes.written.insert(path),
        (_, None) => changes.removed.insert(path),
        (Some(old), Some(new)) if is_leaf && old != new => changes.written.insert(path),
        _ => {}
    }
}

/// Merges a configuration into a value. Lists whose elements have an identity take on the order of the configuration.
pub(super) fn merge(place: TypedPosition<'_>, live: Option<Value>, config: &Value) -> Value {
    let Some(live) = live else { return config.clone() };
    match (place.parts(if config.is_null() { &live } else { config }), live, config) {
        (Parts::Fields, live @ Value::Object(_), Value::Null)
        | (Parts::Elements(_), live @ Value::Array(_), Value::Null) => live,
        (Parts::Fields, Value::Object(mut live), Value::Object(config)) => {
            for (name, value) in config {
                let merged = merge(inner(place, name).place, live.remove(name), value);
                live.insert(name.clone(), merged);
            }
            Value::Object(live)
        }
        (Parts::Elements(identity), live @ Value::Array(_), config @ Value::Array(_)) => {
            let (live, config) = (steps(&identity, Some(&live)), steps(&identity, Some(config)));
            Value::Array(merge_lists(place.element(), &live, &config))
        }
        (_, _, config) => config.clone(),
    }
}

fn merge_lists(
    place: TypedPosition<'_>,
    live: &[(String, &Value)],
    config: &[(String, &Value)],
) -> Vec<Value> {
    let mut list = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut c) = (0, 0);
    while l < live.len() || c < config.len() {
        if let Some((at, element)) = live.get(l) {
            let mut shared = config[c..].iter().filter(|(step, _)| found(live, step).is_some());
            let is_next = shared.next().is_some_and(|(next, _)| next == at);
            if found(config, at).is_none() {
                // An element that only the object has stays ahead of the shared elements that follow it in the object.
                list.push((*element).clone());
            }
            if !is_next {
                l += 1;
                continue;
            }
        }
        if let Some((at, element)) = config.get(c) {
            list.push(merge(place, found(live, at).cloned(), element));
            c += 1;
        }
    }
    list
}

/// Removes the fields of the previous apply (`last`), except those that a manager still owns (`kept`).
pub(super) fn prune(place: TypedPosition<'_>, value: &mut Value, last: &Fields, kept: &Fields) {
    let nothing = Fields::default();
    // A manager owns a field that the type declares if the manager owns any part of the field.
    let has = |fields: Option<&Fields>, named: bool| {
        fields.is_some_and(|fields| fields.own || (named && !fields.below.is_empty()))
    };
    let is_gone = |place: TypedPosition<'_>, at: &str, named: bool, value: &mut Value| {
        let (last, kept) = (last.at(at), kept.at(at));
        let goes = has(last, named) && !has(kept, named);
        if let (false, Some(last)) = (goes, last) {
            prune(place, value, last, kept.unwrap_or(&nothing));
        }
        goes
    };
    match (place.parts(value), &mut *value) {
        (Parts::Fields, Value::Object(map)) => {
            let before = map.len();
            map.retain(|name, value| {
                let InnerField { place, named } = inner(place, name);
                !is_gone(place, &field(name), named, value)
            });
            if map.is_empty() && before > 0 {
                *value = Value::Null;
            }
        }
        (Parts::Elements(identity), Value::Array(list)) => {
            let before = list.len();
            list.retain_mut(|element| {
                let at = step(&identity, element);
                !is_gone(place.element(), &at, false, element)
            });
            if list.is_empty() && before > 0 {
                *value = Value::Null;
            }
        }
        _ => {}
    }
}

/// Returns the first error that prevents a configuration from being applied: an unknown field, a value of the wrong
/// type or a duplicate element.
pub(super) fn mistake(place: TypedPosition<'_>, value: &Value, path: &str) -> Option<String> {
    match (place.parts(value), value) {
        (_, Value::Null) => None,
        (Parts::Fields, Value::Object(map)) => map.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match place.field(name) {
                Some(inner) => mistake(inner.place, value, &path),
                None => Some(format!("{path}: field not declared in schema")),
            }
        }),
        (Parts::Elements(identity), Value::Array(list)) => {
            let steps: Vec<String> = list.iter().map(|element| step(&identity, element)).collect();
            steps.iter().zip(list).enumerate().find_map(|(at, (own, element))| {
                if own == NO_KEY && let Identity::Keys(keys) = &identity {
                    let keys: Vec<String> = keys.iter().map(|(key, _)| format!("{key:?}")).collect();
                    let keys = keys.join(" ");
                    return Some(format!(
                        "{path}: element {at}: associative list with keys has an element that omits all key fields [{keys}] \
                         (and doesn't have default values for any key fields)"
                    ));
                }
                let name = step_shown(own);
                if steps[..at].contains(own) {
                    return Some(format!("{path}: duplicate entries for key {name}"));
                }
                mistake(place.element(), element, &format!("{path}{name}"))
            })
        }
        (Parts::None, value) => {
            let expected = match (place.plain()?, value) {
                (Plain::Text, Value::String(_))
                | (Plain::Number, Value::Number(_))
                | (Plain::Truth, Value::Bool(_)) => return None,
                (Plain::Text, _) => format!("string, got &value.valueUnstructured{{Value:{value}}}"),
                (Plain::Number, _) => format!("numeric (int or float), got {}", name_in_go(value)),
                (Plain::Truth, _) => format!("boolean, got &{{{}}}", shown(value)),
            };
            Some(format!("{path}: expected {expected}"))
        }
        (Parts::Fields, other) => Some(format!("{path}: expected map, got &{{{}}}", shown(other))),
        (Parts::Elements(_), other) => Some(format!("{path}: expected list, got &{{{}}}", shown(other))),
    }
}

/// Returns Go's name for the type of a value.
fn name_in_go(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Returns the named field of a position. A field that the type does not declare has no type.
fn inner<'a>(place: TypedPosition<'a>, name: &str) -> InnerField<'a> {
    place.field(name).unwrap_or(InnerField { place: TypedPosition::Untyped, named: false })
}

/// Returns the elements of a list, each with the step into it.
fn steps<'a>(identity: &Identity<'_>, list: Option<&'a Value>) -> Vec<(String, &'a Value)> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|element| (step(identity, element), element)).collect()
}

/// Returns the first element with the given step.
fn found<'a>(list: &[(String, &'a Value)], step: &str) -> Option<&'a Value> {
    list.iter().find(|(other, _)| other == step).map(|(_, element)| *element)
}

/// Returns the step into an element.
fn step(identity: &Identity<'_>, element: &Value) -> String {
    let Identity::Keys(keys) = identity else { return format!("v:{element}") };
    let mut named: Vec<(&str, Value)> = keys
        .iter()
        .filter_map(|(key, default)| {
            let said = element.get(key).filter(|value| !value.is_null()).cloned();
            Some((*key, said.or_else(|| default.map(Value::from))?))
        })
        .collect();
    named.sort_unstable_by_key(|(key, _)| *key);
    let map: Map<String, Value> = named.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    format!("k:{}", Value::Object(map))
}

#[cfg(test)]
mod tests {
    use super::*;
    use harbormaster_api::features::Features;
    use harbormaster_validation::kinds;
    use serde_json::json;

    fn pods() -> harbormaster_validation::Kind {
        kinds::table(Features::default()).into_iter().find(|kind| kind.plural == "pods").unwrap()
    }

    fn fields(value: Value) -> Fields {
        Fields::parse(&value).unwrap()
    }

    #[test]
    fn the_fields_of_a_pod_follow_its_type() {
        let pods = pods();
        let pod = json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {}},
            "spec": {
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "x"}],
                "containers": [{"name": "c", "args": ["x"], "ports": [{"containerPort": 80}], "resources": {}}],
            },
        });
        let expected = json!({
            "f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {}},
            "f:spec": {
                "f:nodeSelector": {},
                "f:tolerations": {},
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:args": {}, "f:resources": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }},
            },
        });
        assert_eq!(fields_of(TypedPosition::of(&pods), &pod).json(), expected);
    }

    #[test]
    fn written_and_removed_fields_are_reported() {
        let pods = pods();
        let env = |list: Value| json!({"spec": {"containers": [{"name": "c", "env": list}]}});
        let old = env(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]));
        let new = env(json!([{"name": "C", "value": "1"}, {"name": "A", "value": "2"}]));
        let changes = compare(TypedPosition::of(&pods), Some(&old), Some(&new));
        let of_env = |below: Value| {
            fields(json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:env": below}}}}))
        };
        let written = json!({"k:{\"name\":\"A\"}": {"f:value": {}},
                             "k:{\"name\":\"C\"}": {".": {}, "f:name": {}, "f:value": {}}});
        assert_eq!(changes.written, of_env(written));
        assert_eq!(
            changes.removed,
            of_env(json!({"k:{\"name\":\"B\"}": {".": {}, "f:name": {}, "f:value": {}}}))
        );
    }

    #[test]
    fn a_configuration_sets_the_order_and_other_elements_stay() {
        let pods = pods();
        let containers = |names: &[&str]| json!({"spec": {"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}});
        for (live, config, expected) in [
            (&["a", "b"][..], &["b", "a"][..], &["b", "a"][..]),
            (&["a", "x", "b"], &["b", "a"], &["x", "b", "a"]),
            (&["a", "x"], &["n", "a"], &["n", "a", "x"]),
            (&["x", "a"], &["a", "n"], &["x", "a", "n"]),
            (&[], &["a"], &["a"]),
            (&["a"], &[], &["a"]),
        ] {
            let merged = merge(TypedPosition::of(&pods), Some(containers(live)), &containers(config));
            assert_eq!(merged, containers(expected), "{live:?} {config:?}");
        }
    }

    #[test]
    fn a_field_no_longer_applied_is_removed_unless_another_manager_owns_it() {
        let pods = pods();
        let mut pod = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "1"}},
            "spec": {"hostname": "h", "containers": [{"name": "c", "env": [{"name": "A"}]}, {"name": "d", "image": "i"}]},
        });
        let last = fields(json!({
            "f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}, "f:annotations": {"f:x": {}}},
            "f:spec": {"f:hostname": {}, "f:containers": {"k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}},
        }));
        let kept = fields(json!({"f:metadata": {"f:labels": {"f:b": {}}}, "f:spec": {"f:containers": {}}}));
        prune(TypedPosition::of(&pods), &mut pod, &last, &kept);
        let expected = json!({
            "metadata": {"labels": {"b": "2"}},
            "spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]},
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn mistakes_are_reported_with_their_path() {
        let pods = pods();
        for (pod, expected) in [
            (json!({"spec": {"nonsense": 1}}), ".spec.nonsense: field not declared in schema"),
            (
                json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
                ".spec.containers: duplicate entries for key [name=\"a\"]",
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "x": 1}]}}),
                ".spec.containers[name=\"a\"].x: field not declared in schema",
            ),
        ] {
            assert_eq!(mistake(TypedPosition::of(&pods), &pod, "").as_deref(), Some(expected));
        }
        assert_eq!(mistake(TypedPosition::of(&pods), &json!({"spec": {"containers": []}}), ""), None);
    }
}
