//! Limits on the depth and size of objects.

use serde_json::Value;

use crate::status::{Failure, Result};

/// Maximum nesting depth of lists and maps. serde_json parses at most 128 levels, and lists and events add levels
/// around an object.
pub(crate) const DEEPEST: usize = 100;
/// Maximum size of an object in bytes: etcd's default limit.
const LARGEST: usize = 3 << 19;

/// Returns the approximate size of a value as JSON in bytes, or `None` if the value is nested deeper than `levels`.
/// Never descends further than `levels`.
pub(crate) fn bytes(value: &Value, levels: usize) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len() + 3),
        Value::Array(items) => {
            let levels = levels.checked_sub(1)?;
            items.iter().try_fold(3, |sum, item| Some(sum + bytes(item, levels)?))
        }
        Value::Object(map) => {
            let levels = levels.checked_sub(1)?;
            map.iter().try_fold(3, |sum, (key, value)| Some(sum + key.len() + 3 + bytes(value, levels)?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(6),
    }
}

/// Refuses objects that are too deep or too large to be stored.
pub(crate) fn check(object: &Value) -> Result<()> {
    match bytes(object, DEEPEST) {
        None => Err(Failure::bad_request(format!("exceeded max depth: {DEEPEST} levels"))),
        Some(bytes) if bytes > LARGEST => Err(Failure::new(500, "", "etcdserver: request is too large")),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deep_and_large_objects_are_refused() {
        let deep = |levels| (0..levels).fold(json!(1), |value, _| json!([value]));
        for (object, code) in [
            (json!({"a": [1, null, "x"]}), None),
            (deep(DEEPEST), None),
            (deep(DEEPEST + 1), Some(400)),
            (json!("x".repeat(LARGEST)), Some(500)),
        ] {
            assert_eq!(check(&object).err().map(|failure| failure.code), code);
        }
    }
}
