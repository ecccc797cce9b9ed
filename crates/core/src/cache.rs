//! The engine's view of the cluster: nodes with their pods, including pods that are assumed but not bound yet.

use std::sync::Arc;

use harbormaster_api::{Node, Object, ObjectKey, Pod, Str, Timestamp, requests::StatusRule};
use harbormaster_framework::{
    cluster::Cluster,
    group::GroupId,
    pod::{PodInfo, SpecTable},
    profile::Profile,
    resource::ResourceKind,
};
use rustc_hash::FxHashMap;

use crate::{groups::Groups, queue::Moment};

/// Nodes, and pods on nodes.
///
/// A pod on a node is *assumed* until its binding is confirmed, and *added* after that. An assumption does not expire.
/// It ends when the binding is confirmed, when [`Cache::forget`] is called or when the pod is deleted.
#[derive(Debug, Default)]
pub struct Cache {
    /// Nodes with their pods, other objects, and indexes.
    pub cluster: Cluster,
    /// Pod specs, shared between pods.
    pub specs: SpecTable,
    /// Groups of pods.
    pub(crate) groups: Groups,
    /// Kinds of the custom objects that are stored.
    kinds: Vec<ResourceKind>,
    on_nodes: FxHashMap<Str, PodOnNode>,
    /// Number of assumed pods.
    assumed: usize,
    objects: FxHashMap<Str, Arc<Node>>,
}

#[derive(Debug)]
struct PodOnNode {
    node: Str,
    assumed: bool,
    group: Option<GroupId>,
}

impl Cache {
    /// Creates an empty cache. The statuses of pods count as `status_rule` says.
    pub fn new(status_rule: StatusRule) -> Self {
        Self { specs: SpecTable::new(status_rule), ..Self::default() }
    }

    /// Creates an empty cache that will store the custom objects that plugins of these profiles read. There must be at
    /// least one profile.
    pub fn for_profiles(profiles: &[Arc<Profile>]) -> Self {
        let mut cache = Self::new(StatusRule::of(profiles[0].release()));
        cache.add_resources_for(profiles);
        cache
    }

    /// Starts storing the custom objects that plugins of these profiles read, and adds the indexes that the plugins
    /// use.
    pub fn prepare_for(&mut self, profiles: &[Arc<Profile>]) {
        self.groups.set_profiles(profiles);
        self.add_resources_for(profiles);
        for kind in profiles.iter().flat_map(|profile| profile.indexes()) {
            self.cluster.add_index(*kind);
        }
    }

    fn add_resources_for(&mut self, profiles: &[Arc<Profile>]) {
        for kind in self.missing_resources(profiles) {
            self.cluster.add_resource(kind);
            self.kinds.push(kind);
        }
    }

    /// Returns the kinds of custom objects that plugins of these profiles read but that are not stored yet, each Rust
    /// type once.
    pub fn missing_resources(&self, profiles: &[Arc<Profile>]) -> Vec<ResourceKind> {
        let mut missing: Vec<ResourceKind> = Vec::new();
        for kind in profiles.iter().flat_map(|profile| profile.resources()) {
            if !self.kinds.iter().chain(&missing).any(|known| known.is_same(&kind)) {
                missing.push(kind);
            }
        }
        missing
    }

    /// Returns the time and the objects that an operation on the queue needs.
    pub fn at(&self, now: Timestamp) -> Moment<'_> {
        Moment { now, objects: self.cluster.objects(), groups: &self.groups }
    }

    /// Creates a pod that shares its spec with pods whose spec is equal.
    pub fn info(&mut self, pod: Pod) -> Arc<PodInfo> {
        let group = self.groups.group_of(&pod);
        Arc::new(PodInfo::new(pod, &mut self.specs).in_group(group))
    }

    /// Adds or replaces a node. Returns the old version.
    pub fn set_node(&mut self, node: Arc<Node>) -> Option<Arc<Node>> {
        let old = self.objects.insert(node.name.clone(), node.clone());
        self.cluster.set_node(node);
        old
    }

    /// Returns the node object with the given name.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.objects.get(name)
    }

    /// Removes a node. Returns its last version.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let old = self.objects.remove(name)?;
        self.cluster.remove_node(name);
        Some(old)
    }

    /// Adds or replaces a built-in object other than a pod or node.
    pub fn set_object(&mut self, object: Object) {
        self.cluster.set_object(object);
    }

    /// Removes a built-in object other than a pod or node.
    pub fn remove_object(&mut self, key: &ObjectKey) {
        self.cluster.remove_object(key);
    }

    /// Returns true if the pod is assumed to be on a node.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.on_nodes.get(uid).is_some_and(|p| p.assumed)
    }

    /// Returns true if the pod is on a node, assumed or not.
    pub fn is_on_node(&self, uid: &str) -> bool {
        self.on_nodes.contains_key(uid)
    }

    /// Assumes that the pod is on `node`. Returns false if the pod is already on a node.
    pub fn assume(&mut self, pod: &PodInfo, node: &Str) -> bool {
        if self.on_nodes.contains_key(&pod.uid) {
            return false;
        }
        self.add_to_node(pod.assumed_on(node), node, true);
        true
    }

    /// Reverts the assumption that the pod is on a node.
    pub fn forget(&mut self, uid: &str) {
        if self.is_assumed(uid) {
            self.remove(uid);
        }
    }

    /// Stores a bound pod: confirms an assumption, or adds or replaces the pod.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>, node: &Str) {
        match self.on_nodes.get_mut(&pod.uid) {
            Some(pod_on_node) if pod_on_node.node == *node && self.cluster.replace_pod(node, &pod) => {
                self.assumed -= usize::from(std::mem::take(&mut pod_on_node.assumed));
            }
            _ => {
                self.remove(&pod.uid.clone());
                self.add_to_node(pod, node, false);
            }
        }
    }

    /// Removes the pod from its node.
    pub fn remove(&mut self, uid: &str) {
        if let Some(pod_on_node) = self.on_nodes.remove(uid) {
            self.assumed -= usize::from(pod_on_node.assumed);
            if let Some(group) = &pod_on_node.group {
                self.groups.left(group, uid);
            }
            self.cluster.remove_pod(&pod_on_node.node, uid);
        }
    }

    /// Returns the number of pods on nodes, and the number of assumed pods among them.
    pub fn pod_counts(&self) -> (usize, usize) {
        (self.on_nodes.len(), self.assumed)
    }

    fn add_to_node(&mut self, pod: Arc<PodInfo>, node: &Str, assumed: bool) {
        let group = pod.group().cloned();
        if let Some(group) = &group {
            self.groups.joined(group, &pod, node);
        }
        self.on_nodes.insert(pod.uid.clone(), PodOnNode { node: node.clone(), assumed, group });
        self.assumed += usize::from(assumed);
        self.cluster.add_pod(node, pod);
    }
}
