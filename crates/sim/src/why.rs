//! Answers to "why is this pod pending?", with the smallest changes that would place the pod.
//!
//! Reading order: `change` (one change and its effect on a pod), `edits` (its effect on the cluster), `trials` (tries
//! changes on the cluster; `objects` are what they replace or add), `ideas` (changes worth trying, with
//! `device_counts`), `pod_remedies` (changes to the pod), `cluster_remedies` (changes to the rest of the cluster, with `obstacles`, `repulsion`,
//! `storage` and `promotion`), `pairs` (changes to both), `wakers` (events after which the
//! pod is tried again), `groups` (gangs: each trial places all members), `standing` (the node of a placed pod, compared with others).
//!
//! Invariant: a remedy is listed only after the profile's plugins have accepted the changed pod on the changed cluster.

mod change;
mod cluster_remedies;
mod device_counts;
mod edits;
mod groups;
mod ideas;
mod lowering;
mod objects;
mod obstacles;
mod pairs;
mod pod_remedies;
mod promotion;
mod repulsion;
mod standing;
mod storage;
mod trials;
mod wakers;
mod workload;

use std::{fmt, sync::Arc};

use harbormaster_api::Pod;
use harbormaster_core::{EngineConfig, cache::Cache};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};
use serde::Serialize;

pub use change::{Change, Move, Place};
pub use groups::{GroupState, StuckMember};
pub use promotion::Victims;
pub use standing::{Contrast, RankedNode, Standing};
pub use wakers::Waker;

use crate::{
    explain::Judge,
    explanation::PodExplanation,
    inventory::Inventory,
    report::PodReport,
    simulate::{explain_simulated, simulate_for_questions},
};
use groups::{GroupTrials, Members};
use objects::Objects;
use promotion::{PriorityClass, priority_classes};
use trials::Trials;
use wakers::wakers;

/// The answer for one pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// State of the pod after the simulation.
    pub pod: PodReport,
    /// For a waiting pod, the verdicts at the end of the simulation; for a placed pod, those of the attempt that placed
    /// it. For a gang of which too few members fit, the verdicts on a member that finds no node beside those that do.
    /// `None` if no profile has the pod's scheduler name.
    pub explanation: Option<PodExplanation>,
    /// The gang that keeps the pod waiting because too few of its members get nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupState>,
    /// For a placed pod, its node and the next best.
    pub standing: Option<Standing>,
    /// Events that make the scheduler try the waiting pod again, for each plugin that rejects it on some node.
    pub woken_by: Vec<Waker>,
    /// Pods that the scheduler would evict for the waiting pod as it is. A simulation evicts them itself.
    pub evicts: Option<Victims>,
    /// Changes that would place the waiting pod, the smallest first.
    pub remedies: Vec<Remedy>,
}

impl Why {
    /// Compares the pod's node with the next best.
    fn compare(&mut self) {
        let (Some(node), Some(said)) = (&self.pod.node, &self.explanation) else { return };
        self.standing = Some(Standing::of(node, said));
    }

    fn new(pod: PodReport, explanation: Option<PodExplanation>) -> Self {
        Self {
            pod,
            explanation,
            group: None,
            standing: None,
            woken_by: Vec::new(),
            evicts: None,
            remedies: Vec::new(),
        }
    }
}

/// Changes that together place the pod, while none of them does without the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The changes.
    pub changes: Vec<Change>,
    /// Number of nodes on which the pod fits after the changes.
    pub fits: usize,
    /// One of these nodes.
    pub example: String,
    /// For a gang, the number of members that get nodes. Changes to the pod then concern all its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
}

impl Remedy {
    /// Returns the pod after the changes that concern the pod itself.
    pub fn changed(&self, pod: &Pod) -> Pod {
        change::changed(pod, &self.changes)
    }

    /// Returns the order of remedies: fewer changes first, then smaller ones, then those that open more nodes.
    fn rank(&self) -> (usize, u64, std::cmp::Reverse<usize>) {
        let size = self.changes.iter().map(Change::size).sum();
        (self.changes.len(), size, std::cmp::Reverse(self.fits))
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, change) in self.changes.iter().enumerate() {
            let (and, all) = (
                if at > 0 { ", and " } else { "" },
                if self.members.is_some() && change.is_of_pod() { " in all members" } else { "" },
            );
            write!(f, "{and}{change}{all}")?;
        }
        Ok(())
    }
}

/// Explains the pending pod `name` (`namespace/name`), after the other pending pods have been scheduled as far as they
/// fit. Returns `None` if there is no such pod.
///
/// Calls `progress` like [`crate::simulate()`].
///
/// # Errors
/// If a plugin fails on the pod.
pub fn why(
    config: EngineConfig,
    cluster: Inventory,
    name: &str,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<Why>, AttemptError> {
    let Some(pod) = cluster.pending.iter().find(|pod| pod.full_name() == name).cloned() else {
        return Ok(None);
    };
    let facts = (priority_classes(&cluster), Objects::of(&config, &cluster, &pod));
    let again = cluster.clone();
    let (report, settled) = simulate_for_questions(config.clone(), cluster, progress);
    let Some(told) = report.pods.iter().find(|told| told.pod == name).cloned() else { return Ok(None) };
    if told.node.is_none() {
        if let Some(members) = settled.open_gang(&pod.uid).and_then(|gang| Members::of(gang, &again)) {
            let trials = GroupTrials::new(settled, members, facts.1, told.pod.clone());
            return Ok(Some(answer_for_gang(&config, trials, pod, told)));
        }
        return answer(&config, Judge::over(&config, settled.into_cache()), pod, told, facts).map(Some);
    }
    let mut answer = Why::new(told, None);
    explain_simulated(config, again, &report, &|told| told.pod == name, &mut |_, said| {
        answer.explanation = Some(said);
    });
    answer.compare();
    Ok(Some(answer))
}

/// Explains the pod `name` (`namespace/name`), which is on a node, on the cluster without it and without pending pods.
/// Returns `None` if there is no such pod.
pub fn why_placed(config: &EngineConfig, mut cluster: Inventory, name: &str) -> Option<Why> {
    let at = cluster.bound.iter().position(|pod| pod.full_name() == name)?;
    let mut pod = cluster.bound.remove(at);
    cluster.pending.clear();
    let node = pod.node_name.take();
    pod.status.nominated_node_name = None;
    let (mut judge, _) = Judge::of(config, cluster);
    let info = judge.cache.info(pod);
    let mut told = PodReport::of(&info);
    told.node = node.map(|node| node.as_str().to_owned());
    let mut answer = Why::new(told, judge.explain(&info));
    answer.compare();
    Some(answer)
}

/// Explains why a pod got `node` on the cluster in an engine's cache, which is as it was before that decision. The profiles
/// of `config` must be those of the engine.
pub fn why_decided(config: &EngineConfig, cache: Cache, pod: &Arc<PodInfo>, node: &str) -> Why {
    let mut told = PodReport::of(pod);
    (told.node, told.attempts) = (Some(node.to_owned()), 1);
    let mut answer = Why::new(told, Judge::over(config, cache).explain(pod));
    answer.compare();
    answer
}

/// Explains the pending pod `name` (`namespace/name`) on the cluster as it is, without the other pending pods except
/// those of its group. Returns `None` if there is no such pod.
///
/// # Errors
/// If a plugin fails on the pod.
pub fn why_independent(
    config: &EngineConfig,
    cluster: Inventory,
    name: &str,
) -> Result<Option<Why>, AttemptError> {
    if let Some(answer) = why_member(config, &cluster, name)? {
        return Ok(Some(answer));
    }
    let Some(pod) = cluster.pending.iter().find(|pod| pod.full_name() == name) else { return Ok(None) };
    let facts = (priority_classes(&cluster), Objects::of(config, &cluster, pod));
    let (mut judge, pending) = Judge::of(config, cluster);
    let Some(pod) = pending.iter().find(|pod| pod.full_name() == name) else { return Ok(None) };
    let told = judge.report(pod);
    answer(config, judge, Pod::clone(&pod.pod), told, facts).map(Some)
}

/// Explains a pending pod on the cluster without pending pods of other groups. Returns `None` unless its gang keeps it
/// waiting.
fn why_member(config: &EngineConfig, cluster: &Inventory, name: &str) -> Result<Option<Why>, AttemptError> {
    let named = cluster.pending.iter().find(|pod| pod.full_name() == name);
    let Some(pod) = named.filter(|pod| pod.spec.pod_group.is_some()).cloned() else { return Ok(None) };
    let mut cluster = cluster.clone();
    let is_member =
        |other: &Pod| other.spec.pod_group == pod.spec.pod_group && other.namespace == pod.namespace;
    cluster.pending.retain(is_member);
    let answer = why(config.clone(), cluster, name, &mut |_, _| {})?;
    Ok(answer.filter(|answer| answer.group.is_some()))
}

/// Explains a member of a gang, and finds remedies for the gang.
fn answer_for_gang(config: &EngineConfig, mut trials: GroupTrials, pod: Pod, told: PodReport) -> Why {
    let fits = trials.state().fits;
    trials.stage.clear();
    let remedies = trials.remedies(fits);
    let state = trials.state();
    if state.stuck.is_none() {
        trials.stage.clear();
    }
    let stuck = state.stuck.as_ref().map(|stuck| stuck.pod.as_str());
    let waiting = &trials.gang.waiting;
    let explained =
        waiting.iter().find(|pod| Some(pod.full_name().as_str()) == stuck).unwrap_or(&pod).clone();
    let mut judge = Judge::over(config, trials.stage.into_cache());
    let info = judge.cache.info(explained);
    let mut answer = Why::new(told, judge.explain(&info));
    if let Some(profile) = config.profiles.iter().find(|profile| *profile.name() == pod.spec.scheduler_name) {
        answer.woken_by = wakers(profile, answer.explanation.as_ref(), answer.pod.pre_enqueue.as_ref());
    }
    answer.group = Some(state);
    answer.remedies = remedies;
    answer.remedies.sort_by_key(Remedy::rank);
    answer
}

/// Explains a pod on the cluster of `judge`, and finds remedies if the pod has no node.
fn answer(
    config: &EngineConfig,
    mut judge: Judge,
    pod: Pod,
    told: PodReport,
    (classes, objects): (Vec<PriorityClass>, Objects),
) -> Result<Why, AttemptError> {
    let info = judge.cache.info(pod.clone());
    let explanation = judge.explain(&info);
    let mut answer = Why::new(told, explanation);
    let profile = config.profiles.iter().find(|profile| *profile.name() == pod.spec.scheduler_name);
    let Some(profile) = profile.filter(|_| answer.pod.node.is_none()) else {
        answer.compare();
        return Ok(answer);
    };
    answer.woken_by = wakers(profile, answer.explanation.as_ref(), answer.pod.pre_enqueue.as_ref());
    let limited = storage::limited(answer.explanation.as_ref());
    let mut trials = Trials { judge, pod, classes, objects, limited };
    // Gates do not depend on the cluster, so a gated pod that fits needs no other change.
    if trials.fits(&[])?.is_empty() {
        answer.evicts = trials.evicts()?;
        answer.remedies = trials.pod_remedies()?;
        answer.remedies.extend(trials.cluster_remedies()?);
        answer.remedies.extend(trials.storage_remedies()?);
        if answer.evicts.is_none() {
            answer.remedies.extend(trials.raise_priority(&[])?);
        }
        if answer.remedies.is_empty() {
            answer.remedies = trials.pairs()?;
        }
        answer.remedies.sort_by_key(Remedy::rank);
    }
    Ok(answer)
}
