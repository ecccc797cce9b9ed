//! Random histories of a small cluster, with trees of quotas, checked against a naive ledger ([`Books`]).
//!
//! `HISTORIES=10000` sets their number, and `FIRST` the first seed.

mod gangs;

use std::{collections::BTreeMap, sync::Arc};

use capacity_scheduling::{CapacityScheduling, ElasticQuota, QuotaGroup};
use harbormaster::{
    Registry,
    api::{Object, PodDisruptionBudget, pod::PodCondition, selector::LabelSelector},
    prelude::*,
    serde_json::{Value, json},
    testkit::{
        PodBuilder, WhatIfTrial, cluster, labels, node, pod, profile, random::Dice, remove_custom, set_custom,
    },
};

use crate::books::{Books, Group, Known, Limits, NODES, Quota};

const NAMES: [&str; 3] = ["cpu", "memory", "a/gpu"];
/// The last one is in no group and has no quota.
const NAMESPACES: [&str; 5] = ["a", "b", "c", "d", "plain"];
const GROUPS: [&str; 4] = ["g0", "g1", "g2", "g3"];
/// Values of the label by which budgets select pods.
const APPS: [&str; 2] = ["web", "batch"];

/// Rejects nodes without enough of a resource.
#[derive(Default)]
struct Room;

impl Plugin for Room {
    const NAME: &'static str = "Room";
    implemented_points!();
}

impl Filter for Room {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let (asked, used, has) = (cx.pod.request(), node.requested(), node.allocatable());
        let is_short = asked.milli_cpu + used.milli_cpu > has.milli_cpu
            || asked.memory + used.memory > has.memory
            || asked.scalar(NAMES[2]) + used.scalar(NAMES[2]) > has.scalar(NAMES[2]);
        if is_short { Err(Reject::evictable("Insufficient room").into()) } else { Ok(()) }
    }
}

/// Numbers of what happened, so that a test can tell that it tested something.
type Counts = BTreeMap<&'static str, usize>;

/// All that must happen: pods are placed or refused; pods take the place of others, of several nodes or not; they get
/// what is owed to them, also on a level above their quota; they take from quotas that have borrowed more for their
/// weights; evictions violate budgets; all of this happens with gangs, too, of which some get more members at once than
/// they need.
const ALL: [&str; 14] = [
    "placed",
    "refused",
    "nominated",
    "across nodes",
    "reclaimed",
    "reclaimed above",
    "shared",
    "violations",
    "gangs placed",
    "gangs refused",
    "gangs nominated",
    "gangs reclaimed",
    "more than needed",
    "gangs evicted",
];

struct History {
    dice: Dice,
    trial: WhatIfTrial,
    plugin: CapacityScheduling,
    books: Books,
    counts: Counts,
    has_groups: bool,
    /// Minimum and priority of each gang.
    gangs: BTreeMap<&'static str, (usize, i32)>,
}

fn amounts(of: &Limits) -> Value {
    let listed =
        NAMES.iter().zip(of).filter_map(|(name, amount)| Some(((*name).to_owned(), json!((*amount)?))));
    Value::Object(listed.collect())
}

impl History {
    fn new(seed: u64) -> Self {
        let mut registry = Registry::default();
        registry.register::<Room>().register::<CapacityScheduling>();
        let profile = profile(&registry, &[("PreFilter", &["CapacityScheduling"]), ("Filter", &["Room"])]);
        let nodes = NODES.iter().enumerate().map(|(at, [cpu, memory, gpus])| {
            let node = node(&format!("n{at}")).allocatable(&cpu.to_string(), &memory.to_string(), 110);
            node.offers(NAMES[2], &gpus.to_string())
        });
        let mut cluster = cluster(nodes, []);
        set_custom::<ElasticQuota>(&mut cluster, []);
        set_custom::<QuotaGroup>(&mut cluster, []);
        let mut history = Self {
            dice: Dice::new(seed),
            trial: WhatIfTrial::new(profile, cluster),
            plugin: CapacityScheduling::build(NoArgs, &BuildCycle::default()).unwrap(),
            books: Books::default(),
            counts: Counts::default(),
            has_groups: !seed.is_multiple_of(5),
            gangs: BTreeMap::new(),
        };
        (0..3).for_each(|_| history.change_quota());
        if history.has_groups {
            (0..3).for_each(|_| history.change_group());
        }
        (0..2).for_each(|_| history.change_budget());
        history
    }

    /// Returns guarantees below `end`, and a max that is usually not less.
    fn limits(&mut self, end: u64) -> (Limits, Limits) {
        let min = [0; 3].map(|_| (!self.dice.one_in(5)).then(|| self.dice.below(end) as i64));
        let max = min.map(|min| {
            let least = if self.dice.one_in(6) { 0 } else { min.unwrap_or_default() };
            (!self.dice.one_in(3)).then(|| least + self.dice.below(8) as i64)
        });
        (min, max)
    }

    fn change_quota(&mut self) {
        let namespace = self.dice.pick(&NAMESPACES[..4]);
        if self.dice.one_in(5) {
            self.books.quotas.remove(namespace);
            remove_custom::<ElasticQuota>(self.trial.cluster(), namespace, "q");
            return;
        }
        let (min, max) = self.limits(4);
        let quota = Quota { min, max };
        let spec = json!({"min": amounts(&quota.min), "max": amounts(&quota.max)});
        let object = json!({"metadata": {"name": "q", "namespace": namespace}, "spec": spec});
        set_custom::<ElasticQuota>(self.trial.cluster(), [object]);
        self.books.quotas.insert(namespace, quota);
    }

    fn weight(&mut self) -> Option<i64> {
        (!self.dice.one_in(6)).then(|| 1 + self.dice.below(3) as i64)
    }

    /// Creates, replaces or deletes a group. Its parent may be missing or below it, and others may list its namespaces.
    fn change_group(&mut self) {
        let name = self.dice.pick(&GROUPS);
        if self.dice.one_in(5) {
            self.books.groups.remove(name);
            remove_custom::<QuotaGroup>(self.trial.cluster(), "", name);
            return;
        }
        let parent = (!self.dice.one_in(3)).then(|| self.dice.pick(&["g0", "g1", "g2", "g3", "gone"]));
        let ((min, max), weight) = (self.limits(7), self.weight());
        let all: Vec<_> = NAMESPACES[..4].iter().map(|name| (*name, self.weight())).collect();
        let namespaces: Vec<_> = all.into_iter().filter(|_| self.dice.one_in(2)).collect();
        let members: Vec<Value> =
            namespaces.iter().map(|(name, weight)| json!({"name": name, "weight": weight})).collect();
        let spec = json!({
            "parent": parent, "min": amounts(&min), "max": amounts(&max), "weight": weight, "namespaces": members,
        });
        set_custom::<QuotaGroup>(self.trial.cluster(), [json!({"metadata": {"name": name}, "spec": spec})]);
        self.books.groups.insert(name, Group { parent, min, max, weight, namespaces });
    }

    fn change_budget(&mut self) {
        let (namespace, app) = (self.dice.pick(&NAMESPACES), self.dice.pick(&APPS));
        let allowed = self.dice.below(3);
        let selector = LabelSelector { match_labels: labels(&[("app", app)]), ..LabelSelector::default() };
        let budget = PodDisruptionBudget {
            namespace: namespace.into(),
            name: app.into(),
            selector: Some(selector),
            disruptions_allowed: allowed as i32,
            ..PodDisruptionBudget::default()
        };
        self.trial.cluster().set_object(Object::PodDisruptionBudget(budget));
        self.books.budgets.insert((namespace, app), allowed as i64);
    }

    fn remove(&mut self, name: &str) {
        if let Some(pod) = self.books.pods.remove(name) {
            assert!(self.trial.cluster().remove_pod(&format!("n{}", pod.node), name));
        }
    }

    fn build(name: &str, pod_: &Known) -> PodBuilder {
        let [cpu, memory, gpus] = pod_.asks.map(|amount| amount.to_string());
        let pod =
            pod(name).uid(name).namespace(pod_.namespace).priority(pod_.priority).label("app", pod_.app);
        let pod = pod.cpu(&cpu).memory(&memory).request(NAMES[2], &gpus);
        match pod_.gang {
            Some(gang) => pod.member_of(gang),
            None => pod,
        }
    }

    fn new_pod(&mut self, name: &str) {
        let asks = [0; 3].map(|_| self.dice.pick(&[0, 0, 0, 1, 1, 2, 3]));
        let (namespace, priority) = (self.dice.pick(&NAMESPACES), self.dice.pick(&[0, 1, 2]));
        let mut known = Known { namespace, priority, asks, app: self.dice.pick(&APPS), gang: None, node: 0 };
        let pod = Self::build(name, &known).info();
        let room = (0..NODES.len()).find(|node| self.books.has_room(&known, *node));
        let fits = self.trial.fits(&pod);
        let expected = room.is_some() && self.books.admits(&known);
        assert_eq!(fits, expected, "{name}: {known:?} {:#?}", self.books);
        if let (true, Some(node)) = (fits, room) {
            self.count("placed", true);
            known.node = node;
            self.place(name, known);
            return;
        }
        self.count("refused", true);
        let is_owed = room.is_some() && self.books.is_owed(&known);
        let Some((node, victims, violations)) = self.ask(&pod) else {
            assert!(!is_owed, "{name} gets less than it is guaranteed: {known:?} {:#?}", self.books);
            return;
        };
        known.node = node;
        self.books.check(&known, std::slice::from_ref(&known), &victims);
        let (least, most) = (self.books.violations(&victims), self.books.covered(&victims));
        assert!((least..=most).contains(&violations), "{violations}: {victims:?} {:#?}", self.books);
        self.note(&known, node, &victims, is_owed);
        self.count("violations", violations > 0);
        self.count("gangs evicted", victims.iter().any(|name| self.books.pods[name].gang.is_some()));
        if self.dice.one_in(3) {
            self.wait_for(name, &known, node, &victims);
        }
        victims.iter().for_each(|victim| self.remove(victim));
        assert!(self.trial.fits(&pod), "{name} is refused after evictions");
        self.place(name, known);
    }

    fn count(&mut self, what: &'static str, happened: bool) {
        *self.counts.entry(what).or_default() += usize::from(happened);
    }

    fn note(&mut self, pod: &Known, node: usize, victims: &[String], is_owed: bool) {
        let books = &self.books;
        let any = |holds: &dyn Fn(&Known) -> bool| victims.iter().any(|name| holds(&books.pods[name]));
        let is_across = any(&|victim| victim.node != node);
        let is_shared = any(&|victim| books.is_fair(pod, victim));
        let is_above = any(&|victim| books.meeting(pod, victim).is_some_and(|(level, _)| level > 0));
        self.count("nominated", true);
        self.count("across nodes", is_across);
        self.count("shared", is_shared);
        self.count("reclaimed", is_owed);
        self.count("reclaimed above", is_owed && is_above);
    }

    fn place(&mut self, name: &str, known: Known) {
        let node = format!("n{}", known.node);
        let pod: Arc<PodInfo> = Self::build(name, &known).on(&node).info();
        self.trial.cluster().add_pod(&node.as_str().into(), pod);
        self.books.pods.insert(name.to_owned(), known);
    }

    /// Returns the node, the victims, and how many of them violate budgets, if evictions help the pod.
    fn ask(&mut self, pod: &Arc<PodInfo>) -> Option<(usize, Vec<String>, usize)> {
        match self.trial.ask(&self.plugin, pod).unwrap() {
            PostFiltered::Nominate { node, victims, violations, .. } => {
                let node = node[1..].parse().unwrap();
                Some((node, victims.iter().map(|pod| pod.name.to_string()).collect(), violations))
            }
            _ => None,
        }
    }

    /// While the victims terminate, the nominated pod must evict no others.
    fn wait_for(&mut self, name: &str, known: &Known, node: usize, victims: &[String]) {
        self.let_terminate(victims);
        let again = Self::build(name, known).nominated_to(&format!("n{node}")).info();
        assert!(!self.trial.fits(&again));
        assert_eq!(self.ask(&again), None, "{name} evicts more pods while {victims:?} terminate");
    }

    fn let_terminate(&mut self, victims: &[String]) {
        for victim in victims {
            let pod = self.books.pods[victim].clone();
            let on = format!("n{}", pod.node);
            let leaving = Self::build(victim, &pod).on(&on).terminating().pod(|pod| {
                pod.status.conditions.push(PodCondition {
                    type_: "DisruptionTarget".into(),
                    status: "True".into(),
                    reason: "PreemptionByScheduler".into(),
                    ..PodCondition::default()
                });
            });
            assert!(self.trial.cluster().replace_pod(&on, &leaving.info()));
        }
    }

    fn step(&mut self, number: usize) {
        match self.dice.below(15) {
            0 => self.change_quota(),
            1 if self.has_groups => self.change_group(),
            1 => self.change_quota(),
            2 => self.change_budget(),
            3 => {
                let names: Vec<String> = self.books.pods.keys().cloned().collect();
                if !names.is_empty() {
                    let at = self.dice.below(names.len() as u64) as usize;
                    self.remove(&names[at]);
                }
            }
            4..=6 => self.new_members(&format!("m{number}")),
            _ => self.new_pod(&format!("p{number}")),
        }
    }
}

#[test]
fn quotas_hold_guarantees_are_kept_and_no_pod_is_evicted_in_vain() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, histories) = (number("FIRST").unwrap_or(0), number("HISTORIES").unwrap_or(500));
    let mut all = Counts::default();
    for seed in first..first + histories {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut history = History::new(seed);
            (0..30).for_each(|number| history.step(number));
            history.counts
        });
        let counts = std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("the history of seed {seed}"));
        counts.into_iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
    }
    println!("{all:?}");
    let rare: Vec<_> =
        ALL.iter().filter(|what| all.get(*what).unwrap_or(&0) * 100 < histories as usize).collect();
    assert!(rare.is_empty(), "{rare:?} in {all:?}");
}
