//! Harbormaster never evicts more important pods than kube-scheduler would.

use harbormaster_api::Release;
use harbormaster_oracle::preemptions::{Options, Report, run};

use crate::releases::{MAIN, PREEMPTIONS};

fn compare(release: Release, clusters: u64, parity: bool) -> Report {
    let options = Options { release, seed: 1, clusters, nodes: 300..=400, preemptors: 8, parity };
    run(&options, |_| {}).expect("both schedulers evaluate the pods")
}

#[test]
fn no_victims_cost_more_than_the_cheapest_that_kube_scheduler_finds() {
    for &release in PREEMPTIONS {
        let report = compare(release, 6, false);
        assert!(report.findings.is_empty(), "{release}: {report}");
        let enough = report.evicting >= 40 && report.candidates / report.evicting >= 100;
        assert!(enough, "{release}: {report}");
    }
}

#[test]
fn the_comparison_finds_what_a_search_that_stops_early_misses() {
    let report = compare(MAIN, 3, true);
    assert!(report.costlier > 0 && report.findings.is_empty(), "{report}");
}
