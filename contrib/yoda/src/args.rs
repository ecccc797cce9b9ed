//! `profiles[].pluginConfig[].args` of the plugin.

use std::time::Duration;

use harbormaster::{prelude::PluginError, serde::Deserialize};

/// The arguments. All have defaults.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Whose arithmetic counts.
    pub mode: Mode,
    /// How much older than the newest of all reports a node's report may be. With `mode: literal` nothing is too old.
    pub stale_after_seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        Self { mode: Mode::Corrected, stale_after_seconds: 60 }
    }
}

/// Whose arithmetic counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase")]
pub enum Mode {
    /// The original's of 2021, mistakes included.
    Literal,
    /// With a ledger of cards, and without the mistakes.
    Corrected,
}

impl Args {
    /// [`Self::stale_after_seconds`].
    ///
    /// # Errors
    /// When it is zero: then only the newest report of all would count.
    pub fn stale_after(&self) -> Result<Duration, PluginError> {
        match self.stale_after_seconds {
            0 => Err(
                "staleAfterSeconds: must be at least 1; sniffers report once a second unless told otherwise"
                    .into(),
            ),
            seconds => Ok(Duration::from_secs(seconds)),
        }
    }
}
