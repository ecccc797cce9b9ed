//! Random histories of two nodes with kubelets, agents and an API server whose news come late: no NUMA node is
//! over-committed by a decision, and no pod is evicted in vain.
//!
//! `HISTORIES=10000` sets their number.

use std::collections::{BTreeMap, VecDeque};

use harbormaster::{
    Registry,
    api::{Timestamp, pod::PodCondition},
    preemption::{DefaultPreemption, DefaultPreemptionArgs},
    testkit::{WhatIfTrial, profile_with_args},
};

use super::*;

/// CPUs of the NUMA nodes of each node.
const NODES: [&[i64]; 2] = [&[4, 6], &[5, 3, 4]];
const NAMES: [&str; 2] = ["n0", "n1"];
const BEGIN: i64 = 1_800_000_000;
/// An agent writes what it has seen within this many seconds.
const WRITES_WITHIN: u64 = 59;

/// A pod with a node.
#[derive(Clone, Debug)]
struct Placed {
    node: usize,
    /// CPUs of each container.
    cpus: Vec<i64>,
    priority: i32,
    /// Time at which it was bound, as soon as it is.
    bound: Option<i64>,
    /// NUMA node of each container, as soon as the kubelet has chosen them.
    zones: Option<Vec<usize>>,
    /// Time at which it has chosen them.
    started: i64,
    /// True if the scheduler knows that it runs.
    runs: bool,
    /// True if the kubelet has ended it. The scheduler does not know.
    over: bool,
}

/// State of a node as an agent has seen it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    names: Vec<String>,
    free: Vec<i64>,
    /// NUMA nodes by hash of the container.
    places: BTreeMap<u64, usize>,
}

#[derive(Debug, Default)]
struct Agent {
    /// State that it has seen and not written yet.
    seen: Option<(i64, Seen)>,
    last: Option<Seen>,
    /// Topologies that it has written and the scheduler has not got yet.
    on_the_way: VecDeque<Value>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    placed: usize,
    refused: usize,
    /// Pods placed while the topology lacked pods of the node.
    beside_unknown: usize,
    evictions: usize,
}

struct History {
    dice: Dice,
    world: WhatIfTrial,
    trial: Trial,
    preemption: DefaultPreemption,
    now: i64,
    is_pod_scope: [bool; 2],
    tells_places: bool,
    pods: BTreeMap<String, Placed>,
    agents: [Agent; 2],
    counts: Counts,
}

impl History {
    fn new(seed: u64) -> Self {
        let args = json!({"preemptionMode": "Enabled", "cacheResyncPeriodSeconds": 5, "discardReservedNodes": seed.is_multiple_of(2)});
        let mut registry = Registry::default();
        registry.register::<NodeResourceTopologyMatch>();
        let name = NodeResourceTopologyMatch::NAME;
        let profile = profile_with_args(&registry, &[("Filter", &[name])], &[(name, args.clone())]);
        let mut dice = Dice::new(seed);
        let mut nodes = cluster(NAMES.map(large), []);
        set_custom::<NodeResourceTopology>(&mut nodes, []);
        let is_pod_scope = [dice.one_in(2), dice.one_in(2)];
        let tells_places = !dice.one_in(4);
        let mut history = Self {
            dice,
            world: WhatIfTrial::new(profile, nodes),
            trial: Trial::of(built(args).unwrap()),
            preemption: DefaultPreemption::build(DefaultPreemptionArgs::default(), &BuildCycle::default())
                .unwrap(),
            now: BEGIN,
            is_pod_scope,
            tells_places,
            pods: BTreeMap::new(),
            agents: Default::default(),
            counts: Counts::default(),
        };
        (0..2).for_each(|node| history.refresh(node));
        history
    }

    // --- kubelets ---

    /// CPUs that no container has.
    fn free(&self, node: usize) -> Vec<i64> {
        let mut free = NODES[node].to_vec();
        for pod in self.pods.values().filter(|pod| pod.node == node && !pod.over) {
            for (zone, cpus) in pod.zones.iter().flatten().zip(&pod.cpus) {
                free[*zone] -= cpus;
            }
        }
        free
    }

    /// NUMA nodes that the kubelet gives to the containers; `None` if it refuses the pod.
    fn zones(&self, node: usize, cpus: &[i64]) -> Option<Vec<usize>> {
        let mut free = self.free(node);
        if self.is_pod_scope[node] {
            let sum = cpus.iter().sum();
            return Some(vec![free.iter().position(|free| *free >= sum)?; cpus.len()]);
        }
        let mut chosen = Vec::new();
        for cpus in cpus {
            let zone = free.iter().position(|free| free >= cpus)?;
            free[zone] -= cpus;
            chosen.push(zone);
        }
        Some(chosen)
    }

    fn start(&mut self, name: &str) {
        let pod = &self.pods[name];
        let Some(zones) = self.zones(pod.node, &pod.cpus) else {
            panic!("the kubelet refuses {name}: {:?}, {:?}", self.free(pod.node), self.pods);
        };
        let pod = self.pods.get_mut(name).unwrap();
        (pod.zones, pod.started) = (Some(zones), self.now);
    }

    // --- agents ---

    fn look(&mut self, node: usize) {
        let seen = |pod: &Placed| pod.node == node && pod.zones.is_some() && !pod.over;
        let here: Vec<(&String, &Placed)> = self.pods.iter().filter(|(_, pod)| seen(pod)).collect();
        let mut places = BTreeMap::new();
        for (name, pod) in &here {
            for (at, zone) in pod.zones.iter().flatten().enumerate() {
                places.insert(placement::id("default", name, &format!("c{at}")), *zone);
            }
        }
        let names = here.iter().map(|(name, _)| (*name).clone()).collect();
        self.agents[node].seen = Some((self.now, Seen { names, free: self.free(node), places }));
    }

    fn write(&mut self, node: usize) {
        let Some((since, seen)) = self.agents[node].seen.take() else { return };
        // An update that changes nothing leaves the object as it is.
        if self.agents[node].last.as_ref() == Some(&seen) {
            return;
        }
        let latest = (self.now - since).min(WRITES_WITHIN as i64);
        let object = self.topology(node, &seen, since + latest);
        self.agents[node].last = Some(seen);
        self.agents[node].on_the_way.push_back(object);
    }

    fn topology(&self, node: usize, seen: &Seen, written: i64) -> Value {
        let amounts: Vec<String> = seen.free.iter().map(ToString::to_string).collect();
        let zones: Vec<[(&str, &str); 2]> =
            amounts.iter().map(|cpus| [("cpu", cpus.as_str()), ("memory", "99Gi")]).collect();
        let zones: Vec<&[(&str, &str)]> = zones.iter().map(|zone| &zone[..]).collect();
        let scope = if self.is_pod_scope[node] { "pod" } else { "container" };
        let mut object = single(NAMES[node], scope, &zones);
        let time = Timestamp::from_secs(written).to_rfc3339();
        object["metadata"]["managedFields"] = json!([{"manager": "agent", "time": time}]);
        let text = fingerprint(seen.names.iter().map(|name| ("default", name.as_str())));
        let attributes = object["attributes"].as_array_mut().unwrap();
        attributes.push(json!({"name": "nodeTopologyPodsFingerprint", "value": text}));
        if self.tells_places {
            let metadata =
                format!("npv0v001::ve=leb89::cc={}::nn={}::bn=0", seen.places.len(), NODES[node].len());
            attributes.push(json!({"name": placement::METADATA, "value": metadata}));
        }
        for (zone, cpus) in NODES[node].iter().enumerate() {
            let own = &mut object["zones"][zone];
            own["resources"][0]["allocatable"] = cpus.to_string().into();
            own["resources"][1]["available"] = "90Gi".into();
            let list =
                encoded(seen.places.values().enumerate().filter(|(_, at)| **at == zone).map(|(at, _)| at));
            if self.tells_places && zone > 0 && !list.is_empty() {
                own["attributes"] = json!([{"name": placement::VECTOR, "value": list}]);
            }
        }
        object
    }

    /// Lets the scheduler see what the node is like now.
    fn refresh(&mut self, node: usize) {
        let here = self.pods.iter().filter(|(_, pod)| pod.node == node);
        let names: Vec<String> = here.map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.bind(name);
            if self.pods[name].zones.is_none() {
                self.start(name);
            }
            self.see_running(name);
            if self.pods[name].over {
                self.see_gone(name);
            }
        }
        self.now += 1;
        self.agents[node].seen = None;
        self.look(node);
        self.now += 1;
        self.write(node);
        while self.deliver(node) {}
    }

    fn deliver(&mut self, node: usize) -> bool {
        let next = self.agents[node].on_the_way.pop_front();
        let arrived = next.is_some();
        set_custom::<NodeResourceTopology>(self.world.cluster(), next);
        arrived
    }

    // --- the scheduler ---

    fn build(&self, name: &str, pod: &Placed) -> PodBuilder {
        let amounts: Vec<String> = pod.cpus.iter().map(ToString::to_string).collect();
        let requests: Vec<[(&str, &str); 2]> =
            amounts.iter().map(|cpus| [("cpu", cpus.as_str()), ("memory", "1Mi")]).collect();
        let requests: Vec<&[(&str, &str)]> = requests.iter().map(|one| &one[..]).collect();
        guaranteed(&requests).uid(name).priority(pod.priority).spec(|spec| {
            for (at, container) in spec.containers.iter_mut().enumerate() {
                container.name = format!("c{at}").into();
            }
        })
    }

    /// The pod as the scheduler knows it.
    fn known(&self, name: &str) -> Arc<PodInfo> {
        let pod = &self.pods[name];
        let known = self.build(name, pod).on(NAMES[pod.node]).pod(|known| {
            known.name = name.into();
            known.status.phase = if pod.runs { Phase::Running } else { Phase::Pending };
            known.status.start_time = pod.runs.then_some(Timestamp::from_secs(pod.started));
            if let Some(bound) = pod.bound {
                known.status.conditions.push(PodCondition {
                    type_: "PodScheduled".into(),
                    status: "True".into(),
                    last_transition: Some(Timestamp::from_secs(bound)),
                    ..PodCondition::default()
                });
            }
        });
        known.info()
    }

    fn replace(&mut self, name: &str) {
        let known = self.known(name);
        assert!(self.world.cluster().replace_pod(NAMES[self.pods[name].node], &known));
    }

    fn bind(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).unwrap();
        if pod.bound.is_none() {
            pod.bound = Some(self.now);
            self.replace(name);
        }
    }

    fn see_running(&mut self, name: &str) {
        let pod = self.pods.get_mut(name).unwrap();
        if pod.zones.is_some() && !pod.runs {
            pod.runs = true;
            self.replace(name);
        }
    }

    fn see_gone(&mut self, name: &str) {
        let pod = self.pods.remove(name).unwrap();
        assert!(self.world.cluster().remove_pod(NAMES[pod.node], name));
    }

    fn place(&mut self, name: &str, pod: Placed) {
        let node = pod.node;
        self.pods.insert(name.to_owned(), pod);
        let known = self.known(name);
        self.world.cluster().add_pod(&NAMES[node].into(), known);
    }

    fn new_pod(&mut self, name: &str) {
        let containers = 1 + self.dice.below(2);
        let cpus = (0..containers).map(|_| 1 + self.dice.below(3) as i64).collect();
        let priority = self.dice.pick(&[0, 1, 2]);
        let mut pod = Placed {
            node: 0,
            cpus,
            priority,
            bound: None,
            zones: None,
            started: 0,
            runs: false,
            over: false,
        };
        let info = self.build(name, &pod).info();
        let first = self.dice.below(2) as usize;
        for node in [first, 1 - first] {
            if self.trial.verdict(self.world.cluster(), &info, NAMES[node]).is_ok() {
                let unknown = |known: &Placed| known.node == node && known.zones.is_none();
                self.counts.placed += 1;
                self.counts.beside_unknown += usize::from(self.pods.values().any(unknown));
                pod.node = node;
                return self.place(name, pod);
            }
        }
        self.counts.refused += 1;
        assert!(!self.world.fits(&info));
        let PostFiltered::Nominate { node, victims, .. } = self.world.ask(&self.preemption, &info).unwrap()
        else {
            return;
        };
        self.counts.evictions += 1;
        pod.node = NAMES.iter().position(|name| **name == *node).unwrap();
        for victim in victims {
            self.pods.get_mut(&*victim.name).unwrap().over = true;
            self.see_gone(&victim.name);
        }
        self.refresh(pod.node);
        let verdict = self.trial.verdict(self.world.cluster(), &info, &node);
        assert_eq!(verdict, Ok(()), "{name} {pod:?} was nominated to {node}: {:?}", self.pods);
        self.place(name, pod);
    }

    fn any(&mut self, is_wanted: impl Fn(&Placed) -> bool) -> Option<String> {
        let all: Vec<&String> =
            self.pods.iter().filter(|(_, pod)| is_wanted(pod)).map(|(name, _)| name).collect();
        let at = self.dice.below(all.len().max(1) as u64) as usize;
        all.get(at).map(|name| (*name).clone())
    }

    fn step(&mut self, number: usize) {
        self.now += self.dice.below(20) as i64;
        let node = self.dice.below(2) as usize;
        // An agent writes in time.
        for node in 0..2 {
            if self.agents[node].seen.as_ref().is_some_and(|(since, _)| self.now - since > 40) {
                self.write(node);
            }
        }
        match self.dice.below(14) {
            0 | 1 => self.any(|pod| pod.bound.is_none()).iter().for_each(|name| self.bind(name)),
            2..=4 => {
                let waits = |pod: &Placed| pod.bound.is_some() && pod.zones.is_none();
                self.any(waits).iter().for_each(|name| self.start(name));
            }
            5 => self.any(|pod| pod.zones.is_some()).iter().for_each(|name| self.see_running(name)),
            6 => {
                if let Some(name) = self.any(|pod| pod.zones.is_some() && !pod.over) {
                    self.pods.get_mut(&name).unwrap().over = true;
                }
            }
            7 => self.any(|pod| pod.over).iter().for_each(|name| self.see_gone(name)),
            8 => self.look(node),
            9 => self.write(node),
            10 => {
                self.deliver(node);
            }
            // The scheduler sees only a later version.
            11 if self.agents[node].on_the_way.len() > 1 => {
                self.agents[node].on_the_way.pop_front();
            }
            _ => self.new_pod(&format!("p{number}")),
        }
    }

    /// Once all news have arrived, a pod is accepted exactly if the kubelet would accept it.
    fn settle(&mut self) {
        (0..2).for_each(|node| self.refresh(node));
        for (cpus, node) in [vec![1], vec![3], vec![5], vec![2, 2]]
            .into_iter()
            .flat_map(|cpus| [(cpus.clone(), 0), (cpus, 1)])
        {
            let pod = Placed {
                node,
                cpus,
                priority: 0,
                bound: None,
                zones: None,
                started: 0,
                runs: false,
                over: false,
            };
            let accepts = self.zones(node, &pod.cpus).is_some();
            let info = self.build("last", &pod).info();
            let verdict = self.trial.verdict(self.world.cluster(), &info, NAMES[node]);
            assert_eq!(verdict.is_ok(), accepts, "{pod:?} {:?} {:?}", self.free(node), self.pods);
        }
    }
}

/// A list of ascending numbers below 64, as agents write it.
fn encoded(numbers: impl Iterator<Item = usize>) -> String {
    let characters: Vec<char> = ('!'..='~').filter(|one| !"\"&<>\\".contains(*one)).collect();
    let mut last = 0;
    let step = |number: usize| characters[number - std::mem::replace(&mut last, number)];
    numbers.map(step).collect()
}

#[test]
fn no_numa_node_is_over_committed_and_no_pod_is_evicted_in_vain() {
    let histories = std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let mut all = Counts::default();
    for seed in 0..histories {
        let mut history = History::new(seed);
        (0..60).for_each(|number| history.step(number));
        history.settle();
        let Counts { placed, refused, beside_unknown, evictions } = history.counts;
        all.placed += placed;
        all.refused += refused;
        all.beside_unknown += beside_unknown;
        all.evictions += evictions;
    }
    println!("{all:?}");
    let rare = all.placed.min(all.refused).min(all.beside_unknown).min(all.evictions);
    assert!(rare * 5 > histories as usize, "{all:?}");
}
