//! Persistent volumes, claims of them, and what CSI drivers say about nodes.

use super::{
    super::{
        Kind, Message,
        fields::{inline, list, map, one},
    },
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE, AZURE_DISK_VOLUME_SOURCE, GCE_PERSISTENT_DISK_VOLUME_SOURCE,
    LABEL_SELECTOR, NODE_SELECTOR, PORTWORX_VOLUME_SOURCE, VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE,
    meta::METADATA,
};

/// `core.PersistentVolumeClaim`.
pub static PERSISTENT_VOLUME_CLAIM: Message = Message::new(
    "core.PersistentVolumeClaim",
    &[
        one(1, "metadata", Kind::Message(&METADATA)),
        one(2, "spec", Kind::Message(&CLAIM_SPEC)),
        one(3, "status", Kind::Message(&CLAIM_STATUS)),
    ],
);

static CLAIM_SPEC: Message = Message::new(
    "core.PersistentVolumeClaimSpec",
    &[
        list(1, "accessModes", Kind::Text),
        one(2, "resources", Kind::Message(&RESOURCES)),
        one(3, "volumeName", Kind::Text),
        one(4, "selector", Kind::Message(&LABEL_SELECTOR)),
        one(5, "storageClassName", Kind::Text),
        one(6, "volumeMode", Kind::Text),
        one(9, "volumeAttributesClassName", Kind::Text),
    ],
);

static RESOURCES: Message =
    Message::new("core.VolumeResourceRequirements", &[map(2, "requests", Kind::Quantity)]);

static CLAIM_STATUS: Message =
    Message::new("core.PersistentVolumeClaimStatus", &[one(1, "phase", Kind::Text)]);

/// `core.PersistentVolume`.
pub static PERSISTENT_VOLUME: Message = Message::new(
    "core.PersistentVolume",
    &[
        one(1, "metadata", Kind::Message(&METADATA)),
        one(2, "spec", Kind::Message(&VOLUME_SPEC)),
        one(3, "status", Kind::Message(&VOLUME_STATUS)),
    ],
);

static VOLUME_SPEC: Message = Message::new(
    "core.PersistentVolumeSpec",
    &[
        map(1, "capacity", Kind::Quantity),
        inline(2, "", Kind::Message(&SOURCE)),
        list(3, "accessModes", Kind::Text),
        one(4, "claimRef", Kind::Message(&CLAIM_REF)),
        one(6, "storageClassName", Kind::Text),
        one(8, "volumeMode", Kind::Text),
        one(9, "nodeAffinity", Kind::Message(&AFFINITY)),
        one(10, "volumeAttributesClassName", Kind::Text),
    ],
);

static SOURCE: Message = Message::new(
    "core.PersistentVolumeSource",
    &[
        one(1, "gcePersistentDisk", Kind::Message(&GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
        one(2, "awsElasticBlockStore", Kind::Message(&AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
        one(8, "cinder", Kind::Message(&CINDER)),
        one(13, "azureFile", Kind::Message(&AZURE_FILE)),
        one(14, "vsphereVolume", Kind::Message(&VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE)),
        one(16, "azureDisk", Kind::Message(&AZURE_DISK_VOLUME_SOURCE)),
        one(18, "portworxVolume", Kind::Message(&PORTWORX_VOLUME_SOURCE)),
        one(22, "csi", Kind::Message(&CSI)),
    ],
);

static CINDER: Message = Message::new("core.CinderPersistentVolumeSource", &[one(1, "volumeID", Kind::Text)]);

static AZURE_FILE: Message = Message::new("core.AzureFilePersistentVolumeSource", &[]);

static CSI: Message = Message::new(
    "core.CSIPersistentVolumeSource",
    &[one(1, "driver", Kind::Text), one(2, "volumeHandle", Kind::Text)],
);

static CLAIM_REF: Message = Message::new(
    "core.ObjectReference",
    &[one(2, "namespace", Kind::Text), one(3, "name", Kind::Text), one(4, "uid", Kind::Text)],
);

static VOLUME_STATUS: Message = Message::new("core.PersistentVolumeStatus", &[one(1, "phase", Kind::Text)]);

static AFFINITY: Message =
    Message::new("core.VolumeNodeAffinity", &[one(1, "required", Kind::Message(&NODE_SELECTOR))]);

/// `storage.CSINode`.
pub static CSI_NODE: Message = Message::new(
    "storage.CSINode",
    &[one(1, "metadata", Kind::Message(&METADATA)), one(2, "spec", Kind::Message(&CSI_NODE_SPEC))],
);

static CSI_NODE_SPEC: Message =
    Message::new("storage.CSINodeSpec", &[list(1, "drivers", Kind::Message(&CSI_NODE_DRIVER))]);

static CSI_NODE_DRIVER: Message = Message::new(
    "storage.CSINodeDriver",
    &[
        one(1, "name", Kind::Text),
        one(2, "nodeID", Kind::Text),
        list(3, "topologyKeys", Kind::Text),
        one(4, "allocatable", Kind::Message(&CSI_NODE_RESOURCES)),
    ],
);

static CSI_NODE_RESOURCES: Message =
    Message::new("storage.VolumeNodeResources", &[one(1, "count", Kind::Number)]);
