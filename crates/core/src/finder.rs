//! Finds nodes. Holds the runners of all profiles with their caches, and the positions where the next searches start.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Decision, NominatedRow, Runner, ScoreSheet, Search},
    cluster::Cluster,
    extender::{Answers, Extenders},
    guard::PointError,
    meter::Stamp,
    nodeset::{NodeIdx, NodeSet},
    plugin::SignFragment,
    profile::Profile,
    window::{Rotation, Tie, Window},
};

use crate::{
    batch::Batch,
    failure::Failure,
    meter::{BatchResult, Meter},
    queue::QueuedPod,
};

/// Finds nodes for the pods of all profiles.
pub(crate) struct Finder {
    /// One runner per profile.
    runners: Vec<Runner>,
    /// One batch per profile; empty when batching is off.
    batches: Vec<Batch>,
    /// Selects the feasible nodes to score.
    window: Window,
    /// Chooses among equally good nodes.
    tie: Tie,
    /// Positions where the next searches start; shared by all profiles.
    rotation: Rotation,
    extenders: Extenders,
    meter: Option<Arc<dyn Meter>>,
}

impl Finder {
    pub(crate) fn new(profiles: &[Arc<Profile>], (window, tie): (Window, Tie), batching: bool) -> Self {
        Self {
            runners: profiles.iter().cloned().map(Runner::new).collect(),
            batches: if batching { profiles.iter().map(|_| Batch::default()).collect() } else { Vec::new() },
            window,
            tie,
            rotation: Rotation::default(),
            extenders: Extenders::default(),
            meter: None,
        }
    }

    /// Adds extenders.
    pub(crate) fn with_extenders(mut self, extenders: Extenders) -> Self {
        let runners = self.runners.into_iter().map(|runner| runner.with_extenders(extenders.clone()));
        self.runners = runners.collect();
        self.extenders = extenders;
        self
    }

    pub(crate) fn extenders(&self) -> &Extenders {
        &self.extenders
    }

    /// Adds a meter.
    pub(crate) fn with_meter(mut self, meter: Option<Arc<dyn Meter>>) -> Self {
        self.meter = meter;
        self
    }

    /// Replaces profiles and extenders; the next search starts where the last one ended.
    pub(crate) fn reconfigure(
        &mut self,
        profiles: &[Arc<Profile>],
        search: (Window, Tie),
        batching: bool,
        extenders: Extenders,
    ) {
        let (rotation, meter) = (std::mem::take(&mut self.rotation), self.meter.take());
        *self = Self { rotation, meter, ..Self::new(profiles, search, batching).with_extenders(extenders) };
    }

    /// Removes cached answers that no attempt has used since the last call.
    pub(crate) fn forget_unused(&mut self) {
        self.runners.iter_mut().for_each(Runner::forget_unused);
    }

    pub(crate) fn profile(&self, profile: usize) -> &Arc<Profile> {
        self.runners[profile].profile()
    }

    /// Returns the number that determines where the next search for victims starts.
    pub(crate) fn next_offset(&mut self) -> usize {
        self.rotation.next_offset()
    }

    /// Returns true if searches stop where kube-scheduler's searches stop.
    pub(crate) fn is_in_parity(&self) -> bool {
        self.tie == Tie::FirstOnHeap
    }

    /// Finds a node for the pod that the queue handed out as number `cycle`. `within` are the only nodes to consider, if
    /// there are any. The attempt waits for extenders.
    pub(crate) fn find(
        &mut self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
        nodes: (&[NominatedRow], Option<&NodeSet>),
        cycle: u64,
        now: Timestamp,
    ) -> Result<Attempt, Failure> {
        self.find_with(cluster, entry, nodes, &mut Answers::waiting(), (cycle, now))
    }

    /// Like [`Self::find`], but with the given answers of extenders. If they have an open question afterwards, the result
    /// means nothing.
    pub(crate) fn find_with(
        &mut self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
        (nominated, within): (&[NominatedRow], Option<&NodeSet>),
        answers: &mut Answers,
        (cycle, now): (u64, Timestamp),
    ) -> Result<Attempt, Failure> {
        cluster.set_now(now);
        let signature = self.sign(cluster, entry)?;
        let hint = self.hint(cluster, entry, signature.as_deref(), cycle, now);
        let nominated_node = &entry.pod.status.nominated_node_name;
        let preferred: Vec<Str> = nominated_node.iter().chain(&hint).take(1).cloned().collect();
        let search = Search {
            window: self.window,
            tie: self.tie,
            rotation: &mut self.rotation,
            nominated,
            preferred: &preferred,
            within,
        };
        let mut attempt = match self.runners[entry.profile].find_with(cluster, &entry.pod, search, answers) {
            Ok(attempt) => attempt,
            Err(AttemptError::NoNodes) => return Err(Failure::NoNodes),
            Err(error) => return Err(Failure::Error(error.to_string())),
        };
        if let Decision::Node { row, .. } = attempt.decision() {
            let node = cluster.node(*row).name().clone();
            let chosen = (&node, &mut attempt);
            self.remember(entry.profile, hint.as_ref(), signature, chosen, (cycle, now));
        }
        Ok(attempt)
    }

    /// Makes an attempt that considers one node only. Returns `None` if the pod does not fit it.
    pub(crate) fn find_on(
        &mut self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
        nominated: &[NominatedRow],
        row: NodeIdx,
    ) -> Result<Option<Attempt>, Failure> {
        let found = self.runners[entry.profile].find_on(cluster, &entry.pod, nominated, row);
        found.map_err(|error| Failure::Error(error.to_string()))
    }

    /// Returns the scores of the nodes that were compared, or no scores if a plugin fails.
    pub(crate) fn scores(
        &mut self,
        cluster: &mut Cluster,
        profile: usize,
        attempt: &Attempt,
    ) -> Vec<(Str, ScoreSheet)> {
        self.runners[profile].scores(cluster, attempt).unwrap_or_default()
    }

    /// Returns the pod's signature. `None` if batching is off, if the pod cannot be signed, or if plugins
    /// [read the cluster](Runner::reads_cluster) for the pod.
    fn sign(
        &self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
    ) -> Result<Option<Vec<SignFragment>>, PointError> {
        match self.batches.get(entry.profile) {
            Some(_) => self.signature(cluster, entry),
            None => Ok(None),
        }
    }

    /// Like [`Self::sign`], but also if batching is off.
    fn signature(
        &self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
    ) -> Result<Option<Vec<SignFragment>>, PointError> {
        let runner = &self.runners[entry.profile];
        match runner.reads_cluster(cluster, &entry.pod)? {
            true => Ok(None),
            false => runner.profile().sign(&entry.pod),
        }
    }

    /// Returns true if attempts for the two pods have the same result as long as nothing changes: both have the same
    /// spec and signature. Nominations are not taken into account.
    pub(crate) fn are_alike(&self, cluster: &mut Cluster, one: &QueuedPod, other: &QueuedPod) -> bool {
        let has_same_spec = one.profile == other.profile && Arc::ptr_eq(&one.pod.derived, &other.pod.derived);
        if !has_same_spec || !self.extenders.is_empty() {
            return false;
        }
        match (self.signature(cluster, one), self.signature(cluster, other)) {
            (Ok(Some(one)), Ok(Some(other))) => one == other,
            _ => false,
        }
    }

    /// Returns the next node of the last ranking, if that ranking is valid for the pod.
    fn hint(
        &mut self,
        cluster: &mut Cluster,
        entry: &QueuedPod,
        signature: Option<&[SignFragment]>,
        cycle: u64,
        now: Timestamp,
    ) -> Option<Str> {
        let batch = self.batches.get_mut(entry.profile)?;
        let runner = &mut self.runners[entry.profile];
        let is_full = |node: &Str| {
            let row = cluster.find(node)?;
            Some(runner.rejects(cluster, &entry.pod, row).unwrap_or(false))
        };
        let measured = BatchMeter::begin(self.meter.as_deref(), entry.profile);
        let hint = batch.hint(signature, cycle, now, is_full);
        let flush_reason = batch.take_flush_reason();
        if let Some(measured) = measured {
            measured.looked_up(hint.as_ref(), flush_reason);
        }
        hint
    }

    /// Remembers the node chosen for the pod, and the ranking, for use by the next pod with the same signature.
    fn remember(
        &mut self,
        profile: usize,
        hint: Option<&Str>,
        signature: Option<Vec<SignFragment>>,
        chosen: (&Str, &mut Attempt),
        (cycle, now): (u64, Timestamp),
    ) {
        let (Some(batch), (node, attempt)) = (self.batches.get_mut(profile), chosen) else { return };
        let measured = BatchMeter::begin(self.meter.as_deref(), profile);
        batch.chosen(node, hint, signature, attempt.take_ranking(), cycle, now);
        let flush_reason = batch.take_flush_reason();
        if let Some(measured) = measured {
            measured.updated(hint, node, flush_reason);
        }
    }
}

/// Measures one step of opportunistic batching.
struct BatchMeter<'a> {
    meter: &'a dyn Meter,
    profile: usize,
    begun: Stamp,
}

impl<'a> BatchMeter<'a> {
    /// Begins the step, if there is a meter.
    fn begin(meter: Option<&'a dyn Meter>, profile: usize) -> Option<Self> {
        meter.map(|meter| Self { meter, profile, begun: meter.now() })
    }

    /// Ends the lookup of a node in the cached ranking; `hint` is that node, if there is one.
    fn looked_up(&self, hint: Option<&Str>, flush_reason: Option<&'static str>) {
        self.flushed(flush_reason);
        self.meter.batch_lookup(self.profile, hint.is_some(), self.begun);
        if hint.is_none() {
            self.meter.batched(self.profile, BatchResult::NoHint);
        }
    }

    /// Ends the update after `node` was chosen; `hint` is the node that the lookup returned.
    fn updated(&self, hint: Option<&Str>, node: &Str, flush_reason: Option<&'static str>) {
        self.meter.batch_update(self.profile, self.begun);
        self.flushed(flush_reason);
        if let Some(hint) = hint {
            let used = if hint == node { BatchResult::HintUsed } else { BatchResult::HintNotUsed };
            self.meter.batched(self.profile, used);
        }
    }

    fn flushed(&self, reason: Option<&'static str>) {
        reason.iter().for_each(|reason| self.meter.batch_flushed(self.profile, reason));
    }
}
