//! The original's arithmetic of 2021, reproduced exactly. `mode: literal` uses it.
//!
//! The oddities are the original's. Invalid numbers in labels are read as 0, negative numbers become huge, unsigned
//! arithmetic wraps, and the clock is compared for equality in one place and divided by the greatest bandwidth in
//! another. Where the original would crash (dividing by a total memory of zero), the score is 0.

use harbormaster::{api::Labels, prelude::PodInfo};

use crate::{
    cards::{CLOCK_NOT_FIT, MEMORY_NOT_FIT, NUMBER_NOT_FIT},
    request::{CLOCK, MEMORY, NUMBER, PRIORITY},
    score::{ACTUAL_WEIGHT, ALLOCATE_WEIGHT, WEIGHTS},
    scv::{Card, HEALTHY, ScvStatus},
};

/// A pod's requested cards, as the original reads them from the labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    number: Option<u64>,
    memory: Option<u64>,
    clock: Option<u64>,
}

impl Request {
    /// Reads a pod's labels.
    pub fn of(labels: &Labels) -> Self {
        let read = |label| labels.get(label).map(|text| number(text));
        Self { number: read(NUMBER), memory: read(MEMORY), clock: read(CLOCK) }
    }

    /// Checks whether the node passes Filter.
    ///
    /// # Errors
    /// If the node does not pass; the error is the reason.
    pub fn fits(&self, status: &ScvStatus) -> Result<(), &'static str> {
        let enough = self.number.map_or(status.card_number > 0, |number| number <= status.card_number);
        if !enough {
            return Err(NUMBER_NOT_FIT);
        }
        let wanted = self.number.unwrap_or(1);
        let count = |fits: &dyn Fn(&Card) -> bool| {
            status.card_list.iter().filter(|card| card.health == HEALTHY && fits(card)).count() as u64
        };
        if self.memory.is_some_and(|memory| count(&|card| card.free_memory >= memory) < wanted) {
            return Err(MEMORY_NOT_FIT);
        }
        if self.clock.is_some_and(|clock| count(&|card| card.clock == clock) < wanted) {
            return Err(CLOCK_NOT_FIT);
        }
        Ok(())
    }

    /// Returns the cards that are scored.
    fn cards<'a>(&'a self, status: &'a ScvStatus) -> impl Iterator<Item = &'a Card> {
        let (memory, clock) = (self.memory.unwrap_or(0), self.clock.unwrap_or(0));
        let fits = self.fits(status).is_ok();
        status.card_list.iter().filter(move |card| fits && card.free_memory >= memory && card.clock >= clock)
    }
}

/// The greatest value of each fact among the scored cards, at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Maxima([u64; 6]);

impl Maxima {
    /// Computes the maxima over all nodes that pass [`Request::fits`], including nodes that other plugins reject.
    pub fn of<'a>(request: &Request, all: impl Iterator<Item = &'a ScvStatus>) -> Self {
        let mut max = [1; 6];
        for status in all {
            for card in request.cards(status) {
                let facts = facts(card);
                max = std::array::from_fn(|at| max[at].max(facts[at]));
            }
        }
        Self(max)
    }

    fn score(&self, card: &Card) -> u64 {
        let [bandwidth, _, core, power, free, total] = self.0;
        // The second divisor, which applies to the clock, is the greatest bandwidth, as in the original.
        let divisors = [bandwidth, bandwidth, core, power, free, total];
        let weighted = facts(card).into_iter().zip(divisors).zip(WEIGHTS);
        let scores = weighted
            .map(|((fact, divisor), weight)| (fact.wrapping_mul(100) / divisor.max(1)).wrapping_mul(weight));
        scores.fold(0, u64::wrapping_add)
    }
}

fn facts(card: &Card) -> [u64; 6] {
    [card.bandwidth, card.clock, card.core, card.power, card.free_memory, card.total_memory]
}

/// Sum of pods' `scv/memory` labels, parsed and added in the same way as in the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelledMemory(u64);

impl LabelledMemory {
    /// Returns the value for one pod.
    pub fn of(pod: &PodInfo) -> Self {
        Self(pod.labels.get(MEMORY).map_or(0, |text| number(text)))
    }

    /// Adds a pod.
    pub fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Subtracts a pod.
    pub fn subtract(&mut self, other: Self) {
        self.0 = self.0.wrapping_sub(other.0);
    }
}

/// Returns the raw score of a node.
pub fn score(request: &Request, maxima: &Maxima, status: &ScvStatus, labelled: LabelledMemory) -> i64 {
    let cards = request.cards(status).map(|card| maxima.score(card)).fold(0, u64::wrapping_add);
    let total = status.total_memory_sum;
    let Some(actual) = status.free_memory_sum.wrapping_mul(100).checked_div(total) else { return 0 };
    let allocate = match total.checked_sub(labelled.0) {
        Some(left) => left.wrapping_mul(100) / total.max(1),
        None => 0,
    };
    let weighted = actual.wrapping_mul(ACTUAL_WEIGHT).wrapping_add(allocate.wrapping_mul(ALLOCATE_WEIGHT));
    cards.wrapping_add(weighted).cast_signed()
}

/// Returns the pod's queue priority, from its label alone.
pub fn priority(labels: &Labels) -> i64 {
    labels.get(PRIORITY).map_or(0, |text| number(text).cast_signed())
}

fn number(text: &str) -> u64 {
    text.parse::<i64>().unwrap_or(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use harbormaster::{api::Timestamp, testkit::labels};

    use super::*;

    fn status(cards: &[Card]) -> ScvStatus {
        ScvStatus::of(cards.to_vec(), Timestamp::default())
    }

    fn card(health: &str, free_memory: u64, clock: u64) -> Card {
        Card { health: health.to_owned(), total_memory: 16000, free_memory, clock, ..Card::default() }
    }

    #[test]
    fn the_originals_mistakes_are_reproduced() {
        let fast = card(HEALTHY, 1000, 6000);
        let roomy = card(HEALTHY, 16000, 5000);
        let dead = card("Unhealthy", 16000, 6000);
        for (why, pairs, cards, expected) in [
            (
                "a faster card is not fast enough",
                &[(CLOCK, "5500")][..],
                vec![fast.clone()],
                Err(CLOCK_NOT_FIT),
            ),
            (
                "one card has the memory, another the clock",
                &[(CLOCK, "6000"), (MEMORY, "8000")],
                vec![fast.clone(), roomy],
                Ok(()),
            ),
            ("an unhealthy card counts", &[], vec![dead.clone()], Ok(())),
            (
                "an unhealthy card does not count if memory is requested",
                &[(MEMORY, "1")],
                vec![dead],
                Err(MEMORY_NOT_FIT),
            ),
            ("a request for 0 cards fits a node without cards", &[(NUMBER, "0")], vec![], Ok(())),
            ("an unreadable value is 0", &[(MEMORY, "much")], vec![fast.clone()], Ok(())),
            ("a negative value is huge", &[(MEMORY, "-1")], vec![fast], Err(MEMORY_NOT_FIT)),
            ("a pod without a request needs a card", &[], vec![], Err(NUMBER_NOT_FIT)),
        ] {
            assert_eq!(Request::of(&labels(pairs)).fits(&status(&cards)), expected, "{why}");
        }
    }

    #[test]
    fn a_node_without_card_memory_scores_zero() {
        let request = Request::of(&labels(&[(NUMBER, "0")]));
        let maxima = Maxima::of(&request, [status(&[])].iter());
        assert_eq!(score(&request, &maxima, &status(&[]), LabelledMemory::default()), 0);
    }
}
