//! The plugins' verdicts on every node, with equal nodes grouped.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use harbormaster_framework::{
    attempt::{AttemptError, Explanation, NodeRejection, ScoreSheet},
    cluster::Cluster,
    guard::{Call, PointError},
    outcome::Fix,
    pod::PodInfo,
};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::{lack::Shortages, report::Status};

/// The plugins' verdicts on every node, at the time of the pod's last attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// `namespace/name`.
    pub pod: String,
    /// The rejection by a PreFilter plugin. If there is one, there are no verdicts on nodes.
    pub pre_filter: Option<Status>,
    /// Nodes that do not fit, in groups, largest group first.
    pub rejected: Vec<RejectedNodes>,
    /// Nodes that fit, in groups, best group first.
    pub fits: Vec<FittingNodes>,
    /// Error of a plugin that prevented a complete explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Nodes that were rejected for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedNodes {
    /// The plugin and its reason.
    #[serde(flatten)]
    pub status: Status,
    /// Descriptions of what the nodes lack, such as resources and labels.
    pub lacks: Vec<String>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
}

/// Nodes with the same scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FittingNodes {
    /// The sum of the weighted scores; the largest sum wins.
    pub total: i64,
    /// Scores by plugin; plugins without a score are absent.
    pub plugins: BTreeMap<Cow<'static, str>, PluginScore>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
}

/// One plugin's score for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PluginScore {
    /// The score as the plugin computed it.
    pub raw: i64,
    /// The score as a number from 0 to 100.
    pub normalized: i64,
    /// The normalized score times the plugin's weight in the profile.
    pub weighted: i64,
}

impl PodExplanation {
    /// Returns the explanation that combines the plugins' verdicts on the nodes of this cluster.
    pub(crate) fn new(pod: &PodInfo, cluster: &Cluster, said: Explanation) -> Self {
        Self {
            pod: pod.full_name(),
            pre_filter: said.pre_filter.map(|(plugin, reject)| Status::new(plugin, reject)),
            rejected: rejected(pod, cluster, said.nodes),
            fits: fitting(said.scores),
            error: None,
        }
    }

    /// Returns the explanation for a plugin that failed before there were any verdicts.
    pub(crate) fn failed(pod: &PodInfo, error: &AttemptError) -> Self {
        use harbormaster_api::points::ExtensionPoint::PreFilter;
        let mut failed = Self { pod: pod.full_name(), ..Self::default() };
        match error {
            AttemptError::Plugin(PointError { plugin, call: Call::Point(PreFilter), .. }) => {
                let reasons = vec![error.to_string().into()];
                failed.pre_filter = Some(Status { plugin: (*plugin).into(), code: "Error".into(), reasons });
            }
            error => failed.error = Some(error.to_string()),
        }
        failed
    }
}

/// Indexes of the groups under construction, by the key of the group.
type GroupIndexes<K> = FxHashMap<K, usize>;

fn rejected(
    pod: &PodInfo,
    cluster: &Cluster,
    nodes: Vec<(harbormaster_api::Str, Option<NodeRejection>)>,
) -> Vec<RejectedNodes> {
    let mut places: GroupIndexes<(Option<&'static str>, Fix, Vec<Cow<'static, str>>)> = FxHashMap::default();
    let mut groups: Vec<(RejectedNodes, Shortages)> = Vec::new();
    for (node, why) in nodes {
        let Some(NodeRejection { plugin, reject, lacks: own }) = why else { continue };
        let at = *places.entry((plugin, reject.fix, reject.reasons.clone())).or_insert(groups.len());
        if at == groups.len() {
            let status = Status::new(plugin, reject);
            groups
                .push((RejectedNodes { status, lacks: Vec::new(), nodes: Vec::new() }, Shortages::default()));
        }
        let (group, lacks) = &mut groups[at];
        if let Some(row) = cluster.find(&node) {
            lacks.add(&group.status.plugin, &group.status.reasons, pod, cluster.node(row), own);
        }
        group.nodes.push(node.as_str().to_owned());
    }
    let finished =
        |(group, lacks): (RejectedNodes, Shortages)| RejectedNodes { lacks: lacks.words(), ..group };
    let mut groups: Vec<RejectedNodes> = groups.into_iter().map(finished).collect();
    groups.sort_by_key(|group| Reverse(group.nodes.len()));
    groups
}

fn fitting(scores: Vec<(harbormaster_api::Str, ScoreSheet)>) -> Vec<FittingNodes> {
    let mut places: GroupIndexes<Vec<(&'static str, i64, i64, i64)>> = FxHashMap::default();
    let mut groups: Vec<FittingNodes> = Vec::new();
    for (node, ScoreSheet { total, plugins }) in scores {
        let node = node.as_str().to_owned();
        if let Some(at) = places.get(&plugins) {
            groups[*at].nodes.push(node);
            continue;
        }
        let score = |(plugin, raw, normalized, weighted): &(&'static str, i64, i64, i64)| {
            let (raw, normalized, weighted) = (*raw, *normalized, *weighted);
            (Cow::Borrowed(*plugin), PluginScore { raw, normalized, weighted })
        };
        let group = FittingNodes { total, plugins: plugins.iter().map(score).collect(), nodes: vec![node] };
        places.insert(plugins, groups.len());
        groups.push(group);
    }
    groups.sort_by_key(|group| Reverse(group.total));
    groups
}
