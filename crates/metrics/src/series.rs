//! From the table to numbers: families are made once, series are found without their labels.

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
    made: prometheus::Result<C>,
) -> C {
    let made = made.and_then(|made| registry.register(Box::new(made.clone())).map(|()| made));
    made.expect("the table of families is valid, and each is made once")
}

/// Series of a family whose labels are not known beforehand, by what tells them apart.
#[derive(Debug)]
pub(crate) struct Series<K, M>(Mutex<FxHashMap<K, M>>);

impl<K, M> Default for Series<K, M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, M> Series<K, M> {
    /// Lets `record` have the series, which is found by its labels the first time only.
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
