//! `--feature-gates`.

use std::collections::BTreeMap;

use harbormaster_api::{
    features::{Feature, Features, Stage},
    similar::did_you_mean,
};
use thiserror::Error;

use crate::gate_table::{DEPENDENCIES, OTHERS};

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// The feature gates of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// What was set, by name or through `AllAlpha` and `AllBeta`.
    set: BTreeMap<String, bool>,
}

/// Why feature gates cannot be set so; the messages are kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GateError {
    /// No `=`.
    #[error("missing bool value for {0}")]
    MissingValue(String),
    /// Neither true nor false.
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    InvalidValue {
        /// The gate.
        name: String,
        /// What it was set to.
        value: String,
    },
    /// No component of Kubernetes has that gate.
    #[error("unrecognized feature gate: {0}{hint}", hint = did_you_mean(.0, all()))]
    Unknown(String),
    /// The gate cannot be changed any more.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {}", !value)]
    Locked {
        /// The gate.
        name: String,
        /// What it was set to.
        value: bool,
    },
    /// A gate is on that needs others.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", needs.join(" "))]
    Dependency {
        /// The gate.
        name: String,
        /// What it needs.
        needs: Vec<String>,
    },
    /// `component:gate=value` for another component than `kube`.
    #[error("component not registered: {0}")]
    Component(String),
    /// With and without `kube:`.
    #[error("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")]
    MixedPrefix,
    /// Several of them.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<GateError>),
}

#[derive(Clone, Copy)]
struct Gate {
    stage: Stage,
    on: bool,
    locked: bool,
}

/// A gate of the scheduler or of another component.
fn known(name: &str) -> Option<Gate> {
    if let Some(feature) = Feature::from_name(name) {
        return Some(Gate { stage: feature.stage(), on: feature.on_by_default(), locked: feature.locked() });
    }
    match name {
        ALL_ALPHA => Some(Gate { stage: Stage::Alpha, on: false, locked: false }),
        ALL_BETA => Some(Gate { stage: Stage::Beta, on: false, locked: false }),
        _ => OTHERS
            .iter()
            .find(|others| others.names.split_whitespace().any(|n| n == name))
            .map(|others| Gate { stage: others.stage, on: others.on, locked: others.locked }),
    }
}

/// All gates but `AllAlpha` and `AllBeta`.
fn all() -> impl Iterator<Item = &'static str> {
    let others = OTHERS.iter().flat_map(|others| others.names.split_whitespace());
    Feature::ALL.iter().map(|f| f.name()).chain(others)
}

impl FeatureGates {
    /// Every gate of the scheduler with its stage, and whether it is on.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let features = self.features();
        Feature::ALL.iter().map(move |gate| (gate.name(), gate.stage(), features.enabled(*gate)))
    }

    /// Reads the values of all `--feature-gates` flags: `A=true,B=false`, each gate with `kube:` before it or not.
    ///
    /// # Errors
    /// Text that cannot be read, unknown gates, locked gates, gates without those that they need.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, GateError> {
        let mut given = BTreeMap::new();
        for (name, value) in split(flags)? {
            let on = parse_bool(&value).ok_or(GateError::InvalidValue { name: name.clone(), value })?;
            given.insert(name, on);
        }
        Self::from_map(given)
    }

    fn from_map(given: BTreeMap<String, bool>) -> Result<Self, GateError> {
        if let Some(name) = given.keys().find(|name| known(name).is_none()) {
            return Err(GateError::Unknown(name.clone()));
        }
        let locked = |(name, &value): (&String, &bool)| {
            let gate = known(name).filter(|gate| gate.locked && gate.on != value);
            gate.map(|_| GateError::Locked { name: name.clone(), value })
        };
        several(given.iter().filter_map(locked).collect())?;
        let mut gates = Self { set: given };
        gates.spread(ALL_ALPHA, Stage::Alpha);
        gates.spread(ALL_BETA, Stage::Beta);
        several(gates.unmet_dependencies())?;
        Ok(gates)
    }

    /// `AllAlpha` and `AllBeta` set what is not set by name.
    fn spread(&mut self, name: &str, stage: Stage) {
        let Some(&on) = self.set.get(name) else { return };
        for gate in all().filter(|name| known(name).is_some_and(|gate| gate.stage == stage)) {
            self.set.entry(gate.to_owned()).or_insert(on);
        }
    }

    fn unmet_dependencies(&self) -> Vec<GateError> {
        let mut unmet = Vec::new();
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            let off: Vec<_> =
                needs.split_whitespace().filter(|need| !self.enabled(need)).map(str::to_owned).collect();
            if self.enabled(name) && !off.is_empty() {
                unmet.push(GateError::Dependency { name: name.to_owned(), needs: off });
            }
        }
        unmet
    }

    /// Whether a gate is on; one that does not exist is off.
    pub fn enabled(&self, name: &str) -> bool {
        self.set.get(name).copied().unwrap_or_else(|| known(name).is_some_and(|gate| gate.on))
    }

    /// The gates that a scheduler reads.
    pub fn features(&self) -> Features {
        let mut features = Features::default();
        Feature::ALL.iter().for_each(|&feature| features.set(feature, self.enabled(feature.name())));
        features
    }

    /// Lines for `--help`, sorted: gates that are alpha or beta and may be set.
    pub fn help() -> Vec<String> {
        let line = |name: &str| {
            let gate = known(name).filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta))?;
            Some(format!("{name}=true|false ({} - default={})", gate.stage.name(), gate.on))
        };
        let mut lines: Vec<_> = all().chain([ALL_ALPHA, ALL_BETA]).filter_map(line).collect();
        lines.sort_unstable();
        lines
    }
}

/// The gates and values of the flags, as written.
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
    fn what_cannot_be_set_is_refused_in_kube_schedulers_words() {
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
    fn the_tables_are_consistent() {
        let mut names: Vec<_> = all().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for (name, needs) in DEPENDENCIES.lines().filter_map(|line| line.trim().split_once(": ")) {
            for name in needs.split_whitespace().chain([name]) {
                assert!(known(name).is_some(), "{name}");
            }
        }
        assert!(FeatureGates::default().unmet_dependencies().is_empty());
        let help = FeatureGates::help();
        assert!(help.contains(&"GangScheduling=true|false (ALPHA - default=false)".to_owned()));
        assert!(!help.iter().any(|line| line.starts_with("SidecarContainers")));
    }
}
