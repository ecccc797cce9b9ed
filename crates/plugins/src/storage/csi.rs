//! Objects of CSI drivers: nodes, drivers, capacities and attachments.

use harbormaster_api::{
    Labels, Quantity, Str,
    protobuf::{Message, messages},
    selector::LabelSelector,
};
use harbormaster_framework::resource::{Custom, Resource, ResourceScope};
use serde::Deserialize;

use super::wire::{WireLabelSelector, or_default};

const GROUP: &str = "storage.k8s.io";
/// Annotation with the in-tree plugins that CSI drivers replace on a node, separated by commas.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// The CSI drivers on a node. A CSINode has the same name as its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Spec<WireCsiNode>")]
pub struct CsiNode {
    /// `spec.drivers`
    pub drivers: Vec<NodeDriver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDriver {
    /// `name`
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `topologyKeys`: node labels that determine where the driver's volumes are accessible.
    #[serde(deserialize_with = "or_default")]
    pub topology_keys: Vec<Str>,
    /// `allocatable`
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Allocatable,
}

/// Capacity of a driver on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    /// `count`: maximum number of distinct volumes; `None` means no limit.
    pub count: Option<i32>,
}

impl Resource for CsiNode {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "CSINode";
    const PLURAL: &'static str = "csinodes";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
    const PROTOBUF: Option<&'static Message> = Some(&messages::storage::CSI_NODE);
}

/// Returns the annotation with the in-tree plugins that CSI drivers replace on the node.
pub fn migrated_plugins(node: &Custom<CsiNode>) -> &str {
    node.metadata.annotations.get(MIGRATED_PLUGINS).map_or("", Str::as_str)
}

/// Returns true if a CSI driver replaces the in-tree plugin on the node.
pub fn is_migrated(node: &Custom<CsiNode>, plugin: &str) -> bool {
    migrated_plugins(node).split(',').any(|migrated| migrated == plugin && !plugin.is_empty())
}

/// A CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Spec<WireCsiDriver>")]
pub struct CsiDriver {
    /// `spec.storageCapacity`: true if the driver reports capacity in [`CsiStorageCapacity`] objects.
    pub storage_capacity: bool,
    /// `spec.preventPodSchedulingIfMissing`: true if pods that need the driver may run only on nodes that have it.
    pub prevent_pod_scheduling_if_missing: bool,
}

impl Resource for CsiDriver {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "CSIDriver";
    const PLURAL: &'static str = "csidrivers";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Capacity that a driver has for a class in one part of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireCapacity")]
pub struct CsiStorageCapacity {
    /// `storageClassName`
    pub class: Str,
    /// `nodeTopology`: the nodes that the capacity applies to; no nodes if it is missing or malformed.
    pub node_topology: Option<LabelSelector>,
    /// `capacity`, in bytes.
    pub capacity: Option<Quantity>,
    /// `maximumVolumeSize`, in bytes.
    pub maximum_volume_size: Option<Quantity>,
}

impl CsiStorageCapacity {
    /// Returns the largest possible volume in bytes, if known.
    pub fn limit(&self) -> Option<Quantity> {
        self.maximum_volume_size.or(self.capacity)
    }
}

impl Resource for CsiStorageCapacity {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "CSIStorageCapacity";
    const PLURAL: &'static str = "csistoragecapacities";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// A volume that is or will be attached to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Spec<WireAttachment>")]
pub struct VolumeAttachment {
    /// `spec.attacher`, the driver.
    pub attacher: Str,
    /// `spec.nodeName`
    pub node_name: Str,
    /// `spec.source.persistentVolumeName`; `None` for inline volumes.
    pub volume_name: Option<Str>,
}

impl Resource for VolumeAttachment {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "VolumeAttachment";
    const PLURAL: &'static str = "volumeattachments";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// An object of which only the spec is read.
#[derive(Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
struct Spec<S> {
    #[serde(deserialize_with = "or_default")]
    spec: S,
}

impl<S: Default> Default for Spec<S> {
    fn default() -> Self {
        Self { spec: S::default() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCsiNode {
    #[serde(deserialize_with = "or_default")]
    drivers: Vec<NodeDriver>,
}

impl From<Spec<WireCsiNode>> for CsiNode {
    fn from(Spec { spec }: Spec<WireCsiNode>) -> Self {
        Self { drivers: spec.drivers }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCsiDriver {
    storage_capacity: Option<bool>,
    prevent_pod_scheduling_if_missing: Option<bool>,
}

impl From<Spec<WireCsiDriver>> for CsiDriver {
    fn from(Spec { spec }: Spec<WireCsiDriver>) -> Self {
        Self {
            storage_capacity: spec.storage_capacity.unwrap_or_default(),
            prevent_pod_scheduling_if_missing: spec.prevent_pod_scheduling_if_missing.unwrap_or_default(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCapacity {
    #[serde(deserialize_with = "or_default")]
    storage_class_name: Str,
    node_topology: Option<WireLabelSelector>,
    capacity: Option<Quantity>,
    maximum_volume_size: Option<Quantity>,
}

impl From<WireCapacity> for CsiStorageCapacity {
    fn from(wire: WireCapacity) -> Self {
        let topology = wire.node_topology.map(LabelSelector::from);
        Self {
            class: wire.storage_class_name,
            node_topology: topology.filter(|topology| topology.check().is_ok()),
            capacity: wire.capacity,
            maximum_volume_size: wire.maximum_volume_size,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireAttachment {
    #[serde(deserialize_with = "or_default")]
    attacher: Str,
    #[serde(deserialize_with = "or_default")]
    node_name: Str,
    #[serde(deserialize_with = "or_default")]
    source: WireSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSource {
    persistent_volume_name: Option<Str>,
}

impl From<Spec<WireAttachment>> for VolumeAttachment {
    fn from(Spec { spec }: Spec<WireAttachment>) -> Self {
        let WireAttachment { attacher, node_name, source } = spec;
        Self { attacher, node_name, volume_name: source.persistent_volume_name }
    }
}

/// Returns true if the capacity applies to a node with these labels.
pub fn applies_to(capacity: &CsiStorageCapacity, node: &Labels) -> bool {
    capacity.node_topology.as_ref().is_some_and(|topology| topology.matches(node))
}
