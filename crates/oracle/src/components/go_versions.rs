//! Choice of substitutes for Go module versions that are not served.

use semver::Version;

/// A version of a Go module, such as `v1.36.1`: a semantic version with a leading `v`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GoVersion {
    parsed: Version,
    text: String,
}

impl GoVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parsed = Version::parse(text.strip_prefix('v')?).ok()?;
        Some(Self { parsed, text: text.to_owned() })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    fn is_release(&self) -> bool {
        self.parsed.pre.is_empty()
    }

    fn minor(&self) -> (u64, u64) {
        (self.parsed.major, self.parsed.minor)
    }
}

/// Substitutes for `wanted`, best first: releases of the same minor version, nearest first. If two releases are equally
/// near, the newer one comes first.
pub(super) fn same_minor(wanted: &GoVersion, served: &[GoVersion]) -> Vec<GoVersion> {
    let near = |version: &GoVersion| version.parsed.patch.abs_diff(wanted.parsed.patch);
    let mut fitting: Vec<GoVersion> = served
        .iter()
        .filter(|version| version.is_release() && version.minor() == wanted.minor())
        .cloned()
        .collect();
    fitting.sort_by(|a, b| near(a).cmp(&near(b)).then_with(|| b.cmp(a)));
    fitting
}

/// Substitutes for a dependency, best first: the versions from [`same_minor`], then newer minor versions (oldest
/// first), then older minor versions (newest first). The minor version may differ because dependencies are not
/// compared.
pub(super) fn any_minor(wanted: &GoVersion, served: &[GoVersion]) -> Vec<GoVersion> {
    let mut releases: Vec<GoVersion> = served
        .iter()
        .filter(|version| version.is_release() && version.minor() != wanted.minor())
        .cloned()
        .collect();
    releases.sort();
    let (older, newer): (Vec<_>, Vec<_>) = releases.into_iter().partition(|version| version < wanted);
    let mut fitting = same_minor(wanted, served);
    fitting.extend(newer);
    fitting.extend(older.into_iter().rev());
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(texts: &[&str]) -> Vec<GoVersion> {
        texts.iter().map(|text| GoVersion::parse(text).unwrap()).collect()
    }

    fn texts(versions: &[GoVersion]) -> Vec<&str> {
        versions.iter().map(GoVersion::as_str).collect()
    }

    const SERVED: [&str; 7] =
        ["v1.35.4", "v1.36.0-rc.1", "v1.36.1", "v1.36.3", "v1.36.6", "v1.37.0", "v1.38.0-alpha.0"];

    #[test]
    fn the_nearest_patch_release_comes_first_and_the_newer_of_two_equally_near_ones() {
        for (wanted, expected) in [
            ("v1.36.99", ["v1.36.6", "v1.36.3", "v1.36.1"]),
            ("v1.36.2", ["v1.36.3", "v1.36.1", "v1.36.6"]),
            ("v1.36.3", ["v1.36.3", "v1.36.1", "v1.36.6"]),
        ] {
            let wanted = GoVersion::parse(wanted).unwrap();
            assert_eq!(texts(&same_minor(&wanted, &versions(&SERVED))), expected, "{wanted:?}");
        }
        assert!(same_minor(&GoVersion::parse("v1.34.0").unwrap(), &versions(&SERVED)).is_empty());
    }

    #[test]
    fn newer_minor_versions_of_a_dependency_come_before_older_ones() {
        for (wanted, expected) in [
            ("v1.36.6", ["v1.36.6", "v1.36.3", "v1.36.1", "v1.37.0", "v1.35.4"]),
            ("v0.0.0-20220223155221-ee480838109b", ["v1.35.4", "v1.36.1", "v1.36.3", "v1.36.6", "v1.37.0"]),
            ("v2.8.1+incompatible", ["v1.37.0", "v1.36.6", "v1.36.3", "v1.36.1", "v1.35.4"]),
        ] {
            let wanted = GoVersion::parse(wanted).unwrap();
            assert_eq!(texts(&any_minor(&wanted, &versions(&SERVED))), expected, "{wanted:?}");
        }
    }
}
