//! Makes changes to the cluster on trial, and takes them back.

use std::sync::Arc;

use harbormaster_api::{
    Node, Pod, Str,
    node::LABEL_HOSTNAME,
    pod::PodSpec,
    taint::{TAINT_NODE_UNSCHEDULABLE, Taint},
};
use harbormaster_core::cache::Cache;
use harbormaster_framework::{pod::PodInfo, resource::CustomKey};

use serde_json::Value;

use super::{
    Change,
    change::Place,
    device_counts::set_count,
    objects::device_claim,
    storage::{set_capacity, set_limit, volume_for},
    trials::Trials,
    workload::workload_of,
};
use crate::inventory::CustomObject;

/// The former state of an object that a change replaced.
pub(super) enum Replaced {
    /// A node.
    Node(Arc<Node>),
    /// The name of a node that did not exist.
    NoNode(Str),
    /// The key of an object that did not exist.
    NoCustom(CustomKey),
    /// An object as JSON.
    Custom(CustomObject),
    /// A pod and its node.
    Pod(Arc<PodInfo>, Str),
    /// A node, and its pods in their order, which decides between equally important victims.
    Order(Str, Vec<Arc<PodInfo>>),
}

impl Trials {
    /// Makes a change to the cluster. Changes to the pod itself have no effect here.
    pub(super) fn make(&mut self, change: &Change) -> Vec<Replaced> {
        match change {
            Change::Uncordon { node } => self.uncordoned(node).into_iter().collect(),
            Change::AddNode { like } => self.added(like),
            Change::MovePod { pod, from, to, .. } => self.moved(pod, from, Some(to)),
            Change::MovePods { moves, .. } => {
                moves.iter().flat_map(|one| self.moved(&one.pod, &one.from, Some(&one.to))).collect()
            }
            Change::StopPod { pod, from, .. } => self.moved(pod, from, None),
            Change::StopPods { pods, .. } => {
                pods.iter().flat_map(|Place { pod, from }| self.moved(pod, from, None)).collect()
            }
            Change::RaisePriority { victims, node, .. } => {
                victims.iter().flat_map(|pod| self.moved(pod, node, None)).collect()
            }
            Change::DropAntiAffinityOf { workload, topology_key, .. } => {
                self.without_anti_affinity(workload, topology_key)
            }
            Change::FewerDevices { claim, request, to, .. } => {
                let Some(name) = device_claim(&self.pod, claim).cloned() else { return Vec::new() };
                self.edited("ResourceClaim", &name, |claim| set_count(claim, request, *to))
            }
            Change::RaiseVolumeLimit { node, driver, to, .. } => {
                self.edited("CSINode", node, |node| set_limit(node, driver, *to))
            }
            Change::GrowStorage { capacity, to, .. } => {
                self.edited("CSIStorageCapacity", capacity, |capacity| set_capacity(capacity, to))
            }
            Change::AddVolume { claim, node, .. } => self.with_volume(claim, node),
            _ => Vec::new(),
        }
    }

    /// Takes back changes to the cluster, the last one first.
    pub(super) fn undo(&mut self, replaced: Vec<Replaced>) {
        for old in replaced.into_iter().rev() {
            match old {
                Replaced::Node(node) => drop(self.judge.cache.set_node(node)),
                Replaced::NoNode(name) => drop(self.judge.cache.remove_node(&name)),
                Replaced::NoCustom(key) => drop(self.judge.cache.cluster.remove_custom(&key)),
                Replaced::Custom(old) => {
                    for raw in self.objects.restore(old) {
                        self.judge.cache.cluster.set_custom(&raw);
                    }
                }
                Replaced::Pod(pod, node) => self.judge.cache.set_pod(pod, &node),
                Replaced::Order(node, pods) => {
                    let cluster = &mut self.judge.cache.cluster;
                    if let Some(row) = cluster.find(&node) {
                        cluster.what_if().dry_run_end(row, pods);
                    }
                }
            }
        }
    }

    /// Removes pods from their nodes.
    pub(super) fn remove(&mut self, pods: &[(Arc<PodInfo>, Str)]) -> Vec<Replaced> {
        let mut replaced = Vec::new();
        for (pod, node) in pods {
            replaced.extend(self.order_on(node));
            self.judge.cache.remove(&pod.uid);
            replaced.push(Replaced::Pod(pod.clone(), node.clone()));
        }
        replaced
    }

    fn order_on(&self, node: &Str) -> Option<Replaced> {
        let cluster = &self.judge.cache.cluster;
        Some(Replaced::Order(node.clone(), cluster.node(cluster.find(node)?).pods().to_vec()))
    }

    /// Edits an object.
    fn edited(&mut self, kind: &str, name: &str, edit: impl FnOnce(&mut Value)) -> Vec<Replaced> {
        let Some((old, new)) = self.objects.change(kind, name, edit) else { return Vec::new() };
        new.iter().for_each(|raw| drop(self.judge.cache.cluster.set_custom(raw)));
        vec![Replaced::Custom(old)]
    }

    /// Adds a volume for a claim on a node.
    fn with_volume(&mut self, claim: &str, node: &str) -> Vec<Replaced> {
        let node = self.judge.cache.node(node);
        let volume =
            node.and_then(|node| volume_for(self.objects.find("PersistentVolumeClaim", claim)?, node));
        let Some(value) = volume else { return Vec::new() };
        let (group, kind) = (String::new(), "PersistentVolume".to_owned());
        let raw = self.objects.raw(vec![CustomObject { group, kind, value }]);
        raw.iter().for_each(|raw| drop(self.judge.cache.cluster.set_custom(raw)));
        raw.into_iter().map(|raw| Replaced::NoCustom(raw.key)).collect()
    }

    fn uncordoned(&mut self, name: &str) -> Option<Replaced> {
        let old = self.judge.cache.node(name).cloned()?;
        self.judge.cache.set_node(Arc::new(in_service(&old)));
        Some(Replaced::Node(old))
    }

    fn added(&mut self, like: &str) -> Vec<Replaced> {
        let Some(like) = self.judge.cache.node(like).cloned() else { return Vec::new() };
        let Some(copy) = copies_of(&like, &self.judge.cache).next() else { return Vec::new() };
        let name = copy.name.clone();
        self.judge.cache.set_node(Arc::new(copy));
        let mut replaced = vec![Replaced::NoNode(name.clone())];
        for part in self.objects.copied(&like.name, &name) {
            self.judge.cache.cluster.set_custom(&part);
            replaced.push(Replaced::NoCustom(part.key));
        }
        replaced
    }

    /// Moves a pod to another node, or stops it.
    fn moved(&mut self, pod: &str, from: &Str, to: Option<&Str>) -> Vec<Replaced> {
        let cluster = &self.judge.cache.cluster;
        let there = cluster.find(from).map_or(&[][..], |row| cluster.node(row).pods());
        let Some(info) = there.iter().find(|known| known.full_name() == pod).cloned() else {
            return Vec::new();
        };
        let replaced = self.remove(&[(info.clone(), from.clone())]);
        if let Some(to) = to {
            self.judge.cache.set_pod(info, to);
        }
        replaced
    }

    /// Removes the required anti-affinity by a key from all pods of a workload.
    fn without_anti_affinity(&mut self, workload: &str, key: &Str) -> Vec<Replaced> {
        let has_key = |pod: &PodInfo| {
            let mut terms = pod.spec.pod_anti_affinity.iter().flat_map(|affinity| &affinity.required);
            terms.any(|term| term.topology_key == *key)
        };
        let is_meant = |pod: &PodInfo| has_key(pod) && workload_of(pod) == *workload;
        let mut meant = Vec::new();
        for node in self.judge.cache.cluster.nodes().nodes() {
            let pods = node.pods().iter().filter(|pod| is_meant(pod));
            meant.extend(pods.map(|pod| (pod.clone(), node.name().clone())));
        }
        let replaced = self.remove(&meant);
        for (pod, node) in &meant {
            let mut spec = PodSpec::clone(&pod.spec);
            if let Some(affinity) = &mut spec.pod_anti_affinity {
                affinity.required.retain(|term| term.topology_key != *key);
            }
            let info = self.judge.cache.info(Pod { spec: Arc::new(spec), ..Pod::clone(&pod.pod) });
            self.judge.cache.set_pod(info, node);
        }
        replaced
    }
}

/// Returns empty nodes like this one, with names that no node has.
pub(super) fn copies_of<'a>(node: &'a Node, cache: &'a Cache) -> impl Iterator<Item = Node> + 'a {
    let names = (1..).map(|number: usize| Str::from(format!("{}-copy-{number}", node.name)));
    names.filter(|name| cache.node(name).is_none()).map(|name| {
        let labels = node.labels.iter().map(|(key, value)| match key.as_str() {
            LABEL_HOSTNAME => (key.clone(), name.clone()),
            _ => (key.clone(), value.clone()),
        });
        let labels = labels.collect();
        Node { uid: name.clone(), name, labels, ..in_service(node) }
    })
}

/// Returns the node without the marks of a node that is out of service at the moment.
pub(super) fn in_service(node: &Node) -> Node {
    let stays = |taint: &&Taint| taint.key != TAINT_NODE_UNSCHEDULABLE;
    let taints = node.taints.iter().filter(stays).cloned().collect();
    Node { unschedulable: false, taints, ..node.clone() }
}
