use harbormaster_api::{
    node::LABEL_ZONE,
    pod::{PodAffinity, TopologySpreadConstraint},
    selector::LabelSelector,
};
use harbormaster_framework::{events::ClusterEvent, plugin::PreFilterAnswer, table::NodeTable};
use harbormaster_testkit::{NodeBuilder, PodBuilder, Trial, cluster, node, pod};

use super::*;

const ALL: [&str; 9] = [
    "InterPodAffinity",
    "PodTopologySpread",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "DynamicResources",
    "GangScheduling",
    "DefaultPreemption",
];

fn trial(missing: &[&str]) -> Trial {
    let args = UnbuiltArgs { missing: missing.iter().map(|m| (*m).to_owned()).collect() };
    Trial::of(Unbuilt::build(args, &BuildCycle::default()).unwrap())
}

fn plugins_needed(missing: &[&str], nodes: &NodeTable, pod: PodBuilder) -> Vec<String> {
    match trial(missing).pre_filter(nodes, &pod.info()).unwrap() {
        PreFilterAnswer::Skip => Vec::new(),
        PreFilterAnswer::Reject(reject) => {
            assert_eq!(reject.fix, Fix::NothingHelps);
            let name = |text: &str| text.split_whitespace().nth(3).unwrap_or_default().to_owned();
            reject.reasons.iter().map(|r| name(r)).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn spreads(hard: bool) -> PodBuilder {
    pod("p").spec(|s| s.topology_spread = vec![TopologySpreadConstraint { hard, ..Default::default() }])
}

#[test]
fn each_hard_constraint_names_the_plugins_that_it_needs() {
    let nodes = cluster([node("n")], []);
    let volume = |source| pod("p").volume(source);
    let soft_affinity = pod("p").spec(|s| {
        let preferred = vec![(1, Default::default())];
        s.pod_affinity = Some(PodAffinity { required: Vec::new(), preferred });
    });
    let affinity = pod("p").spec(|s| {
        s.pod_affinity = Some(PodAffinity { required: vec![Default::default()], preferred: Vec::new() });
    });
    for (pod, needed) in [
        (pod("plain").cpu("1").host_port(80).node_selector("a", "b"), vec![]),
        (affinity, vec!["InterPodAffinity"]),
        (pod("p").avoids("a", "b"), vec!["InterPodAffinity"]),
        (soft_affinity, vec![]),
        (spreads(true), vec!["PodTopologySpread"]),
        (spreads(false), vec![]),
        (
            volume(VolumeSource::Claim("c".into())),
            vec!["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"],
        ),
        (volume(VolumeSource::Ephemeral), vec!["NodeVolumeLimits", "VolumeBinding"]),
        (volume(VolumeSource::InTree("rbd".into())), vec!["VolumeRestrictions", "NodeVolumeLimits"]),
        (volume(VolumeSource::InTree("cinder".into())), vec!["NodeVolumeLimits"]),
        (volume(VolumeSource::InlineCsi("d".into())), vec!["NodeVolumeLimits"]),
        (volume(VolumeSource::Image("i".into())), vec![]),
        (pod("p").spec(|s| s.resource_claims = vec!["c".into()]), vec!["DynamicResources"]),
        (pod("p").spec(|s| s.pod_group = Some("g".into())), vec!["GangScheduling"]),
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
    let both = pod("p").avoids("a", "b").spec(|s| s.pod_affinity = s.pod_anti_affinity.clone()).info();
    let PreFilterAnswer::Reject(reject) = trial(&ALL).pre_filter(&nodes, &both).unwrap() else {
        panic!("fits")
    };
    assert_eq!(
        reject.message(),
        "pod needs plugin InterPodAffinity (spec.affinity.podAffinity, spec.affinity.podAntiAffinity), which this \
         version of Harbormaster does not have"
    );
}

fn in_zone() -> NodeBuilder {
    node("n").zone("z1")
}

#[test]
fn a_pod_that_a_pod_in_the_cluster_avoids_waits() {
    let avoided = |node: NodeBuilder, other: PodBuilder, pod: PodBuilder| {
        let nodes = cluster([node], [other.on("n")]);
        !plugins_needed(&["InterPodAffinity"], &nodes, pod).is_empty()
    };
    let web = || pod("p").label("app", "web");
    let avoids_web = || pod("other").avoids("app", "web");
    let from = |change: fn(&mut PodAffinityTerm)| {
        avoids_web().spec(|s| s.pod_anti_affinity.iter_mut().flat_map(|a| &mut a.required).for_each(change))
    };
    assert!(avoided(in_zone(), avoids_web(), web()));
    assert!(!avoided(in_zone(), avoids_web(), pod("p").label("app", "db")));
    assert!(!avoided(in_zone(), avoids_web(), web().namespace("elsewhere")));
    assert!(avoided(
        in_zone(),
        from(|t| t.namespaces = vec!["elsewhere".into()]),
        web().namespace("elsewhere")
    ));
    assert!(!avoided(in_zone(), from(|t| t.namespaces = vec!["elsewhere".into()]), web()));
    let any = |t: &mut PodAffinityTerm| t.namespace_selector = Some(LabelSelector::default());
    assert!(avoided(in_zone(), from(any), web().namespace("anywhere")));
    assert!(!avoided(in_zone(), from(|t| t.label_selector = None), web()));
    assert!(!avoided(node("n"), avoids_web(), web()), "the node is in no zone, so the term has no effect");
    assert_eq!(LABEL_ZONE, "topology.kubernetes.io/zone");
    let nodes = cluster([in_zone()], [avoids_web().on("n")]);
    assert!(plugins_needed(&["PodTopologySpread"], &nodes, web()).is_empty(), "the plugin is there");
}

#[test]
fn rows_with_anti_affinity_are_known_while_such_a_pod_is_there() {
    let mut nodes = cluster([in_zone()], []);
    let row = nodes.order()[0];
    let known = |nodes: &NodeTable| nodes.columns().with_anti_affinity.contains(row);
    for name in ["one", "two"] {
        nodes.add_pod(&"n".into(), pod(name).avoids("app", "web").info());
    }
    nodes.add_pod(&"n".into(), pod("plain").info());
    assert!(known(&nodes));
    nodes.remove_pod("n", "uid-plain");
    nodes.remove_pod("n", "uid-one");
    assert!(known(&nodes));
    nodes.remove_pod("n", "uid-two");
    assert!(!known(&nodes));
}

#[test]
fn only_the_end_of_the_avoiding_pod_and_own_labels_wake_an_avoided_pod() {
    let trial = trial(&ALL);
    let waiting = pod("p").label("app", "web").info();
    let hint = |action, old: Option<PodBuilder>, new: Option<PodBuilder>| {
        let (old, new) = (old.map(PodBuilder::build), new.map(PodBuilder::build));
        let change = Change::Pod { old: old.as_ref(), new: new.as_ref() };
        trial.hint(ClusterEvent::new(EventResource::AssignedPod, action), &waiting, &change)
    };
    let avoids = |app| pod("other").avoids("app", app).on("n");
    assert_eq!(hint(Action::DELETE, Some(avoids("web")), None), Some(Hint::Queue));
    assert_eq!(hint(Action::DELETE, Some(avoids("db")), None), Some(Hint::Skip));
    assert_eq!(hint(Action::DELETE, Some(pod("plain").on("n")), None), Some(Hint::Skip));
    assert_eq!(hint(Action::UPDATE_POD_LABEL, Some(pod("p")), Some(pod("p"))), Some(Hint::Queue));
    assert_eq!(hint(Action::UPDATE_POD_LABEL, Some(pod("q")), Some(pod("q"))), Some(Hint::Skip));
    assert_eq!(hint(Action::ADD, None, Some(pod("q"))), None);
}

#[test]
fn a_pod_that_needs_a_missing_plugin_itself_is_left_in_peace() {
    let needy = spreads(true).label("app", "web").info();
    let gone = pod("other").avoids("app", "web").on("n").build();
    let change = Change::Pod { old: Some(&gone), new: None };
    let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
    assert_eq!(trial(&ALL).hint(event, &needy, &change), Some(Hint::Skip));
    assert_eq!(trial(&["PodTopologySpread"]).hint(event, &needy, &change), None);
}

#[test]
fn pods_that_need_a_missing_plugin_are_not_signed() {
    let plain = pod("p").info();
    assert!(trial(&ALL).plugin().sign(&spreads(true).info()).is_err());
    assert_eq!(trial(&ALL).plugin().sign(&plain).map(|f| f.len()), Ok(1));
    assert_eq!(trial(&[]).plugin().sign(&spreads(true).info()).map(|f| f.len()), Ok(0));
}
