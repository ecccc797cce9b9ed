//! Harbormaster evicts nobody whom kube-scheduler would rather spare.

use harbormaster_oracle::preemptions::{Options, run};
use harbormaster_oracle::verdict_oracle::VerdictOracle;

#[test]
fn no_set_of_victims_is_worse_than_the_one_that_kube_scheduler_chooses_among_all() {
    let options = Options { seed: 1, clusters: 6, nodes: 300..=400, preemptors: 8 };
    let report = run(&options, &mut VerdictOracle::start().unwrap(), |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.evicting >= 30 && report.candidates / report.evicting >= 100, "{report}");
}
