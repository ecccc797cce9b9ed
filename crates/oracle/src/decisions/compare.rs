//! The first difference between two plays.

use std::collections::BTreeSet;

use serde::Serialize;

use super::outcome::{EVENT, Outcomes, PodOutcome};
use super::player::Play;
use crate::extenders::Asked;

/// Where two plays of a script part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The index of the step.
    pub step: usize,
    /// The pod's name.
    pub pod: String,
    /// Which part of its outcome.
    pub field: &'static str,
    /// The first scheduler's pod.
    pub left: Option<PodOutcome>,
    /// The second scheduler's pod.
    pub right: Option<PodOutcome>,
    /// How many pods differ after this step.
    pub pods: usize,
    /// What extenders were asked in this step by one of the schedulers alone: about
    /// that pod, or about any where that is the difference.
    pub asked: [Vec<Asked>; 2],
}

/// The first step after which any pod differs; of its pods one with another
/// node before one with other words, and these before other questions to extenders.
pub(super) fn compare(left: &Play, right: &Play) -> Option<Difference> {
    let outcomes = left.outcomes.iter().zip(&right.outcomes);
    let mut steps = outcomes.zip(left.asked.iter().zip(&right.asked)).enumerate();
    steps.find_map(|(step, (outcomes, asked))| {
        let asked = [asked.0.difference(asked.1), asked.1.difference(asked.0)];
        let asked = asked.map(|asked| asked.cloned().collect::<Vec<_>>());
        let Some(mut found) = compare_outcomes(step, outcomes.0, outcomes.1) else {
            return compare_asked(step, asked);
        };
        found.asked = asked.map(|asked| asked.into_iter().filter(|asked| asked.pod == found.pod).collect());
        Some(found)
    })
}

fn compare_asked(step: usize, asked: [Vec<Asked>; 2]) -> Option<Difference> {
    let pods: BTreeSet<&str> = asked.iter().flatten().map(|asked| asked.pod.as_str()).collect();
    let (pod, pods) = (pods.first()?.to_string(), pods.len());
    Some(Difference { step, pod, field: "questions to extenders", left: None, right: None, pods, asked })
}

fn compare_outcomes(step: usize, left: &Outcomes, right: &Outcomes) -> Option<Difference> {
    let names = left.0.keys().chain(right.0.keys().filter(|name| !left.0.contains_key(*name)));
    let mut found: Vec<(usize, &'static str, &String)> = names
        .filter_map(|name| {
            let (rank, field) = differing_field(left.0.get(name), right.0.get(name))?;
            Some((rank, field, name))
        })
        .collect();
    found.sort();
    let (_, field, pod) = *found.first()?;
    Some(Difference {
        step,
        pod: pod.clone(),
        field,
        left: left.0.get(pod).cloned(),
        right: right.0.get(pod).cloned(),
        pods: found.len(),
        asked: [Vec::new(), Vec::new()],
    })
}

/// The first field that differs, and its position.
fn differing_field(left: Option<&PodOutcome>, right: Option<&PodOutcome>) -> Option<(usize, &'static str)> {
    let (Some(left), Some(right)) = (left, right) else { return Some((0, "existence")) };
    let is_counted =
        (left.event_is_stale() || right.event_is_stale()) && is_up_to_date(left) && is_up_to_date(right);
    let is_excused = is_counted || left.event_is_hidden || right.event_is_hidden;
    let mut fields = left.fields().into_iter().zip(right.fields()).enumerate();
    let (rank, ((name, _), _)) =
        fields.find(|(_, (left, right))| left != right && !(left.0 == EVENT && is_excused))?;
    Some((rank, name))
}

/// Whether the event says what the condition says, or cannot be expected to.
fn is_up_to_date(outcome: &PodOutcome) -> bool {
    outcome.event_is_stale() || outcome.event == outcome.condition[2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    type Pod = (&'static str, &'static str, &'static str);

    /// Pods as name, node and event, after each step.
    fn play(steps: &[&[Pod]]) -> Play {
        let outcome = |(name, node, event): &Pod| {
            let (node, event) = ((*node).to_owned(), (*event).to_owned());
            ((*name).to_owned(), PodOutcome { node, event, ..PodOutcome::default() })
        };
        let outcomes: Vec<_> =
            steps.iter().map(|pods| Outcomes(pods.iter().map(outcome).collect::<BTreeMap<_, _>>())).collect();
        let asked = vec![BTreeSet::new(); outcomes.len()];
        Play { outcomes, asked, refused: 0, elapsed: Duration::ZERO }
    }

    #[test]
    fn the_first_step_counts_and_in_it_the_node_before_the_words() {
        let left = play(&[&[("a", "n", "")], &[("a", "n", "x"), ("b", "n", "")]]);
        assert_eq!(compare(&left, &left), None);
        let right = play(&[&[("a", "n", "")], &[("a", "n", "y"), ("b", "m", "")]]);
        let found = compare(&left, &right).unwrap();
        assert_eq!((found.step, found.pod.as_str(), found.field, found.pods), (1, "b", "node", 2));
        let right = play(&[&[("a", "n", ""), ("c", "", "")], &[]]);
        let found = compare(&left, &right).unwrap();
        assert_eq!((found.step, found.pod.as_str(), found.field), (0, "c", "existence"));
    }

    #[test]
    fn the_text_of_a_repeated_event_may_be_that_of_its_first_time() {
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
}
