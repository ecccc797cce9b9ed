//! What the engine knows of the cluster: nodes with their pods, and pods it has decided about but not yet seen bound.

use std::sync::Arc;

use harbormaster_api::{Node, Object, ObjectKey, Pod, Str, Timestamp};
use harbormaster_framework::{
    cluster::Cluster,
    pod::{PodInfo, SpecTable},
    profile::Profile,
    resource::ResourceKind,
};
use rustc_hash::FxHashMap;

use crate::queue::Moment;

/// Nodes, and pods on nodes.
///
/// A pod on a node is *assumed* while its binding is on its way and *added* once the API server says so. There is no
/// expiry: an assumed pod leaves by confirmation, by [`Cache::forget`] or by deletion.
#[derive(Debug, Default)]
pub struct Cache {
    /// Nodes with their pods, other objects, and what plugins keep.
    pub cluster: Cluster,
    /// Specs that pods share.
    pub specs: SpecTable,
    /// Kinds of custom objects that are kept.
    kinds: Vec<ResourceKind>,
    placed: FxHashMap<Str, Placed>,
    /// How many of them are assumed.
    assumed: usize,
    objects: FxHashMap<Str, Arc<Node>>,
}

#[derive(Debug)]
struct Placed {
    node: Str,
    assumed: bool,
}

impl Cache {
    /// Knows nothing yet, and will keep the custom objects that plugins of these profiles read.
    pub fn of(profiles: &[Arc<Profile>]) -> Self {
        let mut cache = Self::default();
        cache.keep_objects_for(profiles);
        cache
    }

    /// Keeps from now on, besides what is kept already, the custom objects that plugins of these profiles read, and their
    /// indexes.
    pub fn keep_for(&mut self, profiles: &[Arc<Profile>]) {
        self.keep_objects_for(profiles);
        for (_, kind) in profiles.iter().flat_map(|profile| profile.indexed()) {
            self.cluster.keep(*kind);
        }
    }

    fn keep_objects_for(&mut self, profiles: &[Arc<Profile>]) {
        for kind in self.lacks(profiles) {
            self.cluster.keep_resource(kind);
            self.kinds.push(kind);
        }
    }

    /// The kinds of custom objects that plugins of these profiles read and that are not kept, each type once.
    pub fn lacks(&self, profiles: &[Arc<Profile>]) -> Vec<ResourceKind> {
        let mut lacking: Vec<ResourceKind> = Vec::new();
        for kind in profiles.iter().flat_map(|profile| profile.resources()) {
            if !self.kinds.iter().chain(&lacking).any(|kept| kept.is_same(&kind)) {
                lacking.push(kind);
            }
        }
        lacking
    }

    /// What the queue needs to know now.
    pub fn at(&self, now: Timestamp) -> Moment<'_> {
        Moment { now, objects: self.cluster.objects() }
    }

    /// The pod with its spec shared.
    pub fn info(&mut self, pod: Pod) -> Arc<PodInfo> {
        Arc::new(PodInfo::new(pod, &mut self.specs))
    }

    /// A node appeared or changed; the node before.
    pub fn set_node(&mut self, node: Arc<Node>) -> Option<Arc<Node>> {
        let old = self.objects.insert(node.name.clone(), node.clone());
        self.cluster.set_node(node);
        old
    }

    /// The node object of that name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.objects.get(name)
    }

    /// A node is gone; what it was.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let old = self.objects.remove(name)?;
        self.cluster.remove_node(name);
        Some(old)
    }

    /// Another object is new or changed.
    pub fn set_object(&mut self, object: Object) {
        self.cluster.set_object(object);
    }

    /// Another object is gone.
    pub fn remove_object(&mut self, key: &ObjectKey) {
        self.cluster.remove_object(key);
    }

    /// Whether the pod is assumed to be on a node.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.placed.get(uid).is_some_and(|p| p.assumed)
    }

    /// Whether the pod is on a node, assumed or not.
    pub fn is_placed(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// Counts the pod on `node` before the API server does; `false` if it is on a node already.
    pub fn assume(&mut self, pod: &PodInfo, node: &Str) -> bool {
        if self.placed.contains_key(&pod.uid) {
            return false;
        }
        self.place(pod.assumed_on(node), node, true);
        true
    }

    /// The decision about the pod is off.
    pub fn forget(&mut self, uid: &str) {
        if self.is_assumed(uid) {
            self.remove(uid);
        }
    }

    /// The API server says that the pod is on `node`: confirms an assumption, or adds or replaces the pod.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>, node: &Str) {
        match self.placed.get_mut(&pod.uid) {
            Some(placed) if placed.node == *node && self.cluster.replace_pod(node, &pod) => {
                self.assumed -= usize::from(std::mem::take(&mut placed.assumed));
            }
            _ => {
                self.remove(&pod.uid.clone());
                self.place(pod, node, false);
            }
        }
    }

    /// The pod is gone from its node.
    pub fn remove(&mut self, uid: &str) {
        if let Some(placed) = self.placed.remove(uid) {
            self.assumed -= usize::from(placed.assumed);
            self.cluster.remove_pod(&placed.node, uid);
        }
    }

    /// How many pods are on nodes, and how many of them are assumed.
    pub fn pod_counts(&self) -> (usize, usize) {
        (self.placed.len(), self.assumed)
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: &Str, assumed: bool) {
        self.placed.insert(pod.uid.clone(), Placed { node: node.clone(), assumed });
        self.assumed += usize::from(assumed);
        self.cluster.add_pod(node, pod);
    }
}
