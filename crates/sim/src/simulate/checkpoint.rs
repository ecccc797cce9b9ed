//! Adds claims for pods, and restores claims and volumes after the pods are gone.

use std::collections::BTreeMap;

use harbormaster_plugins::{
    devices::ResourceClaim,
    storage::{PersistentVolume, PersistentVolumeClaim},
};
use harbormaster_validation::value::{name, namespace};
use harbormaster_world::volumes::{Difference, Volumes};
use serde_json::Value;

use super::SimulatedCluster;

/// The claims and volumes of a cluster at one time.
pub(super) struct Checkpoint {
    volumes: Volumes,
    /// Resource claims, by namespace and name.
    claims: BTreeMap<(String, String), Value>,
}

impl SimulatedCluster<'_> {
    /// Adds new claims, or replaces resource claims. Claims for volumes that do not wait for a pod get theirs.
    pub(super) fn add_claims(&mut self, claims: Vec<Value>) {
        for claim in claims {
            let key = (namespace(&claim).to_owned(), name(&claim).to_owned());
            if claim["kind"] == "ResourceClaim" {
                self.claims.insert(key, claim.clone());
                self.publish_custom::<ResourceClaim>(claim);
                continue;
            }
            self.volumes.put(&claim);
            self.publish_custom::<PersistentVolumeClaim>(claim);
            self.volumes.settle_claim(&key);
        }
        self.publish_changes();
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { volumes: self.volumes.clone(), claims: self.claims.clone() }
    }

    /// Makes all claims and volumes what they were.
    pub(super) fn restore(&mut self, old: &Checkpoint) {
        let Difference { volumes, claims, lost_volumes, lost_claims } = self.volumes.difference(&old.volumes);
        self.volumes = old.volumes.clone();
        lost_claims.iter().for_each(|claim| self.publish_end::<PersistentVolumeClaim>(claim));
        lost_volumes.iter().for_each(|volume| self.publish_end::<PersistentVolume>(volume));
        volumes.into_iter().for_each(|volume| self.publish_custom::<PersistentVolume>(volume));
        claims.into_iter().for_each(|claim| self.publish_custom::<PersistentVolumeClaim>(claim));
        let used = std::mem::take(&mut self.claims);
        for (key, claim) in &old.claims {
            if used.get(key) != Some(claim) {
                self.publish_custom::<ResourceClaim>(claim.clone());
            }
        }
        for claim in used.iter().filter(|(key, _)| !old.claims.contains_key(*key)).map(|(_, claim)| claim) {
            self.publish_end::<ResourceClaim>(claim);
        }
        self.claims = old.claims.clone();
    }
}
