//! Plugin arguments, `profiles[].pluginConfig[].args`.

use harbormaster::{prelude::PluginError, serde::Deserialize};

use crate::layout::Layout;

/// RFC 3339, the layout of times unless the arguments say otherwise.
pub const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

/// `NodeMetadataArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Key of the label or annotation.
    pub metadata_key: Option<String>,
    /// `Label` or `Annotation`.
    pub metadata_source: Option<String>,
    /// `Number` or `Timestamp`.
    pub metadata_type: Option<String>,
    /// `Highest` or `Lowest` for numbers, `Newest` or `Oldest` for times.
    pub scoring_strategy: Option<String>,
    /// Layout of times, as in Go's package `time`.
    pub timestamp_format: Option<String>,
}

/// Arguments: the annotation or label that the plugin reads, and its preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) key: String,
    pub(crate) is_label: bool,
    /// Layout of times; `None` for numbers.
    pub(crate) layout: Option<Layout>,
    /// True if the lowest number or the oldest time is the best.
    pub(crate) prefers_low: bool,
}

impl Args {
    /// Checks the arguments.
    ///
    /// # Errors
    /// If an argument is missing or wrong.
    pub fn settings(self) -> Result<Settings, PluginError> {
        self.checked().map_err(|why| format!("invalid NodeMetadataArgs: {why}").into())
    }

    fn checked(self) -> Result<Settings, &'static str> {
        let key = self.metadata_key.filter(|key| !key.is_empty()).ok_or("metadataKey cannot be empty")?;
        let is_label = match self.metadata_source.as_deref() {
            Some("Label") => true,
            Some("Annotation") => false,
            _ => return Err("metadataSource must be either \"Label\" or \"Annotation\""),
        };
        let is_time = match self.metadata_type.as_deref() {
            Some("Number") => false,
            Some("Timestamp") => true,
            _ => return Err("metadataType must be either \"Number\" or \"Timestamp\""),
        };
        let prefers_low = match (self.scoring_strategy.as_deref(), is_time) {
            (Some("Highest"), false) | (Some("Newest"), true) => false,
            (Some("Lowest"), false) | (Some("Oldest"), true) => true,
            (Some("Newest" | "Oldest"), false) => {
                return Err(
                    "scoringStrategy \"Newest\" and \"Oldest\" are only valid for metadataType \"Timestamp\"",
                );
            }
            (Some("Highest" | "Lowest"), true) => {
                return Err(
                    "scoringStrategy \"Highest\" and \"Lowest\" are only valid for metadataType \"Number\"",
                );
            }
            _ => {
                return Err(
                    "scoringStrategy must be one of \"Highest\", \"Lowest\", \"Newest\", or \"Oldest\"",
                );
            }
        };
        let format = self.timestamp_format.filter(|format| !format.is_empty());
        let layout = is_time.then(|| Layout::new(format.as_deref().unwrap_or(RFC3339)));
        Ok(Settings { key, is_label, layout, prefers_low })
    }
}
