//! Expected differences and their reasons.

use anyhow::{Context, Result};
use harbormaster_api::Release;
use regex::RegexSet;
use serde::Deserialize;

use super::diff::Line;

/// An expected difference.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDifference {
    /// Name that steps refer to.
    pub name: String,
    /// The reason our server's answer differs.
    pub reason: String,
    /// Last minor version of Kubernetes with the difference, if it ends with one.
    #[serde(default)]
    pub until: Option<u32>,
    /// Patterns for lines that only the real server returns.
    #[serde(default)]
    pub real: Vec<String>,
    /// Patterns for lines that only our server returns.
    #[serde(default)]
    pub ours: Vec<String>,
}

/// All expected differences.
#[derive(Debug, Clone)]
pub struct ExpectedDifferences {
    all: Vec<(ExpectedDifference, [RegexSet; 2])>,
    /// Minor version of the compared servers, if it matters.
    minor: Option<u32>,
}

impl ExpectedDifferences {
    /// Parses the list (YAML).
    pub fn parse(text: &str) -> Result<Self> {
        let all: Vec<ExpectedDifference> = serde_saphyr::from_str(text)?;
        let with_patterns = all.into_iter().map(|difference| {
            let sets = [RegexSet::new(&difference.real)?, RegexSet::new(&difference.ours)?];
            anyhow::Ok((difference, sets))
        });
        Ok(Self { all: with_patterns.collect::<Result<_>>()?, minor: None })
    }

    /// Returns the same list for servers of a release.
    #[must_use]
    pub fn of(&self, release: Release) -> Self {
        Self { minor: Some(release.minor()), ..self.clone() }
    }

    /// Iterates over all differences.
    pub fn all(&self) -> impl Iterator<Item = &ExpectedDifference> {
        self.all.iter().map(|(difference, _)| difference)
    }

    /// Removes the lines that the difference `name` matches. Returns true if any line matched, or if the servers' release
    /// no longer has the difference.
    pub(super) fn remove_from(&self, lines: &mut Vec<Line<'_>>, name: &str) -> Result<bool> {
        let found = self.all.iter().find(|(difference, _)| difference.name == name);
        let (difference, [real, ours]) =
            found.with_context(|| format!("unknown expected difference {name:?}"))?;
        if self.minor.zip(difference.until).is_some_and(|(minor, until)| minor > until) {
            return Ok(true);
        }
        let before = lines.len();
        lines.retain(|line| match line {
            Line::Both(_) => true,
            Line::First(line) => !real.is_match(line),
            Line::Second(line) => !ours.is_match(line),
        });
        Ok(lines.len() < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_matching_side_are_removed() {
        let expected =
            ExpectedDifferences::parse("- {name: a, reason: why, real: ['^x'], ours: ['^y']}").unwrap();
        let mut lines = vec![Line::First("x1"), Line::Second("x2"), Line::Second("y"), Line::Both("x")];
        assert!(expected.remove_from(&mut lines, "a").unwrap());
        assert_eq!(lines, [Line::Second("x2"), Line::Both("x")]);
        assert!(!expected.remove_from(&mut lines, "a").unwrap());
        assert!(expected.remove_from(&mut lines, "b").is_err());
        assert!(ExpectedDifferences::parse("- {name: a}").is_err());
    }

    #[test]
    fn a_difference_that_has_ended_removes_nothing_and_need_not_occur() {
        let expected =
            ExpectedDifferences::parse("- {name: a, reason: why, until: 36, real: ['^x']}").unwrap();
        for (release, left) in [(Release::V1_36, 0), (Release::V1_37, 1)] {
            let mut lines = vec![Line::First("x")];
            assert!(expected.of(release).remove_from(&mut lines, "a").unwrap());
            assert_eq!(lines.len(), left, "{release}");
        }
    }
}
