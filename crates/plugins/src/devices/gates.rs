//! Feature gates that decide which devices and requests the scheduler supports.

use harbormaster_api::features::Feature;

/// States of the feature gates. See [`Feature`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceGates {
    /// `DRAAdminAccess`
    pub admin_access: bool,
    /// `DRAPrioritizedList`
    pub prioritized_list: bool,
    /// `DRAPartitionableDevices`
    pub partitionable_devices: bool,
    /// `DRADeviceTaints`
    pub device_taints: bool,
    /// `DRADeviceBindingConditions` and `DRAResourceClaimDeviceStatus`, which work only together.
    pub binding_conditions: bool,
    /// `DRAConsumableCapacity`
    pub consumable_capacity: bool,
    /// `DRAListTypeAttributes`
    pub list_attributes: bool,
    /// `DRASchedulerFilterTimeout`
    pub filter_timeout: bool,
}

impl DeviceGates {
    /// Reads the gates.
    pub fn of(enabled: impl Fn(Feature) -> bool) -> Self {
        Self {
            admin_access: enabled(Feature::DRAAdminAccess),
            prioritized_list: enabled(Feature::DRAPrioritizedList),
            partitionable_devices: enabled(Feature::DRAPartitionableDevices),
            device_taints: enabled(Feature::DRADeviceTaints),
            binding_conditions: enabled(Feature::DRADeviceBindingConditions)
                && enabled(Feature::DRAResourceClaimDeviceStatus),
            consumable_capacity: enabled(Feature::DRAConsumableCapacity),
            list_attributes: enabled(Feature::DRAListTypeAttributes),
            filter_timeout: enabled(Feature::DRASchedulerFilterTimeout),
        }
    }

    /// Returns true if kube-scheduler uses its "stable" allocator, which knows nothing of the newest features: it
    /// ignores requests for capacity, and `distinctAttribute` is an unknown constraint.
    pub(super) fn are_stable(self) -> bool {
        !self.consumable_capacity && !self.binding_conditions && !self.list_attributes
    }
}
