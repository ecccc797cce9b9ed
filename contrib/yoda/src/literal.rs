//! The original's arithmetic of 2021, to the number: what `mode: literal` decides by.
//!
//! What is odd here is odd there. Numbers of labels that cannot be read are 0, negative ones are huge, unsigned numbers
//! wrap, the clock is compared for equality in one place and divided by the greatest bandwidth in another. Where the
//! original would crash (dividing by zero memory) the score is 0.

use harbormaster::{api::Labels, prelude::PodInfo};

use crate::{
    cards::{CLOCK_NOT_FIT, MEMORY_NOT_FIT, NUMBER_NOT_FIT},
    score::{ACTUAL_WEIGHT, ALLOCATE_WEIGHT, WEIGHTS},
    scv::{Card, HEALTHY, ScvStatus},
    wish::{CLOCK, MEMORY, NUMBER, PRIORITY},
};

/// What the labels of a pod say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    number: Option<u64>,
    memory: Option<u64>,
    clock: Option<u64>,
}

impl Wish {
    /// Every pod has one.
    pub fn of(labels: &Labels) -> Self {
        let read = |label| labels.get(label).map(|text| number(text));
        Self { number: read(NUMBER), memory: read(MEMORY), clock: read(CLOCK) }
    }

    /// Whether the node passes Filter.
    ///
    /// # Errors
    /// What it lacks.
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

    /// The cards that are scored.
    fn cards<'a>(&'a self, status: &'a ScvStatus) -> impl Iterator<Item = &'a Card> {
        let (memory, clock) = (self.memory.unwrap_or(0), self.clock.unwrap_or(0));
        let fits = self.fits(status).is_ok();
        status.card_list.iter().filter(move |card| fits && card.free_memory >= memory && card.clock >= clock)
    }
}

/// The greatest of each fact among the cards that are scored.
#[derive(Clone, Copy, Debug)]
pub struct Maxima([u64; 6]);

impl Maxima {
    /// Of all nodes, whether the pod may go there or not.
    pub fn of<'a>(wish: &Wish, all: impl Iterator<Item = &'a ScvStatus>) -> Self {
        let mut max = [1; 6];
        for status in all {
            for card in wish.cards(status) {
                let facts = facts(card);
                max = std::array::from_fn(|at| max[at].max(facts[at]));
            }
        }
        Self(max)
    }

    fn score(&self, card: &Card) -> u64 {
        let [bandwidth, _, core, power, free, total] = self.0;
        // The second is the clock's.
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

/// The sum of the `scv/memory` of pods, as the original reads and adds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Labelled(u64);

impl Labelled {
    /// Of one pod.
    pub fn of(pod: &PodInfo) -> Self {
        Self(pod.labels.get(MEMORY).map_or(0, |text| number(text)))
    }

    /// One pod more.
    pub fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// One pod less.
    pub fn subtract(&mut self, other: Self) {
        self.0 = self.0.wrapping_sub(other.0);
    }
}

/// The raw score of a node.
pub fn score(wish: &Wish, maxima: &Maxima, status: &ScvStatus, labelled: Labelled) -> i64 {
    let cards = wish.cards(status).map(|card| maxima.score(card)).fold(0, u64::wrapping_add);
    let total = status.total_memory_sum;
    let Some(actual) = status.free_memory_sum.wrapping_mul(100).checked_div(total) else { return 0 };
    let allocate = match total.checked_sub(labelled.0) {
        Some(left) => left.wrapping_mul(100) / total.max(1),
        None => 0,
    };
    let weighted = actual.wrapping_mul(ACTUAL_WEIGHT).wrapping_add(allocate.wrapping_mul(ALLOCATE_WEIGHT));
    cards.wrapping_add(weighted).cast_signed()
}

/// The pod's place in the queue, by its label alone.
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
    fn the_originals_mistakes_are_kept() {
        let fast = card(HEALTHY, 1000, 6000);
        let roomy = card(HEALTHY, 16000, 5000);
        let dead = card("Unhealthy", 16000, 6000);
        for (why, pairs, cards, expected) in [
            (
                "bug 2: a faster card is not fast enough",
                &[(CLOCK, "5500")][..],
                vec![fast.clone()],
                Err(CLOCK_NOT_FIT),
            ),
            (
                "bug 3: one card has the memory, another the clock",
                &[(CLOCK, "6000"), (MEMORY, "8000")],
                vec![fast.clone(), roomy],
                Ok(()),
            ),
            ("bug 4: a dead card is a card", &[], vec![dead.clone()], Ok(())),
            ("a dead card has no memory, though", &[(MEMORY, "1")], vec![dead], Err(MEMORY_NOT_FIT)),
            ("bug 8: no card is enough for none", &[(NUMBER, "0")], vec![], Ok(())),
            ("bug 9: what cannot be read is 0", &[(MEMORY, "much")], vec![fast.clone()], Ok(())),
            ("bug 9: less than nothing is very much", &[(MEMORY, "-1")], vec![fast], Err(MEMORY_NOT_FIT)),
            ("bug 10: a pod that wants nothing wants a card", &[], vec![], Err(NUMBER_NOT_FIT)),
        ] {
            assert_eq!(Wish::of(&labels(pairs)).fits(&status(&cards)), expected, "{why}");
        }
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let wish = Wish::of(&labels(&[(NUMBER, "0")]));
        let maxima = Maxima::of(&wish, [status(&[])].iter());
        assert_eq!(score(&wish, &maxima, &status(&[]), Labelled::default()), 0);
    }
}
