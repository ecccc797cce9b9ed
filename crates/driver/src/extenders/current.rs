//! The extenders that are asked now: another configuration may name others while the scheduler runs.
//!
//! What they get to see is kept from the start, so those may follow who see no more than the first ones did.

use std::sync::{Arc, Mutex, PoisonError};

use super::{ExtenderConfig, ExtenderSetupError, HttpExtenders, raw::RawObjects, raw::Wanted};
use crate::health::Health;

/// Who is asked. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CurrentExtenders {
    asked: Arc<Mutex<Option<Arc<HttpExtenders>>>>,
    raw: RawObjects,
    health: Health,
}

/// Why others cannot be asked.
pub(crate) enum NotAsked {
    /// They cannot be reached with their configuration.
    Wrong(ExtenderSetupError),
    /// They are to see what is not kept.
    NotKept(&'static str),
}

impl CurrentExtenders {
    pub(crate) fn new(first: Option<Arc<HttpExtenders>>, health: Health) -> Self {
        let raw = first.as_ref().map(|extenders| extenders.raw().clone());
        let raw = raw.unwrap_or_else(|| RawObjects::new(Wanted::default()));
        Self { asked: Arc::new(Mutex::new(first)), raw, health }
    }

    /// What extenders see: whoever feeds the engine feeds these as well, unless nobody is to see anything.
    pub(crate) fn raw(&self) -> Option<&RawObjects> {
        (self.raw.wanted() != Wanted::default()).then_some(&self.raw)
    }

    /// Which objects are kept for extenders.
    pub(crate) fn wanted(&self) -> Wanted {
        self.raw.wanted()
    }

    /// Who is asked now.
    pub(crate) fn get(&self) -> Option<Arc<HttpExtenders>> {
        self.with(|asked| asked.clone())
    }

    /// The extenders of another configuration: those that are asked now if it names no others.
    pub(crate) fn of(&self, configs: &[ExtenderConfig]) -> Result<Option<Arc<HttpExtenders>>, NotAsked> {
        let now = self.get();
        let known = now.iter().flat_map(|extenders| extenders.all.iter().map(|one| &one.config));
        if known.eq(configs) {
            return Ok(now);
        }
        self.raw.wanted().lacks(Wanted::by(configs)).map_or(Ok(()), |what| Err(NotAsked::NotKept(what)))?;
        HttpExtenders::seeing(self.raw.clone(), configs, self.health.clone()).map_err(NotAsked::Wrong)
    }

    /// From now on those are asked.
    pub(crate) fn set(&self, extenders: Option<Arc<HttpExtenders>>) {
        self.with(|asked| *asked = extenders);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Option<Arc<HttpExtenders>>) -> T) -> T {
        // A panic can leave nothing half done in there.
        work(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
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
    fn who_does_not_change_keeps_its_connections() {
        let current = current(&[filters("http://a", true)]);
        let again = current.of(&[filters("http://a", true)]).ok().unwrap();
        assert!(same(again.as_ref(), current.get().as_ref()));
        let other = current.of(&[filters("http://b", true)]).ok().unwrap();
        assert!(!same(other.as_ref(), current.get().as_ref()));
    }

    #[test]
    fn others_may_see_what_is_kept_and_no_more() {
        let names = [filters("http://a", true)];
        let objects = [filters("http://a", false)];
        assert!(matches!(current(&names).of(&objects), Err(NotAsked::NotKept("nodes"))));
        assert!(matches!(current(&[]).of(&names), Err(NotAsked::NotKept("pods"))));
        let current = current(&objects);
        assert!(matches!(current.of(&names), Ok(Some(_))));
        assert!(matches!(current.of(&[]), Ok(None)));
        // What is kept stays kept while nobody is asked.
        current.set(None);
        assert!(matches!(current.of(&objects), Ok(Some(_))));
    }
}
