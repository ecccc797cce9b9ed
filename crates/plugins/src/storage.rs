//! Storage objects as the volume plugins read them: claims, volumes, classes, and what CSI drivers say of themselves.
//!
//! Reading order: [`claim`], [`volume`], [`matching`] (of both), [`class`], [`csi`], then [`migration`] (in-tree disks as
//! their CSI drivers see them). `wire` has what their decoding shares.
//!
//! Only what scheduling reads is kept. What is in `metadata` (labels, annotations, the controlling owner, the time of
//! deletion) is found in [`harbormaster_framework::resource::Metadata`]; what annotations or labels decide once and for
//! all is decided here.
//!
//! Invariant: whatever kube-apiserver may leave out or give as null decodes, as what its absence means.

pub mod claim;
pub mod class;
pub mod csi;
pub mod matching;
pub mod migration;
pub mod volume;
mod wire;

pub use claim::{ClaimPhase, PersistentVolumeClaim};
pub use class::{BindingMode, StorageClass, TopologyTerm};
pub use csi::{CsiDriver, CsiNode, CsiStorageCapacity, NodeDriver, VolumeAttachment};
pub use volume::{AccessMode, ClaimRef, PersistentVolume, PersistentVolumeSource, VolumeMode, VolumePhase};

#[cfg(test)]
mod tests;
