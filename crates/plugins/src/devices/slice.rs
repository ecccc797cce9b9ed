//! Resource slices: the devices that a driver offers.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Quantity, Str,
    protobuf::{Message, messages},
    selector::NodeSelector,
};
use harbormaster_cel::Attribute;
use harbormaster_framework::resource::{OlderVersion, Resource, ResourceScope};
use serde::Deserialize;

use super::{named::Named, taint::DeviceTaint, versions, wire::node_selector};
use crate::storage::wire::or_default;

/// A resource slice: a part of a pool of devices, or the counters that the pool's devices share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireSlice")]
pub struct ResourceSlice {
    /// `spec.driver`
    pub driver: Str,
    /// `spec.pool`
    pub pool: ResourcePool,
    /// Nodes that can reach the devices.
    pub nodes: SliceNodes,
    /// `spec.devices`
    pub devices: Vec<Arc<Device>>,
    /// `spec.sharedCounters`
    pub shared_counters: Vec<CounterSet>,
}

impl Resource for ResourceSlice {
    const GROUP: &'static str = "resource.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceSlice";
    const PLURAL: &'static str = "resourceslices";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
    const OLDER_VERSIONS: &'static [OlderVersion] = versions::OLDER;
    const PROTOBUF: Option<&'static Message> = Some(&messages::devices::RESOURCE_SLICE);
}

/// `spec.pool` of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    /// `name`, unique for the driver.
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `generation`: slices of an older generation are obsolete.
    #[serde(deserialize_with = "or_default")]
    pub generation: i64,
    /// `resourceSliceCount`: the number of slices of this generation.
    #[serde(deserialize_with = "or_default")]
    pub resource_slice_count: i64,
}

/// Nodes that can reach a slice's devices. Several fields may be set at once in an invalid slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceNodes {
    /// `nodeName`; `None` if it is not set.
    pub node_name: Option<Str>,
    /// `nodeSelector`
    pub node_selector: Option<NodeSelector>,
    /// `allNodes`
    pub all_nodes: bool,
    /// `perDeviceNodeSelection`: each device says which nodes can reach it.
    pub per_device: Option<bool>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// `name`, unique in the pool.
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `attributes`, by qualified name.
    #[serde(deserialize_with = "or_default")]
    pub attributes: Named<Attribute>,
    /// `capacity`, by qualified name.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Named<DeviceCapacity>,
    /// `consumesCounters`
    #[serde(deserialize_with = "or_default")]
    pub consumes_counters: Vec<CounterConsumption>,
    /// `nodeName`, if each device of the slice names its nodes.
    pub node_name: Option<Str>,
    /// `nodeSelector`, if each device of the slice names its nodes.
    #[serde(deserialize_with = "node_selector::deserialize")]
    pub node_selector: Option<NodeSelector>,
    /// `allNodes`, if each device of the slice names its nodes.
    #[serde(deserialize_with = "or_default")]
    pub all_nodes: bool,
    /// `taints`
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<DeviceTaint>,
    /// `bindsToNode`: an allocation of the device is valid on one node only.
    #[serde(deserialize_with = "or_default")]
    pub binds_to_node: bool,
    /// `bindingConditions` that must be true before the pod is bound; `None` if the field is absent.
    pub binding_conditions: Option<Vec<Str>>,
    /// `bindingFailureConditions`
    #[serde(deserialize_with = "or_default")]
    pub binding_failure_conditions: Vec<Str>,
    /// `allowMultipleAllocations`: several claims can share the device.
    #[serde(deserialize_with = "or_default")]
    pub allow_multiple_allocations: bool,
}

/// A capacity of a device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCapacity {
    /// `value`
    #[serde(deserialize_with = "or_default")]
    pub value: Quantity,
    /// `requestPolicy`: amounts that a claim can get. Boxed because most capacities have none.
    pub request_policy: Option<Box<RequestPolicy>>,
}

/// Amounts of a capacity that a claim can get.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestPolicy {
    /// `default`: the amount for a claim that requests none.
    pub default: Option<Quantity>,
    /// `validValues`: the only amounts, in ascending order.
    #[serde(deserialize_with = "or_default")]
    pub valid_values: Vec<Quantity>,
    /// `validRange`
    pub valid_range: Option<ValidRange>,
}

/// A range of amounts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ValidRange {
    /// `min`
    pub min: Option<Quantity>,
    /// `max`
    pub max: Option<Quantity>,
    /// `step`
    pub step: Option<Quantity>,
}

/// Counters that several devices of a pool consume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CounterSet {
    /// `name`, unique in the pool.
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `counters`, by name.
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<Str, Counter>,
}

/// Counters that a device consumes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterConsumption {
    /// `counterSet`
    #[serde(deserialize_with = "or_default")]
    pub counter_set: Str,
    /// `counters`, by name.
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<Str, Counter>,
    /// `compatibilityGroups`, which are not supported.
    #[serde(deserialize_with = "or_default")]
    pub compatibility_groups: Vec<Str>,
}

/// An amount of a counter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Counter {
    /// `value`
    #[serde(deserialize_with = "or_default")]
    pub value: Quantity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSlice {
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    #[serde(deserialize_with = "or_default")]
    driver: Str,
    #[serde(deserialize_with = "or_default")]
    pool: ResourcePool,
    node_name: Option<Str>,
    #[serde(deserialize_with = "node_selector::deserialize")]
    node_selector: Option<NodeSelector>,
    #[serde(deserialize_with = "or_default")]
    all_nodes: bool,
    per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    devices: Vec<Device>,
    #[serde(deserialize_with = "or_default")]
    shared_counters: Vec<CounterSet>,
}

impl From<WireSlice> for ResourceSlice {
    fn from(WireSlice { spec }: WireSlice) -> Self {
        Self {
            driver: spec.driver,
            pool: spec.pool,
            nodes: SliceNodes {
                node_name: spec.node_name,
                node_selector: spec.node_selector,
                all_nodes: spec.all_nodes,
                per_device: spec.per_device_node_selection,
            },
            devices: with_shared_text(spec.devices).into_iter().map(Arc::new).collect(),
            shared_counters: spec.shared_counters,
        }
    }
}

/// Stores text that the first device has in common with others once. The devices of a slice often differ in little.
fn with_shared_text(mut devices: Vec<Device>) -> Vec<Device> {
    let Some((first, others)) = devices.split_first_mut() else { return devices };
    for device in others {
        device.attributes.share_with(&first.attributes, |value, of_first| match (&mut *value, of_first) {
            (Attribute::String(text), Attribute::String(known))
            | (Attribute::Version(text), Attribute::Version(known))
                if text == known =>
            {
                *text = known.clone();
            }
            _ => {}
        });
        device.capacity.share_with(&first.capacity, |_, _| {});
    }
    devices
}
