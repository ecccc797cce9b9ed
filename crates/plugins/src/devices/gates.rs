//! Feature gates that decide which devices and requests the scheduler supports.

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};

use super::rules::DeviceRules;

/// States of the feature gates, and the rules of the release. See [`Feature`].
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
    /// `DRADeviceTaintRules`
    pub taint_rules: bool,
    /// `DRADeviceBindingConditions` and `DRAResourceClaimDeviceStatus`, which work only together.
    pub binding_conditions: bool,
    /// `DRAConsumableCapacity`
    pub consumable_capacity: bool,
    /// Selectors can read attributes that are lists: `DRAListTypeAttributes`, and always as of 1.37.
    pub list_attributes: bool,
    /// Constraints compare the elements of lists: `DRAListTypeAttributes`, as of 1.37.
    pub list_constraints: bool,
    /// `DRASchedulerFilterTimeout`
    pub filter_timeout: bool,
    pub(crate) rules: DeviceRules,
}

impl DeviceGates {
    /// Reads the gates.
    pub fn of(features: Features) -> Self {
        let enabled = |feature| features.enabled(feature);
        let (lists, is_new) = (enabled(Feature::DRAListTypeAttributes), features.release() >= Release::V1_37);
        Self {
            admin_access: enabled(Feature::DRAAdminAccess),
            prioritized_list: enabled(Feature::DRAPrioritizedList),
            partitionable_devices: enabled(Feature::DRAPartitionableDevices),
            device_taints: enabled(Feature::DRADeviceTaints),
            taint_rules: enabled(Feature::DRADeviceTaintRules),
            binding_conditions: enabled(Feature::DRADeviceBindingConditions)
                && enabled(Feature::DRAResourceClaimDeviceStatus),
            consumable_capacity: enabled(Feature::DRAConsumableCapacity),
            list_attributes: lists || is_new,
            list_constraints: lists && is_new,
            filter_timeout: enabled(Feature::DRASchedulerFilterTimeout),
            rules: DeviceRules::of(features.release()),
        }
    }

    /// Returns true if kube-scheduler would use its "stable" allocator, which does not support the newest features: it
    /// ignores requests for capacity, and treats `distinctAttribute` as an unknown constraint.
    pub(super) fn are_stable(self) -> bool {
        !self.consumable_capacity && !self.binding_conditions && !self.list_constraints
    }

    /// Returns true if every node sees all slices with counters.
    pub(super) fn counters_reach_all_nodes(self) -> bool {
        self.rules.counters_reach_all_nodes || self.are_stable()
    }
}
