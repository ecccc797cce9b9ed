use harbormaster_api::{
    Labels,
    selector::{NodeSelector, Requirement},
};
use harbormaster_framework::{cluster::Cluster, events::ClusterEvent};
use harbormaster_testkit::{
    PodBuilder, Trial, adding_and_removing_is_neutral, batch_equals_single, cluster, node, pod, pods::one_of,
    rejection, row_scope_holds,
};
use serde_json::json;

use super::*;

fn trial() -> Trial {
    Trial::of(NodeAffinity { added_required: None, added_preferred: None })
}

fn with_added(added: serde_json::Value) -> Trial {
    let args = serde_json::from_value(json!({ "addedAffinity": added })).unwrap();
    Trial::of(NodeAffinity::build(args, &BuildCycle::default()).unwrap())
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { operator, ..one_of(key, values) }
}

fn expressions(match_expressions: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { match_expressions, ..Default::default() }
}

fn fields(match_fields: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { match_fields, ..Default::default() }
}

fn required_without_terms(pod: PodBuilder) -> PodBuilder {
    pod.spec(|s| {
        s.node_affinity =
            Some(selector::NodeAffinity { required: Some(NodeSelector::default()), preferred: None });
    })
}

fn one_node() -> Cluster {
    cluster([node("n1").label("disk", "ssd").label("cores", "16")], [])
}

#[test]
fn the_selector_and_the_required_affinity_must_both_match() {
    let nodes = one_node();
    let refused = Err(Reject::unresolvable("node(s) didn't match Pod's node affinity/selector"));
    let gt = |bound| expressions(vec![requirement("cores", Operator::Gt, &[bound])]);
    let wrong_name = fields(vec![one_of("metadata.name", &["n2"])]);
    let name_and_label = |name| NodeSelectorTerm {
        match_expressions: vec![one_of("disk", &["ssd"])],
        match_fields: vec![one_of("metadata.name", &[name])],
    };
    for (pod, fits) in [
        (pod("selector hits").node_selector("disk", "ssd"), true),
        (pod("selector misses").node_selector("disk", "hdd"), false),
        (pod("odd selector value").node_selector("disk", "not a label value!"), false),
        (pod("affinity hits").requires_node_label("disk", &["ssd", "nvme"]), true),
        (pod("affinity misses").requires_node_label("disk", &["hdd"]), false),
        (
            pod("one of the two does not match")
                .node_selector("disk", "ssd")
                .requires_node_label("disk", &["hdd"]),
            false,
        ),
        (pod("greater").requires_node(gt("8")), true),
        (pod("not greater").requires_node(gt("16")), false),
        (pod("absent key").requires_node(expressions(vec![requirement("x", Operator::NotIn, &["y"])])), true),
        (pod("empty term").requires_node(NodeSelectorTerm::default()), false),
        (required_without_terms(pod("no terms")), false),
        (pod("terms are ORed").requires_node(wrong_name.clone()).requires_node_label("disk", &["ssd"]), true),
        (pod("label and name").requires_node(name_and_label("n1")), true),
        (pod("label but other name").requires_node(name_and_label("n2")), false),
        (pod("syntax error").requires_node(expressions(vec![requirement("disk", Operator::In, &[])])), false),
    ] {
        let name = pod.clone().build().name;
        let pod = pod.info();
        let verdict = match trial().pre_filter(&nodes, &pod).unwrap() {
            PreFiltered::Continue { only: Some(only), .. } if only.is_empty() => refused.clone(),
            _ => trial().verdict(&nodes, &pod, "n1"),
        };
        assert_eq!(verdict, if fits { Ok(()) } else { refused.clone() }, "{name}");
        batch_equals_single(&trial(), &nodes, &pod);
    }
}

#[test]
fn pre_filter_skips_pods_without_requirements() {
    let nodes = one_node();
    let skips =
        |pod: PodBuilder| matches!(trial().pre_filter(&nodes, &pod.info()).unwrap(), PreFiltered::Skip);
    assert!(skips(pod("plain")));
    assert!(skips(pod("prefers").prefers_node_label(1, "disk", &["ssd"])), "preferences require nothing");
    assert!(!skips(pod("empty selector").spec(|s| s.node_selector = Some(Labels::default()))));
    assert!(!skips(required_without_terms(pod("no terms"))));
}

#[test]
fn terms_that_all_name_nodes_narrow_the_search_to_those_nodes() {
    let nodes = cluster([node("n1"), node("n2"), node("n3")], []);
    let names = |pod: PodBuilder| match trial().pre_filter(&nodes, &pod.info()).unwrap() {
        PreFiltered::Continue { only, .. } => {
            only.map(|only| only.iter().map(|row| nodes.node(row).name().to_string()).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let owned = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    assert_eq!(names(pod("p").requires_node_name(&["n2"])), owned(&["n2"]));
    assert_eq!(names(pod("p").requires_node_name(&["n1"]).requires_node_name(&["n3"])), owned(&["n1", "n3"]));
    assert_eq!(
        names(pod("p").requires_node_name(&["n1", "n2"])),
        owned(&["n1", "n2"]),
        "one requirement can list several names"
    );
    assert_eq!(names(pod("p").requires_node_name(&["gone"])), owned(&[]));
    assert_eq!(names(pod("p").requires_node_name(&["n1"]).requires_node_label("a", &["b"])), None);
    let not_in = fields(vec![requirement("metadata.name", Operator::NotIn, &["n1"])]);
    assert_eq!(names(pod("p").requires_node(not_in)), None);
}

#[test]
fn a_term_whose_lists_of_names_exclude_each_other_conflicts() {
    let nodes = cluster([node("n1"), node("n2")], []);
    let both = fields(vec![one_of("metadata.name", &["n1"]), one_of("metadata.name", &["n2"])]);
    let conflicting = pod("p").requires_node(both.clone());
    let reject = rejection(trial().pre_filter(&nodes, &conflicting.clone().info()).unwrap_err());
    assert_eq!(reject, Reject::unresolvable("pod affinity terms conflict"));
    let saved = conflicting.requires_node_name(&["n2"]);
    assert!(matches!(
        trial().pre_filter(&nodes, &saved.info()).unwrap(),
        PreFiltered::Continue { only: Some(_), .. }
    ));
}

#[test]
fn added_affinity_is_enforced_first_and_with_its_own_reason() {
    let nodes = one_node();
    let added = |value: &str| {
        with_added(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": [value]}]}]}}))
    };
    let plain = pod("plain").info();
    assert_eq!(added("ssd").verdict(&nodes, &plain, "n1"), Ok(()));
    let enforced = Err(Reject::unresolvable("node(s) didn't match scheduler-enforced node affinity"));
    assert_eq!(added("hdd").verdict(&nodes, &plain, "n1"), enforced);
    let misses_too = pod("misses").node_selector("disk", "hdd").info();
    assert_eq!(added("nvme").verdict(&nodes, &misses_too, "n1"), enforced);
    batch_equals_single(&added("hdd"), &nodes, &misses_too);
}

#[test]
fn arguments_with_syntax_errors_are_rejected() {
    let refused = |added: serde_json::Value| {
        let args = serde_json::from_value(json!({ "addedAffinity": added })).unwrap();
        NodeAffinity::build(args, &BuildCycle::default()).unwrap_err().to_string()
    };
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "In"}]});
    let text =
        refused(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}));
    assert!(
        text.starts_with("parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: "),
        "{text}"
    );
    let preferred = json!([{"weight": 1, "preference": term}]);
    let text = refused(json!({"preferredDuringSchedulingIgnoredDuringExecution": preferred}));
    assert!(
        text.starts_with("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: "),
        "{text}"
    );
}

#[test]
fn preferred_terms_of_the_pod_and_added_ones_are_summed_before_normalization() {
    let nodes =
        cluster([node("n1").label("a", "1").label("b", "1"), node("n2").label("a", "1"), node("n3")], []);
    let wants = |weight_a, weight_b| {
        pod("p").prefers_node_label(weight_a, "a", &["1"]).prefers_node_label(weight_b, "b", &["1"]).info()
    };
    assert_eq!(trial().raw_scores(&nodes, &wants(3, 4)).unwrap(), Some(vec![7, 3, 0]));
    assert_eq!(trial().scores(&nodes, &wants(3, 4)).unwrap(), Some(vec![100, 42, 0]));
    assert_eq!(trial().scores(&nodes, &wants(0, 0)).unwrap(), Some(vec![0, 0, 0]), "no weight, no score");
    let added = with_added(json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}}]}));
    assert_eq!(added.raw_scores(&nodes, &wants(3, 4)).unwrap(), Some(vec![7, 8, 5]));
    assert_eq!(added.scores(&nodes, &pod("plain").info()).unwrap(), Some(vec![0, 100, 100]));
}

#[test]
fn pods_without_a_list_of_preferences_are_not_scored() {
    let nodes = one_node();
    assert_eq!(trial().raw_scores(&nodes, &pod("plain").info()).unwrap(), None);
    let with_list = |list| {
        pod("p").spec(|s| {
            s.node_affinity = Some(selector::NodeAffinity { required: None, preferred: list });
        })
    };
    assert_eq!(trial().raw_scores(&nodes, &with_list(None).info()).unwrap(), None);
    assert_eq!(trial().raw_scores(&nodes, &with_list(Some(Vec::new())).info()).unwrap(), Some(vec![0]));
    let empty_added = with_added(json!({"preferredDuringSchedulingIgnoredDuringExecution": []}));
    assert_eq!(empty_added.raw_scores(&nodes, &pod("plain").info()).unwrap(), None);
}

#[test]
fn a_preference_with_a_syntax_error_fails_the_attempt() {
    let nodes = one_node();
    let wrong = pod("p").prefers_node_label(1, "disk", &[]).info();
    assert!(trial().raw_scores(&nodes, &wrong).is_err());
}

#[test]
fn a_node_wakes_pods_when_it_starts_to_match() {
    let (ssd, hdd) = (node("n").label("disk", "ssd").build(), node("n").label("disk", "hdd").build());
    let waiting = pod("p").requires_node_label("disk", &["ssd"]).info();
    let added = with_added(json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}]}}));
    let hint = |trial: &Trial, action, old, new| {
        trial.hint(ClusterEvent::new(EventResource::Node, action), &waiting, &Change::Node { old, new })
    };
    for (action, old, new, expected) in [
        (Action::ADD, None, &ssd, Hint::Queue),
        (Action::ADD, None, &hdd, Hint::Skip),
        (Action::UPDATE_NODE_LABEL, Some(&hdd), &ssd, Hint::Queue),
        (Action::UPDATE_NODE_LABEL, Some(&ssd), &ssd, Hint::Skip),
        (Action::UPDATE_NODE_LABEL, Some(&ssd), &hdd, Hint::Skip),
    ] {
        assert_eq!(hint(&trial(), action, old, Some(new)), Some(expected), "{action}");
        assert_eq!(hint(&added, action, old, Some(new)), Some(Hint::Skip), "{action}: added affinity");
    }
    let wrong = pod("p").requires_node_label("disk", &[]).info();
    let change = Change::Node { old: None, new: Some(&ssd) };
    let event = ClusterEvent::new(EventResource::Node, Action::ADD);
    assert_eq!(trial().hint(event, &wrong, &change), Some(Hint::Queue), "an error wakes the pod");
}

#[test]
fn answers_depend_only_on_the_row() {
    let mut nodes = cluster([node("n1").label("disk", "ssd"), node("n2")], []);
    let asks = pod("p").node_selector("disk", "ssd").prefers_node_label(9, "disk", &["ssd"]).info();
    let other = pod("other").info();
    row_scope_holds(&trial(), &mut nodes, &asks, &other);
    adding_and_removing_is_neutral(&trial(), &mut nodes, &asks, &other);
}
