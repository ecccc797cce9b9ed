//! Creates the families of a release from the table, and caches their series, so that a series is looked up by its
//! labels only once.

use std::{
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use harbormaster_api::{Release, features::Features};
use prometheus::{
    Counter, Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, core::Collector,
    proto::MetricFamily,
};
use rustc_hash::FxHashMap;

use crate::families::{Family, METRICS};

/// The families that exist with certain features. Others are recorded like these, but not shown.
#[derive(Debug)]
pub(crate) struct Registry {
    shown: prometheus::Registry,
    features: Features,
}

impl Registry {
    pub(crate) fn of(features: Features) -> Self {
        Self { shown: prometheus::Registry::new(), features }
    }

    /// The release.
    pub(crate) fn release(&self) -> Release {
        self.features.release()
    }

    /// Reads the families, including those that the release hides if `with_hidden` is set.
    pub(crate) fn gather(&self, with_hidden: bool) -> Vec<MetricFamily> {
        let mut families = self.shown.gather();
        if !with_hidden {
            let hidden =
                |name: &str| METRICS.iter().any(|f| f.name == name && f.is_hidden_in(self.release()));
            families.retain(|family| !hidden(family.name()));
        }
        families
    }

    pub(crate) fn counters(&self, family: &Family) -> IntCounterVec {
        self.register(family, IntCounterVec::new(self.opts(family), family.labels))
    }

    /// Returns the only series of a counter without labels that may count fractions.
    pub(crate) fn counter(&self, family: &Family) -> Counter {
        self.register(family, Counter::with_opts(self.opts(family)))
    }

    pub(crate) fn gauges(&self, family: &Family) -> GaugeVec {
        self.register(family, GaugeVec::new(self.opts(family), family.labels))
    }

    /// Returns the only series of a gauge without labels.
    pub(crate) fn gauge(&self, family: &Family) -> Gauge {
        self.register(family, Gauge::with_opts(self.opts(family)))
    }

    pub(crate) fn histograms(&self, family: &Family) -> HistogramVec {
        let opts = HistogramOpts::from(self.opts(family)).buckets(family.buckets.bounds());
        self.register(family, HistogramVec::new(opts, family.labels))
    }

    fn opts(&self, family: &Family) -> Opts {
        Opts::new(family.name, family.full_help(self.release()))
    }

    fn register<C: Collector + Clone + 'static>(
        &self,
        family: &Family,
        collector: prometheus::Result<C>,
    ) -> C {
        let registered = collector.and_then(|collector| {
            if family.exists_with(self.features) {
                self.shown.register(Box::new(collector.clone()))?;
            }
            Ok(collector)
        });
        registered.expect("the table of families is valid, and each is registered once")
    }
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
