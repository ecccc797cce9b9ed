//! VolumeRestrictions: prevents pods from sharing volumes that only one pod may use.
//!
//! # What it does
//! Extension points: PreFilter, Filter. Checks in-tree disks in the pod's spec, and claims with the `ReadWriteOncePod`
//! access mode. PreFilter counts how many of these claims are in use; Filter compares the disks with the disks of the
//! pods on the node.
//!
//! # Rejects when
//! - A claim does not exist: `persistentvolumeclaim "x" not found`, on all nodes. No eviction helps.
//! - A pod on the node has the same disk: `node(s) had no available disk`. GCE disks, iSCSI targets and RBD images may
//!   be shared if all uses are read-only; EBS volumes may never be shared. RBD images are the same only if they have a
//!   monitor in common. Eviction helps.
//! - A `ReadWriteOncePod` claim is in use by a pod on any node: `node(s) unavailable due to PersistentVolumeClaim with
//!   ReadWriteOncePod access mode already in-use by another pod`. This rejects all nodes, since evicting the other pod
//!   helps wherever that pod is.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node; a new claim that the pod names; the deletion or termination of a pod in the same namespace that uses
//! one of this pod's disks or claims.
//!
//! # Differs from kube-scheduler
//! An index keeps the users of volumes ([`VolumeUsers`]), so pods on nodes are visited only in what-if questions. The
//! signature includes the namespace, and pods with ephemeral volumes have no signature.

use harbormaster_api::{
    Str,
    pod::{InTreeDisk, VolumeSource},
};
use harbormaster_framework::prelude::*;

use crate::{
    sign,
    storage::{
        AccessMode, PersistentVolumeClaim,
        claim::{named_by, not_found},
    },
    volume_users::{VolumeUsers, excludes, exclusive_disks},
};

const REASON_DISK: &str = "node(s) had no available disk";
const REASON_CLAIM: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
     in-use by another pod";

/// Prevents pods from sharing volumes. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeRestrictions;

/// PreFilter's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestrictionState {
    /// Names of the pod's `ReadWriteOncePod` claims.
    claims: Vec<Str>,
    /// Number of these claims that are in use. In a what-if question, every use by an added pod adds one, and every
    /// use by a removed pod subtracts one.
    conflicts: i64,
    /// Rows that pods have joined or left in a what-if question. The pods on these rows are checked one by one.
    changed: Vec<NodeIdx>,
}

impl Plugin for VolumeRestrictions {
    const NAME: &'static str = "VolumeRestrictions";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, Node};
        Some(vec![
            Registration::hinted(AssignedPod, Action::DELETE, Self::after_pod),
            Registration::always(Node, Action::ADD),
            Registration::on::<PersistentVolumeClaim>(Action::ADD, Self::after_claim),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        sign::volumes(pod)
    }
}

impl Watches for VolumeRestrictions {
    type Resources = PersistentVolumeClaim;
}

impl Indexed for VolumeRestrictions {
    type Index = VolumeUsers;
}

impl PreFilter<WholeCluster, RestrictionState> for VolumeRestrictions {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<RestrictionState>, Stop> {
        if cx.pod.spec.volumes.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let claims = exclusive_claims(cx.pod, self.watched(cx.objects))?;
        let users: &VolumeUsers = self.index(cx)?;
        let in_use = claims.iter().filter(|claim| users.is_in_use(cx.nodes, &cx.pod.namespace, claim));
        let conflicts = i64::try_from(in_use.count())?;
        let has_disks = exclusive_disks(cx.pod).next().is_some();
        if conflicts == 0 && !has_disks {
            return Ok(PreFiltered::Skip);
        }
        Ok(PreFiltered::state(RestrictionState { claims, conflicts, changed: Vec::new() }))
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut RestrictionState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.conflicts += state.uses_of(pod)?;
        state.changed.push(node.idx());
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut RestrictionState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.conflicts -= state.uses_of(pod)?;
        state.changed.push(node.idx());
        Ok(())
    }
}

/// Returns the names of the pod's `ReadWriteOncePod` claims.
fn exclusive_claims(pod: &PodInfo, all: Watched<'_, PersistentVolumeClaim>) -> Result<Vec<Str>, Reject> {
    let mut names = Vec::new();
    for name in named_by(pod) {
        let claim = all.get(&pod.namespace, name).ok_or_else(|| Reject::unresolvable(not_found(name)))?;
        if claim.access_modes.contains(&AccessMode::ReadWriteOncePod) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

impl RestrictionState {
    /// Returns the number of volumes of a pod that name one of the claims. As in kube-scheduler, the pod's namespace
    /// does not matter.
    fn uses_of(&self, pod: &PodInfo) -> Result<i64, std::num::TryFromIntError> {
        named_by(pod).filter(|name| self.claims.contains(name)).count().try_into()
    }

    /// Returns true if a pod on the node uses one of the incoming pod's disks and cannot share it.
    fn disk_is_taken(&self, pod: &PodInfo, users: &VolumeUsers, node: NodeRef<'_>) -> bool {
        if self.changed.contains(&node.idx()) {
            return node.pods().iter().any(|other| shares_a_disk(pod, other));
        }
        exclusive_disks(pod).any(|disk| users.row_excludes(disk, node.idx()))
    }
}

impl Filter<WholeCluster, RestrictionState> for VolumeRestrictions {
    fn filter(&self, cx: &Cycle<'_>, state: &RestrictionState, node: NodeRef<'_>) -> Verdict {
        if state.disk_is_taken(cx.pod, self.index(cx)?, node) {
            return Err(Reject::evictable(REASON_DISK).into());
        }
        if state.conflicts > 0 { Err(Reject::evictable(REASON_CLAIM).into()) } else { Ok(()) }
    }

    fn filter_batch(
        &self,
        cx: &Cycle<'_>,
        state: &RestrictionState,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        if state.conflicts > 0 {
            sweep.reject_each(sweep.rows().iter(), &Reject::evictable(REASON_CLAIM));
        }
        // If both a disk and a claim conflict, the disk gives the reason.
        let users: &VolumeUsers = self.index(cx)?;
        let known = exclusive_disks(cx.pod).flat_map(|disk| users.excluding(disk));
        let known = known.filter(|row| !state.changed.contains(row));
        let changed = state.changed.iter().copied();
        let rechecked = changed.filter(|row| state.disk_is_taken(cx.pod, users, cx.nodes.node(*row)));
        let taken: Vec<NodeIdx> = known.chain(rechecked).collect();
        sweep.reject_each(taken.into_iter(), &Reject::evictable(REASON_DISK));
        Ok(())
    }
}

fn shares_a_disk(pod: &PodInfo, other: &PodInfo) -> bool {
    let other: Vec<&InTreeDisk> = exclusive_disks(other).collect();
    exclusive_disks(pod).any(|disk| other.iter().any(|other| excludes(disk, other)))
}

impl VolumeRestrictions {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        if gone.namespace != pod.namespace {
            return Ok(Hint::Skip);
        }
        let helps = gone.spec.volumes.iter().any(|volume| match &volume.source {
            VolumeSource::InTree(gone) => exclusive_disks(pod).any(|disk| excludes(disk, gone)),
            VolumeSource::Claim(gone) => named_by(pod).any(|name| name == gone),
            VolumeSource::Ephemeral | VolumeSource::Image(_) | VolumeSource::InlineCsi(_) => false,
        });
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_claim(&self, pod: &PodInfo, claim: Changed<'_, PersistentVolumeClaim>) -> PluginResult<Hint> {
        let Some(new) = claim.new else { return Ok(Hint::Skip) };
        let named = new.metadata.namespace == pod.namespace && named_by(pod).any(|n| *n == new.metadata.name);
        Ok(if named { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
pub(crate) mod tests;
