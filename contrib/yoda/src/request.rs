//! Cards that a pod requests through its labels.

use harbormaster::api::Labels;
use thiserror::Error;

/// Number of cards; 1 if only other labels request cards.
pub const NUMBER: &str = "scv/number";
/// Memory in MiB on each card. Pods with this label can share a card; a pod without it gets whole cards.
pub const MEMORY: &str = "scv/memory";
/// Minimum memory clock in MHz.
pub const CLOCK: &str = "scv/clock";
/// Level of the node; a label on pods and nodes.
pub const LEVEL: &str = "scv/Level";
/// Priority of the pod in the queue; higher values are tried first.
pub const PRIORITY: &str = "scv/priority";

/// Cards that a pod requests. Each card must satisfy all requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of cards.
    pub number: u32,
    /// Memory in MiB on each card; `None` requests whole cards.
    pub memory: Option<u64>,
    /// Minimum memory clock in MHz.
    pub clock: Option<u64>,
    /// Required level of the node.
    pub level: Option<Level>,
}

/// Quality of a node's cards, as set by its administrator.
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
    /// Parses a level.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Low" => Some(Self::Low),
            "Medium" => Some(Self::Medium),
            "High" => Some(Self::High),
            _ => None,
        }
    }
}

/// An invalid label.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("label {label}: {value:?} is not {expected}")]
pub struct BadLabel {
    /// Key of the label.
    pub label: &'static str,
    /// Value of the label.
    pub value: String,
    /// Description of valid values.
    pub expected: &'static str,
}

impl Request {
    /// Reads the request from labels; returns `None` if the pod requests no cards.
    ///
    /// # Errors
    /// If a label is invalid.
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
        // No node has more than u32::MAX cards, so a pod that requests more does not fit.
        let number = u32::try_from(number.unwrap_or(1)).unwrap_or(u32::MAX);
        Ok(Some(Self { number, memory, clock, level }))
    }
}

/// Returns the value of [`PRIORITY`], or 0 if the label is missing.
///
/// # Errors
/// If the value is not a number.
pub fn priority(labels: &Labels) -> Result<i64, BadLabel> {
    let priority = read(labels, PRIORITY, "a whole number", |text| text.parse().ok())?;
    Ok(priority.unwrap_or(0))
}

/// Returns the value of [`LEVEL`] if the label is present and valid.
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

    fn request(pairs: &[(&str, &str)]) -> Result<Option<Request>, String> {
        Request::of(&labels(pairs)).map_err(|bad| bad.to_string())
    }

    #[test]
    fn any_label_except_the_priority_requests_cards() {
        let one = Request { number: 1, memory: None, clock: None, level: None };
        for (pairs, expected) in [
            (&[][..], None),
            (&[("app", "web"), (PRIORITY, "7")], None),
            (&[(NUMBER, "2")], Some(Request { number: 2, ..one })),
            (&[(MEMORY, "8000")], Some(Request { memory: Some(8000), ..one })),
            (&[(CLOCK, "5705")], Some(Request { clock: Some(5705), ..one })),
            (&[(LEVEL, "High")], Some(Request { level: Some(Level::High), ..one })),
            (&[(NUMBER, "99999999999")], Some(Request { number: u32::MAX, ..one })),
        ] {
            assert_eq!(request(pairs), Ok(expected), "{pairs:?}");
        }
    }

    #[test]
    fn invalid_labels_are_reported_instead_of_counting_as_zero() {
        for (label, value, expected) in [
            (NUMBER, "two", "label scv/number: \"two\" is not a whole number above zero"),
            (MEMORY, "-1", "label scv/memory: \"-1\" is not a whole number above zero"),
            (MEMORY, "8Gi", "label scv/memory: \"8Gi\" is not a whole number above zero"),
            (CLOCK, "", "label scv/clock: \"\" is not a whole number above zero"),
            (LEVEL, "high", "label scv/Level: \"high\" is not High, Medium or Low"),
        ] {
            assert_eq!(request(&[(label, value)]), Err(expected.to_owned()));
        }
        let bad = priority(&labels(&[(PRIORITY, "urgent")])).unwrap_err();
        assert_eq!(bad.to_string(), "label scv/priority: \"urgent\" is not a whole number");
    }

    #[test]
    fn zero_is_not_a_valid_number_of_cards() {
        let expected = "label scv/number: \"0\" is not a whole number above zero";
        assert_eq!(request(&[(NUMBER, "0")]), Err(expected.to_owned()));
    }

    #[test]
    fn levels_are_ordered_and_priorities_can_be_negative() {
        assert!(Level::High > Level::Medium && Level::Medium > Level::Low);
        assert_eq!(priority(&labels(&[(PRIORITY, "-3")])), Ok(-3));
        assert_eq!(priority(&labels(&[])), Ok(0));
    }
}
