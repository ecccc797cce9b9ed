//! Arguments of the plugins that score node resources.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// `NodeResourcesFitArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that Filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resources: Vec<String>,
    /// Groups (`example.com` in `example.com/gpu`) of extended resources that Filter ignores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_resource_groups: Vec<String>,
    /// Scoring of nodes.
    pub scoring_strategy: ScoringStrategy,
}

/// `ScoringStrategy`.
///
/// `Default` is the strategy of an absent `scoringStrategy`. A strategy without `type` has an
/// [unknown](ScoringStrategyType::Unknown) empty type, which validation rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoringStrategy {
    /// The formula.
    #[serde(rename = "type", default = "ScoringStrategyType::absent")]
    pub strategy: ScoringStrategyType,
    /// Resources in the score and their weights.
    #[serde(default = "cpu_and_memory")]
    pub resources: Vec<ResourceSpec>,
    /// Parameters of `RequestedToCapacityRatio`; not allowed with other types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatioParam>,
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        Self {
            strategy: ScoringStrategyType::LeastAllocated,
            resources: cpu_and_memory(),
            requested_to_capacity_ratio: None,
        }
    }
}

/// `ScoringStrategyType`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ScoringStrategyType {
    /// Favors nodes with much free capacity.
    LeastAllocated,
    /// Favors nodes with little free capacity.
    MostAllocated,
    /// Maps the share of capacity in use to a score.
    RequestedToCapacityRatio,
    /// Any other text; never in validated arguments.
    Unknown(String),
}

impl JsonSchema for ScoringStrategyType {
    fn schema_name() -> Cow<'static, str> {
        "ScoringStrategyType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known = [Self::LeastAllocated, Self::MostAllocated, Self::RequestedToCapacityRatio];
        json_schema!({
            "description": "Formula of the score: favor nodes with much free capacity, favor nodes with little free \
                            capacity, or map the share of capacity in use to a score.",
            "type": "string",
            "enum": known.each_ref().map(Self::as_str),
        })
    }
}

impl ScoringStrategyType {
    fn absent() -> Self {
        Self::Unknown(String::new())
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::LeastAllocated => "LeastAllocated",
            Self::MostAllocated => "MostAllocated",
            Self::RequestedToCapacityRatio => "RequestedToCapacityRatio",
            Self::Unknown(text) => text,
        }
    }
}

impl From<String> for ScoringStrategyType {
    fn from(text: String) -> Self {
        match text.as_str() {
            "LeastAllocated" => Self::LeastAllocated,
            "MostAllocated" => Self::MostAllocated,
            "RequestedToCapacityRatio" => Self::RequestedToCapacityRatio,
            _ => Self::Unknown(text),
        }
    }
}

impl From<ScoringStrategyType> for String {
    fn from(strategy: ScoringStrategyType) -> Self {
        match strategy {
            ScoringStrategyType::Unknown(text) => text,
            known => known.as_str().to_owned(),
        }
    }
}

/// `ResourceSpec`: a resource and its weight in the score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceSpec {
    /// `cpu`, `memory`, `example.com/gpu`, …
    pub name: String,
    /// Weight, 1..=100 if valid. The configuration crate replaces a zero or absent weight with 1.
    pub weight: i64,
}

/// `RequestedToCapacityRatioParam`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestedToCapacityRatioParam {
    /// Points of the score curve, in order of increasing utilization.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<UtilizationShapePoint>,
}

/// `UtilizationShapePoint`: one point of a curve that maps the share of capacity in use to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UtilizationShapePoint {
    /// Share of capacity in use, in percent, 0..=100.
    pub utilization: i32,
    /// Score, 0..=10.
    pub score: i32,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// Resources whose utilization is balanced; every weight is 1.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesBalancedAllocationArgs {
    fn default() -> Self {
        Self { resources: cpu_and_memory() }
    }
}

fn cpu_and_memory() -> Vec<ResourceSpec> {
    ["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_is_defaulted_only_when_the_whole_strategy_is_absent() {
        assert_eq!(
            serde_json::from_value::<NodeResourcesFitArgs>(json!({})).unwrap().scoring_strategy.strategy,
            ScoringStrategyType::LeastAllocated
        );
        let given: NodeResourcesFitArgs =
            serde_json::from_value(json!({"scoringStrategy": {"resources": [{"name": "cpu"}]}})).unwrap();
        assert_eq!(given.scoring_strategy.strategy.as_str(), "");
        assert_eq!(given.scoring_strategy.resources[0].weight, 0);
    }

    #[test]
    fn strategies_are_written_by_name() {
        for name in ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "Other"] {
            let strategy: ScoringStrategyType = serde_json::from_value(json!(name)).unwrap();
            assert_eq!(matches!(strategy, ScoringStrategyType::Unknown(_)), name == "Other");
            assert_eq!(serde_json::to_value(strategy).unwrap(), json!(name));
        }
    }
}
