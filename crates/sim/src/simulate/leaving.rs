//! Pods that leave their nodes while the cluster is in use, and come back as pending pods.

use harbormaster_api::{
    Pod, Str,
    pod::{Phase, PodStatus},
};
use harbormaster_core::{EngineConfig, Input};
use harbormaster_framework::pod::PodInfo;
use harbormaster_plugins::{devices::ResourceClaim, storage::claim};
use harbormaster_world::volumes::pod_claims::anew;
use serde_json::{Value, json};

use super::SimulatedCluster;
use crate::{inventory::Inventory, report::PodReport};

/// A cluster whose pods are evicted, and whose controllers create them again at once.
pub(crate) struct Leaving(SimulatedCluster<'static>);

impl Leaving {
    /// Schedules the pending pods of the cluster as far as they fit.
    pub(crate) fn new(config: EngineConfig, cluster: Inventory) -> Self {
        let mut world = SimulatedCluster::new(config, cluster, None);
        world.run(&mut |_, _| {});
        Self(world)
    }

    /// Removes a pod from its node. If it has a controller, it comes back as a pending pod.
    pub(crate) fn evict(&mut self, pod: &Pod) {
        let world = &mut self.0;
        let info = PodInfo::standalone(pod.clone());
        let own: Vec<((String, String), Value)> = world.own_claims(pod);
        let ephemeral = world.ephemeral_claims(&info);
        world.take_devices(&info);
        world.take_volumes(&info);
        world.objects.remove(&pod.uid);
        world.fruitless.clear();
        world.input(Input::PodGone(pod.uid.clone()));
        if pod.controller.is_none() {
            return;
        }
        for (key, mut claim) in own {
            claim["status"] = json!({});
            world.claims.insert(key, claim.clone());
            world.publish_custom::<ResourceClaim>(claim);
        }
        world.add_claims(ephemeral);
        let status = PodStatus {
            phase: Phase::Pending,
            resource_claims: pod.status.resource_claims.clone(),
            ..PodStatus::default()
        };
        let again = Pod { node_name: None, status, ..pod.clone() };
        world.reports.insert(pod.uid.clone(), PodReport::of(&info));
        world.objects.insert(pod.uid.clone(), again.clone());
        world.input(Input::Pod(again));
    }

    /// Schedules pending pods as far as they fit.
    pub(crate) fn settle(&mut self) {
        self.0.run(&mut |_, _| {});
    }

    /// Returns the state of a pod that came back.
    pub(crate) fn report(&self, uid: &Str) -> Option<&PodReport> {
        self.0.reports.get(uid)
    }

    /// Returns the node of a pod that was pending at the start or came back.
    pub(crate) fn node_of(&self, uid: &Str) -> Option<&str> {
        self.report(uid)?.node.as_deref()
    }

    /// Returns the pods that had a node from the beginning and were preempted.
    pub(crate) fn preempted(&self) -> &[PodReport] {
        &self.0.evicted
    }
}

impl SimulatedCluster<'_> {
    /// Returns the claims of the pod's ephemeral volumes as they were created.
    fn ephemeral_claims(&self, pod: &PodInfo) -> Vec<Value> {
        let own = claim::claimed_by(pod).filter(|claimed| claimed.ephemeral);
        let claims = own.filter_map(|claimed| {
            let claim = self.volumes.claim(&(pod.namespace.to_string(), claimed.name.to_string()))?;
            Some(anew(claim, &claimed.name, &format!("{}/{}-again", pod.namespace, claimed.name)))
        });
        claims.collect()
    }

    /// Returns the resource claims that were created for the pod.
    fn own_claims(&self, pod: &Pod) -> Vec<((String, String), Value)> {
        let names = pod.status.resource_claims.iter();
        let claims = names.filter_map(|(_, name)| {
            let key = (pod.namespace.to_string(), name.to_string());
            let claim = self.claims.get(&key)?;
            let owner = claim.pointer("/metadata/ownerReferences/0/uid")?;
            (owner.as_str() == Some(pod.uid.as_str())).then(|| (key, claim.clone()))
        });
        claims.collect()
    }
}
