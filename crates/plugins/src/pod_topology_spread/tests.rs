use std::sync::Arc;

use harbormaster_api::{
    Str,
    features::{Feature, Features},
    object::{Object, Service, Workload, WorkloadKind},
    pod::{OwnerReference, TopologySpreadConstraint},
    selector::{LabelSelector, Operator, Requirement},
};
use harbormaster_framework::{cycle::Cycle, points::Slot};
use harbormaster_testkit::{NodeBuilder, PodBuilder, Trial, cluster, labels, node, pod};
use serde_json::json;

use super::*;

mod by_hand;
mod events;
mod filtering;
mod moving;
mod scoring;

fn plugin() -> PodTopologySpread {
    with_features(Features::default())
}

fn with_features(features: Features) -> PodTopologySpread {
    PodTopologySpread::build(PodTopologySpreadArgs::default(), &BuildCycle { features }).unwrap()
}

/// The plugin with these `defaultConstraints`.
fn listing(constraints: serde_json::Value) -> PodTopologySpread {
    let args = json!({ "defaultingType": "List", "defaultConstraints": constraints });
    PodTopologySpread::build(serde_json::from_value(args).unwrap(), &BuildCycle::default()).unwrap()
}

fn trial() -> Trial {
    Trial::of(plugin())
}

fn matching(pairs: &[(&str, &str)]) -> LabelSelector {
    LabelSelector { match_labels: labels(pairs), ..LabelSelector::default() }
}

/// A hard constraint on pods labeled `foo`.
fn hard(max_skew: i32, key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard: true,
        label_selector: Some(matching(&[("foo", "")])),
        ..TopologySpreadConstraint::default()
    }
}

fn soft(max_skew: i32, key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint { hard: false, ..hard(max_skew, key) }
}

/// The given constraint, applied to pods labeled `bar`.
fn on_bar(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { label_selector: Some(matching(&[("bar", "")])), ..constraint }
}

fn on_nothing(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { label_selector: None, ..constraint }
}

fn on_everything(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { label_selector: Some(LabelSelector::default()), ..constraint }
}

fn honoring_taints(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { honor_node_taints: true, ..constraint }
}

fn ignoring_affinity(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { ignore_node_affinity: true, ..constraint }
}

fn needing(min_domains: i32, constraint: TopologySpreadConstraint) -> TopologySpreadConstraint {
    TopologySpreadConstraint { min_domains: Some(min_domains), ..constraint }
}

/// A pod labeled `foo` with these constraints.
fn spreading(constraints: impl IntoIterator<Item = TopologySpreadConstraint>) -> PodBuilder {
    pod("p").label("foo", "").spec(|spec| spec.topology_spread.extend(constraints))
}

/// Pods labeled `foo`: the given number on each node.
fn foos(counts: &[(&str, usize)]) -> Vec<PodBuilder> {
    let on = |(node, count): &(&str, usize)| {
        let node = (*node).to_owned();
        (0..*count).map(move |i| pod(&format!("{node}{i}")).label("foo", "").on(&node)).collect::<Vec<_>>()
    };
    counts.iter().flat_map(on).collect()
}

/// Nodes a and b in zone 1, and x and y in zone 2.
fn two_zones() -> [NodeBuilder; 4] {
    [("a", "1"), ("b", "1"), ("x", "2"), ("y", "2")].map(|(name, zone)| zoned(name, zone))
}

fn zoned(name: &str, zone: &str) -> NodeBuilder {
    node(name).label("node", name).label("zone", zone)
}

fn service(name: &str, selector: Option<&[(&str, &str)]>) -> Object {
    let selector = selector.map(labels);
    Object::Service(Service { namespace: "default".into(), name: name.into(), selector })
}

fn workload(kind: WorkloadKind, name: &str, selector: LabelSelector) -> Object {
    Object::Workload(Workload {
        kind,
        namespace: "default".into(),
        name: name.into(),
        selector: Some(selector),
    })
}

fn owned_by(pod: PodBuilder, api_version: &str, kind: &str, name: &str) -> PodBuilder {
    let owner = OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        ..OwnerReference::default()
    };
    pod.pod(|p| p.controller = Some(owner))
}

#[test]
fn pods_are_signed_only_without_any_constraint() {
    let (bare, own) = (pod("bare").info(), spreading([hard(1, "zone")]).info());
    for (plugin, pod, signed) in
        [(plugin(), &bare, false), (listing(json!([])), &bare, true), (listing(json!([])), &own, false)]
    {
        let expected = if signed { Ok(Vec::new()) } else { Err(Unsignable) };
        assert_eq!(plugin.sign(pod), expected, "{pod:?}");
    }
}

#[test]
fn default_constraints_follow_the_arguments() {
    let keys = |plugin: PodTopologySpread, kind| {
        let constraints = plugin.default_constraints(kind);
        constraints.iter().map(|c| (c.key.to_string(), c.max_skew)).collect::<Vec<_>>()
    };
    let system = vec![(LABEL_HOSTNAME.to_owned(), 3), (LABEL_ZONE.to_owned(), 5)];
    assert_eq!(keys(plugin(), Kind::Soft), system);
    assert_eq!(keys(plugin(), Kind::Hard), []);
    let listed = json!([
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3,
            "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
        {"maxSkew": 4, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    assert_eq!(keys(listing(listed.clone()), Kind::Soft), [("zone".to_owned(), 4)]);
    let hard = listing(listed).default_constraints(Kind::Hard);
    let expected = Constraint {
        min_domains: 3,
        honors_affinity: false,
        honors_taints: true,
        ..Constraint::new("rack".into(), 2)
    };
    assert_eq!(hard, [expected]);
    let args = PodTopologySpreadArgs {
        defaulting_type: DefaultingType::Unknown("Some".to_owned()),
        ..PodTopologySpreadArgs::default()
    };
    assert!(PodTopologySpread::build(args, &BuildCycle::default()).is_err());
}

#[test]
fn a_selector_with_a_syntax_error_fails_the_extension_point_that_needs_it() {
    let broken = |constraint: TopologySpreadConstraint| {
        let bad = Requirement { key: "k".into(), operator: Operator::Gt, values: vec!["1".into()] };
        let label_selector = Some(LabelSelector { match_expressions: vec![bad], ..LabelSelector::default() });
        TopologySpreadConstraint { label_selector, ..constraint }
    };
    let nodes = cluster(two_zones(), []);
    let (filters, scores) = (
        spreading([broken(hard(1, "zone")), soft(1, "zone")]).info(),
        spreading([hard(1, "zone"), broken(soft(1, "zone"))]).info(),
    );
    let trial = trial();
    assert_eq!(
        trial.pre_filter(&nodes, &filters).unwrap_err().to_string(),
        "running PreFilter plugin \"PodTopologySpread\": get constraints from pod: obtaining pod's hard topology spread constraints: \"Gt\" is not a valid label \
         selector operator"
    );
    assert_eq!(
        trial.scores(&nodes, &scores).unwrap_err().to_string(),
        "running PreScore plugin \"PodTopologySpread\": calculating preScoreState: obtaining pod's soft topology spread constraints: \"Gt\" is not a valid label \
         selector operator"
    );
    assert!(trial.scores(&nodes, &filters).is_ok());
    assert!(trial.pre_filter(&nodes, &scores).is_ok());
}

/// The pod's default selector in a cluster with these objects.
fn selects(pod: PodBuilder, objects: Vec<Object>) -> LabelSelector {
    let mut nodes = cluster([], []);
    objects.into_iter().for_each(|object| nodes.set_object(object));
    super::default_selector::default_selector(&pod.info(), nodes.objects())
}

#[test]
fn the_default_selector_combines_the_selectors_of_services_and_owner() {
    let web = || pod("p").label("app", "web").label("tier", "front");
    let app = [("app", "web")];
    let labelled = |pairs: &[(&str, &str)]| matching(pairs);
    let require = |pairs: &[(&str, &str)]| {
        let one = |(k, v): &(&str, &str)| Requirement {
            key: (*k).into(),
            operator: Operator::In,
            values: vec![Str::from(*v)],
        };
        pairs.iter().map(one).collect::<Vec<_>>()
    };
    let rs = |selector| workload(WorkloadKind::ReplicaSet, "rs", selector);
    let rc = |selector| workload(WorkloadKind::ReplicationController, "rc", selector);
    let ss = |selector| workload(WorkloadKind::StatefulSet, "ss", selector);
    let by_rs = || owned_by(web(), "apps/v1", "ReplicaSet", "rs");
    let broken = LabelSelector {
        match_expressions: vec![Requirement { key: "app".into(), operator: Operator::In, values: vec![] }],
        ..LabelSelector::default()
    };
    let nothing = LabelSelector::default();
    for (case, pod, objects, expected) in [
        ("no objects", web(), vec![], nothing.clone()),
        ("a service", web(), vec![service("s", Some(&app))], labelled(&app)),
        (
            "a service that selects other pods",
            web(),
            vec![service("s", Some(&[("app", "db")]))],
            nothing.clone(),
        ),
        ("a service without a selector", web(), vec![service("s", None)], nothing.clone()),
        ("a service with an empty selector", web(), vec![service("s", Some(&[]))], nothing.clone()),
        (
            "two services",
            web(),
            vec![service("s", Some(&app)), service("t", Some(&[("tier", "front")]))],
            labelled(&[("app", "web"), ("tier", "front")]),
        ),
        (
            "a service in another namespace",
            web().namespace("x"),
            vec![service("s", Some(&app))],
            nothing.clone(),
        ),
        (
            "a replica set",
            by_rs(),
            vec![rs(labelled(&app))],
            LabelSelector { match_expressions: require(&app), ..nothing.clone() },
        ),
        (
            "a replica set and a service that disagree",
            by_rs(),
            vec![service("s", Some(&app)), rs(labelled(&[("app", "other")]))],
            LabelSelector { match_expressions: require(&[("app", "other")]), ..labelled(&app) },
        ),
        ("a replica set that is gone", by_rs(), vec![], nothing.clone()),
        ("a replica set with a syntax error", by_rs(), vec![rs(broken)], nothing.clone()),
        (
            "a replica set of another group",
            owned_by(web(), "extensions/v1beta1", "ReplicaSet", "rs"),
            vec![rs(labelled(&app))],
            nothing.clone(),
        ),
        (
            "a stateful set",
            owned_by(web(), "apps/v1", "StatefulSet", "ss"),
            vec![ss(labelled(&app))],
            LabelSelector { match_expressions: require(&app), ..nothing.clone() },
        ),
        (
            "a replication controller wins over a service",
            owned_by(web(), "v1", "ReplicationController", "rc"),
            vec![service("s", Some(&app)), rc(labelled(&[("app", "other")]))],
            labelled(&[("app", "other")]),
        ),
    ] {
        assert_eq!(selects(pod, objects), expected, "{case}");
    }
}

/// The state that PreFilter returns for the pod.
fn pre_filtered(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Slot {
    let mut slot = trial.plugin().default_filter_slot();
    let indexes = trial.indexes(nodes, pod);
    trial.plugin().pre_filter(&Cycle::with_indexes(nodes, &indexes, pod), &mut slot).unwrap();
    slot
}

/// The pod, bound to the given node.
fn bound(pod: PodBuilder, node: &str) -> (Str, Arc<PodInfo>) {
    (node.into(), pod.on(node).info())
}
