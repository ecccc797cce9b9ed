//! Parsing of `--emulated-version` and `--min-compatibility-version`.

use harbormaster_api::Release;
use thiserror::Error;

/// The newest minor version of Kubernetes 1 that Harbormaster implements.
const BINARY: u64 = Release::NEWEST.minor() as u64;
/// The oldest minor version that can be emulated.
const FLOOR: u64 = 33;
/// The only component whose versions can be set.
const COMPONENT: &str = "kube";

/// Two minor versions of Kubernetes 1: the emulated version and the minimum compatible version. The emulated version
/// determines the release whose kube-scheduler is reproduced. An older version than all releases only changes the
/// feature gates and their defaults, as it does in kube-scheduler 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    emulated: u32,
    min_compatible: u32,
}

impl Default for Emulation {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

/// The reason why a version cannot be emulated, with kube-scheduler's message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct EmulationError(String);

/// The numbers of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version(Vec<u64>);

impl Emulation {
    /// Returns the versions that apply if the flags are not given.
    pub fn of(release: Release) -> Self {
        Self { emulated: release.minor(), min_compatible: release.minor() - 1 }
    }

    /// Parses the values of all occurrences of both flags, for example `1.35` and `kube=1.35`. Without
    /// `--emulated-version`, `default` applies.
    ///
    /// # Errors
    /// kube-scheduler's message if a value is not a version or if the version is not allowed.
    pub fn parse<'a>(
        emulated: impl IntoIterator<Item = &'a str>,
        min_compatible: impl IntoIterator<Item = &'a str>,
        default: Release,
    ) -> Result<Self, EmulationError> {
        let emulated = read(emulated)?.unwrap_or(Version(vec![1, default.minor().into()]));
        let min_compatible = read(min_compatible)?.unwrap_or_else(|| emulated.before());
        let mut wrong = Vec::new();
        if !(FLOOR..=BINARY).contains(&emulated.minor()) {
            wrong.push(format!(
                "emulation version {} is not between [1.{FLOOR}, 1.{BINARY}.0]",
                emulated.text()
            ));
        }
        let range = FLOOR..=emulated.minor();
        if !range.contains(&min_compatible.minor()) {
            wrong.push(format!(
                "minCompatibilityVersion version {} is not between [1.{FLOOR}, {}]",
                min_compatible.text(),
                emulated.text()
            ));
        }
        match wrong.as_slice() {
            [] => {}
            [only] => return Err(EmulationError(only.clone())),
            _ => return Err(EmulationError(format!("[{}]", wrong.join(", ")))),
        }
        let minor = |version: &Version| u32::try_from(version.minor()).unwrap_or(u32::MAX);
        Ok(Self { emulated: minor(&emulated), min_compatible: minor(&min_compatible) })
    }

    /// Returns the emulated minor version of Kubernetes 1.
    pub(crate) fn minor(self) -> u32 {
        self.emulated
    }

    /// Returns the release whose kube-scheduler is reproduced.
    pub fn release(self) -> Release {
        Release::nearest(self.emulated)
    }

    /// Returns the emulated version, for example `1.36`.
    pub fn emulated(self) -> String {
        format!("1.{}", self.emulated)
    }

    /// Returns the minimum compatible version, for example `1.35`.
    pub fn min_compatible(self) -> String {
        format!("1.{}", self.min_compatible)
    }
}

impl Version {
    /// Returns the minor version of Kubernetes 1. For other major versions, returns a number outside any valid range.
    fn minor(&self) -> u64 {
        match self.0.as_slice() {
            [1, minor, ..] => *minor,
            [0, ..] => 0,
            _ => u64::MAX,
        }
    }

    /// Returns the previous minor version, but at least [`FLOOR`].
    fn before(&self) -> Self {
        let Some((major, minor)) = self.0.first().zip(self.0.get(1)) else { return self.clone() };
        let before = Self(vec![*major, minor.saturating_sub(1)]);
        if before.minor() < FLOOR { Self(vec![1, FLOOR]) } else { before }
    }

    fn text(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        numbers.join(".")
    }
}

/// Parses the values of all occurrences of one flag, and returns the version of [`COMPONENT`].
fn read<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Option<Version>, EmulationError> {
    let mut found: Vec<(&str, Version)> = Vec::new();
    for pair in flags.into_iter().flat_map(|flag| flag.split(',')).filter(|pair| !pair.is_empty()) {
        let (component, text) =
            pair.split_once('=').map_or((COMPONENT, pair), |(name, version)| (name.trim(), version.trim()));
        let version = parse(text)?;
        if version.0.get(2).is_some_and(|patch| *patch != 0) {
            let message = format!("patch version not allowed, got: {component}={}", version.text());
            return Err(EmulationError(message));
        }
        if let Some((_, first)) = found.iter().find(|(known, _)| *known == component) {
            return Err(EmulationError(format!(
                "duplicate version flag, {component}={} and {component}={}",
                first.text(),
                version.text()
            )));
        }
        found.push((component, version));
    }
    if let Some((other, _)) = found.iter().find(|(component, _)| *component != COMPONENT) {
        return Err(EmulationError(format!("component not registered: {other}")));
    }
    Ok(found.pop().map(|(_, version)| version))
}

/// Parses dot-separated numbers with an optional leading `v`, and ignores the rest of the string.
fn parse(text: &str) -> Result<Version, EmulationError> {
    let trimmed = text.trim_start();
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let digits = trimmed[..end].split("..").next().unwrap_or_default().trim_end_matches('.');
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(EmulationError(format!("could not parse {text:?} as version")));
    }
    let parts: Vec<&str> = digits.split('.').collect();
    if parts.len() < 2 {
        return Err(EmulationError(format!("illegal version string {text:?}")));
    }
    if parts[0].len() > 1 && parts[0].starts_with('0') {
        let message = format!("illegal zero-prefixed version component {:?} in {text:?}", parts[0]);
        return Err(EmulationError(message));
    }
    let number = |part: &&str| {
        let wrong = || format!("illegal non-numeric version component {part:?} in {text:?}");
        part.parse().map_err(|_| EmulationError(wrong()))
    };
    Ok(Version(parts.iter().map(number).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(emulated: &[&str], min: &[&str]) -> Result<(String, String), String> {
        let emulation = Emulation::parse(emulated.iter().copied(), min.iter().copied(), Release::V1_36);
        emulation.map(|e| (e.emulated(), e.min_compatible())).map_err(|error| error.to_string())
    }

    #[test]
    fn versions_are_parsed_as_kube_scheduler_parses_them() {
        for (emulated, min, expected) in [
            (&[][..], &[][..], ("1.36", "1.35")),
            (&[""], &[], ("1.36", "1.35")),
            (&["1.35"], &[], ("1.35", "1.34")),
            (&["kube=1.34"], &[], ("1.34", "1.33")),
            (&["1.33"], &[], ("1.33", "1.33")),
            (&["1.37"], &[], ("1.37", "1.36")),
            (&["v1.35.0"], &["1.33"], ("1.35", "1.33")),
            (&["1.034"], &[], ("1.34", "1.33")),
            (&[], &["1.36"], ("1.36", "1.36")),
        ] {
            let expected = (expected.0.to_owned(), expected.1.to_owned());
            assert_eq!(parsed(emulated, min), Ok(expected), "{emulated:?} {min:?}");
        }
    }

    #[test]
    fn versions_that_cannot_be_emulated_are_rejected_with_kube_schedulers_messages() {
        for (emulated, min, expected) in [
            (
                &["1.0"][..],
                &[][..],
                "[emulation version 1.0 is not between [1.33, 1.37.0], minCompatibilityVersion version 1.33 is not \
                 between [1.33, 1.0]]",
            ),
            (&["1.38"], &[], "emulation version 1.38 is not between [1.33, 1.37.0]"),
            (&["2.0"], &[], "emulation version 2.0 is not between [1.33, 1.37.0]"),
            (&["x"], &[], "could not parse \"x\" as version"),
            (&["a=b=c"], &[], "could not parse \"b=c\" as version"),
            (&["1"], &[], "illegal version string \"1\""),
            (&["1.x"], &[], "illegal version string \"1.x\""),
            (&["1.35.2"], &[], "patch version not allowed, got: kube=1.35.2"),
            (&["foo=1.35"], &[], "component not registered: foo"),
            (&["1.35,kube=1.35"], &[], "duplicate version flag, kube=1.35 and kube=1.35"),
            (&[], &["1.20"], "minCompatibilityVersion version 1.20 is not between [1.33, 1.36]"),
            (&[], &["1.37"], "minCompatibilityVersion version 1.37 is not between [1.33, 1.36]"),
            (&["1.33"], &["1.35"], "minCompatibilityVersion version 1.35 is not between [1.33, 1.33]"),
        ] {
            assert_eq!(parsed(emulated, min), Err(expected.to_owned()), "{emulated:?} {min:?}");
        }
    }
}
