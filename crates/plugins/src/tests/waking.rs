//! Whatever makes a pod fit that a plugin rejected wakes it.
//!
//! Exceptions, in which kube-scheduler sleeps on as well:
//! - PodTopologySpread does not count pods that are being deleted, and is not woken by a pod that begins to be: by one
//!   that is gone.
//! - InterPodAffinity goes by the terms of the pod that waits when a node comes or is relabelled, and not by those of other
//!   pods that keep it away; a node that goes does not wake either. The pods on it do, when they go.
//! - A pod that matches its own affinity may go anywhere when no other pod matches it. InterPodAffinity is not woken when the
//!   last other one goes or is relabelled.

use harbormaster_api::features::{Feature, Features};
use harbormaster_testkit::{Words, what_helps_wakes_anywhere};

use super::*;

fn helped(name: &str, seed: u64) -> usize {
    let features = Features::default().with(Feature::NodeDeclaredFeatures, true);
    let trial = Trial::of_made(registry().build(name, None, &BuildCycle { features }).unwrap());
    let words = match name {
        "PodTopologySpread" => Words::default().fixed("metadata.deletionTimestamp"),
        "InterPodAffinity" => Words::default().fixed("nodes").fixed("spec.affinity.podAffinity"),
        _ => Words::default(),
    };
    what_helps_wakes_anywhere(&trial, &mut Dice::knowing(seed, words), 30, 30)
}

#[test]
fn what_helps_a_pod_wakes_it_whichever_plugin_rejected_it() {
    let names = [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeDeclaredFeatures",
        "PodTopologySpread",
        "InterPodAffinity",
    ];
    for name in names {
        let helped = helped(name, 1);
        assert!(helped > 10, "{name}: too tame: {helped}");
    }
}
