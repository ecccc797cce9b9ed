//! All that the engine holds, for those who look for faults: see [`crate::Engine::dump`].

use std::sync::Arc;

use harbormaster_api::{Resources, Str};
use harbormaster_framework::pod::PodInfo;

use crate::{Engine, cache::Cache, nominator::Nominator, pods::Pods};

/// Nodes with their pods, and pods without a node. In no order, but for the parts of the queue.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// The nodes, with those that are gone but for their pods.
    pub nodes: Vec<DumpedNode>,
    /// Pods that are to be tried.
    pub active: Vec<Arc<PodInfo>>,
    /// Pods that back off.
    pub backoff: Vec<Arc<PodInfo>>,
    /// Pods that wait for an event, those that are held back included.
    pub unschedulable: Vec<Arc<PodInfo>>,
    /// Pods without a node that are not to be tried: those of other schedulers, and those that are being deleted.
    pub left_alone: Vec<Arc<PodInfo>>,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub struct DumpedNode {
    /// Its name.
    pub name: Str,
    /// The API server has deleted it, or has not told of it yet.
    pub deleted: bool,
    /// What its pods ask for.
    pub requested: Resources,
    /// What it has for them.
    pub allocatable: Resources,
    /// The pods that count on it, bound or not.
    pub pods: Vec<Arc<PodInfo>>,
    /// The pods that are expected once others are gone.
    pub nominated: Vec<Arc<PodInfo>>,
}

impl Engine {
    /// All that is held. A pod without a node that should be in the queue and is not appears nowhere. Looks at every pod: for
    /// faults only.
    pub fn dump(&self) -> Dump {
        let queue = self.queue();
        let is_left_alone = |pod: &&Arc<PodInfo>| {
            let waits = !pod.is_terminating() && queue.profile_of(&pod.spec.scheduler_name).is_some();
            !waits && !self.cache().is_placed(&pod.uid) && queue.get(&pod.uid).is_none()
        };
        Dump {
            nodes: nodes(self.cache(), self.nominator(), self.known()),
            active: queue.active().map(|entry| entry.pod.clone()).collect(),
            backoff: queue.backing_off().map(|entry| entry.pod.clone()).collect(),
            unschedulable: queue.unschedulable().map(|entry| entry.pod.clone()).collect(),
            left_alone: self.pods().filter(is_left_alone).cloned().collect(),
        }
    }
}

fn nodes(cache: &Cache, nominator: &Nominator, known: &Pods) -> Vec<DumpedNode> {
    let pods = |uids: &[Str]| uids.iter().filter_map(|uid| known.get(uid)).cloned().collect();
    let rows = cache.cluster.nodes().all();
    rows.map(|node| DumpedNode {
        name: node.name().clone(),
        deleted: node.object().is_none(),
        requested: node.requested(),
        allocatable: node.allocatable(),
        pods: node.pods().to_vec(),
        nominated: pods(nominator.pods_on(node.name())),
    })
    .collect()
}
