//! Parsing of `--feature-gates`.

use std::collections::BTreeMap;

use harbormaster_api::{
    Release,
    features::{Feature, Features, Gate, GateHistory, GateState, Stage},
    similar::did_you_mean,
};
use thiserror::Error;

use crate::{
    emulation::Emulation,
    gate_table::{DEPENDENCIES, FOREIGN_GATES},
};

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// Feature gates of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// Gates that were set, by name or through `AllAlpha` or `AllBeta`.
    set: BTreeMap<String, bool>,
    /// The Kubernetes version whose gates and defaults apply.
    emulation: Emulation,
}

/// The reason why feature gates cannot be set, with kube-scheduler's message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GateError {
    /// There is no `=`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// The value is not a boolean.
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    InvalidValue {
        /// The gate.
        name: String,
        /// The rejected value.
        value: String,
    },
    /// No component of the release has this gate.
    #[error("unrecognized feature gate: {name}{hint}", hint = did_you_mean(name, all_in(*emulation)))]
    Unknown {
        /// The rejected name.
        name: String,
        /// The emulated version.
        emulation: Emulation,
    },
    /// The gate can no longer be changed.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {}", !value)]
    Locked {
        /// The gate.
        name: String,
        /// The rejected value.
        value: bool,
    },
    /// The gate does not exist in the emulated version.
    #[error(
        "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {}, min compatibility version {}",
        emulation.emulated(), emulation.min_compatible()
    )]
    PreAlpha {
        /// The gate.
        name: String,
        /// The rejected value.
        value: bool,
        /// The emulated version.
        emulation: Emulation,
    },
    /// The gate is enabled, but it depends on gates that are disabled.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", needs.join(" "))]
    Dependency {
        /// The gate.
        name: String,
        /// The disabled gates that it depends on.
        needs: Vec<String>,
    },
    /// `component:gate=value` names a component other than `kube`.
    #[error("component not registered: {0}")]
    Component(String),
    /// Gates are set both with and without `kube:`.
    #[error("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")]
    MixedPrefix,
    /// Several errors.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<GateError>),
}

/// Looks up a gate of any component as of the emulated version.
fn state(name: &str, emulation: Emulation) -> GateState {
    let history = match name {
        ALL_ALPHA => GateHistory("33 Alpha off"),
        ALL_BETA => GateHistory("33 Beta off"),
        _ => match Feature::from_name(name).map(Feature::history).or_else(|| foreign(name)) {
            Some(history) => history,
            None => return GateState::Unknown,
        },
    };
    history.state(emulation.release(), emulation.minor())
}

/// Looks up a gate that exists in the emulated version.
fn existing(name: &str, emulation: Emulation) -> Option<Gate> {
    match state(name, emulation) {
        GateState::Exists(gate) => Some(gate),
        GateState::Unknown | GateState::Future => None,
    }
}

/// Looks up the history of another component's gate.
fn foreign(name: &str) -> Option<GateHistory> {
    foreign_gates().find(|(known, _)| *known == name).map(|(_, history)| history)
}

fn foreign_gates() -> impl Iterator<Item = (&'static str, GateHistory)> {
    FOREIGN_GATES
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(name, h)| (name, GateHistory(h)))
}

/// Iterates over the names of all gates of all releases except `AllAlpha` and `AllBeta`.
fn all() -> impl Iterator<Item = &'static str> {
    Feature::ALL.iter().map(|f| f.name()).chain(foreign_gates().map(|(name, _)| name))
}

/// Iterates over the names of all gates that exist in the emulated version, except `AllAlpha` and `AllBeta`.
fn all_in(emulation: Emulation) -> impl Iterator<Item = &'static str> {
    all().filter(move |name| existing(name, emulation).is_some())
}

impl FeatureGates {
    /// Iterates over the gates that the scheduler has in the emulated version, and yields each gate's name, its stage,
    /// and true if it is enabled.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let features = self.features();
        let emulation = self.emulation;
        let existing = move |gate: &'static Feature| Some((gate, existing(gate.name(), emulation)?));
        let existing = Feature::ALL.iter().filter_map(existing);
        existing.map(move |(feature, gate)| (feature.name(), gate.stage, features.enabled(*feature)))
    }

    /// Parses the values of all `--feature-gates` flags: `A=true,B=false`, with or without `kube:` before every gate.
    ///
    /// # Errors
    /// Invalid syntax, unknown gates, changes to locked gates, and enabled gates that depend on disabled gates.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, GateError> {
        Self::parse_at(flags, Emulation::default())
    }

    /// Parses like [`Self::parse`], but with the gates and defaults of the emulated version.
    ///
    /// # Errors
    /// Those of [`Self::parse`], and gates that do not exist in the emulated version.
    pub fn parse_at<'a>(
        flags: impl IntoIterator<Item = &'a str>,
        emulation: Emulation,
    ) -> Result<Self, GateError> {
        let mut given = BTreeMap::new();
        for (name, value) in split(flags)? {
            let on = parse_bool(&value).ok_or(GateError::InvalidValue { name: name.clone(), value })?;
            given.insert(name, on);
        }
        Self::from_map(given, emulation)
    }

    fn from_map(given: BTreeMap<String, bool>, emulation: Emulation) -> Result<Self, GateError> {
        if let Some(name) = given.keys().find(|name| state(name, emulation) == GateState::Unknown) {
            return Err(GateError::Unknown { name: name.clone(), emulation });
        }
        let refused = |(name, &value): (&String, &bool)| {
            let state = state(name, emulation);
            let name = name.clone();
            match state {
                GateState::Unknown => None,
                GateState::Future => Some(GateError::PreAlpha { name, value, emulation }),
                GateState::Exists(gate) => {
                    (gate.locked && gate.on != value).then_some(GateError::Locked { name, value })
                }
            }
        };
        several(given.iter().filter_map(refused).collect())?;
        let mut gates = Self { set: given, emulation };
        gates.apply_to_stage(ALL_ALPHA, Stage::Alpha);
        gates.apply_to_stage(ALL_BETA, Stage::Beta);
        several(gates.unmet_dependencies())?;
        Ok(gates)
    }

    /// Applies `AllAlpha` or `AllBeta` to the gates that are not set by name.
    fn apply_to_stage(&mut self, name: &str, stage: Stage) {
        let Some(&on) = self.set.get(name) else { return };
        let emulation = self.emulation;
        for gate in all().filter(|name| existing(name, emulation).is_some_and(|gate| gate.stage == stage)) {
            self.set.entry(gate.to_owned()).or_insert(on);
        }
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let mut unmet = Vec::new();
        let exists = |name: &str| existing(name, self.emulation).is_some();
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            let off = needs.split_whitespace().filter(|need| exists(need) && !self.enabled(need));
            let off: Vec<_> = off.map(str::to_owned).collect();
            if self.enabled(name) && !off.is_empty() {
                unmet.push(GateError::Dependency { name: name.to_owned(), needs: off });
            }
        }
        unmet
    }

    /// Returns true if the gate exists and is enabled.
    pub fn enabled(&self, name: &str) -> bool {
        self.set
            .get(name)
            .copied()
            .unwrap_or_else(|| existing(name, self.emulation).is_some_and(|gate| gate.on))
    }

    /// Returns the release and the state of the gates that the scheduler uses.
    pub fn features(&self) -> Features {
        let mut features = Features::of(self.emulation.release());
        Feature::ALL.iter().for_each(|&feature| features.set(feature, self.enabled(feature.name())));
        features
    }

    /// Returns a line for `--help` about each gate that a scheduler uses, and that is alpha or beta and not refused in some
    /// release. A gate that differs between the releases is described for each release.
    pub fn help() -> Vec<String> {
        let known = Feature::ALL.iter().map(|gate| gate.name());
        let mut names: Vec<_> = known.chain([ALL_ALPHA, ALL_BETA]).collect();
        names.sort_unstable();
        names.into_iter().filter_map(help_line).collect()
    }
}

/// Returns the line of a gate for `--help`; `None` if the gate is neither alpha nor beta in any release.
fn help_line(name: &str) -> Option<String> {
    let support = Feature::from_name(name).map(Feature::support);
    let state = |&release: &Release| {
        if support.is_some_and(|support| support.is_refused_in(release)) {
            return None;
        }
        let gate = existing(name, Emulation::of(release))?;
        let is_listed = matches!(gate.stage, Stage::Alpha | Stage::Beta);
        is_listed.then(|| (release, format!("{} - default={}", gate.stage.name(), gate.on)))
    };
    let states: Vec<_> = Release::ALL.iter().filter_map(state).collect();
    let (_, first) = states.first()?;
    let is_same = states.len() == Release::ALL.len() && states.iter().all(|(_, state)| state == first);
    let states = match is_same {
        true => first.clone(),
        false => states.iter().map(|(r, state)| format!("{r}: {state}")).collect::<Vec<_>>().join("; "),
    };
    Some(format!("{name}=true|false ({states})"))
}

/// Splits flags into names and unparsed values.
fn split<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Vec<(String, String)>, GateError> {
    let mut pairs = Vec::new();
    let (mut bare, mut prefixed) = (false, false);
    for word in flags.into_iter().flat_map(|flag| flag.split(',')).filter(|word| !word.is_empty()) {
        let assignment = match word.split_once(':') {
            None => {
                bare = true;
                word
            }
            Some((component, assignment)) => {
                let component = component.trim();
                if !["", "kube"].contains(&component) {
                    return Err(GateError::Component(component.to_owned()));
                }
                bare |= component.is_empty();
                prefixed |= !component.is_empty();
                assignment
            }
        };
        if assignment.trim().is_empty() {
            continue;
        }
        match assignment.split_once('=') {
            Some((name, value)) => pairs.push((name.trim().to_owned(), value.trim().to_owned())),
            None => return Err(GateError::MissingValue(assignment.trim().to_owned())),
        }
    }
    if bare && prefixed { Err(GateError::MixedPrefix) } else { Ok(pairs) }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn several(mut errors: Vec<GateError>) -> Result<(), GateError> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(GateError::Several(errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        let gates = FeatureGates::parse(["SchedulerAsyncAPICalls=true, kube", "OpportunisticBatching=F"]);
        assert_eq!(gates.unwrap_err(), GateError::MissingValue("kube".into()));
        let gates = FeatureGates::parse([
            "SchedulerAsyncAPICalls=true, OpportunisticBatching = F",
            "",
            "AllAlpha=true",
        ])
        .unwrap();
        let features = gates.features();
        assert!(features.enabled(Feature::SchedulerAsyncAPICalls));
        assert!(!features.enabled(Feature::OpportunisticBatching));
        assert!(features.enabled(Feature::GangScheduling));
        assert!(!gates.enabled("Nonsense") && gates.enabled("SidecarContainers"));
        let gates = FeatureGates::parse(["AllAlpha=true,VolumeLimitScaling=false"]).unwrap();
        assert!(!gates.features().enabled(Feature::VolumeLimitScaling));
        assert_eq!(FeatureGates::parse([]).unwrap().features(), Features::default());
        assert!(FeatureGates::parse(["kube:GenericWorkload=1"]).unwrap().enabled("GenericWorkload"));
    }

    #[test]
    fn gates_of_other_components_are_accepted() {
        let gates = FeatureGates::parse(["KubeletPSI=true,CPUManagerPolicyAlphaOptions=true"]).unwrap();
        assert!(gates.enabled("CPUManagerPolicyAlphaOptions"));
        assert_eq!(gates.features(), Features::default());
    }

    #[test]
    fn gates_that_cannot_be_set_are_rejected_with_kube_schedulers_messages() {
        for (flag, message) in [
            ("A", "missing bool value for A"),
            (
                "OpportunisticBatching=maybe",
                "invalid value of OpportunisticBatching=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            ("Nonsense=true", "unrecognized feature gate: Nonsense"),
            (
                "GangSchedulling=true",
                "unrecognized feature gate: GangSchedulling (did you mean `GangScheduling`?)",
            ),
            (
                "SchedulerQueueingHints=false",
                "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
            ),
            (
                "SidecarContainers=false,SchedulerQueueingHints=false",
                "[cannot set feature gate SchedulerQueueingHints to false, feature is locked to true, \
                 cannot set feature gate SidecarContainers to false, feature is locked to true]",
            ),
            (
                "GangScheduling=true",
                "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
            ),
            ("wardle:X=true", "component not registered: wardle"),
            (
                "kube:GenericWorkload=true,GangScheduling=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
        ] {
            assert_eq!(FeatureGates::parse([flag]).unwrap_err().to_string(), message);
        }
        assert!(FeatureGates::parse(["SchedulerQueueingHints=true"]).is_ok());
    }

    #[test]
    fn an_older_version_has_its_own_gates_and_defaults() {
        let at = |version| Emulation::parse([version], [], Release::V1_36).unwrap();
        let features = FeatureGates::parse_at([], at("1.34")).unwrap().features();
        assert!(!features.enabled(Feature::OpportunisticBatching), "OpportunisticBatching was added in 1.35");
        assert!(!features.enabled(Feature::NodeDeclaredFeatures), "NodeDeclaredFeatures was added in 1.35");
        assert!(features.enabled(Feature::PodLevelResources), "PodLevelResources has been on since 1.34");
        assert!(!FeatureGates::parse_at([], at("1.33")).unwrap().enabled("PodLevelResources"));
        assert_eq!(FeatureGates::parse_at([], at("1.36")).unwrap().features(), Features::default());
        let gates = FeatureGates::parse_at(["NodeDeclaredFeatures=true"], at("1.35")).unwrap();
        assert!(gates.features().enabled(Feature::NodeDeclaredFeatures));
        let beta = FeatureGates::parse_at(["AllBeta=true"], at("1.34")).unwrap();
        assert!(beta.enabled("SchedulerAsyncAPICalls") && !beta.enabled("NodeDeclaredFeatures"));
        assert!(!beta.all().any(|(name, ..)| name == "GangScheduling"));
        let error = FeatureGates::parse_at(["GangScheduling=true"], at("1.34")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot set feature gate GangScheduling to true, feature is PreAlpha at emulated version 1.34, min \
             compatibility version 1.33"
        );
    }

    #[test]
    fn the_next_release_has_its_own_gates_and_defaults() {
        let parse = |flag| FeatureGates::parse_at([flag], Emulation::of(Release::V1_37));
        let features = parse("").unwrap().features();
        assert_eq!(features, Features::of(Release::V1_37));
        assert!(
            features.enabled(Feature::StorageCapacityScoring) && !features.enabled(Feature::GenericWorkload)
        );
        assert!(
            parse("EtcdRangeStream=false").is_ok() && FeatureGates::parse(["EtcdRangeStream=false"]).is_err()
        );
        assert!(parse("PodCertificateRequest=true").is_ok());
        for (flag, message) in [
            ("GangScheduling=true", "unrecognized feature gate: GangScheduling"),
            ("SidecarContainers=true", "unrecognized feature gate: SidecarContainers"),
            (
                "NodeDeclaredFeatures=false",
                "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true",
            ),
            (
                "CompositePodGroup=true",
                "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload \
                 TopologyAwareWorkloadScheduling]",
            ),
        ] {
            assert_eq!(parse(flag).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn the_tables_are_consistent() {
        let mut names: Vec<_> = all().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            for name in needs.split_whitespace().chain([name]) {
                assert!(all().any(|known| known == name), "{name}");
            }
        }
        for (name, history) in foreign_gates() {
            assert_eq!(history.changes().count(), history.0.split(',').count(), "{name}");
            assert!(history.changes().is_sorted_by_key(|(since, _)| since), "{name}");
            let removed = history.changes().filter(|(_, gate)| gate.is_none()).count();
            assert_eq!(removed, history.0.matches("removed").count(), "{name}");
        }
        assert!(FeatureGates::default().unmet_dependencies().is_empty());
    }

    #[test]
    fn the_help_describes_each_gate_once_and_names_the_releases_in_which_it_differs() {
        let help = FeatureGates::help();
        assert!(help.is_sorted());
        for line in [
            "AllAlpha=true|false (ALPHA - default=false)",
            "OpportunisticBatching=true|false (BETA - default=true)",
            "StorageCapacityScoring=true|false (1.36: ALPHA - default=false; 1.37: BETA - default=true)",
            "SchedulerPreQueueingHints=true|false (1.37: ALPHA - default=false)",
            "NodeDeclaredFeatures=true|false (1.36: BETA - default=true)",
            "GenericWorkload=true|false (1.37: BETA - default=false)",
        ] {
            assert!(help.iter().any(|known| known == line), "{line} is not in\n{}", help.join("\n"));
        }
        for absent in ["SidecarContainers", "CompositePodGroup", "KubeletPSI"] {
            assert!(!help.iter().any(|line| line.starts_with(absent)), "{absent}");
        }
    }
}
