//! Difference between two simulations: which pods got, changed or lost their node. The JSON form is stable, since tools
//! read it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use harbormaster_framework::pod::PodInfo;
use serde::{Serialize, Serializer};

use crate::{
    inventory::Inventory,
    report::{Fate, PodReport, Report},
    usage::Usage,
};

/// All pods of a cluster at the end of a simulation: those that had a node from the beginning, then the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pods: Vec<PodReport>,
    nodes: BTreeSet<String>,
    cordoned: BTreeSet<String>,
}

impl Outcome {
    /// Returns the pods of the cluster before a simulation. [`Self::after`] adds what the simulation did.
    pub fn before(cluster: &Inventory) -> Self {
        let nodes: BTreeSet<String> = cluster.nodes.iter().map(|node| node.name.to_string()).collect();
        let cordoned = cluster.nodes.iter().filter(|node| node.unschedulable);
        let cordoned = cordoned.map(|node| node.name.to_string()).collect();
        let on_nodes = cluster.bound.iter().filter_map(|pod| {
            let node = pod.node_name.as_ref().filter(|node| nodes.contains(node.as_str()))?.to_string();
            Some(PodReport { node: Some(node), ..PodReport::of(&PodInfo::standalone(pod.clone())) })
        });
        Self { pods: on_nodes.collect(), nodes, cordoned }
    }

    /// Returns the pods after the simulation of the same cluster.
    #[must_use]
    pub fn after(mut self, report: &Report) -> Self {
        let reported: BTreeSet<&str> = report.pods.iter().map(|pod| pod.pod.as_str()).collect();
        self.pods.retain(|pod| !reported.contains(pod.pod.as_str()));
        self.pods.extend(report.pods.iter().cloned());
        self
    }

    fn totals(&self) -> BTreeMap<&'static str, usize> {
        let of = |fate: &Fate| self.pods.iter().filter(|pod| pod.fate() == *fate).count();
        Fate::ALL.iter().map(|fate| (fate.word(), of(fate))).collect()
    }
}

/// Effect of a change of the cluster on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The pod had a node and has none.
    Lost,
    /// The pod has another node.
    Moved,
    /// The pod had no node and has one.
    Gained,
    /// The pod is new.
    Added,
    /// The pod is gone.
    Removed,
    /// The pod has no node in either case, but for another reason.
    OtherReason,
}

impl Effect {
    /// All effects.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Moved, Self::Gained, Self::Added, Self::Removed, Self::OtherReason];

    /// Returns the name of the effect in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Moved => "moved",
            Self::Gained => "gained",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::OtherReason => "otherReason",
        }
    }
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

/// A pod that a change of the cluster affects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Effect on the pod.
    pub effect: Effect,
    /// The pod without the change; `None` for a new pod.
    pub before: Option<PodReport>,
    /// The pod with the change; `None` for a pod that is gone.
    pub after: Option<PodReport>,
}

/// Effects of a change of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The changes, in words.
    pub changes: Vec<String>,
    /// Nodes that appear, go, or accept no more pods.
    pub nodes: NodeDifference,
    /// The pods that are affected.
    pub pods: Vec<ChangedPod>,
    /// Number of pods by effect; `unchanged` counts the others.
    pub totals: BTreeMap<&'static str, usize>,
    /// Number of pods by state, without the change.
    pub before: BTreeMap<&'static str, usize>,
    /// Number of pods by state, with the change.
    pub after: BTreeMap<&'static str, usize>,
    /// Use of the nodes without and with the change, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "named")]
    pub usage: Option<(Usage, Usage)>,
}

fn named<S: Serializer>(usage: &Option<(Usage, Usage)>, to: S) -> Result<S::Ok, S::Error> {
    let usage = usage.as_ref().map(|(before, after)| BTreeMap::from([("before", before), ("after", after)]));
    usage.serialize(to)
}

/// Nodes that a change affects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeDifference {
    /// New nodes.
    pub added: Vec<String>,
    /// Nodes that are gone.
    pub removed: Vec<String>,
    /// Nodes that accept no more pods.
    pub cordoned: Vec<String>,
}

/// Compares the cluster without and with a change. The pods are in the order of the changed cluster, followed by the
/// pods that are gone.
pub fn difference(before: &Outcome, after: &Outcome) -> Difference {
    let known: HashMap<&str, &PodReport> = before.pods.iter().map(|pod| (pod.pod.as_str(), pod)).collect();
    let mut pods: Vec<ChangedPod> = Vec::new();
    for pod in &after.pods {
        let old = known.get(pod.pod.as_str()).copied();
        if let Some(effect) = effect(old, pod) {
            pods.push(ChangedPod {
                pod: pod.pod.clone(),
                effect,
                before: old.cloned(),
                after: Some(pod.clone()),
            });
        }
    }
    let left: BTreeSet<&str> = after.pods.iter().map(|pod| pod.pod.as_str()).collect();
    pods.extend(before.pods.iter().filter(|pod| !left.contains(pod.pod.as_str())).map(|pod| ChangedPod {
        pod: pod.pod.clone(),
        effect: Effect::Removed,
        before: Some(pod.clone()),
        after: None,
    }));
    let of = |effect: Effect| pods.iter().filter(|pod| pod.effect == effect).count();
    let mut totals: BTreeMap<&str, usize> = Effect::ALL.iter().map(|one| (one.word(), of(*one))).collect();
    totals.insert("unchanged", after.pods.len() + of(Effect::Removed) - pods.len());
    let only =
        |some: &BTreeSet<String>, others: &BTreeSet<String>| some.difference(others).cloned().collect();
    let nodes = NodeDifference {
        added: only(&after.nodes, &before.nodes),
        removed: only(&before.nodes, &after.nodes),
        cordoned: only(&after.cordoned, &before.cordoned),
    };
    let (before, after) = (before.totals(), after.totals());
    Difference { changes: Vec::new(), nodes, pods, totals, before, after, usage: None }
}

fn effect(old: Option<&PodReport>, new: &PodReport) -> Option<Effect> {
    let Some(old) = old else { return Some(Effect::Added) };
    match (&old.node, &new.node) {
        (Some(from), Some(to)) => (from != to).then_some(Effect::Moved),
        (Some(_), None) => Some(Effect::Lost),
        (None, Some(_)) => Some(Effect::Gained),
        (None, None) => {
            let same = old.fate() == new.fate() && reasons(old) == reasons(new);
            (!same).then_some(Effect::OtherReason)
        }
    }
}

/// Returns the reasons why the pod has no node, without numbers of nodes, which change with every node.
fn reasons(pod: &PodReport) -> BTreeSet<&str> {
    let message = pod.message.as_deref().unwrap_or_default();
    // `0/6 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: 0/6 nodes …`
    let parts = message.split([',', ':']).flat_map(|part| part.split(". "));
    let bare = parts.map(|part| {
        let is_number = |c: char| c.is_ascii_digit() || c == '/' || c == ' ';
        part.trim_start_matches(is_number).trim_end_matches(['.', ' '])
    });
    bare.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: Option<&str>, message: &str) -> PodReport {
        let message = (!message.is_empty()).then(|| message.to_owned());
        PodReport { pod: name.to_owned(), node: node.map(str::to_owned), message, ..PodReport::default() }
    }

    fn outcome(pods: Vec<PodReport>, nodes: &[&str], cordoned: &[&str]) -> Outcome {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Outcome { pods, nodes: set(nodes), cordoned: set(cordoned) }
    }

    #[test]
    fn pods_are_compared_by_name_and_messages_without_their_numbers() {
        let full =
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No victims.";
        let fuller =
            "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No victims.";
        let other =
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 …";
        let before = vec![
            pod("stays", Some("a"), ""),
            pod("moves", Some("a"), ""),
            pod("loses", Some("a"), ""),
            pod("gains", None, full),
            pod("goes", Some("a"), ""),
            pod("waits", None, full),
            pod("differs", None, full),
        ];
        let after = vec![
            pod("stays", Some("a"), ""),
            pod("new", Some("b"), ""),
            pod("moves", Some("b"), ""),
            pod("loses", None, fuller),
            pod("gains", Some("b"), ""),
            pod("waits", None, fuller),
            pod("differs", None, other),
        ];
        let told =
            difference(&outcome(before, &["a", "b", "c"], &["c"]), &outcome(after, &["a", "b", "d"], &["a"]));
        let effects: Vec<(&str, Effect)> =
            told.pods.iter().map(|pod| (pod.pod.as_str(), pod.effect)).collect();
        let expected = [
            ("new", Effect::Added),
            ("moves", Effect::Moved),
            ("loses", Effect::Lost),
            ("gains", Effect::Gained),
            ("differs", Effect::OtherReason),
            ("goes", Effect::Removed),
        ];
        assert_eq!(effects, expected);
        assert_eq!(told.totals["unchanged"], 2);
        assert_eq!((told.before["placed"], told.after["placed"], told.after["unschedulable"]), (4, 4, 3));
        let nodes = told.nodes;
        assert_eq!(
            (nodes.added, nodes.removed, nodes.cordoned),
            (vec!["d".into()], vec!["c".into()], vec!["a".into()])
        );
    }
}
