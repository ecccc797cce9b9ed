//! The scheduling cycle of a group: its members get nodes one after the other, each seeing those before it. If enough
//! of them have nodes, they are bound; otherwise everything is undone, last in first out.
//!
//! A group holds no node between two cycles, so two groups never wait for each other.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, Decision},
    cluster::Cluster,
    group::{Assignment, Feasibility, GroupCondition, PodGroup},
    guard::GuardedPlugin,
    meter::Stamp,
    nodeset::{NodeIdx, NodeSet},
    pod::PodInfo,
    points::Slot,
    sweep::PluginIdx,
};

use super::{Engine, group_preemption::GroupPostFilterResult, scheduling_cycle::Held};
use crate::{
    effect::GroupCall,
    failure::Failure,
    meter::AttemptResult,
    nominator::NewNomination,
    outcome::{Attempted, Outcome},
    permit::Permission,
    post_filter::was_pre_filtered,
    queue::{GroupResult, QueuedGroup, QueuedPod},
};

/// A member that occupies a node.
pub(super) struct Placed {
    pub(super) entry: QueuedPod,
    held: Held,
    /// Kept only while the node may be given up for another placement.
    attempt: Option<Attempt>,
}

impl Placed {
    /// The member and its row; `None` if the node is gone.
    pub(super) fn assignment(&self, cluster: &Cluster) -> Option<Assignment> {
        let row = cluster.find(self.held.reservation.node())?;
        Some(Assignment { pod: self.entry.pod.clone(), row })
    }
}

/// A member that has failed.
pub(super) struct Failed {
    pub(super) entry: QueuedPod,
    pub(super) failure: Failure,
    /// What becomes of its nomination, unless its group gets nodes by preemption.
    nomination: NewNomination,
}

impl Failed {
    /// A member for which there was no node. It may still hope for the node to which it is nominated.
    fn found_no_node(entry: QueuedPod, failure: Failure) -> Self {
        let nomination = match failure {
            Failure::NoNodes => NewNomination::Clear,
            _ => NewNomination::Keep,
        };
        Self { entry, failure, nomination }
    }

    /// A member for which there was a node that it could not keep.
    fn lost_its_node(entry: QueuedPod, failure: Failure) -> Self {
        Self { entry, failure, nomination: NewNomination::Clear }
    }

    /// A member that was not tried.
    fn not_tried(entry: QueuedPod, failure: Failure) -> Self {
        Self { entry, failure, nomination: NewNomination::Keep }
    }
}

/// States of a member's latest attempt, for the PodGroupPostFilter plugins of the profile, in their order; `None` for a
/// plugin whose PreFilter method was not called.
pub(super) struct MemberStates {
    /// UID of the member.
    pub(super) uid: Str,
    pub(super) slots: Vec<Option<Slot>>,
}

/// Members of a group, after each of them has been tried or the cycle has stopped.
pub(super) struct Trial {
    pub(super) placed: Vec<Placed>,
    /// Members that found nodes, and have given them up.
    pub(super) released: Vec<QueuedPod>,
    /// Members that found no node, or could not keep it.
    pub(super) rejected: Vec<Failed>,
    /// True if the last member found no node, and nothing has changed since.
    pub(super) is_stuck: bool,
    /// Members that were not tried.
    pub(super) untried: Vec<QueuedPod>,
    /// Plugins that rejected the group or its members in other placements.
    pub(super) rejectors: Vec<&'static str>,
    /// States of all attempts. Those of a member's later attempts come later.
    pub(super) states: Vec<MemberStates>,
    /// True if the attempts of the members that found nodes are kept.
    pub(super) keeps_attempts: bool,
    /// True if whether each of the placed members fits a node depends on that node alone.
    pub(super) is_local: bool,
    /// Start of the attempt, if it is measured.
    pub(super) begun: Option<Stamp>,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            placed: Vec::new(),
            released: Vec::new(),
            rejected: Vec::new(),
            is_stuck: false,
            untried: Vec::new(),
            rejectors: Vec::new(),
            states: Vec::new(),
            keeps_attempts: false,
            is_local: true,
            begun: None,
        }
    }
}

impl Trial {
    /// Replaces the result by that of a trial in one placement.
    pub(super) fn end_as(&mut self, tried: Trial) {
        let Trial { placed, released, rejected, untried, rejectors, states, is_local, .. } = tried;
        self.states.extend(states);
        (self.placed, self.released, self.rejected, self.untried) = (placed, released, rejected, untried);
        (self.rejectors, self.is_local) = (rejectors, is_local);
    }
}

/// Reason why no member of a group gets a node.
#[derive(Debug)]
pub(super) enum GroupFailure {
    /// Too few members can have nodes.
    Rejected(String),
    /// An error, which concerns all members.
    Error(String),
}

impl GroupFailure {
    /// `reason` of the group's condition.
    fn reason(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "Unschedulable",
            Self::Error(_) => "SchedulerError",
        }
    }

    /// Appends the text of the PodGroupPostFilter plugins, if they were called, to the group's message.
    fn with_text(self, text: Option<&str>) -> Self {
        match (self, text) {
            (Self::Rejected(why), Some(text)) => Self::Rejected(format!("{why}, {text}")),
            (failure, _) => failure,
        }
    }

    pub(super) fn message(&self) -> &str {
        let (Self::Rejected(message) | Self::Error(message)) = self;
        message
    }

    /// Failure of a member that has not failed itself.
    fn of_member(&self) -> Failure {
        match self {
            Self::Rejected(message) => Failure::GroupRejected(message.clone()),
            Self::Error(message) => Failure::Error(message.clone()),
        }
    }
}

/// Beginning of the message of a group for which no node was decided.
pub(super) const REJECTED: &str = "pod group is unschedulable";

impl Engine {
    /// Tries to schedule the queued members of a group.
    pub(super) fn try_group(
        &mut self,
        mut group: QueuedGroup,
        begun: Timestamp,
        clock: &mut dyn FnMut() -> Timestamp,
    ) -> Attempted {
        let mut outcomes = Vec::new();
        let mut members = Vec::new();
        let attempt_begun = self.meter.as_ref().map(|meter| meter.cycle_begins());
        for entry in std::mem::take(&mut group.members) {
            match self.latest(entry) {
                Ok(mut entry) => {
                    entry.attempt_begun = attempt_begun;
                    members.push(entry);
                }
                Err(pod) => outcomes.push((pod, Outcome::Skipped)),
            }
        }
        if members.is_empty() {
            self.queue.give_back_group(group, GroupResult::Scheduled, self.cache.at(begun));
            return attempted(outcomes);
        }
        self.cache.cluster.refresh();
        let mut trial = Trial::default();
        let decided = match self.cache.groups.mismatch(&group.group, &members) {
            Some(error) => {
                trial.untried = members;
                Err(GroupFailure::Error(error))
            }
            None => {
                trial.begun = attempt_begun;
                self.place_group(&group, members, &mut trial, begun)
            }
        };
        if let (Some(meter), Some(begun)) = (&self.meter, trial.begun) {
            meter.searched_group(begun);
        }
        let now = clock();
        match decided.and_then(|()| self.permit_members(&group, &mut trial)) {
            Ok(permissions) => self.keep(group, trial, permissions, &mut outcomes, now),
            Err(failure) => self.undo(group, trial, failure, &mut outcomes, now),
        }
        attempted(outcomes)
    }

    /// Gives nodes to members until all have been tried, or until it is certain that too few will get one. Considers
    /// only nodes `within` the given set, if there is one.
    pub(super) fn place_members(
        &mut self,
        group: &QueuedGroup,
        members: Vec<QueuedPod>,
        within: Option<&NodeSet>,
        trial: &mut Trial,
        now: Timestamp,
    ) -> Result<(), GroupFailure> {
        let mut members = members.into_iter();
        let mut feasibility = self.feasibility(group, members.len())?;
        if let Feasibility::Never(why) = feasibility {
            trial.untried.extend(members);
            return Err(GroupFailure::Rejected(format!("{REJECTED}, {why}")));
        }
        while let Some(entry) = members.next() {
            self.place(entry, within, trial, now);
            if let Some(Failed { failure: failure @ Failure::Error(_), .. }) = trial.rejected.last() {
                let why = format!("failed to schedule other pod from a pod group: {}", failure.message());
                trial.untried.extend(members);
                return Err(GroupFailure::Error(why));
            }
            feasibility = self.feasibility(group, members.len())?;
            if let Feasibility::Never(why) = feasibility {
                trial.untried.extend(members);
                return Err(GroupFailure::Rejected(why));
            }
        }
        match feasibility {
            Feasibility::NotYet(why) => Err(GroupFailure::Rejected(format!("{REJECTED}, {why}"))),
            Feasibility::Enough | Feasibility::Never(_) => Ok(()),
        }
    }

    /// Finds a node for one member and occupies it.
    fn place(&mut self, entry: QueuedPod, within: Option<&NodeSet>, trial: &mut Trial, now: Timestamp) {
        if let Some(failure) = self.same_failure(&entry, trial) {
            let slots = trial.states.last().map_or_else(Vec::new, |last| last.slots.clone());
            trial.states.push(MemberStates { uid: entry.uid().clone(), slots });
            return trial.rejected.push(Failed::found_no_node(entry, failure));
        }
        let attempt = match self.attempt(&entry, within, &mut trial.states, now) {
            Ok(attempt) => attempt,
            Err(failure) => {
                trial.is_stuck = true;
                return trial.rejected.push(Failed::found_no_node(entry, failure));
            }
        };
        trial.is_stuck = false;
        trial.is_local &= attempt.is_local();
        match self.hold(&entry, &attempt) {
            Ok(held) => {
                let attempt = trial.keeps_attempts.then_some(attempt);
                trial.placed.push(Placed { entry, held, attempt });
            }
            Err(failure) => trial.rejected.push(Failed::lost_its_node(entry, failure)),
        }
    }

    /// Returns the failure of the last member if an attempt for this one would fail in the same way. So only the first of
    /// many equal members is tried in vain.
    fn same_failure(&mut self, entry: &QueuedPod, trial: &Trial) -> Option<Failure> {
        let Failed { entry: last, failure: Failure::Unschedulable(why), .. } = trial.rejected.last()? else {
            return None;
        };
        let pods = [&entry.pod, &last.pod];
        let may_be_nominated = pods.iter().any(|pod| pod.status.nominated_node_name.is_some()) || {
            let nominated = self.nominator.of(&self.pods);
            pods.iter().any(|pod| !nominated.rows_for(pod, &self.cache.cluster).is_empty())
        };
        let is_same = trial.is_stuck
            && !may_be_nominated
            && self.finder.are_alike(&mut self.cache.cluster, entry, last);
        is_same.then(|| Failure::Unschedulable(why.clone()))
    }

    /// Finds a node for one member. Adds the states of the attempt to `states`.
    fn attempt(
        &mut self,
        entry: &QueuedPod,
        within: Option<&NodeSet>,
        states: &mut Vec<MemberStates>,
        now: Timestamp,
    ) -> Result<Attempt, Failure> {
        self.nominator.show(&self.pods, &mut self.cache.cluster);
        let nominated = self.nominator.of(&self.pods).rows_for(&entry.pod, &self.cache.cluster);
        let (cluster, cycle) = (&mut self.cache.cluster, self.queue.handed_out());
        let begun = self.meter.as_ref().map(|meter| meter.now());
        let found = self.finder.find(cluster, entry, (&nominated, within), cycle, now);
        if let (Some(meter), Some(begun)) = (&self.meter, begun) {
            meter.searched(begun);
        }
        let mut attempt = found?;
        states.push(self.states_of(entry, &attempt));
        if let Decision::Unschedulable(_) = attempt.decision() {
            return Err(Failure::Unschedulable(Box::new(attempt.take_diagnosis())));
        }
        self.note_scores(entry, &attempt);
        Ok(attempt)
    }

    fn states_of(&self, entry: &QueuedPod, attempt: &Attempt) -> MemberStates {
        let profile = self.finder.profile(entry.profile);
        let rejection = match attempt.decision() {
            Decision::Unschedulable(why) => why.pre_filter.as_ref(),
            Decision::Node { .. } => None,
        };
        let slot = |plugin: &PluginIdx| {
            was_pre_filtered(profile, *plugin, rejection).then(|| attempt.state(*plugin).clone())
        };
        let slots = profile.at(ExtensionPoint::PodGroupPostFilter).iter().map(slot).collect();
        MemberStates { uid: entry.uid().clone(), slots }
    }

    /// Occupies a certain node for one member. Returns `None` if it does not fit there.
    pub(super) fn place_on(&mut self, entry: &QueuedPod, row: NodeIdx) -> Result<Option<Placed>, String> {
        self.nominator.show(&self.pods, &mut self.cache.cluster);
        let nominated = self.nominator.of(&self.pods).rows_for(&entry.pod, &self.cache.cluster);
        let attempt = self.finder.find_on(&mut self.cache.cluster, entry, &nominated, row);
        let Some(attempt) = attempt.map_err(|failure| failure.message())? else { return Ok(None) };
        match self.hold(entry, &attempt) {
            Ok(held) => Ok(Some(Placed { entry: entry.clone(), held, attempt: None })),
            Err(Failure::Error(why)) => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// Takes members from their nodes, last in first out. Returns the members in their original order.
    pub(super) fn release_all(&mut self, placed: Vec<Placed>) -> Vec<QueuedPod> {
        self.give_up(placed).into_iter().map(|(entry, _)| entry).collect()
    }

    /// Like [`Self::release_all`], but returns the attempts, too.
    pub(super) fn give_up(&mut self, placed: Vec<Placed>) -> Vec<(QueuedPod, Option<Attempt>)> {
        let mut given_up = Vec::new();
        for Placed { entry, held, attempt } in placed.into_iter().rev() {
            self.release(&entry, held);
            given_up.push((entry, attempt));
        }
        given_up.reverse();
        given_up
    }

    /// Occupies the node that was chosen for a member. The member is rejected if it cannot be reserved.
    pub(super) fn place_again(&mut self, entry: QueuedPod, attempt: &Attempt, trial: &mut Trial) {
        match self.hold(&entry, attempt) {
            Ok(held) => trial.placed.push(Placed { entry, held, attempt: None }),
            Err(failure) => trial.rejected.push(Failed::lost_its_node(entry, failure)),
        }
    }

    /// Asks whether the members that have nodes by now are enough.
    fn feasibility(&mut self, group: &QueuedGroup, remaining: usize) -> Result<Feasibility, GroupFailure> {
        let Some(view) = self.cache.groups.view(&group.group.id) else { return Ok(Feasibility::Enough) };
        let Some(plugin) = self.grouping_of(group) else { return Ok(Feasibility::Enough) };
        plugin.group_feasibility(view, remaining).map_err(|error| {
            GroupFailure::Error(format!("failed to evaluate placement feasibility: {error}"))
        })
    }

    fn grouping_of(&self, group: &QueuedGroup) -> Option<&GuardedPlugin> {
        self.finder.profile(group.standing.profile).grouping()
    }

    /// Runs Permit for all members that have nodes. Members that a plugin rejects give up their nodes. If too few
    /// remain, no member is bound.
    fn permit_members(
        &mut self,
        group: &QueuedGroup,
        trial: &mut Trial,
    ) -> Result<Vec<Permission>, GroupFailure> {
        let mut permissions = Vec::new();
        for Placed { entry, held, .. } in std::mem::take(&mut trial.placed) {
            match self.permit(&entry, &held) {
                Ok(permission) => {
                    permissions.push(permission);
                    trial.placed.push(Placed { entry, held, attempt: None });
                }
                Err(stopped) => {
                    self.release(&entry, held);
                    trial.rejected.push(Failed::lost_its_node(entry, stopped.into()));
                }
            }
        }
        match self.feasibility(group, 0)? {
            Feasibility::Never(why) | Feasibility::NotYet(why) => Err(GroupFailure::Rejected(why)),
            Feasibility::Enough => Ok(permissions),
        }
    }

    /// Sends the members that have nodes to their bindings, and returns the others to the queue.
    fn keep(
        &mut self,
        mut group: QueuedGroup,
        trial: Trial,
        permissions: Vec<Permission>,
        outcomes: &mut Vec<(Arc<PodInfo>, Outcome)>,
        now: Timestamp,
    ) {
        for (Placed { entry, held, .. }, permission) in trial.placed.into_iter().zip(permissions) {
            let pod = entry.pod.clone();
            outcomes.push((pod, self.bind(entry, held, permission, now)));
        }
        for Failed { entry, failure, nomination } in trial.rejected {
            self.fail_member(&mut group, entry, failure, nomination, outcomes, now);
        }
        self.report_group(&group, true, "Scheduled", "", now);
        self.group_attempt_ended(&group, AttemptResult::Scheduled, trial.begun);
        self.queue.give_back_group(group, GroupResult::Scheduled, self.cache.at(now));
    }

    /// Takes all members from their nodes, looks for a way to place them, and returns them to the queue.
    fn undo(
        &mut self,
        mut group: QueuedGroup,
        trial: Trial,
        failure: GroupFailure,
        outcomes: &mut Vec<(Arc<PodInfo>, Outcome)>,
        now: Timestamp,
    ) {
        let mut rejectors = self.rejectors_of(&group, &trial);
        let Trial { placed, mut released, rejected, untried, states, begun, .. } = trial;
        released.extend(self.release_all(placed));
        let untried = untried.into_iter().map(|entry| Failed::not_tried(entry, failure.of_member()));
        let untried: Vec<Failed> = untried.collect();
        let found = match &failure {
            GroupFailure::Rejected(_) => {
                let mut members: Vec<QueuedPod> =
                    released.iter().chain(entries(&rejected)).chain(entries(&untried)).cloned().collect();
                QueuedGroup::sort(&mut members);
                self.group_post_filter(&group, &members, &states, now)
            }
            GroupFailure::Error(_) => Ok(GroupPostFilterResult::default()),
        };
        let (failure, found) = match found {
            Ok(found) => (failure.with_text(found.text.as_deref()), found),
            Err(why) => (GroupFailure::Error(why), GroupPostFilterResult::default()),
        };
        // What a plugin has requested may help the group.
        rejectors.extend(&found.callers);
        let is_error = matches!(failure, GroupFailure::Error(_));
        let nomination = |entry: &QueuedPod, otherwise: NewNomination| {
            let found = found.nodes.iter().flatten().find(|(uid, _)| uid == entry.uid());
            match found {
                _ if is_error => NewNomination::Clear,
                Some((_, node)) => NewNomination::Set(node.clone()),
                None => otherwise,
            }
        };
        for entry in released {
            let own = match &failure {
                GroupFailure::Rejected(why) if found.nodes.is_none() => {
                    Failure::GroupRejected(format!("{REJECTED}, {why}"))
                }
                _ => failure.of_member(),
            };
            let otherwise = if found.nodes.is_some() { NewNomination::Keep } else { NewNomination::Clear };
            let nomination = nomination(&entry, otherwise);
            self.fail_member(&mut group, entry, own, nomination, outcomes, now);
        }
        for Failed { entry, failure: own, nomination: otherwise } in rejected.into_iter().chain(untried) {
            let nomination = nomination(&entry, otherwise);
            let own = if is_error && !matches!(own, Failure::Error(_)) { failure.of_member() } else { own };
            self.fail_member(&mut group, entry, own, nomination, outcomes, now);
        }
        self.report_group(&group, false, failure.reason(), failure.message(), now);
        if !found.victims.pods.is_empty() {
            let members: Vec<Arc<PodInfo>> = group.members.iter().map(|entry| entry.pod.clone()).collect();
            self.begin_group_eviction(&group.group, members, found.victims, now);
        }
        let result = match &found.nodes {
            _ if is_error => AttemptResult::Error,
            Some(_) => AttemptResult::WaitingOnPreemption,
            None => AttemptResult::Unschedulable,
        };
        self.group_attempt_ended(&group, result, begun);
        let result = if is_error { GroupResult::Failed } else { GroupResult::Rejected(rejectors) };
        self.queue.give_back_group(group, result, self.cache.at(now));
    }

    /// Reports a finished attempt for a group to the meter.
    fn group_attempt_ended(&self, group: &QueuedGroup, result: AttemptResult, begun: Option<Stamp>) {
        if let (Some(meter), Some(begun)) = (&self.meter, begun) {
            meter.attempted_group(group.standing.profile, result, begun);
        }
    }

    /// Reports the failure of a member, and adds it to the group's members that return to the queue.
    fn fail_member(
        &mut self,
        group: &mut QueuedGroup,
        entry: QueuedPod,
        failure: Failure,
        nomination: NewNomination,
        outcomes: &mut Vec<(Arc<PodInfo>, Outcome)>,
        now: Timestamp,
    ) {
        outcomes.push((entry.pod.clone(), failure.outcome()));
        self.attempt_failed(&entry, &failure);
        let latest = match self.waiting(entry) {
            Ok(mut entry) => {
                let latest = entry.pod.clone();
                let (rejectors, pending) = failure.rejectors();
                entry.standing.failed(rejectors, pending, now);
                group.members.push(entry);
                latest
            }
            Err(Some(bound)) => bound,
            Err(None) => return,
        };
        let reason_and_message = (failure.reason(), failure.message());
        self.nominator.renominate(&latest, &nomination);
        self.reporter.failed(&latest, reason_and_message, nomination, now);
    }

    /// Returns the plugins whose events may help a group that was rejected: the plugin that defines the group, and
    /// those that rejected members. If the other members have different specs, they may have nodes that a rejected
    /// member needs, so any event that could give them other nodes may help.
    pub(super) fn rejectors_of(&self, group: &QueuedGroup, trial: &Trial) -> Vec<&'static str> {
        let profile = self.finder.profile(group.standing.profile);
        let mut rejectors: Vec<&'static str> =
            profile.grouping().map(GuardedPlugin::name).into_iter().collect();
        rejectors.extend(&trial.rejectors);
        for Failed { failure, .. } in &trial.rejected {
            let (rejected, pending) = failure.rejectors();
            rejectors.extend(rejected.into_iter().chain(pending));
        }
        let placed = trial.placed.iter().map(|placed| &placed.entry);
        let others = placed.chain(&trial.released).chain(&trial.untried);
        let is_alike = |entry: &QueuedPod| {
            entries(&trial.rejected).any(|other| Arc::ptr_eq(&other.pod.derived, &entry.pod.derived))
        };
        let mut others = others.filter(|entry| !is_alike(entry));
        if !trial.rejected.is_empty() && others.next().is_some() {
            let points = [ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::Reserve];
            let plugins = points.iter().flat_map(|point| profile.at(*point));
            rejectors.extend(plugins.map(|plugin| profile.plugin(*plugin).name()));
        }
        rejectors.sort_unstable();
        rejectors.dedup();
        rejectors
    }

    /// Requests that the group's object gets a condition, unless it has this condition already. A group that was once
    /// scheduled stays so.
    fn report_group(
        &mut self,
        group: &QueuedGroup,
        is_scheduled: bool,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let (Some(group), Some(plugin)) =
            (self.cache.groups.get(&group.group.id).cloned(), self.grouping_of(group))
        else {
            return;
        };
        let Some(condition) = new_condition(&group, is_scheduled, reason, message, now) else { return };
        match plugin.record_group(&group, &condition) {
            Ok(Some(call)) => self.reporter.about_group(GroupCall { group: group.clone(), call }),
            Ok(None) => {}
            Err(error) => self.reporter.note_plugin_failure(None, error.to_string()),
        }
        let mut group = PodGroup::clone(&group);
        group.spec.condition = Some(condition);
        self.cache.groups.set(Arc::new(group));
    }
}

/// Entries of members that have failed.
fn entries(failed: &[Failed]) -> impl Iterator<Item = &QueuedPod> {
    failed.iter().map(|failed| &failed.entry)
}

/// Returns the condition that a group gets; `None` if nothing changes.
fn new_condition(
    group: &PodGroup,
    is_scheduled: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Option<GroupCondition> {
    let old = group.condition.as_ref();
    let is_same = |old: &GroupCondition| {
        old.is_scheduled == is_scheduled
            && old.reason == reason
            && old.message == message
            && old.observed_generation == group.generation
    };
    if old.is_some_and(|old| is_same(old) || (old.is_scheduled && !is_scheduled)) {
        return None;
    }
    let unchanged = old.filter(|old| old.is_scheduled == is_scheduled);
    Some(GroupCondition {
        is_scheduled,
        reason: reason.into(),
        message: message.to_owned(),
        observed_generation: group.generation,
        last_transition: unchanged.map_or(now, |old| old.last_transition),
    })
}

fn attempted(mut outcomes: Vec<(Arc<PodInfo>, Outcome)>) -> Attempted {
    let (pod, outcome) = outcomes.remove(0);
    Attempted { pod, outcome, others: outcomes }
}
