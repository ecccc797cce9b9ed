//! Namespaces.

use serde::{Deserialize, Serialize};

use crate::{Labels, Str};

/// A namespace, reduced to what scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.labels`, which namespace selectors match.
    pub labels: Labels,
}
