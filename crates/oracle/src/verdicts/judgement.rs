//! Harbormaster's verdicts in the output of `simulate --explain -o json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::source::Verdicts;
use crate::verdict_oracle::{NodeScore, PodVerdict, Status};

/// The parts of the output of `harbormaster simulate --explain -o json` that are compared.
#[derive(Debug, Deserialize)]
pub(crate) struct Judgement {
    pods: Vec<JudgedPod>,
    explanations: Vec<Explanation>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JudgedPod {
    pod: String,
    profile: String,
    #[serde(default)]
    message: Option<String>,
    pre_enqueue: Option<Status>,
}

/// Verdicts of plugins on one pod; absent for a pod without a matching profile.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    pod: String,
    pre_filter: Option<Status>,
    rejected: Vec<RejectedNodes>,
    fits: Vec<FeasibleNodes>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RejectedNodes {
    #[serde(flatten)]
    status: Status,
    nodes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct FeasibleNodes {
    total: i64,
    plugins: BTreeMap<String, JudgedPluginScore>,
    nodes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct JudgedPluginScore {
    weighted: i64,
}

impl Judgement {
    /// Reads a report and the explanations of its pods.
    pub(crate) fn of(report: &impl Serialize, explanations: &impl Serialize) -> serde_json::Result<Self> {
        let mut both = serde_json::to_value(report)?;
        both["explanations"] = serde_json::to_value(explanations)?;
        serde_json::from_value(both)
    }
}

impl From<Judgement> for Verdicts {
    fn from(judgement: Judgement) -> Self {
        let by_pod =
            judgement.explanations.into_iter().map(|explanation| (explanation.pod.clone(), explanation));
        let mut explanations: BTreeMap<String, Explanation> = by_pod.collect();
        let verdict = |pod: JudgedPod| {
            let explanation = explanations.remove(&pod.pod);
            (pod.pod.clone(), verdict(pod, explanation))
        };
        judgement.pods.into_iter().map(verdict).collect()
    }
}

fn verdict(pod: JudgedPod, explanation: Option<Explanation>) -> PodVerdict {
    // A pod without a matching profile has no explanation, only a message.
    let error = explanation.as_ref().map_or(pod.message, |explanation| explanation.error.clone());
    let explanation = explanation.unwrap_or_default();
    let mut verdict = PodVerdict {
        pod: pod.pod,
        profile: pod.profile,
        error,
        pre_enqueue: pod.pre_enqueue.map(sorted),
        pre_filter: explanation.pre_filter.map(sorted),
        nodes: BTreeMap::new(),
        scores: BTreeMap::new(),
        allocations: BTreeMap::new(),
        post_filter: None,
        preemption: None,
        hints: Vec::new(),
        before: Vec::new(),
    };
    for RejectedNodes { status, nodes } in explanation.rejected {
        let status = sorted(status);
        verdict.nodes.extend(nodes.into_iter().map(|node| (node, Some(status.clone()))));
    }
    for FeasibleNodes { total, plugins, nodes } in explanation.fits {
        let plugins = plugins.into_iter().map(|(plugin, score)| (plugin, score.weighted)).collect();
        let score = NodeScore { total, plugins };
        for node in nodes {
            verdict.nodes.insert(node.clone(), None);
            verdict.scores.insert(node, score.clone());
        }
    }
    verdict
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
        let text = r#"{
            "pods": [{"pod": "default/p", "profile": "default-scheduler", "node": "n1", "preEnqueue": null, "message": ""}],
            "explanations": [{
                "pod": "default/p", "preFilter": null,
                "rejected": [{"plugin": "F", "code": "Unschedulable", "reasons": ["b", "a"], "lacks": [], "nodes": ["n2"]}],
                "fits": [{"total": 9, "plugins": {"X": {"raw": 1, "normalized": 3, "weighted": 9}}, "nodes": ["n1"]}]
            }]
        }"#;
        let judgement: Judgement = serde_json::from_str(text).unwrap();
        let verdict = &Verdicts::from(judgement)["default/p"];
        assert_eq!(verdict.nodes["n2"].as_ref().unwrap().reasons, ["a", "b"]);
        assert_eq!(verdict.nodes["n1"], None);
        assert_eq!((verdict.scores["n1"].total, verdict.scores["n1"].plugins["X"]), (9, 9));
    }
}
