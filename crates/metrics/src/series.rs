//! Creates families from the table and caches their series, so that a series is looked up by its labels only once.

use std::{
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector,
};
use rustc_hash::FxHashMap;

use crate::families::Family;

impl Family {
    pub(crate) fn counters(&'static self, registry: &Registry) -> IntCounterVec {
        register(registry, IntCounterVec::new(self.opts(), self.labels))
    }

    pub(crate) fn gauges(&'static self, registry: &Registry) -> GaugeVec {
        register(registry, GaugeVec::new(self.opts(), self.labels))
    }

    /// The only series of a gauge without labels.
    pub(crate) fn gauge(&'static self, registry: &Registry) -> Gauge {
        register(registry, Gauge::with_opts(self.opts()))
    }

    pub(crate) fn histograms(&'static self, registry: &Registry) -> HistogramVec {
        let opts = HistogramOpts::from(self.opts()).buckets(self.buckets.bounds());
        register(registry, HistogramVec::new(opts, self.labels))
    }

    fn opts(&self) -> Opts {
        Opts::new(self.name, self.full_help())
    }
}

pub(crate) fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: prometheus::Result<C>,
) -> C {
    let registered = family.and_then(|family| registry.register(Box::new(family.clone())).map(|()| family));
    registered.expect("the table of families is valid, and each is registered once")
}

/// Series of a family whose label values are not known in advance, each under a key.
#[derive(Debug)]
pub(crate) struct Series<K, M>(Mutex<FxHashMap<K, M>>);

impl<K, M> Default for Series<K, M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, M> Series<K, M> {
    /// Calls `record` with the series of a key. The first time, `find` looks the series up by its labels.
    pub(crate) fn with(&self, key: K, find: impl FnOnce(&K) -> M, record: impl FnOnce(&M)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = known.get(&key) {
            return record(series);
        }
        let series = find(&key);
        record(&series);
        known.insert(key, series);
    }
}
