//! Plugin arguments, `profiles[].pluginConfig[].args`.

use std::time::Duration;

use harbormaster::{prelude::PluginError, serde::Deserialize};

/// `CoschedulingArgs`, with the defaults of scheduler-plugins.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Number of seconds for which a pod waits on Permit, unless its group says otherwise.
    pub permit_waiting_time_seconds: i64,
    /// Has no effect: a group always backs off as a whole.
    pub pod_group_backoff_seconds: i64,
    /// Has no effect: a group that lacks a node for one pod of its minimum gets none.
    pub pod_group_reject_percentage: i32,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            permit_waiting_time_seconds: 60,
            pod_group_backoff_seconds: 0,
            pod_group_reject_percentage: 10,
        }
    }
}

impl Args {
    /// Returns [`Self::permit_waiting_time_seconds`] as a duration.
    ///
    /// # Errors
    /// If an argument is out of range.
    pub fn permit_wait(&self) -> Result<Duration, PluginError> {
        let (wait, backoff) = (self.permit_waiting_time_seconds, self.pod_group_backoff_seconds);
        for (field, value) in [("permitWaitingTimeSeconds", wait), ("podGroupBackoffSeconds", backoff)] {
            if value < 0 {
                return Err(format!("{field}: Invalid value: {value}: must be greater than 0").into());
            }
        }
        let percentage = self.pod_group_reject_percentage;
        if !(0..=100).contains(&percentage) {
            let text = "must be between 0 and 100";
            return Err(format!("podGroupRejectPercentage: Invalid value: {percentage}: {text}").into());
        }
        Ok(Duration::from_secs(u64::try_from(wait).unwrap_or_default()))
    }
}
