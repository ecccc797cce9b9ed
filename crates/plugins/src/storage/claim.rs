//! Persistent volume claims.

use std::collections::BTreeMap;

use harbormaster_api::{
    Quantity, Str,
    pod::VolumeSource,
    protobuf::{Message, messages},
    selector::LabelSelector,
};
use harbormaster_framework::{
    pod::PodInfo,
    resource::{Custom, Resource, ResourceScope},
};
use serde::Deserialize;

use super::{
    volume::{AccessMode, VolumeMode},
    wire::{WireLabelSelector, WireMeta, or_default},
};

/// Annotation that is set when a claim and its volume refer to each other.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation with the node for which a volume is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const STORAGE: &str = "storage";

/// A persistent volume claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireClaim")]
pub struct PersistentVolumeClaim {
    /// `spec.accessModes`
    pub access_modes: Vec<AccessMode>,
    /// Storage class, from the annotation or the spec; empty for none.
    pub class: Str,
    /// `spec.volumeName`; empty if the claim has no volume.
    pub volume_name: Str,
    /// `spec.volumeMode`
    pub volume_mode: VolumeMode,
    /// `spec.volumeAttributesClassName`; empty for none.
    pub attributes_class: Str,
    /// `spec.selector`; `None` matches any volume.
    pub selector: Option<LabelSelector>,
    /// `spec.resources.requests.storage`, in bytes.
    pub requested: Option<Quantity>,
    /// `status.phase`
    pub phase: ClaimPhase,
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ClaimPhase {
    /// The claim has a volume.
    Bound,
    /// The claim's volume is gone.
    Lost,
    /// The claim does not have a volume yet, or the phase is missing.
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
    const PROTOBUF: Option<&'static Message> = Some(&messages::storage::PERSISTENT_VOLUME_CLAIM);
}

/// Returns true if the claim names its volume and records that the volume refers back to the claim.
pub fn is_fully_bound(claim: &Custom<PersistentVolumeClaim>) -> bool {
    !claim.volume_name.is_empty() && claim.metadata.annotations.get(BIND_COMPLETED).is_some()
}

/// Returns the node for which a volume is to be provisioned, if it has been chosen.
pub fn selected_node(claim: &Custom<PersistentVolumeClaim>) -> Option<&Str> {
    claim.metadata.annotations.get(SELECTED_NODE)
}

/// Returns true if the claim was created for an ephemeral volume of the pod.
pub fn is_made_for(claim: &Custom<PersistentVolumeClaim>, pod: &PodInfo) -> bool {
    claim.metadata.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
}

/// Returns the error for a name conflict: an ephemeral volume of the pod needs a claim with this name, but the existing
/// claim was not created for the pod.
pub fn not_made_for(claim: &Custom<PersistentVolumeClaim>, pod: &PodInfo) -> String {
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    let (pod_namespace, pod_name) = (&pod.namespace, &pod.name);
    format!("PVC {namespace}/{name} was not created for pod {pod_namespace}/{pod_name} (pod is not owner)")
}

/// Returns the message for a missing claim, as in kube-scheduler.
pub fn not_found(name: &str) -> String {
    format!("persistentvolumeclaim {name:?} not found")
}

/// A claim that a volume of a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Name of the claim, in the pod's namespace.
    pub name: Str,
    /// True if the claim is created for the pod, which must then be the claim's controller.
    pub ephemeral: bool,
}

/// Returns the claims of a pod's volumes, in the order of the volumes. The claim of an ephemeral volume is named after
/// the pod and the volume.
pub fn claimed_by(pod: &PodInfo) -> impl Iterator<Item = Claimed> + '_ {
    pod.spec.volumes.iter().filter_map(|volume| claim_of(pod, &volume.name, &volume.source))
}

/// Returns the claim of one volume of a pod, if it has one.
pub fn claim_of(pod: &PodInfo, volume: &Str, source: &VolumeSource) -> Option<Claimed> {
    match source {
        VolumeSource::Claim(name) => Some(Claimed { name: name.clone(), ephemeral: false }),
        VolumeSource::Ephemeral => {
            Some(Claimed { name: format!("{}-{volume}", pod.name).into(), ephemeral: true })
        }
        VolumeSource::Image(_) | VolumeSource::InlineCsi(_) | VolumeSource::InTree(_) => None,
    }
}

/// Returns the names of the claims that a pod refers to with `persistentVolumeClaim`, in the order of its volumes.
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
