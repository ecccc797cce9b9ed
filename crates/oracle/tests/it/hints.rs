//! The changes that wake a rejected pod are the same as in kube-scheduler.

use harbormaster_oracle::hints::{Options, run};

#[test]
fn every_hint_matches_kube_scheduler() {
    let report = run(&Options { seed: 1, clusters: 8 }, |_| {}).expect("both sides answer");
    assert!(report.differences.is_empty(), "{report}");
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
        assert!(least > 20, "{plugin}: too tame: {report}");
    }
}
