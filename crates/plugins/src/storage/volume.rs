//! Persistent volumes.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Quantity, Str,
    pod::InTreeDisk,
    protobuf::{Message, messages},
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

/// A persistent volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireVolume")]
pub struct PersistentVolume {
    /// `spec.capacity.storage`, in bytes.
    pub capacity: Option<Quantity>,
    /// `spec.accessModes`
    pub access_modes: Vec<AccessMode>,
    /// Storage class, from the annotation or the spec; empty for none.
    pub class: Str,
    /// `spec.volumeMode`
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// `spec.claimRef`: the claim that the volume is reserved for or bound to.
    pub claim_ref: Option<ClaimRef>,
    /// `spec.nodeAffinity.required`: the nodes with access; `None` means all nodes.
    pub node_affinity: Option<Arc<ParsedNodeSelector>>,
    /// `status.phase`
    pub phase: VolumePhase,
    /// Location of the data.
    pub source: PersistentVolumeSource,
    /// CSI view of an in-tree disk, for nodes where a CSI driver serves the disk. `None` if no driver serves the disk.
    pub migrated: Option<Migrated>,
}

/// Location of a volume's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PersistentVolumeSource {
    /// `spec.csi`
    Csi {
        /// `driver`
        driver: Str,
        /// `volumeHandle`
        handle: Str,
    },
    /// An in-tree disk that has a CSI driver.
    InTree(InTreeDisk),
    /// Any other location, such as the node itself or a file server.
    #[default]
    Other,
}

/// CSI view of an in-tree volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Migrated {
    /// The in-tree plugin and its driver.
    pub migration: &'static Migration,
    /// The translated volume, or upstream's error if it cannot be translated.
    pub translation: Result<Translation, String>,
}

/// The name and the node affinity of a volume as its CSI driver sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The driver's handle for the volume.
    pub handle: Str,
    /// Node affinity, which replaces [`PersistentVolume::node_affinity`].
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
    /// `uid`; empty if the volume is reserved for any claim with that name.
    #[serde(deserialize_with = "or_default")]
    pub uid: Str,
}

/// Access mode of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AccessMode {
    /// Read-write, by one node.
    ReadWriteOnce,
    /// Read-only, by many nodes.
    ReadOnlyMany,
    /// Read-write, by many nodes.
    ReadWriteMany,
    /// Read-write, by one pod.
    ReadWriteOncePod,
    /// A mode that this version does not recognize.
    #[serde(other)]
    Unknown,
}

/// Form in which pods use a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeMode {
    /// Raw block device.
    Block,
    /// Mounted file system.
    #[default]
    #[serde(other)]
    Filesystem,
}

/// `status.phase` of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumePhase {
    /// No claim has the volume.
    Available,
    /// A claim has the volume.
    Bound,
    /// The volume's claim is gone.
    Released,
    /// The volume could not be reclaimed.
    Failed,
    /// The volume is not available yet, or the phase is missing.
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
    const PROTOBUF: Option<&'static Message> = Some(&messages::storage::PERSISTENT_VOLUME);
}

/// Returns the API server's error for a missing volume.
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

/// The fields of all kinds of disks; each kind uses only some of them.
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
