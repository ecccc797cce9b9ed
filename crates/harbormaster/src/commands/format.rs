//! The formats of answers that a page for a browser can show, too.

use std::sync::LazyLock;

use clap::{ValueEnum, builder::PossibleValue};

use super::output::Output;

/// Format of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Format {
    Text(Output),
    Html,
}

impl Default for Format {
    fn default() -> Self {
        Self::Text(Output::default())
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Format>> = LazyLock::new(|| {
            Output::value_variants()
                .iter()
                .map(|output| Format::Text(*output))
                .chain([Format::Html])
                .collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Text(output) => output.to_possible_value(),
            Self::Html => Some(PossibleValue::new("html")),
        }
    }
}
