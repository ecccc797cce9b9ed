//! Shared encoding of node selectors and times.

use harbormaster_api::{
    Timestamp,
    selector::{NodeSelector, Requirement},
};
use serde::{Deserialize, Deserializer, Serializer, de};
use serde_json::{Value, json};

use crate::storage::wire::WireNodeSelector;

/// A node selector of a claim or slice, in the API's form. Use with `#[serde(with = "node_selector")]`.
pub(super) mod node_selector {
    use super::*;

    /// Decodes the selector; `null` means none.
    pub(in crate::devices) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<NodeSelector>, D::Error> {
        Ok(Option::<WireNodeSelector>::deserialize(from)?.map(NodeSelector::from))
    }

    /// Encodes the selector as the API does.
    pub(in crate::devices) fn serialize<S: Serializer>(
        selector: &Option<NodeSelector>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match selector {
            Some(selector) => to.collect_map([("nodeSelectorTerms", terms(selector))]),
            None => to.serialize_none(),
        }
    }
}

/// A time in whole seconds, in the API's form. Use with `#[serde(with = "time")]`.
pub(super) mod time {
    use super::*;

    /// Decodes the time; `null` means none.
    pub(in crate::devices) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| Timestamp::parse(&text)).transpose().map_err(de::Error::custom)
    }

    /// Encodes the time as the API does.
    pub(in crate::devices) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_str(&time.to_rfc3339()),
            None => to.serialize_none(),
        }
    }
}

fn terms(selector: &NodeSelector) -> Vec<Value> {
    let term = |fields: &[(&str, &[Requirement])]| {
        let lists = fields.iter().filter(|(_, list)| !list.is_empty());
        lists.map(|(name, list)| ((*name).to_owned(), requirements(list))).collect::<Value>()
    };
    let terms = selector.terms.iter();
    terms
        .map(|t| term(&[("matchExpressions", &t.match_expressions), ("matchFields", &t.match_fields)]))
        .collect()
}

fn requirements(list: &[Requirement]) -> Value {
    let one = |requirement: &Requirement| {
        let mut one = json!({ "key": requirement.key, "operator": requirement.operator.as_str() });
        if !requirement.values.is_empty() {
            one["values"] = json!(requirement.values);
        }
        one
    };
    list.iter().map(one).collect()
}
