//! Which volumes of which drivers each node has, kept instead of counted.
//!
//! A row counts a volume once, whether one pod there uses it, many, or a VolumeAttachment alone says that it is there.
//! Claims are looked at again when they, their volumes or their classes change. In-tree disks count as those of CSI
//! drivers: only nodes with a CSINode have limits, and these leave such disks to drivers.
//!
//! Invariant: after any sequence of changes it equals one that is made anew.

use std::{collections::BTreeSet, hash::Hash};

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    asked::{DriverVolume, found, in_pod},
    claims::{Claims, Meaning, Shift},
};
use crate::{
    storage::{
        CsiNode, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, StorageClass,
        VolumeAttachment, claim::claim_of,
    },
    volume_users::one_less,
};

/// See the [module documentation](self).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AttachedVolumes {
    rows: FxHashMap<NodeIdx, NodeVolumes>,
    /// The rows with a limit for a driver, by how many more volumes of it they can take; below zero if there are too many.
    room: FxHashMap<Str, BTreeSet<(i64, NodeIdx)>>,
    /// The rows with limits of whose pods a volume cannot be told.
    unsure: BTreeSet<NodeIdx>,
    claims: Claims,
    /// By name.
    attachments: FxHashMap<Str, Attachment>,
    /// The names of attachments by the name of their node.
    by_node: FxHashMap<Str, FxHashSet<Str>>,
    /// The names of attachments by the name of their volume.
    by_volume: FxHashMap<Str, FxHashSet<Str>>,
}

/// What a node has.
#[derive(Debug, Default, PartialEq, Eq)]
struct NodeVolumes {
    /// The node's name, while there is such an object.
    name: Option<Str>,
    /// Whether it has a CSINode.
    has_drivers: bool,
    /// The most volumes that each driver can attach.
    limits: Vec<(Str, i64)>,
    volumes: FxHashMap<DriverVolume, Uses>,
    /// How many volumes of each driver there are.
    counts: FxHashMap<Str, usize>,
    /// How many volumes of pods there cannot be told.
    unsure: usize,
}

/// Who says that a volume is on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    /// Volumes of pods.
    pods: usize,
    /// Attachments.
    attachments: usize,
}

/// A VolumeAttachment with a driver and a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attachment {
    driver: Str,
    node: Str,
    volume: Str,
    /// Where it counts, and as what.
    counts: Option<(NodeIdx, DriverVolume)>,
}

impl AttachedVolumes {
    /// Whether the row's node has a CSINode.
    pub(super) fn has_drivers(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| node.has_drivers)
    }

    /// Whether some driver can only take so many volumes there.
    pub(super) fn has_limits(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| !node.limits.is_empty())
    }

    /// Whether some node has limits.
    pub(super) fn has_any_limits(&self) -> bool {
        !self.room.is_empty()
    }

    /// The rows that `exceeds` may be true of, whatever volumes are there already, and those of which it cannot tell.
    pub(super) fn tight_for(&self, asked: &[DriverVolume]) -> impl Iterator<Item = NodeIdx> {
        let tight = asked.iter().enumerate().filter_map(|(at, volume)| {
            let driver = volume.driver();
            // Once for each driver.
            let is_first = asked[..at].iter().all(|other| other.driver() != driver);
            let rows = self.room.get(driver).filter(|_| is_first)?;
            let new = asked.iter().filter(|volume| volume.driver() == driver).count();
            Some(rows.range(..(i64::try_from(new).unwrap_or(i64::MAX), NodeIdx(0))).map(|(_, row)| *row))
        });
        tight.flatten().chain(self.unsure.iter().copied())
    }

    /// Whether a volume of some pod there cannot be told.
    pub(super) fn is_unsure_of(&self, row: NodeIdx) -> bool {
        self.rows.get(&row).is_some_and(|node| node.unsure > 0)
    }

    /// Whether some driver cannot take these volumes on the row besides those that are there.
    pub(super) fn exceeds(&self, row: NodeIdx, asked: &[DriverVolume]) -> bool {
        let Some(node) = self.rows.get(&row) else { return false };
        let is_used = |volume: &DriverVolume| node.volumes.get(volume).is_some_and(|uses| uses.pods > 0);
        node.exceeds(asked, is_used, |driver| node.counts.get(driver).copied().unwrap_or_default())
    }

    /// The same if the pods there use these volumes.
    pub(super) fn exceeds_recounted(
        &self,
        row: NodeIdx,
        asked: &[DriverVolume],
        used: FxHashSet<DriverVolume>,
    ) -> bool {
        let Some(node) = self.rows.get(&row) else { return false };
        let count = |driver: &Str| {
            let attached =
                node.volumes.iter().filter(|(_, uses)| uses.attachments > 0).map(|(volume, _)| volume);
            let attached = attached.filter(|volume| !used.contains(*volume));
            used.iter().chain(attached).filter(|volume| volume.driver() == driver).count()
        };
        node.exceeds(asked, |volume| used.contains(volume), count)
    }

    /// Changes what is known of a row.
    fn change(&mut self, row: NodeIdx, change: impl FnOnce(&mut NodeVolumes)) {
        let node = self.rows.entry(row).or_default();
        change(node);
        if *node == NodeVolumes::default() {
            self.rows.remove(&row);
        }
    }

    /// Changes who says that a volume is on a row.
    fn change_uses(&mut self, row: NodeIdx, volume: DriverVolume, change: impl FnOnce(&mut Uses)) {
        let driver = volume.driver().clone();
        let room = |all: &Self| all.rows.get(&row).and_then(|node| node.room(&driver));
        let before = room(self);
        self.change(row, |node| node.change(volume, change));
        let after = room(self);
        if before != after {
            self.set_room(row, &driver, before, after);
        }
    }

    fn change_unsure(&mut self, row: NodeIdx, change: impl FnOnce(&mut usize)) {
        self.change(row, |node| change(&mut node.unsure));
        self.note_unsure(row);
    }

    fn note_unsure(&mut self, row: NodeIdx) {
        let is_unsure = |node: &NodeVolumes| node.unsure > 0 && !node.limits.is_empty();
        if self.rows.get(&row).is_some_and(is_unsure) {
            self.unsure.insert(row);
        } else {
            self.unsure.remove(&row);
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

    fn add(&mut self, row: NodeIdx, meaning: Meaning) {
        match meaning {
            Meaning::Uses(volume, count) => self.change_uses(row, volume, |uses| uses.pods += count),
            Meaning::Unsure(count) => self.change_unsure(row, |unsure| *unsure += count),
        }
    }

    fn subtract(&mut self, row: NodeIdx, meaning: Meaning) {
        match meaning {
            Meaning::Uses(volume, count) => self.change_uses(row, volume, |uses| uses.pods -= count),
            Meaning::Unsure(count) => self.change_unsure(row, |unsure| *unsure -= count),
        }
    }

    fn shift(&mut self, (before, after): (Shift, Shift)) {
        before.into_iter().for_each(|(row, meaning)| self.subtract(row, meaning));
        after.into_iter().for_each(|(row, meaning)| self.add(row, meaning));
    }

    /// A row's node has another name, or what it says of its drivers may have changed.
    fn set_node(&mut self, objects: &Objects, row: NodeIdx, name: Option<&Str>) {
        let drivers = name.and_then(|name| found::<CsiNode>(objects, "", name));
        let before = self.rows.get(&row).map(NodeVolumes::rooms).unwrap_or_default();
        self.change(row, |node| {
            node.name = name.cloned();
            node.set_limits(drivers);
        });
        let after = self.rows.get(&row).map(NodeVolumes::rooms).unwrap_or_default();
        before.iter().for_each(|(driver, room)| self.set_room(row, driver, Some(*room), None));
        after.iter().for_each(|(driver, room)| self.set_room(row, driver, None, Some(*room)));
        self.note_unsure(row);
    }

    /// Looks at an attachment anew.
    fn attachment_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        self.uncount(name);
        if let Some(old) = self.attachments.remove(name) {
            remove_from(&mut self.by_node, &old.node, name);
            remove_from(&mut self.by_volume, &old.volume, name);
        }
        let Some(new) = found::<VolumeAttachment>(view.objects, "", name) else { return };
        let Some(volume) = new.volume_name.clone().filter(|_| !new.attacher.is_empty()) else { return };
        self.by_node.entry(new.node_name.clone()).or_default().insert(name.clone());
        self.by_volume.entry(volume.clone()).or_default().insert(name.clone());
        let (driver, node) = (new.attacher.clone(), new.node_name.clone());
        self.attachments.insert(name.clone(), Attachment { driver, node, volume, counts: None });
        self.count(view, name);
    }

    /// Counts an attachment where its node is, if that and its volume are known.
    fn count(&mut self, view: ClusterView<'_>, name: &Str) {
        let Some(attachment) = self.attachments.get_mut(name) else { return };
        let Some(row) = view.nodes.find(&attachment.node) else { return };
        if self.rows.get(&row).is_none_or(|node| node.name.is_none()) {
            return;
        }
        let volume = found::<PersistentVolume>(view.objects, "", &attachment.volume);
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
        for claim in self.claims.naming(name) {
            let shift = self.claims.changed(view.objects, &claim);
            self.shift(shift);
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
                // Of two entries for one driver the last one counts.
                self.limits.retain(|(name, _)| *name != driver.name);
                self.limits.push((driver.name.clone(), i64::from(count)));
            }
        }
    }

    /// How many more volumes of a driver it can take; `None` without a limit.
    fn room(&self, driver: &Str) -> Option<i64> {
        let (_, limit) = self.limits.iter().find(|(limited, _)| limited == driver)?;
        let count = self.counts.get(driver).copied().unwrap_or_default();
        Some(limit - i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The same for every driver with a limit.
    fn rooms(&self) -> Vec<(Str, i64)> {
        let room = |(driver, _): &(Str, i64)| Some((driver.clone(), self.room(driver)?));
        self.limits.iter().filter_map(room).collect()
    }

    fn change(&mut self, volume: DriverVolume, change: impl FnOnce(&mut Uses)) {
        let driver = volume.driver().clone();
        let uses = self.volumes.entry(volume.clone()).or_default();
        let was_there = *uses != Uses::default();
        change(uses);
        let is_there = *uses != Uses::default();
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
        asked: &[DriverVolume],
        is_used: impl Fn(&DriverVolume) -> bool,
        count: impl Fn(&Str) -> usize,
    ) -> bool {
        self.limits.iter().any(|(driver, limit)| {
            let of_driver = asked.iter().filter(|volume| volume.driver() == driver);
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

impl Index for AttachedVolumes {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        for volume in &pod.spec.volumes {
            match claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) if claimed.name.is_empty() => self.add(row, Meaning::Unsure(1)),
                Some(claimed) => {
                    if let Some(meaning) = self.claims.joined(view.objects, row, pod, &claimed) {
                        self.add(row, meaning);
                    }
                }
                None => match in_pod(volume) {
                    Some(Ok(volume)) => self.add(row, Meaning::Uses(volume, 1)),
                    Some(Err(_)) => self.add(row, Meaning::Unsure(1)),
                    None => {}
                },
            }
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        for volume in &pod.spec.volumes {
            match claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) if claimed.name.is_empty() => self.subtract(row, Meaning::Unsure(1)),
                Some(claimed) => {
                    if let Some(meaning) = self.claims.left(row, pod, &claimed) {
                        self.subtract(row, meaning);
                    }
                }
                None => match in_pod(volume) {
                    Some(Ok(volume)) => self.subtract(row, Meaning::Uses(volume, 1)),
                    Some(Err(_)) => self.subtract(row, Meaning::Unsure(1)),
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
        self.set_node(view.objects, row, is.as_ref());
        if let Some(name) = &is {
            named(&self.by_node, name).iter().for_each(|attachment| self.count(view, attachment));
        }
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<PersistentVolumeClaim>() {
            let shift = self.claims.changed(view.objects, &(key.namespace.clone(), key.name.clone()));
            self.shift(shift);
        } else if key.is_of::<PersistentVolume>() {
            self.volume_changed(view, &key.name);
        } else if key.is_of::<StorageClass>() {
            for claim in self.claims.of_class(&key.name) {
                let shift = self.claims.changed(view.objects, &claim);
                self.shift(shift);
            }
        } else if key.is_of::<VolumeAttachment>() {
            self.attachment_changed(view, &key.name);
        } else if key.is_of::<CsiNode>()
            && let Some(row) = view.nodes.find(&key.name)
            && self.rows.get(&row).is_some_and(|node| node.name.is_some())
        {
            self.set_node(view.objects, row, Some(&key.name));
        }
    }
}
