//! Harbormaster in parity mode makes the same decision for every pod as kube-scheduler.

use harbormaster_api::Release;
use harbormaster_oracle::decisions::{Options, Report, Script, Size, Stage, TRIES, compare_on, shadow};
use harbormaster_oracle::harbormaster::harbormaster_binary;
use harbormaster_oracle::scheduler::Contender;

use crate::releases::{DECISIONS, GROUPS};

/// Enough pods for some of them to be preempted.
const SMALL: Size = Size { nodes: 10, pods: 30, changes: 2 };

fn compare(seed: u64, size: Size, covers: fn(&Report) -> bool) {
    compare_with(seed, size, Options::default(), covers);
}

/// Compares the outcomes for every release that has the script's features. `covers` returns true if the script covers
/// what the test is about.
fn compare_with(seed: u64, size: Size, options: Options, covers: fn(&Report) -> bool) {
    let right = Contender::Harbormaster(harbormaster_binary(false).expect("cargo builds harbormaster"));
    let script = Script::new(seed, size, options);
    for &release in if options.groups { GROUPS } else { DECISIONS } {
        let mut stage = Stage::start(release, options.groups).expect("the API server starts");
        let report = compare_on(&mut stage, &script, [&Contender::KubeScheduler, &right], TRIES)
            .expect("both schedulers run");
        assert!(report.finding.is_none() && covers(&report), "{release}: {report}");
    }
}

#[test]
fn retries_in_chronological_order_have_the_same_outcomes() {
    let size = Size { nodes: 15, pods: 60, changes: 8 };
    compare(6, size, |report| report.pods > report.pending && report.pending > 0);
}

#[test]
fn the_same_pods_are_preempted_if_they_terminate_immediately() {
    compare(5, SMALL, |report| report.preempted > 0);
}

#[test]
fn the_same_pods_are_preempted_if_they_terminate_slowly() {
    compare(3, SMALL, |report| report.preempted > 0);
}

#[test]
fn a_shadow_that_only_reads_agrees_with_every_decision_and_every_preemption() {
    let binary = harbormaster_binary(false).expect("cargo builds harbormaster");
    let mut stage = Stage::audited(Release::V1_36).expect("the API server starts");
    let script = Script::new(5, SMALL, Options::default());
    let report = shadow(&mut stage, &script, &binary).expect("kube-scheduler and the shadow run");
    assert!(report.agrees() && report.same > 0 && report.waiting > 0 && report.preemptions > 0, "{report}");
}

#[test]
fn pods_with_claims_get_the_same_nodes_and_volumes() {
    let size = Size { nodes: 12, pods: 24, changes: 3 };
    let options = Options { volumes: true, ..Options::default() };
    compare_with(2, size, options, |report| report.with_volumes > 3);
}

#[test]
fn pods_with_resource_claims_get_the_same_nodes_and_devices() {
    let options = Options { devices: true, ..Options::default() };
    for seed in [8, 10] {
        let size = Size { nodes: 8, pods: 20, changes: 3 };
        compare_with(seed, size, options, |report| report.with_devices > 3);
    }
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn groups_have_the_same_outcomes() {
    let size = Size { nodes: 6, pods: 0, changes: 2 };
    let options = Options { groups: true, ..Options::default() };
    compare_with(2, size, options, |report| report.in_groups > 0 && report.preempted > 0);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn groups_with_topology_constraints_have_the_same_outcomes() {
    let size = Size { nodes: 6, pods: 0, changes: 2 };
    let options = Options { groups: true, topology: true, ..Options::default() };
    for seed in [3, 5] {
        compare_with(seed, size, options, |report| report.in_groups > 0);
    }
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn groups_with_resource_claims_have_the_same_outcomes() {
    let size = Size { nodes: 6, pods: 0, changes: 2 };
    let options = Options { groups: true, devices: true, ..Options::default() };
    compare_with(3, size, options, |report| report.in_groups > 0 && report.with_devices > 0);
}

#[test]
fn extenders_get_the_same_calls_and_pods_have_the_same_outcomes() {
    let size = Size { nodes: 10, pods: 30, changes: 3 };
    let options = Options { extenders: true, ..Options::default() };
    compare_with(2, size, options, |report| report.extender_calls > 30);
}

#[test]
fn pods_have_the_same_outcomes_with_failing_drivers_and_preemption() {
    let size = Size { nodes: 8, pods: 14, changes: 2 };
    let options = Options { volumes: true, ..Options::default() };
    compare_with(3, size, options, |report| report.with_volumes > 3);
}
