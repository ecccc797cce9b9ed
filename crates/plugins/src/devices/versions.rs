//! Conversion of older versions of `resource.k8s.io`.

use harbormaster_api::device_versions::{OLDER as NAMES, downgrade_v1beta1, upgrade_v1beta1};
use harbormaster_framework::resource::OlderVersion;

/// The older versions of every kind, most preferred first.
pub(super) const OLDER: &[OlderVersion] = &[
    OlderVersion { name: NAMES[0], upgrade: |_| {}, downgrade: |_| {} },
    OlderVersion { name: NAMES[1], upgrade: upgrade_v1beta1, downgrade: downgrade_v1beta1 },
];
