//! Which volumes and how much storage are to be had, and from where: kept instead of looking at all for every pod.
//!
//! Volumes that nobody has are found by class, volumes that say for whom they are by their claim, storage capacities by
//! class. What is assumed of a volume counts at once: an index sees objects as plugins do. Of zones, regions and the labels
//! by which volumes tell nodes apart it also knows which rows have which values; VolumeZone asks for these, too.
//!
//! Invariant: after any sequence of changes it equals one that is made anew.

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

/// See the [module documentation](self).
#[derive(Debug, PartialEq)]
pub struct Supply {
    /// Volumes that nobody has, by class.
    free: FxHashMap<Str, Offers<BySize, Arc<FreeVolume>>>,
    /// The names of the volumes that are for a claim, by its namespace and name.
    set_aside: FxHashMap<(Str, Str), BTreeSet<Str>>,
    /// Where each volume is to be found above, by its name.
    volumes: FxHashMap<Str, VolumePlace>,
    /// Storage capacities by class, in the order of namespaces and names.
    capacities: FxHashMap<Str, Offers<ByName, Capacity>>,
    /// Where each of them is to be found above.
    capacity_places: FxHashMap<ByName, (Str, Reach)>,
    /// The rows by the labels that decide alone where volumes can be used, and by zones and regions.
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

/// The capacity of a volume and its name: the smallest first, of several equal ones by name.
type BySize = (Quantity, Str);

/// Namespace and name.
type ByName = (Str, Str);

/// A volume that nobody has.
#[derive(Debug, PartialEq)]
struct FreeVolume {
    candidate: Candidate,
    access_modes: Vec<AccessMode>,
    volume_mode: VolumeMode,
    attributes_class: Str,
    labels: Labels,
}

/// Where a volume is to be found.
#[derive(Debug, PartialEq)]
struct VolumePlace {
    reach: Reach,
    /// Its class and key among those that nobody has.
    free: Option<(Str, BySize)>,
    /// The claim that it is for.
    claim: Option<ByName>,
}

/// A storage capacity, in bytes.
#[derive(Clone, Debug, PartialEq)]
struct Capacity {
    /// The largest volume that can be made.
    limit: i64,
    capacity: i64,
}

impl FreeVolume {
    /// `None` if the volume is none that a claim may be given.
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

    /// Whether it is what a claim asks for, apart from its size.
    fn suits(&self, demand: &Demand) -> bool {
        self.volume_mode == demand.volume_mode
            && self.attributes_class == demand.attributes_class
            && demand.access_modes.iter().all(|mode| self.access_modes.contains(mode))
            && demand.selector.as_ref().is_none_or(|selector| selector.matches(&self.labels))
    }
}

impl Supply {
    /// The smallest volume that nobody has, that suits the claim, that can be used from a node with these labels, and that
    /// `is_open`.
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

    /// The names of the volumes that are for a claim of that name.
    pub(super) fn set_aside_for(&self, namespace: &Str, claim: &Str) -> impl Iterator<Item = &Str> {
        self.set_aside.get(&(namespace.clone(), claim.clone())).into_iter().flatten()
    }

    /// The first storage capacity of the class that speaks of such a node and from which a volume of that many bytes can be
    /// made.
    pub(super) fn capacity(&self, class: &Str, bytes: i64, node: &Labels) -> Option<i64> {
        let best = self.capacities.get(class)?.best(node, &ByName::default(), |offer| offer.limit >= bytes);
        best.map(|offer| offer.capacity)
    }

    /// The rows from which some volume can be used that nobody has and that suits the claim; `None` if that must be asked
    /// row by row.
    pub(super) fn rows_with_volume(&self, demand: &Demand) -> Option<NodeSet> {
        let mut all = NodeSet::default();
        let Some(offers) = self.free.get(&demand.class) else { return Some(all) };
        let least = (demand.requested, Str::default());
        for (label, values) in offers.labels(&least, |volume| volume.suits(demand))? {
            all.unite(&self.rows.with(label, values));
        }
        Some(all)
    }

    /// The rows by their labels: those by which some volume tells nodes apart, zones and regions.
    pub(crate) fn rows(&self) -> &RowsByLabel {
        &self.rows
    }

    fn volume_changed(&mut self, view: ClusterView<'_>, name: &Str) {
        if let Some(old) = self.volumes.remove(name) {
            self.take_out(name, &old);
        }
        let Some(volume) = view.objects.get::<PersistentVolume>("", name).ok().flatten() else { return };
        let reach = Reach::of_affinity(volume.node_affinity.as_ref());
        if let Some((label, _)) = reach.one_label() {
            self.rows.ask(view.nodes, label);
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
        self.volumes.insert(name.clone(), VolumePlace { reach, free, claim });
    }

    fn take_out(&mut self, name: &Str, VolumePlace { reach, free, claim }: &VolumePlace) {
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
        let new = objects.get::<CsiStorageCapacity>(&key.0, &key.1).ok().flatten();
        let Some(new) = new else { return };
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
