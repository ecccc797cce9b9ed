//! Plugins that run at some of their points, or at none.

use harbormaster_api::{
    Release,
    points::{ExtensionPoint, PointSet},
};
use harbormaster_config::{Profile, ProfilePlan, in_tree};

use ExtensionPoint::{
    Filter, Permit, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
};

use super::finding::{ALL, Finding, Severity, Subject, runs, switched_off};

/// A plugin that pods rely on, and what no longer holds without it.
struct Essential {
    plugin: &'static str,
    point: ExtensionPoint,
    /// Consequence if the plugin does not run at the point.
    without: &'static str,
}

const fn essential(plugin: &'static str, point: ExtensionPoint, without: &'static str) -> Essential {
    Essential { plugin, point, without }
}

const ESSENTIAL: &[Essential] = &[
    essential(
        "SchedulingGates",
        PreEnqueue,
        "pods with scheduling gates are scheduled, and the API server refuses each of their bindings",
    ),
    essential(
        "NodeUnschedulable",
        Filter,
        "pods are placed on cordoned nodes, so a drained node fills up again",
    ),
    essential(
        "TaintToleration",
        Filter,
        "pods are placed on nodes whose taints they do not tolerate, and taints with the effect NoExecute evict \
         them again",
    ),
    essential(
        "NodeAffinity",
        Filter,
        "node selectors and required node affinity are ignored, and the kubelet rejects the pods that do not match",
    ),
    essential(
        "NodePorts",
        Filter,
        "pods with the same host port are placed on one node, where the kubelet rejects all but the first",
    ),
    essential(
        "NodeResourcesFit",
        Filter,
        "requests are not compared with the free capacity of nodes, so nodes are overcommitted, and the kubelet \
         rejects the pods that do not fit",
    ),
    essential(
        "VolumeRestrictions",
        Filter,
        "ReadWriteOncePod claims and exclusive disks that are in use do not keep other pods out, and these pods \
         cannot start",
    ),
    essential(
        "NodeVolumeLimits",
        Filter,
        "nodes get more volumes than their drivers can attach, and pods wait there for volumes",
    ),
    essential(
        "VolumeBinding",
        Filter,
        "nodes that cannot use or provision a pod's volumes are not excluded, and the pod cannot start there",
    ),
    essential("VolumeZone", Filter, "pods are placed in zones in which their volumes cannot be attached"),
    essential("PodTopologySpread", Filter, "spread constraints with DoNotSchedule are ignored"),
    essential("InterPodAffinity", Filter, "required affinity and anti-affinity between pods are ignored"),
    essential(
        "DynamicResources",
        Filter,
        "nodes without the devices that a pod's claims request are not excluded, and the pod cannot start there",
    ),
    essential(
        "DefaultPreemption",
        PostFilter,
        "pods with a higher priority wait until others leave: no pod is evicted for them",
    ),
    essential("GangScheduling", Permit, "pods of a group start without the rest of the group"),
];

/// A point at which a plugin completes what it decided when it filtered.
struct Completion {
    plugin: &'static str,
    point: ExtensionPoint,
    without: &'static str,
}

const COMPLETIONS: &[Completion] = &[
    Completion {
        plugin: "VolumeBinding",
        point: Reserve,
        without: "pods with claims cannot be bound or cannot start, and two pods may count on one volume",
    },
    Completion {
        plugin: "VolumeBinding",
        point: PreBind,
        without: "claims are never bound, so pods whose claims wait for their first consumer get a node, but cannot \
                  start",
    },
    Completion {
        plugin: "DynamicResources",
        point: Reserve,
        without: "no devices are chosen for claims, so pods with claims get a node, but cannot start",
    },
    Completion {
        plugin: "DynamicResources",
        point: PreBind,
        without: "the devices of claims are never written to the API server, so pods with claims get a node, but \
                  cannot start",
    },
];

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, profile, plan) in subject.profiles() {
        findings.extend(missing_essentials(subject, at, profile, plan));
        findings.extend(incomplete(subject, at, profile, plan));
        findings.extend(added_points(subject, at, profile, plan));
        findings.extend(forgotten_points(subject, at, plan));
        findings.extend(disabled_in_vain(subject, at, profile));
    }
    findings
}

/// Returns true if the default profile of the release has the plugin.
fn is_default(subject: &Subject<'_>, plugin: &str) -> bool {
    let features = subject.features();
    in_tree(features.release()).any(|known| known.name == plugin && known.active(features))
}

/// Finds plugins that pods rely on and that do not run. A plugin that is disabled by name is probably meant to be off.
fn missing_essentials(
    subject: &Subject<'_>,
    at: usize,
    profile: &Profile,
    plan: &ProfilePlan,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Essential { plugin, point, without } in ESSENTIAL {
        if !is_default(subject, plugin) || runs(plan, *point, plugin) {
            continue;
        }
        // Another plugin searches for victims instead.
        let has_substitute = || plan.at(PostFilter).iter().any(|(name, _)| name != "DynamicResources");
        if *point == PostFilter && has_substitute() {
            continue;
        }
        let Some(off) = switched_off(at, profile, *point, plugin) else { continue };
        let severity = if off.by_star { Severity::Warning } else { Severity::Note };
        let list = if off.field.contains(".multiPoint.") { "multiPoint" } else { point.field() };
        let help = if off.by_star {
            format!("add {plugin} to plugins.{list}.enabled, or disable it by name if you mean it")
        } else {
            format!("remove the entry unless another plugin does the work of {plugin}")
        };
        let message = format!("{plugin} does not run at {}: {without}", point.field());
        findings.push(subject.finding(severity, "plugin-off", off.field, message, help));
    }
    findings
}

/// Finds plugins that filter, but do not complete their decisions.
fn incomplete(subject: &Subject<'_>, at: usize, profile: &Profile, plan: &ProfilePlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Completion { plugin, point, without } in COMPLETIONS {
        if !runs(plan, Filter, plugin) || runs(plan, *point, plugin) {
            continue;
        }
        let off = switched_off(at, profile, *point, plugin).map(|off| off.field);
        let field = off.unwrap_or_else(|| format!("profiles[{at}].plugins.{}", point.field()));
        let message = format!("{plugin} filters, but does not run at {}: {without}", point.field());
        let help = format!("add {plugin} to plugins.{}.enabled", point.field());
        findings.push(subject.warning("half-off", field, message, help));
    }
    findings
}

/// Returns the points of a plugin: those that this program's version implements.
fn points(subject: &Subject<'_>, plugin: &str) -> PointSet {
    subject.choices.plugins.points(plugin).unwrap_or(PointSet::EMPTY)
}

/// Returns true if the plugin's state comes from `maker`, and the profile lacks the plugin there. The scheduler then
/// runs the plugin at this point although the configuration does not ask for it.
fn is_added(subject: &Subject<'_>, plan: &ProfilePlan, maker: ExtensionPoint, plugin: &str) -> bool {
    let users: &[ExtensionPoint] = match maker {
        PreFilter => &[Filter, Reserve],
        PreScore => &[Score],
        _ => &[],
    };
    users.iter().any(|user| runs(plan, *user, plugin))
        && points(subject, plugin).contains(maker)
        && !runs(plan, maker, plugin)
}

/// Finds plugins that run at a point because they could not filter or score without it.
fn added_points(subject: &Subject<'_>, at: usize, profile: &Profile, plan: &ProfilePlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for maker in [PreFilter, PreScore] {
        for plugin in plan.plugins() {
            if !is_added(subject, plan, maker, plugin) {
                continue;
            }
            let user = if maker == PreFilter { "filters" } else { "scores" };
            let message = format!(
                "{plugin} {user} with what it prepares at {}, so it runs there, too; kube-scheduler leaves it out \
                 there, and most plugins then fail for every pod",
                maker.field()
            );
            let entry = switched_off(at, profile, maker, plugin);
            let runs_at = if maker == PreFilter { "filter" } else { "score" };
            findings.push(match entry {
                Some(off) if off.field.contains(&format!(".{}.", maker.field())) => {
                    let help = format!("disable it at {runs_at}, too, or leave it on at {}", maker.field());
                    subject.warning("point-added", off.field, message, help)
                }
                _ => {
                    let field = format!("profiles[{at}].plugins.{}", maker.field());
                    let help = format!("add {plugin} to plugins.{}.enabled", maker.field());
                    subject.note("point-added", field, message, help)
                }
            });
        }
    }
    findings
}

/// Finds plugins of other authors that implement more points than the profile names.
fn forgotten_points(subject: &Subject<'_>, at: usize, plan: &ProfilePlan) -> Vec<Finding> {
    let release = subject.features().release();
    let mut findings = Vec::new();
    for plugin in plan.plugins() {
        if in_tree(release).any(|known| known.name == plugin) {
            continue;
        }
        let profile = &subject.config.profiles[at];
        let is_forgotten = |point: &ExtensionPoint| {
            // Only one plugin may sort the queue, so leaving it to another one is no oversight.
            *point != QueueSort
                && !runs(plan, *point, plugin)
                && !is_added(subject, plan, *point, plugin)
                && switched_off(at, profile, *point, plugin).is_none()
        };
        let forgotten: Vec<&str> =
            points(subject, plugin).iter().filter(is_forgotten).map(ExtensionPoint::field).collect();
        if !forgotten.is_empty() {
            let message =
                format!("{plugin} also implements {}, but does not run there", forgotten.join(", "));
            let help = format!("if it should, enable {plugin} at multiPoint");
            findings.push(subject.note("partly-on", format!("profiles[{at}].plugins"), message, help));
        }
    }
    findings
}

/// Finds plugins that are disabled at points that they do not implement.
fn disabled_in_vain(subject: &Subject<'_>, at: usize, profile: &Profile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for point in ExtensionPoint::ALL {
        let disabled = profile.plugins.at(point).disabled.iter().enumerate();
        for (entry, plugin) in disabled.filter(|(_, plugin)| plugin.name != ALL) {
            // A file may be meant for several releases.
            let releases = Release::ALL.iter().flat_map(|release| in_tree(*release));
            let same = releases.filter(|known| known.name == plugin.name).map(|known| known.points);
            let known: PointSet = same
                .chain(subject.choices.plugins.points(&plugin.name))
                .flat_map(|points| ExtensionPoint::ALL.into_iter().filter(move |at| points.contains(*at)))
                .collect();
            if known.is_empty() || known.contains(point) {
                continue;
            }
            let fields: Vec<&str> = known.iter().map(ExtensionPoint::field).collect();
            let field = format!("profiles[{at}].plugins.{}.disabled[{entry}]", point.field());
            let message = format!("{} never runs at {}, so nothing is disabled", plugin.name, point.field());
            let help = format!("it runs at {}; to turn it off there, use multiPoint", fields.join(", "));
            findings.push(subject.warning("disabled-in-vain", field, message, help));
        }
    }
    findings
}
