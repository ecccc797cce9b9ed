//! The changes that `harbormaster why` proposes place the pod according to kube-scheduler's plugins.

use harbormaster_oracle::remedies::{Options, run};

use crate::releases::VERDICTS;

#[test]
fn the_real_plugins_place_pods_after_every_proposed_change() {
    for &release in VERDICTS {
        let report = run(&Options { release, seed: 1, clusters: 40 }, |_| {}).unwrap();
        assert!(report.wrong.is_empty() && report.missed.is_empty(), "{release}: {report}");
        assert!(report.proposals.values().sum::<u64>() >= 100, "{release}: {report}");
    }
}
