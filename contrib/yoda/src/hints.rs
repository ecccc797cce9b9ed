//! Queueing hints of `yoda`. These events wake a rejected pod:
//!
//! - In a new or changed Scv object, enough cards satisfy the request, and one of them did not satisfy it before or has
//!   become larger.
//! - An Scv object that may have been stale is updated, and enough of its cards satisfy the request.
//! - The update time of an Scv object moves back, or the object is deleted (other reports may have been stale only
//!   relative to this object).
//! - A pod with cards leaves its node or changes its request.
//! - The labels of the waiting pod itself change.
//! - A node joins with the requested level, if any, or gains it.

use std::time::Duration;

use harbormaster::prelude::*;

use crate::{
    args::Mode,
    cards::satisfies,
    ledger::Holding,
    plugin::Yoda,
    request::{self, Request},
    scv::{Scv, ScvStatus},
};

/// Returns the registrations, or `None` with `mode: literal`: the original has none, so every event wakes the pods that
/// the plugin rejected.
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
    let Ok(Some(request)) = Request::of(&pod.labels) else { return Ok(Hint::Skip) };
    let Some(new) = scv.new else { return Ok(Hint::Queue) };
    queue_if(newly_satisfied(&request, scv.old.map(|old| &old.status), &new.status, yoda.stale_after))
}

/// Returns true if the node may satisfy the request now, but did not before.
fn newly_satisfied(
    request: &Request,
    old: Option<&ScvStatus>,
    new: &ScvStatus,
    stale_after: Duration,
) -> bool {
    let clock_put_back = old.is_some_and(|old| old.update_time > new.update_time);
    let satisfying = || new.card_list.iter().filter(|card| satisfies(card, request));
    if clock_put_back {
        return true;
    }
    if satisfying().count() < request.number as usize {
        return false;
    }
    let Some(old) = old else { return true };
    let gap = old.update_time.zip(new.update_time).map(|(old, new)| new.since(old));
    // The gap is compared with half the limit, since the newest report of any node may be ahead of this report.
    if gap.is_none_or(|gap| gap > stale_after / 2) {
        return true;
    }
    satisfying().any(|card| {
        let before = old.card_list.iter().find(|before| before.id == card.id);
        before.is_none_or(|before| !satisfies(before, request) || before.total_memory < card.total_memory)
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
    let Ok(Some(request)) = Request::of(&pod.labels) else { return Ok(Hint::Skip) };
    let has_level = request.level.is_none_or(|level| request::level(&new.labels) == Some(level));
    let had_level =
        old.is_some_and(|old| request.level.is_none_or(|level| request::level(&old.labels) == Some(level)));
    queue_if(has_level && !had_level)
}
