//! Feature gates of the scheduler in the older versions of Kubernetes that can be emulated.

use harbormaster_api::features::Stage::{self, Alpha, Beta, Ga};

const ON: bool = true;
const OFF: bool = false;
const LOCKED: bool = true;
const FREE: bool = false;

/// State of a gate since a minor version of Kubernetes 1: the minor version, the stage, true if the gate is on by
/// default, and true if it is locked.
pub(crate) type GateChange = (u32, Stage, bool, bool);

/// Gates that differ between 1.33 and 1.36. A gate does not exist before its first entry. A gate that is not listed has
/// not changed since 1.33.
#[rustfmt::skip] // a table
pub(crate) const HISTORY: &[(&str, &[GateChange])] = &[
    ("ClearingNominatedNodeNameAfterBinding", &[(34, Alpha, OFF, FREE), (35, Beta, ON, FREE)]),
    ("ComponentFlagz", &[(33, Alpha, OFF, FREE)]),
    ("ComponentStatusz", &[(33, Alpha, OFF, FREE)]),
    ("DRAAdminAccess", &[(33, Alpha, OFF, FREE), (34, Beta, ON, FREE)]),
    ("DRAConsumableCapacity", &[(34, Alpha, OFF, FREE)]),
    ("DRADeviceBindingConditions", &[(34, Alpha, OFF, FREE)]),
    ("DRADeviceTaintRules", &[(35, Alpha, OFF, FREE)]),
    ("DRADeviceTaints", &[(33, Alpha, OFF, FREE)]),
    ("DRAExtendedResource", &[(34, Alpha, OFF, FREE)]),
    ("DRAListTypeAttributes", &[]),
    ("DRANodeAllocatableResources", &[]),
    ("DRAPartitionableDevices", &[(33, Alpha, OFF, FREE)]),
    ("DRAPrioritizedList", &[(33, Alpha, OFF, FREE), (34, Beta, ON, FREE)]),
    ("DRAResourceClaimGranularStatusAuthorization", &[]),
    ("DRASchedulerFilterTimeout", &[(34, Beta, ON, FREE)]),
    ("DRAWorkloadResourceClaims", &[]),
    ("DynamicResourceAllocation", &[(33, Beta, OFF, FREE), (34, Ga, ON, FREE), (35, Ga, ON, LOCKED)]),
    ("GangScheduling", &[(35, Alpha, OFF, FREE)]),
    ("GenericWorkload", &[(35, Alpha, OFF, FREE)]),
    ("ImageVolume", &[(33, Beta, OFF, FREE), (35, Beta, ON, FREE)]),
    ("InPlacePodLevelResourcesVerticalScaling", &[(35, Alpha, OFF, FREE)]),
    ("InPlacePodVerticalScaling", &[(33, Beta, ON, FREE), (35, Ga, ON, LOCKED)]),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", &[(34, Beta, ON, FREE)]),
    ("NodeDeclaredFeatures", &[(35, Alpha, OFF, FREE)]),
    ("NominatedNodeNameForExpectation", &[(34, Alpha, OFF, FREE), (35, Beta, ON, FREE)]),
    ("OpportunisticBatching", &[(35, Beta, ON, FREE)]),
    ("PodLevelResources", &[(33, Alpha, OFF, FREE), (34, Beta, ON, FREE)]),
    ("PodObservedGenerationTracking", &[(33, Alpha, OFF, FREE), (34, Beta, ON, FREE), (35, Ga, ON, LOCKED)]),
    ("SchedulerAsyncAPICalls", &[(34, Beta, OFF, FREE)]),
    ("SchedulerQueueingHints", &[(33, Beta, ON, FREE), (34, Ga, ON, LOCKED)]),
    ("TaintTolerationComparisonOperators", &[(35, Alpha, OFF, FREE)]),
    ("TopologyAwareWorkloadScheduling", &[]),
    ("VolumeAttributesClass", &[(33, Beta, OFF, FREE), (34, Ga, ON, FREE)]),
    ("VolumeLimitScaling", &[(35, Alpha, OFF, FREE)]),
    ("WatchListClient", &[(33, Beta, OFF, FREE), (35, Beta, ON, FREE)]),
    ("WorkloadAwarePreemption", &[]),];
