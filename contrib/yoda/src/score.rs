//! What cards and nodes are worth to a pod that fits. The weights are the original's.

use crate::{
    cards::{Cards, Tally},
    wish::Wish,
};
use harbormaster::prelude::Reject;

/// Bandwidth, clock, core, power, free memory and total memory of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts([u64; 6]);

/// What each of [`Facts`] counts.
pub const WEIGHTS: [u64; 6] = [1, 1, 1, 1, 2, 1];
/// What the share of memory counts that is free as measured.
pub const ACTUAL_WEIGHT: u64 = 2;
/// What the share of memory counts that no pod holds.
pub const ALLOCATE_WEIGHT: u64 = 3;

impl Facts {
    /// Of a card, with what pods have left of it.
    pub fn of(tally: &Tally<'_>) -> Self {
        let card = tally.card();
        Self([card.bandwidth, card.clock, card.core, card.power, tally.free(), card.total_memory])
    }
}

/// The greatest of each fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxima([u64; 6]);

impl Default for Maxima {
    /// Nothing is divided by zero.
    fn default() -> Self {
        Self([1; 6])
    }
}

impl Maxima {
    /// Of these cards.
    pub fn of(cards: impl IntoIterator<Item = Facts>) -> Self {
        cards.into_iter().fold(Self::default(), |Self(max), Facts(facts)| {
            Self(std::array::from_fn(|at| max[at].max(facts[at])))
        })
    }

    /// The score of one of these cards, 0 to 700: what percentage of the greatest each fact is, by weight.
    pub fn score(&self, Facts(facts): &Facts) -> u64 {
        let weighted = facts.iter().zip(&self.0).zip(&WEIGHTS);
        weighted.map(|((fact, max), weight)| percent(*fact, *max) * weight).sum()
    }
}

/// What a node offers a pod.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The cards that the pod would get.
    pub cards: Vec<Facts>,
    /// Their ids, best first.
    pub ids: Vec<u32>,
    /// Percentage of the memory of healthy cards that is free as measured.
    actual: u64,
    /// Percentage of it that no pod holds.
    allocate: u64,
}

impl Offer {
    /// What these cards offer.
    ///
    /// # Errors
    /// Why they do not satisfy the wish.
    pub fn of(cards: &Cards<'_>, wish: &Wish) -> Result<Self, Reject> {
        let chosen = cards.choose(wish)?;
        let (mut free, mut not_held, mut total) = (0u64, 0u64, 0u64);
        for tally in cards.healthy() {
            free = free.saturating_add(tally.free());
            not_held = not_held.saturating_add(tally.not_held());
            total = total.saturating_add(tally.card().total_memory);
        }
        Ok(Self {
            cards: chosen.iter().map(|tally| Facts::of(tally)).collect(),
            ids: chosen.iter().map(|tally| tally.card().id).collect(),
            actual: percent(free, total),
            allocate: percent(not_held, total),
        })
    }

    /// The node's raw score, 0 to 1200: the mean of the cards that the pod would get, and how free the node is.
    pub fn score(&self, maxima: &Maxima) -> i64 {
        let cards: u64 = self.cards.iter().map(|facts| maxima.score(facts)).sum();
        let mean = cards / (self.cards.len() as u64).max(1);
        let score = mean + self.actual * ACTUAL_WEIGHT + self.allocate * ALLOCATE_WEIGHT;
        i64::try_from(score).unwrap_or(i64::MAX)
    }
}

/// Whole percent of `of` that `part` is, at most 100.
fn percent(part: u64, of: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(of.max(1));
    u64::try_from(percent).map_or(100, |percent| percent.min(100))
}

/// The best becomes 100 and the worst 0; all become 100 if they are the same.
pub fn spread(scores: &mut [i64], at: &[usize]) {
    let among = || at.iter().map(|at| scores[*at]);
    let (Some(low), Some(high)) = (among().min(), among().max()) else { return };
    let span = i128::from(high) - i128::from(low);
    for at in at {
        let above = i128::from(scores[*at]) - i128::from(low);
        scores[*at] = if span == 0 { 100 } else { (above * 100 / span) as i64 };
    }
}
