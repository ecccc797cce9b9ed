//! An index of available volumes and storage capacity, and of the nodes with access to them.
//!
//! Free volumes and storage capacities are found by class; volumes reserved for a claim are found by that claim.
//! Assumed changes take effect immediately, since an index sees objects as plugins do. The index also finds rows by
//! the labels that determine access to volumes, including zones and regions, which VolumeZone also uses.
//!
//! Invariant: after any sequence of changes the index equals a rebuilt one.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{
    Labels, Quantity, Str,
    node::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA},
};
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

use super::{
    claims::{Candidate, Demand},
    offers::Offers,
    reach::Reach,
};
use crate::{
    rows_by_label::RowsByLabel,
    storage::{AccessMode, CsiStorageCapacity, PersistentVolume, VolumeMode, VolumePhase},
};

/// An index of available storage.
#[derive(Debug, PartialEq)]
pub struct Supply {
    /// Free volumes by class.
    free: FxHashMap<Str, Offers<BySize, Arc<FreeVolume>>>,
    /// Names of the volumes reserved for a claim, by the claim's namespace and name.
    set_aside: FxHashMap<(Str, Str), BTreeSet<Str>>,
    /// Position of each volume in the maps above, by name.
    volumes: FxHashMap<Str, VolumeEntry>,
    /// Storage capacities by class, ordered by namespace and name.
    capacities: FxHashMap<Str, Offers<ByName, Capacity>>,
    /// Class and reach of each storage capacity.
    capacity_places: FxHashMap<ByName, (Str, Reach)>,
    /// Rows by zone, by region, and by each label that alone determines access to a volume.
    rows: RowsByLabel,
}

impl Default for Supply {
    fn default() -> Self {
        Self {
            free: FxHashMap::default(),
            set_aside: FxHashMap::default(),
            volumes: FxHashMap::default(),
            capacities: FxHashMap::default(),
            capacity_places: FxHashMap::default(),
            rows: RowsByLabel::of(&[LABEL_ZONE, LABEL_ZONE_BETA, LABEL_REGION, LABEL_REGION_BETA]),
        }
    }
}

/// Capacity and name of a volume. Orders volumes by size, then by name.
type BySize = (Quantity, Str);

/// Namespace and name of an object.
type ByName = (Str, Str);

/// A volume that belongs to no claim.
#[derive(Debug, PartialEq)]
struct FreeVolume {
    candidate: Candidate,
    access_modes: Vec<AccessMode>,
    volume_mode: VolumeMode,
    attributes_class: Str,
    labels: Labels,
}

/// Position of a volume in the index.
#[derive(Debug, PartialEq)]
struct VolumeEntry {
    reach: Reach,
    /// Class and key among the free volumes.
    free: Option<(Str, BySize)>,
    /// Claim that the volume is reserved for.
    claim: Option<ByName>,
}

/// A storage capacity, in bytes.
#[derive(Clone, Debug, PartialEq)]
struct Capacity {
    /// Largest volume that can be provisioned.
    limit: i64,
    capacity: i64,
}

impl FreeVolume {
    /// Converts a volume, or returns `None` if the volume is not available to claims.
    fn of(volume: &Custom<PersistentVolume>) -> Option<Self> {
        let is_free = volume.claim_ref.is_none()
            && volume.phase == VolumePhase::Available
            && volume.metadata.deletion_timestamp.is_none();
        is_free.then(|| Self {
            candidate: Candidate::of(volume),
            access_modes: volume.access_modes.clone(),
            volume_mode: volume.volume_mode,
            attributes_class: volume.attributes_class.clone(),
            labels: volume.metadata.labels.clone(),
        })
    }

    /// Returns true if the volume satisfies the claim, apart from the size.
    fn suits(&self, demand: &Demand) -> bool {
        self.volume_mode == demand.volume_mode
            && self.attributes_class == demand.attributes_class
            && demand.access_modes.iter().all(|mode| self.access_modes.contains(mode))
            && demand.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }
}

impl Supply {
    /// Returns the smallest free volume that suits the claim, is accessible from a node with these labels, and
    /// satisfies `is_open`.
    pub(super) fn volume(
        &self,
        demand: &Demand,
        node: &Labels,
        is_open: impl Fn(&Candidate) -> bool,
    ) -> Option<&Candidate> {
        let least = (demand.requested, Str::default());
        let suits = |volume: &Arc<FreeVolume>| volume.suits(demand) && is_open(&volume.candidate);
        Some(&self.free.get(&demand.class)?.best(node, &least, suits)?.candidate)
    }

    /// Returns the names of the volumes reserved for a claim with this name.
    pub(super) fn set_aside_for(&self, namespace: &Str, claim: &Str) -> impl Iterator<Item = &Str> {
        self.set_aside.get(&(namespace.clone(), claim.clone())).into_iter().flatten()
    }

    /// Returns the first of the class's storage capacities, in bytes, that applies to the node and allows a volume of
    /// size `bytes`.
    pub(super) fn capacity(&self, class: &Str, bytes: i64, node: &Labels) -> Option<i64> {
        let best = self.capacities.get(class)?.best(node, &ByName::default(), |offer| offer.limit >= bytes);
        best.map(|offer| offer.capacity)
    }

    /// Returns the rows with access to a free volume that suits the claim, or `None` if each row must be checked.
    pub(super) fn rows_with_volume(&self, demand: &Demand) -> Option<NodeSet> {
        let mut all = NodeSet::default();
        let Some(offers) = self.free.get(&demand.class) else { return Some(all) };
        let least = (demand.requested, Str::default());
        for (label, values) in offers.labels(&least, |volume| volume.suits(demand))? {
            all.unite(&self.rows.rows_with(label, values));
        }
        Some(all)
    }

    /// Returns the rows by label: zones, regions, and labels that determine access to a volume.
    pub(crate) fn rows(&self) -> &RowsByLabel {
        &self.rows
    }

    fn volume_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        let (volumes, _) = self.watched(view.objects);
        if let Some(old) = self.volumes.remove(name) {
            self.remove_volume(name, &old);
        }
        let Some(volume) = volumes.get("", name) else { return };
        let reach = Reach::of_affinity(volume.node_affinity.as_ref());
        if let Some((label, _)) = reach.one_label() {
            self.rows.acquire(view.nodes, label);
        }
        let claim =
            volume.claim_ref.as_ref().map(|claimed| (claimed.namespace.clone(), claimed.name.clone()));
        if let Some(claim) = &claim {
            self.set_aside.entry(claim.clone()).or_default().insert(name.clone());
        }
        let free = FreeVolume::of(volume).map(|free| {
            let key = (free.candidate.capacity, name.clone());
            self.free.entry(volume.class.clone()).or_default().insert(&key, &reach, &Arc::new(free));
            (volume.class.clone(), key)
        });
        self.volumes.insert(name.clone(), VolumeEntry { reach, free, claim });
    }

    fn remove_volume(&mut self, name: &Str, VolumeEntry { reach, free, claim }: &VolumeEntry) {
        if let Some((label, _)) = reach.one_label() {
            self.rows.release(label);
        }
        if let Some(claim) = claim
            && let Some(names) = self.set_aside.get_mut(claim)
        {
            names.remove(name);
            if names.is_empty() {
                self.set_aside.remove(claim);
            }
        }
        if let Some((class, key)) = free {
            remove_offer(&mut self.free, class, key, reach);
        }
    }

    fn capacity_changed(&mut self, objects: &Objects, key: &ByName) {
        if let Some((class, reach)) = self.capacity_places.remove(key) {
            remove_offer(&mut self.capacities, &class, key, &reach);
        }
        let (_, capacities) = self.watched(objects);
        let Some(new) = capacities.get(&key.0, &key.1) else { return };
        let (Some(limit), Some(topology)) = (new.limit(), &new.node_topology) else { return };
        let capacity = new.capacity.map_or(0, |capacity| capacity.value());
        let (offer, reach) = (Capacity { limit: limit.value(), capacity }, Reach::Labels(topology.clone()));
        self.capacities.entry(new.class.clone()).or_default().insert(key, &reach, &offer);
        self.capacity_places.insert(key.clone(), (new.class.clone(), reach));
    }
}

fn remove_offer<K: Ord + Clone, T: Clone>(
    classes: &mut FxHashMap<Str, Offers<K, T>>,
    class: &Str,
    key: &K,
    reach: &Reach,
) {
    if let Some(offers) = classes.get_mut(class) {
        offers.remove(key, reach);
        if offers.is_empty() {
            classes.remove(class);
        }
    }
}

impl Watches for Supply {
    type Resources = (PersistentVolume, CsiStorageCapacity);
}

impl Index for Supply {
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        self.rows.set(row, view.nodes.node(row).labels());
    }

    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<PersistentVolume>() {
            self.volume_changed(view, &key.name);
        } else if key.is_of::<CsiStorageCapacity>() {
            self.capacity_changed(view.objects, &(key.namespace.clone(), key.name.clone()));
        }
    }
}
