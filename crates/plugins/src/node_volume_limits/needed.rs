//! The volumes that a pod needs, with their drivers.

use std::sync::Arc;

use harbormaster_api::{
    Str,
    pod::{InTreeDisk, Volume as PodVolume, VolumeSource},
};
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashSet;

use crate::storage::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSource, StorageClass,
    claim::{self, Claimed},
    migration,
};

/// A volume, identified the way its driver identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DriverVolume {
    /// A volume that exists.
    Existing {
        /// The driver.
        driver: Str,
        /// The driver's name for the volume.
        handle: Str,
    },
    /// A volume that will be provisioned for a claim.
    Unprovisioned {
        /// The driver.
        driver: Str,
        /// The claim's namespace.
        namespace: Str,
        /// The claim's name.
        claim: Str,
    },
}

impl DriverVolume {
    /// The driver.
    pub(super) fn driver(&self) -> &Str {
        let (Self::Existing { driver, .. } | Self::Unprovisioned { driver, .. }) = self;
        driver
    }
}

/// The distinct volumes that a pod needs, or why they cannot be determined.
pub(super) type NeededVolumes = Result<Vec<DriverVolume>, VolumeError>;

/// The reason a pod's volumes cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeError {
    /// A claim does not exist.
    NotFound(String),
    /// An object is inconsistent, or a disk cannot be translated.
    Failed(String),
}

impl VolumeError {
    pub(super) fn stop(&self) -> Stop {
        match self {
            Self::NotFound(reason) => Reject::unresolvable(reason.clone()).into(),
            Self::Failed(error) => Stop::Error(error.clone().into()),
        }
    }
}

/// The objects that determine the volume of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimObjects<'a> {
    pub(super) claims: Watched<'a, PersistentVolumeClaim>,
    pub(super) volumes: Watched<'a, PersistentVolume>,
    pub(super) classes: Watched<'a, StorageClass>,
}

/// Returns the volumes that a pending pod needs. `migrated` is true for nodes where CSI drivers serve in-tree disks.
pub(super) fn volumes_of(objects: ClaimObjects<'_>, pod: &PodInfo, migrated: bool) -> NeededVolumes {
    let mut all = Vec::new();
    for volume in &pod.spec.volumes {
        let needed = match claim::claim_of(pod, &volume.name, &volume.source) {
            Some(claimed) => {
                let (namespace, name) = (&pod.namespace, &claimed.name);
                let not_found = || {
                    let why = claim::not_found(name);
                    VolumeError::NotFound(format!("looking up PVC {namespace}/{name}: {why}"))
                };
                let claim = claim_of(objects, pod, &claimed)?.ok_or_else(not_found)?;
                of_claim(objects, claim, migrated)
            }
            None => in_pod(volume).filter(|_| migrated).transpose()?,
        };
        all.extend(needed.filter(|volume| !all.contains(volume)));
    }
    Ok(all)
}

/// Returns the volumes of pods on a node with a CSINode. Ignores claims that do not exist.
pub(super) fn volumes_of_pods(
    objects: ClaimObjects<'_>,
    pods: &[Arc<PodInfo>],
) -> Result<FxHashSet<DriverVolume>, Stop> {
    let mut all = FxHashSet::default();
    for pod in pods {
        for volume in &pod.spec.volumes {
            let needed = match claim::claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) => {
                    let claim = claim_of(objects, pod, &claimed).map_err(|error| error.stop())?;
                    claim.and_then(|claim| of_claim(objects, claim, true))
                }
                None => in_pod(volume).transpose().map_err(|error| error.stop())?,
            };
            all.extend(needed);
        }
    }
    Ok(all)
}

/// Returns the claim that a pod's volume refers to, or `None` if the claim does not exist.
fn claim_of<'a>(
    objects: ClaimObjects<'a>,
    pod: &PodInfo,
    claimed: &Claimed,
) -> Result<Option<&'a Custom<PersistentVolumeClaim>>, VolumeError> {
    if claimed.name.is_empty() {
        return Err(VolumeError::Failed("PersistentVolumeClaim had no name".to_owned()));
    }
    let claim = objects.claims.get(&pod.namespace, &claimed.name);
    match claim {
        Some(claim) if claimed.ephemeral && !claim::is_made_for(claim, pod) => {
            Err(VolumeError::Failed(claim::not_made_for(claim, pod)))
        }
        claim => Ok(claim),
    }
}

/// Returns the volume that a CSI driver serves for an in-tree disk in a pod's spec. Returns `None` for any other
/// volume, and if no driver serves the disk.
pub(super) fn in_pod(volume: &PodVolume) -> Option<Result<DriverVolume, VolumeError>> {
    let VolumeSource::InTree(disk) = &volume.source else { return None };
    let failed = |why: String| {
        VolumeError::Failed(format!("converting volume({}) from inline to csi: {why}", volume.name))
    };
    let handle = migration::inline_handle(disk)?.map_err(failed);
    Some(handle.map(|handle| DriverVolume::Existing { driver: driver_of(disk), handle }))
}

fn driver_of(disk: &InTreeDisk) -> Str {
    migration::of_disk(disk).map_or_else(Str::default, |migration| migration.driver.into())
}

/// Returns the volume of a claim, or the volume that will be provisioned for it. Returns `None` if the volume belongs
/// to no CSI driver or cannot be determined.
pub(super) fn of_claim(
    objects: ClaimObjects<'_>,
    claim: &Custom<PersistentVolumeClaim>,
    migrated: bool,
) -> Option<DriverVolume> {
    match objects.volumes.get("", &claim.volume_name) {
        Some(volume) => of_volume(volume, migrated),
        None => unprovisioned(objects, claim, migrated),
    }
}

fn of_volume(volume: &PersistentVolume, migrated: bool) -> Option<DriverVolume> {
    let (driver, handle) = match (&volume.source, &volume.migrated) {
        (PersistentVolumeSource::Csi { driver, handle }, _) => (driver.clone(), handle.clone()),
        (_, Some(in_tree)) if migrated => {
            let translation = in_tree.translation.as_ref().ok()?;
            (in_tree.migration.driver.into(), translation.handle.clone())
        }
        _ => return None,
    };
    let is_known = !driver.is_empty() && !handle.is_empty();
    is_known.then_some(DriverVolume::Existing { driver, handle })
}

fn unprovisioned(
    objects: ClaimObjects<'_>,
    claim: &Custom<PersistentVolumeClaim>,
    migrated: bool,
) -> Option<DriverVolume> {
    let class = objects.classes.get("", &claim.class)?;
    let driver = match migration::of_plugin(&class.provisioner) {
        Some(migration) if migration.is_on && migrated => migration.driver.into(),
        Some(_) => return None,
        None => class.provisioner.clone(),
    };
    let Metadata { namespace, name, .. } = &claim.metadata;
    let volume = DriverVolume::Unprovisioned { driver, namespace: namespace.clone(), claim: name.clone() };
    (!volume.driver().is_empty()).then_some(volume)
}
