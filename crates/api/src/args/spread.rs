//! Arguments of PodTopologySpread.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::affinity::RequirementArg;

/// `PodTopologySpreadArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodTopologySpreadArgs {
    /// Constraints for pods that define none; only with [`DefaultingType::List`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_constraints: Vec<DefaultConstraint>,
    /// Source of the constraints for pods that define none.
    pub defaulting_type: DefaultingType,
}

/// `PodTopologySpreadConstraintsDefaulting`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DefaultingType {
    /// Kubernetes' own two soft constraints.
    #[default]
    System,
    /// `defaultConstraints`.
    List,
    /// Any other text; never in validated arguments.
    Unknown(String),
}

impl JsonSchema for DefaultingType {
    fn schema_name() -> Cow<'static, str> {
        "PodTopologySpreadConstraintsDefaulting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known = [Self::System, Self::List];
        json_schema!({
            "description": "Kubernetes' own two soft constraints, or the constraints in defaultConstraints.",
            "type": "string",
            "enum": known.each_ref().map(Self::as_str),
        })
    }
}

impl DefaultingType {
    /// The text as written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "System",
            Self::List => "List",
            Self::Unknown(text) => text,
        }
    }
}

impl From<String> for DefaultingType {
    fn from(text: String) -> Self {
        match text.as_str() {
            "System" | "" => Self::System,
            "List" => Self::List,
            _ => Self::Unknown(text),
        }
    }
}

impl From<DefaultingType> for String {
    fn from(kind: DefaultingType) -> Self {
        kind.as_str().to_owned()
    }
}

/// `v1.TopologySpreadConstraint` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultConstraint {
    /// Maximum difference between the numbers of matching pods in two domains.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// Not allowed here, because a selector is derived for each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelectorArg>,
    /// Minimum number of domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Keys of the pod's labels that are added to the selector.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// `metav1.LabelSelector` as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LabelSelectorArg {
    /// Labels that a pod must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Expressions over labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<RequirementArg>,
}
