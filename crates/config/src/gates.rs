//! Parsing of `--feature-gates`.

use std::collections::BTreeMap;

use harbormaster_api::{
    features::{Feature, Features, Stage},
    similar::did_you_mean,
};
use thiserror::Error;

use crate::{
    emulation::Emulation,
    gate_history::{GateChange, HISTORY},
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
    /// No component of Kubernetes has this gate.
    #[error("unrecognized feature gate: {0}{hint}", hint = did_you_mean(.0, all()))]
    Unknown(String),
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

#[derive(Clone, Copy)]
struct Gate {
    stage: Stage,
    on: bool,
    locked: bool,
    /// The gate was added after the emulated version.
    is_future: bool,
}

impl Gate {
    const fn new(stage: Stage, on: bool, locked: bool) -> Self {
        Self { stage, on, locked, is_future: false }
    }
}

/// Looks up a gate. A gate of the scheduler is returned as of the emulated version, a gate of another component as of
/// 1.36.
fn known(name: &str, emulation: Emulation) -> Option<Gate> {
    if let Some(feature) = Feature::from_name(name) {
        let history = HISTORY.iter().find(|(known, _)| *known == name && !emulation.is_none());
        return Some(match history {
            Some((_, history)) => gate_as_of(history, emulation),
            None => Gate::new(feature.stage(), feature.on_by_default(), feature.locked()),
        });
    }
    match name {
        ALL_ALPHA => Some(Gate::new(Stage::Alpha, false, false)),
        ALL_BETA => Some(Gate::new(Stage::Beta, false, false)),
        _ => FOREIGN_GATES
            .iter()
            .find(|foreign| foreign.names.split_whitespace().any(|n| n == name))
            .map(|foreign| Gate::new(foreign.stage, foreign.on, foreign.locked)),
    }
}

/// Returns a gate as of the emulated version.
fn gate_as_of(history: &[GateChange], emulation: Emulation) -> Gate {
    match history.iter().rev().find(|(since, ..)| *since <= emulation.minor()) {
        Some((_, stage, on, locked)) => Gate::new(*stage, *on, *locked),
        None => Gate { is_future: true, ..Gate::new(Stage::Alpha, false, true) },
    }
}

/// Iterates over the names of all gates except `AllAlpha` and `AllBeta`.
fn all() -> impl Iterator<Item = &'static str> {
    let foreign = FOREIGN_GATES.iter().flat_map(|foreign| foreign.names.split_whitespace());
    Feature::ALL.iter().map(|f| f.name()).chain(foreign)
}

impl FeatureGates {
    /// Iterates over the gates that the scheduler has in the emulated version, and yields each gate's name, its stage,
    /// and true if it is enabled.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let features = self.features();
        let emulation = self.emulation;
        let known = move |gate: &'static Feature| Some((gate, known(gate.name(), emulation)?));
        let existing = Feature::ALL.iter().filter_map(known).filter(|(_, gate)| !gate.is_future);
        existing.map(move |(feature, gate)| (feature.name(), gate.stage, features.enabled(*feature)))
    }

    /// Parses the values of all `--feature-gates` flags: `A=true,B=false`, each gate with or without `kube:`.
    ///
    /// # Errors
    /// Invalid syntax, unknown gates, changes to locked gates, and enabled gates that depend on disabled gates.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, GateError> {
        Self::parse_at(flags, Emulation::default())
    }

    /// Parses like [`Self::parse`], but with the gates and defaults of the emulated version. The gates of other
    /// components are always those of 1.36.
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
        if let Some(name) = given.keys().find(|name| known(name, emulation).is_none()) {
            return Err(GateError::Unknown(name.clone()));
        }
        let refused = |(name, &value): (&String, &bool)| {
            let (gate, name) = (known(name, emulation)?, name.clone());
            match gate.is_future {
                true => Some(GateError::PreAlpha { name, value, emulation }),
                false => (gate.locked && gate.on != value).then_some(GateError::Locked { name, value }),
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
        let is_affected = |gate: Gate| gate.stage == stage && !gate.is_future;
        let emulation = self.emulation;
        for gate in all().filter(|name| known(name, emulation).is_some_and(is_affected)) {
            self.set.entry(gate.to_owned()).or_insert(on);
        }
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let mut unmet = Vec::new();
        // The state of other components' gates in older versions is unknown, so their dependencies are not checked.
        let is_known = |name: &str| self.emulation.is_none() || Feature::from_name(name).is_some();
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            let off: Vec<_> =
                needs.split_whitespace().filter(|need| !self.enabled(need)).map(str::to_owned).collect();
            if is_known(name) && self.enabled(name) && !off.is_empty() {
                unmet.push(GateError::Dependency { name: name.to_owned(), needs: off });
            }
        }
        unmet
    }

    /// Returns true if the gate exists and is enabled.
    pub fn enabled(&self, name: &str) -> bool {
        self.set.get(name).copied().unwrap_or_else(|| known(name, self.emulation).is_some_and(|gate| gate.on))
    }

    /// Returns the state of the gates that the scheduler uses.
    pub fn features(&self) -> Features {
        let mut features = Features::default();
        Feature::ALL.iter().for_each(|&feature| features.set(feature, self.enabled(feature.name())));
        features
    }

    /// Returns the alpha and beta gates as sorted lines for `--help`.
    pub fn help() -> Vec<String> {
        let line = |name: &str| {
            let gate = known(name, Emulation::default())
                .filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta))?;
            Some(format!("{name}=true|false ({} - default={})", gate.stage.name(), gate.on))
        };
        let mut lines: Vec<_> = all().chain([ALL_ALPHA, ALL_BETA]).filter_map(line).collect();
        lines.sort_unstable();
        lines
    }
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
        let at = |version| Emulation::parse([version], []).unwrap();
        let features = FeatureGates::parse_at([], at("1.34")).unwrap().features();
        assert!(!features.enabled(Feature::OpportunisticBatching), "it was added in 1.35");
        assert!(!features.enabled(Feature::NodeDeclaredFeatures), "it was added in 1.35 too");
        assert!(features.enabled(Feature::PodLevelResources), "it has been on since 1.34");
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
    fn the_tables_are_consistent() {
        let mut names: Vec<_> = all().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            for name in needs.split_whitespace().chain([name]) {
                assert!(known(name, Emulation::default()).is_some(), "{name}");
            }
        }
        for (name, history) in HISTORY {
            assert!(Feature::from_name(name).is_some(), "{name}");
            assert!(history.is_sorted_by_key(|(since, ..)| *since), "{name}");
        }
        assert!(FeatureGates::default().unmet_dependencies().is_empty());
        let help = FeatureGates::help();
        assert!(help.contains(&"GangScheduling=true|false (ALPHA - default=false)".to_owned()));
        assert!(!help.iter().any(|line| line.starts_with("SidecarContainers")));
    }
}
