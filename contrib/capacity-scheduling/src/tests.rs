//! The worked examples of scheduler-plugins, the index, and messages.

mod gangs;
mod groups;
mod sort;

use harbormaster::{
    Registry,
    api::{Object, PodDisruptionBudget, Timestamp, pod::PodCondition, selector::LabelSelector},
    framework::{ClusterEvent, RawObject, ResourceKind},
    prelude::*,
    serde_json::{Value, json},
    testkit::{
        Happening, PodBuilder, Trial, WhatIfTrial, answers_are_repeatable, batch_equals_single, cluster,
        custom, index_equals_rebuilt_one, labels, node, nominate, pod, profile, random::Dice, remove_custom,
        resource_fits_definition, set_custom, what_helps_wakes,
    },
};

use crate::{CapacityScheduling, ElasticQuota, QuotaGroup, ledger::Ledger, tree::WHOLE};

pub(crate) fn plugin() -> CapacityScheduling {
    CapacityScheduling::build(NoArgs, &BuildCycle::default()).unwrap()
}

pub(crate) fn quota(namespace: &str, min: Value, max: Value) -> Value {
    json!({"metadata": {"name": "quota", "namespace": namespace}, "spec": {"min": min, "max": max}})
}

/// A quota of memory.
fn of_memory(namespace: &str, min: u64, max: u64) -> Value {
    quota(namespace, json!({ "memory": min }), json!({ "memory": max }))
}

pub(crate) fn in_namespace(namespace: &str, name: &str, memory: u64) -> PodBuilder {
    pod(name).namespace(namespace).uid(&format!("{namespace}-{name}")).memory(&memory.to_string())
}

fn world(quotas: Vec<Value>, pods: Vec<PodBuilder>) -> Cluster {
    let mut nodes = cluster([node("n").allocatable("32", "10000", 110)], pods);
    set_custom::<ElasticQuota>(&mut nodes, quotas);
    set_custom::<QuotaGroup>(&mut nodes, []);
    nodes
}

/// Why the pod is refused.
fn refusal(nodes: &Cluster, pod: PodBuilder) -> Option<String> {
    let verdict = Trial::of(plugin()).verdict(nodes, &pod.info(), "n");
    verdict.err().map(|reject| {
        assert_eq!(reject.fix, Fix::EvictionMayHelp);
        reject.message()
    })
}

#[test]
fn a_pod_is_refused_above_max_and_above_what_all_quotas_guarantee() {
    let one = || vec![of_memory("ns1", 1000, 2000)];
    let used = || vec![in_namespace("ns1", "old", 300).on("n")];
    assert_eq!(refusal(&world(one(), used()), in_namespace("ns1", "p", 500)), None);
    assert_eq!(
        refusal(&world(one(), used()), in_namespace("ns1", "p", 1800)).unwrap(),
        "Pod ns1/p is rejected in PreFilter because ElasticQuota ns1/quota is more than Max: memory: used 300 + requested \
         1800, max 2000; the namespace has 1 pods on nodes"
    );
    let two = vec![of_memory("ns1", 1000, 2000), of_memory("ns2", 1000, 2000)];
    let used = vec![in_namespace("ns1", "a", 1800).on("n"), in_namespace("ns2", "b", 200).on("n")];
    let nodes = world(two, used);
    assert_eq!(
        refusal(&nodes, in_namespace("ns2", "p", 500)).unwrap(),
        "Pod ns2/p is rejected in PreFilter because total ElasticQuota used is more than min: memory: used 2000 + \
         requested 500, min 2000; borrowed by ns1/quota (800)"
    );
    assert_eq!(refusal(&nodes, in_namespace("elsewhere", "p", 5000)), None);
}

#[test]
fn a_resource_that_is_not_listed_is_unlimited_and_not_guaranteed() {
    let listed = json!({"cpu": "4"});
    let nodes = world(vec![quota("ns1", listed.clone(), listed)], vec![]);
    assert_eq!(refusal(&nodes, in_namespace("ns1", "p", 9000).request("a/gpu", "8")), None);
    // As soon as one quota guarantees it, another quota can only borrow it.
    let gpus = |namespace, min: Value| quota(namespace, min, Value::Null);
    let quotas = || vec![gpus("ns1", json!({"a/gpu": 2})), gpus("ns2", json!({"cpu": 2}))];
    let uses = |count: &str| vec![in_namespace("ns2", "old", 1).request("a/gpu", count).on("n")];
    let asks = |namespace| in_namespace(namespace, "p", 1).request("a/gpu", "1");
    assert_eq!(refusal(&world(quotas(), uses("1")), asks("ns2")), None);
    assert!(refusal(&world(quotas(), uses("2")), asks("ns2")).unwrap().contains("borrowed by ns2/quota (2)"));
    // A pod that requests nothing of it does not care.
    assert_eq!(refusal(&world(quotas(), uses("9")), in_namespace("ns1", "p", 1)), None);
}

#[test]
fn nominated_pods_count_that_are_as_important_or_within_their_min() {
    let quotas = || vec![of_memory("ns1", 500, 1000), of_memory("ns2", 500, 1000)];
    let promised =
        |namespace, priority| in_namespace(namespace, "n", 600).priority(priority).nominated_to("n");
    let with = |nominated, used: Vec<PodBuilder>| {
        let mut nodes = world(quotas(), used);
        nominate(&mut nodes, [nominated]);
        refusal(&nodes, in_namespace("ns1", "p", 500).priority(5))
    };
    let own = with(promised("ns1", 5), vec![]).unwrap();
    assert!(own.contains("used 0 + nominated 600 + requested 500, max 1k"), "{own}");
    assert_eq!(with(promised("ns1", 4), vec![]), None);
    assert!(
        with(promised("ns2", 0), vec![]).unwrap().contains("used 0 + nominated 600 + requested 500, min 1k")
    );
    // ns2 borrows, so what it is promised is not its own.
    assert!(
        with(promised("ns2", 9), vec![in_namespace("ns2", "b", 501).on("n")])
            .unwrap()
            .contains("used 501 + req")
    );
}

#[test]
fn sidecars_and_resizes_count_as_on_nodes() {
    let mut nodes = world(vec![of_memory("ns1", 1000, 1000)], vec![]);
    let old = in_namespace("ns1", "old", 100).sidecar(&[("memory", "400")]).on("n");
    nodes.add_pod(&"n".into(), old.info());
    assert_eq!(refusal(&nodes, in_namespace("ns1", "p", 500)), None);
    assert!(refusal(&nodes, in_namespace("ns1", "p", 501)).is_some());
}

/// Rejects nodes without enough memory.
#[derive(Default)]
struct Room;

impl Plugin for Room {
    const NAME: &'static str = "Room";
    implemented_points!();
}

impl Filter for Room {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        if cx.pod.request().memory + node.requested().memory > node.allocatable().memory {
            return Err(Reject::evictable("Insufficient memory").into());
        }
        Ok(())
    }
}

/// A trial of preemption on nodes `n0`, `n1`, … with this much memory each.
fn trial(memory: u64, nodes: usize, quotas: Vec<Value>, pods: Vec<PodBuilder>) -> WhatIfTrial {
    let mut registry = Registry::default();
    registry.register::<Room>().register::<CapacityScheduling>();
    let profile = profile(&registry, &[("PreFilter", &["CapacityScheduling"]), ("Filter", &["Room"])]);
    let named = (0..nodes).map(|at| node(&format!("n{at}")).allocatable("32", &memory.to_string(), 110));
    let mut cluster = cluster(named, pods);
    set_custom::<ElasticQuota>(&mut cluster, quotas);
    set_custom::<QuotaGroup>(&mut cluster, []);
    WhatIfTrial::new(profile, cluster)
}

/// The node and the names of the victims, or why there are none.
fn evicted(world: &mut WhatIfTrial, pod: PodBuilder) -> Result<(String, Vec<String>), String> {
    match world.ask(&plugin(), &pod.info()).unwrap() {
        PostFiltered::Nominate { victims, node, .. } => {
            let mut names: Vec<String> = victims.iter().map(|pod| pod.name.to_string()).collect();
            names.sort();
            Ok((node.to_string(), names))
        }
        PostFiltered::NoHelp { reasons, .. } => Err(reasons.join(", ")),
        PostFiltered::Unresolvable { .. } => panic!("other plugins may help"),
    }
}

fn victims(
    memory: u64,
    quotas: Vec<Value>,
    pods: Vec<PodBuilder>,
    pod: PodBuilder,
) -> Result<Vec<String>, String> {
    evicted(&mut trial(memory, 1, quotas, pods), pod).map(|(_, names)| names)
}

fn on(namespace: &str, name: &str, memory: u64, priority: i32) -> PodBuilder {
    in_namespace(namespace, name, memory).priority(priority).on("n0")
}

#[test]
fn beyond_its_min_a_pod_takes_only_from_less_important_pods_of_its_quota() {
    let quotas = || vec![of_memory("ns1", 50, 200), of_memory("ns2", 200, 200)];
    let pods = |mid| vec![on("ns1", "mid", 50, mid), on("ns2", "a", 50, 0), on("ns2", "b", 50, 0)];
    let high = || in_namespace("ns1", "p", 50).priority(100);
    assert_eq!(victims(150, quotas(), pods(50), high()), Ok(vec!["mid".into()]));
    assert_eq!(
        victims(150, quotas(), pods(100), high()),
        Err("preemption: ElasticQuota ns1/quota is used up by pods that are at least as important".into())
    );
}

#[test]
fn within_its_min_a_pod_takes_back_what_others_borrow_and_no_more() {
    let quotas = || vec![of_memory("ns1", 150, 200), of_memory("ns2", 50, 200)];
    let pods = || vec![on("ns1", "own", 50, 0), on("ns2", "p2", 50, 100), on("ns2", "p3", 50, 50)];
    let low = |memory| in_namespace("ns1", "p", memory).priority(0);
    // Their priority does not matter, except for which of them goes.
    assert_eq!(victims(150, quotas(), pods(), low(50)), Ok(vec!["p3".into()]));
    // ns2 is guaranteed 50, and pods without a quota are not touched.
    assert!(victims(150, quotas(), pods(), low(100)).unwrap_err().contains("1 Insufficient memory"));
    let plain = vec![on("plain", "a", 50, -5), on("ns2", "p2", 50, 0)];
    assert_eq!(
        victims(100, quotas(), plain, low(100)),
        Err("preemption: no other ElasticQuota is used beyond its min".into())
    );
}

#[test]
fn a_pod_takes_back_what_it_requests_and_not_what_is_guaranteed_to_a_quota_that_has_borrowed_something_else()
{
    let of_both = |namespace, cpu: u64, memory: u64| {
        quota(namespace, json!({"cpu": cpu, "memory": memory}), json!({"cpu": 99, "memory": 9000}))
    };
    let quotas = || vec![of_both("ns1", 2, 100), of_both("ns2", 2, 100), of_both("ns3", 2, 100)];
    // ns2 has borrowed a core, and ns3 memory.
    let pods = || vec![on("ns2", "cores", 100, 0).cpu("3"), on("ns3", "memory", 200, 9).cpu("1")];
    let ask = |memory| victims(1000, quotas(), pods(), in_namespace("ns1", "p", memory));
    assert_eq!(ask(100), Ok(vec!["memory".into()]));
    let pods = || vec![on("ns2", "cores", 100, 0).cpu("3"), on("plain", "other", 900, 0)];
    let refused = victims(1000, quotas(), pods(), in_namespace("ns1", "p", 100));
    assert_eq!(refused, Err("preemption: no other ElasticQuota is used beyond its min".into()));
}

#[test]
fn what_is_borrowed_is_taken_from_pods_whose_eviction_violates_no_budget_even_if_they_are_more_important() {
    let quotas = vec![of_memory("ns1", 100, 200), of_memory("ns2", 100, 300)];
    let pods = vec![on("ns2", "covered", 100, 0).label("app", "web"), on("ns2", "free", 100, 5)];
    let mut world = trial(1000, 1, quotas, pods);
    let selector = LabelSelector { match_labels: labels(&[("app", "web")]), ..LabelSelector::default() };
    world.cluster().set_object(Object::PodDisruptionBudget(PodDisruptionBudget {
        namespace: "ns2".into(),
        name: "web".into(),
        selector: Some(selector),
        ..PodDisruptionBudget::default()
    }));
    let (_, names) = evicted(&mut world, in_namespace("ns1", "p", 100)).unwrap();
    assert_eq!(names, ["free"]);
}

#[test]
fn a_pod_without_a_quota_evicts_only_pods_without_one() {
    let quotas = || vec![of_memory("ns1", 0, 200)];
    let pods = || vec![on("ns1", "quota", 50, -9), on("plain", "low", 50, 0), on("plain", "high", 50, 9)];
    let ask = |memory| victims(150, quotas(), pods(), in_namespace("other", "p", memory).priority(5));
    assert_eq!(ask(50), Ok(vec!["low".into()]));
    assert!(ask(100).is_err());
}

#[test]
fn victims_of_other_nodes_go_if_no_node_has_enough_of_them() {
    let quotas = || vec![of_memory("ns1", 200, 200), of_memory("ns2", 100, 300)];
    let at = |name: &str, node: &str, priority| on("ns2", name, 100, priority).on(node);
    let pods = || vec![at("a", "n0", 2), at("b", "n1", 1), at("c", "n2", 3)];
    let mut roomy = trial(1000, 4, quotas(), pods());
    let (_, names) = evicted(&mut roomy, in_namespace("ns1", "p", 200)).unwrap();
    assert_eq!(names, ["a", "b"]);
    // Only n3, which none of them is on, has room.
    let mut narrow = pods();
    narrow.extend((0..3).map(|at| in_namespace("plain", &format!("f{at}"), 150).on(&format!("n{at}"))));
    let mut narrow = trial(250, 4, quotas(), narrow);
    let expected = ("n3".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(evicted(&mut narrow, in_namespace("ns1", "p", 200)), Ok(expected));
    // The same for a quota that is used up by less important pods.
    let full = vec![of_memory("ns2", 300, 300)];
    let mut own = trial(1000, 4, full, pods());
    let (_, names) = evicted(&mut own, in_namespace("ns2", "p", 200).priority(9)).unwrap();
    assert_eq!(names, ["a", "b"]);
}

/// A pod that a scheduler is evicting.
fn leaving(pod: PodBuilder) -> PodBuilder {
    pod.terminating().pod(|pod| {
        pod.status.conditions.push(PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            reason: "PreemptionByScheduler".into(),
            last_transition: Some(Timestamp::from_secs(1)),
            ..PodCondition::default()
        });
    })
}

#[test]
fn while_victims_terminate_no_others_are_evicted_for_the_same_amount() {
    let quotas = || vec![of_memory("ns1", 100, 200), of_memory("ns2", 100, 300)];
    let pods = || vec![leaving(on("ns2", "gone", 100, 0)), on("ns2", "stays", 100, 0)];
    let waits = "preemption: not eligible due to terminating pods of ElasticQuotas.";
    assert_eq!(victims(1000, quotas(), pods(), in_namespace("ns1", "p", 100)), Err(waits.into()));
    let mut more = pods();
    more.push(on("ns2", "more", 100, 1));
    assert_eq!(victims(1000, quotas(), more, in_namespace("ns1", "p", 100)), Ok(vec!["stays".into()]));
}

#[test]
fn a_pod_that_may_not_preempt_or_that_no_eviction_helps_evicts_none() {
    let quotas = || vec![of_memory("ns1", 100, 50), of_memory("ns2", 100, 300)];
    let pods = || vec![on("ns2", "b", 200, 0)];
    assert_eq!(
        victims(1000, quotas(), pods(), in_namespace("ns1", "p", 100)),
        Err("preemption: no evictions would leave enough memory of ElasticQuota ns1/quota".into())
    );
    let never = in_namespace("ns1", "p", 100).spec(|spec| spec.never_preempts = true);
    assert!(victims(1000, quotas(), pods(), never).unwrap_err().contains("preemptionPolicy=Never"));
}

#[test]
fn quotas_that_cannot_be_are_reported_and_count_as_absent() {
    let refused = |min: Value| {
        let object = quota("ns1", min, Value::Null);
        let key = CustomKey {
            resource: "elasticquotas.v1alpha1.scheduling.x-k8s.io".into(),
            namespace: "ns1".into(),
            name: "quota".into(),
        };
        let raw = RawObject::from_json(key, object.to_string());
        ResourceKind::of::<ElasticQuota>().decode(&raw).err().map(|why| why.to_string())
    };
    let absent = "ElasticQuota \"ns1/quota\" counts as absent: ";
    assert_eq!(refused(json!({"cpu": "-1"})), Some(format!("{absent}spec.min.cpu: -1 is negative")));
    for wrong in [json!({"cpu": "NaN"}), json!({"cpu": []}), json!({"cpu": {}}), json!([]), json!("1")] {
        let error = refused(wrong.clone()).unwrap_or_else(|| panic!("{wrong}"));
        assert!(error.starts_with(absent) && error.contains("spec.min"), "{error}");
    }
    for odd in [
        json!({"cpu": "1e400"}),
        json!({"memory": "9E"}),
        json!({"cpu": "1E"}),
        json!({"pods": 3}),
        json!({}),
    ] {
        assert_eq!(refused(odd), None);
    }
    // An absurd guarantee is only a large one.
    let quotas = vec![quota("ns1", json!({"cpu": "1e400"}), json!({"cpu": "1e400"})), of_memory("ns2", 1, 1)];
    assert_eq!(refusal(&world(quotas, vec![]), in_namespace("ns1", "p", 0).cpu("9000000")), None);
}

#[test]
fn two_quotas_in_a_namespace_and_a_min_above_the_max_contradict_each_other() {
    let mut second = of_memory("ns1", 500, 100);
    second["metadata"]["name"] = json!("a-quota");
    let nodes = world(vec![of_memory("ns1", 1, 1), second], vec![]);
    let indexes = Trial::of(plugin()).indexes(&nodes, &pod("p").info());
    let found: Vec<_> = indexes.contradictions().map(|found| found.subject.clone()).collect();
    assert_eq!(found, ["ns1/a-quota", "ElasticQuota ns1/a-quota: memory: min 500, max 100"]);
    assert!(refusal(&nodes, in_namespace("ns1", "p", 101)).unwrap().contains("ns1/a-quota is more than Max"));
}

#[test]
fn the_index_follows_all_changes() {
    for seed in 0..20 {
        index_equals_rebuilt_one::<Ledger>(
            seed,
            |dice, name| dice.node(name),
            |dice, name| {
                let pod = in_namespace(dice.pick(&["ns1", "ns2"]), name, dice.below(3) * 100);
                let pod = pod.priority(dice.pick(&[0, 5]));
                if dice.one_in(3) { leaving(pod) } else { pod }
            },
        );
    }
}

#[test]
fn whatever_makes_room_in_quotas_wakes() {
    let quotas = vec![of_memory("ns1", 100, 200), of_memory("ns2", 100, 300)];
    let pods = || vec![in_namespace("ns2", "b", 200).on("n"), in_namespace("plain", "c", 1).on("n")];
    let mut nodes = world(quotas.clone(), pods());
    let waiting = || in_namespace("ns1", "p", 100).info();
    let helps = |nodes: &mut Cluster, happenings: Vec<Happening>| {
        what_helps_wakes(&Trial::of(plugin()), nodes, &waiting(), happenings)
    };
    assert_eq!(helps(&mut nodes, vec![Happening::PodGone("n".into(), "ns2-b".into())]), 1);
    let with = |object: Value| Happening::custom::<ElasticQuota>(&object);
    for (happening, helped) in [
        (with(of_memory("ns1", 150, 200)), 0),
        (with(of_memory("ns1", 200, 200)), 1),
        (with(of_memory("ns3", 100, 200)), 1),
        (Happening::custom_gone::<ElasticQuota>("ns2", "quota"), 1),
        (Happening::custom_gone::<ElasticQuota>("ns1", "quota"), 1),
        (Happening::Pod(Box::new(in_namespace("ns2", "b", 100).on("n").build())), 1),
    ] {
        let mut nodes = world(quotas.clone(), pods());
        assert_eq!(helps(&mut nodes, vec![happening]), helped);
    }
}

#[test]
fn pods_without_a_quota_and_statuses_wake_no_pod() {
    let nodes = world(vec![of_memory("ns1", 1, 1)], vec![]);
    let trial = Trial::of(plugin());
    let waiting = in_namespace("ns1", "p", 100).info();
    let gone = |namespace: &str| {
        let pod = in_namespace(namespace, "b", 1).build();
        let change = Change::Pod { old: Some(&pod), new: None };
        let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
        trial.hint_with_objects(nodes.objects(), event, &waiting, &change)
    };
    assert_eq!((gone("plain"), gone("ns1")), (Some(Hint::Skip), Some(Hint::Queue)));
    let old = custom::<ElasticQuota>(&of_memory("ns1", 1, 1));
    let mut object = of_memory("ns1", 1, 1);
    object["status"] = json!({"used": {"memory": "1"}});
    let new = custom::<ElasticQuota>(&object);
    assert_eq!(trial.custom_hint(&waiting, Some(&old), Some(&new)), Some(Hint::Skip));
}

#[test]
fn the_type_fits_the_definition() {
    // The check takes any string for an integer or string, and not every string is a quantity.
    let definition = include_str!("../deploy/crd.yaml");
    let definition = definition.replace("anyOf: [{type: integer}, {type: string}]", "type: integer");
    let definition = definition.replace("x-kubernetes-int-or-string: true", "minimum: 0");
    let definition: Value = serde_saphyr::from_str(&definition).unwrap();
    resource_fits_definition::<ElasticQuota>(&definition);
}

#[test]
fn pods_that_ran_before_their_quota_count_and_quotas_may_vanish() {
    let mut trial = trial(1000, 1, vec![], vec![on("ns1", "old", 300, 0)]);
    // The first attempt builds the index.
    assert!(trial.fits(&in_namespace("ns1", "p", 100).info()));
    let nodes = trial.cluster();
    let used = |nodes: &Cluster| nodes.indexes().get::<Ledger>().unwrap().used(WHOLE).get("memory");
    assert_eq!(used(nodes), 0);
    set_custom::<ElasticQuota>(nodes, [of_memory("ns1", 100, 400)]);
    assert_eq!(used(nodes), 300);
    let pod = in_namespace("ns1", "new", 50).info();
    nodes.add_pod(&"n0".into(), pod.clone());
    assert_eq!(used(nodes), 350);
    remove_custom::<ElasticQuota>(nodes, "ns1", "quota");
    assert_eq!(used(nodes), 0);
    nodes.remove_pod("n0", &pod.uid);
    set_custom::<ElasticQuota>(nodes, [of_memory("ns1", 100, 400)]);
    assert_eq!(used(nodes), 300);
}

#[test]
fn it_passes_the_conformance_checks() {
    let namespaces = ["default", "ns1", "ns2"];
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let mut nodes = dice.cluster(6);
        let quotas =
            namespaces.map(|namespace| of_memory(namespace, dice.below(9) << 30, dice.below(20) << 30));
        set_custom::<ElasticQuota>(&mut nodes, quotas);
        set_custom::<QuotaGroup>(&mut nodes, [groups::group("g", 1 << 30, 9 << 30, &namespaces[1..])]);
        let mut any = |name| {
            let namespace = dice.pick(&namespaces);
            dice.pod(name).namespace(namespace).info()
        };
        let (pod, meanwhile) = (any("p"), any("meanwhile"));
        let trial = Trial::of(plugin());
        answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
        batch_equals_single(&trial, &nodes, &pod);
    }
}
