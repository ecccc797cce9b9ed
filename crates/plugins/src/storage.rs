//! Storage objects as the volume plugins read them: claims, volumes, classes, and objects of CSI drivers.
//!
//! Reading order: [`claim`], [`volume`], [`matching`], [`class`], [`csi`], then [`migration`] (in-tree disks that CSI
//! drivers serve). `wire` has shared decoding code.
//!
//! Objects contain only what scheduling reads. [`harbormaster_framework::resource::Metadata`] has labels, annotations,
//! the controlling owner and the deletion time; values that annotations or labels determine once and for all are
//! decoded here.
//!
//! Invariant: everything that kube-apiserver may omit or set to null decodes to the default.

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
