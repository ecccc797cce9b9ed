//! Harbormaster in parity mode makes the same decision for every pod as kube-scheduler.

use harbormaster_oracle::decisions::{Options, Report, Script, Size, Stage, TRIES, compare_on};
use harbormaster_oracle::harbormaster::harbormaster_binary;
use harbormaster_oracle::scheduler::Contender;

/// Enough pods for some of them to be preempted.
const SMALL: Size = Size { nodes: 10, pods: 30, changes: 2 };

fn compare(seed: u64, size: Size) -> Report {
    compare_with(seed, size, Options::default())
}

fn compare_with(seed: u64, size: Size, options: Options) -> Report {
    let right = Contender::Harbormaster(harbormaster_binary(false).expect("cargo builds harbormaster"));
    let mut stage = Stage::start().expect("the API server starts");
    let script = Script::new(seed, size, options);
    let report = compare_on(&mut stage, &script, [&Contender::KubeScheduler, &right], TRIES)
        .expect("both schedulers run");
    assert!(report.finding.is_none(), "{report}");
    report
}

#[test]
fn retries_in_the_order_of_time_have_the_same_outcomes() {
    let report = compare(6, Size { nodes: 15, pods: 60, changes: 8 });
    assert!(report.pods > report.pending && report.pending > 0, "{report}");
}

#[test]
fn the_same_pods_are_preempted_if_they_terminate_immediately() {
    let report = compare(5, SMALL);
    assert!(report.preempted > 0, "{report}");
}

#[test]
fn the_same_pods_are_preempted_if_they_terminate_slowly() {
    let report = compare(3, SMALL);
    assert!(report.preempted > 0, "{report}");
}

#[test]
fn pods_with_claims_get_the_same_nodes_and_volumes() {
    let size = Size { nodes: 12, pods: 24, changes: 3 };
    let report = compare_with(2, size, Options { volumes: true, ..Options::default() });
    assert!(report.with_volumes > 3, "{report}");
}

#[test]
fn extenders_get_the_same_calls_and_pods_have_the_same_outcomes() {
    let size = Size { nodes: 10, pods: 30, changes: 3 };
    let report = compare_with(2, size, Options { extenders: true, ..Options::default() });
    assert!(report.extender_calls > 30, "{report}");
}

#[test]
fn failing_drivers_and_preemption_lead_to_the_same_outcomes() {
    let size = Size { nodes: 8, pods: 14, changes: 2 };
    let report = compare_with(3, size, Options { volumes: true, ..Options::default() });
    assert!(report.with_volumes > 3, "{report}");
}
