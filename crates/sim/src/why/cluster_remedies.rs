//! Finds small changes to the rest of the cluster: a node that accepts pods again, a further node, pods that make room,
//! or workloads that let the pod in.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Node, Pod, Resources,
    node::LABEL_HOSTNAME,
    taint::{Taint, UNSCHEDULABLE},
};
use harbormaster_core::cache::Cache;
use harbormaster_framework::attempt::AttemptError;
use rustc_hash::FxHashSet;

use super::{Change, Remedy, edits::in_service, objects::Objects, trials::Trials};

impl Trials {
    /// Returns the smallest change of each kind.
    pub(super) fn cluster_remedies(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let remedies = [self.uncordon()?, self.add_node()?, self.make_room()?];
        let mut remedies: Vec<Remedy> = remedies.into_iter().flatten().collect();
        remedies.extend(self.drop_anti_affinity_of_others()?);
        Ok(remedies)
    }

    fn uncordon(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let probe = Change::Tolerate { taint: UNSCHEDULABLE.clone() };
        for name in self.fits(&[probe])? {
            if !self.judge.cache.node(&name).is_some_and(|node| node.unschedulable) {
                continue;
            }
            if let Some(remedy) = self.remedy(vec![Change::Uncordon { node: name }])? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }

    /// Finds the smallest existing node of which an empty copy has room for the pod.
    fn add_node(&mut self) -> Result<Option<Remedy>, AttemptError> {
        for like in shapes(&self.pod, &self.judge.cache, &self.objects) {
            if let Some(remedy) = self.remedy(vec![Change::AddNode { like: like.name.clone() }])? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }
}

/// Returns one node of each shape, the smallest first. Nodes with equal resources, labels and taints have the same
/// shape, if they also have the same devices or the pod needs none.
pub(super) fn shapes(pod: &Pod, cache: &Cache, objects: &Objects) -> Vec<Arc<Node>> {
    let mut known = FxHashSet::default();
    let devices = |node: &Node| match pod.spec.resource_claims.is_empty() {
        true => Vec::new(),
        false => objects.devices(&node.name),
    };
    let nodes = cache.cluster.nodes().nodes().filter_map(|node| node.object());
    let mut shapes: Vec<Arc<Node>> =
        nodes.filter(|node| known.insert((shape(node), devices(node)))).cloned().collect();
    let size = |node: &Arc<Node>| (node.allocatable.milli_cpu, node.allocatable.memory);
    shapes.sort_by(|a, b| size(a).cmp(&size(b)).then(a.name.cmp(&b.name)));
    shapes
}

/// Returns what two nodes must share to be alike for new pods.
fn shape(node: &Node) -> (Resources, Labels, Arc<[Taint]>) {
    let labels = node.labels.iter().filter(|(key, _)| *key != LABEL_HOSTNAME);
    let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    (node.allocatable.clone(), labels, in_service(node).taints)
}
