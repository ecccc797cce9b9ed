//! The first difference between two runs.

use std::collections::BTreeSet;

use serde::Serialize;

use super::outcome::{CONDITION, EVENT, Outcomes, PodOutcome};
use super::player::Run;
use crate::extenders::ExtenderCall;

/// The first difference between two runs of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Index of the step.
    pub step: usize,
    /// Name of the pod, or namespace and name of the resource claim.
    pub pod: String,
    /// The part of the outcome that differs.
    pub field: &'static str,
    /// Outcome with the first scheduler.
    pub left: Option<PodOutcome>,
    /// Outcome with the second scheduler.
    pub right: Option<PodOutcome>,
    /// Number of pods or resource claims that differ after this step.
    pub pods: usize,
    /// For each scheduler, the extender calls in this step that the other scheduler did not make: the calls for `pod`,
    /// or for all pods if the calls themselves are the difference.
    pub extender_calls: [Vec<ExtenderCall>; 2],
}

/// Finds the first step after which a pod or a resource claim differs. A different node takes precedence over different
/// messages, which take precedence over different resource claims, which take precedence over different extender calls.
pub(super) fn compare(left: &Run, right: &Run) -> Option<Difference> {
    let outcomes = left.outcomes.iter().zip(&right.outcomes);
    let mut steps = outcomes.zip(left.extender_calls.iter().zip(&right.extender_calls)).enumerate();
    steps.find_map(|(step, (outcomes, calls))| {
        let calls = [calls.0.difference(calls.1), calls.1.difference(calls.0)];
        let calls = calls.map(|calls| calls.cloned().collect::<Vec<_>>());
        let found = compare_pods(step, outcomes.0, outcomes.1);
        let Some(mut found) = found.or_else(|| compare_claims(step, outcomes.0, outcomes.1)) else {
            return compare_calls(step, calls);
        };
        found.extender_calls =
            calls.map(|calls| calls.into_iter().filter(|call| call.pod == found.pod).collect());
        Some(found)
    })
}

fn compare_calls(step: usize, extender_calls: [Vec<ExtenderCall>; 2]) -> Option<Difference> {
    let pods: BTreeSet<&str> = extender_calls.iter().flatten().map(|call| call.pod.as_str()).collect();
    let (pod, pods) = (pods.first()?.to_string(), pods.len());
    Some(Difference { step, pod, field: "extender calls", left: None, right: None, pods, extender_calls })
}

fn compare_claims(step: usize, left: &Outcomes, right: &Outcomes) -> Option<Difference> {
    let (left, right) = (&left.resource_claims, &right.resource_claims);
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let differing: Vec<&String> =
        names.into_iter().filter(|name| left.get(*name) != right.get(*name)).collect();
    let name = *differing.first()?;
    let outcome = |claim: &String| PodOutcome { resource_claims: claim.clone(), ..PodOutcome::default() };
    Some(Difference {
        step,
        pod: name.clone(),
        field: "resource claim",
        left: left.get(name).map(outcome),
        right: right.get(name).map(outcome),
        pods: differing.len(),
        extender_calls: [Vec::new(), Vec::new()],
    })
}

fn compare_pods(step: usize, left: &Outcomes, right: &Outcomes) -> Option<Difference> {
    let (left, right) = (&left.pods, &right.pods);
    let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
    let mut found: Vec<(usize, &'static str, &String)> = names
        .filter_map(|name| {
            let (rank, field) = differing_field(left.get(name), right.get(name))?;
            Some((rank, field, name))
        })
        .collect();
    found.sort();
    let (_, field, pod) = *found.first()?;
    Some(Difference {
        step,
        pod: pod.clone(),
        field,
        left: left.get(pod).cloned(),
        right: right.get(pod).cloned(),
        pods: found.len(),
        extender_calls: [Vec::new(), Vec::new()],
    })
}

/// Returns the index and name of the first field that differs.
fn differing_field(left: Option<&PodOutcome>, right: Option<&PodOutcome>) -> Option<(usize, &'static str)> {
    let (Some(left), Some(right)) = (left, right) else { return Some((0, "existence")) };
    let is_repeated =
        (left.event_is_stale() || right.event_is_stale()) && is_up_to_date(left) && is_up_to_date(right);
    let ignores_condition = left.lost_a_write() || right.lost_a_write();
    let ignores_event = ignores_condition || is_repeated || left.event_is_hidden || right.event_is_hidden;
    let is_ignored = |name: &str| match name {
        EVENT => ignores_event,
        _ => ignores_condition && CONDITION.contains(&name),
    };
    let mut fields = left.fields().into_iter().zip(right.fields()).enumerate();
    let (rank, ((name, _), _)) = fields.find(|(_, (left, right))| left != right && !is_ignored(left.0))?;
    Some((rank, name))
}

/// Returns true if the event matches the condition, or need not match because it is stale.
fn is_up_to_date(outcome: &PodOutcome) -> bool {
    outcome.event_is_stale() || outcome.event == outcome.condition[2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    type Pod = (&'static str, &'static str, &'static str);

    /// A run with these pods (name, node, event) after each step.
    fn run(steps: &[&[Pod]]) -> Run {
        let outcome = |(name, node, event): &Pod| {
            let (node, event) = ((*node).to_owned(), (*event).to_owned());
            ((*name).to_owned(), PodOutcome { node, event, ..PodOutcome::default() })
        };
        let outcomes = |pods: &&[Pod]| Outcomes {
            pods: pods.iter().map(outcome).collect(),
            resource_claims: BTreeMap::new(),
        };
        let outcomes: Vec<_> = steps.iter().map(outcomes).collect();
        let extender_calls = vec![BTreeSet::new(); outcomes.len()];
        Run { outcomes, extender_calls, refused: 0, elapsed: Duration::ZERO }
    }

    #[test]
    fn the_first_difference_is_reported_and_a_node_takes_precedence_over_a_message() {
        let left = run(&[&[("a", "n", "")], &[("a", "n", "x"), ("b", "n", "")]]);
        assert_eq!(compare(&left, &left), None);
        let right = run(&[&[("a", "n", "")], &[("a", "n", "y"), ("b", "m", "")]]);
        let found = compare(&left, &right).unwrap();
        assert_eq!((found.step, found.pod.as_str(), found.field, found.pods), (1, "b", "node", 2));
        let right = run(&[&[("a", "n", ""), ("c", "", "")], &[]]);
        let found = compare(&left, &right).unwrap();
        assert_eq!((found.step, found.pod.as_str(), found.field), (0, "c", "existence"));
    }

    #[test]
    fn a_resource_claim_is_reported_only_if_no_pod_differs() {
        let with_claim = |pods: &[Pod], status: &str| {
            let mut run = run(&[pods]);
            run.outcomes[0].resource_claims.insert("default/claim".to_owned(), status.to_owned());
            run
        };
        let left = with_claim(&[("a", "n", "")], "allocated");
        assert_eq!(compare(&left, &left), None);
        for (right, pod, field) in [
            (with_claim(&[("a", "n", "")], "free"), "default/claim", "resource claim"),
            (run(&[&[("a", "n", "")]]), "default/claim", "resource claim"),
            (with_claim(&[("a", "m", "")], "free"), "a", "node"),
        ] {
            let found = compare(&left, &right).unwrap();
            assert_eq!((found.pod.as_str(), found.field, found.pods), (pod, field, 1));
        }
    }

    #[test]
    fn the_text_of_a_repeated_event_may_be_that_of_its_first_occurrence() {
        let waiting = |event: &str, event_is_repeated| {
            let condition = ["False", "Unschedulable", "new"].map(str::to_owned);
            PodOutcome { condition, event: event.to_owned(), event_is_repeated, ..PodOutcome::default() }
        };
        let field = |left: &PodOutcome, right: &PodOutcome| {
            differing_field(Some(left), Some(right)).map(|found| found.1)
        };
        assert_eq!(field(&waiting("old", true), &waiting("new", false)), None);
        assert_eq!(field(&waiting("old", true), &waiting("older", true)), None);
        assert_eq!(field(&waiting("old", false), &waiting("new", false)), Some(EVENT));
        assert_eq!(field(&waiting("old", true), &waiting("older", false)), Some(EVENT));
    }

    #[test]
    fn a_member_that_lost_a_write_but_has_a_node_may_say_either() {
        let member = |node: &str, status: &str, message: &str| {
            let condition = [status, "", message].map(str::to_owned);
            PodOutcome { node: node.to_owned(), condition, ..PodOutcome::default() }
        };
        let lost = "claim default/c got allocated elsewhere in the meantime";
        let field = |left: &PodOutcome, right: &PodOutcome| {
            differing_field(Some(left), Some(right)).map(|found| found.1)
        };
        let bound = member("n", "True", "");
        assert_eq!(field(&member("n", "False", lost), &bound), None);
        assert_eq!(field(&member("m", "False", lost), &bound), Some("node"));
        assert_eq!(field(&member("n", "False", "another error"), &bound), Some(CONDITION[0]));
        assert_eq!(field(&member("", "False", lost), &member("", "False", "x")), Some(CONDITION[2]));
    }
}
