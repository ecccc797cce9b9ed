//! Placements of a group: its members are tried in each of them, on the same table, and get nodes in the best one.
//!
//! All members that are placed in one cycle are in one placement. What a trial has changed is undone before the next
//! one, last in first out. The nodes that the members got in the best trial are then occupied once more.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, Decision},
    group::{Assignment, GroupCycle, GroupPlacement, GroupView, ProposedPlacement, ScheduledMember},
    guard::Stopped,
    meter::{Stage, Status},
    pod::PodInfo,
    profile::Profile,
};

use super::{
    Engine,
    group_cycle::{Failed, GroupFailure, REJECTED, Trial},
};
use crate::queue::{QueuedGroup, QueuedPod};

/// A placement in which enough members found nodes. They occupy none of them.
struct Candidate {
    placement: GroupPlacement,
    /// The members that found nodes, with the attempts that found them.
    found: Vec<(QueuedPod, Attempt)>,
    rejected: Vec<Failed>,
    is_local: bool,
}

impl Candidate {
    fn assignments(&self) -> Vec<Assignment> {
        let assignment = |(entry, attempt): &(QueuedPod, Attempt)| match attempt.decision() {
            Decision::Node { row, .. } => Some(Assignment { pod: entry.pod.clone(), row: *row }),
            Decision::Unschedulable(_) => None,
        };
        self.found.iter().filter_map(assignment).collect()
    }
}

impl Engine {
    /// Gives nodes to members of a group: within one placement if the profile has placements, and else anywhere.
    pub(super) fn place_group(
        &mut self,
        group: &QueuedGroup,
        members: Vec<QueuedPod>,
        trial: &mut Trial,
        now: Timestamp,
    ) -> Result<(), GroupFailure> {
        let profile = self.finder.profile(group.standing.profile).clone();
        if !profile.has_placements() {
            self.place_members(group, members, None, trial, now)?;
        } else {
            let placed = match self.generate_placements(&profile, group, &members) {
                Ok(placements) => {
                    if let Some(meter) = &self.meter {
                        meter.placements_generated(group.standing.profile, placements.len());
                    }
                    self.place_in_best(&profile, group, members, placements, trial, now)
                }
                Err(failure) => {
                    trial.untried = members;
                    Err(failure)
                }
            };
            // Other placements may help members that were rejected in these.
            let generators = profile.at(ExtensionPoint::PlacementGenerate).iter();
            trial.rejectors.extend(generators.map(|plugin| profile.plugin(*plugin).name()));
            placed?;
        }
        // A group that is running already has enough members even if none of these finds a node.
        if trial.placed.is_empty() { Err(GroupFailure::Rejected(REJECTED.to_owned())) } else { Ok(()) }
    }

    /// Returns the placements of a group; there is at least one.
    fn generate_placements(
        &self,
        profile: &Profile,
        group: &QueuedGroup,
        members: &[QueuedPod],
    ) -> Result<Vec<GroupPlacement>, GroupFailure> {
        let live = self.cache.cluster.live();
        let Some(plugin) = profile.at(ExtensionPoint::PlacementGenerate).first() else {
            return Ok(vec![GroupPlacement { nodes: live.clone(), ..GroupPlacement::default() }]);
        };
        let plugin = profile.plugin(*plugin);
        let status = |placements: &Result<Vec<GroupPlacement>, GroupFailure>| match placements {
            Ok(_) => Status::Success,
            Err(GroupFailure::Rejected(_)) => Status::Unschedulable,
            Err(GroupFailure::Error(_)) => Status::Error,
        };
        profile.measured(Stage::PlacementGenerate, status, || {
            let generated = self.with_group_cycle(group, members, |cx| plugin.generate_placements(cx));
            match generated {
                Ok(placements) if placements.is_empty() => {
                    Err(GroupFailure::Rejected("no feasible placements found".to_owned()))
                }
                Ok(mut placements) => {
                    placements.iter_mut().for_each(|placement| placement.nodes.intersect(live));
                    Ok(placements)
                }
                Err(Stopped::Reject(_, reject)) => Err(GroupFailure::Rejected(reject.message())),
                Err(Stopped::Error(error)) => Err(GroupFailure::Error(error.source.to_string())),
            }
        })
    }

    /// Tries the members in all placements, and gives them nodes in the best one. If there is none, the trial contains
    /// the failures of the first placement.
    fn place_in_best(
        &mut self,
        profile: &Profile,
        group: &QueuedGroup,
        members: Vec<QueuedPod>,
        placements: Vec<GroupPlacement>,
        trial: &mut Trial,
        now: Timestamp,
    ) -> Result<(), GroupFailure> {
        let count = placements.len();
        let mut candidates = Vec::new();
        let mut first_failure = None;
        let mut rejectors = Vec::new();
        for placement in placements {
            let is_everywhere = placement.nodes.len() == self.cache.cluster.node_count();
            let within = (!is_everywhere).then_some(&placement.nodes);
            let mut tried = Trial { keeps_attempts: count > 1, ..Trial::default() };
            let begun = self.meter.as_ref().map(|meter| meter.now());
            let placed = self.place_members(group, members.clone(), within, &mut tried, now);
            if let (Some(meter), Some(begun), false) = (&self.meter, begun, is_error(&placed)) {
                meter.placement_tried(group.standing.profile, placed.is_ok(), begun);
            }
            match placed {
                Ok(()) if count == 1 => {
                    trial.end_as(tried);
                    return Ok(());
                }
                Ok(()) => {
                    trial.states.append(&mut tried.states);
                    candidates.push(self.candidate_of(placement, tried));
                }
                Err(failure @ GroupFailure::Error(_)) => {
                    trial.end_as(tried);
                    return Err(failure);
                }
                Err(failure @ GroupFailure::Rejected(_)) => {
                    rejectors.extend(self.rejectors_of(group, &tried));
                    trial.states.append(&mut tried.states);
                    let placed = std::mem::take(&mut tried.placed);
                    tried.released = self.release_all(placed);
                    first_failure.get_or_insert((tried, failure));
                }
            }
        }
        let best = self.best_of(profile, group, &members, &candidates);
        let best = best.inspect_err(|_| trial.untried = members)?;
        if let Some(best) = best {
            let Candidate { found, rejected, is_local, .. } = candidates.swap_remove(best);
            trial.end_as(Trial { rejected, rejectors, is_local, ..Trial::default() });
            found.into_iter().for_each(|(entry, attempt)| self.place_again(entry, &attempt, trial));
            return Ok(());
        }
        let Some((tried, failure)) = first_failure else { return Ok(()) };
        trial.end_as(Trial { rejectors, ..tried });
        let first = if failure.message().starts_with(REJECTED) { REJECTED } else { failure.message() };
        let why = format!("{REJECTED}, 0/{count} placements are available, first placement status: {first}");
        Err(GroupFailure::Rejected(why))
    }

    /// Takes the members from the nodes that they got in a trial.
    fn candidate_of(&mut self, placement: GroupPlacement, tried: Trial) -> Candidate {
        let given_up = self.give_up(tried.placed).into_iter();
        let found = given_up.filter_map(|(entry, attempt)| Some((entry, attempt?))).collect();
        Candidate { placement, found, rejected: tried.rejected, is_local: tried.is_local }
    }

    /// Returns the position of the candidate with the highest score, the first one if several have it; `None` if there
    /// is no candidate.
    fn best_of(
        &self,
        profile: &Profile,
        group: &QueuedGroup,
        members: &[QueuedPod],
        candidates: &[Candidate],
    ) -> Result<Option<usize>, GroupFailure> {
        if candidates.len() < 2 {
            return Ok((!candidates.is_empty()).then_some(0));
        }
        let status = |totals: &Result<Vec<i64>, String>| match totals {
            Ok(_) => Status::Success,
            Err(_) => Status::Error,
        };
        let totals = profile.measured(Stage::PlacementScore, status, || {
            let assignments: Vec<Vec<Assignment>> = candidates.iter().map(Candidate::assignments).collect();
            let proposed = candidates.iter().zip(&assignments);
            let proposed: Vec<_> = proposed
                .map(|(one, assignments)| ProposedPlacement { placement: &one.placement, assignments })
                .collect();
            self.with_group_cycle(group, members, |cx| totals(profile, cx, &proposed))
        });
        let totals = totals.map_err(GroupFailure::Error)?;
        Ok((0..totals.len()).rev().max_by_key(|at| totals[*at]))
    }

    fn with_group_cycle<T>(
        &self,
        group: &QueuedGroup,
        members: &[QueuedPod],
        ask: impl FnOnce(&GroupCycle<'_>) -> T,
    ) -> T {
        let id = &group.group.id;
        let (pods, scheduled) = self.cache.groups.view(id).map_or((0, 0), |view| (view.pods, view.scheduled));
        let described = self.cache.groups.get(id).unwrap_or(&group.group);
        let member = |(uid, node): (&Str, &Str)| {
            Some(ScheduledMember { pod: self.pods.get(uid)?.clone(), node: node.clone() })
        };
        let mut on_nodes: Vec<_> = self.cache.groups.on_nodes(id).filter_map(member).collect();
        on_nodes.sort_by(|a, b| a.pod.name.cmp(&b.pod.name));
        let members: Vec<Arc<PodInfo>> = members.iter().map(|entry| entry.pod.clone()).collect();
        ask(&GroupCycle {
            group: GroupView { group: described, pods, scheduled },
            members: &members,
            scheduled: &on_nodes,
            nodes: self.cache.cluster.nodes(),
            objects: self.cache.cluster.objects(),
        })
    }
}

fn is_error(placed: &Result<(), GroupFailure>) -> bool {
    matches!(placed, Err(GroupFailure::Error(_)))
}

/// Returns the sum of the weighted scores of each placement.
fn totals(
    profile: &Profile,
    cx: &GroupCycle<'_>,
    proposed: &[ProposedPlacement<'_>],
) -> Result<Vec<i64>, String> {
    let mut totals = vec![0; proposed.len()];
    for (plugin, weight) in profile.placement_scorers() {
        let plugin = profile.plugin(*plugin);
        let scores = proposed.iter().map(|one| plugin.score_placement(cx, one));
        let mut scores = scores.collect::<Result<Vec<i64>, _>>().map_err(|error| error.to_string())?;
        plugin.normalize_placements(cx, &mut scores).map_err(|error| error.to_string())?;
        for (total, score) in totals.iter_mut().zip(scores) {
            if !(0..=100).contains(&score) {
                return Err(format!(
                    "applying score defaultWeights on PlacementScore plugins: plugin {:?} returns an invalid score \
                     {score}, it should in the range of [0, 100] after normalizing",
                    plugin.name()
                ));
            }
            *total += score * weight;
        }
    }
    Ok(totals)
}
