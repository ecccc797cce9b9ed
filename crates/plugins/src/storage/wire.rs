//! Shared decoding code: nulls and selectors.

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement},
};
use serde::{Deserialize, Deserializer};

/// Annotation that takes precedence over `spec.storageClassName`, even if the annotation is empty.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Decodes `null` like a missing field.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The parts of `metadata` that the decoding of specs depends on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireMeta {
    #[serde(deserialize_with = "or_default")]
    pub(super) labels: Labels,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations: Labels,
}

impl WireMeta {
    /// Returns the class of a claim or volume: the class in the annotation, or else the class in the spec.
    pub(super) fn class_or(&self, of_spec: Str) -> Str {
        self.annotations.get(CLASS_ANNOTATION).cloned().unwrap_or(of_spec)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireRequirement {
    #[serde(deserialize_with = "or_default")]
    key: Str,
    #[serde(deserialize_with = "or_default")]
    operator: Str,
    #[serde(deserialize_with = "or_default")]
    values: Vec<Str>,
}

impl From<WireRequirement> for Requirement {
    fn from(wire: WireRequirement) -> Self {
        Self { key: wire.key, operator: Operator::parse(&wire.operator), values: wire.values }
    }
}

fn requirements(wire: Vec<WireRequirement>) -> Vec<Requirement> {
    wire.into_iter().map(Requirement::from).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireLabelSelector {
    #[serde(deserialize_with = "or_default")]
    match_labels: Labels,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<WireRequirement>,
}

impl From<WireLabelSelector> for LabelSelector {
    fn from(wire: WireLabelSelector) -> Self {
        Self { match_labels: wire.match_labels, match_expressions: requirements(wire.match_expressions) }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireNodeSelector {
    #[serde(deserialize_with = "or_default")]
    node_selector_terms: Vec<WireNodeSelectorTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireNodeSelectorTerm {
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<WireRequirement>,
    #[serde(deserialize_with = "or_default")]
    match_fields: Vec<WireRequirement>,
}

impl From<WireNodeSelector> for NodeSelector {
    fn from(wire: WireNodeSelector) -> Self {
        let term = |term: WireNodeSelectorTerm| NodeSelectorTerm {
            match_expressions: requirements(term.match_expressions),
            match_fields: requirements(term.match_fields),
        };
        Self { terms: wire.node_selector_terms.into_iter().map(term).collect() }
    }
}
