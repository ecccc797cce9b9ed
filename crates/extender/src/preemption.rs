//! The request and answer for the preempt verb.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    object::Pod,
    wire::{self, ExtenderPreemptionArgs, ExtenderPreemptionResult, MetaPod, MetaVictims, RawObject},
};

/// A pod that preempts others, and the proposed victims on each node. Clones share the data.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// The preemptor.
    pub pod: Arc<Pod>,
    /// Victims, keyed by node name.
    pub nodes: Arc<BTreeMap<String, Victims>>,
}

/// Victims on one node.
#[derive(Clone, Debug, Default)]
pub struct Victims {
    /// The pods, the most important first.
    pub pods: Vec<Victim>,
    /// Number of victims whose eviction violates a PodDisruptionBudget.
    pub pdb_violations: i64,
}

/// A victim: its UID, and the object if the scheduler sent it.
#[derive(Clone, Debug)]
pub struct Victim {
    /// The UID.
    pub uid: String,
    /// The pod; `None` if the scheduler sends UIDs only (`nodeCacheCapable: true`).
    pub pod: Option<Pod>,
}

/// Answer to a preempt request: the nodes on which pods may be evicted, each with the pods to evict. The pods must be
/// among the node's victims in the request.
#[derive(Clone, Debug, Default)]
pub struct Preempted(pub BTreeMap<String, Victims>);

impl Preemption {
    /// Converts a request, in either form, from the wire format.
    ///
    /// # Errors
    /// If a value is missing or invalid; the error contains its path.
    pub fn new(args: ExtenderPreemptionArgs) -> Result<Self, String> {
        let pod = args.pod.ok_or("Pod: missing")?;
        let pod = Pod::at("Pod", pod)?;
        let mut nodes = BTreeMap::new();
        for (node, victims) in args.node_name_to_meta_victims.into_iter().flatten() {
            nodes.insert(node, Victims::by_uid(victims.unwrap_or_default()));
        }
        for (node, victims) in args.node_name_to_victims.into_iter().flatten() {
            let victims =
                Victims::of_objects(&format!("NodeNameToVictims.{node}"), victims.unwrap_or_default())?;
            nodes.insert(node, victims);
        }
        Ok(Self { pod: Arc::new(pod), nodes: Arc::new(nodes) })
    }

    /// Returns the nodes for which `stays` returns true, with all their victims.
    pub fn keep(&self, mut stays: impl FnMut(&str, &Victims) -> bool) -> Preempted {
        let kept = self.nodes.iter().filter(|(node, victims)| stays(node, victims));
        Preempted(kept.map(|(node, victims)| (node.clone(), victims.clone())).collect())
    }
}

impl Victims {
    fn by_uid(victims: MetaVictims) -> Self {
        let pods = victims.pods.into_iter().flatten().flatten();
        let pods = pods.map(|pod| Victim { uid: pod.uid, pod: None }).collect();
        Self { pods, pdb_violations: victims.num_pdb_violations }
    }

    fn of_objects(place: &str, victims: wire::Victims) -> Result<Self, String> {
        let objects = victims.pods.into_iter().flatten().flatten().enumerate();
        let pods = objects.map(|(at, object)| Victim::of_object(&format!("{place}.Pods[{at}]"), object));
        Ok(Self { pods: pods.collect::<Result<_, _>>()?, pdb_violations: victims.num_pdb_violations })
    }

    fn answer(self) -> MetaVictims {
        let pods = self.pods.into_iter().map(|victim| Some(MetaPod { uid: victim.uid })).collect();
        MetaVictims { pods: Some(pods), num_pdb_violations: self.pdb_violations }
    }
}

impl Victim {
    fn of_object(place: &str, object: RawObject) -> Result<Self, String> {
        let pod = Pod::at(place, object)?;
        Ok(Self { uid: pod.metadata.uid.clone(), pod: Some(pod) })
    }
}

impl Preempted {
    pub(crate) fn answer(self) -> ExtenderPreemptionResult {
        let nodes = self.0.into_iter().map(|(node, victims)| (node, Some(victims.answer()))).collect();
        ExtenderPreemptionResult { node_name_to_meta_victims: Some(nodes) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::decode;

    fn answer(args: &Value, stays: impl FnMut(&str, &Victims) -> bool) -> Value {
        let ask = Preemption::new(decode(args.to_string().as_bytes()).unwrap()).unwrap();
        serde_json::to_value(ask.keep(stays).answer()).unwrap()
    }

    #[test]
    fn both_forms_are_answered_with_uids() {
        let uids = json!({"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1});
        let pod = |uid: &str| json!({"metadata": {"name": uid, "uid": uid}});
        let objects = json!({"Pods": [pod("u1"), pod("u2")], "NumPDBViolations": 1});
        let expected = json!({"NodeNameToMetaVictims": {"n1": uids}});
        let args =
            json!({"Pod": {}, "NodeNameToVictims": null, "NodeNameToMetaVictims": {"n1": uids, "n2": null}});
        assert_eq!(answer(&args, |_, victims| !victims.pods.is_empty()), expected);
        let args = json!({"Pod": {}, "NodeNameToVictims": {"n1": objects, "n2": null}, "NodeNameToMetaVictims": null});
        let is_known = |victim: &Victim| victim.pod.as_ref().is_some_and(|p| p.metadata.name == victim.uid);
        assert_eq!(answer(&args, |node, v| node == "n1" && v.pods.iter().all(is_known)), expected);
        assert_eq!(answer(&args, |_, _| false), json!({"NodeNameToMetaVictims": {}}));
    }

    #[test]
    fn errors_contain_the_path_of_the_unreadable_value() {
        for (args, expected) in [
            (json!({}), "Pod: missing"),
            (
                json!({"Pod": {}, "NodeNameToVictims": {"n1": {"Pods": [{"metadata": 7}]}}}),
                "NodeNameToVictims.n1.Pods[0].metadata",
            ),
        ] {
            let error = Preemption::new(decode(args.to_string().as_bytes()).unwrap()).unwrap_err();
            assert!(error.starts_with(expected), "{args}: {error}");
        }
    }
}
