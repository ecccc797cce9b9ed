//! Gauges of the engine's state, which the engine's thread updates from time to time.

use harbormaster_core::Engine;
use harbormaster_framework::events::ClusterEvent;
use prometheus::{Gauge, GaugeVec, Registry};

use crate::{families as table, series::Series};

/// kube-scheduler's label for a pod in flight, which kube-scheduler counts among the in-flight events.
const POD_POPPED: &str = "PodPopped";

/// The gauges of the queue, the cache and the bindings.
#[derive(Debug)]
pub(crate) struct Gauges {
    active: Gauge,
    backoff: Gauge,
    unschedulable: Gauge,
    gated: Gauge,
    nodes: Gauge,
    pods: Gauge,
    assumed_pods: Gauge,
    bindings: Gauge,
    popped: Gauge,
    inflight_events: GaugeVec,
    by_event: Series<ClusterEvent, Gauge>,
}

impl Gauges {
    pub(crate) fn new(registry: &Registry) -> Self {
        let pending = table::PENDING_PODS.gauges(registry);
        let cache = table::CACHE_SIZE.gauges(registry);
        let goroutines = table::GOROUTINES.gauges(registry);
        let inflight_events = table::INFLIGHT_EVENTS.gauges(registry);
        Self {
            active: pending.with_label_values(&["active"]),
            backoff: pending.with_label_values(&["backoff"]),
            unschedulable: pending.with_label_values(&["unschedulable"]),
            gated: pending.with_label_values(&["gated"]),
            nodes: cache.with_label_values(&["nodes"]),
            pods: cache.with_label_values(&["pods"]),
            assumed_pods: cache.with_label_values(&["assumed_pods"]),
            bindings: goroutines.with_label_values(&["binding"]),
            popped: inflight_events.with_label_values(&[POD_POPPED]),
            inflight_events,
            by_event: Series::default(),
        }
    }

    pub(crate) fn publish(&self, engine: &Engine) {
        let (queue, sizes) = (engine.queue_lengths(), engine.sizes());
        for (gauge, value) in [
            (&self.active, queue.active),
            (&self.backoff, queue.backoff),
            (&self.unschedulable, queue.unschedulable),
            (&self.gated, queue.gated),
            (&self.nodes, sizes.nodes),
            (&self.pods, sizes.pods),
            (&self.assumed_pods, sizes.assumed),
            (&self.bindings, sizes.bindings),
            (&self.popped, sizes.in_flight),
        ] {
            gauge.set(value as f64);
        }
        for (event, count) in engine.queue().in_flight_events() {
            let find =
                |event: &ClusterEvent| self.inflight_events.with_label_values(&[event.to_string().as_str()]);
            self.by_event.with(event, find, |gauge| gauge.set(count as f64));
        }
    }
}
