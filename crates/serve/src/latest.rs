//! A value that is replaced occasionally and read often.

use std::sync::{Arc, PoisonError, RwLock};

/// A value that is replaced occasionally and read often. Readers may keep a version after it has been replaced.
#[derive(Debug, Default)]
pub struct Latest<T>(RwLock<Arc<T>>);

impl<T> Latest<T> {
    /// Returns a cell that contains the first version of the value.
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// Returns the current version.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the current version.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
