//! Compares the plugin with a model that follows the rules literally and copies everything it changes.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Object, PodDisruptionBudget, Resources, Timestamp, features::Features, selector::LabelSelector,
};
use harbormaster_framework::registry::Registry;
use harbormaster_testkit::{WhatIfTrial, cluster, labels, node, pod, profile, random::Dice};

use super::*;

/// A node, the pods on it, and the pods nominated to it.
#[derive(Clone, Debug)]
struct ModelNode {
    name: String,
    room: Resources,
    pods: Vec<Arc<PodInfo>>,
    nominated: Vec<Arc<PodInfo>>,
}

impl ModelNode {
    fn holds(&self, preemptor: &PodInfo, with: &[Arc<PodInfo>]) -> bool {
        let all = || self.pods.iter().chain(with).map(|pod| pod.request()).chain([preemptor.request()]);
        let enough = |room: i64, of: fn(&Resources) -> i64| {
            // A resource that the pod does not request may be exhausted.
            of(preemptor.request()) == 0 || all().map(of).sum::<i64>() <= room
        };
        all().count() as i64 <= self.room.pods
            && enough(self.room.milli_cpu, |r| r.milli_cpu)
            && enough(self.room.memory, |r| r.memory)
    }

    /// Checks the pod twice: with the nominated pods of equal or higher priority on the node, and without them.
    fn fits(&self, preemptor: &PodInfo) -> bool {
        let counts = |pod: &&Arc<PodInfo>| pod.priority() >= preemptor.priority();
        let expected: Vec<_> = self.nominated.iter().filter(counts).cloned().collect();
        self.holds(preemptor, &expected) && self.holds(preemptor, &[])
    }

    fn could_ever_fit(&self, preemptor: &PodInfo) -> bool {
        let empty = Self { pods: Vec::new(), nominated: Vec::new(), ..self.clone() };
        empty.holds(preemptor, &[])
    }

    fn without(&self, pods: &[Arc<PodInfo>]) -> Self {
        let stays = |pod: &&Arc<PodInfo>| !pods.iter().any(|gone| gone.uid == pod.uid);
        Self { pods: self.pods.iter().filter(stays).cloned().collect(), ..self.clone() }
    }
}

#[derive(Clone, Debug)]
struct ModelCandidate {
    node: String,
    victims: Vec<Arc<PodInfo>>,
    violations: i64,
}

/// The current time, used for pods without a start time. Advances with every use.
struct Clock {
    now: i64,
    /// In 1.37, the times at which pods were first seen.
    seen: Option<BTreeMap<String, i64>>,
}

impl Clock {
    fn of(release: Release) -> Self {
        Self { now: i64::MAX / 2, seen: (release >= Release::V1_37).then(BTreeMap::new) }
    }

    fn start(&mut self, pod: &PodInfo) -> i64 {
        self.now += 1;
        let now = match &mut self.seen {
            Some(seen) => *seen.entry(pod.uid.to_string()).or_insert(self.now),
            None => self.now,
        };
        pod.status.start_time.map_or(now, |at| at.0)
    }

    fn more_important(&mut self, a: &PodInfo, b: &PodInfo) -> bool {
        if a.priority() != b.priority() {
            return a.priority() > b.priority();
        }
        let (a, b) = (self.start(a), self.start(b));
        a < b
    }

    /// Sorts by insertion, as Go does for slices of up to twelve elements.
    fn sort(&mut self, pods: &mut [Arc<PodInfo>]) {
        for i in 1..pods.len() {
            let mut j = i;
            while j > 0 && self.more_important(&pods[j], &pods[j - 1]) {
                pods.swap(j, j - 1);
                j -= 1;
            }
        }
    }
}

/// Disruption budgets, and the release that says how they are counted.
struct ModelBudgets {
    all: Vec<PodDisruptionBudget>,
    release: Release,
}

fn violates(pods: &[Arc<PodInfo>], budgets: &ModelBudgets) -> Vec<bool> {
    let mut allowed: BTreeMap<&str, i32> =
        budgets.all.iter().map(|b| (b.name.as_str(), b.disruptions_allowed)).collect();
    let mut answers = Vec::new();
    for pod in pods {
        let mut violated = false;
        for budget in &budgets.all {
            if violated && budgets.release >= Release::V1_37 {
                break;
            }
            let selects = budget.selector.as_ref().is_some_and(|s| s.matches(&pod.labels));
            if budget.namespace == pod.namespace && selects && !budget.disrupted_pods.contains(&pod.name) {
                let left = allowed.get_mut(budget.name.as_str()).unwrap();
                *left -= 1;
                violated |= *left < 0;
            }
        }
        answers.push(violated);
    }
    answers
}

fn victims_on(node: &ModelNode, preemptor: &PodInfo, budgets: &ModelBudgets) -> Option<ModelCandidate> {
    let mut clock = Clock::of(budgets.release);
    let lower = node.pods.iter().filter(|pod| pod.priority() < preemptor.priority());
    let mut potential: Vec<_> = lower.cloned().collect();
    potential.iter().for_each(|pod| _ = clock.start(pod));
    let mut now = node.without(&potential);
    if potential.is_empty() || !now.fits(preemptor) {
        return None;
    }
    clock.sort(&mut potential);
    let flags = violates(&potential, budgets);
    let group = |wanted: bool| {
        let of_group = potential.iter().zip(&flags).filter(move |(_, violates)| **violates == wanted);
        of_group.map(|(pod, _)| pod.clone()).collect::<Vec<_>>()
    };
    let (violating, others) = (group(true), group(false));
    let mut found = ModelCandidate { node: node.name.clone(), victims: Vec::new(), violations: 0 };
    for (pods, weight) in [(&violating, 1), (&others, 0)] {
        for pod in pods {
            let mut tried = now.clone();
            tried.pods.push(pod.clone());
            if tried.fits(preemptor) {
                now = tried;
            } else {
                found.victims.push(pod.clone());
                found.violations += weight;
            }
        }
    }
    if !violating.is_empty() && !others.is_empty() {
        clock.sort(&mut found.victims);
    }
    Some(found)
}

/// Keeps the candidates with the lowest cost.
fn keep_best(candidates: &mut Vec<ModelCandidate>, cost: impl Fn(&ModelCandidate) -> i64) {
    let lowest = candidates.iter().map(&cost).min();
    candidates.retain(|candidate| Some(cost(candidate)) == lowest);
}

fn earliest_start(candidate: &ModelCandidate) -> i64 {
    let highest = candidate.victims.iter().map(|pod| pod.priority()).max();
    let most_important = candidate.victims.iter().filter(|pod| Some(pod.priority()) == highest);
    most_important.map(|pod| pod.status.start_time.map_or(i64::MAX, |at| at.0)).min().unwrap()
}

/// Criteria by which candidates are compared, most important first; lower is better.
fn cost(candidate: &ModelCandidate) -> [i64; 5] {
    [
        candidate.violations,
        i64::from(candidate.victims[0].priority()),
        candidate.victims.iter().map(|pod| i64::from(pod.priority()) + (1 << 31)).sum(),
        candidate.victims.len() as i64,
        -earliest_start(candidate),
    ]
}

fn best_of(
    nodes: &[ModelNode],
    preemptor: &PodInfo,
    budgets: &ModelBudgets,
    offset: usize,
    wanted: usize,
) -> Option<ModelCandidate> {
    let full = |node: &&ModelNode| node.could_ever_fit(preemptor);
    let evictable: Vec<&ModelNode> = nodes.iter().filter(full).collect();
    let wanted = wanted.min(evictable.len());
    let (mut clean, mut violating) = (Vec::new(), Vec::new());
    for at in 0..evictable.len() {
        let node = evictable[(offset + at) % evictable.len()];
        if let Some(candidate) = victims_on(node, preemptor, budgets) {
            let list = if candidate.violations == 0 { &mut clean } else { &mut violating };
            if list.len() < wanted {
                list.push(candidate);
            }
            if !clean.is_empty() && clean.len() + violating.len() >= wanted {
                break;
            }
        }
    }
    let mut left = clean;
    left.append(&mut violating);
    (0..5).for_each(|fact| keep_best(&mut left, |candidate| cost(candidate)[fact]));
    left.into_iter().next()
}

struct Scenario {
    trial: WhatIfTrial,
    nodes: Vec<ModelNode>,
    budgets: ModelBudgets,
    preemptor: Arc<PodInfo>,
}

fn random_pod(dice: &mut Dice, name: &str) -> harbormaster_testkit::PodBuilder {
    let (cpu, memory) = (dice.below(5) * 250, dice.below(4) * 256);
    let mut built = pod(name)
        .cpu(&format!("{cpu}m"))
        .memory(&format!("{memory}Mi"))
        .priority(dice.pick(&[-3, -1, 0, 0, 0, 2, 2, 5]));
    if dice.one_in(2) {
        built = built.label("app", dice.pick(&["x", "y"]));
    }
    if dice.one_in(2) {
        built = built.label("tier", "db");
    }
    if dice.one_in(8) {
        built = built.namespace("elsewhere");
    }
    let start_time = (!dice.one_in(3)).then(|| Timestamp::from_secs(dice.below(4) as i64));
    built.pod(|pod| pod.status.start_time = start_time)
}

fn random_budget(dice: &mut Dice, at: usize) -> PodDisruptionBudget {
    let pair = dice.pick(&[("app", "x"), ("app", "y"), ("tier", "db")]);
    let disrupted = |dice: &mut Dice| format!("bound-{}", dice.below(20)).into();
    PodDisruptionBudget {
        namespace: "default".into(),
        name: format!("b{at}").into(),
        selector: Some(LabelSelector { match_labels: labels(&[pair]), ..LabelSelector::default() }),
        disruptions_allowed: dice.below(3) as i32,
        disrupted_pods: (0..dice.below(3)).map(|_| disrupted(dice)).collect(),
    }
}

fn scenario(dice: &mut Dice) -> Scenario {
    let size = 1 + dice.below(6) as usize;
    let mut nodes = Vec::new();
    let mut builders = Vec::new();
    for at in 0..size {
        let (cpu, memory) = (1 + dice.below(3), 512 + dice.below(4) * 512);
        let made = node(&format!("n{at}")).allocatable(
            &cpu.to_string(),
            &format!("{memory}Mi"),
            3 + dice.below(8) as i64,
        );
        let room = made.clone().build().allocatable.clone();
        nodes.push(ModelNode { name: format!("n{at}"), room, pods: Vec::new(), nominated: Vec::new() });
        builders.push(made);
    }
    let mut pods = Vec::new();
    for at in 0..dice.below(8 * size as u64) {
        let on = dice.below(size as u64) as usize;
        let built = random_pod(dice, &format!("bound-{at}")).on(&format!("n{on}"));
        if nodes[on].holds(&built.clone().info(), &[]) {
            nodes[on].pods.push(built.clone().info());
            pods.push(built);
        }
    }
    let mut registry = Registry::default();
    crate::in_tree(&mut registry);
    let fit: &[&str] = &["NodeResourcesFit"];
    let points = [("PreFilter", fit), ("Filter", fit)];
    let mut trial = WhatIfTrial::new(profile(&registry, &points), cluster(builders, pods));
    for at in 0..dice.below(3) {
        let on = dice.below(size as u64) as usize;
        let nominated = random_pod(dice, &format!("nominated-{at}")).nominated_to(&format!("n{on}")).info();
        nodes[on].nominated.push(nominated.clone());
        trial = trial.nominate(nominated);
    }
    let all: Vec<_> = (0..dice.below(4) as usize).map(|at| random_budget(dice, at)).collect();
    for budget in &all {
        trial.cluster().set_object(Object::PodDisruptionBudget(budget.clone()));
    }
    let preemptor = random_pod(dice, "preemptor").info();
    let budgets = ModelBudgets { all, release: dice.pick(Release::ALL) };
    Scenario { trial, nodes, budgets, preemptor }
}

/// Returns everything that a what-if question might change.
fn facts(trial: &mut WhatIfTrial) -> Vec<String> {
    let nodes = trial.cluster().nodes();
    let fact = |node: NodeRef<'_>| {
        let mut pods: Vec<&str> = node.pods().iter().map(|pod| pod.name.as_str()).collect();
        pods.sort_unstable();
        let lowest = node.pods().iter().map(|pod| pod.priority()).min().unwrap_or(i32::MAX);
        assert_eq!(nodes.columns().lowest_priority[node.idx().at()], lowest);
        format!("{pods:?} {:?}", node.requested())
    };
    nodes.nodes().map(fact).collect()
}

fn check_victims(scenario: &Scenario, node: &str, victims: &[Arc<PodInfo>], seed: u64) {
    let node = scenario.nodes.iter().find(|n| n.name == node).unwrap();
    let rest = node.without(victims);
    assert!(rest.fits(&scenario.preemptor), "seed {seed}: the pod still does not fit");
    assert_eq!(rest.pods.len() + victims.len(), node.pods.len(), "seed {seed}: a victim is not on the node");
    for victim in victims {
        assert!(
            victim.priority() < scenario.preemptor.priority(),
            "seed {seed}: {victim:?} is too important"
        );
        let mut crowded = rest.clone();
        crowded.pods.push(victim.clone());
        assert!(!crowded.fits(&scenario.preemptor), "seed {seed}: {victim:?} need not be evicted");
    }
}

/// Runs the plugin with these arguments. Checks that the cluster is unchanged.
fn ask(scenario: &mut Scenario, args: DefaultPreemptionArgs, seed: u64) -> PostFiltered {
    let features = Features::of(scenario.budgets.release);
    let plugin = DefaultPreemption::build(args, &BuildCycle { features }).unwrap();
    let before = facts(&mut scenario.trial);
    let answer = scenario.trial.ask(&plugin, &scenario.preemptor).unwrap();
    assert_eq!(facts(&mut scenario.trial), before, "seed {seed}");
    answer
}

fn names(pods: &[Arc<PodInfo>]) -> Vec<String> {
    pods.iter().map(|pod| pod.name.to_string()).collect()
}

#[test]
fn agrees_with_the_model_on_random_clusters() {
    let mut preemptions = 0;
    for seed in 0..4000 {
        let mut dice = Dice::new(seed);
        let mut scenario = scenario(&mut dice);
        if scenario.trial.fits(&scenario.preemptor) {
            continue;
        }
        let (offset, wanted) = (dice.below(7) as usize, 1 + dice.below(6) as i32);
        scenario.trial.set_offset(offset);
        let args =
            DefaultPreemptionArgs { min_candidate_nodes_percentage: 0, min_candidate_nodes_absolute: wanted };
        let answer = ask(&mut scenario, args, seed);
        let model = best_of(&scenario.nodes, &scenario.preemptor, &scenario.budgets, offset, wanted as usize);
        match answer {
            PostFiltered::Nominate { node, victims, .. } => {
                preemptions += 1;
                check_victims(&scenario, &node, &victims, seed);
                let model = model.unwrap_or_else(|| panic!("seed {seed}: the model finds no node"));
                let expected = (model.node, names(&model.victims));
                assert_eq!((node.to_string(), names(&victims)), expected, "seed {seed}");
            }
            PostFiltered::NoHelp { nomination, .. } => {
                assert_eq!(nomination, Nomination::Clear);
                assert!(model.is_none(), "seed {seed}: the model preempts on {:?}", model.unwrap().node);
            }
            PostFiltered::Unresolvable { .. } => panic!("seed {seed}: the pod was left to other plugins"),
        }
    }
    assert!(preemptions > 500, "too few scenarios lead to preemption: {preemptions}");
}

#[test]
fn by_default_the_victims_cost_as_little_as_the_models_best_victims_on_any_node() {
    let mut preemptions = 0;
    for seed in 0..4000 {
        let mut dice = Dice::new(seed);
        let mut scenario = scenario(&mut dice);
        if scenario.trial.fits(&scenario.preemptor) {
            continue;
        }
        scenario.trial.set_offset(dice.below(7) as usize);
        let answer = ask(&mut scenario, DefaultPreemptionArgs::default(), seed);
        let model = best_of(&scenario.nodes, &scenario.preemptor, &scenario.budgets, 0, usize::MAX);
        let PostFiltered::Nominate { node, victims, .. } = answer else {
            assert!(model.is_none(), "seed {seed}: the model preempts on {:?}", model.unwrap().node);
            continue;
        };
        preemptions += 1;
        check_victims(&scenario, &node, &victims, seed);
        let model = model.unwrap_or_else(|| panic!("seed {seed}: the model finds no node"));
        let there = scenario.nodes.iter().find(|known| known.name == *node).unwrap();
        let chosen = victims_on(there, &scenario.preemptor, &scenario.budgets).unwrap();
        assert_eq!(names(&victims), names(&chosen.victims), "seed {seed}");
        assert_eq!(cost(&chosen), cost(&model), "seed {seed}: {node} instead of {}", model.node);
    }
    assert!(preemptions > 500, "too few scenarios lead to preemption: {preemptions}");
}
