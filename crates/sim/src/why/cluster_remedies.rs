//! Finds small changes to the rest of the cluster: a node that accepts pods again, a further node, a pod that makes
//! room.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Node, Pod, Resources, Str,
    node::LABEL_HOSTNAME,
    requests::spec_request,
    taint::{TAINT_NODE_UNSCHEDULABLE, Taint, UNSCHEDULABLE},
};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};
use rustc_hash::FxHashSet;

use super::{Change, Remedy, ideas::ideas, trials::Trials};

/// Maximum number of pods that are tried as the one that makes room, the smallest first.
const MOVES: usize = 30;

/// Maximum number of nodes to which a pod is moved on trial.
const REFUGES: usize = 5;

impl Trials {
    /// Returns the smallest change of each kind.
    pub(super) fn cluster_remedies(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let remedies = [self.uncordon()?, self.add_node()?, self.make_room()?];
        Ok(remedies.into_iter().flatten().collect())
    }

    fn uncordon(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let probe = Change::Tolerate { taint: UNSCHEDULABLE.clone() };
        for name in self.fits(&[probe])? {
            let Some(old) = self.judge.cache.node(&name).cloned().filter(|node| node.unschedulable) else {
                continue;
            };
            self.judge.cache.set_node(Arc::new(in_service(&old)));
            let remedy = self.remedy(vec![Change::Uncordon { node: name }]);
            self.judge.cache.set_node(old);
            if let Some(remedy) = remedy? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }

    /// Finds the smallest existing node of which an empty copy has room for the pod.
    fn add_node(&mut self) -> Result<Option<Remedy>, AttemptError> {
        for like in self.shapes() {
            let copy = self.copy_of(&like);
            let name = copy.name.clone();
            self.judge.cache.set_node(Arc::new(copy));
            let remedy = self.remedy(vec![Change::AddNode { like: like.name.clone() }]);
            self.judge.cache.remove_node(&name);
            if let Some(remedy) = remedy? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }

    /// Returns one node of each shape, the smallest first. Nodes with equal resources, labels and taints have the same
    /// shape.
    fn shapes(&self) -> Vec<Arc<Node>> {
        let mut known = FxHashSet::default();
        let nodes = self.judge.cache.cluster.nodes().nodes().filter_map(|node| node.object());
        let mut shapes: Vec<Arc<Node>> = nodes.filter(|node| known.insert(shape(node))).cloned().collect();
        let size = |node: &Arc<Node>| (node.allocatable.milli_cpu, node.allocatable.memory);
        shapes.sort_by(|a, b| size(a).cmp(&size(b)).then(a.name.cmp(&b.name)));
        shapes
    }

    /// Returns an empty node like this one, with a name that no node has.
    fn copy_of(&self, node: &Node) -> Node {
        let names = (1..).map(|number| Str::from(format!("{}-copy-{number}", node.name)));
        let free = names.into_iter().find(|name| self.judge.cache.node(name).is_none());
        let name = free.unwrap_or_default();
        let labels = node.labels.iter().map(|(key, value)| match key.as_str() {
            LABEL_HOSTNAME => (key.clone(), name.clone()),
            _ => (key.clone(), value.clone()),
        });
        let labels = labels.collect();
        Node { uid: name.clone(), name, labels, ..in_service(node) }
    }

    /// Finds the smallest pod that makes enough room if it leaves its node, preferably one that fits elsewhere.
    fn make_room(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let mut stop = None;
        for (node, victim) in self.removable()? {
            self.judge.cache.remove(&victim.uid);
            let room = self.room_on(&node, &victim);
            self.judge.cache.set_pod(victim, &node);
            match room? {
                Some(remedy) if matches!(remedy.changes[..], [Change::MovePod { .. }]) => {
                    return Ok(Some(remedy));
                }
                other => stop = stop.or(other),
            }
        }
        Ok(stop)
    }

    /// Returns the remedy if the pod fits on `node`, which `victim` has left.
    fn room_on(&mut self, node: &Str, victim: &Arc<PodInfo>) -> Result<Option<Remedy>, AttemptError> {
        let fits = self.fits(&[])?;
        if !fits.contains(node) {
            return Ok(None);
        }
        let (pod, from) = (victim.full_name(), node.clone());
        let remedy = |change, fits: usize| {
            Some(Remedy { changes: vec![change], fits, example: node.as_str().to_owned() })
        };
        for to in self.refuges(node, victim)? {
            // The pod's own constraints may concern the place of the other pod.
            self.judge.cache.set_pod(victim.clone(), &to);
            let fits = self.fits(&[]);
            self.judge.cache.remove(&victim.uid);
            let fits = fits?;
            if fits.contains(node) {
                return Ok(remedy(Change::MovePod { pod, from, to }, fits.len()));
            }
        }
        Ok(remedy(Change::StopPod { pod, from }, fits.len()))
    }

    /// Returns some nodes on which `victim` fits once the pod is on `node`.
    fn refuges(&mut self, node: &Str, victim: &PodInfo) -> Result<Vec<Str>, AttemptError> {
        let pod = self.info(&[]);
        self.judge.cache.assume(&pod, node);
        let homeless = self.judge.cache.info(Pod { node_name: None, ..Pod::clone(&victim.pod) });
        let elsewhere = self.judge.fitting(&homeless);
        self.judge.cache.forget(&pod.uid);
        let mut nodes = elsewhere?;
        nodes.retain(|to| to != node);
        nodes.truncate(REFUGES);
        Ok(nodes)
    }

    /// Returns pods with their nodes, the smallest first, whose requests would make room on nodes where nothing is
    /// missing but what pods take from each other.
    fn removable(&mut self) -> Result<Vec<(Str, Arc<PodInfo>)>, AttemptError> {
        let wanted = spec_request(&self.pod.spec);
        let mut contested = ideas(&self.pod, &self.judge.cache.cluster);
        contested.retain(|change| {
            matches!(
                change,
                Change::LowerRequest { .. }
                    | Change::DropHostPort { .. }
                    | Change::SoftenSpread { .. }
                    | Change::DropPodAntiAffinity { .. }
            )
        });
        let rows = self.fits(&contested)?;
        let cluster = &self.judge.cache.cluster;
        let mut found = Vec::new();
        for name in rows {
            let Some(row) = cluster.find(&name) else { continue };
            let node = cluster.node(row);
            let mut free = node.allocatable();
            free.sub(&node.requested());
            let makes_room = |pod: &&Arc<PodInfo>| {
                may_move(pod, self.pod.spec.priority) && covers(&free, pod.request(), &wanted)
            };
            found.extend(node.pods().iter().filter(makes_room).map(|pod| (name.clone(), pod.clone())));
        }
        let size = |pod: &PodInfo| (pod.request().milli_cpu, pod.request().memory);
        found.sort_by_cached_key(|(_, pod)| (size(pod), pod.full_name()));
        found.truncate(MOVES);
        Ok(found)
    }
}

/// Returns true if the pod may leave its node for a pod of this priority. Pods of DaemonSets and static pods would come
/// back.
fn may_move(pod: &PodInfo, priority: i32) -> bool {
    let is_bound_to_node =
        pod.controller.as_ref().is_some_and(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"));
    pod.spec.priority <= priority && !pod.is_terminating() && !is_bound_to_node
}

/// Returns true if the free resources and those of one pod are enough.
fn covers(free: &Resources, pod: &Resources, wanted: &Resources) -> bool {
    let mut room = free.clone();
    room.add(pod);
    let enough = |has: i64, wants: i64| wants == 0 || has >= wants;
    enough(room.milli_cpu, wanted.milli_cpu)
        && enough(room.memory, wanted.memory)
        && enough(room.ephemeral_storage, wanted.ephemeral_storage)
        && wanted.scalars.iter().all(|(name, wants)| enough(room.scalar(name), *wants))
}

/// Returns the node without the marks of a node that is out of service at the moment.
fn in_service(node: &Node) -> Node {
    let stays = |taint: &&Taint| taint.key != TAINT_NODE_UNSCHEDULABLE;
    let taints = node.taints.iter().filter(stays).cloned().collect();
    Node { unschedulable: false, taints, ..node.clone() }
}

/// Returns what two nodes must share to be alike for new pods.
fn shape(node: &Node) -> (Resources, Labels, Arc<[Taint]>) {
    let labels = node.labels.iter().filter(|(key, _)| *key != LABEL_HOSTNAME);
    let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    (node.allocatable.clone(), labels, in_service(node).taints)
}
