//! The complete state of the engine, for debugging and for the page that a browser shows: see [`crate::Engine::dump`].

use std::sync::Arc;

use harbormaster_api::{Release, Resources, Str, node::LABEL_ZONE};
use harbormaster_framework::{
    group::{GroupId, PodGroup},
    pod::PodInfo,
};

use crate::{Engine, cache::Cache, nominator::Nominator, pods::Pods, queue::Entity};

/// Nodes with their pods, and pods without a node. The lists are in no particular order.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// All nodes, including deleted ones that still have pods.
    pub nodes: Vec<DumpedNode>,
    /// Pods in the active queue, and pods about which extenders are being asked.
    pub active: Vec<Arc<PodInfo>>,
    /// Pods in backoff.
    pub backoff: Vec<Arc<PodInfo>>,
    /// Rejected pods that wait for an event.
    pub unschedulable: Vec<Arc<PodInfo>>,
    /// Pods that a PreEnqueue plugin holds back.
    pub gated: Vec<Arc<PodInfo>>,
    /// Members of groups whose objects do not exist.
    pub incomplete: Vec<Arc<PodInfo>>,
    /// Pods without a node that the engine does not schedule: pods of other schedulers and pods that are being deleted.
    pub left_alone: Vec<Arc<PodInfo>>,
    /// All groups of pods; `None` if no profile has groups.
    pub groups: Option<Vec<DumpedGroup>>,
    /// The release that the engine reproduces.
    pub release: Release,
}

/// One group of pods.
#[derive(Clone, Debug)]
pub struct DumpedGroup {
    /// Namespace and name.
    pub id: GroupId,
    /// The group; `None` if its object does not exist.
    pub group: Option<Arc<PodGroup>>,
    /// Number of unfinished members.
    pub pods: usize,
    /// Number of members on nodes, bound or assumed.
    pub scheduled: usize,
}

/// One node.
#[derive(Clone, Debug, Default)]
pub struct DumpedNode {
    /// Name of the node.
    pub name: Str,
    /// Value of the label `topology.kubernetes.io/zone`.
    pub zone: Option<Str>,
    /// True if the node object was deleted or has not arrived yet.
    pub deleted: bool,
    /// Total requests of the node's pods.
    pub requested: Resources,
    /// Allocatable resources of the node.
    pub allocatable: Resources,
    /// Pods on the node, bound or assumed.
    pub pods: Vec<Arc<PodInfo>>,
    /// Pods nominated to the node.
    pub nominated: Vec<Arc<PodInfo>>,
}

impl Engine {
    /// Returns the complete state. A pod that the queue has lost by mistake appears nowhere in the dump. This method
    /// visits every pod, so use it only while somebody looks.
    pub fn dump(&self) -> Dump {
        let queue = self.queue();
        let is_left_alone = |pod: &&Arc<PodInfo>| {
            let waits = !pod.is_terminating() && queue.profile_of(&pod.spec.scheduler_name).is_some();
            !waits && !self.cache().is_on_node(&pod.uid) && queue.get(&pod.uid).is_none()
        };
        let is_gated = |entity: &&Entity| entity.gated_by.is_some();
        let pods = |entity: &Entity| entity.pods().iter().map(|entry| entry.pod.clone()).collect::<Vec<_>>();
        Dump {
            nodes: nodes(self.cache(), self.nominator(), self.known()),
            active: queue.active().flat_map(pods).chain(self.inquiries().pods().cloned()).collect(),
            backoff: queue.backing_off().flat_map(pods).collect(),
            unschedulable: queue.unschedulable().filter(|entity| !is_gated(entity)).flat_map(pods).collect(),
            gated: queue.unschedulable().filter(is_gated).flat_map(pods).collect(),
            incomplete: queue.incomplete().map(|entry| entry.pod.clone()).collect(),
            left_alone: self.pods().filter(is_left_alone).cloned().collect(),
            groups: self.cache().groups.dump(),
            release: queue.release(),
        }
    }
}

fn nodes(cache: &Cache, nominator: &Nominator, known: &Pods) -> Vec<DumpedNode> {
    let pods = |uids: &[Str]| uids.iter().filter_map(|uid| known.get(uid)).cloned().collect();
    let rows = cache.cluster.nodes().all();
    rows.map(|node| DumpedNode {
        name: node.name().clone(),
        zone: node.labels().and_then(|labels| labels.get(LABEL_ZONE)).cloned(),
        deleted: node.object().is_none(),
        requested: node.requested(),
        allocatable: node.allocatable(),
        pods: node.pods().to_vec(),
        nominated: pods(nominator.pods_on(node.name())),
    })
    .collect()
}
