//! Quotas of several namespaces, and trees of quotas.

use super::*;

/// A group of namespaces, with amounts of memory.
pub(super) fn group(name: &str, min: u64, max: u64, namespaces: &[&str]) -> Value {
    let namespaces: Vec<Value> = namespaces.iter().map(|name| json!({ "name": name })).collect();
    let spec = json!({"min": {"memory": min}, "max": {"memory": max}, "namespaces": namespaces});
    json!({"metadata": {"name": name}, "spec": spec})
}

pub(super) fn below(mut group: Value, parent: &str) -> Value {
    group["spec"]["parent"] = json!(parent);
    group
}

/// The same group with a weight for each of its namespaces.
pub(super) fn weighted(mut group: Value, weights: &[u32]) -> Value {
    for (at, weight) in weights.iter().enumerate() {
        group["spec"]["namespaces"][at]["weight"] = json!(weight);
    }
    group
}

pub(super) fn world_of(groups: Vec<Value>, quotas: Vec<Value>, pods: Vec<PodBuilder>) -> Cluster {
    let mut nodes = world(quotas, pods);
    set_custom::<QuotaGroup>(&mut nodes, groups);
    nodes
}

fn victims_in(
    groups: Vec<Value>,
    quotas: Vec<Value>,
    pods: Vec<PodBuilder>,
    pod: PodBuilder,
) -> Result<Vec<String>, String> {
    let mut trial = trial(10_000, 1, quotas, pods);
    set_custom::<QuotaGroup>(trial.cluster(), groups);
    evicted(&mut trial, pod).map(|(_, names)| names)
}

fn problems(groups: Vec<Value>, quotas: Vec<Value>) -> Vec<(&'static str, String)> {
    let nodes = world_of(groups, quotas, vec![]);
    let indexes = Trial::of(plugin()).indexes(&nodes, &pod("p").info());
    indexes.contradictions().map(|found| (found.problem, found.subject.clone())).collect()
}

#[test]
fn a_pod_is_refused_above_the_max_of_any_group_above_it() {
    let groups =
        || vec![below(group("team", 2000, 3000, &["ns1", "ns2"]), "org"), group("org", 4000, 3500, &["ns3"])];
    let quotas = || vec![of_memory("ns1", 1000, 2500), of_memory("ns2", 1000, 2500)];
    let used = |third| {
        let pods = [("ns1", 2000), ("ns2", 500), ("ns3", third)];
        pods.map(|(namespace, memory)| in_namespace(namespace, "old", memory).on("n")).to_vec()
    };
    let ask =
        |third, memory| refusal(&world_of(groups(), quotas(), used(third)), in_namespace("ns2", "p", memory));
    assert_eq!(ask(0, 500), None);
    assert_eq!(
        ask(0, 600).unwrap(),
        "Pod ns2/p is rejected in PreFilter because QuotaGroup team is more than Max: memory: used 2500 + requested 600, \
         max 3000; used by ns1/quota (2000), ns2/quota (500)"
    );
    assert_eq!(
        ask(900, 200).unwrap(),
        "Pod ns2/p is rejected in PreFilter because QuotaGroup org is more than Max: memory: used 3400 + requested 200, \
         max 3500; used by team (2500), org (900)"
    );
}

#[test]
fn namespaces_without_a_quota_of_their_own_share_what_is_left_of_their_group() {
    let groups = || vec![group("team", 1000, 1500, &["ns1", "ns2", "ns3"])];
    let quotas = || vec![of_memory("ns3", 400, 2000)];
    let other = || of_memory("other", 1000, 2000);
    let used = || vec![in_namespace("ns1", "old", 500).on("n"), in_namespace("ns2", "old", 50).on("n")];
    let ask = |namespace: &str, memory| {
        let quotas = [quotas(), vec![other()]].concat();
        refusal(&world_of(groups(), quotas, used()), in_namespace(namespace, "p", memory))
    };
    assert_eq!(ask("ns2", 900), None);
    assert!(ask("ns2", 1000).unwrap().contains("QuotaGroup team is more than Max: memory: used 550"));
    // The two namespaces are guaranteed 600, and use what `ns3` leaves of the 1,000 of the group. Up to that, the pod takes
    // back what others have borrowed.
    let borrowed =
        |own: u64| vec![on("ns1", "own", own, 0), on("other", "a", 1000, 5), on("other", "b", 500, 9)];
    let ask = |own| {
        let quotas = [quotas(), vec![other()]].concat();
        victims_in(groups(), quotas, borrowed(own), in_namespace("ns2", "p", 100).priority(-1))
    };
    assert_eq!(ask(500), Ok(vec!["a".into()]));
    assert_eq!(ask(850), Ok(vec!["a".into()]));
    assert!(ask(950).unwrap_err().contains("is used up by pods that are at least as important"));
}

#[test]
fn a_group_within_its_min_takes_back_what_its_neighbours_have_borrowed_but_not_what_they_are_guaranteed() {
    let groups = || vec![group("one", 1000, 2000, &["a", "b"]), group("two", 1000, 2000, &["c"])];
    let quotas = || vec![of_memory("a", 500, 2000), of_memory("b", 500, 2000), of_memory("c", 1000, 2000)];
    let pods = || vec![on("c", "within", 1000, 0), on("c", "beyond", 500, 9), on("a", "lender", 500, -9)];
    // `b` takes from `c`, which uses more than its min, and not from `a`, which does not.
    let low = |memory| in_namespace("b", "p", memory).priority(0);
    assert_eq!(victims_in(groups(), quotas(), pods(), low(500)), Ok(vec!["within".into()]));
    let fair = || vec![on("c", "within", 1000, 0), on("a", "lender", 1000, -9)];
    assert_eq!(victims_in(groups(), quotas(), fair(), low(500)), Ok(vec!["lender".into()]));
    let nobody_borrows =
        || vec![on("c", "within", 1000, 0), on("a", "lender", 500, -9), on("b", "own", 500, 0)];
    assert!(victims_in(groups(), quotas(), nobody_borrows(), low(500)).is_err());
}

#[test]
fn a_group_within_its_min_takes_back_what_the_groups_above_it_have_lent_even_if_one_of_them_is_beyond_its_min()
 {
    // Since its min was lowered, `org` is beyond it, and so is the whole. `team` is within its min, and `a` is not.
    let groups = || {
        let org = group("org", 700, 9000, &["sibling"]);
        vec![org, below(group("team", 400, 9000, &["a", "b"]), "org"), group("other", 300, 9000, &["c"])]
    };
    let quotas =
        || vec![of_memory("a", 100, 9000), of_memory("b", 300, 9000), of_memory("sibling", 300, 9000)];
    let mut pods: Vec<_> = (0..5).map(|at| on("sibling", &format!("s{at}"), 100, 9)).collect();
    pods.extend([on("a", "own", 200, 9), on("c", "o1", 200, 9), on("c", "o2", 300, 1)]);
    // 1,200 of 1,000 are used. `sibling` has 200 to give back, which is not enough. Once it has given back 100, `org`
    // is within its min, and takes back what `other` has borrowed.
    let names = victims_in(groups(), quotas(), pods, in_namespace("a", "p", 100).priority(0)).unwrap();
    assert!(names.len() == 2 && names[0].starts_with('o') && names[1].starts_with('s'), "{names:?}");
}

#[test]
fn pods_return_that_were_taken_only_so_that_others_could_be() {
    let groups = || vec![group("g", 450, 9000, &["a", "b"])];
    let quotas = || vec![of_memory("b", 400, 9000), of_memory("c", 400, 9000), of_memory("d", 0, 9000)];
    let pods = vec![
        on("a", "a1", 250, 5),
        on("a", "a2", 250, 5),
        on("d", "d1", 100, 0),
        on("plain", "other", 400, 0),
    ];
    let mut trial = trial(1000, 1, quotas(), pods);
    set_custom::<QuotaGroup>(trial.cluster(), groups());
    // `d1` could go once both pods of `a` are gone, because `g` is then within its min. One of them is enough.
    let (_, names) = evicted(&mut trial, in_namespace("b", "p", 250)).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].starts_with('a'), "{names:?}");
}

#[test]
fn beyond_its_min_a_quota_takes_from_a_neighbour_that_has_borrowed_more_for_its_weight() {
    let quotas = || vec![of_memory("a", 100, 900), of_memory("b", 100, 900)];
    let pods = || (0..7).map(|at| on("a", &format!("a{at}"), 100, 9)).collect::<Vec<_>>();
    let team = || group("team", 800, 800, &["a", "b"]);
    let ask = |weights: &[u32], own: u64| {
        let mut pods = pods();
        pods.push(on("b", "own", own, 9));
        victims_in(vec![weighted(team(), weights)], quotas(), pods, in_namespace("b", "p", 100).priority(0))
    };
    // `a` has borrowed 600 and `b` nothing: with equal weights, `b` is entitled to 300 of them.
    assert_eq!(ask(&[1, 1], 100).map(|names| names.len()), Ok(1));
    assert!(
        ask(&[], 100).is_err(),
        "quotas without weights do not take from each other what they have borrowed"
    );
    // For a weight of 7, 600 is less than 100 for a weight of 1.
    assert!(ask(&[7, 1], 100).is_err());
}

#[test]
fn trees_that_cannot_be_are_reported_and_pods_are_admitted_all_the_same() {
    let cycle = vec![below(group("a", 1, 9, &["ns1"]), "b"), below(group("b", 1, 9, &[]), "a")];
    let expected = "QuotaGroups are above themselves, so that they count as being at the top";
    assert_eq!(problems(cycle.clone(), vec![]), [(expected, "a, b".to_owned())]);
    assert_eq!(refusal(&world_of(cycle, vec![], vec![]), in_namespace("ns1", "p", 1)), None);
    let orphan = vec![below(group("a", 1, 9, &[]), "gone")];
    let expected = "The parent of a QuotaGroup does not exist, so that it counts as being at the top";
    assert_eq!(problems(orphan, vec![]), [(expected, "a: parent gone".to_owned())]);
    let twice = vec![group("a", 1, 9, &["ns1"]), group("b", 1, 9, &["ns1"])];
    let expected = "A namespace is in two QuotaGroups, of which the first by name counts";
    assert_eq!(problems(twice, vec![]), [(expected, "ns1: b".to_owned())]);
    let poor = problems(vec![group("a", 5, 900, &["ns1", "ns2"])], vec![of_memory("ns1", 7, 9)]);
    let expected = "The quotas below a QuotaGroup guarantee more than its min, so that their sum counts";
    assert_eq!(poor, [(expected, "QuotaGroup a: memory: min 5, below 7".to_owned())]);
}

#[test]
fn absurd_groups_count_as_absent() {
    let refused = |spec: Value| {
        let key = CustomKey {
            resource: "quotagroups.v1alpha1.harbormaster.dev".into(),
            namespace: "".into(),
            name: "g".into(),
        };
        let object = json!({"metadata": {"name": "g"}, "spec": spec});
        ResourceKind::of::<QuotaGroup>().decode(&RawObject::from_json(key, object.to_string())).is_err()
    };
    for wrong in [
        json!({"min": {"cpu": "-1"}}),
        json!({"max": {"cpu": "NaN"}}),
        json!({"weight": 0}),
        json!({"weight": -3}),
        json!({"weight": 1e30}),
        json!({"namespaces": [{"weight": 2}]}),
        json!({"namespaces": "ns1"}),
    ] {
        assert!(refused(wrong.clone()), "{wrong}");
    }
    assert!(!refused(json!({"min": {"cpu": "1e400"}, "namespaces": []})));
}

#[test]
fn the_type_of_groups_fits_the_definition() {
    let definition = include_str!("../../deploy/quota-groups.yaml");
    let definition = definition.replace("anyOf: [{type: integer}, {type: string}]", "type: integer");
    let definition = definition.replace("x-kubernetes-int-or-string: true", "minimum: 0");
    resource_fits_definition::<QuotaGroup>(&serde_saphyr::from_str(&definition).unwrap());
}
