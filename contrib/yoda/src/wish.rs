//! What a pod wants of cards, said by its labels.

use harbormaster::api::Labels;
use thiserror::Error;

/// How many cards; 1 if another label asks for cards and this one is missing.
pub const NUMBER: &str = "scv/number";
/// MiB on each of them, shared with other pods that say how much they need. Without it the pod has its cards to itself.
pub const MEMORY: &str = "scv/memory";
/// The least clock of a card's memory, in MHz.
pub const CLOCK: &str = "scv/clock";
/// The level of the node, a label of pods and nodes.
pub const LEVEL: &str = "scv/Level";
/// The pod's place in the queue: higher goes first.
pub const PRIORITY: &str = "scv/priority";

/// What a pod wants. All of it must be satisfied by the same cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How many cards.
    pub number: u32,
    /// MiB on each; `None`: whole cards.
    pub memory: Option<u64>,
    /// The least clock.
    pub clock: Option<u64>,
    /// The level of the node.
    pub level: Option<Level>,
}

/// How good a node's cards are, as its administrator says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `Low`
    Low = 1,
    /// `Medium`
    Medium = 2,
    /// `High`
    High = 3,
}

impl Level {
    /// The level of that name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Low" => Some(Self::Low),
            "Medium" => Some(Self::Medium),
            "High" => Some(Self::High),
            _ => None,
        }
    }
}

/// A label that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("label {label}: {value:?} is not {expected}")]
pub struct BadLabel {
    /// Which one.
    pub label: &'static str,
    /// What it says.
    pub value: String,
    /// What it might have said.
    pub expected: &'static str,
}

impl Wish {
    /// What the labels ask for; `None`: no cards.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn of(labels: &Labels) -> Result<Option<Self>, BadLabel> {
        if labels.is_empty() {
            return Ok(None);
        }
        let number = amount(labels, NUMBER)?;
        let memory = amount(labels, MEMORY)?;
        let clock = amount(labels, CLOCK)?;
        let level = read(labels, LEVEL, "High, Medium or Low", Level::parse)?;
        if number.is_none() && memory.is_none() && clock.is_none() && level.is_none() {
            return Ok(None);
        }
        // No node has more cards than fit into a u32, so no pod that wants them fits.
        let number = u32::try_from(number.unwrap_or(1)).unwrap_or(u32::MAX);
        Ok(Some(Self { number, memory, clock, level }))
    }
}

/// What [`PRIORITY`] says; 0 without it.
///
/// # Errors
/// When it is not a number.
pub fn priority(labels: &Labels) -> Result<i64, BadLabel> {
    let priority = read(labels, PRIORITY, "a whole number", |text| text.parse().ok())?;
    Ok(priority.unwrap_or(0))
}

/// What [`LEVEL`] says, if it can be read.
pub fn level(labels: &Labels) -> Option<Level> {
    labels.get(LEVEL).and_then(|text| Level::parse(text))
}

fn amount(labels: &Labels, label: &'static str) -> Result<Option<u64>, BadLabel> {
    let above_zero = |text: &str| text.parse().ok().filter(|amount| *amount > 0);
    read(labels, label, "a whole number above zero", above_zero)
}

fn read<T>(
    labels: &Labels,
    label: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, BadLabel> {
    let Some(text) = labels.get(label) else { return Ok(None) };
    let bad = || BadLabel { label, value: text.to_string(), expected };
    parse(text).map(Some).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use harbormaster::testkit::labels;

    use super::*;

    fn wish(pairs: &[(&str, &str)]) -> Result<Option<Wish>, String> {
        Wish::of(&labels(pairs)).map_err(|bad| bad.to_string())
    }

    #[test]
    fn any_label_but_the_priority_asks_for_cards() {
        let one = Wish { number: 1, memory: None, clock: None, level: None };
        for (pairs, expected) in [
            (&[][..], None),
            (&[("app", "web"), (PRIORITY, "7")], None),
            (&[(NUMBER, "2")], Some(Wish { number: 2, ..one })),
            (&[(MEMORY, "8000")], Some(Wish { memory: Some(8000), ..one })),
            (&[(CLOCK, "5705")], Some(Wish { clock: Some(5705), ..one })),
            (&[(LEVEL, "High")], Some(Wish { level: Some(Level::High), ..one })),
            (&[(NUMBER, "99999999999")], Some(Wish { number: u32::MAX, ..one })),
        ] {
            assert_eq!(wish(pairs), Ok(expected), "{pairs:?}");
        }
    }

    #[test]
    fn bug_9_labels_that_say_nothing_are_told_of_instead_of_counting_as_zero() {
        for (label, value, expected) in [
            (NUMBER, "two", "label scv/number: \"two\" is not a whole number above zero"),
            (MEMORY, "-1", "label scv/memory: \"-1\" is not a whole number above zero"),
            (MEMORY, "8Gi", "label scv/memory: \"8Gi\" is not a whole number above zero"),
            (CLOCK, "", "label scv/clock: \"\" is not a whole number above zero"),
            (LEVEL, "high", "label scv/Level: \"high\" is not High, Medium or Low"),
        ] {
            assert_eq!(wish(&[(label, value)]), Err(expected.to_owned()));
        }
        let bad = priority(&labels(&[(PRIORITY, "urgent")])).unwrap_err();
        assert_eq!(bad.to_string(), "label scv/priority: \"urgent\" is not a whole number");
    }

    #[test]
    fn bug_8_no_cards_is_not_a_number_of_cards() {
        let expected = "label scv/number: \"0\" is not a whole number above zero";
        assert_eq!(wish(&[(NUMBER, "0")]), Err(expected.to_owned()));
    }

    #[test]
    fn levels_are_in_order_and_priorities_may_be_negative() {
        assert!(Level::High > Level::Medium && Level::Medium > Level::Low);
        assert_eq!(priority(&labels(&[(PRIORITY, "-3")])), Ok(-3));
        assert_eq!(priority(&labels(&[])), Ok(0));
    }
}
