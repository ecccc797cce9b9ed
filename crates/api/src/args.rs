//! Arguments of the in-tree plugins, in the form of `kubescheduler.config.k8s.io/v1`.
//!
//! The configuration crate fills in defaults and validates the arguments, and each plugin decodes its arguments into
//! its type in this module. If the API documents a default for an absent field, both `Default` and decoding use that
//! value, so `{}` and `Default::default()` are equal.
//!
//! `apiVersion` and `kind` are not part of these types, because the configuration crate removes them.

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

/// `DefaultPreemptionArgs`: the number of candidates after which kube-scheduler stops its search. A candidate is a node
/// where evictions make room. Harbormaster stops there only with `--parity` or if these arguments differ from the
/// defaults; otherwise it searches for the best node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultPreemptionArgs {
    /// Minimum number of candidates, in percent of the nodes where evictions might help.
    pub min_candidate_nodes_percentage: i32,
    /// Minimum number of candidates.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

/// `DynamicResourcesArgs`. The defaults depend on feature gates, so the configuration crate fills them in. A field that
/// is still absent means no time limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DynamicResourcesArgs {
    /// Maximum work of Filter for one node, as a duration: one device may be examined per microsecond, since decisions do
    /// not depend on a clock. Zero or absent means unlimited.
    pub filter_timeout: Option<GoDuration>,
    /// Maximum wait for the binding conditions of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_timeout: Option<GoDuration>,
}

/// `InterPodAffinityArgs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InterPodAffinityArgs {
    /// Amount that a running pod's required affinity to the new pod adds to a node's score, 0..=100.
    pub hard_pod_affinity_weight: i32,
    /// True if nodes are not scored for a new pod without preferred affinity or anti-affinity terms. The terms of
    /// running pods are then ignored.
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
    /// Node affinity that applies to every pod of the profile, in addition to the pod's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_affinity: Option<AddedAffinity>,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VolumeBindingArgs {
    /// Timeout in seconds for binding the volumes of a pod.
    pub bind_timeout_seconds: i64,
    /// Points of a curve that maps the share of storage capacity in use to a score; requires the
    /// `StorageCapacityScoring` feature gate.
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
    fn an_empty_object_means_the_defaults_and_unknown_fields_are_rejected() {
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
    fn arguments_survive_encoding_and_decoding() {
        let written = json!({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 7});
        let args: DefaultPreemptionArgs = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(args.min_candidate_nodes_absolute, 7);
        assert_eq!(serde_json::to_value(args).unwrap(), written);
        let written = json!({"filterTimeout": "1m0s", "bindingTimeout": "500ms"});
        let args: DynamicResourcesArgs = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(args).unwrap(), written);
    }
}
