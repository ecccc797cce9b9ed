//! Reserve's decision for a pod's claims, which is assumed immediately and written later.

use harbormaster_api::{Labels, Str};
use harbormaster_framework::prelude::*;
use serde_json::{Value, json};

use super::{
    claims::{Candidate, ClaimId},
    on_node::ClaimVolumes,
};
use crate::storage::{
    ClaimRef, PersistentVolume, PersistentVolumeClaim,
    claim::{SELECTED_NODE, selected_node},
};

/// Annotation of volumes that were bound by a controller or scheduler.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The volumes chosen for a pod's claims.
#[derive(Debug, Default)]
pub struct Decision {
    pub(super) matches: Vec<VolumeMatch>,
    /// Claims for which volumes will be provisioned.
    pub(super) provisioned: Vec<ClaimId>,
}

/// A volume for a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VolumeMatch {
    pub(super) claim: ClaimId,
    pub(super) volume: Candidate,
}

impl Decision {
    pub(super) fn of(found: &ClaimVolumes<'_>) -> Self {
        let matches = found
            .matched
            .iter()
            .map(|(delayed, volume)| VolumeMatch { claim: delayed.claim.clone(), volume: (*volume).clone() });
        let provisioned = found.provisioned.iter().map(|(delayed, _)| delayed.claim.clone());
        Self { matches: matches.collect(), provisioned: provisioned.collect() }
    }

    /// Returns the name of each claim that gets an existing volume, with the name of the volume.
    pub fn volumes(&self) -> impl Iterator<Item = (&Str, &Str)> {
        self.matches.iter().map(|found| (&found.claim.name, &found.volume.name))
    }

    /// Returns the names of the claims for which volumes will be provisioned.
    pub fn to_provision(&self) -> impl Iterator<Item = &Str> {
        self.provisioned.iter().map(|claim| &claim.name)
    }

    /// Returns true if all claims already have volumes.
    pub(super) fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.provisioned.is_empty()
    }

    /// Assumes the decision for later attempts, until the API server's objects confirm or contradict it.
    pub(super) fn assume(&self, node: &Str, assume: &mut Assume) {
        for found in &self.matches {
            let (volume, claim_ref) = (found.volume.uid.clone(), found.claim.claim_ref());
            assume.custom::<PersistentVolume>("", &found.volume.name, move |it| {
                let is_open = it.metadata.uid == volume && is_open(it.claim_ref.as_ref(), &claim_ref);
                if is_open {
                    it.claim_ref = Some(claim_ref.clone());
                }
                is_open
            });
        }
        for claim in &self.provisioned {
            let (uid, node) = (claim.uid.clone(), node.clone());
            assume.custom::<PersistentVolumeClaim>(&claim.namespace, &claim.name, move |it| {
                let is_open =
                    it.metadata.uid == uid && it.volume_name.is_empty() && selected_node(it).is_none();
                if is_open {
                    it.metadata.annotations = with(&it.metadata.annotations, SELECTED_NODE, &node);
                }
                is_open
            });
        }
    }
}

/// Returns true if the volume can still be bound to the claim and is not bound yet.
fn is_open(written: Option<&ClaimRef>, wanted: &ClaimRef) -> bool {
    let is_set_aside = |written: &ClaimRef| {
        written.uid.is_empty() && written.namespace == wanted.namespace && written.name == wanted.name
    };
    written.is_none_or(is_set_aside)
}

fn with(labels: &Labels, key: &str, value: &Str) -> Labels {
    let pairs = labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    pairs.chain([(Str::from(key), value.clone())]).collect()
}

impl ClaimId {
    fn claim_ref(&self) -> ClaimRef {
        let Self { namespace, name, uid, .. } = self;
        ClaimRef { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }
    }

    /// Returns a patch that requests provisioning for the node, conditional on the resource version that was read.
    pub(super) fn patch(&self, node: &Str) -> Value {
        json!({ "metadata": { "resourceVersion": self.version, "annotations": { SELECTED_NODE: node } } })
    }
}

impl VolumeMatch {
    /// Returns a patch that binds the volume to the claim, conditional on the resource version that was read. If the
    /// volume already has the claim's UID, the patch only checks the resource version.
    pub(super) fn patch(&self) -> Value {
        let mut patch = json!({ "metadata": { "resourceVersion": self.volume.version } });
        if self.volume.claim_ref.as_ref().is_some_and(|claimed| claimed.uid == self.claim.uid) {
            return patch;
        }
        let ClaimId { namespace, name, uid, version } = &self.claim;
        patch["spec"] = json!({ "claimRef": {
            "apiVersion": "v1",
            "kind": PersistentVolumeClaim::KIND,
            "namespace": namespace,
            "name": name,
            "uid": uid,
            "resourceVersion": version,
        } });
        if self.volume.claim_ref.is_none() {
            patch["metadata"]["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
        }
        patch
    }
}
