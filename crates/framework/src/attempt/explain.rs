//! Explanations for human readers and oracles: why nodes do not fit, and the scores of the nodes that fit.

use std::sync::Arc;

use harbormaster_api::Str;

use super::{
    Attempt, AttemptError, Candidates, Decision, Runner, draft::Draft, filter::Narrowing, score::CachedScores,
};
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    extender::{Answers, EXTENDER},
    nodeset::NodeIdx,
    outcome::Reject,
    pod::PodInfo,
    sweep::PluginIdx,
};

/// Scores of one node, for human readers: raw, normalized and weighted, per scorer of the profile.
#[derive(Clone, Debug, Default)]
pub struct ScoreSheet {
    /// Sum of the weighted scores.
    pub total: i64,
    /// Per scorer: the plugin, its raw score, its score in 0..=100, and that score times the weight. If extenders add
    /// to the sum, the last entry is for the extenders, and all three of its values are the amount that they add.
    pub plugins: Vec<(&'static str, i64, i64, i64)>,
}

impl ScoreSheet {
    fn add(&mut self, plugin: &'static str, (raw, normalized, weighted): (i64, i64, i64)) {
        self.total += weighted;
        self.plugins.push((plugin, raw, normalized, weighted));
    }
}

impl Candidates {
    fn rows(&self) -> Vec<NodeIdx> {
        match self {
            Self::Listed(rows) => rows.clone(),
            Self::All(rows) => rows.iter().collect(),
        }
    }
}

/// Rejections and scores of all nodes for one pod, for human readers and oracles.
#[derive(Debug, Default)]
pub struct Explanation {
    /// The plugin whose PreFilter rejected the pod for all nodes (`None` for the framework itself), and its rejection.
    pub pre_filter: Option<(Option<&'static str>, Reject)>,
    /// For each node, in the order visited: the rejection, or `None` if the pod fits.
    pub nodes: Vec<(Str, Option<NodeRejection>)>,
    /// Scores of the nodes that fit.
    pub scores: Vec<(Str, ScoreSheet)>,
}

/// Rejection of one node.
#[derive(Clone, Debug)]
pub struct NodeRejection {
    /// Plugin that rejects the node; `None` for the framework itself.
    pub plugin: Option<&'static str>,
    /// The rejection.
    pub reject: Reject,
    /// Shortfall of the node, in the plugin's own terms.
    pub lacks: Option<String>,
}

impl Draft {
    fn node_rejection(
        &self,
        cx: &Cycle<'_>,
        plugin: PluginIdx,
        reject: &Reject,
        row: NodeIdx,
    ) -> NodeRejection {
        let slot = self.states.get(plugin.at());
        let lacks = slot.and_then(|slot| self.profile.plugin(plugin).lacks(cx, slot, row));
        NodeRejection { plugin: Some(self.profile.name_of(plugin)), reject: reject.clone(), lacks }
    }
}

impl Runner {
    /// Collects the rejection of every node that does not fit, and the scores of the nodes that fit. Nominated pods are
    /// not counted on their nodes. Extenders are called as in an attempt that evaluates all nodes.
    ///
    /// # Errors
    /// Same as [`Self::find`].
    pub fn explain(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
    ) -> Result<Explanation, AttemptError> {
        let mut explanation = Explanation::default();
        let mut draft = match self.narrow(cluster, pod, None)? {
            Narrowing::Continue(draft) => draft,
            Narrowing::Ended(attempt) => {
                if let Decision::Unschedulable(diagnosis) = attempt.into_decision() {
                    explanation.pre_filter = diagnosis.pre_filter;
                }
                return Ok(explanation);
            }
        };
        let asks_extenders = self.filter_all(cluster, &mut draft)?;
        let open = draft.open(cluster);
        let verdicts = self.verdicts(&draft, &open);
        let cx = Cycle::new(cluster, pod);
        for row in cluster.order() {
            let why = match open.contains(*row) {
                true => verdicts
                    .get(*row)
                    .map(|(plugin, reject)| draft.node_rejection(&cx, *plugin, reject, *row)),
                false => {
                    Some(NodeRejection { plugin: None, reject: draft.restriction.outside(), lacks: None })
                }
            };
            explanation.nodes.push((cluster.node(*row).name().clone(), why));
        }
        let candidates = fitting(cluster, &draft);
        if !candidates.is_empty() {
            explanation.scores = self.sheets(cluster, &draft, &candidates)?;
            if asks_extenders {
                self.add_extenders(cluster, &draft, &candidates, &mut explanation.scores)?;
            }
        }
        Ok(explanation)
    }

    /// Returns the nodes on which the pod fits, in the order visited. Nominated pods are not counted on their nodes.
    ///
    /// # Errors
    /// Same as [`Self::find`].
    pub fn fitting(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
    ) -> Result<Vec<NodeIdx>, AttemptError> {
        match self.narrow(cluster, pod, None)? {
            Narrowing::Continue(mut draft) => {
                self.filter_all(cluster, &mut draft)?;
                Ok(fitting(cluster, &draft))
            }
            Narrowing::Ended(_) => Ok(Vec::new()),
        }
    }

    /// Filters all nodes, also by extenders. Returns true if extenders care about the pod.
    fn filter_all(&mut self, cluster: &mut Cluster, draft: &mut Draft) -> Result<bool, AttemptError> {
        self.filter(cluster, draft, &[])?;
        let asks_extenders = self.extenders.choose_for(&draft.pod);
        if asks_extenders {
            let fitting = fitting(cluster, draft);
            self.ask_filters(cluster, draft, fitting, &mut Answers::waiting())?;
        }
        Ok(asks_extenders)
    }

    fn add_extenders(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        rows: &[NodeIdx],
        sheets: &mut [(Str, ScoreSheet)],
    ) -> Result<(), AttemptError> {
        let mut added = vec![0; rows.len()];
        self.ask_for_scores(cluster, draft, rows, &mut added, &mut Answers::waiting())?;
        for ((_, sheet), score) in sheets.iter_mut().zip(added).filter(|(_, score)| *score != 0) {
            sheet.total = sheet.total.wrapping_add(score);
            sheet.plugins.push((EXTENDER, score, score, score));
        }
        Ok(())
    }

    /// Returns the scores of the candidates of an attempt that has just chosen a node; none if there was only one
    /// candidate.
    ///
    /// # Errors
    /// Same as [`Self::find`].
    pub fn scores(
        &mut self,
        cluster: &mut Cluster,
        attempt: &Attempt,
    ) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let rows = attempt.candidates.rows();
        if rows.len() < 2 {
            return Ok(Vec::new());
        }
        match self.narrow(cluster, &attempt.pod, None)? {
            Narrowing::Continue(draft) => self.sheets(cluster, &draft, &rows),
            Narrowing::Ended(_) => Ok(Vec::new()),
        }
    }

    /// Returns the scores of two candidates of an attempt that has just chosen a node; `None` if one of them is not a
    /// candidate.
    ///
    /// # Errors
    /// Same as [`Self::find`].
    pub fn scores_of(
        &mut self,
        cluster: &mut Cluster,
        attempt: &Attempt,
        pair: [NodeIdx; 2],
    ) -> Result<Option<[ScoreSheet; 2]>, AttemptError> {
        let rows = attempt.candidates.rows();
        let [Some(one), Some(other)] = pair.map(|wanted| rows.iter().position(|row| *row == wanted)) else {
            return Ok(None);
        };
        let Narrowing::Continue(draft) = self.narrow(cluster, &attempt.pod, None)? else { return Ok(None) };
        let mut sheets = [ScoreSheet::default(), ScoreSheet::default()];
        self.score_into(cluster, &draft, &rows, CachedScores::Use, |at, score| {
            for (sheet, _) in sheets.iter_mut().zip([one, other]).filter(|(_, wanted)| *wanted == at) {
                sheet.add(score.plugin, (score.raw, score.normalized, score.weighted));
            }
        })?;
        Ok(Some(sheets))
    }

    fn sheets(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
    ) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let mut sheets = vec![ScoreSheet::default(); candidates.len()];
        self.score_into(cluster, draft, candidates, CachedScores::Use, |at, score| {
            sheets[at].add(score.plugin, (score.raw, score.normalized, score.weighted));
        })?;
        Ok(candidates.iter().zip(sheets).map(|(row, s)| (cluster.node(*row).name().clone(), s)).collect())
    }
}

/// The rows that fit, in the order visited.
fn fitting(cluster: &Cluster, draft: &Draft) -> Vec<NodeIdx> {
    cluster.order().iter().copied().filter(|row| draft.fits.contains(*row)).collect()
}
