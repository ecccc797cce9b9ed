//! Queueing hints.

use harbormaster_api::pod::VolumeSource;
use harbormaster_framework::prelude::*;

use super::VolumeBinding;
use crate::{
    placement::left_unbound,
    storage::{
        CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, claim,
        csi,
    },
};

pub(super) fn events() -> Vec<Registration<VolumeBinding>> {
    let known = Action::ADD | Action::UPDATE;
    vec![
        Registration::on::<StorageClass>(known, after_class),
        Registration::on::<PersistentVolumeClaim>(known, after_claim),
        Registration::always(EventResource::of::<PersistentVolume>(), known),
        Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
        Registration::on::<CsiNode>(known, after_drivers),
        Registration::on::<CsiDriver>(Action::UPDATE, after_driver),
        Registration::on::<CsiStorageCapacity>(known, after_capacity),
        Registration::hinted(EventResource::AssignedPod, Action::DELETE, after_pod),
    ]
}

fn queue_if(helps: bool) -> PluginResult<Hint> {
    Ok(if helps { Hint::Queue } else { Hint::Skip })
}

/// Hint for a new class, or a class whose allowed topologies changed.
fn after_class(
    _: &VolumeBinding,
    _: &PodInfo,
    Changed { old, new }: Changed<'_, StorageClass>,
) -> PluginResult<Hint> {
    let places = |class: &Custom<StorageClass>| class.allowed_topologies.clone();
    queue_if(old.is_none() || old.map(places) != new.map(places))
}

/// Hint for the pod's own claims.
fn after_claim(
    _: &VolumeBinding,
    pod: &PodInfo,
    changed: Changed<'_, PersistentVolumeClaim>,
) -> PluginResult<Hint> {
    let is_own = |changed: &Metadata| {
        changed.namespace == pod.namespace && claim::claimed_by(pod).any(|own| own.name == changed.name)
    };
    queue_if(changed.new.is_some_and(|new| is_own(&new.metadata)))
}

/// Hint for a new CSINode, or for a change to its migrated plugins, which determine how in-tree disks are accessed.
fn after_drivers(
    _: &VolumeBinding,
    _: &PodInfo,
    Changed { old, new }: Changed<'_, CsiNode>,
) -> PluginResult<Hint> {
    queue_if(old.is_none() || old.map(csi::migrated_plugins) != new.map(csi::migrated_plugins))
}

/// Hint for a driver that stops reporting capacity. Like upstream, considers only inline volumes.
fn after_driver(
    _: &VolumeBinding,
    pod: &PodInfo,
    Changed { old, new }: Changed<'_, CsiDriver>,
) -> PluginResult<Hint> {
    let (Some(old), Some(new)) = (old, new) else { return Ok(Hint::Queue) };
    let is_inline = |source: &VolumeSource| matches!(source, VolumeSource::InlineCsi(driver) if *driver == new.metadata.name);
    let is_used = pod.spec.volumes.iter().any(|volume| is_inline(&volume.source));
    queue_if(is_used && old.storage_capacity && !new.storage_capacity)
}

/// Hint for new or increased capacity.
fn after_capacity(
    _: &VolumeBinding,
    _: &PodInfo,
    Changed { old, new }: Changed<'_, CsiStorageCapacity>,
) -> PluginResult<Hint> {
    let limit = |capacity: Option<&Custom<CsiStorageCapacity>>| Some(capacity?.limit()?.value());
    queue_if(old.is_none() || limit(new) > limit(old))
}

/// Hint for a pod that lost its node before it was bound. An assumed change that never reached the API server may have
/// reserved a volume for the pod. Skips bound pods, since the API server knows their volumes.
fn after_pod(_: &VolumeBinding, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
    let is_claim = |source: &VolumeSource| matches!(source, VolumeSource::Claim(_) | VolumeSource::Ephemeral);
    queue_if(left_unbound(gone) && gone.spec.volumes.iter().any(|volume| is_claim(&volume.source)))
}
