//! Conversion of objects in older versions, which an API server also accepts and stores in the newest one.

use harbormaster_api::device_versions::{GROUP, OLDER, upgrade_v1beta1};
use serde_json::Value;

/// Kinds that exist in all versions of the group.
const KINDS: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];

/// Converts the object to the version that is read, if it has an older one.
pub(crate) fn upgrade(object: &mut Value) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let Some((GROUP, version)) = text("apiVersion").split_once('/') else { return };
    let Some(older) = OLDER.into_iter().find(|older| *older == version) else { return };
    if !KINDS.contains(&text("kind")) {
        return;
    }
    object["apiVersion"] = format!("{GROUP}/v1").into();
    if older == "v1beta1" {
        upgrade_v1beta1(object);
    }
}
