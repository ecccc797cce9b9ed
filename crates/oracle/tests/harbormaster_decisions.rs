//! Harbormaster in parity mode does with every pod what kube-scheduler does.

use harbormaster_oracle::decisions::{Options, Report, Script, Size, Stage, TRIES, compare_on};
use harbormaster_oracle::harbormaster::harbormaster_binary;
use harbormaster_oracle::scheduler::Contender;

/// Enough for some pods to be preempted.
const SMALL: Size = Size { nodes: 10, pods: 30, changes: 2 };

fn compare(seed: u64, size: Size) -> Report {
    compare_with(seed, size, Options::default())
}

fn compare_with(seed: u64, size: Size, options: Options) -> Report {
    let right = Contender::Harbormaster(harbormaster_binary(false).expect("cargo builds harbormaster"));
    let mut stage = Stage::start().expect("the API server starts");
    let script = Script::new(seed, size, options);
    let report = compare_on(&mut stage, &script, [&Contender::KubeScheduler, &right], TRIES)
        .expect("both schedulers play");
    assert!(report.finding.is_none(), "{report}");
    report
}

#[test]
fn retries_in_the_order_of_time_end_alike() {
    let report = compare(2, Size { nodes: 15, pods: 60, changes: 8 });
    assert!(report.pods > report.pending && report.pending > 0, "{report}");
}

#[test]
fn pods_that_go_at_once_are_preempted_alike() {
    let report = compare(5, SMALL);
    assert!(report.preempted > 0, "{report}");
}

#[test]
fn pods_that_linger_are_preempted_alike() {
    let report = compare(3, SMALL);
    assert!(report.preempted > 0, "{report}");
}

#[test]
fn pods_with_claims_get_the_same_nodes_and_volumes() {
    let size = Size { nodes: 12, pods: 24, changes: 3 };
    let report = compare_with(2, size, Options { volumes: true, ..Options::default() });
    assert!(report.claiming > 3, "{report}");
}

#[test]
fn extenders_are_asked_the_same_and_pods_end_alike() {
    let size = Size { nodes: 10, pods: 30, changes: 3 };
    let report = compare_with(2, size, Options { extenders: true, ..Options::default() });
    assert!(report.asked > 30, "{report}");
}

#[test]
fn drivers_that_fail_and_pods_that_are_preempted_end_alike() {
    let size = Size { nodes: 8, pods: 14, changes: 2 };
    let report = compare_with(3, size, Options { volumes: true, ..Options::default() });
    assert!(report.claiming > 3, "{report}");
}
