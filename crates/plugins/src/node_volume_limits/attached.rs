//! An index of the volumes on each node, with their drivers.
//!
//! A volume counts once on a row, whether one pod uses it, several pods use it, or only a VolumeAttachment refers to
//! it. Claims are resolved again when they, their volumes or their classes change. In-tree disks are counted for CSI
//! drivers, because only nodes with a CSINode have limits, and on those nodes CSI drivers serve the disks.
//!
//! Invariant: after any sequence of changes the index equals a rebuilt one.

use std::{collections::BTreeSet, hash::Hash};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    claims::{ClaimEffect, Claims, RowEffects},
    needed::{ClaimObjects, DriverVolume, in_pod},
};
use crate::{
    storage::{
        CsiNode, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, StorageClass,
        VolumeAttachment, claim::claim_of,
    },
    volume_users::one_less,
};

/// An index of the volumes on each node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttachedVolumes {
    rows: FxHashMap<NodeIdx, NodeVolumes>,
    /// For each driver, the rows with a limit, ordered by the number of additional volumes that a row can take. The
    /// number is negative if there are too many volumes.
    room: FxHashMap<Str, BTreeSet<(i64, NodeIdx)>>,
    /// Rows that have a limit and a pod with a volume that cannot be determined.
    unknown: BTreeSet<NodeIdx>,
    claims: Claims,
    /// Attachments, by name.
    attachments: FxHashMap<Str, Attachment>,
    /// Names of attachments by node name.
    by_node: FxHashMap<Str, FxHashSet<Str>>,
    /// Names of attachments by volume name.
    by_volume: FxHashMap<Str, FxHashSet<Str>>,
}

/// Volumes and limits of a node.
#[derive(Debug, Default, PartialEq, Eq)]
struct NodeVolumes {
    /// Name of the node, if the object exists.
    name: Option<Str>,
    /// True if the node has a CSINode.
    has_drivers: bool,
    /// Maximum number of volumes by driver.
    limits: Vec<(Str, i64)>,
    volumes: FxHashMap<DriverVolume, UseCounts>,
    /// Number of volumes by driver.
    counts: FxHashMap<Str, usize>,
    /// Number of pod volumes that cannot be determined.
    unknown: usize,
}

/// Number of references to a volume on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UseCounts {
    /// Number of pod volumes.
    pods: usize,
    /// Number of attachments.
    attachments: usize,
}

/// A VolumeAttachment with a driver and a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attachment {
    driver: Str,
    node: Str,
    volume: Str,
    /// The row and the volume under which the attachment is counted, or `None` if it is not counted.
    counts: Option<(NodeIdx, DriverVolume)>,
}

impl AttachedVolumes {
    /// Returns true if the row's node has a CSINode.
    pub(super) fn has_drivers(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| node.has_drivers)
    }

    /// Returns true if a driver has a limit on the row.
    pub(super) fn has_limits(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| !node.limits.is_empty())
    }

    /// Returns true if any node has limits.
    pub(super) fn has_any_limits(&self) -> bool {
        !self.room.is_empty()
    }

    /// Returns the rows that cannot take all needed volumes, assuming that none of these is on the row yet. Also
    /// returns the rows with volumes that cannot be determined.
    pub(super) fn rows_near_limit(&self, needed: &[DriverVolume]) -> impl Iterator<Item = NodeIdx> {
        let tight = needed.iter().enumerate().filter_map(|(at, volume)| {
            let driver = volume.driver();
            // Handle each driver only once.
            let is_first = needed[..at].iter().all(|other| other.driver() != driver);
            let rows = self.room.get(driver).filter(|_| is_first)?;
            let new = needed.iter().filter(|volume| volume.driver() == driver).count();
            Some(rows.range(..(i64::try_from(new).unwrap_or(i64::MAX), NodeIdx(0))).map(|(_, row)| *row))
        });
        tight.flatten().chain(self.unknown.iter().copied())
    }

    /// Returns true if a pod on the row has a volume that cannot be determined.
    pub(super) fn has_unknown_volumes(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| node.unknown > 0)
    }

    /// Returns true if these volumes, added to those on the row, would exceed a driver's limit.
    pub(super) fn exceeds(&self, row: NodeIdx, needed: &[DriverVolume]) -> bool {
        let Some(node) = self.rows.get(&row) else { return false };
        let is_used = |volume: &DriverVolume| node.volumes.get(volume).is_some_and(|uses| uses.pods > 0);
        node.exceeds(needed, is_used, |driver| node.counts.get(driver).copied().unwrap_or_default())
    }

    /// Like [`Self::exceeds`], but takes the volumes of the row's pods from `used`.
    pub(super) fn exceeds_recounted(
        &self,
        row: NodeIdx,
        needed: &[DriverVolume],
        used: FxHashSet<DriverVolume>,
    ) -> bool {
        let Some(node) = self.rows.get(&row) else { return false };
        let count = |driver: &Str| {
            let attached =
                node.volumes.iter().filter(|(_, uses)| uses.attachments > 0).map(|(volume, _)| volume);
            let attached = attached.filter(|volume| !used.contains(*volume));
            used.iter().chain(attached).filter(|volume| volume.driver() == driver).count()
        };
        node.exceeds(needed, |volume| used.contains(volume), count)
    }

    /// Changes the entry of a row.
    fn change(&mut self, row: NodeIdx, change: impl FnOnce(&mut NodeVolumes)) {
        let node = self.rows.entry(row).or_default();
        change(node);
        if *node == NodeVolumes::default() {
            self.rows.remove(&row);
        }
    }

    /// Changes the references to a volume on a row.
    fn change_uses(&mut self, row: NodeIdx, volume: DriverVolume, change: impl FnOnce(&mut UseCounts)) {
        let driver = volume.driver().clone();
        let room = |all: &Self| all.rows.get(&row).and_then(|node| node.room(&driver));
        let before = room(self);
        self.change(row, |node| node.change(volume, change));
        let after = room(self);
        if before != after {
            self.set_room(row, &driver, before, after);
        }
    }

    fn change_unknown(&mut self, row: NodeIdx, change: impl FnOnce(&mut usize)) {
        self.change(row, |node| change(&mut node.unknown));
        self.update_unknown(row);
    }

    fn update_unknown(&mut self, row: NodeIdx) {
        let has_unknown = |node: &NodeVolumes| node.unknown > 0 && !node.limits.is_empty();
        if self.rows.get(&row).is_some_and(has_unknown) {
            self.unknown.insert(row);
        } else {
            self.unknown.remove(&row);
        }
    }

    fn set_room(&mut self, row: NodeIdx, driver: &Str, before: Option<i64>, after: Option<i64>) {
        let rows = self.room.entry(driver.clone()).or_default();
        before.map(|room| rows.remove(&(room, row)));
        after.map(|room| rows.insert((room, row)));
        if rows.is_empty() {
            self.room.remove(driver);
        }
    }

    fn add(&mut self, row: NodeIdx, effect: ClaimEffect) {
        match effect {
            ClaimEffect::Uses(volume, count) => self.change_uses(row, volume, |uses| uses.pods += count),
            ClaimEffect::Unknown(count) => self.change_unknown(row, |unknown| *unknown += count),
        }
    }

    fn subtract(&mut self, row: NodeIdx, effect: ClaimEffect) {
        match effect {
            ClaimEffect::Uses(volume, count) => self.change_uses(row, volume, |uses| uses.pods -= count),
            ClaimEffect::Unknown(count) => self.change_unknown(row, |unknown| *unknown -= count),
        }
    }

    fn apply(&mut self, (before, after): (RowEffects, RowEffects)) {
        before.into_iter().for_each(|(row, effect)| self.subtract(row, effect));
        after.into_iter().for_each(|(row, effect)| self.add(row, effect));
    }

    fn claim_objects<'a>(&self, view: ClusterView<'a>) -> ClaimObjects<'a> {
        let (claims, volumes, classes, ..) = self.watched(view.objects);
        ClaimObjects { claims, volumes, classes }
    }

    /// Updates a row after the name or CSINode of its node has changed.
    fn set_node(&mut self, view: ClusterView<'_>, row: NodeIdx, name: Option<&Str>) {
        let (.., nodes, _) = self.watched(view.objects);
        let drivers = name.and_then(|name| nodes.get("", name));
        let before = self.rows.get(&row).map(NodeVolumes::rooms).unwrap_or_default();
        self.change(row, |node| {
            node.name = name.cloned();
            node.set_limits(drivers);
        });
        let after = self.rows.get(&row).map(NodeVolumes::rooms).unwrap_or_default();
        before.iter().for_each(|(driver, room)| self.set_room(row, driver, Some(*room), None));
        after.iter().for_each(|(driver, room)| self.set_room(row, driver, None, Some(*room)));
        self.update_unknown(row);
    }

    /// Updates the entry of an attachment that was added, changed or deleted.
    fn attachment_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        self.uncount(name);
        if let Some(old) = self.attachments.remove(name) {
            remove_from(&mut self.by_node, &old.node, name);
            remove_from(&mut self.by_volume, &old.volume, name);
        }
        let (.., attachments) = self.watched(view.objects);
        let Some(new) = attachments.get("", name) else { return };
        let Some(volume) = new.volume_name.clone().filter(|_| !new.attacher.is_empty()) else { return };
        self.by_node.entry(new.node_name.clone()).or_default().insert(name.clone());
        self.by_volume.entry(volume.clone()).or_default().insert(name.clone());
        let (driver, node) = (new.attacher.clone(), new.node_name.clone());
        self.attachments.insert(name.clone(), Attachment { driver, node, volume, counts: None });
        self.count(view, name);
    }

    /// Counts an attachment on its node if the node and the volume are known.
    fn count(&mut self, view: ClusterView<'_>, name: &Str) {
        let (_, volumes, ..) = self.watched(view.objects);
        let Some(attachment) = self.attachments.get_mut(name) else { return };
        let Some(row) = view.nodes.find(&attachment.node) else { return };
        if self.rows.get(&row).is_none_or(|node| node.name.is_none()) {
            return;
        }
        let volume = volumes.get("", &attachment.volume);
        let source = volume.map(|volume| &volume.source);
        let Some(PersistentVolumeSource::Csi { handle, .. }) = source else { return };
        let volume = DriverVolume::Existing { driver: attachment.driver.clone(), handle: handle.clone() };
        attachment.counts = Some((row, volume.clone()));
        self.change_uses(row, volume, |uses| uses.attachments += 1);
    }

    fn uncount(&mut self, name: &Str) {
        let counted = self.attachments.get_mut(name).and_then(|attachment| attachment.counts.take());
        if let Some((row, volume)) = counted {
            self.change_uses(row, volume, |uses| uses.attachments -= 1);
        }
    }

    fn volume_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        let objects = self.claim_objects(view);
        for claim in self.claims.of_volume_name(name) {
            let effects = self.claims.changed(objects, &claim);
            self.apply(effects);
        }
        for attachment in named(&self.by_volume, name) {
            self.uncount(&attachment);
            self.count(view, &attachment);
        }
    }
}

impl NodeVolumes {
    fn set_limits(&mut self, drivers: Option<&Custom<CsiNode>>) {
        self.has_drivers = drivers.is_some();
        self.limits.clear();
        for driver in drivers.into_iter().flat_map(|node| &node.drivers) {
            if let Some(count) = driver.allocatable.count {
                // If a driver has two entries with a limit, the last one applies.
                self.limits.retain(|(name, _)| *name != driver.name);
                self.limits.push((driver.name.clone(), i64::from(count)));
            }
        }
    }

    /// Returns the number of additional volumes of a driver that the node can take, or `None` if there is no limit.
    fn room(&self, driver: &Str) -> Option<i64> {
        let (_, limit) = self.limits.iter().find(|(limited, _)| limited == driver)?;
        let count = self.counts.get(driver).copied().unwrap_or_default();
        Some(limit - i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns each driver that has a limit, with the number of additional volumes that the node can take.
    fn rooms(&self) -> Vec<(Str, i64)> {
        let room = |(driver, _): &(Str, i64)| Some((driver.clone(), self.room(driver)?));
        self.limits.iter().filter_map(room).collect()
    }

    fn change(&mut self, volume: DriverVolume, change: impl FnOnce(&mut UseCounts)) {
        let driver = volume.driver().clone();
        let uses = self.volumes.entry(volume.clone()).or_default();
        let was_there = *uses != UseCounts::default();
        change(uses);
        let is_there = *uses != UseCounts::default();
        match (was_there, is_there) {
            (false, true) => *self.counts.entry(driver).or_default() += 1,
            (true, false) => one_less(&mut self.counts, &driver),
            _ => {}
        }
        if !is_there {
            self.volumes.remove(&volume);
        }
    }

    fn exceeds(
        &self,
        needed: &[DriverVolume],
        is_used: impl Fn(&DriverVolume) -> bool,
        count: impl Fn(&Str) -> usize,
    ) -> bool {
        self.limits.iter().any(|(driver, limit)| {
            let of_driver = needed.iter().filter(|volume| volume.driver() == driver);
            let new = of_driver.filter(|volume| !is_used(volume)).count();
            new > 0 && i64::try_from(count(driver) + new).is_ok_and(|total| total > *limit)
        })
    }
}

fn remove_from<K: Hash + Eq>(sets: &mut FxHashMap<K, FxHashSet<Str>>, key: &K, name: &Str) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(name);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

fn named(sets: &FxHashMap<Str, FxHashSet<Str>>, key: &Str) -> Vec<Str> {
    sets.get(key).into_iter().flatten().cloned().collect()
}

impl Watches for AttachedVolumes {
    type Resources = (PersistentVolumeClaim, PersistentVolume, StorageClass, CsiNode, VolumeAttachment);
}

impl Index for AttachedVolumes {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let objects = self.claim_objects(view);
        for volume in &pod.spec.volumes {
            match claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) if claimed.name.is_empty() => self.add(row, ClaimEffect::Unknown(1)),
                Some(claimed) => {
                    if let Some(effect) = self.claims.joined(objects, row, pod, &claimed) {
                        self.add(row, effect);
                    }
                }
                None => match in_pod(volume) {
                    Some(Ok(volume)) => self.add(row, ClaimEffect::Uses(volume, 1)),
                    Some(Err(_)) => self.add(row, ClaimEffect::Unknown(1)),
                    None => {}
                },
            }
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        for volume in &pod.spec.volumes {
            match claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) if claimed.name.is_empty() => self.subtract(row, ClaimEffect::Unknown(1)),
                Some(claimed) => {
                    if let Some(effect) = self.claims.left(row, pod, &claimed) {
                        self.subtract(row, effect);
                    }
                }
                None => match in_pod(volume) {
                    Some(Ok(volume)) => self.subtract(row, ClaimEffect::Uses(volume, 1)),
                    Some(Err(_)) => self.subtract(row, ClaimEffect::Unknown(1)),
                    None => {}
                },
            }
        }
    }

    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        let node = view.nodes.node(row);
        let is = node.object().is_some().then(|| node.name().clone());
        let was = self.rows.get(&row).and_then(|known| known.name.clone());
        if is == was {
            return;
        }
        let gone = was.map(|was| named(&self.by_node, &was)).unwrap_or_default();
        gone.iter().for_each(|attachment| self.uncount(attachment));
        self.set_node(view, row, is.as_ref());
        if let Some(name) = &is {
            named(&self.by_node, name).iter().for_each(|attachment| self.count(view, attachment));
        }
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        let objects = self.claim_objects(view);
        if key.is_of::<PersistentVolumeClaim>() {
            let effects = self.claims.changed(objects, &(key.namespace.clone(), key.name.clone()));
            self.apply(effects);
        } else if key.is_of::<PersistentVolume>() {
            self.volume_changed(view, &key.name);
        } else if key.is_of::<StorageClass>() {
            for claim in self.claims.of_class(&key.name) {
                let effects = self.claims.changed(objects, &claim);
                self.apply(effects);
            }
        } else if key.is_of::<VolumeAttachment>() {
            self.attachment_changed(view, &key.name);
        } else if key.is_of::<CsiNode>()
            && let Some(row) = view.nodes.find(&key.name)
            && self.rows.get(&row).is_some_and(|node| node.name.is_some())
        {
            self.set_node(view, row, Some(&key.name));
        }
    }
}
