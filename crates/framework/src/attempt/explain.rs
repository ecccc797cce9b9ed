//! Everything that plugins and extenders say about every node, for people and for the oracles.

use std::sync::Arc;

use harbormaster_api::Str;

use super::{Attempt, AttemptError, Competed, Found, Runner, draft::Draft, score::KeptScores};
use crate::{
    cluster::Cluster, cycle::Cycle, extender::EXTENDER, nodeset::NodeIdx, outcome::Reject, pod::PodInfo,
    sweep::PluginIdx,
};

/// One node's scores, for people: per scorer of the profile raw, normalised and weighted.
#[derive(Clone, Debug, Default)]
pub struct ScoreSheet {
    /// The sum of the weighted scores.
    pub total: i64,
    /// Plugin, raw score, score in 0..=100, and that times the weight. What extenders add to the sum is in all three of the
    /// last entry.
    pub plugins: Vec<(&'static str, i64, i64, i64)>,
}

/// Everything the plugins said, for people and for the oracles.
#[derive(Debug, Default)]
pub struct Explanation {
    /// Set when PreFilter rejected the pod everywhere: the plugin (`None` for the framework itself) and why.
    pub pre_filter: Option<(Option<&'static str>, Reject)>,
    /// Per node in walking order: why it does not fit, or `None`.
    pub nodes: Vec<(Str, Option<Why>)>,
    /// Scores of the nodes that fit.
    pub scores: Vec<(Str, ScoreSheet)>,
}

/// Why a node does not fit.
#[derive(Clone, Debug)]
pub struct Why {
    /// Plugin that rejects it; `None` for the framework itself.
    pub plugin: Option<&'static str>,
    /// Message of the plugin.
    pub reject: Reject,
    /// Lack of the node, in the plugin's own numbers and names.
    pub lacks: Option<String>,
}

impl Draft {
    fn why(&self, cx: &Cycle<'_>, plugin: PluginIdx, reject: &Reject, row: NodeIdx) -> Why {
        let slot = self.states.get(plugin.at());
        let lacks = slot.and_then(|slot| self.profile.plugin(plugin).lacks(cx, slot, row));
        Why { plugin: Some(self.profile.name_of(plugin)), reject: reject.clone(), lacks }
    }
}

impl Runner {
    /// Everything that every plugin says about every node, nodes of nominated pods judged as they are. Extenders are asked
    /// as in an attempt that looks at all nodes.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn explain(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
    ) -> Result<Explanation, AttemptError> {
        let mut explanation = Explanation::default();
        let mut draft = match self.narrow(cluster, pod)? {
            Ok(draft) => draft,
            Err(attempt) => {
                if let Found::Nowhere(diagnosis) = attempt.into_found() {
                    explanation.pre_filter = diagnosis.pre_filter;
                }
                return Ok(explanation);
            }
        };
        self.filter(cluster, &mut draft, &[])?;
        let asks_extenders = self.extenders.choose_for(&draft.pod);
        if asks_extenders {
            let fitting = fitting(cluster, &draft);
            self.ask_filters(cluster, &mut draft, fitting)?;
        }
        let open = draft.open(cluster);
        let verdicts = self.verdicts(&draft, &open);
        let cx = Cycle::new(cluster, pod);
        for row in cluster.order() {
            let why = match open.contains(*row) {
                true => verdicts.get(*row).map(|(plugin, reject)| draft.why(&cx, *plugin, reject, *row)),
                false => Some(Why { plugin: None, reject: draft.narrowed.outside(), lacks: None }),
            };
            explanation.nodes.push((cluster.node(*row).name().clone(), why));
        }
        let candidates = fitting(cluster, &draft);
        if !candidates.is_empty() {
            explanation.scores = self.sheets(cluster, &draft, &candidates)?;
            if asks_extenders {
                self.add_extenders(cluster, &draft, &candidates, &mut explanation.scores);
            }
        }
        Ok(explanation)
    }

    fn add_extenders(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        rows: &[NodeIdx],
        sheets: &mut [(Str, ScoreSheet)],
    ) {
        let mut added = vec![0; rows.len()];
        self.ask_for_scores(cluster, draft, rows, &mut added);
        for ((_, sheet), said) in sheets.iter_mut().zip(added).filter(|(_, said)| *said != 0) {
            sheet.total = sheet.total.wrapping_add(said);
            sheet.plugins.push((EXTENDER, said, said, said));
        }
    }

    /// The scores of the nodes that competed in an attempt that has just ended with a node; none if there was no other
    /// node.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn scores(
        &mut self,
        cluster: &mut Cluster,
        attempt: &Attempt,
    ) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let rows: Vec<NodeIdx> = match &attempt.competed {
            Competed::Listed(rows) => rows.clone(),
            Competed::All(rows) => rows.iter().collect(),
        };
        if rows.len() < 2 {
            return Ok(Vec::new());
        }
        match self.narrow(cluster, &attempt.pod)? {
            Ok(draft) => self.sheets(cluster, &draft, &rows),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn sheets(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[NodeIdx],
    ) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let mut sheets = vec![ScoreSheet::default(); candidates.len()];
        self.score_into(cluster, draft, candidates, KeptScores::Serve, |at, score| {
            sheets[at].total += score.weighted;
            sheets[at].plugins.push((score.plugin, score.raw, score.normalized, score.weighted));
        })?;
        Ok(candidates.iter().zip(sheets).map(|(row, s)| (cluster.node(*row).name().clone(), s)).collect())
    }
}

/// The rows that fit, in walking order.
fn fitting(cluster: &Cluster, draft: &Draft) -> Vec<NodeIdx> {
    cluster.order().iter().copied().filter(|row| draft.fits.contains(*row)).collect()
}
