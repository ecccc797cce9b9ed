//! Feature gates of a workload.

use std::collections::BTreeMap;

use harbormaster_api::{
    Release,
    features::{Feature, GateState, Support},
};

use super::super::obstacle::Obstacle;

/// The gates that a workload sets, and that both schedulers know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Gates {
    /// Gates that differ from a locked value, which are set for all components.
    set: BTreeMap<&'static str, bool>,
    /// All gates that are on because the workload says so.
    on: Vec<Feature>,
}

impl Gates {
    /// Checks the gates of a test case and its workload, whose gates override those of the test case. Returns remarks
    /// about gates that change nothing.
    pub(super) fn of(
        case: &BTreeMap<String, bool>,
        workload: &BTreeMap<String, bool>,
        release: Release,
    ) -> Result<(Self, Vec<String>), Obstacle> {
        let mut gates = Self::default();
        let mut notes = Vec::new();
        let mut all = case.clone();
        all.extend(workload.iter().map(|(name, on)| (name.clone(), *on)));
        for (name, on) in all {
            let failed = |problem: String| Obstacle::new(problem).in_field(&format!("featureGates.{name}"));
            let gate =
                Feature::from_name(&name).map(|gate| (gate, gate.history().state(release, release.minor())));
            let Some((gate, GateState::Exists(state))) = gate else {
                return Err(failed(format!("schedulers of Kubernetes {release} have no such feature gate")));
            };
            if state.locked && state.on != on {
                return Err(failed(format!(
                    "Kubernetes {release} has locked the feature gate to {}",
                    state.on
                )));
            }
            if on && !state.on && gate.support().is_refused_in(release) {
                return Err(failed("Harbormaster does not implement the feature".to_owned()));
            }
            if !on && gate.support() == Support::AlwaysOn {
                notes.push(format!("Harbormaster behaves as if {name} were on"));
            }
            if !state.locked {
                gates.set.insert(gate.name(), on);
            }
            gates.on.extend(on.then_some(gate));
        }
        Ok((gates, notes))
    }

    /// Returns the gates in the form `Gate=bool`.
    pub(in super::super) fn flags(&self) -> Vec<String> {
        self.set.iter().map(|(name, on)| format!("{name}={on}")).collect()
    }

    /// Returns true if the workload turns the gate on, even if it is on by default.
    pub(in super::super) fn is_on(&self, gate: Feature) -> bool {
        self.on.contains(&gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(
        case: &[(&str, bool)],
        workload: &[(&str, bool)],
        release: Release,
    ) -> Result<(Vec<String>, usize), String> {
        let map = |gates: &[(&str, bool)]| gates.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        let checked = Gates::of(&map(case), &map(workload), release);
        checked.map(|(gates, notes)| (gates.flags(), notes.len())).map_err(|obstacle| obstacle.reason())
    }

    #[test]
    fn gates_are_set_unless_they_are_locked_and_rejected_if_a_scheduler_cannot_follow_them() {
        let set = |flags: &[&str], notes| Ok((flags.iter().map(ToString::to_string).collect(), notes));
        let reason = |name: &str, problem: &str| Err(format!("`featureGates.{name}`: {problem}"));
        let (old, new) = (Release::V1_36, Release::V1_37);
        for (case, workload, release, expected) in [
            (
                &[("OpportunisticBatching", true)][..],
                &[("OpportunisticBatching", false)][..],
                new,
                set(&["OpportunisticBatching=false"], 0),
            ),
            (&[("DynamicResourceAllocation", true)], &[], new, set(&[], 0)),
            (&[("SchedulerAsyncPreemption", false)], &[], old, set(&["SchedulerAsyncPreemption=false"], 1)),
            (&[("GenericWorkload", true)], &[], new, set(&["GenericWorkload=true"], 0)),
            (
                &[("GenericWorkload", true)],
                &[],
                old,
                reason("GenericWorkload", "Harbormaster does not implement the feature"),
            ),
            (
                &[],
                &[("SchedulerQueueingHints", false)],
                old,
                reason("SchedulerQueueingHints", "Kubernetes 1.36 has locked the feature gate to true"),
            ),
            (
                &[("Nonsense", true)],
                &[],
                new,
                reason("Nonsense", "schedulers of Kubernetes 1.37 have no such feature gate"),
            ),
        ] {
            assert_eq!(gates(case, workload, release), expected);
        }
    }
}
