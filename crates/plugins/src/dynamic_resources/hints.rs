//! Events that may make a pod that needs devices schedulable.

use harbormaster_framework::prelude::*;

use super::{DynamicResources, claims};
use crate::{
    devices::{
        DeviceClass, DeviceGates, DeviceTaintRule, ResourceClaim, ResourceSlice, have_different_taints,
        may_be_provided, pod_of,
    },
    placement::left_unbound,
};

pub(super) fn events(gates: DeviceGates) -> Vec<Registration<DynamicResources>> {
    let node = Action::ADD | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_ALLOCATABLE;
    let known = Action::ADD | Action::UPDATE;
    let mut events = vec![
        Registration::always(EventResource::Node, node),
        Registration::hinted_with_objects(
            EventResource::of::<ResourceClaim>(),
            known | Action::DELETE,
            after_claim,
        ),
        Registration::hinted_with_objects(
            EventResource::TargetPod,
            Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            after_generated_claims,
        ),
        Registration::always(EventResource::of::<DeviceClass>(), known),
        Registration::always(EventResource::of::<ResourceSlice>(), known),
        Registration::hinted_with_objects(EventResource::AssignedPod, Action::DELETE, after_pod),
    ];
    if gates.taint_rules {
        let rule = EventResource::of::<DeviceTaintRule>();
        events.push(Registration::hinted_with_objects(rule, known | Action::DELETE, after_taint_rule));
    }
    events
}

fn queue_if(helps: bool) -> PluginResult<Hint> {
    Ok(if helps { Hint::Queue } else { Hint::Skip })
}

/// Hint for a claim. Queues a pod whose claims all exist if devices were released, or if a claim of the pod is new or
/// its status changed. Deleting a claim also releases its devices (claims for extended resources are deleted without
/// being deallocated), unlike in kube-scheduler 1.36. Unlike in kube-scheduler, deleting the claim for a pod's extended
/// resources queues that pod.
fn after_claim(plugin: &DynamicResources, cx: HintCycle<'_>, change: &Change<'_>) -> PluginResult<Hint> {
    let Some(Changed { old, new }) = change.of::<ResourceClaim>() else { return Ok(Hint::Skip) };
    let pod = cx.pod;
    let had_devices = old.is_some_and(|old| old.status.allocation.is_some());
    if new.is_none() && had_devices && plugin.gates.rules.deletions_wake_all {
        return Ok(Hint::Queue);
    }
    if !has_all_claims(plugin, cx) {
        return Ok(Hint::Skip);
    }
    let Some(new) = new else {
        return queue_if(had_devices || old.and_then(pod_of) == Some(&pod.uid));
    };
    if had_devices && new.status.allocation.is_none() {
        return Ok(Hint::Queue);
    }
    queue_if(claims::names(pod, &new.metadata) && old.is_none_or(|old| old.status != new.status))
}

/// Returns true if all claims of the pod exist and can be used.
fn has_all_claims(plugin: &DynamicResources, cx: HintCycle<'_>) -> bool {
    let (all, ..) = plugin.watched(cx.objects);
    claims::of(cx.pod, all, plugin.of_groups).is_ok()
}

/// Hint for a rule that taints devices. As in kube-scheduler, to which a rule is a part of the slices, any change to the
/// taints of some device queues the pod, even if no device becomes free.
fn after_taint_rule(plugin: &DynamicResources, cx: HintCycle<'_>, change: &Change<'_>) -> PluginResult<Hint> {
    let Some(Changed { old, new }) = change.of::<DeviceTaintRule>() else { return Ok(Hint::Skip) };
    let (old, new) = (old.map(|old| &old.object), new.map(|new| &new.object));
    let (_, _, slices, ..) = plugin.watched(cx.objects);
    queue_if(old != new && slices.all().any(|slice| have_different_taints(slice, old, new)))
}

/// Hint for a pod that lost its node before it was bound: devices that were chosen for it may be free again. Skips
/// bound pods, since their claims keep the devices.
fn after_pod(plugin: &DynamicResources, cx: HintCycle<'_>, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
    let mut requests =
        gone.spec.containers.iter().chain(&gone.spec.init_containers).flat_map(|it| &it.requests);
    let needs_devices =
        !gone.spec.resource_claims.is_empty() || requests.any(|(resource, _)| may_be_provided(resource));
    queue_if(left_unbound(gone) && needs_devices && has_all_claims(plugin, cx))
}

/// Hint for claims that were generated for the pod: the pod can use them once all of them exist.
fn after_generated_claims(
    plugin: &DynamicResources,
    cx: HintCycle<'_>,
    change: &Change<'_>,
) -> PluginResult<Hint> {
    let Change::Pod { new: Some(changed), .. } = change else { return Ok(Hint::Queue) };
    let (all, ..) = plugin.watched(cx.objects);
    queue_if(claims::of(changed, all, plugin.of_groups).is_ok())
}
