//! An index of volumes by class and by claim.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_api::{Quantity, Str};
use harbormaster_framework::resource::Custom;
use harbormaster_plugins::storage::{PersistentVolume, matching};

/// Names of volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Unclaimed volumes by class, the smallest first.
    free: BTreeMap<Str, BTreeSet<(Quantity, Str)>>,
    /// Claimed volumes by namespace and name of their claim.
    claimed: BTreeMap<(Str, Str), BTreeSet<Str>>,
}

impl Index {
    pub(super) fn add(&mut self, volume: &Custom<PersistentVolume>) {
        let name = volume.metadata.name.clone();
        match claimant(volume) {
            Some(claim) => self.claimed.entry(claim).or_default().insert(name),
            None => {
                let of_class = self.free.entry(volume.class.clone()).or_default();
                of_class.insert((matching::capacity(volume), name))
            }
        };
    }

    pub(super) fn remove(&mut self, volume: &Custom<PersistentVolume>) {
        let name = volume.metadata.name.clone();
        match claimant(volume) {
            Some(claim) => {
                if let Some(all) = self.claimed.get_mut(&claim) {
                    all.remove(&name);
                    if all.is_empty() {
                        self.claimed.remove(&claim);
                    }
                }
            }
            None => {
                if let Some(all) = self.free.get_mut(&volume.class) {
                    all.remove(&(matching::capacity(volume), name));
                }
            }
        }
    }

    /// Returns the volumes that name a claim, in name order.
    pub(super) fn of_claim(&self, namespace: &Str, name: &Str) -> impl Iterator<Item = &Str> {
        self.claimed.get(&(namespace.clone(), name.clone())).into_iter().flatten()
    }

    /// Returns the unclaimed volumes of a class with at least the given capacity, the smallest first.
    pub(super) fn free(&self, class: &Str, at_least: Quantity) -> impl Iterator<Item = &Str> {
        let of_class = self.free.get(class).into_iter();
        of_class.flat_map(move |all| all.range((at_least, Str::default())..)).map(|(_, name)| name)
    }
}

fn claimant(volume: &PersistentVolume) -> Option<(Str, Str)> {
    volume.claim_ref.as_ref().map(|claimed| (claimed.namespace.clone(), claimed.name.clone()))
}
