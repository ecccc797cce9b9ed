//! Rules that apply to all plugins of this crate.

use std::sync::Arc;

use harbormaster_api::{
    PodSpec, Release, Service, features::Features, pod::TopologySpreadConstraint, points::ExtensionPoint,
    selector::LabelSelector,
};
use harbormaster_framework::{
    attempt::{Decision, Runner, Search},
    plugin::{QueueSort, Scope},
    pod::SpecTable,
    prelude::*,
    window::Rotation,
};
use harbormaster_testkit::{
    Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, node, pod, profile_with_weights,
    random::Dice, reads_are_complete, row_scope_holds,
};
use serde_json::json;

use super::*;
use crate::pod_index::tests::random_pod;

mod registrations;
mod storage_world;
mod waking;

fn registry() -> Registry {
    let mut registry = Registry::default();
    in_tree(&mut registry);
    registry
}

fn filters_and_scorers() -> Vec<Trial> {
    let fit = |strategy: serde_json::Value| {
        Some(json!({"scoringStrategy": strategy, "ignoredResourceGroups": ["ignored.example.com"]}))
    };
    let resources = json!([{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1},
        {"name": "ephemeral-storage", "weight": 1}, {"name": "example.com/gpu", "weight": 5}]);
    let shape = json!([{"utilization": 0, "score": 2}, {"utilization": 70, "score": 9}, {"utilization": 100, "score": 0}]);
    let balanced = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}, {"name": "example.com/gpu", "weight": 1}]);
    let added = json!({"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}}});
    let made = [
        ("NodeUnschedulable", None),
        ("NodeName", None),
        ("TaintToleration", None),
        ("NodeAffinity", None),
        ("NodeAffinity", Some(added)),
        ("NodePorts", None),
        ("NodeResourcesFit", None),
        ("NodeResourcesFit", fit(json!({"type": "MostAllocated", "resources": resources}))),
        (
            "NodeResourcesFit",
            fit(json!({"type": "RequestedToCapacityRatio", "resources": resources,
            "requestedToCapacityRatio": {"shape": shape}})),
        ),
        ("NodeResourcesBalancedAllocation", None),
        ("NodeResourcesBalancedAllocation", Some(json!({ "resources": balanced }))),
        ("ImageLocality", None),
        ("NodeDeclaredFeatures", None),
    ];
    let registry = registry();
    let build = |release: Release, name: &str, args: Option<serde_json::Value>| {
        let cx = BuildCycle { features: Features::of(release) };
        Trial::of_made(registry.build(name, args.as_ref(), &cx).unwrap())
    };
    let mut all: Vec<Trial> =
        made.into_iter().map(|(name, args)| build(Release::V1_36, name, args)).collect();
    // The plugins that read other fields in this release.
    all.extend(["ImageLocality", "NodeDeclaredFeatures"].map(|name| build(Release::V1_37, name, None)));
    all
}

#[test]
fn batches_agree_with_single_answers_on_random_clusters() {
    let trials = filters_and_scorers();
    let (mut rejected, mut scored) = (0, 0);
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let nodes = dice.cluster(1 + seed as usize * 3);
        for at in 0..4 {
            let pod = dice.pod(&format!("p{}", "x".repeat(at))).info();
            for trial in &trials {
                batch_equals_single(trial, &nodes, &pod);
                let name = nodes.node(nodes.order()[0]).name();
                rejected += usize::from(trial.verdict(&nodes, &pod, name).is_err());
                scored += usize::from(trial.raw_scores(&nodes, &pod).unwrap().is_some());
            }
        }
    }
    assert!(rejected > 100 && scored > 100, "the worlds vary too little: {rejected} {scored}");
}

#[test]
fn row_scoped_answers_depend_only_on_the_row_in_random_clusters() {
    for seed in 0..20 {
        let mut dice = Dice::new(1000 + seed);
        let mut nodes = dice.cluster(1 + seed as usize % 7);
        let (pod, other) = (dice.pod("p").info(), dice.pod("other").info());
        for trial in filters_and_scorers() {
            assert_eq!(trial.plugin().scope(), Scope::Row);
            row_scope_holds(&trial, &mut nodes, &pod, &other);
            adding_and_removing_is_neutral(&trial, &mut nodes, &pod, &other);
        }
    }
}

#[test]
fn normalized_scores_are_within_bounds_in_random_clusters() {
    for seed in 0..40 {
        let mut dice = Dice::new(2000 + seed);
        let nodes = dice.cluster(9);
        let pod = dice.pod("p").info();
        for trial in filters_and_scorers() {
            let scores = trial.scores(&nodes, &pod).unwrap().unwrap_or_default();
            assert!(scores.iter().all(|s| (0..=100).contains(s)), "{} {scores:?}", trial.plugin().name());
        }
    }
}

#[test]
fn every_plugin_is_registered_at_the_points_of_kube_scheduler() {
    use ExtensionPoint::{
        Bind, Filter, Permit, PlacementGenerate, PlacementScore, PodGroupPostFilter, PostFilter, PreBind,
        PreEnqueue, PreFilter, PreScore, QueueSort, Reserve, Score,
    };
    let registry = registry();
    for (plugin, points) in [
        ("SchedulingGates", vec![PreEnqueue]),
        ("PrioritySort", vec![QueueSort]),
        ("NodeUnschedulable", vec![Filter]),
        ("NodeName", vec![Filter]),
        ("TaintToleration", vec![Filter, PreScore, Score]),
        ("NodeAffinity", vec![PreFilter, Filter, PreScore, Score]),
        ("NodePorts", vec![PreFilter, Filter]),
        ("NodeResourcesFit", vec![PreFilter, Filter, PreScore, Score, PlacementScore]),
        ("VolumeRestrictions", vec![PreFilter, Filter]),
        ("NodeVolumeLimits", vec![PreFilter, Filter]),
        ("VolumeBinding", vec![PreFilter, Filter, PreScore, Score, Reserve, PreBind]),
        ("VolumeZone", vec![PreFilter, Filter]),
        ("PodTopologySpread", vec![PreFilter, Filter, PreScore, Score]),
        ("InterPodAffinity", vec![PreFilter, Filter, PreScore, Score]),
        (
            "DynamicResources",
            vec![PreEnqueue, PreFilter, Filter, PostFilter, PodGroupPostFilter, Score, Reserve, PreBind],
        ),
        ("DefaultPreemption", vec![PreEnqueue, PostFilter, PodGroupPostFilter]),
        ("NodeResourcesBalancedAllocation", vec![PreScore, Score]),
        ("ImageLocality", vec![Score]),
        ("DefaultBinder", vec![Bind]),
        ("NodeDeclaredFeatures", vec![PreFilter, Filter]),
        ("GangScheduling", vec![PreEnqueue, Permit]),
        ("TopologyPlacementGenerator", vec![PlacementGenerate]),
        ("PodGroupPodsCount", vec![PlacementScore]),
    ] {
        assert_eq!(registry.points(plugin), Some(points.into_iter().collect()), "{plugin}");
    }
    assert_eq!(registry.names().count(), 23);
}

/// The row-scoped filters and scorers, with the order and weights of the default profile.
fn default_runner() -> Runner {
    let filters = vec![
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 0),
        ("NodeAffinity", 0),
        ("NodePorts", 0),
        ("NodeResourcesFit", 0),
        ("NodeDeclaredFeatures", 0),
    ];
    let pre_filters = filters[3..].to_vec();
    let scorers = vec![
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ];
    let pre_scorers = scorers[..4].to_vec();
    let points =
        [("PreFilter", pre_filters), ("Filter", filters), ("PreScore", pre_scorers), ("Score", scorers)];
    Runner::new(profile_with_weights(&registry(), &points, &[]))
}

fn found(runner: &mut Runner, nodes: &mut Cluster, pod: &Arc<PodInfo>, rotation: &mut Rotation) -> Decision {
    runner.find(nodes, pod, Search::all(rotation)).unwrap().into_decision()
}

#[test]
fn the_default_profile_reports_why_no_node_fits() {
    let mut nodes = cluster(
        [
            node("cordoned").unschedulable(),
            node("tainted").taint("k", "v", "NoSchedule"),
            node("small").allocatable("1", "1Gi", 10),
            node("busy").allocatable("2", "8Gi", 1),
        ],
        [pod("there").cpu("1").on("busy")],
    );
    let pod = pod("p").cpu("2").info();
    let found = found(&mut default_runner(), &mut nodes, &pod, &mut Rotation::default());
    let Decision::Unschedulable(diagnosis) = found else { panic!("{found:?}") };
    assert_eq!(
        diagnosis.message(),
        "0/4 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, \
         2 Insufficient cpu."
    );
    assert_eq!(diagnosis.rejectors, ["NodeResourcesFit", "NodeUnschedulable", "TaintToleration"]);
}

#[test]
fn scores_of_the_default_profile_add_up_with_their_weights() {
    let mut nodes = cluster(
        [
            node("a").label("disk", "ssd").image("app:1", 1000 << 20),
            node("b").taint("k", "v", "PreferNoSchedule"),
            node("c"),
        ],
        [pod("there").cpu("2").memory("4Gi").on("c")],
    );
    let pod = pod("p").cpu("1").memory("2Gi").image("app:1").prefers_node_label(1, "disk", &["ssd"]).info();
    let explanation = default_runner().explain(&mut nodes, &pod).unwrap();
    let totals: Vec<(String, i64)> =
        explanation.scores.iter().map(|(node, sheet)| (node.to_string(), sheet.total)).collect();
    // Taints contribute 300 on "a" and "c", affinity 200 on "a", the free fraction 75, 75 and 25, and balance 75 on
    // every node. The image on "a" contributes 31, since only one node in three has it.
    assert_eq!(totals, [("a".into(), 681), ("b".into(), 150), ("c".into(), 400)]);
    let found = found(&mut default_runner(), &mut nodes, &pod, &mut Rotation::default());
    let Decision::Node { row, .. } = found else { panic!("{found:?}") };
    assert_eq!(nodes.node(row).name(), "a");
}

#[test]
fn cached_answers_equal_fresh_ones_while_pods_come_and_go() {
    let mut dice = Dice::new(78);
    let mut nodes = dice.cluster(40);
    let classes: Vec<_> = (0..5).map(|at| dice.pod(&format!("class-{at}")).info()).collect();
    let mut keeping = default_runner();
    let (mut rotation, mut fresh_rotation) = (Rotation::default(), Rotation::default());
    let mut placed = 0;
    for step in 0..200 {
        nodes.refresh();
        let pod = &classes[step % classes.len()];
        let kept = found(&mut keeping, &mut nodes, pod, &mut rotation);
        let fresh = found(&mut default_runner(), &mut nodes, pod, &mut fresh_rotation);
        assert_eq!(format!("{kept:?}"), format!("{fresh:?}"), "step {step}");
        assert_eq!(rotation, fresh_rotation);
        let Decision::Node { row, .. } = kept else { continue };
        placed += 1;
        let name = nodes.node(row).name().clone();
        let copy = harbormaster_api::Pod {
            uid: format!("copy-{step}").into(),
            ..harbormaster_api::Pod::clone(&pod.pod)
        };
        let copy = harbormaster_framework::pod::PodInfo::standalone(copy);
        nodes.add_pod(&name, copy.clone());
        if step % 3 == 0 {
            nodes.remove_pod(&name, &copy.uid);
        }
    }
    assert!(placed > 20, "the world is too full: {placed}");
}

/// Row-scoped plugins and plugins that depend on other pods.
fn social_runner() -> Runner {
    let filters = vec![
        ("TaintToleration", 0),
        ("NodeResourcesFit", 0),
        ("PodTopologySpread", 0),
        ("InterPodAffinity", 0),
        ("NodeDeclaredFeatures", 0),
    ];
    let scorers = vec![
        ("TaintToleration", 3),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesBalancedAllocation", 1),
    ];
    let points = [
        ("PreFilter", filters[1..].to_vec()),
        ("Filter", filters),
        ("PreScore", scorers.clone()),
        ("Score", scorers),
    ];
    Runner::new(profile_with_weights(&registry(), &points, &[]))
}

fn with_spread(dice: &mut Dice, pod: &PodInfo, specs: &mut SpecTable) -> PodInfo {
    let mut spec = PodSpec::clone(&pod.spec);
    let constraint = |dice: &mut Dice| TopologySpreadConstraint {
        max_skew: 1 + dice.below(3) as i32,
        topology_key: dice.pick(&["zone", "rack", "kubernetes.io/hostname"]).into(),
        hard: dice.one_in(2),
        label_selector: Some(LabelSelector { match_labels: pod.labels.clone(), ..Default::default() }),
        ..TopologySpreadConstraint::default()
    };
    spec.topology_spread = (0..dice.below(3)).map(|_| constraint(dice)).collect();
    spec.containers[0].requests = vec![("cpu".into(), 100 * dice.below(8) as i64)];
    let mut pod = harbormaster_api::Pod::clone(&pod.pod);
    (pod.spec, pod.deleted) = (Arc::new(spec), None);
    PodInfo::new(pod, specs)
}

#[test]
fn the_chosen_node_has_the_best_total_and_is_the_first_of_equals() {
    let (mut placed, mut nowhere, mut moved) = (0, 0, 0);
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut specs = SpecTable::default();
        let nodes = (0..2 + dice.below(9)).map(|at| {
            let name = format!("n{at}");
            let mut built = node(&name).allocatable("2", "8Gi", 20).label("kubernetes.io/hostname", &name);
            for key in ["zone", "rack"] {
                if !dice.one_in(5) {
                    built = built.label(key, dice.pick(&["1", "2", "3"]));
                }
            }
            if dice.one_in(4) { built.taint("k", "v", "PreferNoSchedule") } else { built }
        });
        let mut cluster = cluster(nodes.collect::<Vec<_>>(), []);
        let selector = Some([("app", "web")].into_iter().collect());
        let service = Service { namespace: "default".into(), name: "s".into(), selector };
        cluster.set_object(harbormaster_api::Object::Service(service));
        let (mut runner, mut rotation) = (social_runner(), Rotation::default());
        for step in 0..40 {
            cluster.refresh();
            let pod = random_pod(&mut dice, &format!("p{step}"), &mut specs);
            let pod = Arc::new(with_spread(&mut dice, &pod, &mut specs));
            let start = rotation.row;
            let told = social_runner().explain(&mut cluster, &pod).unwrap();
            let total = |row: NodeIdx| {
                let name = cluster.node(row).name();
                told.scores.iter().find(|(node, _)| node == name).map(|(_, sheet)| sheet.total)
            };
            let rows = cluster.rows();
            let round = (0..rows).map(|at| NodeIdx::from((start + at) % rows));
            let best = round.clone().filter_map(&total).max();
            let expected = best.and_then(|best| round.clone().find(|row| total(*row) == Some(best)));
            moved += usize::from(expected.is_some_and(|row| row.at() != start % rows));
            let found = match found(&mut runner, &mut cluster, &pod, &mut rotation) {
                Decision::Node { row, .. } => Some(row),
                Decision::Unschedulable(_) => None,
            };
            assert_eq!(found, expected, "seed {seed}, step {step}");
            match found {
                Some(row) => {
                    placed += 1;
                    let name = cluster.node(row).name().clone();
                    cluster.add_pod(&name, pod);
                }
                None => nowhere += 1,
            }
        }
    }
    assert!(placed > 500 && nowhere > 100 && moved > 300, "too little variation: {placed} {nowhere} {moved}");
}

#[test]
fn pods_that_look_the_same_to_a_plugin_get_the_same_answers() {
    let mut dice = Dice::new(5);
    let nodes = dice.cluster(30);
    let pods: Vec<_> = (0..80).map(|at| dice.pod(&format!("p{at}")).info()).collect();
    let all = filters_and_scorers();
    let alike: usize = all
        .iter()
        .filter(|trial| trial.plugin().scope() == Scope::Row)
        .map(|trial| reads_are_complete(trial, &nodes, &pods))
        .sum();
    assert!(alike > 100, "hardly any two pods are alike: {alike}");
}

#[test]
fn pre_score_runs_even_if_the_profile_does_not_enable_score() {
    let points = [("PreScore", vec![("NodeAffinity", 0)]), ("Score", vec![("ImageLocality", 1)])];
    let mut runner = Runner::new(profile_with_weights(&registry(), &points, &[]));
    let mut nodes = cluster([node("a"), node("b")], []);
    let wrong = pod("p").prefers_node_label(1, "disk", &["not a value"]).info();
    let error = runner.find(&mut nodes, &wrong, Search::all(&mut Rotation::default())).unwrap_err();
    assert!(error.to_string().starts_with("running PreScore plugin \"NodeAffinity\": "), "{error}");
}

#[test]
fn questions_about_a_bound_pod_do_not_affect_cached_answers_for_waiting_pods() {
    let mut nodes = cluster([node("a"), node("b")], []);
    let mut specs = harbormaster_framework::pod::SpecTable::default();
    let mut info = |pod: harbormaster_testkit::PodBuilder| Arc::new(PodInfo::new(pod.build(), &mut specs));
    let (bound, waiting) = (info(pod("bound").on("b")), info(pod("waiting")));
    let mut runner = default_runner();
    let fits = |runner: &mut Runner, nodes: &mut _, pod: &_| {
        let explanation = runner.explain(nodes, pod).unwrap();
        explanation.nodes.iter().map(|(_, why)| why.is_none()).collect::<Vec<_>>()
    };
    assert_eq!(fits(&mut runner, &mut nodes, &bound), [false, true]);
    assert_eq!(fits(&mut runner, &mut nodes, &waiting), [true, true]);
}

#[test]
fn pods_of_one_template_have_the_same_signature() {
    let profile = default_runner().profile().clone();
    let (one, two) = (pod("one").cpu("1").info(), pod("two").cpu("1").info());
    let sign = |pod: &PodInfo| profile.sign(pod).unwrap();
    assert!(sign(&one).is_some());
    assert_eq!(sign(&one), sign(&two));
    assert_ne!(sign(&one), sign(&pod("three").cpu("2").info()));
}

#[test]
fn priority_sort_puts_the_higher_priority_first() {
    let (low, high) = (pod("low").info(), pod("high").priority(1).info());
    let since = harbormaster_api::Timestamp(0);
    assert!(PrioritySort.less(Queued::pod(&high, since), Queued::pod(&low, since)));
}
