//! Gauges of the engine's state, which the engine's thread updates from time to time.

use harbormaster_api::Release;
use harbormaster_core::Engine;
use harbormaster_framework::events::ClusterEvent;
use prometheus::{Gauge, GaugeVec};

use crate::{
    families as table,
    series::{Registry, Series},
};

/// kube-scheduler's label for a pod in flight, which kube-scheduler counts among the in-flight events.
const POD_POPPED: &str = "PodPopped";

/// kube-scheduler's label for a pod that belongs to no group.
pub(crate) const POD: &str = "pod";

/// The gauges of the queue, the cache and the bindings.
#[derive(Debug)]
pub(crate) struct Gauges {
    active: QueueGauges,
    backoff: QueueGauges,
    unschedulable: QueueGauges,
    gated: QueueGauges,
    nodes: Gauge,
    pods: Gauge,
    assumed_pods: Gauge,
    bindings: Gauge,
    popped: Gauge,
    inflight_events: GaugeVec,
    by_event: Series<ClusterEvent, Gauge>,
}

/// The gauges of one part of the queue, which are equal because no pod belongs to a group.
#[derive(Debug)]
struct QueueGauges {
    pods: Gauge,
    entities: Gauge,
}

impl QueueGauges {
    fn set(&self, pods: usize) {
        self.pods.set(pods as f64);
        self.entities.set(pods as f64);
    }
}

impl Gauges {
    pub(crate) fn new(registry: &Registry) -> Self {
        let entities = registry.gauges(&table::QUEUED_ENTITIES);
        let pending = registry.gauges(&table::PENDING_PODS);
        let cache = registry.gauges(&table::CACHE_SIZE);
        let goroutines = registry.gauges(&table::GOROUTINES);
        // Parts of the queue that only pods of groups enter.
        if registry.release() >= Release::V1_37 {
            for queue in ["incomplete", "pending"] {
                pending.with_label_values(&[queue]).set(0.0);
            }
        }
        let queue = |queue| QueueGauges {
            pods: pending.with_label_values(&[queue]),
            entities: entities.with_label_values(&[queue, POD]),
        };
        let inflight_events = registry.gauges(&table::INFLIGHT_EVENTS);
        Self {
            active: queue("active"),
            backoff: queue("backoff"),
            unschedulable: queue("unschedulable"),
            gated: queue("gated"),
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
        self.active.set(queue.active);
        self.backoff.set(queue.backoff);
        self.unschedulable.set(queue.unschedulable);
        self.gated.set(queue.gated);
        for (gauge, value) in [
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
