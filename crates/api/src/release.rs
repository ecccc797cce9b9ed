//! Releases of Kubernetes.

use std::fmt;

/// A minor release of Kubernetes whose kube-scheduler Harbormaster reproduces.
///
/// Everything in which the releases differ follows from this value: feature gates, default plugins, registrations for
/// events, messages, metrics and arithmetic. The default applies where neither a cluster nor a flag selects a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// Kubernetes 1.36, as of 1.36.1.
    #[default]
    V1_36,
    /// Kubernetes 1.37, as of 1.37.2.
    V1_37,
}

impl Release {
    /// All releases, oldest first.
    pub const ALL: &[Self] = &[Self::V1_36, Self::V1_37];
    /// The newest release.
    pub const NEWEST: Self = Self::V1_37;

    /// Minor version of Kubernetes 1.
    pub const fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// Full version of the Kubernetes components that are reproduced, for example `v1.36.1`.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V1_36 => "v1.36.1",
            Self::V1_37 => "v1.37.2",
        }
    }

    /// Returns the release with the given minor version of Kubernetes 1, or the nearest one.
    pub fn nearest(minor: u32) -> Self {
        Self::ALL.iter().copied().rev().find(|release| release.minor() <= minor).unwrap_or(Self::V1_36)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_minor_version_is_served_by_the_nearest_release() {
        for (minor, release) in
            [(0, Release::V1_36), (36, Release::V1_36), (37, Release::V1_37), (99, Release::V1_37)]
        {
            assert_eq!(Release::nearest(minor), release, "{minor}");
        }
        assert_eq!(Release::ALL.last(), Some(&Release::NEWEST));
        assert_eq!(Release::NEWEST.to_string(), "1.37");
    }
}
