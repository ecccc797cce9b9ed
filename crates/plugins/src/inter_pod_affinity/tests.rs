//! Shared helpers: builders of terms and pods, and the verdicts for all nodes.

mod filter;
mod hints;
mod plain;
mod random;
mod score;
mod what_if;

use harbormaster_api::{
    Labels, Namespace, Object, Str,
    features::Features,
    pod::{PodAffinity, PodAffinityTerm},
    selector::{LabelSelector, Operator, Requirement},
};
use harbormaster_testkit::{PodBuilder, Trial, batch_equals_single, labels, pods::one_of, rejection};

use super::*;

fn trial() -> Trial {
    trial_in(Release::V1_36)
}

fn trial_in(release: Release) -> Trial {
    let cx = BuildCycle { features: Features::of(release) };
    Trial::of(InterPodAffinity::build(InterPodAffinityArgs::default(), &cx).unwrap())
}

fn trial_with(hard_pod_affinity_weight: i32, ignore_preferred_terms_of_existing_pods: bool) -> Trial {
    let args = InterPodAffinityArgs { hard_pod_affinity_weight, ignore_preferred_terms_of_existing_pods };
    Trial::of(InterPodAffinity::build(args, &BuildCycle::default()).unwrap())
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { operator, ..one_of(key, values) }
}

fn has(key: &str) -> Requirement {
    requirement(key, Operator::Exists, &[])
}

fn lacks(key: &str) -> Requirement {
    requirement(key, Operator::DoesNotExist, &[])
}

fn none_of(key: &str, values: &[&str]) -> Requirement {
    requirement(key, Operator::NotIn, values)
}

fn selector(requirements: &[Requirement]) -> LabelSelector {
    LabelSelector { match_labels: Labels::default(), match_expressions: requirements.to_vec() }
}

/// A term that selects the pods that meet all these requirements, in the domains of `key`.
fn term(key: &str, pods: &[Requirement]) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.into(),
        label_selector: Some(selector(pods)),
        ..PodAffinityTerm::default()
    }
}

/// The term, applied to the given namespaces.
fn within(term: PodAffinityTerm, namespaces: &[&str], by_labels: Option<&[Requirement]>) -> PodAffinityTerm {
    let namespaces = namespaces.iter().copied().map(Str::from).collect();
    PodAffinityTerm { namespaces, namespace_selector: by_labels.map(selector), ..term }
}

trait Terms {
    fn wants(self, term: PodAffinityTerm) -> Self;
    fn shuns(self, term: PodAffinityTerm) -> Self;
    fn likes(self, weight: i32, term: PodAffinityTerm) -> Self;
    fn dislikes(self, weight: i32, term: PodAffinityTerm) -> Self;
}

impl Terms for PodBuilder {
    fn wants(self, term: PodAffinityTerm) -> Self {
        self.spec(|s| s.pod_affinity.get_or_insert_with(PodAffinity::default).required.push(term))
    }
    fn shuns(self, term: PodAffinityTerm) -> Self {
        self.spec(|s| s.pod_anti_affinity.get_or_insert_with(PodAffinity::default).required.push(term))
    }
    fn likes(self, weight: i32, term: PodAffinityTerm) -> Self {
        let add = |a: &mut PodAffinity| a.preferred.push((weight, term));
        self.spec(|s| add(s.pod_affinity.get_or_insert_with(PodAffinity::default)))
    }
    fn dislikes(self, weight: i32, term: PodAffinityTerm) -> Self {
        let add = |a: &mut PodAffinity| a.preferred.push((weight, term));
        self.spec(|s| add(s.pod_anti_affinity.get_or_insert_with(PodAffinity::default)))
    }
}

/// Namespaces `a1` and `a2` of team `a`, and `b1` and `b2` of team `b`.
fn with_teams(mut nodes: Cluster) -> Cluster {
    for (name, team) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        let namespace = Namespace { name: name.into(), labels: labels(&[("team", team)]) };
        nodes.set_object(Object::Namespace(namespace));
    }
    nodes
}

/// Verdict for each node, in the order in which an attempt visits them: `FITS`, or the check that rejects the node. If
/// PreFilter skips the pod, the only element is `SKIPPED`.
fn verdicts(nodes: &Cluster, pod: &PodInfo) -> Vec<&'static str> {
    verdicts_by(&trial(), nodes, pod)
}

fn verdicts_by(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Vec<&'static str> {
    match trial.pre_filter(nodes, pod).unwrap() {
        PreFiltered::Skip => return vec![SKIPPED],
        PreFiltered::Continue { only: None, .. } => {}
        other => panic!("{other:?}"),
    }
    batch_equals_single(trial, nodes, pod);
    each(nodes).map(|node| word(&trial.verdict(nodes, pod, node.name()))).collect()
}

const SKIPPED: &str = "skipped";
const FITS: &str = "fits";
const AFFINITY: &str = "affinity";
const ANTI: &str = "anti-affinity";
const OTHERS: &str = "anti-affinity of others";

fn word(verdict: &Result<(), Reject>) -> &'static str {
    let Err(reject) = verdict else { return FITS };
    match (reject.fix, reject.message().as_str()) {
        (Fix::NothingHelps, "node(s) didn't match pod affinity rules") => AFFINITY,
        (Fix::EvictionMayHelp, "node(s) didn't match pod anti-affinity rules") => ANTI,
        (Fix::EvictionMayHelp, "node(s) didn't satisfy existing pods anti-affinity rules") => OTHERS,
        other => panic!("{other:?}"),
    }
}

/// The nodes in the order in which an attempt visits them.
fn each(nodes: &Cluster) -> impl Iterator<Item = NodeRef<'_>> {
    nodes.order().iter().map(|row| nodes.node(*row))
}
