//! Namespaces.

use serde::{Deserialize, Serialize};

use crate::{Labels, Str};

/// A namespace, as far as scheduling reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.labels`, which namespace selectors look at.
    pub labels: Labels,
}
