//! GangScheduling: groups of pods as Kubernetes defines them (KEP-4671). A gang runs whole or not at all.
//!
//! # What it does
//! Defines groups: a pod belongs to the PodGroup (`scheduling.k8s.io/v1beta1`) that `spec.schedulingGroup.podGroupName`
//! names. The engine places the members of a group in one cycle and binds them only if enough of them have nodes: at
//! least `spec.schedulingPolicy.gang.minCount`, counting those that run already. With `schedulingPolicy.basic`, one member
//! is enough. With the feature gate PodGroupPreemptionPolicy, `spec.preemptionPolicy` decides whether the group may
//! preempt other pods, and all members must have this policy. Afterwards the group's condition `PodGroupInitiallyScheduled` tells the result.
//!
//! Extension points: PreEnqueue holds the members of a gang back until there are enough of them. Permit lets members
//! wait while too few of them have nodes, and releases them together.
//!
//! # Rejects when
//! PreEnqueue: the gang has fewer members than its minimum: `waiting for minCount pods from a gang to appear in
//! scheduling queue`. Group: `minCount (N) cannot be satisfied: S scheduled, R remaining`.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! - a new pod of the same group, with or without a node
//! - the creation of the group's object
//! - a smaller `minCount`
//!
//! # Differs from kube-scheduler
//! - A group that was rejected waits for an event that may help one of its members, as a pod does. kube-scheduler tries
//!   it again whenever its backoff ends.
//! - All members of a gang pass Permit at once, so no member waits for the others. kube-scheduler sends them through
//!   Permit one by one, and those that wait get a `nominatedNodeName` in between.

mod object;

use std::time::Duration;

use harbormaster_api::{Pod, Str, features::Feature};
use harbormaster_framework::prelude::*;
use serde_json::json;

pub use object::PodGroupObject;

const REASON_TOO_FEW: &str = "waiting for minCount pods from a gang to appear in scheduling queue";
/// Time for which a member waits for the others.
const PERMIT_WAIT: Duration = Duration::from_secs(5 * 60);

/// Defines groups of pods. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct GangScheduling {
    /// True if groups have preemption policies (feature gate PodGroupPreemptionPolicy).
    has_policies: bool,
}

impl Build for GangScheduling {
    type Args = NoArgs;

    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { has_policies: cx.features.enabled(Feature::PodGroupPreemptionPolicy) })
    }
}

impl Plugin for GangScheduling {
    const NAME: &'static str = "GangScheduling";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::hinted(EventResource::UnscheduledPod, Action::ADD, Self::after_pod),
            Registration::hinted(EventResource::AssignedPod, Action::ADD, Self::after_pod),
            Registration::on(Action::ADD, Self::after_new_group),
            Registration::on(Action::UPDATE, Self::after_changed_group),
        ])
    }
}

impl Groups for GangScheduling {
    type Object = PodGroupObject;

    fn group_of(&self, pod: &Pod) -> Option<Str> {
        pod.spec.pod_group.clone()
    }

    fn describe(&self, object: &Custom<PodGroupObject>) -> GroupSpec {
        let never_preempts = self.has_policies.then_some(object.never_preempts);
        GroupSpec { never_preempts, ..object.spec.clone() }
    }

    fn record(&self, group: &PodGroup, condition: &GroupCondition) -> Option<ApiCall> {
        let path = ObjectPath::of::<PodGroupObject>(&group.id.namespace, &group.id.name).status();
        let condition = json!({
            "type": object::CONDITION,
            "status": if condition.is_scheduled { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": condition.last_transition.to_rfc3339(),
        });
        let patch = json!({ "metadata": { "uid": group.uid }, "status": { "conditions": [condition] } });
        Some(ApiCall::strategic_patch(path, patch))
    }
}

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        match cx.group {
            Some(group) if group.is_gang() && group.pods < group.min_count() => {
                Err(Reject::unresolvable(REASON_TOO_FEW).into())
            }
            _ => Ok(()),
        }
    }
}

impl Permit for GangScheduling {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        let Some(group) = cx.group.filter(|group| group.is_gang()) else { return Ok(Permitted::Allow) };
        if group.scheduled < group.min_count() {
            return Ok(Permitted::Wait(PERMIT_WAIT));
        }
        for (pod, _) in waiting.list() {
            if is_member(&pod, cx.pod) {
                waiting.allow(&pod.uid);
            }
        }
        Ok(Permitted::Allow)
    }
}

impl GangScheduling {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        Ok(match change {
            Change::Pod { new: Some(new), .. } if is_member(new, pod) => Hint::Queue,
            _ => Hint::Skip,
        })
    }

    fn after_new_group(&self, pod: &PodInfo, change: Changed<'_, PodGroupObject>) -> PluginResult<Hint> {
        let is_own = change.new.is_some_and(|group| describes(group, pod));
        Ok(if is_own { Hint::Queue } else { Hint::Skip })
    }

    fn after_changed_group(&self, pod: &PodInfo, change: Changed<'_, PodGroupObject>) -> PluginResult<Hint> {
        let Changed { old: Some(old), new: Some(new) } = change else { return Ok(Hint::Skip) };
        let are_gangs = old.spec.is_gang() && new.spec.is_gang();
        let needs_fewer = are_gangs && new.spec.min_count() < old.spec.min_count();
        Ok(if describes(new, pod) && needs_fewer { Hint::Queue } else { Hint::Skip })
    }
}

/// Returns true if both pods belong to the same group.
fn is_member(pod: &Pod, other: &Pod) -> bool {
    pod.spec.pod_group.is_some()
        && pod.spec.pod_group == other.spec.pod_group
        && pod.namespace == other.namespace
}

fn describes(group: &Custom<PodGroupObject>, pod: &Pod) -> bool {
    pod.spec.pod_group.as_ref() == Some(&group.metadata.name) && group.metadata.namespace == pod.namespace
}

#[cfg(test)]
mod tests;
