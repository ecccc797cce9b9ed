//! Events that may make a pod with claims schedulable.

use harbormaster_framework::prelude::*;

use super::{DynamicResources, claims};
use crate::devices::{DeviceClass, ResourceClaim, ResourceSlice};

pub(super) fn events() -> Vec<Registration<DynamicResources>> {
    let node = Action::ADD | Action::UPDATE_NODE_LABEL | Action::UPDATE_NODE_ALLOCATABLE;
    let known = Action::ADD | Action::UPDATE;
    vec![
        Registration::always(EventResource::Node, node),
        Registration::on::<ResourceClaim>(known, after_claim),
        Registration::hinted(
            EventResource::Pod,
            Action::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            after_generated_claims,
        ),
        Registration::always(EventResource::of::<DeviceClass>(), known),
        Registration::always(EventResource::of::<ResourceSlice>(), known),
    ]
}

fn queue_if(helps: bool) -> PluginResult<Hint> {
    Ok(if helps { Hint::Queue } else { Hint::Skip })
}

/// Hint for a new or changed claim: devices were released, or the pod's own claim changed.
fn after_claim(
    _: &DynamicResources,
    pod: &PodInfo,
    Changed { old, new }: Changed<'_, ResourceClaim>,
) -> PluginResult<Hint> {
    let Some(new) = new else { return Ok(Hint::Skip) };
    let had_devices = old.is_some_and(|old| old.status.allocation.is_some());
    if had_devices && new.status.allocation.is_none() {
        return Ok(Hint::Queue);
    }
    queue_if(claims::names(pod, &new.metadata) && old.is_none_or(|old| old.status != new.status))
}

/// Hint for claims that were generated for a pod: only the pod itself can use them.
fn after_generated_claims(_: &DynamicResources, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Pod { new: Some(changed), .. } = change else { return Ok(Hint::Queue) };
    queue_if(changed.uid == pod.uid)
}
