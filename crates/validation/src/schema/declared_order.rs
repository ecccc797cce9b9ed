//! JSON with fields in the order in which Kubernetes declares them.

use serde_json::Value;

use super::{Field, Shape, Type, find};

/// Returns a value of a type as messages show it. Kubernetes declares fields in the order of their protobuf numbers,
/// with few exceptions.
pub(crate) fn in_declared_order(value: &Value, of: &str) -> String {
    match (value, find(of)) {
        (Value::Object(map), Some(of)) => {
            let fields = fields(of).into_iter().filter_map(|field| Some((field, map.get(field.name)?)));
            let shown = fields.map(|(field, value)| format!("\"{}\":{}", field.name, of_field(value, field)));
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
        _ => escaped(value),
    }
}

fn of_field(value: &Value, field: &Field) -> String {
    let each = |value: &Value| in_declared_order(value, field.of);
    match (field.shape, value) {
        (Shape::List, Value::Array(list)) => {
            format!("[{}]", list.iter().map(each).collect::<Vec<_>>().join(","))
        }
        (Shape::Map, Value::Object(map)) => {
            let shown = map.iter().map(|(key, value)| {
                let key = Value::from(key.as_str());
                format!("{}:{}", escaped(&key), each(value))
            });
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
        _ => each(value),
    }
}

/// Returns the fields in the order of their numbers. Those of an inlined type take its place.
fn fields(of: &'static Type) -> Vec<&'static Field> {
    let mut numbered: Vec<_> = of.fields.iter().collect();
    numbered.sort_unstable_by_key(|(number, _)| **number);
    let fields = numbered.into_iter().map(|(_, field)| field);
    fields
        .flat_map(|field| match find(field.of).filter(|_| field.shape == Shape::Inline) {
            Some(inlined) => self::fields(inlined),
            None => vec![field],
        })
        .collect()
}

/// Returns JSON in which, as in Go's, characters with a meaning in HTML are escaped.
fn escaped(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_shown_in_the_order_of_their_declarations() {
        let request = json!({"name": "r", "exactly": {"count": 1, "deviceClassName": "gpu", "selectors": [
            {"cel": {"expression": "1 > 0"}}]}});
        assert_eq!(
            in_declared_order(&request, "resource.DeviceRequest"),
            r#"{"name":"r","exactly":{"deviceClassName":"gpu","selectors":[{"cel":{"expression":"1 \u003e 0"}}],"count":1}}"#
        );
        let set = json!({"counters": {"c": {"value": "1"}}, "name": "a"});
        assert_eq!(
            in_declared_order(&set, "resource.CounterSet"),
            r#"{"name":"a","counters":{"c":{"value":"1"}}}"#
        );
        assert_eq!(in_declared_order(&json!("x"), ""), "\"x\"");
    }
}
