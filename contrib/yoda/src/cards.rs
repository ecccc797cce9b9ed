//! The cards of one node: what is left of them, and which ones a pod gets.

use harbormaster::prelude::Reject;

use crate::{
    score::{Facts, Maxima},
    scv::{Card, ScvStatus},
    wish::Wish,
};

/// The node has not the wanted level.
pub const LEVEL_NOT_FIT: &str = "GPU Level Not Fit";
/// Too few cards have that much memory.
pub const MEMORY_NOT_FIT: &str = "GPU Memory Not Fit";
/// There are too few cards.
pub const NUMBER_NOT_FIT: &str = "GPU Number Not Fit";
/// Too few cards are that fast.
pub const CLOCK_NOT_FIT: &str = "GPU Clock Not Fit";
/// No sniffer has reported cards.
pub const NO_GPU: &str = "No GPU";
/// The sniffer's report is too old to be believed.
pub const STALE: &str = "GPU Report Stale";

/// A card, and what pods have taken of it.
#[derive(Clone, Debug)]
pub struct Tally<'a> {
    card: &'a Card,
    /// MiB that nobody used when it was measured, but for what has been given back since.
    measured: u64,
    /// MiB that pods hold who share the card.
    held: u64,
    /// Some pod has the card to itself.
    whole: bool,
}

impl<'a> Tally<'a> {
    /// MiB that a pod may have: the sniffer and the ledger must agree on it, so that what a pod holds and uses is not
    /// counted twice.
    pub fn free(&self) -> u64 {
        match self.whole {
            true => 0,
            false => self.measured.min(self.card.total_memory.saturating_sub(self.held)),
        }
    }

    /// MiB that no pod holds.
    pub fn not_held(&self) -> u64 {
        if self.whole { 0 } else { self.card.total_memory.saturating_sub(self.held) }
    }

    /// The card itself.
    pub fn card(&self) -> &'a Card {
        self.card
    }

    /// Whether the card has room for one that asks for that much; for all of it, if it does not say.
    fn has_room(&self, memory: Option<u64>) -> bool {
        match memory {
            Some(memory) => self.free() >= memory,
            // A few MiB are always in use, so a card need not be empty. One without any left is somebody's.
            None => !self.whole && self.held == 0 && self.free() > 0,
        }
    }

    /// MiB in use that no pod of the ledger explains.
    fn unexplained(&self) -> u64 {
        self.not_held().saturating_sub(self.measured)
    }
}

/// The cards of a node with what pods hold of them.
#[derive(Clone, Debug)]
pub struct Cards<'a>(Vec<Tally<'a>>);

impl<'a> Cards<'a> {
    /// Nobody holds anything.
    pub fn of(status: &'a ScvStatus) -> Self {
        let tally = |card: &'a Card| {
            let measured = card.free_memory.min(card.total_memory);
            Tally { card, measured, held: 0, whole: false }
        };
        Self(status.card_list.iter().map(tally).collect())
    }

    /// A pod holds the cards of these ids: that much of each, or all of them. Ids that the node does not have (a card
    /// that was pulled out) hold nothing.
    pub fn take(&mut self, ids: &[u32], memory: Option<u64>) {
        for tally in self.0.iter_mut().filter(|tally| ids.contains(&tally.card.id)) {
            take(tally, memory);
        }
    }

    /// A pod holds that many cards, and nobody knows which: those that have room for it, those first on which most
    /// memory is in use that no pod explains. So a pod that runs is found where it runs, and counted once.
    pub fn take_unknown(&mut self, number: u32, memory: Option<u64>) {
        let mut likely: Vec<&mut Tally<'_>> = self.0.iter_mut().collect();
        likely.sort_by_key(|tally| {
            (!tally.has_room(memory), tally.whole, std::cmp::Reverse(tally.unexplained()), tally.card.id)
        });
        for tally in likely.into_iter().take(number as usize) {
            take(tally, memory);
        }
    }

    /// A pod is thought away that held the cards of these ids. What it used was measured, so that comes back.
    pub fn give_back(&mut self, ids: &[u32], memory: Option<u64>) {
        for tally in self.0.iter_mut().filter(|tally| ids.contains(&tally.card.id)) {
            let more = tally.measured.saturating_add(memory.unwrap_or(u64::MAX));
            tally.measured = more.min(tally.card.total_memory);
        }
    }

    /// Whatever was measured as used and is held by no pod is about to be free.
    pub fn trust_the_ledger(&mut self) {
        for tally in &mut self.0 {
            tally.measured = tally.card.total_memory;
        }
    }

    /// The best cards that satisfy the wish, as many as it says, best first. Cards of one node are compared with each
    /// other alone, so that the choice is the same whichever other nodes are looked at.
    ///
    /// # Errors
    /// Why there are too few; evicting pods may help if the installed cards would do.
    pub fn choose(&self, wish: &Wish) -> Result<Vec<&Tally<'a>>, Reject> {
        let number = wish.number as usize;
        let mut fitting: Vec<&Tally<'a>> = self.0.iter().collect();
        let mut keep = |fits: &dyn Fn(&Tally<'_>) -> bool, lack: Reject| {
            fitting.retain(|tally| fits(tally));
            if fitting.len() < number { Err(lack) } else { Ok(()) }
        };
        keep(&|t| t.card.is_healthy(), Reject::unresolvable(NUMBER_NOT_FIT))?;
        keep(&|t| wish.clock.is_none_or(|clock| t.card.clock >= clock), Reject::unresolvable(CLOCK_NOT_FIT))?;
        let memory = wish.memory.unwrap_or(0);
        keep(&|t| t.card.total_memory >= memory, Reject::unresolvable(MEMORY_NOT_FIT))?;
        let lack = if wish.memory.is_some() { MEMORY_NOT_FIT } else { NUMBER_NOT_FIT };
        keep(&|t| t.has_room(wish.memory), Reject::evictable(lack))?;
        let maxima = Maxima::of(fitting.iter().map(|tally| Facts::of(tally)));
        fitting.sort_by_key(|t| (std::cmp::Reverse(maxima.score(&Facts::of(t))), t.card.id));
        fitting.truncate(number);
        Ok(fitting)
    }

    /// The healthy ones.
    pub fn healthy(&self) -> impl Iterator<Item = &Tally<'a>> {
        self.0.iter().filter(|tally| tally.card.is_healthy())
    }
}

fn take(tally: &mut Tally<'_>, memory: Option<u64>) {
    match memory {
        Some(memory) => tally.held = tally.held.saturating_add(memory),
        None => tally.whole = true,
    }
}

/// Whether the card satisfies the wish as long as no pod holds anything of it.
pub fn satisfies(card: &Card, wish: &Wish) -> bool {
    let free = card.free_memory.min(card.total_memory);
    let room = wish.memory.map_or(free > 0, |memory| free >= memory);
    card.is_healthy() && wish.clock.is_none_or(|clock| card.clock >= clock) && room
}
