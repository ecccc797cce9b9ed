//! A value that is replaced now and then, and read often.

use std::sync::{Arc, PoisonError, RwLock};

/// Readers keep what they got for as long as they like.
#[derive(Debug, Default)]
pub(crate) struct Kept<T>(RwLock<Arc<T>>);

impl<T> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
