//! Gauges of the engine's state, which the engine's host updates from time to time.

use std::sync::OnceLock;

use harbormaster_api::Release;
use harbormaster_core::{Engine, queue::GroupLength};
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

/// kube-scheduler's label for a group.
pub(crate) const POD_GROUP: &str = "podgroup";

/// The gauges of the queue, the cache and the bindings.
#[derive(Debug)]
pub(crate) struct Gauges {
    active: QueueGauges,
    backoff: QueueGauges,
    unschedulable: QueueGauges,
    gated: QueueGauges,
    /// Members of groups whose objects do not exist; only in releases with groups.
    incomplete: Option<Gauge>,
    entities: GaugeVec,
    nodes: Gauge,
    pods: Gauge,
    assumed_pods: Gauge,
    bindings: Gauge,
    popped: Gauge,
    contradictions: Gauge,
    inflight_events: GaugeVec,
    by_event: Series<ClusterEvent, Gauge>,
}

/// The gauges of one part of the queue.
#[derive(Debug)]
struct QueueGauges {
    name: &'static str,
    pods: Gauge,
    /// Pods that belong to no group.
    single: Gauge,
    /// Groups; there is no such series before the first group.
    groups: OnceLock<Gauge>,
}

impl QueueGauges {
    fn set(&self, pods: usize, groups: GroupLength, entities: &GaugeVec) {
        self.pods.set(pods as f64);
        self.single.set((pods - groups.members) as f64);
        if groups.groups > 0 || self.groups.get().is_some() {
            let gauge = self.groups.get_or_init(|| entities.with_label_values(&[self.name, POD_GROUP]));
            gauge.set(groups.groups as f64);
        }
    }
}

impl Gauges {
    pub(crate) fn new(registry: &Registry) -> Self {
        let entities = registry.gauges(&table::QUEUED_ENTITIES);
        let pending = registry.gauges(&table::PENDING_PODS);
        let cache = registry.gauges(&table::CACHE_SIZE);
        let goroutines = registry.gauges(&table::GOROUTINES);
        let has_groups = registry.release() >= Release::V1_37;
        let incomplete = has_groups.then(|| {
            // Members that arrive during the cycle of their group; here, a cycle is one step.
            pending.with_label_values(&["pending"]).set(0.0);
            pending.with_label_values(&["incomplete"])
        });
        let queue = |name| QueueGauges {
            name,
            pods: pending.with_label_values(&[name]),
            single: entities.with_label_values(&[name, POD]),
            groups: OnceLock::new(),
        };
        let inflight_events = registry.gauges(&table::INFLIGHT_EVENTS);
        Self {
            active: queue("active"),
            backoff: queue("backoff"),
            unschedulable: queue("unschedulable"),
            gated: queue("gated"),
            incomplete,
            nodes: cache.with_label_values(&["nodes"]),
            pods: cache.with_label_values(&["pods"]),
            assumed_pods: cache.with_label_values(&["assumed_pods"]),
            bindings: goroutines.with_label_values(&["binding"]),
            popped: inflight_events.with_label_values(&[POD_POPPED]),
            contradictions: registry.gauge(&table::CONTRADICTIONS),
            inflight_events,
            entities,
            by_event: Series::default(),
        }
    }

    pub(crate) fn publish(&self, engine: &Engine) {
        let (queue, sizes) = (engine.queue_lengths(), engine.sizes());
        let (groups, entities) = (queue.groups, &self.entities);
        self.active.set(queue.active, groups.active, entities);
        self.backoff.set(queue.backoff, groups.backoff, entities);
        self.unschedulable.set(queue.unschedulable, groups.unschedulable, entities);
        self.gated.set(queue.gated, groups.gated, entities);
        self.incomplete.iter().for_each(|gauge| gauge.set(queue.incomplete as f64));
        for (gauge, value) in [
            (&self.nodes, sizes.nodes),
            (&self.pods, sizes.pods),
            (&self.assumed_pods, sizes.assumed),
            (&self.bindings, sizes.bindings),
            (&self.popped, sizes.in_flight),
            (&self.contradictions, sizes.contradictions),
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
