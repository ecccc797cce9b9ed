//! NodeResourceTopology (`topology.node.k8s.io/v1alpha2`): the NUMA nodes of a node, and how its kubelet uses them.

use std::collections::BTreeMap;

use harbormaster::{
    api::{Quantity, Str, Timestamp},
    prelude::*,
    serde::Deserialize,
    serde_json::{Value, from_value},
};

use crate::{
    amount::{Amount, Requests},
    placement::{METADATA, Placement, VECTOR},
};

/// Largest number of a NUMA node, so that sets of NUMA nodes fit into 64 bits.
const LARGEST_ID: usize = 63;
/// Largest value of `topologyManagerMaxNUMANodes`.
const MOST_NUMA_NODES: i64 = 1024;

/// The topology of a node, which has the same name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", from = "Wire")]
pub struct NodeResourceTopology {
    /// The kubelet's use of NUMA nodes.
    pub manager: Manager,
    /// NUMA nodes, in the order of the object.
    pub numa_nodes: Vec<NumaNode>,
    /// Fingerprint of the pods that the object contains, if the agent wrote one.
    pub fingerprint: Option<Fingerprint>,
    /// NUMA nodes of these pods, if the agent wrote them.
    pub placement: Option<Placement>,
    /// Time at which the object was written, if the API server says so.
    pub written: Option<Timestamp>,
}

impl Resource for NodeResourceTopology {
    const GROUP: &'static str = "topology.node.k8s.io";
    const VERSION: &'static str = "v1alpha2";
    const KIND: &'static str = "NodeResourceTopology";
    const PLURAL: &'static str = "noderesourcetopologies";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Settings of the kubelet's topology manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manager {
    /// True if all containers of a pod use the same NUMA nodes.
    pub is_pod_scope: bool,
    /// True with the policy `single-numa-node`.
    pub is_single_numa_node: bool,
    /// Largest number of NUMA nodes that the manager supports.
    pub max_numa_nodes: i64,
}

impl Default for Manager {
    fn default() -> Self {
        Self { is_pod_scope: false, is_single_numa_node: false, max_numa_nodes: 8 }
    }
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// Number, at most 63.
    pub id: usize,
    /// Free amounts, by resource.
    pub available: BTreeMap<Str, Amount>,
    /// Amounts that are free without pods, by resource.
    pub allocatable: BTreeMap<Str, Amount>,
    /// Distances to other NUMA nodes, by number.
    pub costs: BTreeMap<usize, i64>,
}

impl NumaNode {
    /// Takes resources, as far as there are any.
    pub(crate) fn take(&mut self, requests: &Requests) {
        for (name, amount) in requests {
            if let Some(left) = self.available.get_mut(name) {
                *left = left.less(*amount);
            }
        }
    }

    /// Gives resources back. Returns false if there would be more than without any pods.
    pub(crate) fn give_back(&mut self, requests: &Requests) -> bool {
        requests.iter().all(|(name, amount)| {
            let Some(left) = self.available.get_mut(name) else { return true };
            *left = left.plus(*amount);
            *left <= self.allocatable.get(name).copied().unwrap_or(Amount::ZERO)
        })
    }
}

/// Fingerprint of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The text, such as `pfp0v001ef46db3751d8e999`.
    pub text: Str,
    /// True if only pods with exclusive resources count.
    pub only_exclusive: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
struct Wire {
    metadata: WireMetadata,
    topology_policies: Option<Vec<String>>,
    zones: Option<Vec<WireZone>>,
    attributes: Option<Vec<WireAttribute>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireMetadata {
    annotations: Option<BTreeMap<String, Str>>,
    #[serde(rename = "managedFields")]
    managed_fields: Option<Vec<WireManager>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireManager {
    time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireZone {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    costs: Option<Vec<WireCost>>,
    attributes: Option<Vec<WireAttribute>>,
    resources: Option<Vec<WireResource>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireCost {
    name: String,
    value: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct WireResource {
    #[serde(default)]
    name: Str,
    /// A quantity, but a mistake must not hide the rest of the object.
    #[serde(default)]
    available: Value,
    #[serde(default)]
    allocatable: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct WireAttribute {
    name: String,
    value: Str,
}

impl From<Wire> for NodeResourceTopology {
    fn from(wire: Wire) -> Self {
        let attributes = wire.attributes.unwrap_or_default();
        let attribute = |name: &str| {
            attributes
                .iter()
                .find(|attribute| attribute.name == name)
                .map(|attribute| attribute.value.clone())
        };
        let zones = wire.zones.unwrap_or_default();
        let placement = attribute(METADATA).and_then(|metadata| placement(&metadata, &zones));
        let writers = wire.metadata.managed_fields.unwrap_or_default();
        let times = writers.iter().filter_map(|writer| Timestamp::parse(writer.time.as_deref()?).ok());
        let written = times.max();
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let text = attribute("nodeTopologyPodsFingerprint")
            .or_else(|| annotations.get("topology.node.k8s.io/fingerprint").cloned());
        let method = attribute("nodeTopologyPodsFingerprintMethod");
        let only_exclusive = method.is_some_and(|method| method == "with-exclusive-resources");
        Self {
            manager: manager(&wire.topology_policies.unwrap_or_default(), &attributes),
            numa_nodes: zones.into_iter().filter_map(numa_node).collect(),
            fingerprint: text.map(|text| Fingerprint { text, only_exclusive }),
            placement,
            written,
        }
    }
}

/// Returns the kubelet's settings. Attributes take precedence over the first of the deprecated policies. Settings that
/// do not exist are ignored.
fn manager(policies: &[String], attributes: &[WireAttribute]) -> Manager {
    let mut manager = Manager::default();
    let policy = policies.first().map_or("", String::as_str);
    let scope = policy.strip_suffix("PodLevel").map(|_| true);
    let scope = scope.or_else(|| policy.strip_suffix("ContainerLevel").map(|_| false));
    let name = policy.trim_end_matches("PodLevel").trim_end_matches("ContainerLevel");
    if let Some(is_pod_scope) = scope
        && ["SingleNUMANode", "BestEffort", "Restricted"].contains(&name)
    {
        manager.is_pod_scope = is_pod_scope;
        manager.is_single_numa_node = name == "SingleNUMANode";
    }
    for WireAttribute { name, value } in attributes {
        match (name.as_str(), value.as_str()) {
            ("topologyManagerScope", scope @ ("container" | "pod")) => manager.is_pod_scope = scope == "pod",
            (
                "topologyManagerPolicy",
                policy @ ("none" | "best-effort" | "restricted" | "single-numa-node"),
            ) => {
                manager.is_single_numa_node = policy == "single-numa-node";
            }
            ("topologyManagerMaxNUMANodes", number) => {
                if let Some(number) = number.parse::<i64>().ok().filter(|number| *number > 1) {
                    manager.max_numa_nodes = number.min(MOST_NUMA_NODES);
                }
            }
            _ => {}
        }
    }
    manager
}

fn numa_node(zone: WireZone) -> Option<NumaNode> {
    let id = if zone.kind == "Node" { number(&zone.name)? } else { return None };
    let resources = zone.resources.unwrap_or_default();
    // Of a resource whose amount is missing or malformed, nothing is left.
    let amount = |value: &Value| {
        from_value(value.clone()).map_or(Amount::ZERO, |known: Quantity| Amount::from(&known))
    };
    let amounts = |of: fn(&WireResource) -> &Value| -> BTreeMap<Str, Amount> {
        resources.iter().map(|resource| (resource.name.clone(), amount(of(resource)))).collect()
    };
    let (available, allocatable) = (amounts(|one| &one.available), amounts(|one| &one.allocatable));
    let costs = zone.costs.unwrap_or_default();
    let costs = costs.iter().filter_map(|cost| Some((number(&cost.name)?, cost.value)));
    Some(NumaNode { id, available, allocatable, costs: costs.collect() })
}

/// Returns where the containers are, unless something is wrong with what the agent wrote.
fn placement(metadata: &str, zones: &[WireZone]) -> Option<Placement> {
    let list = |zone: &WireZone| {
        let list = zone.attributes.iter().flatten().find(|attribute| attribute.name == VECTOR)?;
        Some((number(&zone.name), list.value.clone()))
    };
    let lists: Vec<(Option<usize>, Str)> = zones.iter().filter_map(list).collect();
    if lists.iter().any(|(numa_node, _)| numa_node.is_none()) {
        return None;
    }
    Placement::read(
        metadata,
        lists.iter().filter_map(|(numa_node, list)| Some(((*numa_node)?, list.as_str()))),
    )
}

/// Returns the number in the name of a NUMA node, such as `node-1`.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix("node-")?.parse().ok().filter(|id| *id <= LARGEST_ID)
}
