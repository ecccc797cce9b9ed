//! Contradictions between objects that indexes have found.

use std::{collections::BTreeMap, time::Duration};

use harbormaster_api::Timestamp;
use harbormaster_framework::index::Contradiction;

/// Time for which a contradiction must last before it is reported. While a watch lists its objects again, old states of
/// some objects meet new states of others.
const PATIENCE: Duration = Duration::from_secs(10);

/// Contradictions by problem and subject.
#[derive(Debug, Default)]
pub(crate) struct Contradictions(BTreeMap<(&'static str, String), State>);

/// State of one contradiction.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Seen for the first time at this time.
    New(Timestamp),
    Reported,
}

impl Contradictions {
    /// Takes note of all contradictions that exist now. Returns those that have lasted long enough to be reported; each
    /// is returned once, unless it has been resolved and comes back.
    pub(crate) fn check<'a>(
        &mut self,
        current: impl Iterator<Item = &'a Contradiction>,
        now: Timestamp,
    ) -> Vec<Contradiction> {
        let (mut known, mut lasting) = (std::mem::take(&mut self.0), Vec::new());
        for found in current {
            let key = (found.problem, found.subject.clone());
            let mut state = known.remove(&key).unwrap_or(State::New(now));
            if let State::New(since) = state
                && since + PATIENCE <= now
            {
                lasting.push(found.clone());
                state = State::Reported;
            }
            self.0.insert(key, state);
        }
        lasting
    }

    /// Time at which [`Self::check`] may next return something.
    pub(crate) fn next_report(&self) -> Option<Timestamp> {
        let due = |state: &State| match state {
            State::New(since) => Some(*since + PATIENCE),
            State::Reported => None,
        };
        self.0.values().filter_map(due).min()
    }

    /// Number of contradictions that were reported and still exist.
    pub(crate) fn reported(&self) -> usize {
        self.0.values().filter(|state| matches!(state, State::Reported)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_is_reported_once_if_it_lasts() {
        let found = |subject: &str| Contradiction {
            problem: "used twice",
            subject: subject.to_owned(),
            objects: vec!["a".to_owned(), "b".to_owned()],
        };
        let (a, b) = (found("a"), found("b"));
        let mut all = Contradictions::default();
        let mut check = |current: &[&Contradiction], at: i64| {
            let lasting = all.check(current.iter().copied(), Timestamp::from_secs(at));
            let lasting = lasting.into_iter().map(|found| found.subject).collect::<Vec<_>>().join(" ");
            (lasting, all.next_report().map(|at| at.since(Timestamp::from_secs(0)).as_secs()), all.reported())
        };
        for (what, current, at, lasting, next, reported) in [
            ("nothing is wrong", &[][..], 0, "", None, 0),
            ("a is new", &[&a], 1, "", Some(11), 0),
            ("b is new", &[&a, &b], 5, "", Some(11), 0),
            ("a lasts", &[&a, &b], 11, "a", Some(15), 1),
            ("b is resolved in time", &[&a], 12, "", None, 1),
            ("b is back", &[&a, &b], 14, "", Some(24), 1),
            ("a is resolved", &[&b], 20, "", Some(24), 0),
            ("b lasts", &[&b], 30, "b", None, 1),
            ("a is back", &[&b, &a], 31, "", Some(41), 1),
            ("a lasts again", &[&b, &a], 50, "a", None, 2),
        ] {
            assert_eq!(check(current, at), (lasting.to_owned(), next, reported), "{what}");
        }
    }
}
