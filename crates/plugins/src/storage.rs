//! Storage objects as the volume plugins read them: claims, volumes, classes, and objects of CSI drivers.
//!
//! Reading order: [`claim`], [`volume`], [`matching`], [`class`], [`csi`], then [`migration`] (in-tree disks that CSI
//! drivers serve). `wire` has shared decoding code.
//!
//! Objects contain only what scheduling reads. [`harbormaster_framework::resource::Metadata`] contains labels,
//! annotations, the controlling owner and the deletion time. Values determined by annotations or labels are decoded
//! here, once per object.
//!
//! Invariant: everything that kube-apiserver may omit or set to null decodes to the default.

pub mod claim;
pub mod class;
pub mod csi;
pub mod matching;
pub mod migration;
pub mod volume;
pub(crate) mod wire;

pub use claim::{ClaimPhase, PersistentVolumeClaim};
pub use class::{BindingMode, StorageClass, TopologyTerm};
pub use csi::{CsiDriver, CsiNode, CsiStorageCapacity, NodeDriver, VolumeAttachment};
pub use volume::{AccessMode, ClaimRef, PersistentVolume, PersistentVolumeSource, VolumeMode, VolumePhase};

#[cfg(test)]
mod tests;
