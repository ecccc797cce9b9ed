//! The plugin `yoda`.
//!
//! # What it does
//! QueueSort orders by `spec.priority`, then by the label `scv/priority`, then by the level that a pod asks for, then by
//! the time in the queue: `spec.priority` decides because preemption goes by it, and the label orders pods within one
//! priority class. PreFilter reads the labels. Filter finds nodes whose cards satisfy all of them, Score prefers nodes
//! that would give the pod better cards and are emptier, Reserve chooses the cards, PreBind writes them down on the pod.
//!
//! # Rejects when
//! A label cannot be read; no sniffer reports for the node, or has not for `staleAfterSeconds`; the level of the node is
//! another; too few cards are healthy, fast or large enough, or have room. Only in the last case can evicting pods help.
//!
//! # Scores by
//! See [`crate::score`]: the mean of the cards that the pod would get, relative to the greatest among all candidates,
//! and how much of the node's memory is free and not held. The best node has 100, the worst 0.
//!
//! # Requeued by
//! See [`crate::hints`].
//!
//! # Differs from the original
//! See `README.md`. With `mode: literal`, Filter, Score and the order of the queue are the original's, and there is
//! neither a ledger nor a level, nor is anything too old.

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
    ledger::{self, CARDS, Chosen, Ledger, WhatIf},
    literal,
    score::{Maxima, Offer, spread},
    scv::Scv,
    wish::{self, Level, Wish},
};

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Yoda {
    pub(crate) mode: Mode,
    pub(crate) stale_after: Duration,
    chosen: Mutex<Chosen>,
}

/// What PreFilter found out.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    wish: Option<AnyWish>,
    /// The newest of all reports. Plugins have no clock.
    newest: Option<Timestamp>,
    what_if: BTreeMap<NodeIdx, WhatIf>,
    /// What Filter found on nodes that satisfy the wish.
    offers: PerNode<Arc<Offer>>,
}

#[derive(Clone, Copy, Debug)]
enum AnyWish {
    Literal(literal::Wish),
    Corrected(Wish),
}

/// What PreScore found out.
#[derive(Debug, Default)]
pub enum Compared {
    /// Nothing.
    #[default]
    Nothing,
    /// The greatest facts anywhere.
    Literal(literal::Wish, literal::Maxima),
    /// What the candidates offer, and the greatest facts among that.
    Corrected(HashMap<NodeIdx, Arc<Offer>>, Maxima),
}

/// What Reserve took.
#[derive(Debug, Default)]
pub struct Taken {
    /// The ids of the cards; none if the pod asks for none.
    pub ids: Vec<u32>,
    /// Whether the API server may have heard of it.
    may_be_written: AtomicBool,
}

impl Plugin for Yoda {
    const NAME: &'static str = "yoda";
    type FilterState = Asked;
    type ScoreState = Compared;

    fn points(points: &mut Points<Self>) {
        points.queue_sort().pre_filter().filter().pre_score().score().reserve().pre_bind();
        points.indexed().resource::<Scv>();
    }

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        hints::events(self)
    }
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
            Mode::Corrected => place(a) < place(b),
        }
    }
}

/// What QueueSort orders by; the least goes first.
fn place(queued: Queued<'_>) -> (Reverse<i32>, Reverse<i64>, Reverse<Option<Level>>, Timestamp) {
    let labels = &queued.pod.labels;
    // PreFilter rejects the pod if its label cannot be read.
    let priority = wish::priority(labels).unwrap_or(0);
    (Reverse(queued.pod.priority()), Reverse(priority), Reverse(wish::level(labels)), queued.since)
}

impl PreFilter for Yoda {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Asked>, Stop> {
        let asked = self.asked(cx)?;
        Ok(if asked.wish.is_some() { PreFiltered::state(asked) } else { PreFiltered::Skip })
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        asked: &mut Asked,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        asked.what_if.entry(node.idx()).or_default().add(pod);
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        asked: &mut Asked,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        asked.what_if.entry(node.idx()).or_default().remove(pod);
        Ok(())
    }
}

impl Filter for Yoda {
    fn filter(&self, cx: &Cycle<'_>, asked: &Asked, node: NodeRef<'_>) -> Verdict {
        match &asked.wish {
            None => Ok(()),
            Some(AnyWish::Literal(wish)) => {
                let scv = cx.objects.get::<Scv>("", node.name())?.ok_or_else(|| Reject::evictable(NO_GPU))?;
                Ok(wish.fits(&scv.status).map_err(Reject::evictable)?)
            }
            Some(AnyWish::Corrected(wish)) => {
                asked.offers.set(node, Arc::new(self.offer(cx, asked, wish, node)?));
                Ok(())
            }
        }
    }
}

impl PreScore for Yoda {
    fn pre_score(
        &self,
        cx: &Cycle<'_>,
        asked: &Asked,
        candidates: &NodeSet,
    ) -> PluginResult<PreScored<Compared>> {
        Ok(match &asked.wish {
            None => PreScored::Skip,
            Some(AnyWish::Literal(wish)) => {
                let all = cx.objects.all::<Scv>()?.map(|scv| &scv.status);
                PreScored::Continue(Compared::Literal(*wish, literal::Maxima::of(wish, all)))
            }
            Some(AnyWish::Corrected(_)) => {
                let offer = |row: NodeIdx| Some((row, asked.offers.get(cx.nodes.node(row))?));
                let offers: HashMap<_, _> = candidates.iter().filter_map(offer).collect();
                let maxima = Maxima::of(offers.values().flat_map(|offer| offer.cards.iter().copied()));
                PreScored::Continue(Compared::Corrected(offers, maxima))
            }
        })
    }
}

impl Score for Yoda {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, cx: &Cycle<'_>, compared: &Compared, node: NodeRef<'_>) -> PluginResult<i64> {
        match compared {
            Compared::Nothing => Ok(0),
            Compared::Literal(wish, maxima) => {
                let Some(scv) = cx.objects.get::<Scv>("", node.name())? else { return Ok(0) };
                let labelled = cx.index::<Ledger>()?.labelled(node.idx());
                Ok(literal::score(wish, maxima, &scv.status, labelled))
            }
            Compared::Corrected(offers, maxima) => {
                Ok(offers.get(&node.idx()).map_or(0, |offer| offer.score(maxima)))
            }
        }
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        _: &Compared,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let at: Vec<usize> = candidates.iter().map(NodeIdx::at).collect();
        spread(scores, &at);
        Ok(())
    }
}

impl Reserve for Yoda {
    type Reserved = Taken;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        asked: &Asked,
        node: NodeRef<'_>,
        _: &mut Assume,
    ) -> Result<Taken, Stop> {
        let Some(AnyWish::Corrected(wish)) = &asked.wish else { return Ok(Taken::default()) };
        let ids = self.offer(cx, asked, wish, node)?.ids;
        self.chosen().insert(&cx.pod.uid, node.idx(), ids.clone(), cx.index()?);
        Ok(Taken { ids, ..Taken::default() })
    }

    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        self.chosen().remove(&placement.pod.uid);
        let taken = placement.reserved::<Self>();
        if taken.is_some_and(|taken| taken.may_be_written.load(Ordering::Relaxed)) {
            let patch = json!({"metadata": {"uid": placement.pod.uid, "annotations": {CARDS: null}}});
            calls.push(ApiCall::patch(ObjectPath::pod(&placement.pod), patch));
        }
    }
}

impl PreBind for Yoda {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let takes_cards = placement.reserved::<Self>().is_some_and(|taken| !taken.ids.is_empty());
        Ok(if takes_cards { PreFlight::Work { parallel: true } } else { PreFlight::NothingToDo })
    }

    /// Before the binding, so that no scheduler ever finds a pod on a node without knowing its cards.
    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let Some(taken) = cx.reserved::<Self>() else { return Ok(()) };
        taken.may_be_written.store(true, Ordering::Relaxed);
        let patch = json!({"metadata": {"annotations": {CARDS: ledger::written(&taken.ids)}}});
        Ok(cx.api.patch_pod(&cx.pod, patch).await?)
    }
}

impl Yoda {
    fn asked(&self, cx: &Cycle<'_>) -> Result<Asked, Stop> {
        let labels = &cx.pod.labels;
        if self.mode == Mode::Literal {
            let wish = Some(AnyWish::Literal(literal::Wish::of(labels)));
            return Ok(Asked { wish, ..Asked::default() });
        }
        let unreadable = |bad: wish::BadLabel| Reject::unresolvable(bad.to_string());
        wish::priority(labels).map_err(unreadable)?;
        let Some(wish) = Wish::of(labels).map_err(unreadable)? else { return Ok(Asked::default()) };
        let newest = cx.objects.all::<Scv>()?.filter_map(|scv| scv.status.update_time).max();
        Ok(Asked { wish: Some(AnyWish::Corrected(wish)), newest, ..Asked::default() })
    }

    /// What the node offers for the wish, or why it does not satisfy it.
    fn offer(&self, cx: &Cycle<'_>, asked: &Asked, wish: &Wish, node: NodeRef<'_>) -> Result<Offer, Stop> {
        let Some(scv) = cx.objects.get::<Scv>("", node.name())? else {
            return Err(Reject::unresolvable(NO_GPU).into());
        };
        let age = asked.newest.zip(scv.status.update_time).map(|(newest, updated)| newest.since(updated));
        if age.is_none_or(|age| age > self.stale_after) {
            return Err(Reject::unresolvable(STALE).into());
        }
        if wish.level.is_some() && wish.level != node.labels().and_then(wish::level) {
            return Err(Reject::unresolvable(LEVEL_NOT_FIT).into());
        }
        let row = node.idx();
        let what_if = asked.what_if.get(&row);
        let ledger = cx.index::<Ledger>()?;
        let mut cards = ledger::cards(&scv.status, row, ledger, &self.chosen(), what_if, &cx.pod.uid);
        // Pods have been evicted for this one here, and what they used is measured as free with the next report only. Until
        // then it would evict more of them.
        if cx.pod.status.nominated_node_name.as_ref() == Some(node.name()) {
            cards.trust_the_ledger();
        }
        Ok(Offer::of(&cards, wish)?)
    }

    fn chosen(&self) -> MutexGuard<'_, Chosen> {
        // A panic can leave nothing half done in there.
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
