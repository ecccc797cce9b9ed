//! Random histories of a small cluster, checked against a ledger that adds up all pods each time.
//!
//! `HISTORIES=10000` sets their number.

use std::{collections::BTreeMap, sync::Arc};

use capacity_scheduling::{CapacityScheduling, ElasticQuota};
use harbormaster::{
    Registry,
    api::pod::PodCondition,
    prelude::*,
    serde_json::{Value, json},
    testkit::{
        PodBuilder, WhatIfTrial, cluster, node, pod, profile, random::Dice, remove_custom, set_custom,
    },
};

const NAMES: [&str; 3] = ["cpu", "memory", "a/gpu"];
const NAMESPACES: [&str; 4] = ["a", "b", "c", "plain"];
const NODES: [[i64; 3]; 3] = [[4, 8, 2], [6, 6, 0], [8, 4, 4]];

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

type Amounts = [i64; 3];

#[derive(Clone, Debug)]
struct Quota {
    min: [Option<i64>; 3],
    max: [Option<i64>; 3],
}

#[derive(Clone, Debug)]
struct Known {
    namespace: &'static str,
    priority: i32,
    asks: Amounts,
    node: usize,
}

/// The naive ledger.
#[derive(Clone, Debug, Default)]
struct Books {
    quotas: BTreeMap<&'static str, Quota>,
    pods: BTreeMap<String, Known>,
}

impl Books {
    fn used_by(&self, counts: impl Fn(&Known) -> bool, at: usize) -> i64 {
        self.pods.values().filter(|pod| counts(pod)).map(|pod| pod.asks[at]).sum()
    }

    fn used(&self, namespace: &str, at: usize) -> i64 {
        self.used_by(|pod| pod.namespace == namespace, at)
    }

    fn guaranteed(&self, at: usize) -> Option<i64> {
        self.quotas.values().filter_map(|quota| quota.min[at]).reduce(|a, b| a + b)
    }

    fn borrows(&self, namespace: &str) -> bool {
        let Some(quota) = self.quotas.get(namespace) else { return false };
        (0..3).any(|at| {
            self.guaranteed(at).is_some() && self.used(namespace, at) > quota.min[at].unwrap_or_default()
        })
    }

    /// Returns true if the quotas admit the pod.
    fn admits(&self, pod: &Known) -> bool {
        let Some(quota) = self.quotas.get(pod.namespace) else { return true };
        (0..3).filter(|at| pod.asks[*at] > 0).all(|at| {
            let all = self.used_by(|pod| self.quotas.contains_key(pod.namespace), at);
            quota.max[at].is_none_or(|max| self.used(pod.namespace, at) + pod.asks[at] <= max)
                && self.guaranteed(at).is_none_or(|sum| all + pod.asks[at] <= sum)
        })
    }

    fn has_room(&self, pod: &Known, node: usize) -> bool {
        (0..3).all(|at| self.used_by(|pod| pod.node == node, at) + pod.asks[at] <= NODES[node][at])
    }

    /// Returns true if the pod would use no more than its quota guarantees, nor more than its max.
    fn is_entitled(&self, pod: &Known) -> bool {
        let Some(quota) = self.quotas.get(pod.namespace) else { return false };
        (0..3).filter(|at| pod.asks[*at] > 0).all(|at| {
            let used = self.used(pod.namespace, at) + pod.asks[at];
            quota.max[at].is_none_or(|max| used <= max)
                && (self.guaranteed(at).is_none() || used <= quota.min[at].unwrap_or_default())
        })
    }

    fn without(&self, names: &[String]) -> Self {
        let mut rest = self.clone();
        rest.pods.retain(|name, _| !names.contains(name));
        rest
    }

    /// Checks that the pod may evict these pods for the node, and needs to.
    fn check(&self, pod: &Known, node: usize, victims: &[String]) {
        let after = self.without(victims);
        assert!(
            !victims.is_empty() && after.admits(pod) && after.has_room(pod, node),
            "in vain: {victims:?}"
        );
        for victim in victims {
            let others: Vec<String> = victims.iter().filter(|name| *name != victim).cloned().collect();
            let back = self.without(&others);
            assert!(!(back.admits(pod) && back.has_room(pod, node)), "{victim} is evicted in vain");
        }
        let entitled = self.quotas.contains_key(pod.namespace) && !self.would_borrow(pod);
        for victim in victims.iter().map(|name| &self.pods[name]) {
            let has_quota = self.quotas.contains_key(victim.namespace);
            if entitled {
                assert!(has_quota && victim.namespace != pod.namespace, "{victim:?}");
                let returns = |name: &&String| self.pods[*name].namespace == victim.namespace;
                let was_over = victims.iter().filter(returns).any(|name| {
                    let others: Vec<String> =
                        victims.iter().filter(|other| *other != name).cloned().collect();
                    self.without(&others).borrows(victim.namespace)
                });
                assert!(was_over, "{} loses what it is guaranteed", victim.namespace);
            } else {
                let is_own = victim.namespace == pod.namespace || !self.quotas.contains_key(pod.namespace);
                assert!(victim.priority < pod.priority && is_own, "{victim:?}");
                assert_eq!(has_quota, self.quotas.contains_key(pod.namespace), "{victim:?}");
            }
        }
    }

    fn would_borrow(&self, pod: &Known) -> bool {
        let quota = &self.quotas[pod.namespace];
        (0..3).filter(|at| pod.asks[*at] > 0).any(|at| {
            let used = self.used(pod.namespace, at) + pod.asks[at];
            self.guaranteed(at).is_some() && used > quota.min[at].unwrap_or_default()
        })
    }
}

/// Numbers of what happened, so that a test can tell that it tested something.
#[derive(Debug, Default)]
struct Counts {
    placed: usize,
    refused: usize,
    nominated: usize,
    across_nodes: usize,
    reclaimed: usize,
}

struct History {
    dice: Dice,
    trial: WhatIfTrial,
    plugin: CapacityScheduling,
    books: Books,
    counts: Counts,
}

fn amounts(of: &[Option<i64>; 3]) -> Value {
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
        Self {
            dice: Dice::new(seed),
            trial: WhatIfTrial::new(profile, cluster),
            plugin: CapacityScheduling::build(NoArgs, &BuildCycle::default()).unwrap(),
            books: Books::default(),
            counts: Counts::default(),
        }
    }

    fn limits(&mut self) -> [Option<i64>; 3] {
        [0; 3].map(|_| (!self.dice.one_in(4)).then(|| self.dice.below(9) as i64))
    }

    fn change_quota(&mut self) {
        let namespace = self.dice.pick(&NAMESPACES[..3]);
        if self.dice.one_in(5) {
            self.books.quotas.remove(namespace);
            remove_custom::<ElasticQuota>(self.trial.cluster(), namespace, "q");
            return;
        }
        let quota = Quota { min: self.limits(), max: self.limits() };
        let spec = json!({"min": amounts(&quota.min), "max": amounts(&quota.max)});
        let object = json!({"metadata": {"name": "q", "namespace": namespace}, "spec": spec});
        set_custom::<ElasticQuota>(self.trial.cluster(), [object]);
        self.books.quotas.insert(namespace, quota);
    }

    fn remove(&mut self, name: &str) {
        if let Some(pod) = self.books.pods.remove(name) {
            assert!(self.trial.cluster().remove_pod(&format!("n{}", pod.node), name));
        }
    }

    fn build(name: &str, pod_: &Known) -> PodBuilder {
        let [cpu, memory, gpus] = pod_.asks.map(|amount| amount.to_string());
        let pod = pod(name).uid(name).namespace(pod_.namespace).priority(pod_.priority);
        pod.cpu(&cpu).memory(&memory).request(NAMES[2], &gpus)
    }

    fn new_pod(&mut self, name: &str) {
        let asks = [0; 3].map(|_| self.dice.below(4) as i64);
        let (namespace, priority) = (self.dice.pick(&NAMESPACES), self.dice.pick(&[0, 1, 2]));
        let mut known = Known { namespace, priority, asks, node: 0 };
        let pod = Self::build(name, &known).info();
        let room = (0..NODES.len()).find(|node| self.books.has_room(&known, *node));
        let fits = self.trial.fits(&pod);
        assert_eq!(fits, room.is_some() && self.books.admits(&known), "{name}: {known:?} {:?}", self.books);
        if let (true, Some(node)) = (fits, room) {
            self.counts.placed += 1;
            known.node = node;
            self.place(name, known);
            return;
        }
        self.counts.refused += 1;
        let Some((node, victims)) = self.ask(&pod) else {
            let is_owed = self.books.is_entitled(&known) && room.is_some();
            assert!(!is_owed, "{name} gets less than it is guaranteed: {known:?} {:?}", self.books);
            return;
        };
        self.books.check(&known, node, &victims);
        self.counts.nominated += 1;
        self.counts.reclaimed += usize::from(self.books.is_entitled(&known));
        self.counts.across_nodes +=
            usize::from(victims.iter().any(|name| self.books.pods[name].node != node));
        if self.dice.one_in(3) {
            self.wait_for(name, &known, node, &victims);
        }
        victims.iter().for_each(|victim| self.remove(victim));
        assert!(self.trial.fits(&pod), "{name} is refused after evictions");
        known.node = node;
        self.place(name, known);
    }

    fn place(&mut self, name: &str, known: Known) {
        let node = format!("n{}", known.node);
        let pod: Arc<PodInfo> = Self::build(name, &known).on(&node).info();
        self.trial.cluster().add_pod(&node.as_str().into(), pod);
        self.books.pods.insert(name.to_owned(), known);
    }

    /// Returns the node and the victims, if evictions help the pod.
    fn ask(&mut self, pod: &Arc<PodInfo>) -> Option<(usize, Vec<String>)> {
        match self.trial.ask(&self.plugin, pod).unwrap() {
            PostFiltered::Nominate { node, victims, .. } => {
                let node = node[1..].parse().unwrap();
                Some((node, victims.iter().map(|pod| pod.name.to_string()).collect()))
            }
            _ => None,
        }
    }

    /// While the victims terminate, the nominated pod must evict no others.
    fn wait_for(&mut self, name: &str, known: &Known, node: usize, victims: &[String]) {
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
        let again = Self::build(name, known).nominated_to(&format!("n{node}")).info();
        assert!(!self.trial.fits(&again));
        assert_eq!(self.ask(&again), None, "{name} evicts more pods while {victims:?} terminate");
    }

    fn step(&mut self, number: usize) {
        match self.dice.below(10) {
            0 | 1 => self.change_quota(),
            2 => {
                let names: Vec<String> = self.books.pods.keys().cloned().collect();
                if !names.is_empty() {
                    let at = self.dice.below(names.len() as u64) as usize;
                    self.remove(&names[at]);
                }
            }
            _ => self.new_pod(&format!("p{number}")),
        }
    }
}

#[test]
fn quotas_hold_guarantees_are_kept_and_no_pod_is_evicted_in_vain() {
    let histories = std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let mut all = Counts::default();
    for seed in 0..histories {
        let mut history = History::new(seed);
        (0..3).for_each(|_| history.change_quota());
        for number in 0..30 {
            history.step(number);
        }
        let Counts { placed, refused, nominated, across_nodes, reclaimed } = history.counts;
        all.placed += placed;
        all.refused += refused;
        all.nominated += nominated;
        all.across_nodes += across_nodes;
        all.reclaimed += reclaimed;
    }
    println!("{all:?}");
    let rare = all.placed.min(all.refused).min(all.nominated).min(all.reclaimed).min(all.across_nodes);
    assert!(rare * 20 > histories as usize, "{all:?}");
}
