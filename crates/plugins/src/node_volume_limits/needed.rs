//! Which volumes of which drivers a pod needs.

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

/// A volume as its driver tells it from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DriverVolume {
    /// One that exists.
    Existing {
        /// The driver.
        driver: Str,
        /// The driver's name of the volume.
        handle: Str,
    },
    /// One that is going to be made for a claim.
    Awaited {
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
        let (Self::Existing { driver, .. } | Self::Awaited { driver, .. }) = self;
        driver
    }
}

/// The different volumes that a pod needs, or why that cannot be told.
pub(super) type Asked = Result<Vec<DriverVolume>, Refusal>;

/// Why it cannot be told which volumes a pod needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A claim does not exist.
    NotFound(String),
    /// Something is not as it should be.
    Failed(String),
}

impl Refusal {
    pub(super) fn stop(&self) -> Stop {
        match self {
            Self::NotFound(reason) => Reject::unresolvable(reason.clone()).into(),
            Self::Failed(error) => Stop::Error(error.clone().into()),
        }
    }
}

/// The volumes that a pending pod needs. With `migrated`, on nodes that leave in-tree disks to CSI drivers.
pub(super) fn volumes_of(objects: &Objects, pod: &PodInfo, migrated: bool) -> Asked {
    let mut all = Vec::new();
    for volume in &pod.spec.volumes {
        let found = match claim::claim_of(pod, &volume.name, &volume.source) {
            Some(claimed) => {
                let (namespace, name) = (&pod.namespace, &claimed.name);
                let not_found = || {
                    let why = claim::not_found(name);
                    Refusal::NotFound(format!("looking up PVC {namespace}/{name}: {why}"))
                };
                let claim = claim_of(objects, pod, &claimed)?.ok_or_else(not_found)?;
                of_claim(objects, claim, migrated)
            }
            None => in_pod(volume).filter(|_| migrated).transpose()?,
        };
        all.extend(found.filter(|volume| !all.contains(volume)));
    }
    Ok(all)
}

/// The volumes of pods that are on a node with a CSINode. Claims that do not exist count for nothing.
pub(super) fn volumes_of_pods(
    objects: &Objects,
    pods: &[Arc<PodInfo>],
) -> Result<FxHashSet<DriverVolume>, Stop> {
    let mut all = FxHashSet::default();
    for pod in pods {
        for volume in &pod.spec.volumes {
            let found = match claim::claim_of(pod, &volume.name, &volume.source) {
                Some(claimed) => {
                    let claim = claim_of(objects, pod, &claimed).map_err(|refusal| refusal.stop())?;
                    claim.and_then(|claim| of_claim(objects, claim, true))
                }
                None => in_pod(volume).transpose().map_err(|refusal| refusal.stop())?,
            };
            all.extend(found);
        }
    }
    Ok(all)
}

/// The claim that a pod's volume stands for; `None` if there is no such claim.
fn claim_of<'a>(
    objects: &'a Objects,
    pod: &PodInfo,
    claimed: &Claimed,
) -> Result<Option<&'a Custom<PersistentVolumeClaim>>, Refusal> {
    if claimed.name.is_empty() {
        return Err(Refusal::Failed("PersistentVolumeClaim had no name".to_owned()));
    }
    let claim = found::<PersistentVolumeClaim>(objects, &pod.namespace, &claimed.name);
    match claim {
        Some(claim) if claimed.ephemeral && !claim::is_made_for(claim, pod) => {
            Err(Refusal::Failed(claim::not_made_for(claim, pod)))
        }
        claim => Ok(claim),
    }
}

/// An in-tree disk in a pod, as its driver tells it from others.
pub(super) fn in_pod(volume: &PodVolume) -> Option<Result<DriverVolume, Refusal>> {
    let VolumeSource::InTree(disk) = &volume.source else { return None };
    let failed = |why: String| {
        Refusal::Failed(format!("converting volume({}) from inline to csi: {why}", volume.name))
    };
    let handle = migration::inline_handle(disk)?.map_err(failed);
    Some(handle.map(|handle| DriverVolume::Existing { driver: driver_of(disk), handle }))
}

fn driver_of(disk: &InTreeDisk) -> Str {
    migration::of_disk(disk).map_or_else(Str::default, |migration| migration.driver.into())
}

/// The volume of a claim, or the one that is going to be made for it; `None` if it is none of a CSI driver, or cannot be
/// told.
pub(super) fn of_claim(
    objects: &Objects,
    claim: &Custom<PersistentVolumeClaim>,
    migrated: bool,
) -> Option<DriverVolume> {
    match found::<PersistentVolume>(objects, "", &claim.volume_name) {
        Some(volume) => of_volume(volume, migrated),
        None => awaited(objects, claim, migrated),
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

fn awaited(objects: &Objects, claim: &Custom<PersistentVolumeClaim>, migrated: bool) -> Option<DriverVolume> {
    let class = found::<StorageClass>(objects, "", &claim.class)?;
    let driver = match migration::of_plugin(&class.provisioner) {
        Some(migration) if migration.is_on && migrated => migration.driver.into(),
        Some(_) => return None,
        None => class.provisioner.clone(),
    };
    let Metadata { namespace, name, .. } = &claim.metadata;
    let volume = DriverVolume::Awaited { driver, namespace: namespace.clone(), claim: name.clone() };
    (!volume.driver().is_empty()).then_some(volume)
}

/// An object that may not exist, of a kind that is kept.
pub(super) fn found<'a, R: Resource>(
    objects: &'a Objects,
    namespace: &str,
    name: &str,
) -> Option<&'a Custom<R>> {
    if name.is_empty() { None } else { objects.get(namespace, name).ok().flatten() }
}
