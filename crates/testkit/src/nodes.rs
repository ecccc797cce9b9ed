//! A builder for nodes.

use std::sync::Arc;

use harbormaster_api::{
    Node, Str,
    node::{Image, LABEL_HOSTNAME, LABEL_ZONE},
    taint::{Taint, TaintEffect},
};

use crate::pods::{amount, with};

/// Builds a node. A new node has 4 cores, 8Gi of memory and capacity for 110 pods.
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    node: Node,
}

/// Returns a builder for a node with the given name, which is also the value of its hostname label.
pub fn node(name: &str) -> NodeBuilder {
    let node = Node { name: name.into(), uid: format!("uid-{name}").into(), ..Node::default() };
    NodeBuilder { node }.label(LABEL_HOSTNAME, name).allocatable("4", "8Gi", 110)
}

impl NodeBuilder {
    /// Returns a builder that starts with an existing node.
    pub fn of(node: Node) -> Self {
        Self { node }
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.node.labels = with(&self.node.labels, key, value);
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.node.annotations = with(&self.node.annotations, key, value);
        self
    }

    /// Sets the status of a condition.
    #[must_use]
    pub fn condition(mut self, type_: &str, status: &str) -> Self {
        self.node.conditions = with(&self.node.conditions, type_, status);
        self
    }

    /// Sets the zone label.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label(LABEL_ZONE, zone)
    }

    /// Sets the allocatable cpu, memory and number of pods.
    #[must_use]
    pub fn allocatable(self, cpu: &str, memory: &str, pods: i64) -> Self {
        self.offers("cpu", cpu).offers("memory", memory).offers("pods", &pods.to_string())
    }

    /// Sets the allocatable amount of any resource.
    #[must_use]
    pub fn offers(mut self, name: &str, quantity: &str) -> Self {
        self.node.allocatable.set_named(&Str::from(name), amount(name, quantity));
        self
    }

    /// Sets the capacity of the machine for a resource; by default, it has none.
    #[must_use]
    pub fn capacity(mut self, name: &str, quantity: &str) -> Self {
        self.node.capacity.set_named(&Str::from(name), amount(name, quantity));
        self
    }

    /// Adds a taint. `effect` is spelled as in manifests.
    ///
    /// # Panics
    /// If the effect does not exist.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let effect = TaintEffect::parse(effect).unwrap_or_else(|| panic!("no taint effect {effect:?}"));
        let taint = Taint { key: key.into(), value: value.into(), effect };
        self.node.taints = self.node.taints.iter().cloned().chain([taint]).collect();
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.node.unschedulable = true;
        self
    }

    /// Adds an image with its size in bytes.
    #[must_use]
    pub fn image(mut self, name: &str, size_bytes: i64) -> Self {
        let image = Image { names: vec![name.into()], size_bytes };
        self.node.images = self.node.images.iter().cloned().chain([image]).collect();
        self
    }

    /// Adds a declared feature.
    #[must_use]
    pub fn feature(mut self, name: &str) -> Self {
        let mut features: Vec<Str> = self.node.declared_features.to_vec();
        features.push(name.into());
        features.sort();
        self.node.declared_features = features.into();
        self
    }

    /// Changes any field.
    #[must_use]
    pub fn node(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(&mut self.node);
        self
    }

    /// Returns the node.
    pub fn build(self) -> Node {
        self.node
    }
}

impl From<NodeBuilder> for Arc<Node> {
    fn from(builder: NodeBuilder) -> Self {
        Arc::new(builder.build())
    }
}
