//! Pods that are expected on a node once other pods have left it.

use std::sync::Arc;

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

use crate::pod::PodInfo;

/// Nominated pods of all priorities, by node. The host keeps them up to date. Includes the pod of the attempt, if it is
/// nominated.
#[derive(Debug, Default)]
pub struct Nominations(FxHashMap<Str, Vec<Arc<PodInfo>>>);

impl Nominations {
    /// Returns the pods nominated to a node, in order of nomination.
    pub fn on(&self, node: &str) -> &[Arc<PodInfo>] {
        self.0.get(node).map_or(&[], Vec::as_slice)
    }

    /// Nominated pods with the names of their nodes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &Arc<PodInfo>)> {
        self.0.iter().flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod)))
    }

    /// Returns true if no pod is nominated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects pairs of a node's name and a pod, each node's pods in order of nomination.
impl FromIterator<(Str, Arc<PodInfo>)> for Nominations {
    fn from_iter<I: IntoIterator<Item = (Str, Arc<PodInfo>)>>(pairs: I) -> Self {
        let mut by_node: FxHashMap<Str, Vec<Arc<PodInfo>>> = FxHashMap::default();
        for (node, pod) in pairs {
            by_node.entry(node).or_default().push(pod);
        }
        Self(by_node)
    }
}
