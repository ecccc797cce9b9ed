//! Which volumes would do for a claim, wherever its pod goes: what VolumeBinding and the volume controller agree on.

use harbormaster_api::Quantity;
use harbormaster_framework::resource::{Custom, Metadata};

use super::{ClaimRef, PersistentVolume, PersistentVolumeClaim, VolumePhase};

/// How a volume could be a claim's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It was set aside for the claim, which gets no other then.
    SetAside,
    /// Nobody has it.
    Free,
}

/// Whether the claim could have that volume on some node, as upstream's `FindMatchingVolume` judges it.
pub fn fit(volume: &Custom<PersistentVolume>, claim: &Custom<PersistentVolumeClaim>) -> Option<Fit> {
    let is_possible = volume.class == claim.class
        && volume.claim_ref.as_ref().is_none_or(|claimed| names(claimed, claim))
        && capacity(volume) >= requested(claim)
        && volume.volume_mode == claim.volume_mode
        && volume.attributes_class == claim.attributes_class
        && volume.metadata.deletion_timestamp.is_none();
    match volume.claim_ref {
        _ if !is_possible => None,
        Some(_) => Some(Fit::SetAside),
        None => suits(volume, claim).then_some(Fit::Free),
    }
}

/// Whether a volume that nobody has is one that the claim asks for.
fn suits(volume: &Custom<PersistentVolume>, claim: &PersistentVolumeClaim) -> bool {
    volume.phase == VolumePhase::Available
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.metadata.labels))
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// Whether a volume that says this is for the claim. Without a UID it is for whichever claim has the name.
pub fn names(claimed: &ClaimRef, claim: &Custom<PersistentVolumeClaim>) -> bool {
    let Metadata { namespace, name, uid, .. } = &claim.metadata;
    claimed.namespace == *namespace
        && claimed.name == *name
        && (claimed.uid.is_empty() || claimed.uid == *uid)
}

/// How much the volume holds, in bytes; zero if it does not say.
pub fn capacity(volume: &PersistentVolume) -> Quantity {
    volume.capacity.unwrap_or_else(|| Quantity::from_units(0))
}

/// How much the claim asks for, in bytes; zero if it does not say.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    claim.requested.unwrap_or_else(|| Quantity::from_units(0))
}
