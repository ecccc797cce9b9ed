//! Harbormaster's plugins give the same verdicts on every node as kube-scheduler's plugins.

use std::time::Duration;

use harbormaster_oracle::generate::Shape;
use harbormaster_oracle::verdicts::{HarbormasterLibrary, Options, RealPlugins, run};

use crate::releases::VERDICTS;

#[test]
fn fifty_thousand_verdicts_and_scores_match_kube_scheduler() {
    let shape = Shape { max_nodes: 40, max_pods: 120, admitted: false };
    for &release in VERDICTS {
        let options = Options {
            release,
            seed: 1,
            clusters: 50,
            shape: shape.clone(),
            shrink_for: Duration::from_secs(60),
            only: None,
            keep_going: false,
            command: String::new(),
        };
        let mut left = RealPlugins::start(release).unwrap();
        let mut right = HarbormasterLibrary { release };
        let report = run(&options, &mut left, &mut right, |_| {}).unwrap();
        assert!(report.finding.is_none(), "{release}: {report}");
        assert!(report.counts.verdicts >= 50_000, "{release}: {report}");
    }
}
