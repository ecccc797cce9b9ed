//! PreBind: writes the decision, and waits until it takes effect.
//!
//! Each write names the resource version that was read. If two schedulers decide about the same volume or claim, one
//! of them gets a conflict, and its pod is retried. Writes are never undone, whatever happens to the pod: its next
//! attempt finds the volume reserved for the claim, or finds a selected node.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select, try_join_all};
use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use serde::Deserialize;

use super::{
    claims::ClaimId,
    decision::{Decision, VolumeMatch},
    reach::VolumeReach,
};
use crate::storage::{
    CsiNode, PersistentVolume, PersistentVolumeClaim,
    claim::{is_fully_bound, selected_node},
};

/// Upstream's message, which comes from Go's standard library.
const TIMED_OUT: &str = "context deadline exceeded";

/// A node, of which only the metadata is read.
#[derive(Debug, Deserialize)]
pub(super) struct NodeMetadata {}

impl Resource for NodeMetadata {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Node";
    const PLURAL: &'static str = "nodes";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// A binding in progress.
pub(super) struct Binding<'a> {
    pub(super) api: &'a Api,
    pub(super) node: &'a Str,
    pub(super) decision: &'a Decision,
    /// Timeout. Zero means that PreBind fails without waiting.
    pub(super) at_most: Duration,
}

impl Binding<'_> {
    /// Writes the volumes first and then the claims, one after another.
    pub(super) async fn write(&self) -> Result<(), ApiFailure> {
        for found in &self.decision.matches {
            self.api.patch::<PersistentVolume>("", &found.volume.name, found.patch()).await?;
        }
        for claim in &self.decision.provisioned {
            let patch = claim.patch(self.node);
            self.api.patch::<PersistentVolumeClaim>(&claim.namespace, &claim.name, patch).await?;
        }
        Ok(())
    }

    /// Waits until all claims have their volumes. Then checks that the node has access to the volumes.
    pub(super) async fn wait(&self) -> PluginResult<()> {
        if self.at_most.is_zero() {
            return Err(TIMED_OUT.into());
        }
        let matches = try_join_all(self.decision.matches.iter().map(|found| self.matched(found)));
        let provisioned = try_join_all(self.decision.provisioned.iter().map(|claim| self.provisioned(claim)));
        let (matches, provisioned) = futures_util::future::try_join(matches, provisioned).await?;
        self.check_node(matches.iter().chain(&provisioned)).await
    }

    /// Waits until the claim has the volume. Returns the volume's name.
    async fn matched(&self, found: &VolumeMatch) -> PluginResult<Str> {
        let VolumeMatch { claim, volume } = found;
        let bound = self.wait_for::<PersistentVolumeClaim, _>(&claim.namespace, &claim.name, |it| match it {
            None => Some(Err(format!("failed to check binding: {}", missing(claim)))),
            Some(it) => is_fully_bound(it).then(|| Ok(it.volume_name.clone())),
        });
        let lost = self.wait_for::<PersistentVolume, _>("", &volume.name, |it| match it {
            None => Some(format!("failed to check binding: {}", missing_volume(&volume.name))),
            Some(it) => {
                let is_claimed = it.claim_ref.as_ref().is_some_and(|claimed| claimed.uid == claim.uid);
                (!is_claimed).then(|| was_reset(&volume.name))
            }
        });
        let bound = match select(pin!(lost), pin!(bound)).await {
            Either::Left((lost, bound)) => match lost? {
                Some(lost) => return Err(lost.into()),
                None => bound.await?,
            },
            Either::Right((bound, _)) => bound?,
        };
        match bound.ok_or(TIMED_OUT)?? {
            has if has == volume.name => Ok(has),
            _ => Err(was_reset(&volume.name).into()),
        }
    }

    /// Waits until a volume has been provisioned for the claim. Returns the volume's name.
    async fn provisioned(&self, claim: &ClaimId) -> PluginResult<Str> {
        let ClaimId { namespace, name, .. } = claim;
        let provisioned = self.wait_for::<PersistentVolumeClaim, _>(namespace, name, |it| {
            let Some(it) = it else {
                return Some(Err(format!("failed to check provisioning pvc: {}", missing(claim))));
            };
            if it.metadata.annotations.is_empty() {
                return Some(Err(format!("selectedNode annotation reset for PVC {name:?}")));
            }
            // A provisioner that fails removes the annotation.
            if selected_node(it) != Some(self.node) {
                return Some(Err(format!("provisioning failed for PVC {name:?}")));
            }
            is_fully_bound(it).then(|| Ok(it.volume_name.clone()))
        });
        Ok(provisioned.await?.ok_or(TIMED_OUT)??)
    }

    async fn wait_for<R: Resource, T: Send>(
        &self,
        namespace: &str,
        name: &str,
        settle: impl FnMut(Option<&Custom<R>>) -> Option<T> + Send,
    ) -> Result<Option<T>, ApiFailure> {
        self.api.wait(namespace, name, self.at_most, settle).await
    }

    /// Checks that the node still exists and has access to the volumes.
    async fn check_node(&self, volumes: impl Iterator<Item = &Str>) -> PluginResult<()> {
        let name = self.node;
        let failed = |why: &dyn std::fmt::Display| format!("failed to get node {name:?}: {why}");
        let node = self.api.get::<NodeMetadata>("", name).await.map_err(|why| failed(&why))?;
        let node = node.ok_or_else(|| failed(&format_args!("node {name:?} not found")))?;
        for volume in volumes {
            let found = self.api.get::<PersistentVolume>("", volume).await?;
            let found = found.ok_or_else(|| missing_volume(volume))?;
            let reach = VolumeReach::of(&found);
            let drivers = match reach.depends_on_drivers(&node.metadata.labels) {
                true => self.api.get::<CsiNode>("", name).await?,
                false => None,
            };
            let is_within_reach = reach
                .includes(&node.metadata.labels, drivers.as_ref())
                .map_err(|why| format!("failed to translate pv to csi: {why}"))?;
            if !is_within_reach {
                return Err(format!(
                    "pv {volume:?} node affinity doesn't match node {name:?}: no matching NodeSelectorTerms"
                )
                .into());
            }
        }
        Ok(())
    }
}

fn was_reset(volume: &str) -> String {
    format!("ClaimRef got reset for pv {volume:?}")
}

fn missing(ClaimId { namespace, name, .. }: &ClaimId) -> String {
    format!("persistentvolumeclaims \"{namespace}/{name}\" not found")
}

fn missing_volume(name: &str) -> String {
    format!("persistentvolumes {name:?} not found")
}
