//! The part of JSONPath that columns use: `.spec.replicas`, `.a['b.c']`,
//! `.status.conditions[?(@.type=="Ready")].status`, `.items[0]`, `.items[*].name`.

use serde_json::Value;

use crate::value::shown;

/// One step of a path.
#[derive(Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    All,
    /// Elements in which the field has the given value.
    Where(&'a str, &'a str),
}

/// Joins values into one string.
pub(super) fn joined(values: &[&Value], separator: &str) -> String {
    values.iter().map(|value| shown(value)).collect::<Vec<_>>().join(separator)
}

/// Returns the values at a path, or none if the path is malformed.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = steps(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in steps {
        found = found.into_iter().flat_map(|value| taken(value, &step)).collect();
    }
    found
}

fn taken<'a>(value: &'a Value, step: &Step<'_>) -> Vec<&'a Value> {
    let elements = value.as_array().into_iter().flatten();
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.get(index).into_iter().collect(),
        Step::All => {
            elements.chain(value.as_object().into_iter().flat_map(serde_json::Map::values)).collect()
        }
        Step::Where(field, text) => {
            let is = |element: &&Value| element.get(field).and_then(Value::as_str) == Some(text);
            elements.filter(is).collect()
        }
    }
}

fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']')?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else {
            let inner = rest.strip_prefix('.').unwrap_or(rest);
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            if end > 0 {
                steps.push(if &inner[..end] == "*" { Step::All } else { Step::Field(&inner[..end]) });
            } else if inner.is_empty() || inner.starts_with('.') {
                return None;
            }
            rest = &inner[end..];
        }
    }
    Some(steps)
}

fn bracket(inner: &str) -> Option<Step<'_>> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = inner.strip_prefix("?(@.") {
        let (field, text) = condition.strip_suffix(')')?.split_once("==")?;
        return Some(Step::Where(field.trim(), text.trim().trim_matches(['"', '\''])));
    }
    match inner.strip_prefix(['\'', '"']) {
        Some(name) => name.strip_suffix(['\'', '"']).map(Step::Field),
        None => inner.parse().ok().map(Step::Index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_paths_of_columns_lead_to_values() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "c", "list": [{"n": "x"}, {"n": "y"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "B", "status": "False"}]},
        });
        for (path, expected) in [
            (".spec.replicas", vec![json!(3)]),
            ("{.spec.replicas}", vec![json!(3)]),
            (".spec['a.b']", vec![json!("c")]),
            (".spec.list[1].n", vec![json!("y")]),
            (".spec.list[*].n", vec![json!("x"), json!("y")]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".nothing.here", vec![]),
            (".spec[", vec![]),
            ("..", vec![]),
        ] {
            let found: Vec<Value> = find(&object, path).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
