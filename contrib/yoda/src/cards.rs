//! The cards of one node: their free memory, and the choice of cards for a pod.

use harbormaster::prelude::Reject;

use crate::{
    request::Request,
    score::{Facts, Maxima},
    scv::{Card, ScvStatus},
};

/// The node's level differs from the requested one.
pub const LEVEL_NOT_FIT: &str = "GPU Level Not Fit";
/// Too few cards have enough memory.
pub const MEMORY_NOT_FIT: &str = "GPU Memory Not Fit";
/// The node has too few cards, or too few of its cards are healthy or free.
pub const NUMBER_NOT_FIT: &str = "GPU Number Not Fit";
/// Too few cards are fast enough.
pub const CLOCK_NOT_FIT: &str = "GPU Clock Not Fit";
/// No sniffer has reported cards for the node.
pub const NO_GPU: &str = "No GPU";
/// The sniffer's report is too old.
pub const STALE: &str = "GPU Report Stale";

/// A card and the memory that pods hold on it.
#[derive(Clone, Debug)]
pub struct CardUsage<'a> {
    card: &'a Card,
    /// Free memory in MiB, as measured by the sniffer, plus the memory of pods that a what-if question removes. The
    /// total memory if only the ledger decides.
    measured: u64,
    /// Memory in MiB held by pods that share the card.
    held: u64,
    /// True if a pod holds the whole card.
    whole: bool,
}

impl<'a> CardUsage<'a> {
    /// Returns the memory in MiB that a pod can get: the smaller of the free memory that the sniffer measured and the
    /// memory that the ledger leaves free. Memory that a pod both holds and uses is therefore counted once.
    pub fn free(&self) -> u64 {
        match self.whole {
            true => 0,
            false => self.measured.min(self.card.total_memory.saturating_sub(self.held)),
        }
    }

    /// Returns the memory in MiB that no pod holds.
    pub fn not_held(&self) -> u64 {
        if self.whole { 0 } else { self.card.total_memory.saturating_sub(self.held) }
    }

    /// Returns the card.
    pub fn card(&self) -> &'a Card {
        self.card
    }

    /// Returns true if a pod that requests this much memory (or the whole card if `None`) fits on the card.
    fn has_room(&self, memory: Option<u64>) -> bool {
        match memory {
            Some(memory) => self.free() >= memory,
            // Drivers use a few MiB even on a free card. A card without free memory is in use.
            None => !self.whole && self.held == 0 && self.free() > 0,
        }
    }

    /// Returns the memory in MiB that is in use but not held by any pod in the ledger.
    fn unexplained(&self) -> u64 {
        self.not_held().saturating_sub(self.measured)
    }
}

/// The cards of a node and what pods hold on them.
#[derive(Clone, Debug)]
pub struct Cards<'a>(Vec<CardUsage<'a>>);

impl<'a> Cards<'a> {
    /// Returns the cards in a report, none of them held by a pod.
    pub fn of(status: &'a ScvStatus) -> Self {
        let usage = |card: &'a Card| {
            let measured = card.free_memory.min(card.total_memory);
            CardUsage { card, measured, held: 0, whole: false }
        };
        Self(status.card_list.iter().map(usage).collect())
    }

    /// Records that a pod holds the cards with these IDs: `memory` MiB of each, or the whole cards if `None`. IDs that
    /// the node does not have, such as removed cards, are ignored.
    pub fn take(&mut self, ids: &[u32], memory: Option<u64>) {
        for usage in self.0.iter_mut().filter(|usage| ids.contains(&usage.card.id)) {
            take(usage, memory);
        }
    }

    /// Records that a pod holds `number` unknown cards. Prefers cards on which the pod fits, and among them cards with
    /// the most unexplained memory in use, so that a running pod is attributed to its own cards and counted once.
    pub fn take_unknown(&mut self, number: u32, memory: Option<u64>) {
        let mut likely: Vec<&mut CardUsage<'_>> = self.0.iter_mut().collect();
        likely.sort_by_key(|usage| {
            (!usage.has_room(memory), usage.whole, std::cmp::Reverse(usage.unexplained()), usage.card.id)
        });
        for usage in likely.into_iter().take(number as usize) {
            take(usage, memory);
        }
    }

    /// Adds the memory of a removed pod, which held the cards with these IDs, to the measured free memory.
    pub fn give_back(&mut self, ids: &[u32], memory: Option<u64>) {
        for usage in self.0.iter_mut().filter(|usage| ids.contains(&usage.card.id)) {
            let more = usage.measured.saturating_add(memory.unwrap_or(u64::MAX));
            usage.measured = more.min(usage.card.total_memory);
        }
    }

    /// Treats memory that no pod holds as free, whatever the sniffer measured.
    pub fn trust_the_ledger(&mut self) {
        for usage in &mut self.0 {
            usage.measured = usage.card.total_memory;
        }
    }

    /// Returns the best `request.number` cards that satisfy the request, best first. Compares only the cards of this
    /// node, so the choice does not depend on other nodes.
    ///
    /// # Errors
    /// If too few cards satisfy the request. Evicting pods may help if enough cards would satisfy the request when
    /// empty.
    pub fn choose(&self, request: &Request) -> Result<Vec<&CardUsage<'a>>, Reject> {
        let number = request.number as usize;
        let mut fitting: Vec<&CardUsage<'a>> = self.0.iter().collect();
        let mut keep = |fits: &dyn Fn(&CardUsage<'_>) -> bool, lack: Reject| {
            fitting.retain(|usage| fits(usage));
            if fitting.len() < number { Err(lack) } else { Ok(()) }
        };
        keep(&|t| t.card.is_healthy(), Reject::unresolvable(NUMBER_NOT_FIT))?;
        keep(
            &|t| request.clock.is_none_or(|clock| t.card.clock >= clock),
            Reject::unresolvable(CLOCK_NOT_FIT),
        )?;
        let memory = request.memory.unwrap_or(0);
        keep(&|t| t.card.total_memory >= memory, Reject::unresolvable(MEMORY_NOT_FIT))?;
        let lack = if request.memory.is_some() { MEMORY_NOT_FIT } else { NUMBER_NOT_FIT };
        keep(&|t| t.has_room(request.memory), Reject::evictable(lack))?;
        let maxima = Maxima::of(fitting.iter().map(|usage| Facts::of(usage)));
        fitting.sort_by_key(|t| (std::cmp::Reverse(maxima.score(&Facts::of(t))), t.card.id));
        fitting.truncate(number);
        Ok(fitting)
    }

    /// Returns the healthy cards.
    pub fn healthy(&self) -> impl Iterator<Item = &CardUsage<'a>> {
        self.0.iter().filter(|usage| usage.card.is_healthy())
    }
}

fn take(usage: &mut CardUsage<'_>, memory: Option<u64>) {
    match memory {
        Some(memory) => usage.held = usage.held.saturating_add(memory),
        None => usage.whole = true,
    }
}

/// Returns true if the card satisfies the request, disregarding what pods hold.
pub fn satisfies(card: &Card, request: &Request) -> bool {
    let free = card.free_memory.min(card.total_memory);
    let room = request.memory.map_or(free > 0, |memory| free >= memory);
    card.is_healthy() && request.clock.is_none_or(|clock| card.clock >= clock) && room
}
