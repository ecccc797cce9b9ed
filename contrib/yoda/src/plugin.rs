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
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harbormaster::{api::Timestamp, prelude::*};

use crate::{
    args::{Args, Mode},
    cards::{LEVEL_NOT_FIT, NO_GPU, STALE},
    hints,
    ledger::{self, Chosen, Ledger, WhatIf},
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
    Corrected(HashMap<NodeIdx, Offer>, Maxima),
}

impl Plugin for Yoda {
    const NAME: &'static str = "yoda";
    type FilterState = Asked;
    type ScoreState = Compared;

    fn points(points: &mut Points<Self>) {
        points.queue_sort().pre_filter().filter().pre_score().score().indexed().resource::<Scv>();
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
            Some(AnyWish::Corrected(wish)) => self.offer(cx, asked, wish, node).map(drop),
        }
    }
}

impl PreScore for Yoda {
    fn pre_score(&self, cx: &Cycle<'_>, candidates: &NodeSet) -> PluginResult<PreScored<Compared>> {
        let Ok(asked) = self.asked(cx) else { return Ok(PreScored::Skip) };
        match &asked.wish {
            None => Ok(PreScored::Skip),
            Some(AnyWish::Literal(wish)) => {
                let all = cx.objects.all::<Scv>()?.map(|scv| &scv.status);
                let maxima = literal::Maxima::of(wish, all);
                Ok(PreScored::Continue(Compared::Literal(*wish, maxima)))
            }
            Some(AnyWish::Corrected(wish)) => {
                let mut offers = HashMap::new();
                for row in candidates {
                    if let Ok(offer) = self.offer(cx, &asked, wish, cx.nodes.node(row)) {
                        offers.insert(row, offer);
                    }
                }
                let maxima = Maxima::of(offers.values().flat_map(|offer| offer.cards.iter().copied()));
                Ok(PreScored::Continue(Compared::Corrected(offers, maxima)))
            }
        }
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
        Ok(Asked { wish: Some(AnyWish::Corrected(wish)), newest, what_if: BTreeMap::new() })
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
        let cards = ledger::cards(&scv.status, row, ledger, &self.chosen(), what_if, &cx.pod.uid);
        Ok(Offer::of(&cards, wish)?)
    }

    fn chosen(&self) -> MutexGuard<'_, Chosen> {
        // A panic can leave nothing half done in there.
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
