//! A benchmark runs to its end and measures something.

use harbormaster_oracle::bench::{Options, Sizing, WORKLOADS, run};
use harbormaster_oracle::scheduler::Contender;

#[test]
fn a_short_benchmark_of_the_real_scheduler_with_itself_has_all_numbers() {
    let options = Options {
        workloads: WORKLOADS.iter().filter(|w| ["plain", "PreemptionAsync"].contains(&w.name)).collect(),
        sizing: Sizing { nodes: Some(30), init_pods: Some(30), pods: Some(60), scale: 1.0 },
        pairs: 1,
        threads: 2,
        backlog: false,
    };
    let contender = Contender::KubeScheduler;
    let mut order = Vec::new();
    let report = run(&options, [&contender, &contender], |workload, _, _| order.push(workload)).unwrap();
    assert_eq!(order, ["plain", "plain", "PreemptionAsync", "PreemptionAsync"]);
    assert_eq!(report.failures().count(), 0);
    for run in report.workloads.iter().flat_map(|workload| &workload.runs).flatten() {
        assert!(run.pods_per_second > 1.0 && run.pods_per_second < 100_000.0, "{run:?}");
        assert!(run.resident_mib > 10.0 && run.peak_mib >= run.resident_mib, "{run:?}");
        assert!(run.start_to_first_binding_s > 0.0 && run.start_cpu_ms > 0.0, "{run:?}");
        assert_eq!(run.events, 60, "{run:?}");
    }
    let text = report.to_string();
    assert!(text.contains("CPU-ms/pod") && text.contains("kube-scheduler ÷ kube-scheduler"), "{text}");
}
