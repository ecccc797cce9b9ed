//! The plugins of kube-scheduler 1.36 with their extension points and defaults, and replacements for removed names.

use harbormaster_api::{
    features::{Feature, Features},
    points::{ExtensionPoint, PointSet},
};

use ExtensionPoint::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PostFilter, PreBind, PreEnqueue, PreFilter,
    PreScore, QueueSort, Reserve, Score,
};

/// A plugin of kube-scheduler 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTreePlugin {
    /// Name in profiles.
    pub name: &'static str,
    /// Extension points that the plugin implements.
    pub points: PointSet,
    /// Weight in the default `multiPoint` list; 0 if none is set there.
    pub default_weight: i32,
    /// Feature gate of the plugin. If it is off, the plugin is not in the default list and does nothing.
    pub gate: Option<Feature>,
}

const fn plugin(name: &'static str, default_weight: i32, points: &[ExtensionPoint]) -> InTreePlugin {
    InTreePlugin { name, points: PointSet::of(points), default_weight, gate: None }
}

const fn gated(
    gate: Feature,
    name: &'static str,
    default_weight: i32,
    points: &[ExtensionPoint],
) -> InTreePlugin {
    InTreePlugin { name, points: PointSet::of(points), default_weight, gate: Some(gate) }
}

/// All in-tree plugins, in the order of the default `multiPoint` list.
pub const IN_TREE: &[InTreePlugin] = &[
    plugin("SchedulingGates", 0, &[PreEnqueue]),
    plugin("PrioritySort", 0, &[QueueSort]),
    plugin("NodeUnschedulable", 0, &[Filter]),
    plugin("NodeName", 0, &[Filter]),
    plugin("TaintToleration", 3, &[Filter, PreScore, Score]),
    plugin("NodeAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    plugin("NodePorts", 0, &[PreFilter, Filter]),
    plugin("NodeResourcesFit", 1, &[PreFilter, Filter, PreScore, Score, PlacementScore]),
    plugin("VolumeRestrictions", 0, &[PreFilter, Filter]),
    plugin("NodeVolumeLimits", 0, &[PreFilter, Filter]),
    plugin("VolumeBinding", 0, &[PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
    plugin("VolumeZone", 0, &[PreFilter, Filter]),
    plugin("PodTopologySpread", 2, &[PreFilter, Filter, PreScore, Score]),
    plugin("InterPodAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    gated(
        Feature::DynamicResourceAllocation,
        "DynamicResources",
        2,
        &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
    ),
    plugin("DefaultPreemption", 0, &[PreEnqueue, PostFilter]),
    plugin("NodeResourcesBalancedAllocation", 1, &[PreScore, Score]),
    plugin("ImageLocality", 1, &[Score]),
    plugin("DefaultBinder", 0, &[Bind]),
    gated(Feature::NodeDeclaredFeatures, "NodeDeclaredFeatures", 0, &[PreFilter, Filter]),
    gated(Feature::GangScheduling, "GangScheduling", 0, &[PreEnqueue, Permit]),
    gated(Feature::TopologyAwareWorkloadScheduling, "TopologyPlacementGenerator", 0, &[PlacementGenerate]),
    gated(Feature::TopologyAwareWorkloadScheduling, "PodGroupPodsCount", 1, &[PlacementScore]),
];

impl InTreePlugin {
    /// Returns true unless the plugin's feature gate is disabled.
    pub fn active(&self, features: &Features) -> bool {
        self.gate.is_none_or(|gate| features.enabled(gate))
    }
}

/// Returns the in-tree plugin with the given name.
pub fn in_tree(name: &str) -> Option<&'static InTreePlugin> {
    IN_TREE.iter().find(|p| p.name == name)
}

/// Plugins that `kubescheduler.config.k8s.io/v1` rejects by name.
pub(crate) const REMOVED_IN_V1: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Returns advice on replacing a plugin, predicate or priority of an older release; `None` for other names.
pub(crate) fn replacement(name: &str) -> Option<&'static str> {
    Some(match name {
        "NodeResourcesLeastAllocated" | "LeastRequestedPriority" => {
            "use NodeResourcesFit with args.scoringStrategy.type: LeastAllocated"
        }
        "NodeResourcesMostAllocated" | "MostRequestedPriority" => {
            "use NodeResourcesFit with args.scoringStrategy.type: MostAllocated"
        }
        "RequestedToCapacityRatio" | "RequestedToCapacityRatioPriority" => {
            "use NodeResourcesFit with args.scoringStrategy.type: RequestedToCapacityRatio"
        }
        "BalancedResourceAllocation" => "use NodeResourcesBalancedAllocation",
        "AzureDiskLimits"
        | "CinderLimits"
        | "EBSLimits"
        | "GCEPDLimits"
        | "MaxAzureDiskVolumeCount"
        | "MaxCinderVolumeCount"
        | "MaxCSIVolumeCountPred"
        | "MaxEBSVolumeCount"
        | "MaxGCEPDVolumeCount" => "use NodeVolumeLimits, which limits volumes of every CSI driver",
        "SelectorSpread"
        | "DefaultPodTopologySpread"
        | "SelectorSpreadPriority"
        | "EvenPodsSpread"
        | "EvenPodsSpreadPriority" => {
            "use PodTopologySpread, whose default constraints spread the pods of a service"
        }
        "NodeLabel" | "CheckNodeLabelPresence" | "NodeLabelPriority" => {
            "use NodeAffinity with args.addedAffinity"
        }
        "ServiceAffinity" | "CheckServiceAffinity" | "ServiceAntiAffinity" => {
            "use pod affinity or topology spread constraints in the pods"
        }
        "NodePreferAvoidPods" | "NodePreferAvoidPodsPriority" => "use taints and TaintToleration",
        "GeneralPredicates" => "use NodeResourcesFit, NodeName, NodePorts and NodeAffinity",
        "PodFitsResources" => "use NodeResourcesFit",
        "PodFitsHostPorts" | "PodFitsPorts" => "use NodePorts",
        "HostName" => "use NodeName",
        "MatchNodeSelector" | "NodeAffinityPriority" => "use NodeAffinity",
        "PodToleratesNodeTaints" | "TaintTolerationPriority" => "use TaintToleration",
        "CheckNodeUnschedulable" => "use NodeUnschedulable",
        "MatchInterPodAffinity" | "InterPodAffinityPriority" => "use InterPodAffinity",
        "NoDiskConflict" => "use VolumeRestrictions",
        "NoVolumeZoneConflict" => "use VolumeZone",
        "CheckVolumeBinding" => "use VolumeBinding",
        "ImageLocalityPriority" => "use ImageLocality",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(point: ExtensionPoint) -> Vec<&'static str> {
        let features = Features::default();
        IN_TREE.iter().filter(|p| p.points.contains(point) && p.active(&features)).map(|p| p.name).collect()
    }

    #[test]
    fn the_table_yields_kube_schedulers_default_lists() {
        assert_eq!(names(PreEnqueue), ["SchedulingGates", "DynamicResources", "DefaultPreemption"]);
        assert_eq!(names(PostFilter), ["DynamicResources", "DefaultPreemption"]);
        assert_eq!(names(Reserve), ["VolumeBinding", "DynamicResources"]);
        assert_eq!(names(PreBind), names(Reserve));
        assert_eq!(names(Bind), ["DefaultBinder"]);
        assert_eq!(names(QueueSort), ["PrioritySort"]);
        assert_eq!(names(PlacementScore), ["NodeResourcesFit"]);
        let mut filter = vec!["NodeUnschedulable", "NodeName", "TaintToleration"];
        filter.extend(names(PreFilter));
        assert_eq!(names(Filter), filter);
        assert_eq!(names(PreFilter).len(), 11);
        assert_eq!(names(PreScore).len(), 7);
        assert_eq!(names(Score).len(), 9);
    }

    #[test]
    fn names_are_unique_and_replaced_names_are_no_longer_plugins() {
        for plugin in IN_TREE {
            assert_eq!(in_tree(plugin.name), Some(plugin));
            assert_eq!(replacement(plugin.name), None);
        }
        assert!(REMOVED_IN_V1.iter().all(|name| replacement(name).is_some() && in_tree(name).is_none()));
    }
}
