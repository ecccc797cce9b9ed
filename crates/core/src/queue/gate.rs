//! The ways into the parts of the queue. PreEnqueue is the gate: what it rejects becomes unschedulable.

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{
    cycle::EnqueueCycle,
    guard::{PointError, Stopped},
    meter::{Stage, Status},
    sweep::PluginIdx,
};

use super::{Cause, EnqueueFailure, Entity, Moment, Origin, Queue, QueueState, QueuedPod};

impl Queue {
    pub(super) fn enter_active(&mut self, entity: Entity, origin: Origin, at: Moment<'_>) {
        match self.gate(&entity, at) {
            Ok(Some(gate)) => self.put_gated(entity, gate, origin),
            Ok(None) => self.push_active(entity, origin, at),
            Err(error) => self.put_failed(entity, error, origin, at),
        }
    }

    /// Moves an element out of backoff. PreEnqueue plugins were called before the backoff began, and are called again
    /// only if one of them or the QueueSort plugin failed.
    pub(super) fn leave_backoff(&mut self, entity: Entity, cause: Cause, at: Moment<'_>) {
        let origin = Origin::backoff(cause);
        match entity.gate_failed {
            true => self.enter_active(entity, origin, at),
            false => self.push_active(entity, origin, at),
        }
    }

    pub(super) fn push_active(&mut self, mut entity: Entity, origin: Origin, at: Moment<'_>) {
        entity.gated_by = None;
        entity.first_active.get_or_insert(at.now);
        for entry in entity.pods_mut() {
            entry.first_active.get_or_insert(at.now);
        }
        entity.gate_failed = false;
        self.note_move(&entity, origin, QueueState::Active);
        let key = entity.key().clone();
        self.parts.add_active(entity, at.objects);
        if let Some(panic) = self.parts.take_active_panic()
            && let Some((_, entity)) = self.parts.take(&key)
        {
            self.put_failed(entity, panic, origin, at);
        }
    }

    pub(super) fn enter_backoff(&mut self, mut entity: Entity, origin: Origin, at: Moment<'_>) {
        match self.gate(&entity, at) {
            Ok(None) => {}
            Ok(Some(gate)) => return self.put_gated(entity, gate, origin),
            Err(error) => return self.put_failed(entity, error, origin, at),
        }
        entity.gated_by = None;
        entity.gate_failed = false;
        self.note_move(&entity, origin, QueueState::Backoff);
        self.parts.add_backoff(entity, at.objects);
    }

    /// Handles a plugin failure: the element backs off as after a failed attempt, and the plugins are called again when
    /// the backoff ends.
    fn put_failed(&mut self, mut entity: Entity, error: PointError, origin: Origin, at: Moment<'_>) {
        entity.since = at.now;
        entity.gated_by = None;
        entity.gate_failed = true;
        self.count_rejectors(&entity, false);
        entity.rejectors.clear();
        entity.pending.clear();
        entity.consecutive_errors += 1;
        entity.backoff_until = self.backoff.end(&entity);
        self.note_move(&entity, origin, QueueState::Backoff);
        if let Some(entry) = entity.pods().first() {
            self.failed.push(EnqueueFailure { pod: entry.pod.clone(), error, since: at.now });
        }
        self.parts.add_backoff(entity, at.objects);
    }

    /// Returns the PreEnqueue plugin that gates the element, if any: the first one that rejects a pod. The plugin that
    /// gated it last time is called first.
    pub(super) fn gate(&self, entity: &Entity, at: Moment<'_>) -> Result<Option<&'static str>, PointError> {
        for entry in entity.pods() {
            if let Some(gate) = self.gate_of(entity, entry, at)? {
                return Ok(Some(gate));
            }
        }
        Ok(None)
    }

    /// Returns the PreEnqueue plugin that rejects one pod of the element, if any.
    pub(super) fn gate_of(
        &self,
        entity: &Entity,
        entry: &QueuedPod,
        at: Moment<'_>,
    ) -> Result<Option<&'static str>, PointError> {
        // The stage is always measured as a success, as in kube-scheduler.
        let profile = &self.profiles[entity.profile];
        profile.measured(Stage::PreEnqueue, |_| Status::Success, || self.call_gates(entity, entry, at))
    }

    fn call_gates(
        &self,
        entity: &Entity,
        entry: &QueuedPod,
        at: Moment<'_>,
    ) -> Result<Option<&'static str>, PointError> {
        let profile = &self.profiles[entity.profile];
        let mut gates: Vec<PluginIdx> = profile.at(ExtensionPoint::PreEnqueue).to_vec();
        gates.sort_by_key(|g| Some(profile.plugin(*g).name()) != entity.gated_by);
        let cx = EnqueueCycle {
            pod: &entry.pod,
            objects: at.objects,
            awaits_eviction: self.held_for_eviction.contains(entity.key()),
            group: entry.pod.group().and_then(|group| at.groups.view(group)),
        };
        for gate in gates {
            match profile.plugin(gate).pre_enqueue(cx) {
                Ok(()) => {}
                Err(Stopped::Reject(plugin, _)) => return Ok(Some(plugin)),
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) fn put_gated(&mut self, mut entity: Entity, gate: &'static str, origin: Origin) {
        entity.gated_by = Some(gate);
        if !entity.rejectors.contains(&gate) {
            entity.rejectors.push(gate);
            if !entity.pending.contains(&gate) {
                self.count_rejector(&entity, gate, true);
            }
        }
        self.put_unschedulable(entity, origin);
    }
}
