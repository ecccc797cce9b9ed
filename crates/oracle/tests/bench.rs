//! A benchmark runs to its end and measures something.

use harbormaster_oracle::bench::{Options, run};
use harbormaster_oracle::scheduler::Contender;

#[test]
fn a_short_benchmark_of_the_real_scheduler_with_itself_has_all_numbers() {
    let options =
        Options { nodes: 20, pods: 60, init_pods: 5, pairs: 1, threads: 2, backlog: false, foundation: true };
    let contender = Contender::KubeScheduler;
    let mut order = Vec::new();
    let report = run(&options, [&contender, &contender], |name, _| order.push(name)).unwrap();
    assert_eq!(order, ["kube-scheduler", "kube-scheduler"]);
    for run in report.runs.iter().flatten() {
        assert!(run.pods_per_second > 1.0 && run.pods_per_second < 100_000.0, "{run:?}");
        assert!(run.resident_mib > 10.0 && run.peak_mib >= run.resident_mib, "{run:?}");
        assert!(run.start_to_first_binding_s > 0.0 && run.start_cpu_ms > 0.0, "{run:?}");
    }
    let text = report.to_string();
    assert!(text.contains("CPU-ms/pod") && text.contains("kube-scheduler ÷ kube-scheduler"), "{text}");
}
