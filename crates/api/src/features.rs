//! Feature gates that affect a scheduler, with the defaults of Kubernetes 1.36.
//!
//! Plugins call [`Features::enabled`]; the configuration crate parses the command line.

use std::fmt;

/// Maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on by default.
    Beta,
    /// Stable; the gate will be removed.
    Ga,
    /// Kept for a while to restore an old behavior.
    Deprecated,
}

impl Stage {
    /// Name as printed by `--help`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "GA",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

macro_rules! features {
    ($($name:ident $stage:ident $default:ident $lock:ident;)*) => {
        /// A feature gate under its Kubernetes name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are Kubernetes' own and described in its feature gate reference")]
        pub enum Feature {
            $($name,)*
        }

        impl Feature {
            /// All gates.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Name in Kubernetes.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Maturity in 1.36.
            pub const fn stage(self) -> Stage {
                match self { $(Self::$name => Stage::$stage,)* }
            }

            /// Returns true if the gate is on by default.
            pub const fn on_by_default(self) -> bool {
                match self { $(Self::$name => features!(@on $default),)* }
            }

            /// Returns true if the gate can no longer be changed.
            pub const fn locked(self) -> bool {
                match self { $(Self::$name => features!(@locked $lock),)* }
            }
        }
    };
    (@on on) => { true };
    (@on off) => { false };
    (@locked locked) => { true };
    (@locked free) => { false };
}

features! {
    ClearingNominatedNodeNameAfterBinding Beta on free;
    ComponentFlagz Beta on free;
    ComponentStatusz Beta on free;
    ContextualLogging Beta on free;
    CoordinatedLeaderElection Beta off free;
    DRAAdminAccess Ga on locked;
    DRAConsumableCapacity Beta on free;
    DRADeviceBindingConditions Beta on free;
    DRADeviceTaintRules Beta off free;
    DRADeviceTaints Beta on free;
    DRAExtendedResource Beta on free;
    DRAListTypeAttributes Alpha off free;
    DRANodeAllocatableResources Alpha off free;
    DRAPartitionableDevices Beta on free;
    DRAPrioritizedList Ga on free;
    DRAResourceClaimDeviceStatus Beta on free;
    DRAResourceClaimGranularStatusAuthorization Beta on free;
    DRASchedulerFilterTimeout Beta on free;
    DRAWorkloadResourceClaims Alpha off free;
    DynamicResourceAllocation Ga on locked;
    GangScheduling Alpha off free;
    GenericWorkload Alpha off free;
    ImageVolume Ga on locked;
    InPlacePodLevelResourcesVerticalScaling Beta on free;
    InPlacePodVerticalScaling Ga on locked;
    LoggingAlphaOptions Alpha off free;
    LoggingBetaOptions Beta on free;
    MatchLabelKeysInPodAffinity Ga on locked;
    MatchLabelKeysInPodTopologySpread Beta on free;
    MatchLabelKeysInPodTopologySpreadSelectorMerge Beta on free;
    NativeHistograms Alpha off free;
    NodeDeclaredFeatures Beta on free;
    NodeInclusionPolicyInPodTopologySpread Ga on locked;
    NominatedNodeNameForExpectation Beta on free;
    OpportunisticBatching Beta on free;
    PodLevelResources Beta on free;
    PodObservedGenerationTracking Ga on locked;
    PodSchedulingReadiness Ga on locked;
    SchedulerAsyncAPICalls Beta off free;
    SchedulerAsyncPreemption Beta on free;
    SchedulerPopFromBackoffQ Beta on free;
    SchedulerQueueingHints Ga on locked;
    SidecarContainers Ga on locked;
    StorageCapacityScoring Alpha off free;
    TaintTolerationComparisonOperators Alpha off free;
    TopologyAwareWorkloadScheduling Alpha off free;
    VolumeAttributesClass Ga on locked;
    VolumeLimitScaling Alpha off free;
    WatchListClient Beta on free;
    WorkloadAwarePreemption Alpha off free;
}

// One bit per gate.
const _: () = assert!(Feature::ALL.len() <= 64);

impl Feature {
    /// Returns the gate with the given name, if a scheduler uses it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|f| f.name() == name)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The set of gates that are on. [`Default`] is Kubernetes 1.36 without `--feature-gates`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Features(u64);

impl Features {
    /// Returns true if the gate is on.
    pub const fn enabled(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u64) != 0
    }

    /// Turns a gate on or off. The caller is responsible for locked gates and for dependencies between gates.
    pub fn set(&mut self, feature: Feature, on: bool) {
        let bit = 1 << feature as u64;
        if on {
            self.0 |= bit;
        } else {
            self.0 &= !bit;
        }
    }

    /// Returns a copy of these gates with one gate changed.
    #[must_use]
    pub fn with(mut self, feature: Feature, on: bool) -> Self {
        self.set(feature, on);
        self
    }
}

impl Default for Features {
    fn default() -> Self {
        let mut features = Self(0);
        Feature::ALL.iter().for_each(|&f| features.set(f, f.on_by_default()));
        features
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Feature::ALL.iter().map(|&g| (g.name(), self.enabled(g)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_start_at_their_defaults_and_can_be_changed() {
        let features = Features::default();
        assert!(features.enabled(Feature::OpportunisticBatching));
        assert!(!features.enabled(Feature::SchedulerAsyncAPICalls));
        assert!(
            features.with(Feature::WorkloadAwarePreemption, true).enabled(Feature::WorkloadAwarePreemption)
        );
        assert!(!features.with(Feature::WatchListClient, false).enabled(Feature::WatchListClient));
    }

    #[test]
    fn alpha_gates_are_off_and_locked_gates_are_stable_and_on() {
        for &feature in Feature::ALL {
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
            match feature.stage() {
                Stage::Alpha => assert!(!feature.on_by_default(), "{feature}"),
                Stage::Beta => assert!(!feature.locked(), "{feature}"),
                Stage::Ga => assert!(feature.on_by_default(), "{feature}"),
                Stage::Deprecated => panic!("a scheduler reads no deprecated gate: {feature}"),
            }
        }
        assert_eq!(Feature::from_name("Nonsense"), None);
    }
}
