//! Semantic versions (semver.org 2.0.0), with the errors of the library that Kubernetes uses.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        Ok(Self {
            major: number(major, "Major", "major")?,
            minor: number(minor, "Minor", "minor")?,
            patch: number(patch, "Patch", "patch")?,
            pre: pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(part).collect())?,
            build: build.map_or(Ok(Vec::new()), |build| build.split('.').map(meta).collect())?,
        })
    }

    /// Parses a version that may begin with `v`, lack its last numbers, or have leading zeros.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, rest) = text.split_at(end);
        let trimmed = |number: &str| {
            let trimmed = number.trim_start_matches('0');
            if trimmed.is_empty() && !number.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
        };
        let mut numbers: Vec<String> = numbers.splitn(3, '.').map(trimmed).collect();
        numbers.resize(3, "0".to_owned());
        Self::parse(&format!("{}{rest}", numbers.join(".")))
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

fn number(text: &str, what: &str, lower: &str) -> Result<u64, String> {
    if !text.chars().all(|c| c.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {lower} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text.parse().map(Part::Number).map_err(|why| why.to_string());
    }
    match text.chars().all(is_word) {
        true => Ok(Part::Text(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {text:?}")),
    }
}

fn meta(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("Build meta data is empty".to_owned());
    }
    match text.chars().all(is_word) {
        true => Ok(text.to_owned()),
        false => Err(format!("Invalid character(s) found in build meta data {text:?}")),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
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
    fn only_tolerant_parsing_accepts_incomplete_versions() {
        for text in ["1", "1.2", "v1.2.3", "01.2.3"] {
            assert!(Semver::parse(text).is_err(), "{text}");
            assert!(Semver::parse_tolerant(text).is_ok(), "{text}");
        }
        assert!(Semver::parse_tolerant("one").is_err());
    }
}
