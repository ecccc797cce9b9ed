//! Harbormaster's verdicts as `simulate --explain -o json` prints them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::source::Verdicts;
use crate::verdict_oracle::{NodeScore, PodVerdict, Status};

/// The output of `harbormaster simulate --explain -o json`, as far as it is compared.
#[derive(Debug, Deserialize)]
pub(super) struct Judgement {
    pods: Vec<JudgedPod>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JudgedPod {
    pod: String,
    profile: String,
    #[serde(default)]
    message: Option<String>,
    pre_enqueue: Option<Status>,
    pre_filter: Option<Status>,
    #[serde(default)]
    nodes: BTreeMap<String, Option<Status>>,
    #[serde(default)]
    scores: BTreeMap<String, JudgedScore>,
}

#[derive(Debug, Deserialize)]
struct JudgedScore {
    total: i64,
    plugins: BTreeMap<String, JudgedPluginScore>,
}

#[derive(Debug, Deserialize)]
struct JudgedPluginScore {
    weighted: i64,
}

impl From<Judgement> for Verdicts {
    fn from(judgement: Judgement) -> Self {
        judgement.pods.into_iter().map(|pod| (pod.pod.clone(), pod.into())).collect()
    }
}

impl From<JudgedPod> for PodVerdict {
    fn from(pod: JudgedPod) -> Self {
        let score = |score: JudgedScore| NodeScore {
            total: score.total,
            plugins: score.plugins.into_iter().map(|(plugin, score)| (plugin, score.weighted)).collect(),
        };
        // A pod that a plugin failed on has a message and no verdicts.
        let is_judged = !pod.nodes.is_empty() || pod.pre_filter.is_some();
        let error = pod.message.filter(|message| !is_judged && !message.starts_with("no nodes"));
        let scores = pod.scores.into_iter().map(|(node, judged)| (node, score(judged))).collect();
        Self {
            pod: pod.pod,
            profile: pod.profile,
            error,
            pre_enqueue: pod.pre_enqueue.map(sorted),
            pre_filter: pod.pre_filter.map(sorted),
            nodes: pod.nodes.into_iter().map(|(node, status)| (node, status.map(sorted))).collect(),
            scores,
        }
    }
}

fn sorted(mut status: Status) -> Status {
    status.reasons.sort();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_simulate_becomes_a_verdict_with_sorted_reasons() {
        let text = r#"{"pods": [{
            "pod": "default/p", "profile": "default-scheduler", "node": "n1", "preEnqueue": null, "preFilter": null,
            "nodes": {"n1": null, "n2": {"plugin": "F", "code": "Unschedulable", "reasons": ["b", "a"]}},
            "scores": {"n1": {"total": 9, "plugins": {"X": {"raw": 1, "normalized": 3, "weighted": 9}}}},
            "message": ""
        }]}"#;
        let judgement: Judgement = serde_json::from_str(text).unwrap();
        let verdict: PodVerdict = judgement.pods.into_iter().next().unwrap().into();
        assert_eq!(verdict.nodes["n2"].as_ref().unwrap().reasons, ["a", "b"]);
        assert_eq!(verdict.nodes["n1"], None);
        assert_eq!((verdict.scores["n1"].total, verdict.scores["n1"].plugins["X"]), (9, 9));
    }
}
