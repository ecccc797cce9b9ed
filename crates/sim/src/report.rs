//! What a simulation says about each pending pod, and about pods that had to make way. The JSON form is stable: tools read it.

use std::{borrow::Cow, collections::BTreeMap};

use harbormaster_framework::{
    attempt::{Explanation, ScoreSheet},
    outcome::Reject,
    pod::PodInfo,
};
use serde::Serialize;

/// Everything that was found out, pods in the order of the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// One entry per pod that had no node, then one per pod that had one and lost it.
    pub pods: Vec<PodReport>,
}

/// One pod that had no node, or lost it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// `namespace/name`.
    pub pod: String,
    /// `spec.schedulerName`.
    pub profile: String,
    /// Where it went.
    pub node: Option<String>,
    /// What keeps it out of the queue.
    pub pre_enqueue: Option<Status>,
    /// What rejected it everywhere at once. Only if explanations were asked for.
    pub pre_filter: Option<Status>,
    /// Per node the rejection, or `None` where it fits. Only if explanations were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<BTreeMap<String, Option<Status>>>,
    /// Scores of the nodes where it fits. Only if explanations were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<BTreeMap<String, NodeScore>>,
    /// Why it has no node, in kube-scheduler's words.
    pub message: Option<String>,
    /// The pod (`namespace/name`) for which it had to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempted_by: Option<String>,
    /// How often it was tried.
    #[serde(skip)]
    pub attempts: u32,
    /// How many nodes were looked at and how many of them fit, in the attempt that placed it.
    #[serde(skip)]
    pub looked_at: Option<(usize, usize)>,
}

/// A rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Who rejected; empty for the framework itself, when a node is outside of what PreFilter left.
    pub plugin: Cow<'static, str>,
    /// kube-scheduler's status code: `Unschedulable`, `UnschedulableAndUnresolvable`, `Pending` or `Error`.
    pub code: Cow<'static, str>,
    /// Why.
    pub reasons: Vec<Cow<'static, str>>,
}

/// The scores of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeScore {
    /// The sum of the weighted scores: the largest wins.
    pub total: i64,
    /// By plugin; plugins that had nothing to say are absent.
    pub plugins: BTreeMap<Cow<'static, str>, PluginScore>,
}

/// One plugin's score of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PluginScore {
    /// As the plugin computed it.
    pub raw: i64,
    /// As a number from 0 to 100.
    pub normalized: i64,
    /// Times the plugin's weight in the profile.
    pub weighted: i64,
}

impl Status {
    pub(crate) fn new(plugin: Option<&'static str>, reject: Reject) -> Self {
        Self {
            plugin: plugin.unwrap_or_default().into(),
            code: reject.fix.code().into(),
            reasons: reject.reasons,
        }
    }

    /// The reasons joined as kube-scheduler prints a status.
    pub fn text(&self) -> String {
        self.reasons.join(", ")
    }
}

impl From<ScoreSheet> for NodeScore {
    fn from(sheet: ScoreSheet) -> Self {
        let score = |(plugin, raw, normalized, weighted): (&'static str, i64, i64, i64)| {
            (plugin.into(), PluginScore { raw, normalized, weighted })
        };
        Self { total: sheet.total, plugins: sheet.plugins.into_iter().map(score).collect() }
    }
}

impl PodReport {
    /// Whether a PreEnqueue plugin holds the pod back.
    pub fn is_gated(&self) -> bool {
        self.pre_enqueue.is_some()
    }

    /// The pod is gone from its node.
    pub(crate) fn preempted(&mut self, victim: &PodInfo, preemptor: Option<String>) {
        let by = preemptor.unwrap_or_default();
        let from = victim.node_name.clone().map(|node| node.to_string()).or(self.node.take());
        self.message = Some(format!("Preempted by pod {by} on node {}", from.unwrap_or_default()));
        self.preempted_by = Some(by);
        self.node = None;
        self.looked_at = None;
    }

    /// Takes over what the plugins said.
    pub(crate) fn explain(&mut self, explanation: Explanation) {
        self.pre_filter = explanation.pre_filter.map(|(plugin, reject)| Status::new(plugin, reject));
        let verdict = |(node, why): (harbormaster_api::Str, Option<(Option<&'static str>, Reject)>)| {
            (node.as_str().to_owned(), why.map(|(plugin, reject)| Status::new(plugin, reject)))
        };
        self.nodes = Some(explanation.nodes.into_iter().map(verdict).collect());
        self.scores = Some(
            explanation.scores.into_iter().map(|(node, s)| (node.as_str().to_owned(), s.into())).collect(),
        );
    }
}
