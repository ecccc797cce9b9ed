//! In-tree disks in the volumes of pods.

use serde::Deserialize;

use super::json::{List, Text};
use crate::{pod::InTreeDisk, strings::Interner};

/// The API server's default for `azureDisk.kind`.
const AZURE_SHARED: &str = "Shared";
/// The API server's default for `rbd.pool`.
const RBD_POOL: &str = "rbd";

/// The fields of all kinds of disks; each kind uses only some of them.
#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WireDisk<'a> {
    pd_name: Text<'a>,
    #[serde(rename = "volumeID")]
    volume_id: Text<'a>,
    #[serde(rename = "diskURI")]
    disk_uri: Text<'a>,
    kind: Text<'a>,
    iqn: Text<'a>,
    monitors: List<Text<'a>>,
    pool: Text<'a>,
    image: Text<'a>,
    read_only: Option<bool>,
}

impl WireDisk<'_> {
    fn read_only(&self) -> bool {
        self.read_only.unwrap_or_default()
    }

    pub(super) fn gce(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::GcePersistentDisk { name: self.pd_name.intern(interner), read_only: self.read_only() }
    }

    pub(super) fn ebs(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::AwsElasticBlockStore { volume_id: self.volume_id.intern(interner) }
    }

    pub(super) fn azure(&self, interner: &mut Interner) -> InTreeDisk {
        let kind = interner.intern(if self.kind.is_empty() { AZURE_SHARED } else { &self.kind });
        InTreeDisk::AzureDisk { uri: self.disk_uri.intern(interner), kind }
    }

    pub(super) fn cinder(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::Cinder { volume_id: self.volume_id.intern(interner) }
    }

    pub(super) fn iscsi(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::Iscsi { iqn: self.iqn.intern(interner), read_only: self.read_only() }
    }

    pub(super) fn portworx(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::PortworxVolume { volume_id: self.volume_id.intern(interner) }
    }

    pub(super) fn rbd(&self, interner: &mut Interner) -> InTreeDisk {
        InTreeDisk::Rbd {
            monitors: self.monitors.intern(interner),
            pool: interner.intern(if self.pool.is_empty() { RBD_POOL } else { &self.pool }),
            image: self.image.intern(interner),
            read_only: self.read_only(),
        }
    }
}
