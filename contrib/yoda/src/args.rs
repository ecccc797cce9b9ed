//! Plugin arguments, `profiles[].pluginConfig[].args`.

use std::time::Duration;

use harbormaster::{prelude::PluginError, serde::Deserialize};

/// Arguments of the plugin. All have defaults.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// The arithmetic to use.
    pub mode: Mode,
    /// Maximum age of a node's report in seconds, relative to the newest report of any node. Ignored with `mode:
    /// literal`.
    pub stale_after_seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { mode: Mode::Corrected, stale_after_seconds: 60 }
    }
}

/// The arithmetic that the plugin uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase")]
pub enum Mode {
    /// The original's arithmetic of 2021, including its mistakes.
    Literal,
    /// Corrected arithmetic, with a ledger of cards.
    Corrected,
}

impl Args {
    /// Returns [`Self::stale_after_seconds`] as a duration.
    ///
    /// # Errors
    /// If the value is zero, which would reject all reports but the newest.
    pub fn stale_after(&self) -> Result<Duration, PluginError> {
        match self.stale_after_seconds {
            0 => {
                Err("staleAfterSeconds: must be at least 1; sniffers report once a second by default".into())
            }
            seconds => Ok(Duration::from_secs(seconds)),
        }
    }
}
