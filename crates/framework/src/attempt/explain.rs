//! Everything that plugins say about every node, for people and for the oracles.

use harbormaster_api::Str;

use super::{Attempt, AttemptError, rejection};
use crate::{cluster::Cluster, nodeset::NodeIdx, outcome::Reject, pod::PodInfo, profile::Profile};

/// One node's scores, for people: per scorer of the profile raw, normalised and weighted.
#[derive(Clone, Debug, Default)]
pub struct ScoreSheet {
    /// The sum of the weighted scores.
    pub total: i64,
    /// Plugin, raw score, score in 0..=100, and that times the weight.
    pub plugins: Vec<(&'static str, i64, i64, i64)>,
}

/// Everything the plugins said, for people and for the oracles.
#[derive(Debug, Default)]
pub struct Explanation {
    /// Set when PreFilter rejected the pod everywhere: the plugin (`None` for the framework itself) and why.
    pub pre_filter: Option<(Option<&'static str>, Reject)>,
    /// Per node in walking order: the rejection (with the plugin, `None` for the framework itself), or `None`.
    pub nodes: Vec<(Str, Option<(Option<&'static str>, Reject)>)>,
    /// Scores of the nodes that fit.
    pub scores: Vec<(Str, ScoreSheet)>,
}

impl Attempt {
    /// Everything that every plugin says about every node, nodes of nominated pods judged as they are.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn explain(&mut self, nodes: &mut Cluster, pod: &PodInfo) -> Result<Explanation, AttemptError> {
        let profile = self.profile.clone();
        self.prepare(nodes, pod)?;
        let mut explanation = Explanation::default();
        let narrowed = match self.pre_filter(&profile, nodes, pod)? {
            Ok(narrowed) => narrowed,
            Err(diagnosis) => {
                explanation.pre_filter = diagnosis.pre_filter;
                return Ok(explanation);
            }
        };
        self.filter_anew(&profile, nodes, pod, &narrowed, &[])?;
        if let Some(only) = &narrowed.only {
            self.fits.intersect(only);
        }
        let table = self.classes.get(&profile, nodes, pod)?;
        let outside = narrowed.outside();
        for row in nodes.order() {
            let why = match &narrowed.only {
                Some(only) if !only.contains(*row) => Some((None, outside.clone())),
                _ => rejection(&profile, table, &self.overlay, &self.forced, *row)
                    .map(|(plugin, reject)| (Some(profile.plugin(*plugin).name()), reject.clone())),
            };
            explanation.nodes.push((nodes.node(*row).name().clone(), why));
        }
        let candidates: Vec<NodeIdx> =
            nodes.order().iter().copied().filter(|r| self.fits.contains(*r)).collect();
        if !candidates.is_empty() {
            explanation.scores = self.sheets(&profile, nodes, pod, &candidates)?;
        }
        Ok(explanation)
    }

    /// The scores of the nodes that competed in the attempt that [`Self::find`] has just ended with a node; none if
    /// there was no other node.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn scores(&mut self, nodes: &Cluster, pod: &PodInfo) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let profile = self.profile.clone();
        let rows = self.competed.clone().unwrap_or_else(|| self.fits.iter().collect());
        if rows.len() < 2 { Ok(Vec::new()) } else { self.sheets(&profile, nodes, pod, &rows) }
    }

    fn sheets(
        &mut self,
        profile: &Profile,
        nodes: &Cluster,
        pod: &PodInfo,
        candidates: &[NodeIdx],
    ) -> Result<Vec<(Str, ScoreSheet)>, AttemptError> {
        let mut sheets = vec![ScoreSheet::default(); candidates.len()];
        self.score_into(profile, nodes, pod, candidates, |at, plugin, raw, score, weighted| {
            sheets[at].total += weighted;
            sheets[at].plugins.push((plugin, raw, score, weighted));
        })?;
        Ok(candidates.iter().zip(sheets).map(|(row, s)| (nodes.node(*row).name().clone(), s)).collect())
    }
}
