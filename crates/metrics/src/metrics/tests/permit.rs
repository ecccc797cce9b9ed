//! Durations of waits on Permit.

use std::time::Duration;

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_testkit as testkit;

use super::{Engine, EngineConfig, Input, Metrics, Registry, Timestamp, node, pod, samples};

/// Makes pods wait, for at most a minute, for a pod named `key`.
#[derive(Default)]
struct Locked;

impl Plugin for Locked {
    const NAME: &'static str = "Locked";
    implemented_points!();
}

impl Permit for Locked {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        if cx.pod.name != "key" {
            return Ok(Permitted::Wait(Duration::from_secs(60)));
        }
        waiting.list().iter().for_each(|(pod, _)| waiting.allow(&pod.uid));
        Ok(Permitted::Allow)
    }
}

/// An engine with the plugin [`Locked`] and one node.
fn locked(metrics: &Metrics, now: Timestamp) -> Engine {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Locked>();
    let profile = testkit::profile(&registry, &[("QueueSort", &["PrioritySort"]), ("Permit", &["Locked"])]);
    let mut engine =
        Engine::new(EngineConfig { meter: Some(metrics.meter()), ..EngineConfig::new(vec![profile]) });
    engine.handle(Input::Node(node("a").allocatable("2", "4Gi", 110).build()), now);
    engine
}

#[test]
fn a_wait_on_permit_is_counted_once_by_its_result() {
    let (metrics, now) = (Metrics::default(), Timestamp::from_secs(1_000));
    let mut engine = locked(&metrics, now);
    let waits = |result: &str| {
        let page = metrics.page();
        let count = format!("scheduler_permit_wait_duration_seconds_count{{result=\"{result}\"}}");
        samples(&page).get(count.as_str()).copied().unwrap_or_default()
    };
    let mut try_pods = |names: &[&str], now| {
        names.iter().for_each(|name| engine.handle(Input::Pod(pod(name).build()), now));
        while engine.schedule_one(now).is_some() {}
        engine.tick(now);
    };
    try_pods(&["p", "q"], now);
    assert_eq!((waits("Success"), waits("Unschedulable")), (0.0, 0.0));
    // The pod named `key` does not wait.
    try_pods(&["key"], now);
    assert_eq!((waits("Success"), waits("Unschedulable")), (2.0, 0.0));
    try_pods(&["late"], now);
    try_pods(&[], now + Duration::from_secs(61));
    assert_eq!((waits("Success"), waits("Unschedulable")), (2.0, 1.0));
}
