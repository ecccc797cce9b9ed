//! Errors found in an object.

use harbormaster_api::Release;

use crate::FieldError;

/// Errors found in an object, in the order in which the release reports them.
///
/// From 1.37 on, many rules are declarations on the types of the API instead of code. kube-apiserver reports errors
/// that break them after those that its code finds.
#[derive(Debug)]
pub(crate) struct Errors {
    release: Release,
    found: Vec<FieldError>,
    /// Errors that break declared rules. Empty for releases without such rules.
    declared: Vec<FieldError>,
    is_declared: bool,
}

impl Errors {
    pub(crate) fn new(release: Release) -> Self {
        Self { release, found: Vec::new(), declared: Vec::new(), is_declared: false }
    }

    /// Returns the release that determines the rules and their wording.
    pub(crate) fn release(&self) -> Release {
        self.release
    }

    /// Returns true if the release declares rules on the API's types.
    pub(crate) fn has_declarations(&self) -> bool {
        self.release >= Release::V1_37
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        if self.is_declared {
            self.declared.push(error);
        } else {
            self.found.push(error);
        }
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// Runs checks of rules that are declared, if the release declares rules.
    pub(crate) fn declared<T>(&mut self, checks: impl FnOnce(&mut Self) -> T) -> T {
        let now = self.has_declarations();
        let before = std::mem::replace(&mut self.is_declared, now);
        let result = checks(self);
        self.is_declared = before;
        result
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len() + self.declared.len()
    }

    /// Returns all errors in the order of the release.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        let Self { mut found, declared, .. } = self;
        found.extend(declared);
        found
    }
}
