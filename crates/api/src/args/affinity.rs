//! Node affinity as written in arguments, and its conversion to the form used for matching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Str,
    selector::{NodeAffinity, NodeSelector, NodeSelectorTerm, Operator, PreferredTerm, Requirement},
};

/// `v1.NodeAffinity` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AddedAffinity {
    /// Terms that nodes must match.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub required: Option<NodeSelectorArg>,
    /// Terms that nodes should match.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred: Option<Vec<PreferredTermArg>>,
}

/// `v1.NodeSelector` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeSelectorArg {
    /// ORed terms.
    pub node_selector_terms: Vec<NodeSelectorTermArg>,
}

/// `v1.PreferredSchedulingTerm` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PreferredTermArg {
    /// Weight, 1..=100 if valid.
    pub weight: i32,
    /// The preferred nodes.
    pub preference: NodeSelectorTermArg,
}

/// `v1.NodeSelectorTerm` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeSelectorTermArg {
    /// Expressions over node labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<RequirementArg>,
    /// Expressions over `metadata.name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<RequirementArg>,
}

/// `v1.NodeSelectorRequirement` and `metav1.LabelSelectorRequirement` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequirementArg {
    /// Label key or field path.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    /// Operands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl From<&AddedAffinity> for NodeAffinity {
    fn from(written: &AddedAffinity) -> Self {
        Self {
            required: written.required.as_ref().map(|r| NodeSelector {
                terms: r.node_selector_terms.iter().map(NodeSelectorTerm::from).collect(),
            }),
            preferred: written.preferred.as_ref().map(|terms| {
                terms
                    .iter()
                    .map(|t| PreferredTerm { weight: t.weight, preference: (&t.preference).into() })
                    .collect()
            }),
        }
    }
}

impl From<&NodeSelectorTermArg> for NodeSelectorTerm {
    fn from(written: &NodeSelectorTermArg) -> Self {
        Self {
            match_expressions: written.match_expressions.iter().map(Requirement::from).collect(),
            match_fields: written.match_fields.iter().map(Requirement::from).collect(),
        }
    }
}

impl From<&RequirementArg> for Requirement {
    fn from(written: &RequirementArg) -> Self {
        let operator = Operator::parse(&written.operator);
        Self {
            key: Str::from(written.key.as_str()),
            operator,
            values: written.values.iter().map(|v| Str::from(v.as_str())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::args::NodeAffinityArgs;

    #[test]
    fn added_affinity_is_converted_to_the_form_used_for_matching() {
        let args: NodeAffinityArgs = serde_json::from_value(json!({"addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "Near", "values": ["n"]}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]}}))
        .unwrap();
        let affinity = NodeAffinity::from(&args.added_affinity.unwrap());
        let required = affinity.required.unwrap();
        assert_eq!(required.terms[0].match_expressions[0].operator, Operator::In);
        assert_eq!(required.terms[0].match_expressions[0].values[0], "a");
        assert_eq!(required.terms[1].match_fields[0].operator, Operator::Unknown("Near".into()));
        let preferred = affinity.preferred.unwrap();
        assert_eq!((preferred[0].weight, preferred[0].preference.match_expressions.len()), (5, 1));
        assert_eq!(NodeAffinity::from(&AddedAffinity::default()), NodeAffinity::default());
    }
}
