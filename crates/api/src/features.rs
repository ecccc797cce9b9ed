//! Feature gates that affect a scheduler, with their history since Kubernetes 1.33.
//!
//! Plugins call [`Features::enabled`]; the configuration crate parses the command line.

use std::fmt;

use crate::release::Release;

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

/// State of a feature gate in one version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Maturity.
    pub stage: Stage,
    /// True if the gate is on by default.
    pub on: bool,
    /// True if the gate can no longer be changed.
    pub locked: bool,
}

/// History of a feature gate: its changes, oldest first, separated by commas.
///
/// Each change names the minor version of Kubernetes 1 and the gate's state from then on, as in `34 Alpha off, 35 Beta
/// on, 36 Ga on locked, 38 removed`. Versions before 33 are written as 33.
#[derive(Clone, Copy, Debug)]
pub struct GateHistory(pub &'static str);

/// Stage and default of a gate in a version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// The release has no such gate.
    Unknown,
    /// The release has the gate, but emulates a version that did not.
    Future,
    /// The gate exists.
    Exists(Gate),
}

impl GateHistory {
    /// Returns the state of the gate in a release that emulates the minor version `emulated` of Kubernetes 1.
    pub fn state(self, release: Release, emulated: u32) -> GateState {
        let known = || self.changes().filter(|(since, _)| *since <= release.minor());
        match known().last() {
            None | Some((_, None)) => GateState::Unknown,
            Some(_) => match known().filter(|(since, _)| *since <= emulated).last() {
                Some((_, Some(gate))) => GateState::Exists(gate),
                _ => GateState::Future,
            },
        }
    }

    /// Iterates over the changes: the minor version, and the state from then on or `None` if the gate was removed.
    pub fn changes(self) -> impl Iterator<Item = (u32, Option<Gate>)> {
        self.0.split(',').filter_map(|change| {
            let (since, state) = change.trim().split_once(' ')?;
            Some((since.parse().ok()?, Gate::parse(state)))
        })
    }
}

impl Gate {
    /// Parses a state such as `Beta on`; `None` if it is not a state.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let stage = match words.next()? {
            "Alpha" => Stage::Alpha,
            "Beta" => Stage::Beta,
            "Ga" => Stage::Ga,
            "Deprecated" => Stage::Deprecated,
            _ => return None,
        };
        Some(Self { stage, on: words.next()? == "on", locked: words.next() == Some("locked") })
    }
}

/// Treatment of a feature gate by Harbormaster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Harbormaster behaves as the gate says.
    Honored,
    /// Harbormaster behaves as if the gate were on.
    AlwaysOn,
    /// The gate changes nothing that a scheduler decides.
    Neutral,
    /// The feature is not implemented, so the gate must stay off.
    Refused,
    /// Harbormaster behaves as the gate says from this release on. Before, the gate must stay off.
    HonoredFrom(Release),
}

impl Support {
    /// Returns true if the gate must stay off in the given release.
    pub fn is_refused_in(self, release: Release) -> bool {
        match self {
            Self::Refused => true,
            Self::HonoredFrom(first) => release < first,
            Self::Honored | Self::AlwaysOn | Self::Neutral => false,
        }
    }
}

macro_rules! support {
    () => {
        Support::Honored
    };
    (HonoredFrom37) => {
        Support::HonoredFrom(Release::V1_37)
    };
    ($support:ident) => {
        Support::$support
    };
}

// Each line names a gate, its history, and its treatment unless the gate is honored.
macro_rules! features {
    ($($name:ident $history:literal $($support:ident)?;)*) => {
        /// A feature gate under its Kubernetes name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are Kubernetes' own and described in its feature gate reference")]
        pub enum Feature {
            $($name,)*
        }

        impl Feature {
            /// All gates of all releases.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Name in Kubernetes.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The gate's changes.
            pub const fn history(self) -> GateHistory {
                match self { $(Self::$name => GateHistory($history),)* }
            }

            /// Treatment of the gate by Harbormaster.
            pub const fn support(self) -> Support {
                match self { $(Self::$name => support!($($support)?),)* }
            }
        }
    };
}

features! {
    ClearingNominatedNodeNameAfterBinding "34 Alpha off, 35 Beta on" Neutral;
    ComponentFlagz "33 Alpha off, 36 Beta on" Neutral;
    ComponentStatusz "33 Alpha off, 36 Beta on" Neutral;
    CompositePodGroup "37 Alpha off" Refused;
    ContextualLogging "33 Beta on" Neutral;
    CoordinatedLeaderElection "33 Beta off";
    DRAAdminAccess "33 Alpha off, 34 Beta on, 36 Ga on locked";
    DRAConsumableCapacity "34 Alpha off, 36 Beta on";
    DRADerivedAttributes "37 Alpha off" Refused;
    DRADeviceBindingConditions "34 Alpha off, 36 Beta on";
    DRADeviceCompatibilityGroups "37 Alpha off" Refused;
    DRADeviceTaintRules "35 Alpha off, 36 Beta off, 37 Ga on";
    DRADeviceTaints "33 Alpha off, 36 Beta on, 37 Ga on";
    DRAExtendedResource "34 Alpha off, 36 Beta on, 37 Ga on locked";
    DRAFractionalCapacityRange "37 Beta off" Refused;
    DRAListTypeAttributes "36 Alpha off";
    DRANodeAllocatableResources "36 Alpha off" Refused;
    DRAOptionalNodeOperations "37 Alpha off" Refused;
    DRAPartitionableDevices "33 Alpha off, 36 Beta on";
    DRAPartitionableDevicesType "37 Alpha off" Refused;
    DRAPrioritizedList "33 Alpha off, 34 Beta on, 36 Ga on, 37 Ga on locked";
    DRAResourceClaimDeviceStatus "33 Beta on, 37 Ga on locked";
    DRAResourceClaimGranularStatusAuthorization "36 Beta on" Neutral;
    DRASchedulerFilterTimeout "34 Beta on";
    DRAWorkloadResourceClaims "36 Alpha off, 37 Beta off" HonoredFrom37;
    DynamicResourceAllocation "33 Beta off, 34 Ga on, 35 Ga on locked";
    GangScheduling "35 Alpha off, 37 removed" Refused;
    GenericWorkload "35 Alpha off, 37 Beta off" HonoredFrom37;
    ImageVolume "33 Beta off, 35 Beta on, 36 Ga on locked" Neutral;
    InPlacePodLevelResourcesVerticalScaling "35 Alpha off, 36 Beta on" AlwaysOn;
    InPlacePodVerticalScaling "33 Beta on, 35 Ga on locked" AlwaysOn;
    InPlacePodVerticalScalingSchedulerPreemption "37 Alpha off" Refused;
    InterPodAffinityHostnameFastPath "37 Alpha off" Neutral;
    LoggingAlphaOptions "33 Alpha off";
    LoggingBetaOptions "33 Beta on";
    MatchLabelKeysInPodAffinity "33 Ga on locked" Neutral;
    MatchLabelKeysInPodTopologySpread "33 Beta on";
    MatchLabelKeysInPodTopologySpreadSelectorMerge "34 Beta on" Neutral;
    NativeHistograms "36 Alpha off, 37 Beta on" Neutral;
    NodeDeclaredFeatures "35 Alpha off, 36 Beta on, 37 Ga on locked";
    NodeInclusionPolicyInPodTopologySpread "33 Ga on locked";
    NominatedNodeNameForExpectation "34 Alpha off, 35 Beta on" AlwaysOn;
    OpportunisticBatching "35 Beta on";
    PodGroupPreemptionPolicy "37 Alpha off";
    PodLevelResources "33 Alpha off, 34 Beta on" AlwaysOn;
    PodObservedGenerationTracking "33 Alpha off, 34 Beta on, 35 Ga on locked" AlwaysOn;
    PodSchedulingReadiness "33 Ga on locked" AlwaysOn;
    SchedulerAsyncAPICalls "34 Beta off" Neutral;
    SchedulerAsyncPreemption "33 Beta on" AlwaysOn;
    SchedulerPopFromBackoffQ "33 Beta on" AlwaysOn;
    SchedulerPreQueueingHints "37 Alpha off" Neutral;
    SchedulerQueueingHints "33 Beta on, 34 Ga on locked, 37 removed" AlwaysOn;
    SidecarContainers "33 Ga on locked, 37 removed" AlwaysOn;
    StorageCapacityScoring "33 Alpha off, 37 Beta on";
    TaintTolerationComparisonOperators "35 Alpha off";
    TopologyAwareWorkloadScheduling "36 Alpha off" HonoredFrom37;
    VolumeAttributesClass "33 Beta off, 34 Ga on, 36 Ga on locked" AlwaysOn;
    VolumeLimitScaling "35 Alpha off, 37 Beta on";
    WatchListClient "33 Beta off, 35 Beta on" Neutral;
    WorkloadAwarePreemption "36 Alpha off, 37 removed" Refused;
    WorkloadWithJob "36 Alpha off";
}

// One bit per gate.
const _: () = assert!(Feature::ALL.len() <= 128);

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

/// The release of Kubernetes that applies, and the set of its gates that are on. [`Default`] is the default release
/// without `--feature-gates`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Features {
    release: Release,
    on: u128,
}

impl Features {
    /// Returns the default gates of a release.
    pub fn of(release: Release) -> Self {
        let mut features = Self { release, on: 0 };
        for &feature in Feature::ALL {
            let state = feature.history().state(release, release.minor());
            features.set(feature, matches!(state, GateState::Exists(gate) if gate.on));
        }
        features
    }

    /// The release that applies.
    pub const fn release(self) -> Release {
        self.release
    }

    /// Returns true if the gate exists and is on.
    pub const fn enabled(self, feature: Feature) -> bool {
        self.on & (1 << feature as u128) != 0
    }

    /// Iterates over the gates that are on although their features are not implemented. Gates that the release turns on
    /// by default are left out.
    pub fn refused(self) -> impl Iterator<Item = Feature> {
        let default = Self::of(self.release);
        let is_set = move |gate: &Feature| self.enabled(*gate) && !default.enabled(*gate);
        let is_refused = move |gate: &Feature| gate.support().is_refused_in(self.release);
        Feature::ALL.iter().copied().filter(is_refused).filter(is_set)
    }

    /// Iterates over the gates that are off although Harbormaster behaves as if they were on. Gates that the release
    /// does not have are left out.
    pub fn ignored(self) -> impl Iterator<Item = Feature> {
        let default = Self::of(self.release);
        let is_set = move |gate: &Feature| !self.enabled(*gate) && default.enabled(*gate);
        Feature::ALL.iter().copied().filter(|gate| gate.support() == Support::AlwaysOn).filter(is_set)
    }

    /// Turns a gate on or off. The caller is responsible for locked gates and for dependencies between gates.
    pub fn set(&mut self, feature: Feature, on: bool) {
        let bit = 1 << feature as u128;
        if on {
            self.on |= bit;
        } else {
            self.on &= !bit;
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
        Self::of(Release::default())
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.release)?;
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
    fn each_release_has_its_own_defaults() {
        let (old, new) = (Features::of(Release::V1_36), Features::of(Release::V1_37));
        assert_eq!((old.release(), new.release()), (Release::V1_36, Release::V1_37));
        for feature in [Feature::StorageCapacityScoring, Feature::VolumeLimitScaling] {
            assert!(!old.enabled(feature) && new.enabled(feature), "{feature}");
        }
    }

    #[test]
    fn a_gate_exists_from_its_first_change_until_it_is_removed() {
        let state = |feature: Feature, release, emulated| feature.history().state(release, emulated);
        let alpha = GateState::Exists(Gate { stage: Stage::Alpha, on: false, locked: false });
        for (release, emulated, expected) in [
            (Release::V1_36, 34, GateState::Future),
            (Release::V1_36, 35, alpha),
            (Release::V1_36, 36, alpha),
            (Release::V1_37, 36, GateState::Unknown),
            (Release::V1_37, 37, GateState::Unknown),
        ] {
            assert_eq!(state(Feature::GangScheduling, release, emulated), expected, "{release} {emulated}");
        }
        assert_eq!(state(Feature::CompositePodGroup, Release::V1_36, 36), GateState::Unknown);
        assert_eq!(state(Feature::CompositePodGroup, Release::V1_37, 36), GateState::Future);
    }

    #[test]
    fn a_gate_is_refused_only_while_it_is_on_and_ignored_only_while_it_is_off() {
        for &release in Release::ALL {
            let default = Features::of(release);
            assert_eq!((default.refused().next(), default.ignored().next()), (None, None), "{release}");
            let changed = default
                .with(Feature::DRAOptionalNodeOperations, true)
                .with(Feature::PodLevelResources, false)
                .with(Feature::OpportunisticBatching, false);
            assert_eq!(changed.refused().collect::<Vec<_>>(), [Feature::DRAOptionalNodeOperations]);
            assert_eq!(changed.ignored().collect::<Vec<_>>(), [Feature::PodLevelResources]);
        }
    }

    #[test]
    fn histories_are_well_formed_and_stages_have_fitting_defaults() {
        for &feature in Feature::ALL {
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
            assert_eq!(
                feature.history().changes().count(),
                feature.history().0.split(',').count(),
                "{feature}"
            );
            assert!(feature.history().changes().is_sorted_by_key(|(since, _)| since), "{feature}");
            for (since, gate) in feature.history().changes() {
                let Some(gate) = gate else {
                    assert!(feature.history().0.ends_with(&format!("{since} removed")), "{feature}");
                    continue;
                };
                match gate.stage {
                    Stage::Alpha => assert!(!gate.on, "{feature}"),
                    Stage::Beta => assert!(!gate.locked, "{feature}"),
                    Stage::Ga => assert!(gate.on, "{feature}"),
                    Stage::Deprecated => panic!("a scheduler reads no deprecated gate: {feature}"),
                }
            }
        }
        assert_eq!(Feature::from_name("Nonsense"), None);
    }
}
