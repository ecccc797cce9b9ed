//! The plugins of kube-scheduler with their extension points and defaults, and replacements for removed names.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
    points::{ExtensionPoint, PointSet},
};

use ExtensionPoint::{
    Bind, Filter, Permit, PlacementGenerate, PlacementScore, PodGroupPostFilter, PostFilter, PreBind,
    PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};
use Release::{V1_36, V1_37};

/// A plugin of kube-scheduler.
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
    /// The only release to which this row applies; `None` if it applies to all.
    only: Option<Release>,
}

const fn plugin(name: &'static str, default_weight: i32, points: &[ExtensionPoint]) -> InTreePlugin {
    InTreePlugin { name, points: PointSet::of(points), default_weight, gate: None, only: None }
}

const fn gated(
    gate: Feature,
    name: &'static str,
    default_weight: i32,
    points: &[ExtensionPoint],
) -> InTreePlugin {
    InTreePlugin { gate: Some(gate), ..plugin(name, default_weight, points) }
}

const fn only(release: Release, plugin: InTreePlugin) -> InTreePlugin {
    InTreePlugin { only: Some(release), ..plugin }
}

/// The in-tree plugins of all releases, in the order of the default `multiPoint` list.
const IN_TREE: &[InTreePlugin] = &[
    plugin("SchedulingGates", 0, &[PreEnqueue]),
    plugin("PrioritySort", 0, &[QueueSort]),
    only(V1_36, plugin("NodeUnschedulable", 0, &[Filter])),
    only(V1_36, plugin("NodeName", 0, &[Filter])),
    only(V1_36, plugin("TaintToleration", 3, &[Filter, PreScore, Score])),
    only(V1_37, plugin("NodeName", 0, &[PreFilter, Filter])),
    only(V1_37, plugin("NodeUnschedulable", 0, &[PreFilter, Filter])),
    only(V1_37, plugin("TaintToleration", 3, &[PreFilter, Filter, PreScore, Score])),
    plugin("NodeAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    plugin("NodePorts", 0, &[PreFilter, Filter]),
    plugin("NodeResourcesFit", 1, &[PreFilter, Filter, PreScore, Score, PlacementScore]),
    plugin("VolumeRestrictions", 0, &[PreFilter, Filter]),
    plugin("NodeVolumeLimits", 0, &[PreFilter, Filter]),
    plugin("VolumeBinding", 0, &[PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
    plugin("VolumeZone", 0, &[PreFilter, Filter]),
    plugin("PodTopologySpread", 2, &[PreFilter, Filter, PreScore, Score]),
    plugin("InterPodAffinity", 2, &[PreFilter, Filter, PreScore, Score]),
    only(
        V1_36,
        gated(
            Feature::DynamicResourceAllocation,
            "DynamicResources",
            2,
            &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind],
        ),
    ),
    only(V1_36, plugin("DefaultPreemption", 0, &[PreEnqueue, PostFilter])),
    only(
        V1_37,
        gated(
            Feature::DynamicResourceAllocation,
            "DynamicResources",
            2,
            &[PreEnqueue, PreFilter, Filter, PostFilter, PodGroupPostFilter, Score, Reserve, PreBind],
        ),
    ),
    only(V1_37, plugin("DefaultPreemption", 0, &[PreEnqueue, PostFilter, PodGroupPostFilter])),
    plugin("NodeResourcesBalancedAllocation", 1, &[PreScore, Score]),
    plugin("ImageLocality", 1, &[Score]),
    plugin("DefaultBinder", 0, &[Bind]),
    gated(Feature::NodeDeclaredFeatures, "NodeDeclaredFeatures", 0, &[PreFilter, Filter]),
    only(V1_36, gated(Feature::GangScheduling, "GangScheduling", 0, &[PreEnqueue, Permit])),
    only(V1_37, gated(Feature::GenericWorkload, "GangScheduling", 0, &[PreEnqueue, Permit])),
    gated(Feature::TopologyAwareWorkloadScheduling, "TopologyPlacementGenerator", 0, &[PlacementGenerate]),
    gated(Feature::TopologyAwareWorkloadScheduling, "PodGroupPodsCount", 1, &[PlacementScore]),
];

impl InTreePlugin {
    /// Returns true unless the plugin's feature gate is disabled.
    pub fn active(&self, features: &Features) -> bool {
        self.gate.is_none_or(|gate| features.enabled(gate))
    }
}

/// Iterates over the in-tree plugins of a release, in the order of the default `multiPoint` list.
pub fn in_tree(release: Release) -> impl Iterator<Item = &'static InTreePlugin> {
    IN_TREE.iter().filter(move |plugin| plugin.only.is_none_or(|only| only == release))
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

    fn names(release: Release, point: ExtensionPoint) -> Vec<&'static str> {
        let features = Features::of(release);
        in_tree(release).filter(|p| p.points.contains(point) && p.active(&features)).map(|p| p.name).collect()
    }

    #[test]
    fn the_table_yields_kube_schedulers_default_lists() {
        for &release in Release::ALL {
            let names = |point| names(release, point);
            assert_eq!(names(PreEnqueue), ["SchedulingGates", "DynamicResources", "DefaultPreemption"]);
            assert_eq!(names(PostFilter), ["DynamicResources", "DefaultPreemption"]);
            assert_eq!(names(Reserve), ["VolumeBinding", "DynamicResources"]);
            assert_eq!(names(PreBind), names(Reserve));
            assert_eq!(names(Bind), ["DefaultBinder"]);
            assert_eq!(names(QueueSort), ["PrioritySort"]);
            assert_eq!(names(PlacementScore), ["NodeResourcesFit"]);
            assert_eq!(names(Filter).len(), 14);
            assert_eq!(names(PreScore).len(), 7);
            assert_eq!(names(Score).len(), 9);
        }
        assert_eq!(names(V1_36, Filter)[..3], ["NodeUnschedulable", "NodeName", "TaintToleration"]);
        assert_eq!(names(V1_36, Filter)[3..], names(V1_36, PreFilter));
        assert_eq!(names(V1_37, Filter)[..3], ["NodeName", "NodeUnschedulable", "TaintToleration"]);
        assert_eq!(names(V1_37, Filter), names(V1_37, PreFilter));
    }

    #[test]
    fn names_are_unique_and_no_replaced_name_is_a_plugin() {
        for &release in Release::ALL {
            for plugin in in_tree(release) {
                assert_eq!(in_tree(release).filter(|other| other.name == plugin.name).count(), 1);
                assert_eq!(replacement(plugin.name), None);
            }
            let is_plugin = |name: &str| in_tree(release).any(|plugin| plugin.name == name);
            assert!(REMOVED_IN_V1.iter().all(|name| replacement(name).is_some() && !is_plugin(name)));
        }
    }
}
