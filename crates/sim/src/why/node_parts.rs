//! Objects that go with a node, without which a copy of it would offer less: its CSINode and the slices of its devices.

use harbormaster_core::EngineConfig;
use harbormaster_framework::resource::{RawObject, ResourceKind};
use harbormaster_manifests::edits::{node_of_part, part_for};
use serde_json::Value;

use crate::inventory::{CustomObject, Inventory};

/// The parts of all nodes.
pub(super) struct NodeParts {
    /// A cluster that consists of the parts.
    cluster: Inventory,
    /// Kinds that plugins read.
    kinds: Vec<ResourceKind>,
}

impl NodeParts {
    pub(super) fn of(config: &EngineConfig, cluster: &Inventory) -> Self {
        let parts = cluster.custom.iter().filter(|object| node_of(object).is_some());
        let cluster = Inventory {
            custom: parts.cloned().collect(),
            served: cluster.served.clone(),
            ..Inventory::default()
        };
        Self { cluster, kinds: config.resources() }
    }

    /// Returns the parts of a copy of the node `like` that is called `new`.
    pub(super) fn copied(&self, like: &str, new: &str) -> Vec<RawObject> {
        let copy = |object: &CustomObject| CustomObject {
            value: part_for(object.value.clone(), like, new),
            ..object.clone()
        };
        let custom = self.of_node(like).map(copy).collect();
        let cluster = Inventory { custom, served: self.cluster.served.clone(), ..Inventory::default() };
        cluster.raw_objects(&self.kinds)
    }

    /// Returns the devices of a node as written, for comparison with those of other nodes.
    pub(super) fn devices(&self, node: &str) -> Vec<String> {
        let devices = self.of_node(node).filter_map(|object| object.value.pointer("/spec/devices"));
        devices.map(Value::to_string).collect()
    }

    fn of_node(&self, node: &str) -> impl Iterator<Item = &CustomObject> {
        self.cluster.custom.iter().filter(move |object| node_of(object) == Some(node))
    }
}

fn node_of(object: &CustomObject) -> Option<&str> {
    node_of_part(&object.kind, &object.value)
}
