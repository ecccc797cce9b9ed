//! Resource claims: the devices that a pod asks for, and the devices allocated to it.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Quantity, Str, Timestamp,
    protobuf::{Message, messages},
    selector::NodeSelector,
};
use harbormaster_framework::{
    pod::PodInfo,
    resource::{Custom, Metadata, OlderVersion, Resource, ResourceScope},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    taint::DeviceToleration,
    versions,
    wire::{self, node_selector},
};
use crate::storage::wire::or_default;

/// Finalizer of every allocated claim. It keeps a claim from disappearing while its devices are in use.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// API group of groups of pods.
pub(crate) const GROUPS_API: &str = "scheduling.k8s.io";

/// Resource of groups of pods.
pub(crate) const GROUPS: &str = "podgroups";

/// Maximum number of devices of one claim (`AllocationResultsMaxSize`).
pub const MAX_RESULTS: usize = 32;

/// Maximum number of alternatives of one request (`FirstAvailableDeviceRequestMaxSize`).
pub const MAX_ALTERNATIVES: usize = 8;

/// A resource claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WireClaim")]
pub struct ResourceClaim {
    /// `metadata.finalizers`
    pub finalizers: Vec<Str>,
    /// `spec`, which never changes.
    pub spec: Arc<ClaimSpec>,
    /// `status`
    pub status: ClaimStatus,
    /// Present if the allocation is assumed: the scheduler has chosen the devices, but the API server has not recorded
    /// them yet.
    pub in_flight: Option<InFlight>,
}

/// Origin of an allocation that the API server has not recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Number of the cycle of a group in which the devices were chosen; `None` if they were chosen for a pod on its own.
    pub group_cycle: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireClaim {
    #[serde(deserialize_with = "or_default")]
    metadata: WireMetadata,
    #[serde(deserialize_with = "or_default")]
    spec: ClaimSpec,
    #[serde(deserialize_with = "or_default")]
    status: ClaimStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireMetadata {
    #[serde(deserialize_with = "or_default")]
    finalizers: Vec<Str>,
}

impl From<WireClaim> for ResourceClaim {
    fn from(WireClaim { metadata, spec, status }: WireClaim) -> Self {
        Self { finalizers: metadata.finalizers, spec: Arc::new(spec), status, in_flight: None }
    }
}

impl Resource for ResourceClaim {
    const GROUP: &'static str = "resource.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceClaim";
    const PLURAL: &'static str = "resourceclaims";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
    const OLDER_VERSIONS: &'static [OlderVersion] = versions::OLDER;
    const PROTOBUF: Option<&'static Message> = Some(&messages::devices::RESOURCE_CLAIM);
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    /// `devices`
    #[serde(deserialize_with = "or_default")]
    pub devices: DeviceClaim,
}

/// Devices that a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// `requests`, which must all be met.
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<DeviceRequest>,
    /// `constraints`, which must all hold for the chosen devices.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<DeviceConstraint>,
    /// `config`, which the scheduler copies into the allocation.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<ClaimConfiguration>,
}

/// One request of a claim: either `exactly` or a list of alternatives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// `name`, unique in the claim.
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `exactly`: one kind of device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<DeviceDemand>,
    /// `firstAvailable`: alternatives, most preferred first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<DeviceDemand>,
}

/// Devices of one class that a request, or one of its alternatives, asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceDemand {
    /// `name` of the alternative; empty in `exactly`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub name: Str,
    /// `deviceClassName`
    #[serde(deserialize_with = "or_default")]
    pub device_class_name: Str,
    /// `selectors`, all of which a device must match.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// `allocationMode`
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub allocation_mode: Str,
    /// `count`: number of devices in the mode `ExactCount`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub count: i64,
    /// `adminAccess`; alternatives cannot have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// `tolerations`
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<DeviceToleration>,
    /// `capacity`: amounts that the claim wants of each device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityRequirements>,
    /// `derivedAttributes`, which are not supported.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub derived_attributes: Vec<Value>,
}

/// `allocationMode` for a number of devices.
pub const EXACT_COUNT: &str = "ExactCount";

/// `allocationMode` for all matching devices.
pub const ALL: &str = "All";

/// Amounts of capacity that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CapacityRequirements {
    /// `requests`, by qualified name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<Str, Quantity>,
}

/// A condition on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// `cel`; absent if the selector is of an unknown kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelSelector>,
}

/// A condition written in CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct CelSelector {
    /// `expression`
    #[serde(deserialize_with = "or_default")]
    pub expression: Str,
}

/// A condition that the devices of some requests must meet together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceConstraint {
    /// `requests`: names of requests, or `request/alternative`; empty for all requests.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Str>,
    /// `matchAttribute`: all devices must have this attribute with the same value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_attribute: Option<Str>,
    /// `distinctAttribute`: all devices must have this attribute with different values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct_attribute: Option<Str>,
}

/// Configuration for drivers in a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimConfiguration {
    /// `requests` to which the configuration applies; empty for all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Str>,
    /// The configuration itself, which only the driver understands.
    #[serde(flatten)]
    pub configuration: Map<String, Value>,
}

/// `status` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// `allocation`; `None` if the claim is not allocated.
    pub allocation: Option<Arc<Allocation>>,
    /// `reservedFor`: the consumers, usually pods, that may use the claim.
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<Consumer>,
    /// `devices`: what drivers report about the allocated devices.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<AllocatedDevice>,
}

/// An entry of `status.reservedFor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// `apiGroup`; empty for pods.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str_is_empty")]
    pub api_group: Str,
    /// `resource`: `pods`, for example.
    #[serde(deserialize_with = "or_default")]
    pub resource: Str,
    /// `name`
    #[serde(deserialize_with = "or_default")]
    pub name: Str,
    /// `uid`
    #[serde(deserialize_with = "or_default")]
    pub uid: Str,
}

impl Consumer {
    /// Returns the entry for a pod.
    pub fn pod(pod: &PodInfo) -> Self {
        Self {
            api_group: Str::default(),
            resource: "pods".into(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }

    /// Returns the entry for a group of pods.
    pub fn group(group: &Metadata) -> Self {
        Self {
            api_group: GROUPS_API.into(),
            resource: GROUPS.into(),
            name: group.name.clone(),
            uid: group.uid.clone(),
        }
    }

    /// Returns true if the entry is for the group of the pod. A pod knows only the group's name.
    fn is_group_of(&self, pod: &PodInfo) -> bool {
        self.api_group == GROUPS_API
            && self.resource == GROUPS
            && pod.spec.pod_group.as_ref() == Some(&self.name)
    }
}

/// Devices allocated for a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// `devices`
    #[serde(deserialize_with = "or_default")]
    pub devices: DeviceAllocation,
    /// `nodeSelector`: nodes that can reach all devices; `None` for every node.
    #[serde(with = "node_selector", skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// `allocationTimestamp`
    #[serde(with = "wire::time", skip_serializing_if = "Option::is_none")]
    pub allocation_timestamp: Option<Timestamp>,
}

/// Results and configuration of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceAllocation {
    /// `results`: one entry for each device.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<DeviceResult>,
    /// `config`: configuration of the classes, then of the claim.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<AllocationConfiguration>,
}

/// One allocated device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceResult {
    /// `request`: the name of the request, or `request/alternative`.
    #[serde(deserialize_with = "or_default")]
    pub request: Str,
    /// `driver`
    #[serde(deserialize_with = "or_default")]
    pub driver: Str,
    /// `pool`
    #[serde(deserialize_with = "or_default")]
    pub pool: Str,
    /// `device`
    #[serde(deserialize_with = "or_default")]
    pub device: Str,
    /// `adminAccess`: if true, the device does not count as allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// `tolerations`, copied from the request.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<DeviceToleration>,
    /// `bindingConditions`, copied from the device.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<Str>,
    /// `bindingFailureConditions`, copied from the device.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub binding_failure_conditions: Vec<Str>,
    /// `shareID`: identifies this share of a device that several claims may use.
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub share_id: Option<Str>,
    /// `consumedCapacity` of a shared device, by qualified name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub consumed_capacity: BTreeMap<Str, Quantity>,
    /// `skipNodeOperations`: operations that the kubelet leaves out, if the node supports this.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub skip_node_operations: Vec<Str>,
}

/// Configuration for drivers in an allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocationConfiguration {
    /// `source`: `FromClass` or `FromClaim`.
    #[serde(deserialize_with = "or_default")]
    pub source: Str,
    /// `requests` to which the configuration applies; empty for all.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Str>,
    /// The configuration itself.
    #[serde(flatten)]
    pub configuration: Map<String, Value>,
}

/// A driver's report about an allocated device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AllocatedDevice {
    /// `driver`
    #[serde(deserialize_with = "or_default")]
    pub driver: Str,
    /// `pool`
    #[serde(deserialize_with = "or_default")]
    pub pool: Str,
    /// `device`
    #[serde(deserialize_with = "or_default")]
    pub device: Str,
    /// `conditions`
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<DeviceCondition>,
    /// `networkData`
    #[serde(rename = "networkData")]
    pub network_data: Option<NetworkData>,
    /// All other fields. They matter only when two statuses are compared.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Network data of an allocated device. They matter only when two statuses are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkData {
    /// `interfaceName`
    #[serde(deserialize_with = "or_default")]
    pub interface_name: Str,
    /// `ips`
    #[serde(deserialize_with = "or_default")]
    pub ips: Vec<Str>,
    /// `hardwareAddress`
    #[serde(deserialize_with = "or_default")]
    pub hardware_address: Str,
}

/// A condition of an allocated device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCondition {
    /// `type`
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: Str,
    /// `status`: `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "or_default")]
    pub status: Str,
    /// `reason`
    #[serde(deserialize_with = "or_default")]
    pub reason: Str,
    /// `message`
    #[serde(deserialize_with = "or_default")]
    pub message: Str,
    /// `observedGeneration`
    #[serde(deserialize_with = "or_default")]
    pub observed_generation: i64,
    /// All other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Allocation {
    /// Returns true if both allocations consist of the same devices.
    pub fn has_same_devices(&self, other: &Self) -> bool {
        let devices = |of: &Self| -> Vec<[Option<Str>; 5]> {
            let all = of.devices.results.iter();
            let id = |one: &DeviceResult| {
                let [request, driver, pool, device] =
                    [&one.request, &one.driver, &one.pool, &one.device].map(|text| Some(text.clone()));
                [request, driver, pool, device, one.share_id.clone()]
            };
            all.map(id).collect()
        };
        devices(self) == devices(other)
    }
}

/// Returns true if the claim lists the pod in `status.reservedFor`, or, with claims `of_groups`, the pod's group.
pub fn is_reserved_for(claim: &Custom<ResourceClaim>, pod: &PodInfo, of_groups: bool) -> bool {
    let mut consumers = claim.status.reserved_for.iter();
    consumers.any(|consumer| consumer.uid == pod.uid || (of_groups && consumer.is_group_of(pod)))
}

fn str_is_empty(text: &Str) -> bool {
    text.is_empty()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
