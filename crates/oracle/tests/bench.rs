//! A benchmark completes and measures something. These tests have a program of their own, so that the crate's other
//! tests do not run at the same time and slow down the measured processes.

use harbormaster_api::Release;
use harbormaster_oracle::bench::{Catalog, Options, SizeOverrides, WORKLOADS, profile, run};
use harbormaster_oracle::harbormaster::harbormaster_binary;
use harbormaster_oracle::scheduler::Contender;

fn options(workloads: &[&str], nodes: usize, pods: usize) -> Options {
    Options {
        release: Release::V1_36,
        workloads: WORKLOADS.iter().filter(|workload| workloads.contains(&workload.name)).collect(),
        plans: Vec::new(),
        sizing: SizeOverrides { nodes: Some(nodes), init_pods: Some(nodes), pods: Some(pods), scale: 1.0 },
        pairs: 1,
        threads: 2,
        rate: None,
        backlog: false,
    }
}

#[test]
fn a_short_benchmark_of_the_real_scheduler_against_itself_has_all_measurements() {
    let options = options(&["plain", "PreemptionAsync"], 30, 60);
    let contender = Contender::KubeScheduler;
    let mut order = Vec::new();
    let report =
        run(&options, [&contender, &contender], |workload, _, _| order.push(workload.to_owned())).unwrap();
    assert_eq!(order, ["plain", "plain", "PreemptionAsync", "PreemptionAsync"]);
    assert_eq!(report.failures().count(), 0);
    for run in report.workloads.iter().flat_map(|workload| &workload.runs).flatten() {
        assert!(run.pods_per_second > 1.0 && run.pods_per_second < 100_000.0, "{run:?}");
        assert!(run.resident_mib > 10.0 && run.peak_mib >= run.resident_mib, "{run:?}");
        assert!(run.start_to_first_binding_s > Some(0.0) && run.start_cpu_ms > 0.0, "{run:?}");
        assert_eq!(run.events, 60, "{run:?}");
    }
    let text = report.to_string();
    assert!(text.contains("CPU-ms/pod") && text.contains("kube-scheduler ÷ kube-scheduler"), "{text}");
}

#[test]
fn pods_created_at_a_rate_have_a_latency() {
    let options = Options { rate: Some(30), ..options(&["plain"], 30, 60) };
    let contenders = [Contender::KubeScheduler, Contender::Harbormaster(harbormaster_binary(false).unwrap())];
    let report = run(&options, [&contenders[0], &contenders[1]], |_, _, _| {}).unwrap();
    assert_eq!(report.failures().count(), 0);
    for run in report.workloads[0].runs.iter().flatten() {
        let latency = run.latency.unwrap();
        assert!(latency.p50_ms <= latency.p99_ms && latency.p99_ms <= latency.longest_ms, "{run:?}");
        assert!(run.pods_per_second < 33.0 && latency.longest_ms > 0.0, "{run:?}");
    }
    assert!(report.to_string().contains("p99 ms"));
}

#[test]
fn both_schedulers_do_equal_work_where_pods_have_volumes() {
    let options = Options {
        sizing: SizeOverrides { init_pods: Some(5), ..options(&[], 20, 10).sizing },
        ..options(&["SchedulingMigratedInTreePVs", "LocalVolumes"], 20, 10)
    };
    let contenders = [Contender::KubeScheduler, Contender::Harbormaster(harbormaster_binary(false).unwrap())];
    let report = run(&options, [&contenders[0], &contenders[1]], |_, _, _| {}).unwrap();
    let failures: Vec<_> = report.failures().map(|failed| (&failed.name, &failed.failure)).collect();
    assert!(failures.is_empty(), "{failures:?}");
    for workload in &report.workloads {
        assert_eq!(workload.unequal, [], "{}", workload.name);
        let writes = if workload.name == "LocalVolumes" { 10 } else { 0 };
        for run in workload.runs.iter().flatten() {
            assert_eq!((run.events, run.volume_writes), (10, writes), "{}: {run:?}", workload.name);
        }
    }
}

#[test]
fn a_workload_of_scheduler_perf_runs_on_real_components() {
    let name = "SchedulingBasic/5Nodes_QueueingHintsEnabled";
    let catalog = Catalog::read(Release::V1_36, Some("misc")).unwrap();
    let options = Options { plans: catalog.plans(&[name.to_owned()]).unwrap(), ..options(&[], 0, 0) };
    let contender = Contender::Harbormaster(harbormaster_binary(false).unwrap());
    let report = run(&options, [&contender, &contender], |_, _, _| {}).unwrap();
    let failures: Vec<_> = report.failures().map(|failed| &failed.failure).collect();
    assert!(failures.is_empty(), "{failures:?}");
    let [comparison] = &report.workloads[..] else { panic!("one workload") };
    assert_eq!((comparison.name.as_str(), comparison.size.pods), (name, 10));
    for run in comparison.runs.iter().flatten() {
        assert_eq!((run.pods, run.events), (10, 10), "{run:?}");
        assert!(run.pods_per_second > 1.0 && run.cpu_ms_per_pod > 0.0, "{run:?}");
    }
    assert!(!report.to_string().contains("start→first"));
}

#[test]
#[ignore = "needs perf, and the permission to use it"]
fn a_flame_graph_shows_the_functions_of_the_measured_phase() {
    let contender = || Ok(Contender::Harbormaster(harbormaster_binary(false)?));
    let (measurement, profile) = profile(&options(&["plain"], 30, 300), contender).unwrap();
    assert_eq!(measurement.events, 300);
    let svg = profile.svg("plain").unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("harbormaster"), "{svg}");
}
