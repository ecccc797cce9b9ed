//! An index of the claims and in-tree disks that pods on nodes use, for VolumeRestrictions.
//!
//! Maps each disk (by identity) and each claim (by name) to the rows where it is used, so an attempt looks up only the
//! pod's volumes. Only claims that pods name (`persistentVolumeClaim`) count; ephemeral volumes do not.

use std::hash::Hash;

use harbormaster_api::{
    Str,
    pod::{InTreeDisk, VolumeSource},
};
use harbormaster_framework::{prelude::*, table::NodeTable};
use rustc_hash::FxHashMap;

/// An index of the claims and disks in use. See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VolumeUsers {
    /// Number of pod volumes that name a claim, by namespace and name of the claim, then by row.
    claims: FxHashMap<(Str, Str), FxHashMap<NodeIdx, usize>>,
    /// Number of pod volumes with a disk, by identity, then by row and by disk.
    disks: FxHashMap<DiskKey, FxHashMap<NodeIdx, FxHashMap<InTreeDisk, usize>>>,
}

/// Identity of a disk. Two RBD images are the same only if they also have a monitor in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DiskKey {
    Gce(Str),
    Ebs(Str),
    Iscsi(Str),
    Rbd(Str, Str),
}

impl DiskKey {
    /// Returns the identity of a disk, or `None` if pods may share the disk without restriction.
    fn of(disk: &InTreeDisk) -> Option<Self> {
        Some(match disk {
            InTreeDisk::GcePersistentDisk { name, .. } => Self::Gce(name.clone()),
            InTreeDisk::AwsElasticBlockStore { volume_id } => Self::Ebs(volume_id.clone()),
            InTreeDisk::Iscsi { iqn, .. } => Self::Iscsi(iqn.clone()),
            InTreeDisk::Rbd { pool, image, .. } => Self::Rbd(pool.clone(), image.clone()),
            InTreeDisk::AzureDisk { .. }
            | InTreeDisk::AzureFile
            | InTreeDisk::Cinder { .. }
            | InTreeDisk::PortworxVolume { .. }
            | InTreeDisk::VsphereVolume => return None,
        })
    }
}

/// Returns the pod's disks that other pods may share only under conditions, or not at all: see [`excludes`].
pub(crate) fn exclusive_disks(pod: &PodInfo) -> impl Iterator<Item = &InTreeDisk> {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::InTree(disk) => DiskKey::of(disk).is_some().then_some(disk),
        _ => None,
    })
}

/// Returns true if two pods on one node cannot use these disks at the same time. That is the case if both are the same
/// disk, and the disk is an EBS volume or at least one of the pods uses it read-write.
pub(crate) fn excludes(a: &InTreeDisk, b: &InTreeDisk) -> bool {
    use InTreeDisk::{AwsElasticBlockStore, GcePersistentDisk, Iscsi, Rbd};
    let same = DiskKey::of(a).is_some_and(|a| Some(a) == DiskKey::of(b));
    same && match (a, b) {
        (GcePersistentDisk { read_only: a, .. }, GcePersistentDisk { read_only: b, .. })
        | (Iscsi { read_only: a, .. }, Iscsi { read_only: b, .. }) => !(*a && *b),
        (Rbd { monitors: ours, read_only: a, .. }, Rbd { monitors: theirs, read_only: b, .. }) => {
            !(*a && *b) && ours.iter().any(|monitor| theirs.contains(monitor))
        }
        (AwsElasticBlockStore { .. }, _) => true,
        _ => false,
    }
}

impl VolumeUsers {
    /// Returns true if a pod on an existing node names the claim.
    pub fn is_in_use(&self, nodes: &NodeTable, namespace: &Str, claim: &Str) -> bool {
        let rows = self.claims.get(&(namespace.clone(), claim.clone()));
        rows.is_some_and(|rows| rows.keys().any(|row| nodes.node(*row).object().is_some()))
    }

    /// Returns true if a pod on the row uses the same disk as `disk` and cannot share it.
    pub fn row_excludes(&self, disk: &InTreeDisk, row: NodeIdx) -> bool {
        let rows = DiskKey::of(disk).and_then(|key| self.disks.get(&key));
        let there = rows.and_then(|rows| rows.get(&row)).into_iter().flatten();
        there.into_iter().any(|(other, _)| excludes(disk, other))
    }

    /// Returns all rows for which [`Self::row_excludes`] returns true.
    pub fn excluding<'a>(&'a self, disk: &'a InTreeDisk) -> impl Iterator<Item = NodeIdx> + 'a {
        let rows = DiskKey::of(disk).and_then(|key| self.disks.get(&key)).into_iter().flatten();
        let taken = rows.filter(|(_, there)| there.keys().any(|other| excludes(disk, other)));
        taken.map(|(row, _)| *row)
    }

    fn disk_joined(&mut self, key: DiskKey, row: NodeIdx, disk: &InTreeDisk) {
        let rows = self.disks.entry(key).or_default();
        *rows.entry(row).or_default().entry(disk.clone()).or_default() += 1;
    }

    fn disk_left(&mut self, key: &DiskKey, row: NodeIdx, disk: &InTreeDisk) {
        let Some(rows) = self.disks.get_mut(key) else { return };
        if let Some(there) = rows.get_mut(&row) {
            one_less(there, disk);
            if there.is_empty() {
                rows.remove(&row);
            }
        }
        if rows.is_empty() {
            self.disks.remove(key);
        }
    }

    fn claim_left(&mut self, key: &(Str, Str), row: NodeIdx) {
        let Some(rows) = self.claims.get_mut(key) else { return };
        one_less(rows, &row);
        if rows.is_empty() {
            self.claims.remove(key);
        }
    }
}

/// Decrements a count, and removes it when it reaches zero.
pub(crate) fn one_less<K: Hash + Eq>(counts: &mut FxHashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Index for VolumeUsers {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        for volume in &pod.spec.volumes {
            match &volume.source {
                VolumeSource::Claim(name) => {
                    let rows = self.claims.entry((pod.namespace.clone(), name.clone())).or_default();
                    *rows.entry(row).or_default() += 1;
                }
                VolumeSource::InTree(disk) => {
                    if let Some(key) = DiskKey::of(disk) {
                        self.disk_joined(key, row, disk);
                    }
                }
                VolumeSource::Ephemeral | VolumeSource::Image(_) | VolumeSource::InlineCsi(_) => {}
            }
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        for volume in &pod.spec.volumes {
            match &volume.source {
                VolumeSource::Claim(name) => self.claim_left(&(pod.namespace.clone(), name.clone()), row),
                VolumeSource::InTree(disk) => {
                    if let Some(key) = DiskKey::of(disk) {
                        self.disk_left(&key, row, disk);
                    }
                }
                VolumeSource::Ephemeral | VolumeSource::Image(_) | VolumeSource::InlineCsi(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
