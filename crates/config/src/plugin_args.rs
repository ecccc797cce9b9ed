//! Arguments of plugins, typed for in-tree plugins.

use harbormaster_api::{
    args::{
        DefaultPreemptionArgs, DynamicResourcesArgs, GoDuration, InterPodAffinityArgs, NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs, PodTopologySpreadArgs, ResourceSpec,
        UtilizationShapePoint, VolumeBindingArgs,
    },
    features::{Feature, Features},
};
use harbormaster_yaml::Node;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use crate::decode::{self, UnknownField, WrongValue};

macro_rules! plugin_args {
    ($($name:ident($args:ident) $kind:literal;)*) => {
        /// `pluginConfig[].args`, with defaults filled in.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "one variant per in-tree plugin that takes arguments, named after it")]
        pub enum PluginArgs {
            /// No arguments are given, and the plugin has no defaults.
            #[default]
            Absent,
            /// Arguments, as written in the file, of a plugin whose arguments have no type here.
            Other(Value),
            $($name($args),)*
        }

        /// Valid values of `args.kind`.
        pub(crate) const ARGS_KINDS: &[&str] = &[$($kind,)*];

        impl PluginArgs {
            /// Returns the `kind` of the arguments of an in-tree plugin.
            pub fn kind(&self) -> Option<&'static str> {
                match self {
                    Self::Absent | Self::Other(_) => None,
                    $(Self::$name(_) => Some($kind),)*
                }
            }

            /// Returns the arguments in the form that plugins decode, without `apiVersion` and `kind`.
            pub fn to_value(&self) -> Option<Value> {
                match self {
                    Self::Absent => None,
                    Self::Other(value) => Some(value.clone()),
                    // Serializing structs with string keys cannot fail.
                    $(Self::$name(args) => serde_json::to_value(args).ok(),)*
                }
            }

            /// Returns the schemas of all arguments, with their kinds.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
                vec![$(($kind, generator.subschema_for::<$args>()),)*]
            }

            fn of_kind(kind: &str) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$name($args::default())),)*
                    _ => None,
                }
            }

            /// Decodes arguments of the same kind as `self`.
            fn decode_same_kind(&self, node: &Node) -> (Result<Self, WrongValue>, Vec<UnknownField>) {
                match self {
                    Self::Absent | Self::Other(_) => {
                        let (result, unknown) = decode::decode::<Value>(node);
                        (result.map(Self::Other), unknown)
                    }
                    $(Self::$name(_) => {
                        let (result, unknown) = decode::decode::<$args>(node);
                        (result.map(Self::$name), unknown)
                    })*
                }
            }
        }
    };
}

plugin_args! {
    DefaultPreemption(DefaultPreemptionArgs) "DefaultPreemptionArgs";
    DynamicResources(DynamicResourcesArgs) "DynamicResourcesArgs";
    InterPodAffinity(InterPodAffinityArgs) "InterPodAffinityArgs";
    NodeAffinity(NodeAffinityArgs) "NodeAffinityArgs";
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs) "NodeResourcesBalancedAllocationArgs";
    NodeResourcesFit(NodeResourcesFitArgs) "NodeResourcesFitArgs";
    PodTopologySpread(PodTopologySpreadArgs) "PodTopologySpreadArgs";
    VolumeBinding(VolumeBindingArgs) "VolumeBindingArgs";
}

impl PluginArgs {
    /// Returns the default arguments of a plugin.
    pub fn default_for(plugin: &str, features: &Features) -> Self {
        Self::of_kind(&format!("{plugin}Args")).map(|args| args.with_defaults(features)).unwrap_or_default()
    }

    /// Decodes the arguments of a plugin and adds defaults. `node` must not contain `apiVersion` or `kind`.
    pub(crate) fn read(
        plugin: &str,
        node: &Node,
        features: &Features,
    ) -> (Result<Self, WrongValue>, Vec<UnknownField>) {
        let (args, unknown) =
            Self::of_kind(&format!("{plugin}Args")).unwrap_or_default().decode_same_kind(node);
        (args.map(|args| args.with_defaults(features)), unknown)
    }

    /// Adds the defaults that the types cannot express: defaults that depend on feature gates, and defaults for zeros
    /// that mean "not given".
    fn with_defaults(self, features: &Features) -> Self {
        match self {
            Self::DynamicResources(args) => Self::DynamicResources(with_timeouts(args, features)),
            Self::NodeResourcesBalancedAllocation(mut args) => {
                args.resources = with_weights(args.resources);
                Self::NodeResourcesBalancedAllocation(args)
            }
            Self::NodeResourcesFit(mut args) => {
                args.scoring_strategy.resources = with_weights(args.scoring_strategy.resources);
                Self::NodeResourcesFit(args)
            }
            Self::VolumeBinding(mut args) => {
                if args.shape.is_empty() && features.enabled(Feature::StorageCapacityScoring) {
                    args.shape = [(0, 10), (100, 0)]
                        .map(|(utilization, score)| UtilizationShapePoint { utilization, score })
                        .into();
                }
                Self::VolumeBinding(args)
            }
            other => other,
        }
    }
}

/// Returns true if the feature gates that `bindingTimeout` requires are enabled.
pub(crate) fn binding_timeout_allowed(features: &Features) -> bool {
    features.enabled(Feature::DRADeviceBindingConditions)
        && features.enabled(Feature::DRAResourceClaimDeviceStatus)
}

fn with_timeouts(mut args: DynamicResourcesArgs, features: &Features) -> DynamicResourcesArgs {
    if features.enabled(Feature::DRASchedulerFilterTimeout) {
        args.filter_timeout.get_or_insert(GoDuration::from_secs(10));
    }
    if binding_timeout_allowed(features) {
        args.binding_timeout.get_or_insert(GoDuration::from_secs(600));
    }
    args
}

fn with_weights(mut resources: Vec<ResourceSpec>) -> Vec<ResourceSpec> {
    if resources.is_empty() {
        return NodeResourcesBalancedAllocationArgs::default().resources;
    }
    for resource in resources.iter_mut().filter(|r| r.weight == 0) {
        resource.weight = 1;
    }
    resources
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Release;
    use serde_json::json;

    use super::*;

    fn read(plugin: &str, text: &str, features: &Features) -> Value {
        let (args, unknown) = PluginArgs::read(plugin, &harbormaster_yaml::parse(text).unwrap(), features);
        assert!(unknown.is_empty(), "{unknown:?}");
        args.unwrap().to_value().unwrap()
    }

    #[test]
    fn arguments_have_the_documented_defaults() {
        let off = Features::default()
            .with(Feature::DRASchedulerFilterTimeout, false)
            .with(Feature::DRAResourceClaimDeviceStatus, false);
        let scoring = Features::default().with(Feature::StorageCapacityScoring, true);
        let cpu_and_memory = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
        let with_shape = json!({"bindTimeoutSeconds": 600, "shape": [
            {"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]});
        for (plugin, features, expected) in [
            (
                "DefaultPreemption",
                Features::default(),
                json!({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100}),
            ),
            (
                "DynamicResources",
                Features::default(),
                json!({"filterTimeout": "10s", "bindingTimeout": "10m0s"}),
            ),
            ("DynamicResources", off, json!({"filterTimeout": null})),
            (
                "InterPodAffinity",
                Features::default(),
                json!({"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false}),
            ),
            ("NodeAffinity", Features::default(), json!({})),
            ("NodeResourcesBalancedAllocation", Features::default(), json!({"resources": cpu_and_memory})),
            (
                "NodeResourcesFit",
                Features::default(),
                json!({"scoringStrategy": {"type": "LeastAllocated", "resources": cpu_and_memory}}),
            ),
            ("PodTopologySpread", Features::default(), json!({"defaultingType": "System"})),
            ("VolumeBinding", Features::default(), json!({"bindTimeoutSeconds": 600})),
            ("VolumeBinding", scoring, with_shape.clone()),
            ("VolumeBinding", Features::of(Release::V1_37), with_shape),
        ] {
            assert_eq!(
                PluginArgs::default_for(plugin, &features).to_value(),
                Some(expected.clone()),
                "{plugin}"
            );
            assert_eq!(read(plugin, "{}", &features), expected, "{plugin}");
        }
        assert_eq!(PluginArgs::default_for("NodeName", &Features::default()), PluginArgs::Absent);
    }

    #[test]
    fn given_values_are_kept_and_missing_weights_are_one() {
        let features = Features::default();
        let given = read(
            "NodeResourcesFit",
            "scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: a/b, weight: 3}]}",
            &features,
        );
        assert_eq!(
            given["scoringStrategy"]["resources"],
            json!([{"name": "cpu", "weight": 1}, {"name": "a/b", "weight": 3}])
        );
        assert_eq!(
            read("DefaultPreemption", "minCandidateNodesAbsolute: 0", &features)["minCandidateNodesAbsolute"],
            0
        );
        assert_eq!(read("DynamicResources", "filterTimeout: 0s", &features)["filterTimeout"], "0s");
        assert_eq!(read("Mine", "any: [thing]", &features), json!({"any": ["thing"]}));
    }
}
