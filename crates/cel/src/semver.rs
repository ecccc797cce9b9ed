//! Semantic versions (semver.org 2.0.0), with the errors of the library that Kubernetes uses.

use std::{cmp::Ordering, fmt};

use crate::printed::quoted;

/// A semantic version.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pre: Vec<Part>,
    build: Vec<String>,
}

/// A part of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    // Numbers come before text.
    Number(u64),
    Text(String),
}

impl Semver {
    /// Parses a version.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        Ok(Self {
            major: number(major, "Major")?,
            minor: number(minor, "Minor")?,
            patch: number(patch, "Patch")?,
            pre: pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(part).collect())?,
            build: build.map_or(Ok(Vec::new()), |build| build.split('.').map(meta).collect())?,
        })
    }

    /// Parses a version that may begin with `v`, lack its last numbers, or have leading zeros.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Compares two versions. Build metadata does not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch));
        numbers.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        true => trimmed.to_owned(),
        false => format!("0{trimmed}"),
    }
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if !text.bytes().all(|c| c.is_ascii_digit()) {
        let what = what.to_lowercase();
        return Err(format!("Invalid character(s) found in {what} number {}", quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {}", quoted(text)));
    }
    parsed(text)
}

fn parsed(digits: &str) -> Result<u64, String> {
    digits.parse().map_err(|_| {
        let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {why}", quoted(digits))
    })
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|c| c.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quoted(text)
            ));
        }
        return parsed(text).map(Part::Number);
    }
    match text.chars().all(is_word) {
        true => Ok(Part::Text(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {}", quoted(text))),
    }
}

fn meta(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    match text.chars().all(is_word) {
        true => Ok(text.to_owned()),
        false => Err(format!("Invalid character(s) found in build meta data {}", quoted(text))),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (at, part) in self.pre.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Text(text) => f.write_str(text)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if at == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_semver_says() {
        let sorted =
            ["0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.2", "1.0.0", "1.0.1"];
        for pair in sorted.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| Semver::parse(text).unwrap());
            assert_eq!((a.compare(&b), b.compare(&a)), (Ordering::Less, Ordering::Greater), "{pair:?}");
        }
        let same = ["1.0.0+a", "1.0.0+b"].map(|text| Semver::parse(text).unwrap());
        assert_eq!(same[0].compare(&same[1]), Ordering::Equal);
    }

    #[test]
    fn only_tolerant_parsing_accepts_deviations_from_the_syntax() {
        for (text, expected) in
            [("1", "1.0.0"), ("1.2", "1.2.0"), ("v1.2.3", "1.2.3"), ("01.2.03-a+b.c", "1.2.3-a+b.c")]
        {
            assert!(Semver::parse(text).is_err(), "{text}");
            assert_eq!(Semver::parse_tolerant(text).unwrap().to_string(), expected);
        }
        assert!(Semver::parse_tolerant("one").is_err());
        assert!(Semver::parse_tolerant("1.2-a").is_err());
    }
}
