//! The current extenders, which can be replaced while the scheduler runs.
//!
//! The objects that requests to extenders contain are stored from the start, so new extenders must not need more kinds
//! of objects than the first extenders.

use std::sync::{Arc, Mutex, PoisonError};

use super::{ExtenderConfig, ExtenderSetupError, HttpExtenders, raw::RawObjects, raw::RawSelection};
use crate::health::Health;

/// The current extenders. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CurrentExtenders {
    current: Arc<Mutex<Option<Arc<HttpExtenders>>>>,
    raw: RawObjects,
    health: Health,
}

/// The reason why the extenders cannot be replaced.
pub(crate) enum SwitchError {
    /// The configuration of the new extenders has an error.
    Setup(ExtenderSetupError),
    /// The new extenders need objects that are not stored.
    NotStored(&'static str),
}

impl CurrentExtenders {
    pub(crate) fn new(first: Option<Arc<HttpExtenders>>, health: Health) -> Self {
        let raw = first.as_ref().map(|extenders| extenders.raw().clone());
        let raw = raw.unwrap_or_else(|| RawObjects::new(RawSelection::default()));
        Self { current: Arc::new(Mutex::new(first)), raw, health }
    }

    /// Returns the objects that requests contain; `None` if none are needed.
    pub(crate) fn raw(&self) -> Option<&RawObjects> {
        (self.raw.wanted() != RawSelection::default()).then_some(&self.raw)
    }

    /// Returns the selection of objects that are stored.
    pub(crate) fn wanted(&self) -> RawSelection {
        self.raw.wanted()
    }

    /// Returns the current extenders.
    pub(crate) fn get(&self) -> Option<Arc<HttpExtenders>> {
        self.with(|current| current.clone())
    }

    /// Returns the extenders for `configs`; these are the current extenders if their configuration is the same.
    pub(crate) fn of(&self, configs: &[ExtenderConfig]) -> Result<Option<Arc<HttpExtenders>>, SwitchError> {
        let now = self.get();
        let known = now.iter().flat_map(|extenders| extenders.all.iter().map(|one| &one.config));
        if known.eq(configs) {
            return Ok(now);
        }
        self.raw
            .wanted()
            .lacks(RawSelection::by(configs))
            .map_or(Ok(()), |what| Err(SwitchError::NotStored(what)))?;
        HttpExtenders::seeing(self.raw.clone(), configs, self.health.clone()).map_err(SwitchError::Setup)
    }

    /// Replaces the extenders.
    pub(crate) fn set(&self, extenders: Option<Arc<HttpExtenders>>) {
        self.with(|current| *current = extenders);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<Arc<HttpExtenders>>) -> T) -> T {
        // A panic cannot leave the value inconsistent.
        work(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_framework::extender::Extender;

    use super::*;

    fn filters(name: &str, node_cache_capable: bool) -> ExtenderConfig {
        let extender = Extender { name: name.into(), filters: true, ..Extender::default() };
        let filter_verb = "filter".to_owned();
        ExtenderConfig { extender, filter_verb, node_cache_capable, ..ExtenderConfig::default() }
    }

    fn current(configs: &[ExtenderConfig]) -> CurrentExtenders {
        let extenders = HttpExtenders::new(configs, Health::default()).unwrap();
        CurrentExtenders::new(extenders, Health::default())
    }

    fn same(a: Option<&Arc<HttpExtenders>>, b: Option<&Arc<HttpExtenders>>) -> bool {
        a.zip(b).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    #[test]
    fn extenders_with_the_same_configuration_keep_their_connections() {
        let current = current(&[filters("http://a", true)]);
        let again = current.of(&[filters("http://a", true)]).ok().unwrap();
        assert!(same(again.as_ref(), current.get().as_ref()));
        let other = current.of(&[filters("http://b", true)]).ok().unwrap();
        assert!(!same(other.as_ref(), current.get().as_ref()));
    }

    #[test]
    fn new_extenders_may_use_only_stored_objects() {
        let names = [filters("http://a", true)];
        let objects = [filters("http://a", false)];
        assert!(matches!(current(&names).of(&objects), Err(SwitchError::NotStored("nodes"))));
        assert!(matches!(current(&[]).of(&names), Err(SwitchError::NotStored("pods"))));
        let current = current(&objects);
        assert!(matches!(current.of(&names), Ok(Some(_))));
        assert!(matches!(current.of(&[]), Ok(None)));
        // Objects remain stored while there are no extenders.
        current.set(None);
        assert!(matches!(current.of(&objects), Ok(Some(_))));
    }
}
