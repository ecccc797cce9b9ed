//! Compares the plugin with a literal definition of its rules, which visits every pod on every node.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_testkit::{NodeBuilder, cluster, node, pod, random::Dice};

use super::*;

const KEYS: [&str; 3] = ["region", "zone", "rack"];
const LABELS: [&str; 2] = ["app", "tier"];
const VALUES: [&str; 2] = ["x", "y"];
const NAMESPACES: [&str; 4] = ["default", "a1", "b1", "unknown"];

fn random_requirement(dice: &mut Dice, keys: &[&str], values: &[&str]) -> Requirement {
    let key = dice.pick(keys);
    match dice.below(4) {
        0 => one_of(key, &[dice.pick(values)]),
        1 => none_of(key, &[dice.pick(values)]),
        2 => has(key),
        _ => lacks(key),
    }
}

fn random_term(dice: &mut Dice) -> PodAffinityTerm {
    let mut random = term(dice.pick(&KEYS), &[random_requirement(dice, &LABELS, &VALUES)]);
    if dice.one_in(8) {
        random.label_selector = None;
    }
    if dice.one_in(3) {
        let listed: &[&str] = if dice.one_in(2) { &["a1"] } else { &[] };
        let by_labels = random_requirement(dice, &["team"], &["a", "b"]);
        let by_labels = if dice.one_in(4) { Vec::new() } else { vec![by_labels] };
        random = within(random, listed, Some(&by_labels));
    }
    random
}

fn random_pod(dice: &mut Dice, name: &str, plain: bool) -> PodBuilder {
    let mut random = pod(name).namespace(dice.pick(&NAMESPACES));
    for key in LABELS {
        if !dice.one_in(3) {
            random = random.label(key, dice.pick(&VALUES));
        }
    }
    while !plain && dice.one_in(2) {
        let (term, weight) = (random_term(dice), 1 + dice.below(100) as i32);
        random = match dice.below(4) {
            0 => random.wants(term),
            1 => random.shuns(term),
            2 => random.likes(weight, term),
            _ => random.dislikes(weight, term),
        };
    }
    random
}

fn random_cluster(dice: &mut Dice) -> Cluster {
    let size = 2 + dice.below(8);
    let nodes: Vec<NodeBuilder> = (0..size)
        .map(|at| {
            KEYS.into_iter().fold(node(&format!("n{at}")), |node, key| match dice.below(4) {
                0 => node,
                value => node.label(key, &value.to_string()),
            })
        })
        .collect();
    let pods: Vec<PodBuilder> = (0..dice.below(3 * size + 1))
        .map(|at| {
            let plain = dice.one_in(2);
            let on = format!("n{}", dice.below(size + 1));
            random_pod(dice, &format!("q{at}"), plain).on(&on)
        })
        .collect();
    with_teams(cluster(nodes, pods))
}

/// Numbers by node label.
type Pairs = BTreeMap<(Str, Str), i64>;

/// The plugin's rules, applied pod by pod.
struct Definition<'a> {
    nodes: &'a Cluster,
    pod: &'a PodInfo,
}

impl Definition<'_> {
    fn matches(&self, term: &PodAffinityTerm, owner: &PodInfo, other: &PodInfo) -> bool {
        let Some(labels) = &term.label_selector else { return false };
        let nothing = Labels::default();
        let namespace = self.nodes.objects().namespace_labels(&other.namespace);
        let listed = match (&term.namespaces[..], &term.namespace_selector) {
            ([], None) => owner.namespace == other.namespace,
            (names, _) => names.contains(&other.namespace),
        };
        let selected = term.namespace_selector.as_ref().is_some_and(|s| {
            // The namespace selectors of the pod's own terms are resolved to names of known namespaces, and also
            // evaluated on empty labels.
            match owner.uid == self.pod.uid {
                true => namespace.is_some_and(|labels| s.matches(labels)) || s.matches(&nothing),
                false => s.matches(namespace.unwrap_or(&nothing)),
            }
        });
        (listed || selected) && labels.matches(&other.labels)
    }

    fn put(&self, pairs: &mut Pairs, node: NodeRef<'_>, key: &Str, amount: i64) {
        if let Some(value) = node.labels().and_then(|labels| labels.get(key)) {
            *pairs.entry((key.clone(), value.clone())).or_default() += amount;
        }
    }

    fn others(&self) -> impl Iterator<Item = (NodeRef<'_>, &Arc<PodInfo>)> {
        each(self.nodes).flat_map(|node| node.pods().iter().map(move |pod| (node, pod)))
    }

    fn verdicts(&self) -> Vec<&'static str> {
        let affinity = terms::required(&self.pod.spec.pod_affinity);
        let anti = terms::required(&self.pod.spec.pod_anti_affinity);
        let all_match = |other: &PodInfo| {
            !affinity.is_empty() && affinity.iter().all(|term| self.matches(term, self.pod, other))
        };
        let (mut wanted, mut shunned, mut shunning) = (Pairs::new(), Pairs::new(), Pairs::new());
        for (node, other) in self.others() {
            if all_match(other) {
                affinity.iter().for_each(|term| self.put(&mut wanted, node, &term.topology_key, 1));
            }
            for term in anti.iter().filter(|term| self.matches(term, self.pod, other)) {
                self.put(&mut shunned, node, &term.topology_key, 1);
            }
            for term in terms::required(&other.spec.pod_anti_affinity) {
                if self.matches(term, other, self.pod) {
                    self.put(&mut shunning, node, &term.topology_key, 1);
                }
            }
        }
        if shunning.is_empty() && affinity.is_empty() && anti.is_empty() {
            return vec![SKIPPED];
        }
        let judge = |node: NodeRef<'_>| {
            let labels = node.labels().unwrap();
            let pair = |key: &Str| Some((key.clone(), labels.get(key)?.clone()));
            let pairs: Vec<_> = affinity.iter().map(|term| pair(&term.topology_key)).collect();
            let has_keys = pairs.iter().all(Option::is_some);
            let has_pods = pairs.iter().flatten().all(|pair| wanted.contains_key(pair));
            if !has_keys || !(has_pods || (wanted.is_empty() && all_match(self.pod))) {
                AFFINITY
            } else if anti.iter().filter_map(|t| pair(&t.topology_key)).any(|p| shunned.contains_key(&p)) {
                ANTI
            } else if shunning.keys().any(|(key, value)| labels.get(key) == Some(value)) {
                OTHERS
            } else {
                FITS
            }
        };
        each(self.nodes).map(judge).collect()
    }

    fn raw_scores(&self, args: &InterPodAffinityArgs) -> Option<Vec<i64>> {
        if args.ignore_preferred_terms_of_existing_pods && !terms::prefers(&self.pod.spec) {
            return None;
        }
        let mut sums = Pairs::new();
        for (node, other) in self.others() {
            for (owner, met) in [(self.pod, &**other), (&**other, self.pod)] {
                let (affinity, anti) = (&owner.spec.pod_affinity, &owner.spec.pod_anti_affinity);
                for (list, sign) in [(affinity, 1), (anti, -1)] {
                    for (weight, term) in list.iter().flat_map(|a| &a.preferred) {
                        if self.matches(term, owner, met) {
                            self.put(&mut sums, node, &term.topology_key, sign * i64::from(*weight));
                        }
                    }
                }
            }
            for term in terms::required(&other.spec.pod_affinity) {
                if args.hard_pod_affinity_weight > 0 && self.matches(term, other, self.pod) {
                    self.put(&mut sums, node, &term.topology_key, i64::from(args.hard_pod_affinity_weight));
                }
            }
        }
        let score = |node: NodeRef<'_>| {
            let labels = node.labels().unwrap();
            sums.iter().filter(|((key, value), _)| labels.get(key) == Some(value)).map(|(_, n)| *n).sum()
        };
        (!sums.is_empty()).then(|| each(self.nodes).map(score).collect())
    }
}

#[test]
fn answers_equal_those_of_a_definition_that_visits_every_pod() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..500 {
        let mut dice = Dice::new(seed);
        let nodes = random_cluster(&mut dice);
        let plain = dice.one_in(4);
        let pod = random_pod(&mut dice, "p", plain).info();
        let definition = Definition { nodes: &nodes, pod: &pod };
        let found = verdicts(&nodes, &pod);
        assert_eq!(found, definition.verdicts(), "seed {seed}");
        found.into_iter().for_each(|word| *seen.entry(word).or_default() += 1);
        for (weight, ignore) in [(1, false), (0, false), (50, true)] {
            let trial = trial_with(weight, ignore);
            batch_equals_single(&trial, &nodes, &pod);
            let args = InterPodAffinityArgs {
                hard_pod_affinity_weight: weight,
                ignore_preferred_terms_of_existing_pods: ignore,
            };
            let found = trial.raw_scores(&nodes, &pod).unwrap();
            assert_eq!(found, definition.raw_scores(&args), "seed {seed}");
            *seen.entry(if found.is_some() { "scored" } else { "not scored" }).or_default() += 1;
            let scores = trial.scores(&nodes, &pod).unwrap().unwrap_or_default();
            assert!(scores.iter().all(|s| (0..=100).contains(s)), "seed {seed}: {scores:?}");
        }
    }
    assert!(seen.len() == 7 && seen.values().all(|n| *n > 40), "the worlds vary too little: {seen:?}");
}

#[test]
fn what_if_answers_equal_those_of_the_changed_cluster() {
    let mut asked = 0;
    for seed in 5000..5300 {
        let mut dice = Dice::new(seed);
        let mut nodes = random_cluster(&mut dice);
        let pod = random_pod(&mut dice, "p", false).info();
        let trial = trial();
        let indexes = trial.indexes(&nodes, &pod);
        let mut slot = None;
        trial.plugin().pre_filter(&Cycle::with_indexes(&nodes, &indexes, &pod), &mut slot).unwrap();
        for step in 0..4 {
            let row = dice.pick(nodes.order());
            let taken = nodes.node(row).pods().first().cloned().filter(|_| dice.one_in(2));
            if let Some(other) = taken {
                nodes.what_if().dry_run_remove(row, &other.uid);
                let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
                trial.plugin().remove_pod(&cx, &mut slot, &other, row).unwrap();
            } else {
                let other = random_pod(&mut dice, &format!("new-{step}"), false).info();
                nodes.what_if().dry_run_add(row, other.clone());
                let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
                trial.plugin().add_pod(&cx, &mut slot, &other, row).unwrap();
            }
            let cx = Cycle::with_indexes(&nodes, &indexes, &pod);
            let expected = Definition { nodes: &nodes, pod: &pod }.verdicts();
            // If PreFilter skipped the pod, the plugin does not run again in the attempt, and everything fits.
            if slot.is_some() {
                let found: Vec<_> = each(&nodes)
                    .map(|n| word(&trial.plugin().filter(&cx, &slot, n.idx()).map_err(rejection)))
                    .collect();
                let expected = if expected == [SKIPPED] { vec![FITS; found.len()] } else { expected };
                assert_eq!(found, expected, "seed {seed}, step {step}");
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "the worlds vary too little: {asked}");
}
