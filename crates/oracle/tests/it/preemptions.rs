//! Harbormaster never evicts more important pods than kube-scheduler would.

use harbormaster_oracle::preemptions::{Options, Report, run};
use harbormaster_oracle::verdict_oracle::VerdictOracle;

fn compare(clusters: u64, parity: bool) -> Report {
    let options = Options { seed: 1, clusters, nodes: 300..=400, preemptors: 8, parity };
    let mut original = VerdictOracle::start().expect("the original plugins start");
    run(&options, &mut original, |_| {}).expect("both sides answer")
}

#[test]
fn no_victims_cost_more_than_the_cheapest_that_kube_scheduler_finds() {
    let report = compare(6, false);
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.evicting >= 40 && report.candidates / report.evicting >= 100, "{report}");
}

#[test]
fn the_comparison_finds_what_a_search_that_stops_early_misses() {
    let report = compare(3, true);
    assert!(!report.findings.is_empty(), "{report}");
    assert!(report.findings.iter().all(|finding| finding.wrong.contains("costs")), "{report}");
}
