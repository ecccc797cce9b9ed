//! VolumeBinding: places pods where their volumes are accessible or can be provisioned, and binds the volumes.
//!
//! # What it does
//! Extension points: PreFilter, Filter, PreScore, Score, Reserve, PreBind. Handles the claims of a pod, including those
//! of ephemeral volumes. A claim with a volume restricts the pod to the nodes that can access the volume. A claim that
//! waits for its first consumer (`volumeBindingMode: WaitForFirstConsumer`) gets the smallest matching volume to which
//! the chosen node has access; if there is none, a volume is provisioned. Reserve assumes the decision immediately.
//! PreBind writes the decision and waits until the volumes exist, for at most `bindTimeoutSeconds`.
//!
//! # Rejects when
//! PreFilter rejects the pod on all nodes if:
//! - a claim does not exist, is being deleted, has lost its volume or was created for another pod:
//!   `persistentvolumeclaim "x" not found` and similar;
//! - a claim that does not wait has no volume: `pod has unbound immediate PersistentVolumeClaims`.
//!
//! Filter rejects a node with all reasons that apply, in this order:
//! - `node(s) didn't match PersistentVolume's node affinity`
//! - `node(s) didn't find available persistent volumes to bind`, or else `node(s) did not have enough free storage`
//! - `node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)`
//!
//! Evicting pods does not help.
//!
//! # Scores by
//! It does not score unless the `StorageCapacityScoring` feature gate is enabled. Then, for each class, `shape`
//! converts a fraction (requested storage divided by available storage) to a score. The node's score is the mean over
//! the classes.
//!
//! # Requeued by
//! A new or changed claim of the pod; a new or changed volume; a new class, or a class whose allowed topologies change;
//! a new node, or a node whose labels change; a new CSINode, or a change to its migrated plugins; new or increased
//! storage capacity; a driver that stops reporting capacity, for pods with inline volumes of that driver; another pod
//! that has claims and loses its node before it is bound.
//!
//! # Differs from kube-scheduler
//! - Among volumes of equal size, the first by name wins, even among several volumes reserved for the claim;
//!   kube-scheduler's order is random.
//! - An assumed change to an object survives unrelated updates of the object.
//! - A claim counts once even if several volumes of a pod refer to it.
//! - A pod that loses its node before it is bound wakes other pods, since its volumes may be free again.
//! - PreBind reacts to events instead of polling. It requires that each claim gets the volume chosen for it. It checks
//!   only once, when the volumes exist, that the node still exists.
//! - Classes never disappear while a decision is being made.
//!
//! Reading order: `claims` (the pod), `on_node` (one node), `supply` (available storage), `reach` and `offers`
//! (parts of `supply`), `decision` (the result), `bind` (carrying out the decision), `score`, `hints`, `lacks` (explanations).

mod bind;
mod claims;
mod decision;
mod hints;
mod lacks;
mod offers;
mod on_node;
mod reach;
mod score;
mod supply;

use std::{sync::Arc, time::Duration};

use harbormaster_api::{args::VolumeBindingArgs, features::Feature};
use harbormaster_framework::prelude::*;

use crate::{
    shape::Shape,
    sign,
    storage::{CsiDriver, CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, claim},
};
use bind::Binding;
use claims::{Claims, VolumeObjects};
pub use decision::Decision;
pub use supply::Supply;

/// Places pods according to their volumes. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct VolumeBinding {
    bind_timeout: Duration,
    /// Scoring curve; `None` without the `StorageCapacityScoring` feature gate.
    shape: Option<Shape>,
}

/// Requirements of the pod's claims. See [`VolumeBinding`].
#[derive(Clone, Debug, Default)]
pub struct PodClaims(Arc<Claims>);

impl Plugin for VolumeBinding {
    const NAME: &'static str = "VolumeBinding";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(hints::events())
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        sign::volumes(pod)
    }
}

impl Watches for VolumeBinding {
    type Resources = (PersistentVolumeClaim, PersistentVolume, StorageClass, CsiNode, CsiDriver);
}

impl VolumeBinding {
    fn volume_objects<'a>(&self, cx: &Cycle<'a>) -> VolumeObjects<'a> {
        let (claims, volumes, classes, _, drivers) = self.watched(cx.objects);
        VolumeObjects { claims, volumes, classes, drivers }
    }

    fn csi_nodes<'a>(&self, cx: &Cycle<'a>) -> Watched<'a, CsiNode> {
        let (_, _, _, nodes, _) = self.watched(cx.objects);
        nodes
    }
}

impl Build for VolumeBinding {
    type Args = VolumeBindingArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let scores = cx.features.enabled(Feature::StorageCapacityScoring);
        let seconds = u64::try_from(args.bind_timeout_seconds)
            .map_err(|_| "bindTimeoutSeconds: invalid BindTimeoutSeconds, should not be a negative value")?;
        Ok(Self {
            bind_timeout: Duration::from_secs(seconds),
            shape: scores.then(|| Shape::new(&args.shape)).transpose()?,
        })
    }
}

impl Indexed for VolumeBinding {
    type Index = Supply;
}

impl PreFilter<WholeCluster, PodClaims> for VolumeBinding {
    /// Skips pods that have no waiting claims and whose volumes are accessible from every node.
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<PodClaims>, Stop> {
        Ok(match Claims::of(cx.pod, self.volume_objects(cx), self.index(cx)?)? {
            Some(claims) if !claims.delayed.is_empty() || !claims.fit_everywhere() => {
                PreFiltered::state(PodClaims(Arc::new(claims)))
            }
            _ => PreFiltered::Skip,
        })
    }
}

impl Filter<WholeCluster, PodClaims> for VolumeBinding {
    fn filter(&self, cx: &Cycle<'_>, PodClaims(claims): &PodClaims, node: NodeRef<'_>) -> Verdict {
        claims.on(self.csi_nodes(cx), self.index(cx)?, node).map(drop)
    }

    fn filter_batch(
        &self,
        cx: &Cycle<'_>,
        PodClaims(claims): &PodClaims,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        if claims.fit_everywhere() {
            return Ok(());
        }
        let supply: &Supply = self.index(cx)?;
        if let Some((only, lack)) = claims.only_rows(supply) {
            sweep.reject_all_but(&only, &lack.reject());
            return Ok(());
        }
        for row in sweep.rows().iter() {
            match claims.on(self.csi_nodes(cx), supply, cx.nodes.node(row)) {
                Ok(_) => {}
                Err(Stop::Reject(reject)) => sweep.reject(row, reject),
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn lacks(&self, cx: &Cycle<'_>, PodClaims(claims): &PodClaims, node: NodeRef<'_>) -> Option<String> {
        self.shortfall(cx, claims, node)
    }
}

impl PreScore<WholeCluster, PodClaims, PodClaims> for VolumeBinding {
    fn pre_score(
        &self,
        _: &Cycle<'_>,
        claims: &PodClaims,
        _: &NodeSet,
    ) -> PluginResult<PreScored<PodClaims>> {
        // Without claims that wait for the pod, all nodes have the same score.
        Ok(match self.shape {
            Some(_) if !claims.0.delayed.is_empty() => PreScored::Continue(claims.clone()),
            _ => PreScored::Skip,
        })
    }
}

impl Score<WholeCluster, PodClaims> for VolumeBinding {
    fn score(&self, cx: &Cycle<'_>, PodClaims(claims): &PodClaims, node: NodeRef<'_>) -> PluginResult<i64> {
        match (&self.shape, claims.on(self.csi_nodes(cx), self.index(cx)?, node)) {
            (Some(shape), Ok(found)) => Ok(score::score(shape, &found)),
            (None, _) | (_, Err(Stop::Reject(_))) => Ok(0),
            (_, Err(Stop::Error(error))) => Err(error),
        }
    }
}

impl Reserve<PodClaims> for VolumeBinding {
    type Reserved = Decision;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        PodClaims(claims): &PodClaims,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Decision, Stop> {
        if claims.delayed.is_empty() {
            return Ok(Decision::default());
        }
        let decision = Decision::of(&claims.on(self.csi_nodes(cx), self.index(cx)?, node)?);
        decision.assume(node.name(), assume);
        Ok(decision)
    }

    /// Does nothing, since writes are never undone; see `bind`.
    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl PreBind for VolumeBinding {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let is_done = match self.reserved(placement) {
            Some(decision) => decision.is_empty(),
            None => claim::claimed_by(&placement.pod).next().is_none(),
        };
        Ok(if is_done { PreFlight::NothingToDo } else { PreFlight::Work { parallel: true } })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(decision) = self.reserved(cx) else {
            let pod = cx.pod.full_name();
            return Err(format!("failed to get cached bindings for pod {pod:?}").into());
        };
        let binding = Binding { api: &cx.api, node: &cx.node, decision, at_most: self.bind_timeout };
        binding.write().await?;
        binding.wait().await.map_err(|why| format!("binding volumes: {why}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
