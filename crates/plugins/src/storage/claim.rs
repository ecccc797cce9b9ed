//! Claims: what pods ask for.

use std::collections::BTreeMap;

use harbormaster_api::{Quantity, Str, pod::VolumeSource, selector::LabelSelector};
use harbormaster_framework::{
    pod::PodInfo,
    resource::{Custom, Resource, ResourceScope},
};
use serde::Deserialize;

use super::{
    volume::{AccessMode, VolumeMode},
    wire::{WireLabelSelector, WireMeta, or_default},
};

/// Set once a claim and its volume point to each other.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The node for which a volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE: &str = "storage";

/// A claim to a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireClaim")]
pub struct PersistentVolumeClaim {
    /// `spec.accessModes`
    pub access_modes: Vec<AccessMode>,
    /// Its class, by annotation or spec; empty for none.
    pub class: Str,
    /// `spec.volumeName`; empty while it has none.
    pub volume_name: Str,
    /// `spec.volumeMode`
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// `spec.selector`; without one any volume does.
    pub selector: Option<LabelSelector>,
    /// `spec.resources.requests.storage`, in bytes.
    pub requested: Option<Quantity>,
    /// `status.phase`
    pub phase: ClaimPhase,
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ClaimPhase {
    /// It has a volume.
    Bound,
    /// Its volume is gone.
    Lost,
    /// It has no volume yet, or nobody has said.
    #[default]
    #[serde(other)]
    Pending,
}

impl Resource for PersistentVolumeClaim {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolumeClaim";
    const PLURAL: &'static str = "persistentvolumeclaims";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Whether the claim and its volume point to each other, and both sides know.
pub fn is_fully_bound(claim: &Custom<PersistentVolumeClaim>) -> bool {
    !claim.volume_name.is_empty() && claim.metadata.annotations.get(BIND_COMPLETED).is_some()
}

/// The node for which a volume is to be made, once that is decided.
pub fn selected_node(claim: &Custom<PersistentVolumeClaim>) -> Option<&Str> {
    claim.metadata.annotations.get(SELECTED_NODE)
}

/// Whether the claim was made for an ephemeral volume of that pod.
pub fn is_made_for(claim: &Custom<PersistentVolumeClaim>, pod: &PodInfo) -> bool {
    claim.metadata.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
}

/// What is said of a pod whose ephemeral volume has the name of a claim that is not its own.
pub fn not_made_for(claim: &Custom<PersistentVolumeClaim>, pod: &PodInfo) -> String {
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    let (pod_namespace, pod_name) = (&pod.namespace, &pod.name);
    format!("PVC {namespace}/{name} was not created for pod {pod_namespace}/{pod_name} (pod is not owner)")
}

/// What the API server says of a claim that does not exist.
pub fn not_found(name: &str) -> String {
    format!("persistentvolumeclaim {name:?} not found")
}

/// A claim that a volume of a pod stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its name, in the pod's namespace.
    pub name: Str,
    /// Whether it is made for the pod, which then must control it.
    pub ephemeral: bool,
}

/// The claims that a pod's volumes stand for, in the order of the volumes; those of ephemeral volumes are named after
/// pod and volume.
pub fn claimed_by(pod: &PodInfo) -> impl Iterator<Item = Claimed> + '_ {
    pod.spec.volumes.iter().filter_map(|volume| claim_of(pod, &volume.name, &volume.source))
}

/// The claim that one volume of a pod stands for, if it does.
pub fn claim_of(pod: &PodInfo, volume: &Str, source: &VolumeSource) -> Option<Claimed> {
    match source {
        VolumeSource::Claim(name) => Some(Claimed { name: name.clone(), ephemeral: false }),
        VolumeSource::Ephemeral => {
            Some(Claimed { name: format!("{}-{volume}", pod.name).into(), ephemeral: true })
        }
        VolumeSource::Image(_) | VolumeSource::InlineCsi(_) | VolumeSource::InTree(_) => None,
    }
}

/// The names of the claims that a pod itself names (`persistentVolumeClaim`), in the order of its volumes.
pub fn named_by(pod: &PodInfo) -> impl Iterator<Item = &Str> {
    pod.spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim(name) => Some(name),
        _ => None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireClaim {
    #[serde(deserialize_with = "or_default")]
    metadata: WireMeta,
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
    #[serde(deserialize_with = "or_default")]
    status: WireStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "or_default")]
    access_modes: Vec<AccessMode>,
    #[serde(deserialize_with = "or_default")]
    storage_class_name: Str,
    #[serde(deserialize_with = "or_default")]
    volume_name: Str,
    #[serde(deserialize_with = "or_default")]
    volume_mode: VolumeMode,
    #[serde(deserialize_with = "or_default")]
    volume_attributes_class_name: Str,
    selector: Option<WireLabelSelector>,
    #[serde(deserialize_with = "or_default")]
    resources: WireResources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireResources {
    #[serde(deserialize_with = "or_default")]
    requests: BTreeMap<String, Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    #[serde(deserialize_with = "or_default")]
    phase: ClaimPhase,
}

impl From<WireClaim> for PersistentVolumeClaim {
    fn from(WireClaim { metadata, spec, status }: WireClaim) -> Self {
        Self {
            access_modes: spec.access_modes,
            class: metadata.class_or(spec.storage_class_name),
            volume_name: spec.volume_name,
            volume_mode: spec.volume_mode,
            attributes_class: spec.volume_attributes_class_name,
            selector: spec.selector.map(LabelSelector::from),
            requested: spec.resources.requests.get(STORAGE).copied(),
            phase: status.phase,
        }
    }
}
