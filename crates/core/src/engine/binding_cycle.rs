//! The binding cycle: from a chosen node to a bound pod, or back to the queue.

use harbormaster_api::{Str, Timestamp, args::GoDuration, points::ExtensionPoint};
use harbormaster_framework::{
    cycle::Reservation,
    guard::PointError,
    meter::{Stage, Stamp, Status},
    outcome::{PreFlight, Reject},
    profile::Profile,
    sweep::PluginIdx,
};

use super::{Engine, changes::ChangeTime};
use crate::{
    bindings::{Binding, ChosenNode, Wait},
    effect::BindTask,
    failure::Failure,
    input::BindOutcome,
    meter::AttemptResult,
    nominator::NewNomination,
    permit::{Permission, PermitCall},
    queue::QueuedPod,
};

impl Engine {
    /// Starts the binding of a pod or, if plugins delay the pod, its wait on Permit. Then carries out the plugins'
    /// requests concerning other pods.
    pub(super) fn enter_binding(
        &mut self,
        entry: QueuedPod,
        chosen: ChosenNode,
        permission: Permission,
        now: Timestamp,
    ) {
        let Permission { waits, calls } = permission;
        if waits.is_empty() {
            let pre_bind = pre_flight(&chosen);
            if pre_bind.as_ref().is_ok_and(|groups| !groups.is_empty()) {
                self.announce_node(&entry, &chosen);
            }
            let uid = entry.pod.uid.clone();
            self.bindings.enter(entry, chosen, Vec::new(), None);
            self.begin_binding(&uid, pre_bind, now);
        } else {
            self.announce_node(&entry, &chosen);
            let wait = |(plugin, at_most)| Wait { plugin, at_most, until: now + at_most };
            let held_since = self.meter.as_ref().map(|meter| meter.now());
            self.bindings.enter(entry, chosen, waits.into_iter().map(wait).collect(), held_since);
        }
        calls.into_iter().for_each(|call| self.carry_out(call, now));
    }

    /// Announces the chosen node to other components, because the binding will take a while (KEP-5278).
    fn announce_node(&mut self, entry: &QueuedPod, chosen: &ChosenNode) {
        let node = chosen.node();
        if entry.pod.status.nominated_node_name.as_ref() != Some(node) {
            self.reporter.nominate(&entry.pod, Some(node.clone()));
        }
    }

    fn carry_out(&mut self, call: PermitCall, now: Timestamp) {
        match call {
            PermitCall::Allow(uid, plugin) => {
                if self.bindings.allow(&uid, plugin)
                    && let Some(binding) = self.bindings.get(&uid)
                {
                    self.wait_ended(binding.held_since, Status::Success);
                    let pre_bind = pre_flight(&binding.chosen);
                    self.begin_binding(&uid, pre_bind, now);
                }
            }
            PermitCall::Reject(uid, plugin, why) => {
                self.reject_waiting(&uid, plugin, why, now);
            }
            PermitCall::Activate(namespace, name) => {
                self.queue.activate_named(namespace, name, self.cache.at(now));
            }
        }
    }

    /// Rejects a pod that waits on Permit. Returns false if the pod is not waiting.
    pub(super) fn reject_waiting(
        &mut self,
        uid: &str,
        plugin: &'static str,
        why: String,
        now: Timestamp,
    ) -> bool {
        self.end_wait(uid, Failure::rejected_on_node(plugin, &Reject::evictable(why)), now)
    }

    /// Ends the wait on Permit of a pod that is being preempted. Returns false if the pod is not waiting.
    pub(super) fn preempt_waiting(&mut self, uid: &str, now: Timestamp) -> bool {
        self.end_wait(uid, Failure::Error("waiting on permit for pod: preempted".to_owned()), now)
    }

    pub(super) fn end_wait(&mut self, uid: &str, failure: Failure, now: Timestamp) -> bool {
        let Some(binding) = self.bindings.take_waiting(uid) else { return false };
        let is_error = matches!(failure, Failure::Error(_));
        self.wait_ended(binding.held_since, if is_error { Status::Error } else { Status::Unschedulable });
        self.binding_failed(binding, failure, now);
        true
    }

    fn wait_ended(&self, held_since: Option<Stamp>, status: Status) {
        if let (Some(meter), Some(begun)) = (&self.meter, held_since) {
            meter.permitted(status, begun);
        }
    }

    pub(super) fn permit_timeouts(&mut self, now: Timestamp) {
        for (uid, Wait { plugin, at_most, .. }) in self.bindings.timed_out(now) {
            let waited = GoDuration::from_nanos(i64::try_from(at_most.as_nanos()).unwrap_or(i64::MAX));
            let why = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            self.reject_waiting(&uid, plugin, why, now);
        }
    }

    /// Requests the binding of a pod, or fails the binding if the pre-flight failed.
    fn begin_binding(&mut self, uid: &Str, pre_bind: Result<PreBindGroups, PointError>, now: Timestamp) {
        let Some(Binding { chosen, .. }) = self.bindings.get(uid) else { return };
        self.queue.done(uid);
        match pre_bind {
            Ok(pre_bind) => self.reporter.bind(BindTask {
                reservation: chosen.reservation.clone(),
                profile: chosen.profile.clone(),
                pre_bind,
                evaluated: chosen.evaluated,
                feasible: chosen.feasible,
            }),
            Err(error) => {
                if let Some(binding) = self.bindings.take(uid) {
                    self.binding_failed(binding, error.into(), now);
                }
            }
        }
    }

    /// Handles the outcome of a binding requested by [`crate::Effect::Bind`].
    pub(super) fn bind_finished(&mut self, uid: &Str, outcome: BindOutcome, now: Timestamp) {
        let Some(binding) = self.bindings.take(uid) else { return };
        match outcome {
            BindOutcome::Bound => {
                let Binding { entry, chosen, .. } = &binding;
                self.reporter.scheduled(&entry.pod, chosen.node());
                self.attempt_ended(entry, AttemptResult::Scheduled);
                if let Some(meter) = &self.meter {
                    let waited = entry.first_active.map(|first| now.since(first));
                    meter.scheduled(entry.attempts, waited, entry.after_timeout);
                }
                if self.pods.get(uid).is_none() {
                    self.cache.cluster.revert_assumptions(uid);
                }
            }
            BindOutcome::Rejected(reject) => self.binding_failed(binding, Failure::BindRejected(reject), now),
            BindOutcome::Failed(message) => self.binding_failed(binding, Failure::Error(message), now),
        }
    }

    /// Frees the node's resources, wakes the pods that may use them, and returns the pod to the queue.
    fn binding_failed(&mut self, binding: Binding, failure: Failure, now: Timestamp) {
        let Binding { entry, chosen, .. } = binding;
        self.unreserve(&chosen.profile, &chosen.reservation);
        self.cache.forget(&entry.pod.uid);
        let (left, at) = (entry.pod.assumed_on(chosen.node()), ChangeTime::unmeasured(now));
        // After a rejection, the freed resources must not wake the pod itself, so its failure is handled first, and the
        // event excludes the pod.
        if matches!(failure, Failure::Error(_)) {
            self.pod_left_its_node(&left, at);
            self.fail(entry, failure, NewNomination::Clear, now);
        } else {
            self.fail(entry, failure, NewNomination::Clear, now);
            self.pod_left_its_node_for(&left, at, |other| other.uid != left.uid);
        }
    }
}

/// PreBind plugins with work to do. The groups run in order, the members of a group in parallel.
type PreBindGroups = Vec<Vec<PluginIdx>>;

/// Runs the pre-flights of the PreBind plugins.
fn pre_flight(chosen: &ChosenNode) -> Result<PreBindGroups, PointError> {
    let ChosenNode { profile, reservation, .. } = chosen;
    // `Skip` if no plugin has work to do.
    let status = |groups: &Result<PreBindGroups, PointError>| match groups {
        Ok(groups) if groups.is_empty() => Status::Skip,
        Ok(_) => Status::Success,
        Err(_) => Status::Error,
    };
    profile.measured(Stage::PreFlight, status, || pre_bind_groups(profile, reservation))
}

/// Returns the PreBind plugins with work to do. Adjacent plugins that may run in parallel form one group.
fn pre_bind_groups(profile: &Profile, reservation: &Reservation) -> Result<PreBindGroups, PointError> {
    let mut groups = PreBindGroups::new();
    let mut open = false;
    for plugin in profile.at(ExtensionPoint::PreBind) {
        let erased = profile.plugin(*plugin);
        match erased.pre_flight(&reservation.of(*plugin))? {
            PreFlight::NothingToDo => {}
            PreFlight::Work { parallel } => {
                match groups.last_mut() {
                    Some(group) if open && parallel => group.push(*plugin),
                    _ => groups.push(vec![*plugin]),
                }
                open = parallel;
            }
        }
    }
    Ok(groups)
}
