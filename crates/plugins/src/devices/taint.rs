//! Taints of devices and the tolerations of requests.

use harbormaster_api::{Str, Timestamp};
use serde::{Deserialize, Serialize};

use super::wire;
use crate::storage::wire::or_default;

/// A taint of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaint {
    /// `key`
    #[serde(deserialize_with = "or_default")]
    pub key: Str,
    /// `value`
    #[serde(deserialize_with = "or_default")]
    pub value: Str,
    /// `effect`: `NoSchedule` and `NoExecute` prevent allocation; other effects have no influence.
    #[serde(deserialize_with = "or_default")]
    pub effect: Str,
    /// `timeAdded`. It has no influence on allocations, but a change to it counts as a change to the taint.
    #[serde(deserialize_with = "wire::time::deserialize")]
    pub time_added: Option<Timestamp>,
}

/// A toleration of a request for devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceToleration {
    /// `key`; empty for all keys.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub key: Str,
    /// `operator`: `Equal` or `Exists`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub operator: Str,
    /// `value`
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub value: Str,
    /// `effect`; empty for all effects.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub effect: Str,
    /// `tolerationSeconds`, which only evictions read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl DeviceTaint {
    /// Returns true if a device with this taint is allocated only for requests that tolerate the taint.
    pub fn prevents_allocation(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }

    /// Returns true if a device with this taint may be allocated for a request with these tolerations.
    pub fn allows(&self, tolerations: &[DeviceToleration]) -> bool {
        !self.prevents_allocation() || tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

impl DeviceToleration {
    /// Returns true if the toleration matches the taint (`resourceclaim.ToleratesTaint`).
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let value = match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        };
        effect && key && value
    }
}

fn str_is_empty(text: &Str) -> bool {
    text.is_empty()
}
