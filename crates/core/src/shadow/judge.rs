//! Decisions of the shadow, and their comparison with those of the other scheduler.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Decision, Explanation, NominatedRow, Runner, ScoreSheet, Search},
    cluster::Cluster,
    nodeset::NodeIdx,
    pod::PodInfo,
    profile::Profile,
    window::{Rotation, Tie, Window},
};

use super::Finding;
use crate::EngineConfig;

/// Decides about single pods with the plugins of the profiles.
pub(super) struct Judge {
    runners: Vec<Runner>,
    window: Window,
    tie: Tie,
    rotation: Rotation,
}

impl Judge {
    /// Unless decisions must be those of kube-scheduler, the judge scores all nodes.
    pub(super) fn new(config: &EngineConfig) -> Self {
        let (window, tie) = if config.parity { config.search() } else { (Window::All, Tie::Rotate) };
        let runners = config.profiles.iter().cloned().map(Runner::new).collect();
        Self { runners, window, tie, rotation: Rotation::default() }
    }

    /// Returns true if decisions must be those of kube-scheduler, also among equally good nodes.
    pub(super) fn is_in_parity(&self) -> bool {
        self.tie == Tie::FirstOnHeap
    }

    /// Returns true if the finding is a difference.
    pub(super) fn objects_to(&self, finding: &Finding) -> bool {
        finding.is_difference() || self.is_in_parity() && matches!(finding, Finding::Equal { .. })
    }

    pub(super) fn profile(&self, profile: usize) -> &Arc<Profile> {
        self.runners[profile].profile()
    }

    /// Returns where the next search starts.
    pub(super) fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// Lets the next search start at `rotation`, so that searches in between do not count.
    pub(super) fn turn_back(&mut self, rotation: Rotation) {
        self.rotation = rotation;
    }

    /// Returns the profile that the pod names, if there is one.
    pub(super) fn profile_of(&self, pod: &PodInfo) -> Option<usize> {
        self.runners.iter().position(|runner| *runner.profile().name() == pod.spec.scheduler_name)
    }

    pub(super) fn forget_unused(&mut self) {
        self.runners.iter_mut().for_each(Runner::forget_unused);
    }

    /// Finds the best node.
    pub(super) fn find(
        &mut self,
        cluster: &mut Cluster,
        profile: usize,
        pod: &Arc<PodInfo>,
        nominated: &[NominatedRow],
    ) -> Result<Attempt, AttemptError> {
        let search = Search {
            window: self.window,
            tie: self.tie,
            rotation: &mut self.rotation,
            nominated,
            preferred: pod.status.nominated_node_name.as_slice(),
            within: None,
        };
        self.runners[profile].find(cluster, pod, search)
    }

    /// Compares what was found with the other scheduler's decision.
    pub(super) fn weigh(
        &mut self,
        cluster: &mut Cluster,
        profile: usize,
        pod: &Arc<PodInfo>,
        found: Result<Attempt, AttemptError>,
        theirs: Option<&Str>,
    ) -> Finding {
        let attempt = match (found, theirs) {
            (Ok(attempt), _) => attempt,
            (Err(AttemptError::NoNodes), None) => return Finding::BothWait,
            (Err(error @ AttemptError::NoNodes), Some(_)) => {
                return Finding::Waits { message: error.to_string(), plugin: None };
            }
            (Err(error), _) => return Finding::Failed { error: error.to_string() },
        };
        let row = match (attempt.decision(), theirs) {
            (Decision::Unschedulable(_), None) => return Finding::BothWait,
            (Decision::Unschedulable(diagnosis), Some(theirs)) => {
                let plugin = cluster.find(theirs).and_then(|row| attempt.rejected_by(row));
                return Finding::Waits { message: diagnosis.message(), plugin };
            }
            (Decision::Node { row, .. }, _) => *row,
        };
        let ours = cluster.node(row).name().clone();
        let Some(theirs) = theirs else { return Finding::Places { ours } };
        if ours == *theirs {
            return Finding::Same;
        }
        let Some(other) = cluster.find(theirs) else {
            return Finding::Rejected { ours, plugin: None, reason: "the node is unknown".to_owned() };
        };
        self.weigh_nodes(cluster, profile, pod, &attempt, [row, other])
            .unwrap_or_else(|error| Finding::Failed { error: error.to_string() })
    }

    fn weigh_nodes(
        &mut self,
        cluster: &mut Cluster,
        profile: usize,
        pod: &Arc<PodInfo>,
        attempt: &Attempt,
        [row, other]: [NodeIdx; 2],
    ) -> Result<Finding, AttemptError> {
        let runner = &mut self.runners[profile];
        let [ours, theirs] = [row, other].map(|row| cluster.node(row).name().clone());
        if let Some([mine, their]) = runner.scores_of(cluster, attempt, [row, other])? {
            return Ok(Finding::by_scores(ours, &mine, &their));
        }
        let Explanation { nodes, scores, .. } = runner.explain(cluster, pod)?;
        let rejection = nodes.into_iter().find_map(|(node, why)| why.filter(|_| node == theirs));
        if let Some(rejection) = rejection {
            let (plugin, reason) = (rejection.plugin, rejection.reject.message());
            return Ok(Finding::Rejected { ours, plugin, reason });
        }
        let sheet = |node: &Str| scores.iter().find(|(name, _)| name == node).map(|(_, sheet)| sheet);
        Ok(match (pod.status.nominated_node_name.as_ref() == Some(&ours), sheet(&ours), sheet(&theirs)) {
            // The pod's nominated node was chosen without a look at the others.
            (true, Some(mine), Some(their)) => ranked(ours, mine, their),
            _ => Finding::Rejected {
                ours,
                plugin: None,
                reason: "the room is kept for pods that are nominated to the node".to_owned(),
            },
        })
    }
}

/// Compares a nominated node, which is preferred whatever its score is.
fn ranked(ours: Str, mine: &ScoreSheet, their: &ScoreSheet) -> Finding {
    match Finding::by_scores(ours, mine, their) {
        Finding::Equal { ours } => Finding::Elsewhere { ours, gaps: Vec::new() },
        finding => finding,
    }
}
