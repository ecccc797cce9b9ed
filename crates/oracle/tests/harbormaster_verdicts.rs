//! Harbormaster's plugins say about every node what the original ones say.

use std::time::Duration;

use harbormaster_oracle::generate::Shape;
use harbormaster_oracle::verdicts::{HarbormasterLibrary, Options, Original, run};

#[test]
fn every_verdict_and_score_of_fifty_thousand_is_the_original_one() {
    let shape = Shape { max_nodes: 40, max_pods: 120, admitted: false };
    let options = Options {
        seed: 1,
        clusters: 50,
        shape,
        shrink_for: Duration::from_secs(60),
        only: None,
        keep_going: false,
    };
    let mut left = Original::start().unwrap();
    let mut right = HarbormasterLibrary;
    let report = run(&options, &mut left, &mut right, |_| {}).unwrap();
    assert!(report.finding.is_none(), "{report}");
    assert!(report.counts.verdicts >= 50_000, "{report}");
}
