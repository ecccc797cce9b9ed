//! From a chosen node to a bound pod: what Permit plugins ask for, and how bindings begin and end.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp, args::GoDuration, points::ExtensionPoint};
use harbormaster_framework::{
    cycle::WaitingPods,
    guard::PointError,
    outcome::{PreFlight, Reject},
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
};

use crate::{
    bindings::{Binding, Bindings, Chosen, Wait},
    cycle::Failure,
    effect::{BindTask, Effect, PodEvent},
    engine::Engine,
    input::BindOutcome,
    queue::QueuedPod,
};

/// What Permit plugins asked for while they ran: carried out afterwards.
#[derive(Debug)]
pub(crate) struct PermitCalls<'a> {
    bindings: &'a Bindings,
    pub(crate) calls: Vec<PermitCall>,
}

/// One call of a Permit plugin about other pods.
#[derive(Debug)]
pub(crate) enum PermitCall {
    Allow(Str, &'static str),
    Reject(Str, &'static str, String),
    Activate(Str, Str),
}

impl<'a> PermitCalls<'a> {
    pub(crate) fn new(bindings: &'a Bindings) -> Self {
        Self { bindings, calls: Vec::new() }
    }
}

impl WaitingPods for PermitCalls<'_> {
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.bindings.waiting().map(|b| (b.entry.pod.clone(), b.chosen.node.clone())).collect()
    }

    fn allow(&mut self, uid: &str, plugin: &'static str) {
        self.calls.push(PermitCall::Allow(uid.into(), plugin));
    }

    fn reject(&mut self, uid: &str, plugin: &'static str, message: String) {
        self.calls.push(PermitCall::Reject(uid.into(), plugin, message));
    }

    fn activate(&mut self, namespace: &str, name: &str) {
        self.calls.push(PermitCall::Activate(namespace.into(), name.into()));
    }
}

impl Engine {
    /// The pod has its node: holds it back if plugins asked for it, else begins to bind.
    pub(crate) fn enter_binding(
        &mut self,
        entry: QueuedPod,
        chosen: Chosen,
        waits: Vec<(&'static str, std::time::Duration)>,
        now: Timestamp,
    ) {
        let uid = entry.pod.uid.clone();
        let wait = |(plugin, at_most)| Wait { plugin, at_most, until: now + at_most };
        let waits: Vec<Wait> = waits.into_iter().map(wait).collect();
        let held = !waits.is_empty();
        self.bindings.enter(entry, chosen, waits);
        if !held {
            self.begin_binding(&uid, now);
        }
    }

    pub(crate) fn carry_out(&mut self, calls: Vec<PermitCall>, now: Timestamp) {
        for call in calls {
            match call {
                PermitCall::Allow(uid, plugin) => self.allow_waiting(&uid, plugin, now),
                PermitCall::Reject(uid, plugin, message) => {
                    self.reject_waiting(&uid, plugin, &message, now);
                }
                PermitCall::Activate(namespace, name) => self.queue.activate_named(namespace, name, now),
            }
        }
    }

    fn allow_waiting(&mut self, uid: &Str, plugin: &str, now: Timestamp) {
        if self.bindings.allow(uid, plugin) {
            self.begin_binding(uid, now);
        }
    }

    /// Ends the wait of a pod on Permit; `false` if it does not wait.
    pub(crate) fn reject_waiting(
        &mut self,
        uid: &str,
        plugin: &'static str,
        why: &str,
        now: Timestamp,
    ) -> bool {
        let Some(binding) = self.bindings.take_waiting(uid) else { return false };
        let reject = Reject::evictable(why.to_owned());
        self.binding_failed(binding, Failure::unfit_here(plugin, &reject), now);
        true
    }

    /// Ends the wait of a pod on Permit because others need its room; `false` if it does not wait.
    pub(crate) fn preempt_waiting(&mut self, uid: &str, now: Timestamp) -> bool {
        let Some(binding) = self.bindings.take_waiting(uid) else { return false };
        let failure = Failure::Error("waiting on permit for pod: preempted".to_owned());
        self.binding_failed(binding, failure, now);
        true
    }

    pub(crate) fn permit_timeouts(&mut self, now: Timestamp) {
        for (uid, Wait { plugin, at_most, .. }) in self.bindings.late(now) {
            let waited = GoDuration::from_nanos(i64::try_from(at_most.as_nanos()).unwrap_or(i64::MAX));
            let why = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            self.reject_waiting(&uid, plugin, &why, now);
        }
    }

    fn begin_binding(&mut self, uid: &Str, now: Timestamp) {
        let Some(binding) = self.bindings.get(uid) else { return };
        self.queue.done(uid);
        let profile = self.runners[binding.entry.profile].profile().clone();
        match pre_bind_groups(&profile, &binding.entry.pod, &binding.chosen.node) {
            Ok(pre_bind) => self.effects.push(Effect::Bind(BindTask {
                pod: binding.entry.pod.clone(),
                node: binding.chosen.node.clone(),
                profile,
                pre_bind,
                evaluated: binding.chosen.evaluated,
                feasible: binding.chosen.feasible,
            })),
            Err(error) => {
                if let Some(binding) = self.bindings.take(uid) {
                    self.binding_failed(binding, error.into(), now);
                }
            }
        }
    }

    pub(crate) fn bind_finished(&mut self, uid: &Str, outcome: BindOutcome, now: Timestamp) {
        let Some(binding) = self.bindings.take(uid) else { return };
        match outcome {
            BindOutcome::Bound => {
                let pod = &binding.entry.pod;
                let note = format!(
                    "Successfully assigned {}/{} to {}",
                    pod.namespace, pod.name, binding.chosen.node
                );
                self.effects.push(Effect::Event(PodEvent {
                    pod: pod.clone(),
                    warning: false,
                    reason: "Scheduled",
                    action: "Binding",
                    note,
                    reporter: self.runners[binding.entry.profile].profile().name().clone(),
                }));
            }
            BindOutcome::Rejected(reject) => self.binding_failed(binding, Failure::Refused(reject), now),
            BindOutcome::Failed(message) => self.binding_failed(binding, Failure::Error(message), now),
        }
    }

    /// Gives the node up, wakes pods that may use the room, and the pod goes back to the queue.
    fn binding_failed(&mut self, binding: Binding, failure: Failure, now: Timestamp) {
        let profile = self.runners[binding.entry.profile].profile().clone();
        self.unreserve(&profile, &binding.entry.pod, &binding.chosen.node);
        self.cache.forget(&binding.entry.pod.uid);
        let left = binding.entry.pod.assumed_on(&binding.chosen.node);
        // After a rejection the room must not wake the pod itself, hence the order and the condition.
        if matches!(failure, Failure::Error(_)) {
            self.pod_left_its_node(&left, now);
            self.attempt_failed(binding.entry, failure, now);
        } else {
            self.attempt_failed(binding.entry, failure, now);
            self.pod_left_its_node_for(&left, now, |other| other.uid != left.uid);
        }
    }
}

/// The PreBind plugins that have work to do: neighbours that allow it form a group that runs side by side.
pub(crate) fn pre_bind_groups(
    profile: &Profile,
    pod: &PodInfo,
    node: &Str,
) -> Result<Vec<Vec<PluginIdx>>, PointError> {
    let mut groups: Vec<Vec<PluginIdx>> = Vec::new();
    let mut open = false;
    for plugin in profile.at(ExtensionPoint::PreBind) {
        let erased = profile.plugin(*plugin);
        match erased.pre_flight(pod, node)? {
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
