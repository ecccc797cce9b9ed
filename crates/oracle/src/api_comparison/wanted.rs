//! What may differ, and why.

use anyhow::{Context, Result};
use regex::RegexSet;
use serde::Deserialize;

use super::diff::Line;

/// One wanted difference.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// What steps call it.
    pub name: String,
    /// Why our server answers differently.
    pub reason: String,
    /// Patterns of the lines that only the real server answers.
    #[serde(default)]
    pub real: Vec<String>,
    /// Patterns of the lines that only ours answers.
    #[serde(default)]
    pub ours: Vec<String>,
}

/// All of them.
#[derive(Debug, Clone)]
pub struct Wanted(Vec<(Difference, [RegexSet; 2])>);

impl Wanted {
    /// Reads the list (YAML).
    pub fn parse(text: &str) -> Result<Self> {
        let all: Vec<Difference> = serde_saphyr::from_str(text)?;
        let with_patterns = all.into_iter().map(|difference| {
            let sets = [RegexSet::new(&difference.real)?, RegexSet::new(&difference.ours)?];
            anyhow::Ok((difference, sets))
        });
        Ok(Self(with_patterns.collect::<Result<_>>()?))
    }

    /// All, for whoever prints them.
    pub fn all(&self) -> impl Iterator<Item = &Difference> {
        self.0.iter().map(|(difference, _)| difference)
    }

    /// Takes the lines that `name` excuses out of `lines`, and says whether
    /// there were any.
    pub(super) fn excuse<'a>(&self, name: &str, lines: &mut Vec<Line<'a>>) -> Result<bool> {
        let found = self.0.iter().find(|(difference, _)| difference.name == name);
        let (_, [real, ours]) = found.with_context(|| format!("no wanted difference is named {name:?}"))?;
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
    fn only_lines_of_the_right_side_are_excused() {
        let wanted = Wanted::parse("- {name: a, reason: why, real: ['^x'], ours: ['^y']}").unwrap();
        let mut lines = vec![Line::First("x1"), Line::Second("x2"), Line::Second("y"), Line::Both("x")];
        assert!(wanted.excuse("a", &mut lines).unwrap());
        assert_eq!(lines, [Line::Second("x2"), Line::Both("x")]);
        assert!(!wanted.excuse("a", &mut lines).unwrap());
        assert!(wanted.excuse("b", &mut lines).is_err());
        assert!(Wanted::parse("- {name: a}").is_err());
    }
}
