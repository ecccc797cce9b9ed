//! Differences between releases of Kubernetes.

use harbormaster_api::Release;

/// Rules for devices in which releases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceRules {
    /// Release whose selectors are reproduced.
    pub(super) release: Release,
    /// Pools with the same name share their counters even if their drivers differ.
    pub(super) counters_by_pool_name: bool,
    /// Every node sees all slices with counters, even if a slice names other nodes.
    pub(super) counters_reach_all_nodes: bool,
    /// Devices that claims share leave the counters that they consume to other devices.
    pub(super) shares_consume_no_counters: bool,
    /// A device that is rejected after it has taken counters keeps them for the rest of the search, and a device that
    /// is rejected for its capacity stays in the constraints. A shared device that is given back keeps its counters.
    pub(super) rejected_devices_leave_traces: bool,
    /// `distinctAttribute` compares only the latest device of each request.
    pub(super) distinct_by_request: bool,
    /// A request for all devices leaves out devices whose free capacity is too small. Otherwise, such devices fail the
    /// request.
    pub(super) all_with_free_capacity: bool,
    /// A request for a capacity that is negative or too large to be rounded is an error. Otherwise, the amount wraps
    /// around or is capped.
    pub(super) refuses_odd_capacities: bool,
    /// An amount that is rounded to a step is written in the notation of the step, otherwise with binary suffixes.
    pub(super) keeps_notation_of_step: bool,
    /// A claim's configuration is repeated for each request that it names. Otherwise, it occurs once, and configuration
    /// for all requests names none.
    pub(super) repeats_configuration: bool,
    /// The fields `derivedAttributes`, `compatibilityGroups` and `skipNodeOperations` exist. Their features are not
    /// supported, so requests, slices and allocations that need them are refused. Otherwise, the fields are ignored.
    pub(crate) knows_unsupported_fields: bool,
    /// The devices that are chosen for a claim stay in use until they are ready, even if the claim loses its allocation
    /// again before that.
    pub(crate) keeps_devices_until_ready: bool,
    /// The deletion of a claim with devices wakes all pods. Otherwise, it wakes pods whose claims all exist.
    pub(crate) deletions_wake_all: bool,
    /// Errors of selectors name the device, and errors about too many devices name the request.
    pub(super) detailed_errors: bool,
}

impl DeviceRules {
    /// Returns the rules of a release.
    pub(super) fn of(release: Release) -> Self {
        let is_new = release >= Release::V1_37;
        Self {
            release,
            counters_by_pool_name: !is_new,
            counters_reach_all_nodes: !is_new,
            shares_consume_no_counters: !is_new,
            rejected_devices_leave_traces: !is_new,
            distinct_by_request: !is_new,
            all_with_free_capacity: !is_new,
            refuses_odd_capacities: is_new,
            keeps_notation_of_step: is_new,
            repeats_configuration: !is_new,
            knows_unsupported_fields: is_new,
            keeps_devices_until_ready: is_new,
            deletions_wake_all: is_new,
            detailed_errors: is_new,
        }
    }
}

impl Default for DeviceRules {
    /// The rules of Kubernetes 1.36.
    fn default() -> Self {
        Self::of(Release::V1_36)
    }
}
