//! The first difference between two plays.

use serde::Serialize;

use super::outcome::{EVENT, Outcomes, PodOutcome};
use super::player::Play;

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
}

/// The first step after which any pod differs; of its pods one with another
/// node before one with other words.
pub(super) fn compare(left: &Play, right: &Play) -> Option<Difference> {
    left.outcomes
        .iter()
        .zip(&right.outcomes)
        .enumerate()
        .find_map(|(step, (left, right))| compare_outcomes(step, left, right))
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
    })
}

/// The first field that differs, and its position.
fn differing_field(left: Option<&PodOutcome>, right: Option<&PodOutcome>) -> Option<(usize, &'static str)> {
    let (Some(left), Some(right)) = (left, right) else { return Some((0, "existence")) };
    let is_excused =
        (left.event_is_stale() || right.event_is_stale()) && is_up_to_date(left) && is_up_to_date(right);
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
        let outcomes =
            steps.iter().map(|pods| Outcomes(pods.iter().map(outcome).collect::<BTreeMap<_, _>>())).collect();
        Play { outcomes, refused: 0, elapsed: Duration::ZERO }
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
