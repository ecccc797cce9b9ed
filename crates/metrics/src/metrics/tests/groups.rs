//! Attempts for groups of pods, and preemption as it is measured since groups exist.

use harbormaster_api::{
    Object, PodDisruptionBudget, Release,
    features::{Feature, Features},
    selector::LabelSelector,
};
use harbormaster_core::EvictOutcome;
use harbormaster_framework::{api_call::ObjectPath, resource::RawObject};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit as testkit;
use serde_json::{Value, json};

use super::{Effect, Engine, EngineConfig, Input, Metrics, Registry, Timestamp, node, pod, samples};

use crate::families::METRICS;

const NOW: Timestamp = Timestamp(1_000_000_000);

fn features(has_groups: bool) -> Features {
    Features::of(Release::V1_37).with(Feature::GenericWorkload, has_groups)
}

fn features_with_placements() -> Features {
    features(true).with(Feature::TopologyAwareWorkloadScheduling, true)
}

/// An engine with groups and a node for two pods.
fn engine(metrics: &Metrics) -> Engine {
    engine_with(metrics, features(true), &[])
}

fn engine_with(metrics: &Metrics, features: Features, further: &[(&str, &[&str])]) -> Engine {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let points: [(&str, &[&str]); 6] = [
        ("QueueSort", &["PrioritySort"]),
        ("PreEnqueue", &["GangScheduling", "DefaultPreemption"]),
        ("PreFilter", &["NodeResourcesFit"]),
        ("Filter", &["NodeResourcesFit"]),
        ("PostFilter", &["DefaultPreemption"]),
        ("PodGroupPostFilter", &["DefaultPreemption"]),
    ];
    let points = [&points, further].concat();
    let profile = testkit::profile_for(features, &registry, &points, &[]);
    let mut engine =
        Engine::new(EngineConfig { meter: Some(metrics.meter()), ..EngineConfig::new(vec![profile]) });
    engine.handle(Input::Node(node("n").label("rack", "a").allocatable("2", "4Gi", 110).build()), NOW);
    engine
}

fn add_group(engine: &mut Engine, name: &str, priority: i32, cpu: &str) {
    add_group_within(engine, name, priority, cpu, &json!(null));
}

fn add_group_within(engine: &mut Engine, name: &str, priority: i32, cpu: &str, constraints: &Value) {
    let policy = json!({"gang": {"minCount": 2}});
    let object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": {"schedulingPolicy": policy, "priority": priority, "schedulingConstraints": constraints},
    });
    let key = ObjectPath::of::<PodGroupObject>("default", name).key();
    engine.handle(Input::Custom(RawObject::from_json(key, object.to_string())), NOW);
    for at in 0..2 {
        let member = pod(&format!("{name}-{at}")).cpu(cpu).priority(priority);
        let member = member.spec(|spec| spec.pod_group = Some(name.into()));
        engine.handle(Input::Pod(member.build()), NOW);
    }
}

/// Makes all attempts that are possible now. All requested evictions succeed.
fn run(engine: &mut Engine) {
    while engine.schedule_one(NOW).is_some() {}
    for effect in engine.take_effects() {
        if let Effect::Evict(task) = effect {
            engine.handle(Input::EvictFinished { task, outcome: EvictOutcome::Evicted }, NOW);
        }
    }
}

#[test]
fn attempts_for_groups_and_their_preemptions_are_counted() {
    let metrics = Metrics::with(features(true));
    let mut engine = engine(&metrics);
    add_group(&mut engine, "small", 0, "1");
    run(&mut engine);
    add_group(&mut engine, "important", 9, "1");
    add_group(&mut engine, "huge", 0, "3");
    run(&mut engine);
    let page = metrics.page();
    let samples = samples(&page);
    let profile = "profile=\"default-scheduler\"";
    for (name, expected) in [
        (format!(r#"podgroup_schedule_attempts_total{{{profile},result="scheduled"}}"#), 1.0),
        (format!(r#"podgroup_schedule_attempts_total{{{profile},result="waiting_on_preemption"}}"#), 1.0),
        (format!(r#"podgroup_schedule_attempts_total{{{profile},result="unschedulable"}}"#), 1.0),
        (
            format!(r#"podgroup_scheduling_attempt_duration_seconds_count{{{profile},result="scheduled"}}"#),
            1.0,
        ),
        ("podgroup_scheduling_algorithm_duration_seconds_count".to_owned(), 3.0),
        (r#"workload_preemption_attempts_total{result="Success"}"#.to_owned(), 1.0),
        (
            r#"workload_preemption_attempts_total{result="UnschedulableAndUnresolvable"}"#.to_owned(),
            1.0,
        ),
        ("workload_preemption_victims_sum".to_owned(), 2.0),
        ("preemption_victims_count".to_owned(), 0.0),
        (r#"preemption_workload_disruptions_sum{preemptor="podgroup"}"#.to_owned(), 2.0),
        (
            r#"preemption_evaluation_duration_seconds_count{preemptor="podgroup",result="Success"}"#
                .to_owned(),
            1.0,
        ),
        (
            r#"queue_incoming_entities_total{event="UnscheduledPodAdd",queue="active",type="podgroup"}"#
                .to_owned(),
            3.0,
        ),
        (
            r#"framework_extension_point_duration_seconds_count{extension_point="PodGroupPostFilter",profile="default-scheduler",status="Success"}"#
                .to_owned(),
            1.0,
        ),
    ] {
        let name = format!("scheduler_{name}");
        assert_eq!(samples.get(name.as_str()), Some(&expected), "{name} in\n{page}");
    }
}

#[test]
fn preemption_by_a_pod_is_measured_too_if_there_are_groups() {
    let metrics = Metrics::with(features(true));
    let mut engine = engine(&metrics);
    engine.handle(Input::Pod(pod("low").cpu("2").build()), NOW);
    run(&mut engine);
    engine.handle(Input::Pod(pod("high").cpu("2").priority(9).build()), NOW);
    run(&mut engine);
    let page = metrics.page();
    for line in [
        "scheduler_preemption_victims_sum 1\n",
        "scheduler_workload_preemption_victims_count 0\n",
        "evaluation_duration_seconds_count{preemptor=\"pod\",result=\"Success\"} 1\n",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    assert!(!page.contains("scheduler_preemption_workload_disruptions_count"), "{page}");
}

#[test]
fn budgets_that_a_preemption_violates_are_counted() {
    let metrics = Metrics::with(features(true));
    let mut engine = engine(&metrics);
    let selector =
        LabelSelector { match_labels: testkit::labels(&[("app", "a")]), ..LabelSelector::default() };
    let budget = PodDisruptionBudget {
        namespace: "default".into(),
        name: "all".into(),
        selector: Some(selector),
        ..PodDisruptionBudget::default()
    };
    engine.handle(Input::Object(Object::PodDisruptionBudget(budget)), NOW);
    for name in ["low-a", "low-b"] {
        engine.handle(Input::Pod(pod(name).label("app", "a").cpu("1").build()), NOW);
    }
    run(&mut engine);
    add_group(&mut engine, "important", 9, "1");
    run(&mut engine);
    let page = metrics.page();
    assert!(page.contains("preemption_pdb_violations_total{preemptor=\"podgroup\"} 2\n"), "{page}");
}

#[test]
fn placements_are_counted_and_timed() {
    let metrics = Metrics::with(features_with_placements());
    let generator: (&str, &[&str]) = ("PlacementGenerate", &["TopologyPlacementGenerator"]);
    let mut engine = engine_with(&metrics, features_with_placements(), &[generator]);
    engine.handle(Input::Node(node("m").label("rack", "b").allocatable("1", "4Gi", 110).build()), NOW);
    add_group_within(&mut engine, "g", 0, "1", &json!({"topology": [{"key": "rack"}]}));
    run(&mut engine);
    let page = metrics.page();
    for sample in [
        "generated_placements_total{profile=\"default-scheduler\"} 2\n",
        "placement_evaluations_total{profile=\"default-scheduler\",result=\"feasible\"} 1\n",
        "placement_evaluations_total{profile=\"default-scheduler\",result=\"infeasible\"} 1\n",
        "placement_evaluation_duration_seconds_count{profile=\"default-scheduler\",result=\"feasible\"} 1\n",
    ] {
        assert!(page.contains(&format!("scheduler_{sample}")), "{sample} is not in\n{page}");
    }
}

#[test]
fn without_its_gate_there_are_no_metrics_of_placements() {
    let has = |features: Features| {
        METRICS.iter().any(|family| family.name.contains("placement") && family.exists_with(features))
    };
    assert!(has(features_with_placements()) && !has(features(true)));
}

#[test]
fn without_the_gate_there_are_no_metrics_of_groups() {
    for (features, expected) in
        [(features(true), true), (features(false), false), (Features::of(Release::V1_36), false)]
    {
        let page = Metrics::with(features).page();
        assert_eq!(page.contains("scheduler_podgroup_scheduling_algorithm_duration_seconds"), expected);
        assert_eq!(page.contains("scheduler_workload_preemption_victims"), expected);
    }
}

#[test]
fn every_member_is_counted_when_it_enters_the_queue() {
    let metrics = Metrics::with(features(true));
    let mut engine = engine(&metrics);
    add_group(&mut engine, "g", 0, "1");
    for at in 2..4 {
        let member = pod(&format!("g-{at}")).cpu("1").spec(|spec| spec.pod_group = Some("g".into()));
        engine.handle(Input::Pod(member.build()), NOW);
    }
    let page = metrics.page();
    let samples = samples(&page);
    let pods = |queue: &str| {
        let name =
            format!(r#"scheduler_queue_incoming_pods_total{{event="UnscheduledPodAdd",queue="{queue}"}}"#);
        samples[name.as_str()]
    };
    assert_eq!(pods("unschedulable"), 2.0, "the first two are gated when they come");
    assert_eq!(pods("active"), 4.0, "the second one opens the gate");
    let entities = r#"scheduler_queue_incoming_entities_total{event="UnscheduledPodAdd",queue="active",type="podgroup"}"#;
    assert_eq!(samples[entities], 1.0);
}
