//! Compares the plugin's answers in random clusters with those of a simple implementation of the rules, which goes node
//! by node and label by label.

use std::collections::BTreeMap;

use harbormaster_api::{
    Node,
    pod::Pod,
    selector::RequiredNodeAffinity,
    taint::{Taint, TaintEffect, find_untolerated},
};
use harbormaster_testkit::{batch_equals_single, random::Dice, tolerates};

use super::*;

/// Generates small clusters and pods in which every relevant property varies.
pub(super) struct RandomClusters(pub(super) Dice);

impl RandomClusters {
    pub(super) fn cluster(&mut self) -> Cluster {
        let size = 1 + self.0.below(7) as usize;
        let nodes: Vec<NodeBuilder> = (0..size).map(|at| self.node(&format!("n{at}"))).collect();
        let pods: Vec<PodBuilder> = (0..self.0.below(4 * size as u64 + 1))
            .map(|at| {
                let on = format!("n{}", self.0.below(size as u64 + 1));
                self.other(&format!("bound-{at}")).on(&on)
            })
            .collect();
        let mut cluster = cluster(nodes, pods);
        cluster.set_object(service("s", Some(&[("foo", "")])));
        cluster
    }

    fn node(&mut self, name: &str) -> NodeBuilder {
        let mut built = node(name);
        for key in ["rack", LABEL_ZONE] {
            if !self.0.one_in(5) {
                built = built.label(key, self.0.pick(&["1", "2", "3", ""]));
            }
        }
        if self.0.one_in(8) {
            let others =
                |n: &Node| n.labels.iter().filter(|(k, _)| **k != LABEL_HOSTNAME).map(owned).collect();
            built = built.node(|n| n.labels = others(n));
        }
        if self.0.one_in(4) {
            built = built.taint("k", "v", self.0.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
        if self.0.one_in(3) { built } else { built.label("ok", "yes") }
    }

    /// A pod that constraints may count.
    pub(super) fn other(&mut self, name: &str) -> PodBuilder {
        let mut built = pod(name);
        for key in ["foo", "bar"] {
            if !self.0.one_in(3) {
                built = built.label(key, "");
            }
        }
        built = built.label("rev", self.0.pick(&["1", "2"]));
        if self.0.one_in(6) {
            built = built.namespace("other");
        }
        if self.0.one_in(6) { built.terminating() } else { built }
    }

    /// A pod with up to four constraints.
    pub(super) fn pod(&mut self, name: &str) -> PodBuilder {
        let mut built = self.other(name).namespace("default").pod(|p| p.deleted = None);
        let constraints: Vec<_> = (0..self.0.below(5)).map(|_| self.constraint()).collect();
        built = built.spec(|spec| spec.topology_spread = constraints);
        if self.0.one_in(3) {
            built = built.node_selector("ok", "yes");
        }
        if self.0.one_in(4) {
            built = built.requires_node_label("rack", &["1", "2"]);
        }
        if self.0.one_in(3) { built.tolerate(tolerates("k", "")) } else { built }
    }

    fn constraint(&mut self) -> TopologySpreadConstraint {
        let label_selector = match self.0.below(8) {
            0 => None,
            1 => Some(LabelSelector::default()),
            2..=4 => Some(matching(&[("foo", "")])),
            _ => Some(matching(&[("bar", "")])),
        };
        TopologySpreadConstraint {
            max_skew: self.0.pick(&[1, 1, 2, 3]),
            topology_key: self.0.pick(&["rack", LABEL_ZONE, LABEL_HOSTNAME]).into(),
            hard: self.0.one_in(2),
            label_selector,
            min_domains: self.0.one_in(3).then(|| 1 + self.0.below(4) as i32),
            ignore_node_affinity: self.0.one_in(3),
            honor_node_taints: self.0.one_in(3),
            match_label_keys: if self.0.one_in(3) { vec!["rev".into(), "none".into()] } else { Vec::new() },
        }
    }
}

fn owned((key, value): (&Str, &Str)) -> (Str, Str) {
    (key.clone(), value.clone())
}

/// The constraints of one kind, applied to one cluster.
struct ByHand<'a> {
    nodes: &'a Cluster,
    pod: &'a Pod,
    constraints: Vec<TopologySpreadConstraint>,
    needs_all_keys: bool,
}

impl ByHand<'_> {
    fn selects(&self, constraint: &TopologySpreadConstraint, pod: &Pod) -> bool {
        let mut keys = constraint.match_label_keys.iter().filter(|key| self.pod.labels.get(key).is_some());
        constraint.label_selector.as_ref().is_some_and(|s| s.matches(&pod.labels))
            && keys.all(|key| pod.labels.get(key) == self.pod.labels.get(key))
    }

    fn is_empty(&self, constraint: &TopologySpreadConstraint) -> bool {
        let no_key = constraint.match_label_keys.iter().all(|key| self.pod.labels.get(key).is_none());
        constraint.label_selector.as_ref().is_some_and(|s| s.is_empty()) && no_key
    }

    fn pods_on(&self, constraint: &TopologySpreadConstraint, node: NodeRef<'_>) -> i64 {
        if self.is_empty(constraint) {
            return 0;
        }
        let counts = |p: &&Arc<PodInfo>| {
            p.namespace == self.pod.namespace && !p.is_terminating() && self.selects(constraint, p)
        };
        node.pods().iter().filter(counts).count() as i64
    }

    fn has_all_keys(&self, node: NodeRef<'_>) -> bool {
        self.constraints.iter().all(|c| node.labels().unwrap().get(&c.topology_key).is_some())
    }

    fn is_included(&self, constraint: &TopologySpreadConstraint, node: NodeRef<'_>) -> bool {
        let spec = &self.pod.spec;
        let affinity = RequiredNodeAffinity::new(spec.node_selector.as_ref(), spec.node_affinity.as_ref());
        let forbids = |t: &Taint| t.effect != TaintEffect::PreferNoSchedule;
        let untolerated = find_untolerated(node.taints(), &spec.tolerations, false, forbids).is_some();
        (constraint.ignore_node_affinity || affinity.matches(node.labels().unwrap(), node.name()))
            && !(constraint.honor_node_taints && untolerated)
    }

    /// Number of pods in each domain of a hard constraint.
    fn domains(&self, constraint: &TopologySpreadConstraint) -> BTreeMap<Str, i64> {
        let mut domains = BTreeMap::new();
        for node in self.nodes.nodes().nodes() {
            if self.has_all_keys(node) && self.is_included(constraint, node) {
                let value = node.labels().unwrap().get(&constraint.topology_key).unwrap();
                *domains.entry(value.clone()).or_insert(0) += self.pods_on(constraint, node);
            }
        }
        domains
    }

    fn verdict(&self, node: NodeRef<'_>) -> Result<(), Reject> {
        for constraint in &self.constraints {
            let Some(value) = node.labels().unwrap().get(&constraint.topology_key) else {
                return Err(Reject::unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let domains = self.domains(constraint);
            let few = (domains.len() as i64) < i64::from(constraint.min_domains.unwrap_or(1));
            let fewest = if few { 0 } else { domains.values().copied().min().unwrap_or(0) };
            let own = i64::from(self.selects(constraint, self.pod));
            if domains.get(value).copied().unwrap_or(0) + own - fewest > i64::from(constraint.max_skew) {
                return Err(Reject::evictable("node(s) didn't match pod topology spread constraints"));
            }
        }
        Ok(())
    }

    /// Normalized scores of all nodes.
    fn scores(&self) -> Vec<i64> {
        let nodes: Vec<NodeRef<'_>> = self.nodes.nodes().nodes().collect();
        let scored = |node: NodeRef<'_>| !self.needs_all_keys || self.has_all_keys(node);
        let value = |c: &TopologySpreadConstraint, node: NodeRef<'_>| {
            node.labels().unwrap().get(&c.topology_key).cloned().unwrap_or_default()
        };
        let mut raw = vec![0.0; nodes.len()];
        for constraint in &self.constraints {
            let mut domains: BTreeMap<Str, i64> = BTreeMap::new();
            for node in nodes.iter().filter(|node| scored(**node)) {
                let entry = domains.entry(value(constraint, *node)).or_insert(0);
                if self.is_included(constraint, *node) {
                    *entry += self.pods_on(constraint, *node);
                }
            }
            let on_hosts = constraint.topology_key == LABEL_HOSTNAME;
            let size = if on_hosts { nodes.iter().filter(|n| scored(**n)).count() } else { domains.len() };
            for (at, node) in nodes.iter().enumerate().filter(|(_, node)| scored(**node)) {
                if node.labels().unwrap().get(&constraint.topology_key).is_some() {
                    let pods = if on_hosts {
                        self.pods_on(constraint, *node)
                    } else {
                        domains[&value(constraint, *node)]
                    };
                    raw[at] += pods as f64 * ((size + 2) as f64).ln() + f64::from(constraint.max_skew - 1);
                }
            }
        }
        let raw: Vec<i64> = raw.iter().map(|raw| raw.round() as i64).collect();
        let of_scored = || raw.iter().zip(&nodes).filter(|(_, node)| scored(**node)).map(|(raw, _)| *raw);
        let (min, max) = (of_scored().min().unwrap_or(0), of_scored().max().unwrap_or(0));
        let normal = |(raw, node): (&i64, &NodeRef<'_>)| match max {
            _ if !scored(*node) => 0,
            0 => 100,
            _ => 100 * (max + min - raw) / max,
        };
        raw.iter().zip(&nodes).map(normal).collect()
    }
}

#[test]
fn filters_and_scores_equal_those_counted_by_hand() {
    let mut worlds = RandomClusters(Dice::new(42));
    let (mut rejected, mut spread) = (0, 0);
    for world in 0..600 {
        let (nodes, pod) = (worlds.cluster(), worlds.pod("p").info());
        batch_equals_single(&trial(), &nodes, &pod);
        let own = |hard| pod.spec.topology_spread.iter().filter(move |c| c.hard == hard).cloned().collect();
        let by_hand =
            |constraints, needs_all_keys| ByHand { nodes: &nodes, pod: &pod, constraints, needs_all_keys };
        let hard = by_hand(own(true), true);
        for node in nodes.nodes().nodes() {
            let verdict = trial().verdict(&nodes, &pod, node.name());
            assert_eq!(verdict, hard.verdict(node), "world {world}: {} of {:?}", node.name(), pod.spec);
            rejected += usize::from(verdict.is_err());
        }
        let by_default = pod.spec.topology_spread.is_empty();
        let foo = pod.labels.get("foo").is_some();
        let soft = match by_default {
            true if foo => by_hand(vec![soft(3, LABEL_HOSTNAME), soft(5, LABEL_ZONE)], false),
            true => continue,
            false => by_hand(own(false), true),
        };
        let scores = trial().scores(&nodes, &pod).unwrap();
        let expected = (!soft.constraints.is_empty()).then(|| soft.scores());
        assert_eq!(scores, expected, "world {world}: {:?}", pod.spec);
        spread += usize::from(scores.is_some_and(|s| s.iter().any(|s| *s != s.signum() * 100)));
    }
    assert!(rejected > 300 && spread > 100, "{rejected} rejections and {spread} spread scores are too few");
}
