//! Comparison of two sets of verdicts.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use serde::Serialize;

use super::Verdicts;
use crate::verdict_oracle::{ClaimAllocation, NodeScore, PodVerdict, Preemption, Status};

/// A difference between two sources' verdicts on one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `namespace/name`.
    pub pod: String,
    /// The node, if the difference concerns one.
    pub node: Option<String>,
    /// The part that differs: an extension point, `score of X`, `total score`, ...
    pub about: String,
    /// Verdict of the first source.
    pub left: String,
    /// Verdict of the second source.
    pub right: String,
    /// Text by which differences are counted: the difference without values and without common reasons.
    #[serde(skip)]
    pub(super) kind: String,
}

impl Difference {
    /// Returns true if both differences concern the same pod and the same kind of verdict, so that shrinking a cluster
    /// may replace one difference with the other. The values of scores may change, but reasons may not.
    #[must_use]
    pub fn resembles(&self, other: &Self) -> bool {
        let is_equal = || (&self.left, &self.right) == (&other.left, &other.right);
        let is_alike = match self.about.as_str() {
            // The differences are alike if each source chooses devices in both of them or in neither.
            "allocation" => [(&self.left, &other.left), (&self.right, &other.right)]
                .iter()
                .all(|(mine, others)| mine.contains("results") == others.contains("results")),
            about => about.contains("score") || is_equal(),
        };
        self.pod == other.pod && self.about == other.about && is_alike
    }
}

/// Finds the first difference in the order of pod names, extension points and nodes.
#[must_use]
pub fn compare(left: &Verdicts, right: &Verdicts) -> Option<Difference> {
    differences(left, right).next()
}

/// Finds the first difference of every pod that has one.
pub(super) fn differences(left: &Verdicts, right: &Verdicts) -> impl Iterator<Item = Difference> {
    let missing = || "(no verdict)".to_owned();
    let judged = left.iter().filter_map(move |(pod, expected)| {
        // Ignore pods whose profile does not exist.
        if expected.error.as_deref().is_some_and(|error| error.starts_with("no profile has")) {
            return None;
        }
        let actual = right.get(pod);
        let (node, about, left, right) = match actual {
            Some(actual) => compare_pod(expected, actual)?,
            None => (None, "pod".to_owned(), "a verdict".to_owned(), missing()),
        };
        let status = |verdict: &PodVerdict| verdict.nodes.get(node.as_deref()?).cloned().flatten();
        let kind = match actual {
            Some(actual) if about == "Filter" => filter_kind(status(expected), status(actual)),
            _ if about.contains("score") || about == "allocation" => about.clone(),
            _ => without_numbers(&format!("{about}: {left} / {right}")),
        };
        Some(Difference { pod: pod.clone(), node, about, left, right, kind })
    });
    let extra = right.keys().filter(|pod| !left.contains_key(*pod)).map(move |pod| Difference {
        pod: pod.clone(),
        node: None,
        about: "pod".to_owned(),
        left: missing(),
        right: "a verdict".to_owned(),
        kind: "pod".to_owned(),
    });
    judged.chain(extra)
}

type FoundDifference = (Option<String>, String, String, String);

fn compare_pod(left: &PodVerdict, right: &PodVerdict) -> Option<FoundDifference> {
    let point = |about: &str, left: &Option<Status>, right: &Option<Status>| {
        (left != right).then(|| (None, about.to_owned(), status(left), status(right)))
    };
    if left.profile != right.profile {
        return Some((None, "profile".to_owned(), left.profile.clone(), right.profile.clone()));
    }
    if left.before != right.before {
        return Some((None, "QueueSort".to_owned(), left.before.join(" "), right.before.join(" ")));
    }
    let early = point("PreEnqueue", &left.pre_enqueue, &right.pre_enqueue)
        .or_else(|| point("PreFilter", &left.pre_filter, &right.pre_filter));
    // A rejected pod has no verdicts on nodes, whatever a source reports.
    let post_filter = || point("PostFilter", &left.post_filter, &right.post_filter);
    if early.is_some() || left.pre_filter.is_some() {
        return early.or_else(post_filter);
    }
    // If a plugin failed for a pod, the pod's nodes are not compared, because a source may stop at any failure.
    let (failed, also_failed) = (failures(left), failures(right));
    // As Kubernetes 1.37 does, Harbormaster scores pods that have both allocated and unallocated claims.
    let is_unscored = left.error.as_deref().is_some_and(|error| error.contains(MIXED_CLAIMS));
    match (failed.is_empty(), also_failed.is_empty()) {
        (false, true) if is_unscored => {
            compare_filters(left, right).or_else(|| compare_allocations(left, right))
        }
        (true, true) => {
            let nodes = compare_nodes(left, right).or_else(|| compare_allocations(left, right));
            nodes.or_else(post_filter).or_else(|| compare_victims(left, right))
        }
        _ if failed.iter().any(|failure| also_failed.contains(failure)) => None,
        _ => Some((None, "error".to_owned(), option(&failed.first()), option(&also_failed.first()))),
    }
}

/// Part of the error with which DynamicResources of Kubernetes 1.36 fails to score a pod with an allocated and an
/// unallocated claim.
const MIXED_CLAIMS: &str = "is smaller than number of claims";

/// Errors for the pod as a whole and on individual nodes.
fn failures(verdict: &PodVerdict) -> Vec<&String> {
    let of_nodes = verdict.nodes.values().flatten().filter(|status| status.code == "Error");
    verdict.error.iter().chain(of_nodes.flat_map(|status| &status.reasons)).collect()
}

fn compare_filters(left: &PodVerdict, right: &PodVerdict) -> Option<FoundDifference> {
    let (node, a, b) = first_difference(&left.nodes, &right.nodes)?;
    Some((Some(node), "Filter".to_owned(), a.map_or_else(none, status), b.map_or_else(none, status)))
}

/// Compares the devices that the claims would get, on the nodes that fit according to both sources.
fn compare_allocations(left: &PodVerdict, right: &PodVerdict) -> Option<FoundDifference> {
    let text =
        |claims: Option<&Vec<ClaimAllocation>>| claims.map_or_else(none, |claims| format!("{claims:?}"));
    let (node, a, b) = first_difference(&left.allocations, &right.allocations)?;
    Some((Some(node), "allocation".to_owned(), text(a), text(b)))
}

/// Compares the victims on the node that the second source chooses, if both were asked. Either both find a node or
/// neither does.
fn compare_victims(left: &PodVerdict, right: &PodVerdict) -> Option<FoundDifference> {
    let (Some(left), Some(right)) = (&left.preemption, &right.preemption) else { return None };
    let victims = |preemption: &Preemption| {
        let mut victims = preemption.candidates.get(&right.node).map(|candidate| candidate.victims.clone());
        victims.iter_mut().for_each(|victims| victims.sort());
        victims
    };
    let (theirs, ours) = (victims(left), victims(right));
    let differ = if right.node.is_empty() { !left.candidates.is_empty() } else { theirs != ours };
    let text = |preemption: &Preemption| format!("{:?}", preemption.candidates);
    differ.then(|| (None, "victims".to_owned(), text(left), text(right)))
}

fn compare_nodes(left: &PodVerdict, right: &PodVerdict) -> Option<FoundDifference> {
    if let Some(found) = compare_filters(left, right) {
        return Some(found);
    }
    let (node, a, b) = first_difference(&left.scores, &right.scores)?;
    let (Some(a), Some(b)) = (a, b) else {
        let side = |score: Option<&NodeScore>| score.map_or_else(none, |_| "scored".to_owned());
        return Some((Some(node), "scored nodes".to_owned(), side(a), side(b)));
    };
    Some(match first_difference(&a.plugins, &b.plugins) {
        Some((plugin, a, b)) => (Some(node), format!("score of {plugin}"), number(a), number(b)),
        None => (Some(node), "total score".to_owned(), a.total.to_string(), b.total.to_string()),
    })
}

/// Finds the first key with different values. Returns it with the values.
fn first_difference<'a, V: PartialEq + Debug>(
    left: &'a BTreeMap<String, V>,
    right: &'a BTreeMap<String, V>,
) -> Option<(String, Option<&'a V>, Option<&'a V>)> {
    let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
    keys.map(|key| (key, left.get(key), right.get(key)))
        .find(|(_, a, b)| a != b)
        .map(|(key, a, b)| (key.clone(), a, b))
}

/// Formats two statuses of a node without their common reasons.
fn filter_kind(left: Option<Status>, right: Option<Status>) -> String {
    match (left, right) {
        (Some(mut left), Some(mut right)) if left.plugin == right.plugin => {
            let both: Vec<String> =
                left.reasons.iter().filter(|reason| right.reasons.contains(reason)).cloned().collect();
            left.reasons.retain(|reason| !both.contains(reason));
            right.reasons.retain(|reason| !both.contains(reason));
            format!("Filter: {} / {}", status(&Some(left)), status(&Some(right)))
        }
        (left, right) => {
            let plugin = |status: Option<Status>| status.map_or("ok".to_owned(), |status| status.plugin);
            format!("Filter: {} / {}", plugin(left), plugin(right))
        }
    }
}

/// Replaces the numbers in a string.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if result.ends_with('#') => {}
            '0'..='9' => result.push('#'),
            other => result.push(other),
        }
    }
    result
}

/// Replaces the numbers in a string and shortens it, for counting messages that name objects.
pub(super) fn without_names(text: &str) -> String {
    let text = text.replace("default/", "blue/").replace("bare/", "blue/").replace("green/", "blue/");
    without_numbers(&text).chars().take(130).collect()
}

fn none() -> String {
    "(none)".to_owned()
}

fn number(value: Option<&i64>) -> String {
    value.map_or_else(none, ToString::to_string)
}

fn option(value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(none, ToString::to_string)
}

fn status(status: &Option<Status>) -> String {
    match status {
        None => "ok".to_owned(),
        Some(Status { plugin, code, reasons }) => format!("{plugin} {code} {reasons:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts() -> Verdicts {
        let rejected = Status {
            plugin: "F".to_owned(),
            code: "Unschedulable".to_owned(),
            reasons: vec!["full".to_owned()],
        };
        let score = NodeScore { total: 5, plugins: BTreeMap::from([("X".to_owned(), 5)]) };
        let verdict = PodVerdict {
            pod: "default/p".to_owned(),
            profile: "default-scheduler".to_owned(),
            error: None,
            pre_enqueue: None,
            pre_filter: None,
            nodes: BTreeMap::from([("a".to_owned(), None), ("b".to_owned(), Some(rejected))]),
            scores: BTreeMap::from([("a".to_owned(), score)]),
            allocations: BTreeMap::new(),
            post_filter: None,
            preemption: None,
            hints: Vec::new(),
            before: Vec::new(),
        };
        BTreeMap::from([(verdict.pod.clone(), verdict)])
    }

    #[test]
    fn differences_between_verdicts_are_found() {
        let change = |change: &dyn Fn(&mut PodVerdict)| {
            let mut right = verdicts();
            right.values_mut().for_each(change);
            let found = compare(&verdicts(), &right).unwrap();
            (found.node, found.about, found.right)
        };
        let at = |node: &str, about: &str, right: &str| {
            (Some(node.to_owned()), about.to_owned(), right.to_owned())
        };
        assert_eq!(compare(&verdicts(), &verdicts()), None);
        assert_eq!(
            change(&|pod| pod.nodes.get_mut("b").unwrap().as_mut().unwrap().reasons.clear()),
            at("b", "Filter", "F Unschedulable []")
        );
        assert_eq!(change(&|pod| drop(pod.nodes.remove("a"))), at("a", "Filter", "(none)"));
        let score =
            |pod: &mut PodVerdict| *pod.scores.get_mut("a").unwrap().plugins.get_mut("X").unwrap() = 6;
        assert_eq!(change(&score), at("a", "score of X", "6"));
        assert_eq!(change(&|pod| pod.scores.get_mut("a").unwrap().total = 6), at("a", "total score", "6"));
        assert_eq!(change(&|pod| pod.scores.clear()), at("a", "scored nodes", "(none)"));
        assert_eq!(change(&|pod| pod.error = Some("e".to_owned())).1, "error");
        let fail = |pod: &mut PodVerdict| {
            let status = pod.nodes.get_mut("b").unwrap().as_mut().unwrap();
            (status.code, status.reasons) = ("Error".to_owned(), vec!["e".to_owned()]);
        };
        assert_eq!(change(&fail), (None, "error".to_owned(), "e".to_owned()));
        let (mut left, mut right) = (verdicts(), verdicts());
        left.values_mut().for_each(fail);
        right.values_mut().for_each(|pod| pod.error = Some("e".to_owned()));
        assert_eq!(compare(&left, &right), None, "an error on a node is an error of the pod");
        assert_eq!(compare(&verdicts(), &Verdicts::new()).unwrap().about, "pod");
        assert_eq!(compare(&Verdicts::new(), &verdicts()).unwrap().left, "(no verdict)");
    }
}
