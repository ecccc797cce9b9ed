//! The requirements of a pod's claims, computed once for all nodes: PreFilter's state.

use harbormaster_api::{Quantity, Str, selector::LabelSelector};
use harbormaster_framework::prelude::*;

use super::{
    reach::{Reach, VolumeReach},
    supply::Supply,
};
use crate::storage::{
    AccessMode, ClaimPhase, ClaimRef, CsiDriver, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeMode,
    claim::{self, Claimed},
    matching::{self, Fit},
};

/// Reason for rejecting a pod whose claims should already have volumes.
const REASON_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// The objects that determine a pod's claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumeObjects<'a> {
    pub(super) claims: Watched<'a, PersistentVolumeClaim>,
    pub(super) volumes: Watched<'a, PersistentVolume>,
    pub(super) classes: Watched<'a, StorageClass>,
    pub(super) drivers: Watched<'a, CsiDriver>,
}

/// The distinct claims of a pod. If a claim is neither bound nor delayed, the pod is rejected.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Reach of the volumes of bound claims, in the pod's order; `None` for a volume that does not exist.
    pub(super) bound: Vec<Option<VolumeReach>>,
    /// Claims that wait for a node. Claims whose volume is already being provisioned come first, in the pod's order;
    /// the remaining claims follow, smallest first.
    pub(super) delayed: Vec<DelayedClaim>,
}

/// A claim that gets a volume once a node has been chosen for its pod.
#[derive(Debug)]
pub(super) struct DelayedClaim {
    pub(super) claim: ClaimId,
    pub(super) demand: Demand,
    /// Node for which a volume is already being provisioned.
    pub(super) selected_node: Option<Str>,
    /// Volume that is reserved for the claim, which then gets no other volume.
    pub(super) set_aside: Option<(Candidate, Reach)>,
    pub(super) provision: Provision,
}

/// A claim's requirements on a volume.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) class: Str,
    /// Requested size; zero if absent.
    pub(super) requested: Quantity,
    pub(super) access_modes: Vec<AccessMode>,
    pub(super) volume_mode: VolumeMode,
    pub(super) attributes_class: Str,
    /// Selector. It may be malformed only if a volume is already being provisioned.
    pub(super) selector: Option<LabelSelector>,
}

/// A claim, with the resource version that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimId {
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) version: Str,
}

/// A potential volume for a claim, with the resource version that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) version: Str,
    pub(super) capacity: Quantity,
    /// Reference to the claim, if the volume is reserved.
    pub(super) claim_ref: Option<ClaimRef>,
}

/// Requirements for provisioning a volume.
#[derive(Debug)]
pub(super) struct Provision {
    pub(super) class: StorageClass,
    /// Number of bytes that the storage capacity must allow; `None` if capacity does not matter.
    pub(super) bytes: Option<i64>,
}

impl Claims {
    /// Returns the claims of the pod, or `None` if the pod has none.
    ///
    /// # Errors
    /// Rejects the pod if it cannot use one of its claims, or if a claim that does not wait for a node has no volume.
    pub(super) fn of(
        pod: &PodInfo,
        objects: VolumeObjects<'_>,
        supply: &Supply,
    ) -> Result<Option<Self>, Stop> {
        let mut all: Vec<&Custom<PersistentVolumeClaim>> = Vec::new();
        for claimed in claim::claimed_by(pod) {
            let claim = usable_claim(pod, objects, &claimed)?;
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
                let volume = objects.volumes.get("", &claim.volume_name);
                bound.push(volume.map(|volume| VolumeReach::of(volume)));
            } else if let Some(class) = delaying_class(objects, claim)? {
                delayed.push((claim, class));
            } else {
                has_immediate = true;
            }
        }
        if has_immediate {
            return Err(Reject::unresolvable(REASON_IMMEDIATE).into());
        }
        Ok(Some(Self { bound, delayed: delayed_claims(objects, supply, delayed)? }))
    }
}

/// Returns the claim, whether or not it has a volume. Rejects the pod if the pod cannot use the claim.
fn usable_claim<'a>(
    pod: &PodInfo,
    objects: VolumeObjects<'a>,
    Claimed { name, ephemeral }: &Claimed,
) -> Result<&'a Custom<PersistentVolumeClaim>, Stop> {
    let reject = |reason: String| Err(Reject::unresolvable(reason).into());
    let Some(claim) = objects.claims.get(&pod.namespace, name) else {
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
    if *ephemeral && !claim::is_made_for(claim, pod) {
        return reject(claim::not_made_for(claim, pod));
    }
    Ok(claim)
}

/// Returns the class of a claim without a volume if claims of that class wait for a node. A claim that names its
/// volume does not wait.
fn delaying_class<'a>(
    objects: VolumeObjects<'a>,
    claim: &PersistentVolumeClaim,
) -> PluginResult<Option<&'a StorageClass>> {
    if claim.class.is_empty() {
        return Ok(None);
    }
    let Some(class) = objects.classes.get("", &claim.class) else { return Ok(None) };
    if class.volume_binding_mode.is_none() {
        return Err(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class).into());
    }
    Ok((class.waits_for_consumer() && claim.volume_name.is_empty()).then_some(class))
}

type UnboundClaim<'a> = (&'a Custom<PersistentVolumeClaim>, &'a StorageClass);

fn delayed_claims(
    objects: VolumeObjects<'_>,
    supply: &Supply,
    waiting: Vec<UnboundClaim<'_>>,
) -> PluginResult<Vec<DelayedClaim>> {
    let mut delayed = Vec::with_capacity(waiting.len());
    for (claim, class) in waiting {
        let selected_node = claim::selected_node(claim).cloned();
        let set_aside = match selected_node {
            Some(_) => None,
            None => {
                check_selector(claim)?;
                set_aside_for(objects, supply, claim)?
            }
        };
        delayed.push(DelayedClaim {
            claim: ClaimId::of(claim),
            demand: Demand::of(claim),
            selected_node,
            set_aside,
            provision: Provision { class: class.clone(), bytes: bytes_to_find(objects, claim, class)? },
        });
    }
    // The sort is stable, as kube-scheduler's sort is for the few claims of a pod.
    delayed.sort_by(|a, b| match (&a.selected_node, &b.selected_node) {
        (Some(_), Some(_)) => std::cmp::Ordering::Equal,
        (None, None) => a.demand.requested.cmp(&b.demand.requested),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    Ok(delayed)
}

fn check_selector(claim: &Custom<PersistentVolumeClaim>) -> PluginResult<()> {
    let checked = claim.selector.as_ref().map_or(Ok(()), |selector| selector.check());
    checked.map_err(|why| {
        let Metadata { namespace, name, .. } = &claim.metadata;
        format!("error creating internal label selector for claim: {namespace}/{name}: {why}").into()
    })
}

/// Returns the smallest volume that is reserved for the claim and matches the claim, regardless of the nodes that can
/// reach the volume. Of several volumes of that size, returns the first by name.
fn set_aside_for(
    objects: VolumeObjects<'_>,
    supply: &Supply,
    claim: &Custom<PersistentVolumeClaim>,
) -> PluginResult<Option<(Candidate, Reach)>> {
    let mut best: Option<&Custom<PersistentVolume>> = None;
    for name in supply.set_aside_for(&claim.metadata.namespace, &claim.metadata.name) {
        let Some(volume) = objects.volumes.get("", name) else { continue };
        let is_possible = matching::fit(volume, claim) == Some(Fit::SetAside);
        if is_possible && best.is_none_or(|best| matching::capacity(best) > matching::capacity(volume)) {
            best = Some(volume);
        }
    }
    Ok(best.map(|volume| (Candidate::of(volume), Reach::of_affinity(volume.node_affinity.as_ref()))))
}

impl ClaimId {
    fn of(claim: &Custom<PersistentVolumeClaim>) -> Self {
        let Metadata { namespace, name, uid, resource_version, .. } = &claim.metadata;
        Self {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            version: resource_version.clone(),
        }
    }
}

impl Candidate {
    pub(super) fn of(volume: &Custom<PersistentVolume>) -> Self {
        let Metadata { name, uid, resource_version, .. } = &volume.metadata;
        Self {
            name: name.clone(),
            uid: uid.clone(),
            version: resource_version.clone(),
            capacity: matching::capacity(volume),
            claim_ref: volume.claim_ref.clone(),
        }
    }
}

impl Demand {
    fn of(claim: &PersistentVolumeClaim) -> Self {
        Self {
            class: claim.class.clone(),
            requested: matching::requested(claim),
            access_modes: claim.access_modes.clone(),
            volume_mode: claim.volume_mode,
            attributes_class: claim.attributes_class.clone(),
            selector: claim.selector.clone(),
        }
    }
}

/// Returns the number of bytes that a storage capacity must allow, or `None` if the claim requests no size or the
/// provisioner does not report capacity.
fn bytes_to_find(
    objects: VolumeObjects<'_>,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> PluginResult<Option<i64>> {
    let Some(requested) = &claim.requested else { return Ok(None) };
    let driver = objects.drivers.get("", &class.provisioner);
    Ok(driver.filter(|driver| driver.storage_capacity).map(|_| requested.value()))
}

impl Provision {
    /// Returns true if volumes can be provisioned on every node.
    pub(super) fn is_offered_everywhere(&self) -> bool {
        self.class.is_provisioned() && self.class.allowed_topologies.is_empty() && self.bytes.is_none()
    }
}
