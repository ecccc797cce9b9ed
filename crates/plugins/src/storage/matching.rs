//! Matching of volumes and claims, regardless of nodes. VolumeBinding and the volume controller share these rules.

use harbormaster_api::Quantity;
use harbormaster_framework::resource::{Custom, Metadata};

use super::{ClaimRef, PersistentVolume, PersistentVolumeClaim, VolumePhase};

/// Way in which a volume matches a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The volume is reserved for the claim, which then gets no other volume.
    SetAside,
    /// The volume is not reserved for any claim.
    Free,
}

/// Returns how the volume matches the claim, as decided by upstream's `FindMatchingVolume`, or `None` if it does not.
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

/// Returns true if a free volume satisfies the claim.
fn suits(volume: &Custom<PersistentVolume>, claim: &PersistentVolumeClaim) -> bool {
    volume.phase == VolumePhase::Available
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.metadata.labels))
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
}

/// Returns true if the reference is to the claim. A reference without a UID matches any claim with the same namespace
/// and name.
pub fn names(claimed: &ClaimRef, claim: &Custom<PersistentVolumeClaim>) -> bool {
    let Metadata { namespace, name, uid, .. } = &claim.metadata;
    claimed.namespace == *namespace
        && claimed.name == *name
        && (claimed.uid.is_empty() || claimed.uid == *uid)
}

/// Returns the volume's capacity in bytes, or zero if the capacity is absent.
pub fn capacity(volume: &PersistentVolume) -> Quantity {
    volume.capacity.unwrap_or_else(|| Quantity::from_units(0))
}

/// Returns the claim's requested size in bytes, or zero if the size is absent.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    claim.requested.unwrap_or_else(|| Quantity::from_units(0))
}
