//! Attributes of devices.

use harbormaster_api::Str;
use serde::{Deserialize, Deserializer};

/// Value of a device's attribute (`DeviceAttribute` of `resource.k8s.io`).
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `string`
    String(Str),
    /// `version`, a semantic version.
    Version(Str),
    /// `bools`
    Bools(Vec<bool>),
    /// `ints`
    Ints(Vec<i64>),
    /// `strings`
    Strings(Vec<Str>),
    /// `versions`
    Versions(Vec<Str>),
    /// No known field is set.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    int: Option<i64>,
    bool: Option<bool>,
    string: Option<Str>,
    version: Option<Str>,
    ints: Option<Vec<i64>>,
    bools: Option<Vec<bool>>,
    strings: Option<Vec<Str>>,
    versions: Option<Vec<Str>>,
}

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(match Wire::deserialize(from)? {
            Wire { int: Some(int), .. } => Self::Int(int),
            Wire { bool: Some(bool), .. } => Self::Bool(bool),
            Wire { string: Some(string), .. } => Self::String(string),
            Wire { version: Some(version), .. } => Self::Version(version),
            Wire { ints: Some(ints), .. } if !ints.is_empty() => Self::Ints(ints),
            Wire { bools: Some(bools), .. } if !bools.is_empty() => Self::Bools(bools),
            Wire { strings: Some(strings), .. } if !strings.is_empty() => Self::Strings(strings),
            Wire { versions: Some(versions), .. } if !versions.is_empty() => Self::Versions(versions),
            _ => Self::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_attribute_has_the_kind_of_its_field() {
        for (wire, attribute) in [
            (json!({ "bool": false }), Attribute::Bool(false)),
            (json!({ "int": 3 }), Attribute::Int(3)),
            (json!({ "string": "" }), Attribute::String("".into())),
            (json!({ "version": "1.2.3" }), Attribute::Version("1.2.3".into())),
            (json!({ "ints": [1, 2] }), Attribute::Ints(vec![1, 2])),
            (json!({ "ints": null, "bools": [] }), Attribute::Unknown),
            (json!({ "colour": "red" }), Attribute::Unknown),
            (json!({}), Attribute::Unknown),
        ] {
            let decoded: Attribute = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(decoded, attribute, "{wire}");
        }
    }
}
