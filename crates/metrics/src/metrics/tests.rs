//! The metrics page of an engine that has scheduled a few pods.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::Timestamp;
use harbormaster_core::{BindOutcome, Effect, Engine, EngineConfig, Input};
use harbormaster_framework::{meter::Measurement, profile::Profile, registry::Registry};
use harbormaster_testkit::{nodes::node, pods::pod};

mod groups;
mod lint;
mod permit;

use super::*;
use crate::families::{Kind, METRICS};

fn profile() -> Arc<Profile> {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    let points: [(&str, &[&str]); 6] = [
        ("QueueSort", &["PrioritySort"]),
        ("PreEnqueue", &["SchedulingGates"]),
        ("PreFilter", &["NodeResourcesFit", "NodePorts"]),
        ("Filter", &["NodeUnschedulable", "NodeResourcesFit", "NodePorts"]),
        ("PreScore", &["NodeResourcesFit"]),
        ("Score", &["NodeResourcesFit"]),
    ];
    harbormaster_testkit::profile(&registry, &points)
}

/// Values keyed by name with labels.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

/// Schedules two pods that fit and one that does not, on two nodes.
fn scheduled() -> (Metrics, Engine) {
    scheduled_in(Release::default())
}

/// Same as [`scheduled`], with the metrics of a release.
fn scheduled_in(release: Release) -> (Metrics, Engine) {
    let metrics = Metrics::of(release);
    let config = EngineConfig { meter: Some(metrics.meter()), ..EngineConfig::new(vec![profile()]) };
    let mut engine = Engine::new(config);
    let now = Timestamp(1_000_000_000);
    for name in ["a", "b"] {
        engine.handle(Input::Node(node(name).allocatable("2", "4Gi", 110).build()), now);
    }
    for (name, cpu) in [("p", "1"), ("q", "1"), ("big", "3")] {
        engine.handle(Input::Pod(pod(name).cpu(cpu).build()), now);
    }
    while engine.schedule_one(now).is_some() {
        for effect in engine.take_effects() {
            if let Effect::Bind(task) = effect {
                let uid = task.pod().uid.clone();
                engine.handle(Input::BindFinished { uid, outcome: BindOutcome::Bound }, now);
            }
        }
    }
    metrics.publish(&engine);
    (metrics, engine)
}

#[test]
fn the_work_of_an_engine_is_on_the_page() {
    let (metrics, _) = scheduled();
    let page = metrics.page();
    let samples = samples(&page);
    for (name, expected) in [
        (r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}"#, 2.0),
        (r#"scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}"#, 1.0),
        (r#"scheduler_pending_pods{queue="active"}"#, 0.0),
        (r#"scheduler_pending_pods{queue="unschedulable"}"#, 1.0),
        (r#"scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"}"#, 3.0),
        (r#"scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"}"#, 1.0),
        (r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}"#, 1.0),
        ("scheduler_scheduling_algorithm_duration_seconds_count", 3.0),
        ("scheduler_pod_scheduling_attempts_sum", 2.0),
        (r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}"#, 2.0),
        (r#"scheduler_event_handling_duration_seconds_count{event="NodeAdd"}"#, 2.0),
        (r#"scheduler_event_handling_duration_seconds_count{event="UnschedulablePodAdd"}"#, 3.0),
        (r#"scheduler_cache_size{type="nodes"}"#, 2.0),
        (r#"scheduler_cache_size{type="assumed_pods"}"#, 2.0),
        (
            r#"scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="NodeResourcesFit",profile="default-scheduler"}"#,
            3.0,
        ),
        (
            r#"scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="NodePorts",profile="default-scheduler"}"#,
            0.0,
        ),
        (
            r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="default-scheduler",status="Success"}"#,
            3.0,
        ),
        (
            r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Score",profile="default-scheduler",status="Success"}"#,
            2.0,
        ),
        // The first of the three cycles is measured plugin by plugin.
        (
            r#"scheduler_plugin_execution_duration_seconds_count{extension_point="Filter",plugin="NodeUnschedulable",status="Success"}"#,
            1.0,
        ),
    ] {
        assert_eq!(samples.get(name), Some(&expected), "{name} in\n{page}");
    }
}

#[test]
fn each_release_has_its_own_metrics() {
    const EVICTIONS: &str = "scheduler_preemption_goroutines_duration_seconds";
    let metrics = |release| {
        let (metrics, _) = scheduled_in(release);
        metrics.set_build(Build { version: "v0", commit: "" });
        let meter = metrics.meter();
        meter.evicted("pod", false, meter.now());
        meter.profile(0, "p").measured(&Measurement::ClaimCreation { succeeded: true });
        metrics
    };
    let (old, new) = (metrics(Release::V1_36), metrics(Release::V1_37));
    let (old_page, new_page) = (old.page(), new.page());
    for (text, in_old, in_new) in [
        (r#"scheduler_pending_pods{queue="unschedulable"} 1"#, true, true),
        (r#"scheduler_pending_pods{queue="incomplete"} 0"#, false, true),
        (r#"scheduler_queued_entities{queue="unschedulable",type="pod"} 1"#, false, true),
        (
            r#"queue_incoming_entities_total{event="UnschedulablePodAdd",queue="active",type="pod"} 3"#,
            false,
            true,
        ),
        (r#"queue_incoming_entities_total{event="ScheduleAttemptFailure","#, false, false),
        ("# HELP scheduler_scheduling_algorithm_duration_seconds [ALPHA] ", true, false),
        ("# HELP scheduler_scheduling_algorithm_duration_seconds [BETA] ", false, true),
        (r#"scheduler_resourceclaim_creates_total{status="success"} 1"#, true, false),
        (
            r#"dynamic_resource_allocation_resourceclaim_creates_total{admin_access="false",owner_api_group="",owner_api_kind="Pod",status="success"} 1"#,
            false,
            true,
        ),
        (r#"version_info{binary="1.36",component="kube",emulation="1.36",min_compat="1.35"} 1"#, true, false),
        (r#"version_info{binary="1.37",component="kube",emulation="1.37",min_compat="1.36"} 1"#, false, true),
        (r#"major="1",minor="37""#, false, true),
        (EVICTIONS, true, false),
    ] {
        assert_eq!(
            (old_page.contains(text), new_page.contains(text)),
            (in_old, in_new),
            "{text}\n{new_page}"
        );
    }
    new.limit(Limits::default().with_hidden(true));
    let help = format!("# HELP {EVICTIONS} [ALPHA] (Deprecated since 1.37.0) Duration");
    assert!(new.page().contains(&help), "{}", new.page());
}

#[test]
fn a_page_is_valid_in_the_text_format() {
    let (metrics, _) = scheduled();
    metrics.set_build(Build { version: "v0", commit: "" });
    metrics.set_feature("Some", "BETA", true);
    metrics.set_leader("lease", true);
    let client = metrics.client("127.0.0.1:6443");
    client.waited(client::Verb::Get, std::time::Duration::ZERO);
    client.answered(client::Verb::Get, Some(200));
    client.ended(client::Verb::Get, std::time::Duration::ZERO, 0, Some(10));
    let page = metrics.page();
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut lines = page.lines();
    let mut family = "";
    let mut seen = std::collections::BTreeSet::new();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")).unwrap();
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, family, "TYPE follows HELP");
            assert!(kinds.insert(family, kind).is_none(), "{family} is on the page twice");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} is on the page twice");
        assert!(value == "+Inf" || value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().unwrap();
        let rest = name.strip_prefix(family).unwrap_or_else(|| panic!("{name} among {family}"));
        let is_histogram = kinds[family] == "histogram";
        assert_eq!(["_bucket", "_sum", "_count"].contains(&rest), is_histogram, "{line}");
    }
    assert!(kinds.keys().is_sorted());
    // Every family on the page is in the table, with the same type.
    for (name, kind) in &kinds {
        let family = METRICS.iter().find(|family| family.name == *name).expect("the family is in the table");
        assert_eq!(family.kind.name(), *kind);
    }
    let lacks_total =
        |(name, kind): (&&str, &&str)| *kind == Kind::Counter.name() && !name.ends_with("_total");
    assert!(!kinds.iter().any(lacks_total));
}

#[test]
fn buckets_are_cumulative_and_end_with_the_count() {
    let (metrics, _) = scheduled();
    let page = metrics.page();
    let samples = samples(&page);
    let mut buckets = 0;
    let mut before = ("", 0.0);
    for line in page.lines().filter(|line| line.contains("_bucket{")) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let (series, bound) = sample.rsplit_once("le=\"").unwrap();
        let value: f64 = value.parse().unwrap();
        assert!(before.0 != series || value >= before.1, "{line}");
        before = (series, value);
        buckets += 1;
        if bound.starts_with("+Inf") {
            let count = series.replace("_bucket{", "_count{");
            let count = match count.strip_suffix('{') {
                Some(without_labels) => without_labels.to_owned(),
                None => format!("{}}}", count.trim_end_matches(',')),
            };
            assert_eq!(samples.get(count.as_str()), Some(&value), "{count}");
        }
    }
    assert!(buckets > 100, "{buckets}");
}

#[test]
fn the_same_calls_have_the_same_effects_with_and_without_a_meter() {
    let run = |meter: Option<Arc<dyn Meter>>| {
        let mut engine = Engine::new(EngineConfig { meter, ..EngineConfig::new(vec![profile()]) });
        let now = Timestamp(1_000_000_000);
        engine.handle(Input::Node(node("a").allocatable("2", "4Gi", 110).build()), now);
        for at in 0..30 {
            engine.handle(Input::Pod(pod(&format!("p{at}")).cpu("100m").build()), now);
        }
        let mut log = String::new();
        while let Some(attempted) = engine.schedule_one(now) {
            log += &format!("{:?} {:?}\n", attempted.outcome, engine.take_effects());
        }
        log
    };
    // The logs can be equal because the debug output of plugins does not contain their meters.
    assert_eq!(run(None), run(Some(Metrics::default().meter())));
}

#[test]
fn a_configuration_file_is_identified_by_its_checksum() {
    let metrics = Metrics::default();
    assert!(!metrics.page().contains("harbormaster_config"), "without a file, there are no metrics about it");
    metrics.set_config("aa");
    metrics.set_config("bb");
    let page = metrics.page();
    assert!(
        page.contains("harbormaster_config_info{sha256=\"bb\"} 1\n") && !page.contains("\"aa\""),
        "{page}"
    );
    assert!(page.contains("harbormaster_config_last_reload_successful 1\n"), "{page}");
    metrics.set_config_refused();
    let page = metrics.page();
    assert!(page.contains("harbormaster_config_last_reload_successful 0\n"), "{page}");
    assert!(page.contains("harbormaster_config_info{sha256=\"bb\"} 1\n"), "{page}");
}

#[test]
fn disabled_metrics_are_not_on_the_page() {
    let metrics = Metrics::default();
    metrics.set_emulation("1.34", "1.33");
    metrics.set_feature("Some", "BETA", true);
    metrics.limit(Limits::new(
        ["kubernetes_feature_enabled".to_owned(), "no_such_metric".to_owned()],
        Default::default(),
    ));
    let page = metrics.page();
    assert!(
        !page.contains("kubernetes_feature_enabled") && page.contains("disabled_metrics_total 2\n"),
        "{page}"
    );
    let version =
        "version_info{binary=\"1.36\",component=\"kube\",emulation=\"1.34\",min_compat=\"1.33\"} 1\n";
    assert!(page.contains(version), "{page}");
}
