//! The releases of Kubernetes with which each comparison runs.
//!
//! A release that is missing here has known differences, or its comparison takes more time than a test may take. `cargo
//! run --release -p harbormaster-oracle -- COMPARISON --kube RELEASE` runs any comparison with any release.

use harbormaster_api::Release;

/// The release of components that are not compared with Harbormaster.
pub(crate) const MAIN: Release = Release::V1_36;

pub(crate) const CEL: &[Release] = &[Release::V1_36];
pub(crate) const DECISIONS: &[Release] = &[Release::V1_36];
pub(crate) const GROUPS: &[Release] = &[Release::V1_37];
pub(crate) const HINTS: &[Release] = &[Release::V1_36];
pub(crate) const PREEMPTIONS: &[Release] = &[Release::V1_36];
pub(crate) const VERDICTS: &[Release] = &[Release::V1_36];
