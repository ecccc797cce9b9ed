//! Harbormaster in parity mode does with every pod what kube-scheduler does.

use harbormaster_oracle::decisions::{Script, Size, Stage, compare_on};
use harbormaster_oracle::harbormaster::harbormaster_binary;
use harbormaster_oracle::scheduler::Contender;

const SIZE: Size = Size { nodes: 15, pods: 60, changes: 8 };

fn compare(seed: u64) {
    let right = Contender::Harbormaster(harbormaster_binary(false).expect("cargo builds harbormaster"));
    let mut stage = Stage::start().expect("the API server starts");
    let script = Script::new(seed, SIZE, false);
    let report =
        compare_on(&mut stage, &script, &Contender::KubeScheduler, &right).expect("both schedulers play");
    assert!(report.finding.is_none(), "{report}");
    assert!(report.pods > report.pending && report.pending > 0, "{report}");
}

#[test]
fn retries_in_the_order_of_time_end_alike() {
    compare(2);
}

#[test]
fn retries_in_the_order_of_priority_end_alike() {
    compare(3);
}
