use harbormaster_api::pod::{PodClaim, TopologySpreadConstraint, VolumeSource};
use harbormaster_testkit::{PodBuilder, Trial, cluster, node, pod, rejection};

use super::*;

const ALL: [&str; 2] = ["GangScheduling", "DefaultPreemption"];

fn unbuilt(missing: &[&str]) -> Unbuilt {
    let args = UnbuiltArgs { missing: missing.iter().map(|m| (*m).to_owned()).collect() };
    Unbuilt::build(args, &BuildCycle::default()).unwrap()
}

fn trial(missing: &[&str]) -> Trial {
    Trial::of(unbuilt(missing))
}

fn plugins_needed(missing: &[&str], nodes: &Cluster, pod: PodBuilder) -> Vec<String> {
    match trial(missing).pre_filter(nodes, &pod.info()).map_err(rejection) {
        Ok(PreFiltered::Skip) => Vec::new(),
        Err(reject) => {
            assert_eq!(reject.fix, Fix::NothingHelps);
            let name = |text: &str| text.split_whitespace().nth(3).unwrap_or_default().to_owned();
            reject.reasons.iter().map(|r| name(r)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn grouped() -> PodBuilder {
    pod("p").spec(|s| s.pod_group = Some("g".into()))
}

#[test]
fn each_hard_constraint_names_the_plugin_that_it_needs() {
    let nodes = cluster([node("n")], []);
    for (pod, needed) in [
        (pod("plain").cpu("1").host_port(80).node_selector("a", "b"), vec![]),
        (pod("affinity").avoids("a", "b"), vec![]),
        (pod("spread").spec(|s| s.topology_spread = vec![TopologySpreadConstraint::default()]), vec![]),
        (pod("volume").volume(VolumeSource::Claim("c".into())), vec![]),
        (pod("claim").spec(|s| s.resource_claims = vec![PodClaim::default()]), vec![]),
        (grouped(), vec!["GangScheduling"]),
    ] {
        assert_eq!(plugins_needed(&ALL, &nodes, pod.clone()), needed);
        assert!(plugins_needed(&[], &nodes, pod.clone()).is_empty(), "nothing is missing");
        if let Some(one) = needed.first() {
            assert_eq!(plugins_needed(&[one], &nodes, pod), [*one]);
        }
    }
}

#[test]
fn the_reason_names_the_field() {
    let nodes = cluster([node("n")], []);
    let reject = rejection(trial(&ALL).pre_filter(&nodes, &grouped().info()).unwrap_err());
    assert_eq!(
        reject.message(),
        "pod needs plugin GangScheduling (spec.schedulingGroup), which this version of Harbormaster does not have"
    );
}

#[test]
fn nothing_wakes_a_pod_that_needs_a_missing_plugin() {
    assert_eq!(unbuilt(&ALL).events().map(|events| events.len()), Some(0));
}

#[test]
fn pods_that_need_a_missing_plugin_are_not_signed() {
    assert!(trial(&ALL).plugin().sign(&grouped().info()).unwrap().is_none());
    assert_eq!(trial(&ALL).plugin().sign(&pod("p").info()).unwrap().map(|f| f.len()), Some(0));
    assert_eq!(trial(&[]).plugin().sign(&grouped().info()).unwrap().map(|f| f.len()), Some(0));
}
