//! Kinds of `resource.k8s.io/v1`.

use super::{
    super::{
        Kind, Message,
        fields::{inline, list, map, one},
    },
    NODE_SELECTOR,
    meta::{CONDITION, METADATA},
};

/// `resource.ResourceClaim`.
pub static RESOURCE_CLAIM: Message = Message::new(
    "resource.ResourceClaim",
    &[
        one(1, "metadata", Kind::Message(&METADATA)),
        one(2, "spec", Kind::Message(&CLAIM_SPEC)),
        one(3, "status", Kind::Message(&CLAIM_STATUS)),
    ],
);

static CLAIM_SPEC: Message =
    Message::new("resource.ResourceClaimSpec", &[one(1, "devices", Kind::Message(&DEVICE_CLAIM))]);

static DEVICE_CLAIM: Message = Message::new(
    "resource.DeviceClaim",
    &[
        list(1, "requests", Kind::Message(&REQUEST)),
        list(2, "constraints", Kind::Message(&CONSTRAINT)),
        list(3, "config", Kind::Message(&CLAIM_CONFIGURATION)),
    ],
);

static REQUEST: Message = Message::new(
    "resource.DeviceRequest",
    &[
        one(1, "name", Kind::Text),
        one(2, "exactly", Kind::Message(&EXACT_REQUEST)),
        list(3, "firstAvailable", Kind::Message(&SUB_REQUEST)),
    ],
);

static EXACT_REQUEST: Message = Message::new(
    "resource.ExactDeviceRequest",
    &[
        one(1, "deviceClassName", Kind::Text),
        list(2, "selectors", Kind::Message(&SELECTOR)),
        one(3, "allocationMode", Kind::Text),
        one(4, "count", Kind::Number),
        one(5, "adminAccess", Kind::Bool),
        list(6, "tolerations", Kind::Message(&TOLERATION)),
        one(7, "capacity", Kind::Message(&CAPACITY_REQUIREMENTS)),
        list(8, "derivedAttributes", Kind::Message(&DERIVED_ATTRIBUTE)),
    ],
);

static SUB_REQUEST: Message = Message::new(
    "resource.DeviceSubRequest",
    &[
        one(1, "name", Kind::Text),
        one(2, "deviceClassName", Kind::Text),
        list(3, "selectors", Kind::Message(&SELECTOR)),
        one(4, "allocationMode", Kind::Text),
        one(5, "count", Kind::Number),
        list(6, "tolerations", Kind::Message(&TOLERATION)),
        one(7, "capacity", Kind::Message(&CAPACITY_REQUIREMENTS)),
        list(8, "derivedAttributes", Kind::Message(&DERIVED_ATTRIBUTE)),
    ],
);

static DERIVED_ATTRIBUTE: Message = Message::new(
    "resource.DeviceDerivedAttribute",
    &[one(1, "name", Kind::Text), one(2, "expression", Kind::Text)],
);

static SELECTOR: Message =
    Message::new("resource.DeviceSelector", &[one(1, "cel", Kind::Message(&CEL_SELECTOR))]);

static CEL_SELECTOR: Message =
    Message::new("resource.CELDeviceSelector", &[one(1, "expression", Kind::Text)]);

static TOLERATION: Message = Message::new(
    "resource.DeviceToleration",
    &[
        one(1, "key", Kind::Text),
        one(2, "operator", Kind::Text),
        one(3, "value", Kind::Text),
        one(4, "effect", Kind::Text),
        one(5, "tolerationSeconds", Kind::Number),
    ],
);

static CAPACITY_REQUIREMENTS: Message =
    Message::new("resource.CapacityRequirements", &[map(1, "requests", Kind::Quantity)]);

static CONSTRAINT: Message = Message::new(
    "resource.DeviceConstraint",
    &[
        list(1, "requests", Kind::Text),
        one(2, "matchAttribute", Kind::Text),
        one(3, "distinctAttribute", Kind::Text),
    ],
);

static CLAIM_CONFIGURATION: Message = Message::new(
    "resource.DeviceClaimConfiguration",
    &[list(1, "requests", Kind::Text), inline(2, "", Kind::Message(&CONFIGURATION))],
);

static CONFIGURATION: Message =
    Message::new("resource.DeviceConfiguration", &[one(1, "opaque", Kind::Message(&OPAQUE))]);

static OPAQUE: Message = Message::new(
    "resource.OpaqueDeviceConfiguration",
    &[one(1, "driver", Kind::Text), one(2, "parameters", Kind::Json)],
);

static CLAIM_STATUS: Message = Message::new(
    "resource.ResourceClaimStatus",
    &[
        one(1, "allocation", Kind::Message(&ALLOCATION)),
        list(2, "reservedFor", Kind::Message(&CONSUMER)),
        list(4, "devices", Kind::Message(&ALLOCATED_DEVICE)),
    ],
);

static ALLOCATION: Message = Message::new(
    "resource.AllocationResult",
    &[
        one(1, "devices", Kind::Message(&DEVICE_ALLOCATION)),
        one(3, "nodeSelector", Kind::Message(&NODE_SELECTOR)),
        one(5, "allocationTimestamp", Kind::TimeAsText),
    ],
);

static DEVICE_ALLOCATION: Message = Message::new(
    "resource.DeviceAllocationResult",
    &[
        list(1, "results", Kind::Message(&RESULT)),
        list(2, "config", Kind::Message(&ALLOCATION_CONFIGURATION)),
    ],
);

static RESULT: Message = Message::new(
    "resource.DeviceRequestAllocationResult",
    &[
        one(1, "request", Kind::Text),
        one(2, "driver", Kind::Text),
        one(3, "pool", Kind::Text),
        one(4, "device", Kind::Text),
        one(5, "adminAccess", Kind::Bool),
        list(6, "tolerations", Kind::Message(&TOLERATION)),
        list(7, "bindingConditions", Kind::Text),
        list(8, "bindingFailureConditions", Kind::Text),
        one(9, "shareID", Kind::Text),
        map(10, "consumedCapacity", Kind::Quantity),
        list(11, "skipNodeOperations", Kind::Text),
    ],
);

static ALLOCATION_CONFIGURATION: Message = Message::new(
    "resource.DeviceAllocationConfiguration",
    &[
        one(1, "source", Kind::Text),
        list(2, "requests", Kind::Text),
        inline(3, "", Kind::Message(&CONFIGURATION)),
    ],
);

static CONSUMER: Message = Message::new(
    "resource.ResourceClaimConsumerReference",
    &[
        one(1, "apiGroup", Kind::Text),
        one(3, "resource", Kind::Text),
        one(4, "name", Kind::Text),
        one(5, "uid", Kind::Text),
    ],
);

static ALLOCATED_DEVICE: Message = Message::new(
    "resource.AllocatedDeviceStatus",
    &[
        one(1, "driver", Kind::Text),
        one(2, "pool", Kind::Text),
        one(3, "device", Kind::Text),
        list(4, "conditions", Kind::Message(&CONDITION)),
        one(5, "data", Kind::Json),
        one(6, "networkData", Kind::Message(&NETWORK_DATA)),
        one(7, "shareID", Kind::Text),
    ],
);

static NETWORK_DATA: Message = Message::new(
    "resource.NetworkDeviceData",
    &[one(1, "interfaceName", Kind::Text), list(2, "ips", Kind::Text), one(3, "hardwareAddress", Kind::Text)],
);

/// `resource.ResourceSlice`.
pub static RESOURCE_SLICE: Message = Message::new(
    "resource.ResourceSlice",
    &[one(1, "metadata", Kind::Message(&METADATA)), one(2, "spec", Kind::Message(&SLICE_SPEC))],
);

static SLICE_SPEC: Message = Message::new(
    "resource.ResourceSliceSpec",
    &[
        one(1, "driver", Kind::Text),
        one(2, "pool", Kind::Message(&POOL)),
        one(3, "nodeName", Kind::Text),
        one(4, "nodeSelector", Kind::Message(&NODE_SELECTOR)),
        one(5, "allNodes", Kind::Bool),
        list(6, "devices", Kind::Message(&DEVICE)),
        one(7, "perDeviceNodeSelection", Kind::Bool),
        list(8, "sharedCounters", Kind::Message(&COUNTER_SET)),
    ],
);

static POOL: Message = Message::new(
    "resource.ResourcePool",
    &[
        one(1, "name", Kind::Text),
        one(2, "generation", Kind::Number),
        one(3, "resourceSliceCount", Kind::Number),
    ],
);

static DEVICE: Message = Message::new(
    "resource.Device",
    &[
        one(1, "name", Kind::Text),
        map(2, "attributes", Kind::Message(&ATTRIBUTE)),
        map(3, "capacity", Kind::Message(&CAPACITY)),
        list(4, "consumesCounters", Kind::Message(&CONSUMPTION)),
        one(5, "nodeName", Kind::Text),
        one(6, "nodeSelector", Kind::Message(&NODE_SELECTOR)),
        one(7, "allNodes", Kind::Bool),
        list(8, "taints", Kind::Message(&TAINT)),
        one(9, "bindsToNode", Kind::Bool),
        list(10, "bindingConditions", Kind::Text),
        list(11, "bindingFailureConditions", Kind::Text),
        one(12, "allowMultipleAllocations", Kind::Bool),
    ],
);

static ATTRIBUTE: Message = Message::new(
    "resource.DeviceAttribute",
    &[
        one(2, "int", Kind::Number),
        one(3, "bool", Kind::Bool),
        one(4, "string", Kind::Text),
        one(5, "version", Kind::Text),
        list(6, "ints", Kind::Number),
        list(7, "bools", Kind::Bool),
        list(8, "strings", Kind::Text),
        list(9, "versions", Kind::Text),
    ],
);

static CAPACITY: Message = Message::new(
    "resource.DeviceCapacity",
    &[one(1, "value", Kind::Quantity), one(2, "requestPolicy", Kind::Message(&REQUEST_POLICY))],
);

static REQUEST_POLICY: Message = Message::new(
    "resource.CapacityRequestPolicy",
    &[
        one(1, "default", Kind::Quantity),
        list(3, "validValues", Kind::Quantity),
        one(4, "validRange", Kind::Message(&RANGE)),
    ],
);

static RANGE: Message = Message::new(
    "resource.CapacityRequestPolicyRange",
    &[one(1, "min", Kind::Quantity), one(2, "max", Kind::Quantity), one(3, "step", Kind::Quantity)],
);

static CONSUMPTION: Message = Message::new(
    "resource.DeviceCounterConsumption",
    &[
        one(1, "counterSet", Kind::Text),
        map(2, "counters", Kind::Message(&COUNTER)),
        list(3, "compatibilityGroups", Kind::Text),
    ],
);

static COUNTER_SET: Message = Message::new(
    "resource.CounterSet",
    &[one(1, "name", Kind::Text), map(2, "counters", Kind::Message(&COUNTER))],
);

static COUNTER: Message = Message::new("resource.Counter", &[one(1, "value", Kind::Quantity)]);

static TAINT: Message = Message::new(
    "resource.DeviceTaint",
    &[
        one(1, "key", Kind::Text),
        one(2, "value", Kind::Text),
        one(3, "effect", Kind::Text),
        one(4, "timeAdded", Kind::TimeAsText),
    ],
);

/// `resource.DeviceClass`.
pub static DEVICE_CLASS: Message = Message::new(
    "resource.DeviceClass",
    &[one(1, "metadata", Kind::Message(&METADATA)), one(2, "spec", Kind::Message(&CLASS_SPEC))],
);

static CLASS_SPEC: Message = Message::new(
    "resource.DeviceClassSpec",
    &[
        list(1, "selectors", Kind::Message(&SELECTOR)),
        list(2, "config", Kind::Message(&CLASS_CONFIGURATION)),
        one(4, "extendedResourceName", Kind::Text),
    ],
);

static CLASS_CONFIGURATION: Message =
    Message::new("resource.DeviceClassConfiguration", &[inline(1, "", Kind::Message(&CONFIGURATION))]);
