//! Namespaces.

use crate::{Labels, Str};

/// A namespace, as far as scheduling reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.name`.
    pub name: Str,
    /// `metadata.labels`, which namespace selectors look at.
    pub labels: Labels,
}
