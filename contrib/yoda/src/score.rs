//! Scores of cards and nodes. The weights are the original's.

use crate::{
    cards::{CardUsage, Cards},
    request::Request,
};
use harbormaster::prelude::Reject;

/// Bandwidth, clock, core, power, free memory and total memory of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts([u64; 6]);

/// Weight of each of the [`Facts`].
pub const WEIGHTS: [u64; 6] = [1, 1, 1, 1, 2, 1];
/// Weight of the share of memory that is measured as free.
pub const ACTUAL_WEIGHT: u64 = 2;
/// Weight of the share of memory that no pod holds.
pub const ALLOCATE_WEIGHT: u64 = 3;

impl Facts {
    /// Returns the facts of a card, with [`CardUsage::free`] as its free memory.
    pub fn of(usage: &CardUsage<'_>) -> Self {
        let card = usage.card();
        Self([card.bandwidth, card.clock, card.core, card.power, usage.free(), card.total_memory])
    }
}

/// The greatest value of each fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maxima([u64; 6]);

impl Default for Maxima {
    /// Returns 1 for every fact, which is a safe divisor.
    fn default() -> Self {
        Self([1; 6])
    }
}

impl Maxima {
    /// Returns the maxima of the given cards.
    pub fn of(cards: impl IntoIterator<Item = Facts>) -> Self {
        cards.into_iter().fold(Self::default(), |Self(max), Facts(facts)| {
            Self(std::array::from_fn(|at| max[at].max(facts[at])))
        })
    }

    /// Returns a card's score, 0 to 700: the weighted sum of the facts, each as a percentage of its maximum.
    pub fn score(&self, Facts(facts): &Facts) -> u64 {
        let weighted = facts.iter().zip(&self.0).zip(&WEIGHTS);
        weighted.map(|((fact, max), weight)| percent(*fact, *max) * weight).sum()
    }
}

/// The cards that a node offers a pod.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Facts of the cards that the pod would get.
    pub cards: Vec<Facts>,
    /// IDs of the cards that the pod would get, best first.
    pub ids: Vec<u32>,
    /// Percentage of the healthy cards' memory that is measured as free.
    actual: u64,
    /// Percentage of the healthy cards' memory that no pod holds.
    allocate: u64,
}

impl Offer {
    /// Chooses cards for the request.
    ///
    /// # Errors
    /// If the cards do not satisfy the request; the error is the reason.
    pub fn of(cards: &Cards<'_>, request: &Request) -> Result<Self, Reject> {
        let chosen = cards.choose(request)?;
        let (mut free, mut not_held, mut total) = (0u64, 0u64, 0u64);
        for usage in cards.healthy() {
            free = free.saturating_add(usage.free());
            not_held = not_held.saturating_add(usage.not_held());
            total = total.saturating_add(usage.card().total_memory);
        }
        Ok(Self {
            cards: chosen.iter().map(|usage| Facts::of(usage)).collect(),
            ids: chosen.iter().map(|usage| usage.card().id).collect(),
            actual: percent(free, total),
            allocate: percent(not_held, total),
        })
    }

    /// Returns the node's raw score, 0 to 1200: the mean score of the pod's cards plus the weighted shares of free
    /// memory.
    pub fn score(&self, maxima: &Maxima) -> i64 {
        let cards: u64 = self.cards.iter().map(|facts| maxima.score(facts)).sum();
        let mean = cards / (self.cards.len() as u64).max(1);
        let score = mean + self.actual * ACTUAL_WEIGHT + self.allocate * ALLOCATE_WEIGHT;
        i64::try_from(score).unwrap_or(i64::MAX)
    }
}

/// Returns `part` as a whole percentage of `of`, at most 100.
fn percent(part: u64, of: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(of.max(1));
    u64::try_from(percent).map_or(100, |percent| percent.min(100))
}

/// Scales the scores at the positions `at` so that the best becomes 100 and the worst 0. If all of them are equal, they
/// become 100.
pub fn spread(scores: &mut [i64], at: &[usize]) {
    let among = || at.iter().map(|at| scores[*at]);
    let (Some(low), Some(high)) = (among().min(), among().max()) else { return };
    let span = i128::from(high) - i128::from(low);
    for at in at {
        let above = i128::from(scores[*at]) - i128::from(low);
        scores[*at] = if span == 0 { 100 } else { (above * 100 / span) as i64 };
    }
}
