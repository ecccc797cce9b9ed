//! Arguments of the in-tree plugins, as `kubescheduler.config.k8s.io/v1` spells them.
//!
//! A plugin receives its arguments defaulted and validated by the configuration crate and decodes them into its
//! type here. Where the API documents a default for an absent field, `Default` and an absent field agree with it,
//! so `{}` and `Default::default()` mean the same.
//!
//! `apiVersion` and `kind` are not part of these types: the configuration crate takes them off.

mod affinity;
mod duration;
mod resources;
mod spread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use affinity::{AddedAffinity, NodeSelectorArg, NodeSelectorTermArg, PreferredTermArg, RequirementArg};
pub use duration::{DurationError, GoDuration};
pub use resources::{
    NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, RequestedToCapacityRatioParam, ResourceSpec,
    ScoringStrategy, ScoringStrategyType, UtilizationShapePoint,
};
pub use spread::{DefaultConstraint, DefaultingType, LabelSelectorArg, PodTopologySpreadArgs};

/// `DefaultPreemptionArgs`: how many nodes on which evictions help are enough to choose among. The defaults mean all of
/// them, unless searches stop early as kube-scheduler's do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultPreemptionArgs {
    /// Least share of the nodes to try, in percent.
    pub min_candidate_nodes_percentage: i32,
    /// Least number of nodes to try.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

/// `DynamicResourcesArgs`. The defaults depend on feature gates; the configuration crate fills them in, so what is
/// absent here is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DynamicResourcesArgs {
    /// Longest time that Filter may take on one node; zero or absent means unlimited.
    pub filter_timeout: Option<GoDuration>,
    /// Longest wait for the binding conditions of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

/// `InterPodAffinityArgs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InterPodAffinityArgs {
    /// What a running pod's required affinity to the new pod adds to a node's score, 0..=100.
    pub hard_pod_affinity_weight: i32,
    /// Leave out the preferences of running pods when the new pod has none itself.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// `NodeAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeAffinityArgs {
    /// Node affinity that every pod of the profile gets in addition to its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<AddedAffinity>,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VolumeBindingArgs {
    /// Seconds to wait until the volumes of a pod are bound.
    pub bind_timeout_seconds: i64,
    /// Score by used share of the storage capacity; only with the gate StorageCapacityScoring.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<UtilizationShapePoint>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self { bind_timeout_seconds: 600, shape: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn empty_means_default<T: Default + PartialEq + std::fmt::Debug + for<'de> Deserialize<'de>>() {
        assert_eq!(serde_json::from_value::<T>(json!({})).unwrap(), T::default());
        assert!(serde_json::from_value::<T>(json!({"bogus": 1})).is_err());
    }

    #[test]
    fn an_empty_object_means_the_defaults_and_unknown_fields_are_refused() {
        empty_means_default::<DefaultPreemptionArgs>();
        empty_means_default::<DynamicResourcesArgs>();
        empty_means_default::<InterPodAffinityArgs>();
        empty_means_default::<NodeAffinityArgs>();
        empty_means_default::<NodeResourcesBalancedAllocationArgs>();
        empty_means_default::<NodeResourcesFitArgs>();
        empty_means_default::<PodTopologySpreadArgs>();
        empty_means_default::<VolumeBindingArgs>();
    }

    #[test]
    fn arguments_survive_being_written_and_read() {
        let written = json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 7});
        let args: DefaultPreemptionArgs = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(args.min_candidate_nodes_absolute, 7);
        assert_eq!(serde_json::to_value(args).unwrap(), written);
        let written = json!({"filterTimeout": "1m0s", "bindingTimeout": "500ms"});
        let args: DynamicResourcesArgs = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(args).unwrap(), written);
    }
}
