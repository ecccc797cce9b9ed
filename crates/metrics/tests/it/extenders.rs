//! Measurements of attempts that extenders are asked about.

use std::{collections::BTreeMap, sync::Arc, thread::sleep, time::Duration};

use harbormaster_api::{Str, Timestamp};
use harbormaster_core::{Effect, Engine, EngineConfig, Input, Outcome};
use harbormaster_framework::{
    extender::{Extender, ExtenderClient, Extenders, Filtered, NodeVictims},
    pod::PodInfo,
    registry::Registry,
};
use harbormaster_metrics::Metrics;
use harbormaster_testkit::{nodes::node, pods::pod};

/// Accepts every node.
#[derive(Debug)]
struct Lenient;

impl ExtenderClient for Lenient {
    fn filter(&self, _: usize, _: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        Ok(Filtered { nodes: nodes.to_vec(), ..Filtered::default() })
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        _: &PodInfo,
        _: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        extenders.iter().map(|_| Ok(Vec::new())).collect()
    }

    fn preempt(&self, _: usize, _: &PodInfo, plans: &[NodeVictims]) -> Result<Vec<NodeVictims>, String> {
        Ok(plans.to_vec())
    }
}

#[test]
fn an_attempt_is_counted_once_and_lasts_until_the_last_answer() {
    const ANSWERED_AFTER: Duration = Duration::from_millis(40);
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let fit: &[&str] = &["NodeResourcesFit"];
    let points = [("PreFilter", fit), ("Filter", fit), ("PreScore", fit), ("Score", fit)];
    let sort: (&str, &[&str]) = ("QueueSort", &["PrioritySort"]);
    let points: Vec<(&str, &[&str])> = std::iter::once(sort).chain(points).collect();
    let extender =
        Extender { name: "slow".into(), filters: true, prioritizes: true, weight: 1, ..Extender::default() };
    let metrics = Metrics::default();
    let (meter, attempts) = metrics.meter_with_attempts();
    let mut engine = Engine::new(EngineConfig {
        meter: Some(meter),
        extenders: Extenders::new([extender]).with_client(Arc::new(Lenient)),
        concurrent_extenders: true,
        ..EngineConfig::new(vec![harbormaster_testkit::profile(&registry, &points)])
    });
    let now = Timestamp(1_000_000_000);
    for name in ["a", "b"] {
        engine.handle(Input::Node(node(name).allocatable("2", "4Gi", 110).build()), now);
    }
    engine.handle(Input::Pod(pod("p").cpu("1").build()), now);
    let mut questions = 0;
    let outcome = loop {
        let outcome = engine.schedule_one(now).unwrap().outcome;
        if outcome != Outcome::Asking {
            break outcome;
        }
        assert_eq!(attempts.take(), None, "the attempt goes on");
        for effect in engine.take_effects() {
            let Effect::Ask(task) = effect else { continue };
            questions += 1;
            sleep(ANSWERED_AFTER);
            let answer = task.question.put(&*task.client, &task.pod);
            engine.handle(Input::Answered { number: task.number, answer }, now);
        }
    };
    assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}");
    assert_eq!(questions, 2, "filter and prioritize");
    assert!(attempts.take().unwrap().search >= 2 * ANSWERED_AFTER);
    metrics.publish(&engine);
    let page = metrics.page();
    let samples: BTreeMap<&str, &str> = page.lines().filter_map(|line| line.rsplit_once(' ')).collect();
    for name in [
        "scheduler_scheduling_algorithm_duration_seconds_count",
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="PreFilter",profile="default-scheduler",status="Success"}"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="default-scheduler",status="Success"}"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Score",profile="default-scheduler",status="Success"}"#,
    ] {
        assert_eq!(samples.get(name), Some(&"1"), "{name}");
    }
    let sum: f64 = samples["scheduler_scheduling_algorithm_duration_seconds_sum"].parse().unwrap();
    assert!(sum >= 2.0 * ANSWERED_AFTER.as_secs_f64(), "{sum}");
}
