//! VolumeBinding: pods go where their volumes are, or where volumes can be made for them, and get them.
//!
//! # What it does
//! PreFilter, Filter, PreScore, Score, Reserve, PreBind. Looks at the claims of a pod, those of ephemeral volumes among
//! them. A claim that has a volume ties the pod to the nodes from which that can be used. A claim that waits for its
//! first consumer (`volumeBindingMode: WaitForFirstConsumer`) gets, on the node that is chosen, the smallest volume that
//! will do, or else has one made. Reserve lets that count at once; PreBind writes it down and waits until the volumes
//! are there, for `bindTimeoutSeconds` at most.
//!
//! # Rejects when
//! Before looking at nodes: a claim does not exist, is being deleted, has lost its volume or was made for another pod
//! (`persistentvolumeclaim "x" not found`, …); a claim that does not wait has no volume (`pod has unbound immediate
//! PersistentVolumeClaims`). On a node, all that is true of these, in this order: `node(s) didn't match
//! PersistentVolume's node affinity`; `node(s) didn't find available persistent volumes to bind`, or else `node(s) did
//! not have enough free storage`; `node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)`. Evicting
//! pods does not help.
//!
//! # Scores by
//! Nothing, unless the gate `StorageCapacityScoring` is on: then by how full the storage of each class would be, as
//! `shape` has it.
//!
//! # Requeued by
//! The pod's own claims; any new or changed volume; a class that is new or allows other places; a node that is new or
//! has other labels, and what it says of in-tree disks; storage capacity that is new or has grown; a driver that no
//! longer tells its capacity, for pods with inline volumes of it; a pod with claims that gives its node up before it is
//! bound.
//!
//! # Differs from kube-scheduler
//! Of equally small volumes the first by name is taken, and the first set aside of several; there it is chance. What is
//! assumed outlives unrelated updates of the object. A claim that several volumes of a pod name counts once. A pod that
//! gives its node up wakes others, for the volumes that it was going to have. PreBind is driven by events and not by a
//! clock, insists that a claim has the very volume that was chosen for it, and looks whether the node is still there
//! once, when the volumes are. Classes that go away in the middle of a decision are not met with.
//!
//! Reading order: `claims` (the pod), `on_node` (one node), `supply` (what there is), `reach` and `offers` (their means),
//! `decision` (what comes of it), `bind` (until it has come about), `score`, `hints`.

mod bind;
mod claims;
mod decision;
mod hints;
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
    storage::{
        CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, claim,
    },
};
use bind::Binding;
use claims::Claims;
pub use decision::Decision;
pub use supply::Supply;

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct VolumeBinding {
    bind_timeout: Duration,
    /// Only with the gate StorageCapacityScoring.
    shape: Option<Shape>,
}

/// What the pod's claims need. See [`VolumeBinding`].
#[derive(Clone, Debug, Default)]
pub struct PodClaims(Arc<Claims>);

impl Plugin for VolumeBinding {
    const NAME: &'static str = "VolumeBinding";
    type FilterState = PodClaims;
    type ScoreState = PodClaims;

    fn points(points: &mut Points<Self>) {
        points.pre_filter().filter().pre_score().score().reserve().pre_bind().indexed();
        points.resource::<PersistentVolumeClaim>().resource::<PersistentVolume>();
        points.resource::<StorageClass>().resource::<CsiNode>();
        points.resource::<CsiDriver>().resource::<CsiStorageCapacity>();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(hints::events())
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        sign::volumes(pod)
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

impl PreFilter for VolumeBinding {
    /// Without claims that wait, and with volumes that can be used from everywhere, there is nothing left to do.
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<PodClaims>, Stop> {
        Ok(match Claims::of(cx)? {
            Some(claims) if !claims.delayed.is_empty() || !claims.fit_everywhere() => {
                PreFiltered::state(PodClaims(Arc::new(claims)))
            }
            _ => PreFiltered::Skip,
        })
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, cx: &Cycle<'_>, PodClaims(claims): &PodClaims, node: NodeRef<'_>) -> Verdict {
        claims.on(cx.objects, cx.index()?, node).map(drop)
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
        let supply: &Supply = cx.index()?;
        if let Some((only, lack)) = claims.only_rows(supply) {
            sweep.reject_all_but(&only, &lack.reject());
            return Ok(());
        }
        for row in sweep.rows().iter() {
            match claims.on(cx.objects, supply, cx.nodes.node(row)) {
                Ok(_) => {}
                Err(Stop::Reject(reject)) => sweep.reject(row, reject),
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl PreScore for VolumeBinding {
    fn pre_score(
        &self,
        _: &Cycle<'_>,
        claims: &PodClaims,
        _: &NodeSet,
    ) -> PluginResult<PreScored<PodClaims>> {
        Ok(match self.shape {
            Some(_) => PreScored::Continue(claims.clone()),
            None => PreScored::Skip,
        })
    }
}

impl Score for VolumeBinding {
    fn score(&self, cx: &Cycle<'_>, PodClaims(claims): &PodClaims, node: NodeRef<'_>) -> PluginResult<i64> {
        match (&self.shape, claims.on(cx.objects, cx.index()?, node)) {
            (Some(shape), Ok(found)) => Ok(score::score(shape, &found)),
            (None, _) | (_, Err(Stop::Reject(_))) => Ok(0),
            (_, Err(Stop::Error(error))) => Err(error),
        }
    }
}

impl Reserve for VolumeBinding {
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
        let decision = Decision::of(&claims.on(cx.objects, cx.index()?, node)?);
        decision.assume(node.name(), assume);
        Ok(decision)
    }

    /// What is written stays, as `bind` says.
    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl PreBind for VolumeBinding {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let is_done = match placement.reserved::<Self>() {
            Some(decision) => decision.is_empty(),
            None => claim::claimed_by(&placement.pod).next().is_none(),
        };
        Ok(if is_done { PreFlight::NothingToDo } else { PreFlight::Work { parallel: true } })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(decision) = cx.reserved::<Self>() else {
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
