//! HarbormasterUnbuilt: pods that need a plugin this version does not have wait instead of being bound as if they did
//! not need it.
//!
//! # What it does
//! PreFilter. Its argument `missing` names the plugins of kube-scheduler that the profile enables and this version
//! lacks. Nothing is missing: it does nothing.
//!
//! # Rejects when
//! The pod has a hard constraint that only a missing plugin would enforce, with one reason per plugin: `pod needs
//! plugin PodTopologySpread (spec.topologySpreadConstraints), which this version of Harbormaster does not have`. Soft
//! constraints, which only move scores, are let pass. While InterPodAffinity is missing, a pod that the required
//! anti-affinity of a pod in the cluster selects is rejected as well, on whatever node that pod is. Evicting pods is
//! not tried.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! The end of a pod whose required anti-affinity selects this one, and new labels of this pod. A pod that itself needs
//! a missing plugin is left in peace.
//!
//! # Differs from kube-scheduler
//! Which has no such plugin. It is stricter than the plugins it stands for and goes away with the last of them.

use harbormaster_api::{
    Pod, PodSpec, Str,
    pod::{PodAffinityTerm, VolumeSource},
};
use harbormaster_framework::prelude::*;
use serde::Deserialize;

use crate::sign;

/// Arguments of [`Unbuilt`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UnbuiltArgs {
    /// Names of plugins that are enabled and do not exist.
    pub missing: Vec<String>,
}

/// Says which fields of a spec need some plugin; none if it does not.
type Need = fn(&PodSpec) -> Vec<&'static str>;

/// What each plugin with hard constraints is needed for.
const NEEDS: [(&str, Need); 8] = [
    (INTER_POD_AFFINITY, needs_inter_pod_affinity),
    ("PodTopologySpread", needs_spread),
    ("VolumeRestrictions", |spec| needs_volumes(spec, restricts)),
    ("NodeVolumeLimits", |spec| needs_volumes(spec, is_limited)),
    ("VolumeBinding", |spec| {
        needs_volumes(spec, |v| matches!(v, VolumeSource::Claim(_) | VolumeSource::Ephemeral))
    }),
    ("VolumeZone", |spec| needs_volumes(spec, |v| matches!(v, VolumeSource::Claim(_)))),
    ("DynamicResources", |spec| field_if(!spec.resource_claims.is_empty(), "spec.resourceClaims")),
    ("GangScheduling", |spec| field_if(spec.pod_group.is_some(), "spec.schedulingGroup")),
];

const INTER_POD_AFFINITY: &str = "InterPodAffinity";
const REASON_AVOIDED: &str = "required anti-affinity of a pod in the cluster selects the pod, which plugin \
     InterPodAffinity would check per node and this version of Harbormaster does not have";
/// In-tree disks that one pod at a time may write.
const EXCLUSIVE_DISKS: [&str; 4] = ["gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"];

/// See the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Unbuilt {
    missing: Vec<(&'static str, Need)>,
    no_inter_pod_affinity: bool,
}

impl Plugin for Unbuilt {
    const NAME: &'static str = "HarbormasterUnbuilt";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.pre_filter();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        if !self.no_inter_pod_affinity {
            return Some(Vec::new());
        }
        let actions = Action::DELETE | Action::UPDATE_POD_LABEL;
        Some(vec![Registration::hinted(EventResource::Pod, actions, Self::after_pod)])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        if self.needs_missing(&pod.class.spec) {
            return Err(Unsignable);
        }
        Ok(if self.no_inter_pod_affinity { vec![sign::labels(pod)] } else { Vec::new() })
    }
}

impl Build for Unbuilt {
    type Args = UnbuiltArgs;

    /// Names of plugins without hard constraints are fine: nothing has to be guarded for them.
    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let missing = NEEDS.into_iter().filter(|(name, _)| args.missing.iter().any(|m| m == name)).collect();
        let no_inter_pod_affinity = args.missing.iter().any(|m| m == INTER_POD_AFFINITY);
        Ok(Self { missing, no_inter_pod_affinity })
    }
}

impl PreFilter for Unbuilt {
    fn pre_filter(&self, cx: &Cycle<'_>) -> PluginResult<PreFiltered<()>> {
        let mut reasons = self.reasons(&cx.pod.class.spec);
        if self.no_inter_pod_affinity && is_avoided(cx) {
            reasons.push(REASON_AVOIDED.into());
        }
        Ok(match reasons.is_empty() {
            true => PreFiltered::Skip,
            false => PreFiltered::Reject(Reject {
                fix: Fix::NothingHelps,
                reasons: reasons.into_iter().map(Into::into).collect(),
            }),
        })
    }
}

impl Unbuilt {
    fn reasons(&self, spec: &PodSpec) -> Vec<String> {
        let reason = |(plugin, need): &(&'static str, Need)| {
            let fields = need(spec);
            let fields = (!fields.is_empty()).then(|| fields.join(", "))?;
            Some(format!(
                "pod needs plugin {plugin} ({fields}), which this version of Harbormaster does not have"
            ))
        };
        self.missing.iter().filter_map(reason).collect()
    }

    fn needs_missing(&self, spec: &PodSpec) -> bool {
        self.missing.iter().any(|(_, need)| !need(spec).is_empty())
    }

    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        if self.needs_missing(&pod.class.spec) {
            return Ok(Hint::Skip);
        }
        let helps = match change {
            Change::Pod { old: Some(gone), new: None } => avoids(gone, pod),
            Change::Pod { new: Some(new), .. } => new.uid == pod.uid,
            _ => true,
        };
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

fn field_if(needed: bool, field: &'static str) -> Vec<&'static str> {
    if needed { vec![field] } else { Vec::new() }
}

fn needs_inter_pod_affinity(spec: &PodSpec) -> Vec<&'static str> {
    let affinity = spec.pod_affinity.as_ref().is_some_and(|a| !a.required.is_empty());
    let anti = spec.pod_anti_affinity.as_ref().is_some_and(|a| !a.required.is_empty());
    let mut fields = field_if(affinity, "spec.affinity.podAffinity");
    fields.extend(field_if(anti, "spec.affinity.podAntiAffinity"));
    fields
}

fn needs_spread(spec: &PodSpec) -> Vec<&'static str> {
    field_if(spec.topology_spread.iter().any(|c| c.hard), "spec.topologySpreadConstraints")
}

fn needs_volumes(spec: &PodSpec, concerns: fn(&VolumeSource) -> bool) -> Vec<&'static str> {
    field_if(spec.volumes.iter().any(|v| concerns(&v.source)), "spec.volumes")
}

/// Disks that exclude each other, and claims, which may allow one pod only (ReadWriteOncePod).
fn restricts(source: &VolumeSource) -> bool {
    match source {
        VolumeSource::Claim(_) => true,
        VolumeSource::InTree(disk) => EXCLUSIVE_DISKS.contains(&disk.as_str()),
        VolumeSource::Ephemeral | VolumeSource::InlineCsi(_) | VolumeSource::Image(_) => false,
    }
}

/// Everything that a CSI driver may attach, in-tree disks being served by drivers today.
fn is_limited(source: &VolumeSource) -> bool {
    !matches!(source, VolumeSource::Image(_))
}

/// Whether some pod in the cluster keeps the waiting one away, at least from some nodes.
fn is_avoided(cx: &Cycle<'_>) -> bool {
    cx.nodes.columns().with_anti_affinity.iter().map(|row| cx.nodes.node(row)).any(|node| {
        let Some(labels) = node.labels() else { return false };
        let in_force = |term: &PodAffinityTerm| labels.get(&term.topology_key).is_some();
        node.pods()
            .iter()
            .any(|other| required_terms(other).any(|t| in_force(t) && selects(t, other, cx.pod)))
    })
}

fn avoids(other: &Pod, pod: &Pod) -> bool {
    required_terms(other).any(|term| selects(term, other, pod))
}

fn required_terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    pod.spec.pod_anti_affinity.iter().flat_map(|anti| &anti.required)
}

/// Whether a term of `owner` selects `pod`. The labels of namespaces are not known here, so a selector over them is
/// taken to match.
fn selects(term: &PodAffinityTerm, owner: &Pod, pod: &Pod) -> bool {
    let own_namespace_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let namespace: &Str = &pod.namespace;
    let in_namespace =
        if own_namespace_only { owner.namespace == *namespace } else { term.namespaces.contains(namespace) };
    let in_namespace = in_namespace || term.namespace_selector.is_some();
    in_namespace && term.label_selector.as_ref().is_some_and(|s| s.matches(&pod.labels))
}

#[cfg(test)]
mod tests;
