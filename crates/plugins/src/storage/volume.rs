//! Volumes: what claims get.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Quantity, Str,
    pod::InTreeDisk,
    selector::{NodeSelector, ParsedNodeSelector},
};
use harbormaster_framework::resource::{Resource, ResourceScope};
use serde::Deserialize;

use super::{
    migration::{self, Migration},
    wire::{WireMeta, WireNodeSelector, or_default},
};

const STORAGE: &str = "storage";
/// The API server's default for `azureDisk.kind`.
const AZURE_SHARED: &str = "Shared";

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireVolume")]
pub struct PersistentVolume {
    /// `spec.capacity.storage`, in bytes.
    pub capacity: Option<Quantity>,
    /// `spec.accessModes`
    pub access_modes: Vec<AccessMode>,
    /// Its class, by annotation or spec; empty for none.
    pub class: Str,
    /// `spec.volumeMode`
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// `spec.claimRef`: for whom it is.
    pub claim_ref: Option<ClaimRef>,
    /// `spec.nodeAffinity.required`: the nodes from which it can be used; without it, from all.
    pub node_affinity: Option<Arc<ParsedNodeSelector>>,
    /// `status.phase`
    pub phase: VolumePhase,
    /// Where its data is.
    pub source: PersistentVolumeSource,
    /// What it is to the CSI driver that serves such in-tree disks today, on nodes that leave them to it. Absent if no
    /// driver counts as serving it.
    pub migrated: Option<Migrated>,
}

/// Where the data of a volume is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PersistentVolumeSource {
    /// `spec.csi`
    Csi {
        /// `driver`
        driver: Str,
        /// `volumeHandle`
        handle: Str,
    },
    /// A disk that drivers outside of Kubernetes serve today.
    InTree(InTreeDisk),
    /// Elsewhere: on the node itself, on a file server, ...
    #[default]
    Other,
}

/// An in-tree volume as its CSI driver sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Migrated {
    /// Which plugin and driver.
    pub migration: &'static Migration,
    /// What it is there.
    ///
    /// # Errors
    /// Why it cannot be told, in the words of upstream's translation.
    pub translation: Result<Translation, String>,
}

/// The name and the place of a volume in the terms of its CSI driver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The driver's name of the volume.
    pub handle: Str,
    /// Stands for [`PersistentVolume::node_affinity`].
    pub node_affinity: Option<Arc<ParsedNodeSelector>>,
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// `namespace`
    #[serde(deserialize_with = "or_default")]
    pub namespace: Str,
    /// `name`
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `uid`; empty if the volume is set aside for whichever claim has that name.
    #[serde(deserialize_with = "or_default")]
    pub uid: Str,
}

/// How a volume may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AccessMode {
    /// From one node.
    ReadWriteOnce,
    /// Only read, from many nodes.
    ReadOnlyMany,
    /// From many nodes.
    ReadWriteMany,
    /// By one pod.
    ReadWriteOncePod,
    /// A mode that this version does not know.
    #[serde(other)]
    Unknown,
}

/// What pods get of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeMode {
    /// The bare device.
    Block,
    /// A directory.
    #[default]
    #[serde(other)]
    Filesystem,
}

/// `status.phase` of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumePhase {
    /// No claim has it.
    Available,
    /// A claim has it.
    Bound,
    /// Its claim is gone.
    Released,
    /// It could not be reclaimed.
    Failed,
    /// It is not to be used yet, or nobody has said.
    #[default]
    #[serde(other)]
    Pending,
}

impl Resource for PersistentVolume {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolume";
    const PLURAL: &'static str = "persistentvolumes";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// What the API server says of a volume that does not exist.
pub fn not_found(name: &str) -> String {
    format!("persistentvolume {name:?} not found")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireVolume {
    #[serde(deserialize_with = "or_default")]
    metadata: WireMeta,
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
    #[serde(deserialize_with = "or_default")]
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "or_default")]
    capacity: BTreeMap<String, Quantity>,
    #[serde(deserialize_with = "or_default")]
    access_modes: Vec<AccessMode>,
    #[serde(deserialize_with = "or_default")]
    storage_class_name: Str,
    #[serde(deserialize_with = "or_default")]
    volume_mode: VolumeMode,
    #[serde(deserialize_with = "or_default")]
    volume_attributes_class_name: Str,
    claim_ref: Option<ClaimRef>,
    #[serde(deserialize_with = "or_default")]
    node_affinity: WireAffinity,
    csi: Option<WireCsi>,
    gce_persistent_disk: Option<WireDisk>,
    aws_elastic_block_store: Option<WireDisk>,
    azure_disk: Option<WireDisk>,
    azure_file: Option<WireDisk>,
    cinder: Option<WireDisk>,
    portworx_volume: Option<WireDisk>,
    vsphere_volume: Option<WireDisk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireAffinity {
    required: Option<WireNodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCsi {
    #[serde(deserialize_with = "or_default")]
    driver: Str,
    #[serde(deserialize_with = "or_default")]
    volume_handle: Str,
}

/// What any disk may say of itself; each kind reads its own fields.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireDisk {
    #[serde(deserialize_with = "or_default")]
    pd_name: Str,
    #[serde(rename = "volumeID", deserialize_with = "or_default")]
    volume_id: Str,
    #[serde(rename = "diskURI", deserialize_with = "or_default")]
    disk_uri: Str,
    #[serde(deserialize_with = "or_default")]
    kind: Str,
    #[serde(deserialize_with = "or_default")]
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    #[serde(deserialize_with = "or_default")]
    phase: VolumePhase,
}

impl WireSpec {
    fn take_source(&mut self) -> PersistentVolumeSource {
        if let Some(WireCsi { driver, volume_handle: handle }) = self.csi.take() {
            return PersistentVolumeSource::Csi { driver, handle };
        }
        self.take_disk().map_or(PersistentVolumeSource::Other, PersistentVolumeSource::InTree)
    }

    fn take_disk(&mut self) -> Option<InTreeDisk> {
        let or_shared = |kind: Str| if kind.is_empty() { AZURE_SHARED.into() } else { kind };
        let gce = |d: WireDisk| InTreeDisk::GcePersistentDisk { name: d.pd_name, read_only: d.read_only };
        let azure = |d: WireDisk| InTreeDisk::AzureDisk { uri: d.disk_uri, kind: or_shared(d.kind) };
        let ebs = |d: WireDisk| InTreeDisk::AwsElasticBlockStore { volume_id: d.volume_id };
        let cinder = |d: WireDisk| InTreeDisk::Cinder { volume_id: d.volume_id };
        let portworx = |d: WireDisk| InTreeDisk::PortworxVolume { volume_id: d.volume_id };
        (self.gce_persistent_disk.take().map(gce))
            .or_else(|| self.aws_elastic_block_store.take().map(ebs))
            .or_else(|| self.azure_disk.take().map(azure))
            .or_else(|| self.azure_file.take().map(|_| InTreeDisk::AzureFile))
            .or_else(|| self.cinder.take().map(cinder))
            .or_else(|| self.portworx_volume.take().map(portworx))
            .or_else(|| self.vsphere_volume.take().map(|_| InTreeDisk::VsphereVolume))
    }
}

impl From<WireVolume> for PersistentVolume {
    fn from(WireVolume { metadata, mut spec, status }: WireVolume) -> Self {
        let source = spec.take_source();
        let node_affinity = spec.node_affinity.required.map(NodeSelector::from);
        let migrated = match &source {
            PersistentVolumeSource::InTree(disk) => {
                migration::migrated(disk, &metadata.labels, node_affinity.as_ref())
            }
            PersistentVolumeSource::Csi { .. } | PersistentVolumeSource::Other => None,
        };
        Self {
            capacity: spec.capacity.get(STORAGE).copied(),
            access_modes: spec.access_modes,
            class: metadata.class_or(spec.storage_class_name),
            volume_mode: spec.volume_mode,
            attributes_class: spec.volume_attributes_class_name,
            claim_ref: spec.claim_ref,
            node_affinity: node_affinity.as_ref().map(ParsedNodeSelector::new).map(Arc::new),
            phase: status.phase,
            source,
            migrated,
        }
    }
}
