//! Collects notes and effects, and writes the texts of conditions and events.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    api_call::ApiCall, attempt::ScoreSheet, diagnosis::Diagnosis, index::Contradiction, pod::PodInfo,
    resource::Undecodable,
};

use crate::{
    effect::{
        AskTask, BindTask, CallOffTask, CallTask, Condition, Effect, EvictTask, GroupCall, PodEvent,
        StatusPatch, cut_note,
    },
    evictions::Preemption,
    nominator::NewNomination,
    note::{Note, Notes},
    watchdog::Stuck,
};

/// Collects effects and notes, in order, until the host takes them.
#[derive(Debug)]
pub(crate) struct Reporter {
    effects: Vec<Effect>,
    wanted: Notes,
    notes: Vec<Note>,
}

impl Reporter {
    pub(crate) fn new(wanted: Notes) -> Self {
        Self { effects: Vec::new(), wanted, notes: Vec::new() }
    }

    pub(crate) fn set_notes(&mut self, wanted: Notes) {
        self.wanted = wanted;
    }

    /// Takes the effects since the last call.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes the notes since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    // --- tasks ---

    pub(crate) fn bind(&mut self, task: BindTask) {
        self.effects.push(Effect::Bind(task));
    }

    pub(crate) fn evict(&mut self, task: EvictTask) {
        self.effects.push(Effect::Evict(task));
    }

    /// Puts a question to extenders.
    pub(crate) fn ask(&mut self, task: AskTask) {
        self.effects.push(Effect::Ask(task));
    }

    /// Calls off the binding of a pod.
    pub(crate) fn call_off(&mut self, pod: &Str, why: &'static str) {
        self.effects.push(Effect::CallOff(CallOffTask { pod: pod.clone(), why }));
    }

    /// Sends the API requests that plugins make because the pod gives up its node or has found none.
    pub(crate) fn call(&mut self, pod: &Arc<PodInfo>, calls: Vec<ApiCall>) {
        if !calls.is_empty() {
            self.effects.push(Effect::Call(CallTask { pod: pod.clone(), calls }));
        }
    }

    /// Sends an API request about a group.
    pub(crate) fn about_group(&mut self, call: GroupCall) {
        self.effects.push(Effect::Group(call));
    }

    /// Sets the pod's `nominatedNodeName` and changes nothing else.
    pub(crate) fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<Str>) {
        let patch = StatusPatch { pod: pod.clone(), condition: None, nominated_node: Some(node) };
        self.effects.push(Effect::PatchStatus(patch));
    }

    // --- results ---

    /// Reports a bound pod.
    pub(crate) fn scheduled(&mut self, pod: &Arc<PodInfo>, node: &Str) {
        self.event(PodEvent {
            pod: pod.clone(),
            warning: false,
            reason: "Scheduled",
            action: "Binding",
            note: format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name),
            reporter: profile_of(pod),
        });
    }

    /// Reports a pod that was skipped because it is being deleted.
    pub(crate) fn skipped(&mut self, pod: &Arc<PodInfo>) {
        self.failed_event(pod, &format!("skip schedule deleting pod: {}", pod.full_name()));
    }

    /// Reports a failed attempt or binding.
    pub(crate) fn failed(
        &mut self,
        pod: &Arc<PodInfo>,
        (reason, message): (&'static str, String),
        nomination: NewNomination,
        now: Timestamp,
    ) {
        self.failed_event(pod, &message);
        self.patch_condition(pod, reason, message, nomination, now);
    }

    /// Reports a pod that was preempted. Appends `how` to the event's note.
    pub(crate) fn preempted(&mut self, victim: &Arc<PodInfo>, preemption: &Preemption, how: &str) {
        let Preemption { uid, kind, scheduler, place, .. } = preemption;
        self.event(PodEvent {
            pod: victim.clone(),
            warning: false,
            reason: "Preempted",
            action: "Preempting",
            note: format!("Preempted by {kind} {uid} on node {place}{how}"),
            reporter: scheduler.clone(),
        });
    }

    fn event(&mut self, event: PodEvent) {
        self.effects.push(Effect::Event(event));
    }

    fn failed_event(&mut self, pod: &Arc<PodInfo>, note: &str) {
        self.event(PodEvent {
            pod: pod.clone(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: cut_note(note),
            reporter: profile_of(pod),
        });
    }

    /// Patches only the fields that differ from the engine's version of the pod.
    fn patch_condition(
        &mut self,
        pod: &Arc<PodInfo>,
        reason: &'static str,
        message: String,
        nomination: NewNomination,
        now: Timestamp,
    ) {
        let current = pod.condition("PodScheduled");
        let same = current
            .is_some_and(|c| c.status == "False" && c.reason == reason && c.message == message.as_str());
        let moved = current.filter(|c| c.status == "False").and_then(|c| c.last_transition);
        let condition = (!same).then(|| Condition { reason, message, last_transition: moved.unwrap_or(now) });
        let nominated = &pod.status.nominated_node_name;
        let nominated_node = match nomination {
            NewNomination::Keep => None,
            NewNomination::Clear => nominated.is_some().then_some(None),
            NewNomination::Set(node) => (nominated.as_ref() != Some(&node)).then_some(Some(node)),
        };
        if condition.is_some() || nominated_node.is_some() {
            let pod = pod.clone();
            self.effects.push(Effect::PatchStatus(StatusPatch { pod, condition, nominated_node }));
        }
    }

    // --- for log lines ---

    /// Notes a plugin failure that belongs to no attempt; `pod` is the pod concerned, if there is one.
    pub(crate) fn note_plugin_failure(&mut self, pod: Option<Arc<PodInfo>>, error: String) {
        self.notes.push(Note::PluginFailed { pod, error });
    }

    /// Notes a custom object that cannot be decoded.
    pub(crate) fn note_undecodable(&mut self, object: Undecodable) {
        self.notes.push(Note::Undecodable(object));
    }

    /// Notes objects that contradict each other.
    pub(crate) fn note_contradiction(&mut self, found: Contradiction) {
        self.notes.push(Note::Contradiction(found));
    }

    /// Notes a pod that would wait for ever.
    pub(crate) fn note_stuck(&mut self, pod: Arc<PodInfo>, why: Stuck) {
        self.notes.push(Note::Stuck { pod, why });
    }

    pub(crate) fn wants_scores(&self) -> bool {
        self.wanted.scores
    }

    /// Notes the scores of the nodes that were compared.
    pub(crate) fn note_scores(&mut self, pod: &Arc<PodInfo>, sheets: Vec<(Str, ScoreSheet)>) {
        for (node, sheet) in &sheets {
            let scored = |(plugin, _, _, score): &(&'static str, i64, i64, i64)| {
                let (plugin, score) = (*plugin, *score);
                Note::Scored { pod: pod.clone(), node: node.clone(), plugin, score }
            };
            self.notes.extend(sheet.plugins.iter().map(scored));
        }
        let total =
            |(node, sheet): (Str, ScoreSheet)| Note::Total { pod: pod.clone(), node, score: sheet.total };
        self.notes.extend(sheets.into_iter().map(total));
    }

    /// Notes the number of nodes that each plugin rejected, if rejections are to be noted.
    pub(crate) fn note_rejections(&mut self, pod: &Arc<PodInfo>, diagnosis: &Diagnosis) {
        if !self.wanted.rejections {
            return;
        }
        let whole = diagnosis.pre_filter.as_ref();
        let whole =
            whole.map(|(plugin, reject)| (plugin.unwrap_or_default(), reject.message(), diagnosis.nodes));
        let single = diagnosis.rejections.iter().map(|((plugin, why), nodes)| (*plugin, why.clone(), *nodes));
        let note = |(plugin, reason, nodes)| Note::Rejected { pod: pod.clone(), plugin, reason, nodes };
        self.notes.extend(whole.into_iter().chain(single).map(note));
    }
}

/// Reporter of a pod's events: the name of the pod's profile, which is the pod's scheduler name.
fn profile_of(pod: &PodInfo) -> Str {
    pod.spec.scheduler_name.clone()
}
