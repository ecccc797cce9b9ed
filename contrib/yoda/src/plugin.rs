//! The `yoda` plugin.
//!
//! # What it does
//! QueueSort orders pods by `spec.priority`, then by the `scv/priority` label, the requested level, and the time in the
//! queue. `spec.priority` comes first because preemption uses it; the label orders pods within a priority class.
//! PreFilter reads the labels. Filter finds nodes whose cards satisfy the request. Score prefers nodes that are emptier
//! and have better cards for the pod. Reserve chooses the cards, and PreBind records them in an annotation of the pod.
//!
//! # Rejects when
//! - A label is invalid.
//! - No sniffer reports for the node, or the last report is older than `staleAfterSeconds`.
//! - The node does not have the requested level.
//! - Too few cards are healthy, fast enough and large enough, or too few of them have room. Evicting pods can help only
//!   in the last case.
//!
//! # Scores by
//! See [`crate::score`]: the mean score of the cards that the pod would get, relative to the greatest values among all
//! candidates, plus the share of the node's card memory that is measured as free and the share that no pod holds. The
//! best node gets 100, the worst 0.
//!
//! # Requeued by
//! See [`crate::hints`].
//!
//! # Differs from the original
//! See `README.md`. With `mode: literal`, Filter, Score and the queue order are the same as in the original: there is
//! no ledger, the level is ignored, and reports never become stale.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harbormaster::{api::Timestamp, prelude::*, serde_json::json};

use crate::{
    args::{Args, Mode},
    cards::{LEVEL_NOT_FIT, NO_GPU, STALE},
    hints,
    ledger::{self, CARDS, Ledger, PendingChoices, WhatIf},
    literal,
    request::{self, Level, Request},
    score::{Maxima, Offer, spread},
    scv::Scv,
};

/// Places pods by the GPUs that they request. See the [module documentation](self).
#[derive(Debug)]
pub struct Yoda {
    pub(crate) mode: Mode,
    pub(crate) stale_after: Duration,
    chosen: Mutex<PendingChoices>,
}

/// State of a scheduling attempt: the pod's request, and the data that Filter and Score use.
#[derive(Clone, Debug, Default)]
pub struct AttemptState {
    request: Option<AnyRequest>,
    /// Time of the newest report of any node. Plugins have no clock.
    newest: Option<Timestamp>,
    what_if: BTreeMap<NodeIdx, WhatIf>,
    /// Offers that Filter found, for nodes that satisfy the request.
    offers: PerNode<Arc<Offer>>,
}

#[derive(Clone, Copy, Debug)]
enum AnyRequest {
    Literal(literal::Request),
    Corrected(Request),
}

/// State for Score.
#[derive(Debug, Default)]
pub enum ScoreInputs {
    /// The pod is not scored.
    #[default]
    Nothing,
    /// The request, and the greatest value of each fact among the scored cards of all nodes.
    Literal(literal::Request, literal::Maxima),
    /// The candidates' offers, and the greatest value of each fact among them.
    Corrected(HashMap<NodeIdx, Arc<Offer>>, Maxima),
}

/// Cards that Reserve took.
#[derive(Debug, Default)]
pub struct ReservedCards {
    /// IDs of the cards; empty if the pod requests no cards.
    pub ids: Vec<u32>,
    /// True once the annotation may have reached the API server.
    may_be_written: AtomicBool,
}

impl Plugin for Yoda {
    const NAME: &'static str = "yoda";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        hints::events(self)
    }
}

impl Watches for Yoda {
    type Resources = Scv;
}

impl Build for Yoda {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { mode: args.mode, stale_after: args.stale_after()?, chosen: Mutex::default() })
    }
}

impl Indexed for Yoda {
    type Index = Ledger;
}

impl QueueSort for Yoda {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        match self.mode {
            Mode::Literal => literal::priority(&a.pod.labels) > literal::priority(&b.pod.labels),
            Mode::Corrected => queue_key(a) < queue_key(b),
        }
    }
}

/// Returns the key that QueueSort orders by, smallest first.
fn queue_key(queued: Queued<'_>) -> (Reverse<i32>, Reverse<i64>, Reverse<Option<Level>>, Timestamp) {
    let labels = &queued.pod.labels;
    // PreFilter rejects the pod if the label is invalid.
    let priority = request::priority(labels).unwrap_or(0);
    (Reverse(queued.pod.priority()), Reverse(priority), Reverse(request::level(labels)), queued.since)
}

impl PreFilter<WholeCluster, AttemptState> for Yoda {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<AttemptState>, Stop> {
        let state = self.prepare(cx)?;
        Ok(if state.request.is_some() { PreFiltered::state(state) } else { PreFiltered::Skip })
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut AttemptState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.what_if.entry(node.idx()).or_default().add(pod);
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut AttemptState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.what_if.entry(node.idx()).or_default().remove(pod);
        Ok(())
    }
}

impl Filter<WholeCluster, AttemptState> for Yoda {
    fn filter(&self, cx: &Cycle<'_>, state: &AttemptState, node: NodeRef<'_>) -> Verdict {
        match &state.request {
            None => Ok(()),
            Some(AnyRequest::Literal(request)) => {
                let scv = self.watched(cx.objects).get("", node.name());
                let scv = scv.ok_or_else(|| Reject::evictable(NO_GPU))?;
                Ok(request.fits(&scv.status).map_err(Reject::evictable)?)
            }
            Some(AnyRequest::Corrected(request)) => {
                state.offers.set(node, Arc::new(self.offer(cx, state, request, node)?));
                Ok(())
            }
        }
    }
}

impl PreScore<WholeCluster, AttemptState, ScoreInputs> for Yoda {
    fn pre_score(
        &self,
        cx: &Cycle<'_>,
        state: &AttemptState,
        candidates: &NodeSet,
    ) -> PluginResult<PreScored<ScoreInputs>> {
        Ok(match &state.request {
            None => PreScored::Skip,
            Some(AnyRequest::Literal(request)) => {
                let all = self.watched(cx.objects).all().map(|scv| &scv.status);
                PreScored::Continue(ScoreInputs::Literal(*request, literal::Maxima::of(request, all)))
            }
            Some(AnyRequest::Corrected(_)) => {
                let offer = |row: NodeIdx| Some((row, state.offers.get(cx.nodes.node(row))?));
                let offers: HashMap<_, _> = candidates.iter().filter_map(offer).collect();
                let maxima = Maxima::of(offers.values().flat_map(|offer| offer.cards.iter().copied()));
                PreScored::Continue(ScoreInputs::Corrected(offers, maxima))
            }
        })
    }
}

impl Score<WholeCluster, ScoreInputs> for Yoda {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, cx: &Cycle<'_>, inputs: &ScoreInputs, node: NodeRef<'_>) -> PluginResult<i64> {
        match inputs {
            ScoreInputs::Nothing => Ok(0),
            ScoreInputs::Literal(request, maxima) => {
                let Some(scv) = self.watched(cx.objects).get("", node.name()) else { return Ok(0) };
                let labelled = self.index(cx)?.labelled(node.idx());
                Ok(literal::score(request, maxima, &scv.status, labelled))
            }
            ScoreInputs::Corrected(offers, maxima) => {
                Ok(offers.get(&node.idx()).map_or(0, |offer| offer.score(maxima)))
            }
        }
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        _: &ScoreInputs,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let at: Vec<usize> = candidates.iter().map(NodeIdx::at).collect();
        spread(scores, &at);
        Ok(())
    }
}

impl Reserve<AttemptState> for Yoda {
    type Reserved = ReservedCards;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        state: &AttemptState,
        node: NodeRef<'_>,
        _: &mut Assume,
    ) -> Result<ReservedCards, Stop> {
        let Some(AnyRequest::Corrected(request)) = &state.request else {
            return Ok(ReservedCards::default());
        };
        let ids = self.offer(cx, state, request, node)?.ids;
        self.chosen().insert(&cx.pod.uid, node.idx(), ids.clone(), self.index(cx)?);
        Ok(ReservedCards { ids, ..ReservedCards::default() })
    }

    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        self.chosen().remove(&placement.pod.uid);
        let taken = self.reserved(placement);
        if taken.is_some_and(|taken| taken.may_be_written.load(Ordering::Relaxed)) {
            let patch = json!({"metadata": {"uid": placement.pod.uid, "annotations": {CARDS: null}}});
            calls.push(ApiCall::patch(ObjectPath::pod(&placement.pod), patch));
        }
    }
}

impl PreBind for Yoda {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let takes_cards = self.reserved(placement).is_some_and(|taken| !taken.ids.is_empty());
        Ok(if takes_cards { PreFlight::Work { parallel: true } } else { PreFlight::NothingToDo })
    }

    /// Writes the annotation before the binding, so that the cards of every bound pod are known.
    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(taken) = self.reserved(cx) else { return Ok(()) };
        taken.may_be_written.store(true, Ordering::Relaxed);
        let patch = json!({"metadata": {"annotations": {CARDS: ledger::format_ids(&taken.ids)}}});
        Ok(cx.api.patch_pod(&cx.pod, patch).await?)
    }
}

impl Yoda {
    fn prepare(&self, cx: &Cycle<'_>) -> Result<AttemptState, Stop> {
        let labels = &cx.pod.labels;
        if self.mode == Mode::Literal {
            let request = Some(AnyRequest::Literal(literal::Request::of(labels)));
            return Ok(AttemptState { request, ..AttemptState::default() });
        }
        let unreadable = |bad: request::BadLabel| Reject::unresolvable(bad.to_string());
        request::priority(labels).map_err(unreadable)?;
        let Some(request) = Request::of(labels).map_err(unreadable)? else {
            return Ok(AttemptState::default());
        };
        let newest = self.watched(cx.objects).all().filter_map(|scv| scv.status.update_time).max();
        Ok(AttemptState { request: Some(AnyRequest::Corrected(request)), newest, ..AttemptState::default() })
    }

    /// Returns the node's offer for the request, or the reason the node does not satisfy the request.
    fn offer(
        &self,
        cx: &Cycle<'_>,
        state: &AttemptState,
        request: &Request,
        node: NodeRef<'_>,
    ) -> Result<Offer, Stop> {
        let Some(scv) = self.watched(cx.objects).get("", node.name()) else {
            return Err(Reject::unresolvable(NO_GPU).into());
        };
        let age = state.newest.zip(scv.status.update_time).map(|(newest, updated)| newest.since(updated));
        if age.is_none_or(|age| age > self.stale_after) {
            return Err(Reject::unresolvable(STALE).into());
        }
        if request.level.is_some() && request.level != node.labels().and_then(request::level) {
            return Err(Reject::unresolvable(LEVEL_NOT_FIT).into());
        }
        let row = node.idx();
        let what_if = state.what_if.get(&row);
        let ledger = self.index(cx)?;
        let mut cards = ledger::cards(&scv.status, row, ledger, &self.chosen(), what_if, &cx.pod.uid);
        // Pods were evicted here for this pod. Their memory is measured as free only in the next report; without this
        // call, the pod would keep evicting other pods until then.
        if cx.pod.status.nominated_node_name.as_ref() == Some(node.name()) {
            cards.trust_the_ledger();
        }
        Ok(Offer::of(&cards, request)?)
    }

    fn chosen(&self) -> MutexGuard<'_, PendingChoices> {
        // A panic cannot leave the choices half-updated.
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
