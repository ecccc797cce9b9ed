//! Which claims and in-tree disks the pods on nodes use: what VolumeRestrictions decides from.
//!
//! A disk is found under what identifies it, a claim under its name; each has the rows where it is used, so that a pod's
//! decision looks at its own few volumes and never at pods. Claims count for pods that name them
//! (`persistentVolumeClaim`); ephemeral volumes do not count.

use std::hash::Hash;

use harbormaster_api::{
    Str,
    pod::{InTreeDisk, VolumeSource},
};
use harbormaster_framework::{prelude::*, table::NodeTable};
use rustc_hash::FxHashMap;

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VolumeUsers {
    /// How many volumes of pods name a claim, by namespace and name, on each row.
    claims: FxHashMap<(Str, Str), FxHashMap<NodeIdx, usize>>,
    /// What the volumes of pods on each row say of a disk, and how many say it.
    disks: FxHashMap<DiskKey, FxHashMap<NodeIdx, FxHashMap<InTreeDisk, usize>>>,
}

/// What identifies a disk; RBD images are the same only if they share a monitor besides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DiskKey {
    Gce(Str),
    Ebs(Str),
    Iscsi(Str),
    Rbd(Str, Str),
}

impl DiskKey {
    /// `None` for disks that any number of pods may have.
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

/// The pod's disks that exclude others.
pub(crate) fn exclusive_disks(pod: &PodInfo) -> impl Iterator<Item = &InTreeDisk> {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::InTree(disk) => DiskKey::of(disk).is_some().then_some(disk),
        _ => None,
    })
}

/// Whether two pods on one node cannot have these disks: they are the same, and not both only read.
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
    /// Whether a pod on a known node names that claim.
    pub fn is_in_use(&self, nodes: &NodeTable, namespace: &Str, claim: &Str) -> bool {
        let rows = self.claims.get(&(namespace.clone(), claim.clone()));
        rows.is_some_and(|rows| rows.keys().any(|row| nodes.node(*row).object().is_some()))
    }

    /// Whether a pod on the row has the disk, so that no other pod there can have it.
    pub fn row_excludes(&self, disk: &InTreeDisk, row: NodeIdx) -> bool {
        let rows = DiskKey::of(disk).and_then(|key| self.disks.get(&key));
        let there = rows.and_then(|rows| rows.get(&row)).into_iter().flatten();
        there.into_iter().any(|(other, _)| excludes(disk, other))
    }

    /// All rows of which [`Self::row_excludes`] says so.
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

/// Counts one thing less, and forgets what there is no more.
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
