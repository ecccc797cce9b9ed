//! The changes that wake a rejected pod are the same as in kube-scheduler.

use harbormaster_oracle::hints::{Options, run};

use crate::releases::HINTS;

#[test]
fn hints_match_those_of_kube_scheduler() {
    for &release in HINTS {
        let report = run(&Options { release, seed: 1, clusters: 8 }, |_| {})
            .expect("both schedulers evaluate the hints");
        assert!(report.differences.is_empty(), "{release}: {report}");
        let answered = |plugin: &str, answer: &str| {
            report.answers.get(plugin).and_then(|answers| answers.get(answer)).copied().unwrap_or_default()
        };
        let plugins = [
            "InterPodAffinity",
            "NodeAffinity",
            "NodeDeclaredFeatures",
            "NodePorts",
            "NodeResourcesFit",
            "NodeUnschedulable",
            "NodeVolumeLimits",
            "PodTopologySpread",
            "TaintToleration",
            "VolumeBinding",
            "VolumeRestrictions",
            "VolumeZone",
        ];
        for plugin in plugins {
            let least = answered(plugin, "Queue").min(answered(plugin, "QueueSkip"));
            assert!(least > 20, "{release}: too few hints of {plugin}: {report}");
        }
    }
}
