//! Handles claims and volumes while pods are placed. The results that PreBind would wait for are available
//! immediately.

use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_core::{BindTask, Input};
use harbormaster_framework::{
    pod::PodInfo,
    resource::{CustomKey, RawObject, Resource, ResourceName},
};
use harbormaster_plugins::{
    VolumeDecision,
    storage::{PersistentVolume, PersistentVolumeClaim, claim},
};
use harbormaster_validation::value::{name, namespace};
use harbormaster_world::volumes::{Changes, ClaimKey, Volumes};
use serde_json::Value;

use super::SimulatedCluster;
use crate::report::ClaimReport;

impl SimulatedCluster<'_> {
    /// Binds the pod's claims as VolumeBinding decided, and passes the changes to the engine for later pods.
    pub(super) fn give_volumes(&mut self, task: &BindTask) {
        let (pod, node) = (task.pod(), task.node());
        let keys: Vec<ClaimKey> = claims_of(pod).collect();
        if keys.is_empty() {
            return;
        }
        carry_out(&mut self.volumes, task);
        for key in &keys {
            self.volumes.settle_claim(key);
            if let Some(volume) = self.volumes.volume_of(key).map(str::to_owned) {
                self.volumes.land(&volume, node);
            }
        }
        self.publish_changes();
        let report = |key: &ClaimKey| {
            let class = self.volumes.class_of(key)?.to_owned();
            Some(ClaimReport { claim: key.1.clone(), class, gets: self.volumes.claimed_volume(key)? })
        };
        let claims = keys.iter().filter_map(report).collect();
        if let Some(report) = self.reports.get_mut(&pod.uid) {
            report.claims = claims;
        }
    }

    /// Removes the claims that the pod owns.
    pub(super) fn take_volumes(&mut self, pod: &PodInfo) {
        let own = claim::claimed_by(pod).filter(|claimed| claimed.ephemeral);
        for claimed in own.collect::<Vec<_>>() {
            let key = (pod.namespace.to_string(), claimed.name.to_string());
            if let Some(claim) = self.volumes.remove_claim(&key) {
                self.publish_end::<PersistentVolumeClaim>(&claim);
            }
        }
        self.publish_changes();
    }

    pub(super) fn publish_changes(&mut self) {
        let Changes { created, volumes, claims, deleted, .. } = self.volumes.take_changes();
        for volume in created.into_iter().chain(volumes) {
            self.publish_custom::<PersistentVolume>(volume);
        }
        for claim in claims {
            self.publish_custom::<PersistentVolumeClaim>(claim);
        }
        for volume in deleted {
            self.publish_end::<PersistentVolume>(&volume);
        }
    }

    /// Gives the object a new resource version, and passes it to the engine and to the explainer, if there is one.
    pub(super) fn publish_custom<R: Resource>(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let raw = RawObject::from_json(key_of::<R>(&object), object.to_string());
        if let Some(explainer) = &mut self.explainer {
            explainer.judge.cache.cluster.set_custom(&raw);
        }
        self.input(Input::Custom(raw));
    }

    pub(super) fn publish_end<R: Resource>(&mut self, object: &Value) {
        let key = key_of::<R>(object);
        if let Some(explainer) = &mut self.explainer {
            explainer.judge.cache.cluster.remove_custom(&key);
        }
        self.input(Input::CustomGone(key));
    }
}

/// Applies the decision of VolumeBinding, as its PreBind would.
fn carry_out(volumes: &mut Volumes, task: &BindTask) {
    let (pod, node) = (task.pod(), task.node());
    for plugin in task.profile.at(ExtensionPoint::Reserve) {
        let placement = task.reservation.of(*plugin);
        let Some(decision) = placement.reservation::<VolumeDecision>() else { continue };
        let key = |claim: &Str| (pod.namespace.to_string(), claim.to_string());
        decision.volumes().for_each(|(claim, volume)| volumes.set_aside(volume, &key(claim)));
        decision.to_provision().for_each(|claim| volumes.select_node(&key(claim), node));
    }
}

/// Returns the distinct claims of a pod.
fn claims_of(pod: &PodInfo) -> impl Iterator<Item = ClaimKey> {
    let mut keys: Vec<ClaimKey> = Vec::new();
    for claimed in claim::claimed_by(pod) {
        let key = (pod.namespace.to_string(), claimed.name.to_string());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter()
}

fn key_of<R: Resource>(object: &Value) -> CustomKey {
    CustomKey {
        resource: ResourceName::of::<R>().to_string().into(),
        namespace: namespace(object).into(),
        name: name(object).into(),
    }
}
