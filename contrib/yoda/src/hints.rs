//! What wakes a pod that `yoda` has rejected.
//!
//! - An Scv object that changed to its favour: one more of its cards satisfies the wish, or is larger; it reports again
//!   after it was stale; its clock is put back or it goes, as others may have been stale only by comparison.
//! - A pod with cards that leaves its node, or asks for others than before; and a change of the pod's own labels.
//! - A node that joins, or gets the wanted level.

use std::time::Duration;

use harbormaster::prelude::*;

use crate::{
    args::Mode,
    cards::satisfies,
    ledger::Holding,
    plugin::Yoda,
    scv::{Scv, ScvStatus},
    wish::{self, Wish},
};

/// The original registers nothing, so everything wakes its pods.
pub(crate) fn events(yoda: &Yoda) -> Option<Vec<Registration<Yoda>>> {
    let any = Action::ADD | Action::UPDATE | Action::DELETE;
    let pods = Action::DELETE | Action::UPDATE_POD_LABEL;
    let nodes = Action::ADD | Action::UPDATE_NODE_LABEL;
    (yoda.mode == Mode::Corrected).then(|| {
        vec![
            Registration::on::<Scv>(any, after_scv),
            Registration::hinted(EventResource::Pod, pods, after_pod),
            Registration::hinted(EventResource::Node, nodes, after_node),
        ]
    })
}

fn queue_if(helps: bool) -> PluginResult<Hint> {
    Ok(if helps { Hint::Queue } else { Hint::Skip })
}

fn after_scv(yoda: &Yoda, pod: &PodInfo, scv: Changed<'_, Scv>) -> PluginResult<Hint> {
    let Ok(Some(wish)) = Wish::of(&pod.labels) else { return Ok(Hint::Skip) };
    let Some(new) = scv.new else { return Ok(Hint::Queue) };
    queue_if(favours(&wish, scv.old.map(|old| &old.status), &new.status, yoda.stale_after))
}

/// Whether a node may satisfy the wish now, where it did not before.
fn favours(wish: &Wish, old: Option<&ScvStatus>, new: &ScvStatus, stale_after: Duration) -> bool {
    let clock_put_back = old.is_some_and(|old| old.update_time > new.update_time);
    let satisfying = || new.card_list.iter().filter(|card| satisfies(card, wish));
    if clock_put_back {
        return true;
    }
    if satisfying().count() < wish.number as usize {
        return false;
    }
    let Some(old) = old else { return true };
    let gap = old.update_time.zip(new.update_time).map(|(old, new)| new.since(old));
    // Half the limit, as the newest report of all may have been ahead of this one.
    if gap.is_none_or(|gap| gap > stale_after / 2) {
        return true;
    }
    satisfying().any(|card| {
        let before = old.card_list.iter().find(|before| before.id == card.id);
        before.is_none_or(|before| !satisfies(before, wish) || before.total_memory < card.total_memory)
    })
}

fn after_pod(_: &Yoda, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Pod { old, new } = change else { return Ok(Hint::Queue) };
    let helps = match (old, new) {
        (_, Some(new)) if new.uid == pod.uid => true,
        (Some(old), None) => old.node_name.is_some() && Holding::of(old).is_some(),
        (Some(old), Some(new)) => {
            new.node_name.is_some() && Holding::of(old).is_some() && old.labels != new.labels
        }
        (None, _) => false,
    };
    queue_if(helps)
}

fn after_node(_: &Yoda, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
    let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
    let Ok(Some(wish)) = Wish::of(&pod.labels) else { return Ok(Hint::Skip) };
    let has_level = wish.level.is_none_or(|level| wish::level(&new.labels) == Some(level));
    let had_level =
        old.is_some_and(|old| wish.level.is_none_or(|level| wish::level(&old.labels) == Some(level)));
    queue_if(has_level && !had_level)
}
