//! A pod of which copies are made. Each copy gets its own claims.

use std::sync::Arc;

use harbormaster_api::{
    Pod, Str,
    pod::{PodSpec, VolumeSource},
};
use harbormaster_validation::value::{list, name, namespace, text};
use harbormaster_world::{devices, volumes::pod_claims::anew};
use serde_json::{Value, json};

use crate::inventory::Inventory;

/// A pod, and the claims that belong to it alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Original {
    /// The pod.
    pub pod: Pod,
    /// Resource claims from templates. Each with its name in the pod.
    devices: Vec<(Str, Value)>,
    /// Claims for ephemeral volumes, and those that a StatefulSet makes for each of its pods. Each with the name of its
    /// volume in the pod.
    volumes: Vec<(Str, Value)>,
}

impl From<Pod> for Original {
    fn from(pod: Pod) -> Self {
        Self { pod, ..Self::default() }
    }
}

impl Original {
    /// Returns the first pod that is written down in manifests, or that a workload in them has.
    pub fn first_of(manifests: &Inventory) -> Option<Self> {
        let pod = manifests.pending.iter().chain(&manifests.bound).next()?;
        Some(Self::of(pod.clone(), manifests))
    }

    /// Returns a pod with its own claims in a cluster.
    pub(crate) fn of(pod: Pod, cluster: &Inventory) -> Self {
        let mut original = Self::from(pod);
        let pod = &original.pod;
        for (entry, claim) in pod.status.resource_claims.iter() {
            let claims = cluster.custom_of("resource.k8s.io", "ResourceClaim");
            let is_own = |value: &&Value| {
                let owners = list(value, "/metadata/ownerReferences");
                is_called(value, pod, claim) && owners.iter().any(|owner| text(owner, "/kind") == "Pod")
            };
            original.devices.extend({ claims }.find(is_own).map(|value| (entry.clone(), value.clone())));
        }
        let is_of_set = pod.controller.as_ref().is_some_and(|owner| owner.kind == "StatefulSet");
        for volume in &pod.spec.volumes {
            let claim: Str = match &volume.source {
                VolumeSource::Ephemeral => format!("{}-{}", pod.name, volume.name).into(),
                VolumeSource::Claim(claim) if is_of_set && **claim == *of_set(&volume.name, &pod.name) => {
                    claim.clone()
                }
                _ => continue,
            };
            let found =
                cluster.custom_of("", "PersistentVolumeClaim").find(|value| is_called(value, pod, &claim));
            original.volumes.extend(found.map(|value| (volume.name.clone(), value.clone())));
        }
        original
    }

    /// Adds the claims that the pod lacks, from templates in a cluster.
    pub(crate) fn complete(&mut self, cluster: &Inventory) {
        let user = as_user(&self.pod.namespace, &self.pod.name, &self.pod.uid);
        for entry in &self.pod.spec.resource_claims {
            let Some(template) = &entry.template else { continue };
            if self.pod.status.resource_claims.get(&entry.name).is_some() {
                continue;
            }
            let templates = cluster.custom_of("resource.k8s.io", "ResourceClaimTemplate");
            let template = { templates }.find(|value| is_called(value, &self.pod, template));
            let claim = template.map(|template| devices::of_template(&user, &entry.name, template));
            self.devices.extend(claim.map(|claim| (entry.name.clone(), claim)));
        }
    }

    /// Returns a copy of the pod, and its own claims.
    pub(crate) fn copy(&self, number: usize) -> (Pod, Vec<Value>) {
        let name: Str = format!("{}-copy-{number}", self.pod.name).into();
        let uid: Str = format!("{}/{name}", self.pod.namespace).into();
        let mut pod = Pod { name, uid, ..self.pod.clone() };
        let mut claims = Vec::new();
        for (entry, claim) in &self.devices {
            claims.push(claim_of_copy(claim, &pod, &format!("{}-{entry}", pod.name)));
        }
        let own =
            self.devices.iter().map(|(entry, _)| (entry.clone(), format!("{}-{entry}", pod.name).into()));
        let is_own = |entry: &Str| self.devices.iter().any(|(own, _)| own == entry);
        let shared = self.pod.status.resource_claims.iter().filter(|(entry, _)| !is_own(entry));
        let shared = shared.map(|(entry, claim)| (entry.clone(), claim.clone()));
        pod.status.resource_claims = shared.chain(own).collect();
        for (volume, claim) in &self.volumes {
            let is_ephemeral = |known: &harbormaster_api::pod::Volume| {
                known.name == *volume && known.source == VolumeSource::Ephemeral
            };
            let name = match pod.spec.volumes.iter().any(is_ephemeral) {
                true => format!("{}-{volume}", pod.name),
                false => of_set(volume, &pod.name),
            };
            claims.push(claim_of_copy(claim, &pod, &name));
            self.mount(&mut pod, volume, &name);
        }
        (pod, claims)
    }

    /// Lets a volume of a StatefulSet's pod refer to another claim.
    fn mount(&self, pod: &mut Pod, volume: &Str, claim: &str) {
        let mut spec = PodSpec::clone(&pod.spec);
        for known in spec.volumes.iter_mut().filter(|known| known.name == *volume) {
            if let VolumeSource::Claim(name) = &mut known.source {
                *name = claim.into();
            }
        }
        pod.spec = Arc::new(spec);
    }
}

/// Returns the name of the claim that a StatefulSet makes for a volume of one of its pods.
fn of_set(volume: &str, pod: &str) -> String {
    format!("{volume}-{pod}")
}

fn is_called(value: &Value, pod: &Pod, called: &str) -> bool {
    name(value) == called && namespace(value) == &*pod.namespace
}

fn as_user(namespace: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": uid}})
}

/// Returns an unused claim like that of the original, which belongs to the copy if the other belongs to the original.
fn claim_of_copy(claim: &Value, copy: &Pod, called: &str) -> Value {
    let mut claim = anew(claim, called, &format!("{}/{called}", copy.namespace));
    let owners = claim.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten().filter(|owner| owner["kind"] == "Pod") {
        owner["name"] = copy.name.as_str().into();
        owner["uid"] = copy.uid.as_str().into();
    }
    claim
}
