//! What a pod's claims need, found out once for all nodes: the state that PreFilter makes.

use harbormaster_api::{Quantity, Str};
use harbormaster_framework::prelude::*;

use super::{
    offers::Offers,
    reach::{Reach, VolumeReach},
};
use crate::storage::{
    ClaimPhase, ClaimRef, CsiDriver, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim,
    StorageClass,
    claim::{self, Claimed},
    matching::{self, Fit},
};

/// What is said of a pod whose claims should have had their volumes before it came.
const REASON_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// The claims of a pod, each once. A claim that is neither of both kinds rejects the pod.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Where the volumes of claims that have one can be used, in the pod's order; `None`: there is no such volume.
    pub(super) bound: Vec<Option<VolumeReach>>,
    /// Claims that wait for their pod's node: first those for which a volume is being made already, in the pod's order, then
    /// all others, the smallest first.
    pub(super) delayed: Vec<Delayed>,
}

/// A claim that gets a volume once its pod has a node.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) claim: ClaimId,
    pub(super) class: Str,
    /// Nothing asked for is zero.
    pub(super) requested: Quantity,
    /// The node for which a volume is being made already.
    pub(super) selected_node: Option<Str>,
    /// A volume that was set aside for the claim: no other will do.
    pub(super) set_aside: Option<(Candidate, Reach)>,
    /// Volumes that would do, the smallest first, of several equal ones by name.
    pub(super) volumes: Offers<Candidate>,
    pub(super) provision: Provision,
}

/// A claim in the version that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimId {
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) version: Str,
}

/// A volume that a claim could have, in the version that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) version: Str,
    pub(super) capacity: Quantity,
    /// Set if it was set aside.
    pub(super) claim_ref: Option<ClaimRef>,
}

/// How a volume could be made for a claim.
#[derive(Debug)]
pub(super) struct Provision {
    pub(super) class: StorageClass,
    /// The storage capacities that suffice, each as its `capacity` in bytes; `None` if capacity does not matter.
    pub(super) capacities: Option<Offers<i64>>,
}

impl Claims {
    /// The claims of the pod; `None` if it has none.
    ///
    /// # Errors
    /// Rejects the pod if one of its claims cannot be had on any node.
    pub(super) fn of(cx: &Cycle<'_>) -> Result<Option<Self>, Stop> {
        let mut all: Vec<&Custom<PersistentVolumeClaim>> = Vec::new();
        for claimed in claim::claimed_by(cx.pod) {
            let claim = usable(cx, &claimed)?;
            if all.iter().all(|known| known.metadata.name != claim.metadata.name) {
                all.push(claim);
            }
        }
        if all.is_empty() {
            return Ok(None);
        }
        let (mut bound, mut delayed, mut has_immediate) = (Vec::new(), Vec::new(), false);
        for claim in all {
            if claim::is_fully_bound(claim) {
                let volume = cx.objects.get::<PersistentVolume>("", &claim.volume_name)?;
                bound.push(volume.map(|volume| VolumeReach::of(volume)));
            } else if let Some(class) = delaying_class(cx.objects, claim)? {
                delayed.push((claim, class));
            } else {
                has_immediate = true;
            }
        }
        if has_immediate {
            return Err(Reject::unresolvable(REASON_IMMEDIATE).into());
        }
        Ok(Some(Self { bound, delayed: wait_for_node(cx.objects, delayed)? }))
    }
}

/// A claim that could be used, whether or not it has a volume.
fn usable<'a>(
    cx: &Cycle<'a>,
    Claimed { name, ephemeral }: &Claimed,
) -> Result<&'a Custom<PersistentVolumeClaim>, Stop> {
    let reject = |reason: String| Err(Reject::unresolvable(reason).into());
    let Some(claim) = cx.objects.get::<PersistentVolumeClaim>(&cx.pod.namespace, name)? else {
        return reject(match ephemeral {
            true => format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            ),
            false => claim::not_found(name),
        });
    };
    if claim.phase == ClaimPhase::Lost {
        let volume = &claim.volume_name;
        return reject(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        ));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return reject(format!("persistentvolumeclaim {name:?} is being deleted"));
    }
    if *ephemeral && !claim::is_made_for(claim, cx.pod) {
        return reject(claim::not_made_for(claim, cx.pod));
    }
    Ok(claim)
}

/// The class of a claim without volume, if it says that such claims wait for their pod's node. A claim that names its volume
/// does not wait.
fn delaying_class<'a>(
    objects: &'a Objects,
    claim: &PersistentVolumeClaim,
) -> PluginResult<Option<&'a StorageClass>> {
    if claim.class.is_empty() {
        return Ok(None);
    }
    let Some(class) = objects.get::<StorageClass>("", &claim.class)? else { return Ok(None) };
    if class.volume_binding_mode.is_none() {
        return Err(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class).into());
    }
    Ok((class.waits_for_consumer() && claim.volume_name.is_empty()).then_some(class))
}

type Waiting<'a> = (&'a Custom<PersistentVolumeClaim>, &'a StorageClass);

fn wait_for_node(objects: &Objects, waiting: Vec<Waiting<'_>>) -> PluginResult<Vec<Delayed>> {
    let mut found = candidates(objects, &waiting)?.into_iter();
    let mut delayed = Vec::with_capacity(waiting.len());
    for (claim, class) in waiting {
        let Found { set_aside, free } = found.next().unwrap_or_default();
        let Metadata { namespace, name, uid, resource_version, .. } = &claim.metadata;
        delayed.push(Delayed {
            claim: ClaimId {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
                version: resource_version.clone(),
            },
            class: claim.class.clone(),
            requested: matching::requested(claim),
            selected_node: claim::selected_node(claim).cloned(),
            set_aside,
            volumes: Offers::new(free),
            provision: Provision {
                class: class.clone(),
                capacities: capacities(objects, claim, &class.provisioner)?,
            },
        });
    }
    // Stable, as upstream's is for the few claims that a pod has.
    delayed.sort_by(|a, b| match (&a.selected_node, &b.selected_node) {
        (Some(_), Some(_)) => std::cmp::Ordering::Equal,
        (None, None) => a.requested.cmp(&b.requested),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    Ok(delayed)
}

/// The volumes that a claim could have.
#[derive(Default)]
struct Found {
    set_aside: Option<(Candidate, Reach)>,
    /// The smallest first.
    free: Vec<(Candidate, Reach)>,
}

/// The volumes that each claim could have; none for a claim for which one is being made.
fn candidates(objects: &Objects, waiting: &[Waiting<'_>]) -> PluginResult<Vec<Found>> {
    let mut all: Vec<Found> = waiting.iter().map(|_| Found::default()).collect();
    let mut open = Vec::new();
    for ((claim, _), found) in waiting.iter().zip(&mut all) {
        if claim::selected_node(claim).is_none() {
            check_selector(claim)?;
            open.push((*claim, found));
        }
    }
    if !open.is_empty() {
        for volume in objects.all::<PersistentVolume>()? {
            for (claim, found) in &mut open {
                found.consider(volume, claim);
            }
        }
    }
    drop(open);
    // They came by name, and the sort keeps that order.
    all.iter_mut().for_each(|found| found.free.sort_by_key(|(volume, _)| volume.capacity));
    Ok(all)
}

fn check_selector(claim: &Custom<PersistentVolumeClaim>) -> PluginResult<()> {
    let checked = claim.selector.as_ref().map_or(Ok(()), |selector| selector.check());
    checked.map_err(|why| {
        let Metadata { namespace, name, .. } = &claim.metadata;
        format!("error creating internal label selector for claim: {namespace}/{name}: {why}").into()
    })
}

impl Found {
    /// Keeps the volume if the claim could have it on some node.
    fn consider(&mut self, volume: &Custom<PersistentVolume>, claim: &Custom<PersistentVolumeClaim>) {
        let Some(fit) = matching::fit(volume, claim) else { return };
        let Metadata { name, uid, resource_version, .. } = &volume.metadata;
        let candidate = Candidate {
            name: name.clone(),
            uid: uid.clone(),
            version: resource_version.clone(),
            capacity: matching::capacity(volume),
            claim_ref: volume.claim_ref.clone(),
        };
        let is_smaller = |(known, _): &(Candidate, Reach)| known.capacity > candidate.capacity;
        let is_best = self.set_aside.as_ref().is_none_or(is_smaller);
        let found = (candidate, Reach::of_affinity(volume.node_affinity.as_ref()));
        match fit {
            Fit::Free => self.free.push(found),
            Fit::SetAside if is_best => self.set_aside = Some(found),
            Fit::SetAside => {}
        }
    }
}

/// The storage capacities that suffice for the claim; `None` if the provisioner does not tell how much it can make.
fn capacities(
    objects: &Objects,
    claim: &PersistentVolumeClaim,
    provisioner: &str,
) -> PluginResult<Option<Offers<i64>>> {
    let Some(requested) = &claim.requested else { return Ok(None) };
    let driver = objects.get::<CsiDriver>("", provisioner)?;
    if !driver.is_some_and(|driver| driver.storage_capacity) {
        return Ok(None);
    }
    let suffices = |capacity: &&Custom<CsiStorageCapacity>| {
        let limit = capacity.limit();
        capacity.class == claim.class && limit.is_some_and(|limit| limit.value() >= requested.value())
    };
    let sufficient = objects.all::<CsiStorageCapacity>()?.filter(suffices).filter_map(|capacity| {
        let reach = Reach::Labels(capacity.node_topology.clone()?);
        Some((capacity.capacity.map_or(0, |capacity| capacity.value()), reach))
    });
    Ok(Some(Offers::new(sufficient)))
}
