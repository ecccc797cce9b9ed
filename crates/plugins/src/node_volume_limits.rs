//! NodeVolumeLimits: limits the number of volumes of a CSI driver on a node.
//!
//! # What it does
//! Extension points: PreFilter, Filter. PreFilter finds the volumes that the pod needs and their drivers. Filter adds
//! the needed volumes that are not on the node yet to the node's volumes, and compares the sum with the limits in the
//! node's CSINode. In-tree disks count toward the limit of the CSI driver that replaces their in-tree plugin.
//!
//! # Rejects when
//! - A claim does not exist: `looking up PVC ns/x: persistentvolumeclaim "x" not found`, on all nodes. No eviction
//!   helps.
//! - A limit would be exceeded: `node(s) exceed max volume count`. Evicting pods helps. A volume that several pods of
//!   the node use counts once. A volume that is attached but that no pod uses also counts, and it counts twice if this
//!   pod needs it.
//! - With the `VolumeLimitScaling` feature gate: the node lacks a driver whose CSIDriver object keeps pods off nodes
//!   without the driver: `x CSI driver is not installed on the node`. Evictions are tried but do not help.
//!
//! The plugin fails if the claim of an ephemeral volume (of the pod, or of a pod on the node) was not created for that
//! pod, or if an in-tree disk cannot be translated for its driver. A claim without a volume counts toward the limit of
//! its class's driver. Nodes without a CSINode are unlimited, and so are drivers without a limit in the CSINode.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new CSINode, or a CSINode with a higher limit; the deletion or termination of a bound or nominated pod that has
//! volumes that may count; a new claim of the pod; a deleted VolumeAttachment, if the pod has any claim, or a disk of
//! the attachment's driver.
//!
//! # Differs from kube-scheduler
//! An index keeps the attached volumes ([`AttachedVolumes`]). They are counted pod by pod only in what-if questions and
//! on nodes with a volume that cannot be determined. The signature includes the namespace, and pods with ephemeral
//! volumes have no signature.

mod attached;
mod claims;
mod needed;

use harbormaster_api::{Str, features::Feature, pod::VolumeSource};
use harbormaster_framework::prelude::*;

use crate::{
    sign,
    storage::{
        CsiDriver, CsiNode, NodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass,
        VolumeAttachment, claim, migration,
    },
};

pub use attached::AttachedVolumes;

use needed::{ClaimObjects, NeededVolumes, VolumeError};

const REASON: &str = "node(s) exceed max volume count";

/// Limits the number of volumes on a node. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct NodeVolumeLimits {
    /// True with the `VolumeLimitScaling` feature gate.
    needs_drivers: bool,
}

/// Volumes that the pod needs.
#[derive(Clone, Debug)]
pub struct LimitsState {
    /// Volumes that the pod needs on a node with a CSINode, where CSI drivers serve in-tree disks.
    migrated: NeededVolumes,
    /// Volumes that the pod needs on any other node.
    plain: NeededVolumes,
    /// Rows that pods have joined or left in a what-if question. The volumes of the pods on these rows are counted one
    /// by one.
    changed: Vec<NodeIdx>,
}

/// The state of a pod that needs no volumes.
impl Default for LimitsState {
    fn default() -> Self {
        Self { migrated: Ok(Vec::new()), plain: Ok(Vec::new()), changed: Vec::new() }
    }
}

impl Plugin for NodeVolumeLimits {
    const NAME: &'static str = "NodeVolumeLimits";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, CsiNode as Limits};
        Some(vec![
            Registration::always(Limits, Action::ADD),
            Registration::on::<CsiNode>(Action::UPDATE, Self::after_limits),
            Registration::hinted(AssignedPod, Action::DELETE, Self::after_pod),
            Registration::on::<PersistentVolumeClaim>(Action::ADD, Self::after_claim),
            Registration::on::<VolumeAttachment>(Action::DELETE, Self::after_attachment),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        sign::volumes(pod)
    }
}

impl Watches for NodeVolumeLimits {
    type Resources = (PersistentVolumeClaim, PersistentVolume, StorageClass, CsiNode, CsiDriver);
}

impl Build for NodeVolumeLimits {
    type Args = NoArgs;
    fn build(_: NoArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { needs_drivers: cx.features.enabled(Feature::VolumeLimitScaling) })
    }
}

impl Indexed for NodeVolumeLimits {
    type Index = AttachedVolumes;
}

impl PreFilter<WholeCluster, LimitsState> for NodeVolumeLimits {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<LimitsState>, Stop> {
        if !cx.pod.spec.volumes.iter().any(|volume| may_count(&volume.source)) {
            return Ok(PreFiltered::Skip);
        }
        let objects = self.claim_objects(cx);
        let migrated = needed::volumes_of(objects, cx.pod, true);
        let plain = needed::volumes_of(objects, cx.pod, false);
        let nothing = |needed: &NeededVolumes| needed.as_ref().is_ok_and(Vec::is_empty);
        if nothing(&migrated) && nothing(&plain) {
            return Ok(PreFiltered::Skip);
        }
        let is_unlimited = !self.needs_drivers && !self.index(cx)?.has_any_limits();
        if is_unlimited && migrated.is_ok() && plain.is_ok() {
            return Ok(PreFiltered::Skip);
        }
        Ok(PreFiltered::state(LimitsState { migrated, plain, changed: Vec::new() }))
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut LimitsState,
        _: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.changed.push(node.idx());
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut LimitsState,
        _: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.changed.push(node.idx());
        Ok(())
    }
}

/// Returns true if the volume may count toward the limit of a CSI driver. Inline CSI volumes never count.
fn may_count(source: &VolumeSource) -> bool {
    match source {
        VolumeSource::Claim(_) | VolumeSource::Ephemeral => true,
        VolumeSource::InTree(disk) => migration::of_disk(disk).is_some(),
        VolumeSource::Image(_) | VolumeSource::InlineCsi(_) => false,
    }
}

impl Filter<WholeCluster, LimitsState> for NodeVolumeLimits {
    fn filter(&self, cx: &Cycle<'_>, state: &LimitsState, node: NodeRef<'_>) -> Verdict {
        self.judge(cx, state, self.index(cx)?, node)
    }

    fn filter_batch(&self, cx: &Cycle<'_>, state: &LimitsState, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let attached: &AttachedVolumes = self.index(cx)?;
        let mut rows = sweep.rows().clone();
        if let Some(some) = self.may_reject(cx, state, attached) {
            rows.intersect(&some);
        }
        for row in &rows {
            match self.judge(cx, state, attached, cx.nodes.node(row)) {
                Ok(()) => {}
                Err(Stop::Reject(reject)) => sweep.reject(row, reject),
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl NodeVolumeLimits {
    /// Returns the only rows that [`Self::judge`] may reject, or `None` if it may reject any row.
    fn may_reject(&self, cx: &Cycle<'_>, state: &LimitsState, attached: &AttachedVolumes) -> Option<NodeSet> {
        let LimitsState { migrated: Ok(migrated), plain: Ok(plain), changed } = state else { return None };
        let may_be_missing =
            || migrated.iter().chain(plain).any(|needed| self.is_required(cx, needed.driver()));
        if self.needs_drivers && may_be_missing() {
            return None;
        }
        Some(attached.rows_near_limit(migrated).chain(changed.iter().copied()).collect())
    }

    fn judge(
        &self,
        cx: &Cycle<'_>,
        state: &LimitsState,
        attached: &AttachedVolumes,
        node: NodeRef<'_>,
    ) -> Verdict {
        let row = node.idx();
        let needed = if attached.has_drivers(row) { &state.migrated } else { &state.plain };
        let needed = needed.as_ref().map_err(VolumeError::stop)?;
        if self.needs_drivers {
            let missing = needed.iter().find(|needed| self.is_missing(cx, needed.driver(), node.name()));
            if let Some(needed) = missing {
                let reason = format!("{} CSI driver is not installed on the node", needed.driver());
                return Err(Reject::evictable(reason).into());
            }
        }
        if needed.is_empty() || !attached.has_limits(row) {
            return Ok(());
        }
        let is_full = if state.changed.contains(&row) || attached.has_unknown_volumes(row) {
            attached.exceeds_recounted(
                row,
                needed,
                needed::volumes_of_pods(self.claim_objects(cx), node.pods())?,
            )
        } else {
            attached.exceeds(row, needed)
        };
        if is_full { Err(Reject::evictable(REASON).into()) } else { Ok(()) }
    }

    /// Returns true if the driver's CSIDriver object keeps pods off nodes without the driver.
    fn is_required(&self, cx: &Cycle<'_>, driver: &str) -> bool {
        let (.., drivers) = self.watched(cx.objects);
        drivers.get("", driver).is_some_and(|driver| driver.prevent_pod_scheduling_if_missing)
    }

    /// Returns true if the driver is required, and the node lacks it.
    fn is_missing(&self, cx: &Cycle<'_>, driver: &str, node: &str) -> bool {
        let (.., nodes, _) = self.watched(cx.objects);
        let has = |node: &Custom<CsiNode>| node.drivers.iter().any(|on_node| on_node.name == *driver);
        self.is_required(cx, driver) && !nodes.get("", node).is_some_and(has)
    }

    fn claim_objects<'a>(&self, cx: &Cycle<'a>) -> ClaimObjects<'a> {
        let (claims, volumes, classes, ..) = self.watched(cx.objects);
        ClaimObjects { claims, volumes, classes }
    }

    fn after_limits(&self, _: &PodInfo, limits: Changed<'_, CsiNode>) -> PluginResult<Hint> {
        let Changed { old: Some(old), new: Some(new) } = limits else { return Ok(Hint::Queue) };
        let limit = |driver: &NodeDriver| driver.allocatable.count.unwrap_or_default();
        let was = |name: &Str| old.drivers.iter().rev().find(|driver| driver.name == *name).map_or(0, limit);
        let helps = new.drivers.iter().any(|driver| limit(driver) > was(&driver.name));
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_pod(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        let had_node = gone.node_name.is_some() || gone.status.nominated_node_name.is_some();
        let helps = had_node && gone.spec.volumes.iter().any(|volume| may_count(&volume.source));
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_claim(&self, pod: &PodInfo, claim: Changed<'_, PersistentVolumeClaim>) -> PluginResult<Hint> {
        let Some(new) = claim.new else { return Ok(Hint::Skip) };
        let is_meant = new.metadata.namespace == pod.namespace
            && claim::claimed_by(pod).any(|claimed| claimed.name == new.metadata.name);
        Ok(if is_meant { Hint::Queue } else { Hint::Skip })
    }

    /// As in kube-scheduler, ephemeral volumes do not count here.
    fn after_attachment(&self, pod: &PodInfo, gone: Changed<'_, VolumeAttachment>) -> PluginResult<Hint> {
        let Some(gone) = gone.old else { return Ok(Hint::Queue) };
        for volume in &pod.spec.volumes {
            if let Some(Err(VolumeError::Failed(error))) = needed::in_pod(volume) {
                return Err(error.into());
            }
            let helps = match &volume.source {
                VolumeSource::Claim(_) => true,
                VolumeSource::InTree(disk) => migration::of_disk(disk)
                    .is_some_and(|migration| migration.driver == gone.attacher.as_str()),
                VolumeSource::Ephemeral | VolumeSource::Image(_) | VolumeSource::InlineCsi(_) => false,
            };
            if helps {
                return Ok(Hint::Queue);
            }
        }
        Ok(Hint::Skip)
    }
}

#[cfg(test)]
mod tests;
