//! What is remembered of the comparisons: counts, and a few examples of each difference.

use std::{collections::BTreeMap, time::Duration};

use harbormaster_api::args::GoDuration;
use harbormaster_core::shadow::{Accord, Comparison, Finding, Gap, Kind, Plan, Preemption};
use harbormaster_driver::Compared;
use serde::Serialize;
use tokio::time::Instant;

use super::durations::Durations;

/// Maximum number of examples per cause, and per result of preemptions.
const EXAMPLES: usize = 3;
/// Maximum number of causes. Further ones count as [`OTHER`].
const CAUSES: usize = 50;
const OTHER: &str = "other causes";

/// Counts of the comparisons.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) begun: Instant,
    pub(super) notes: Vec<&'static str>,
    counts: BTreeMap<Kind, u64>,
    pub(super) causes: BTreeMap<(Kind, String), Cause>,
    /// Time from a pod's appearance until the other scheduler's decision.
    pub(super) theirs: Durations,
    /// Duration of our decisions.
    pub(super) ours: Durations,
    pub(super) preemptions: BTreeMap<Accord, Evictions>,
}

/// Preemptions with one result.
#[derive(Clone, Debug, Default)]
pub(super) struct Evictions {
    pub(super) count: u64,
    pub(super) examples: Vec<EvictionExample>,
}

/// A pod for which the schedulers would evict different pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct EvictionExample {
    /// `namespace/name`.
    pub(super) pod: String,
    /// Result of the comparison.
    pub(super) preemption: &'static str,
    /// The evictions of the cluster's scheduler.
    pub(super) theirs: Option<EvictionPlan>,
    /// The evictions that Harbormaster would have made.
    pub(super) ours: Option<EvictionPlan>,
}

/// Pods that leave a node for another pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct EvictionPlan {
    pub(super) node: String,
    pub(super) victims: Vec<String>,
}

impl From<&Preemption> for EvictionExample {
    fn from(preemption: &Preemption) -> Self {
        let plan = |plan: &Option<Plan>| {
            let plan = plan.as_ref()?;
            Some(EvictionPlan { node: plan.node.to_string(), victims: plan.victims.clone() })
        };
        Self {
            pod: preemption.pod.clone(),
            preemption: preemption.accord().name(),
            theirs: plan(&preemption.theirs),
            ours: plan(&preemption.ours),
        }
    }
}

/// Differences with one cause.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause {
    pub(super) count: u64,
    pub(super) examples: Vec<Example>,
}

/// A pod about which the schedulers decided differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Example {
    /// `namespace/name`.
    pub(super) pod: String,
    /// The node that the cluster's scheduler chose.
    pub(super) theirs: Option<String>,
    /// The node that Harbormaster would have chosen.
    pub(super) ours: Option<String>,
    /// The reason for the difference.
    pub(super) detail: String,
}

impl Tally {
    pub(super) fn new(notes: Vec<&'static str>) -> Self {
        Self {
            begun: Instant::now(),
            notes,
            counts: BTreeMap::new(),
            causes: BTreeMap::new(),
            theirs: Durations::default(),
            ours: Durations::default(),
            preemptions: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, compared: &Compared) {
        match compared {
            Compared::Decision(comparison) => self.add_decision(comparison),
            Compared::Preemption(preemption) => self.add_preemption(preemption),
        }
    }

    fn add_preemption(&mut self, preemption: &Preemption) {
        let accord = preemption.accord();
        let evictions = self.preemptions.entry(accord).or_default();
        evictions.count += 1;
        if accord != Accord::Equal && evictions.examples.len() < EXAMPLES {
            evictions.examples.push(preemption.into());
        }
    }

    fn add_decision(&mut self, compared: &Comparison) {
        let kind = compared.kind();
        *self.counts.entry(kind).or_default() += 1;
        self.ours.add(compared.took);
        if let Some(waited) = compared.waited.filter(|_| compared.theirs.is_some()) {
            self.theirs.add(waited);
        }
        if let Some((cause, example)) = explained(compared) {
            let key = (kind, cause);
            let is_new = !self.causes.contains_key(&key);
            let key = if is_new && self.causes.len() >= CAUSES { (kind, OTHER.to_owned()) } else { key };
            let cause = self.causes.entry(key).or_default();
            cause.count += 1;
            if cause.examples.len() < EXAMPLES {
                cause.examples.push(example);
            }
        }
    }

    pub(super) fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Number of comparisons.
    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Number of comparisons in which both decided alike.
    pub(super) fn agreed(&self) -> u64 {
        [Kind::Same, Kind::Equal, Kind::BothWait].map(|kind| self.count(kind)).iter().sum()
    }

    /// Returns a line about the progress.
    pub(super) fn line(&self) -> String {
        let (total, agreed, raced) = (self.total(), self.agreed(), self.count(Kind::Raced));
        let failed = self.count(Kind::Failed);
        let differ = total - agreed - raced - failed;
        let after = whole_seconds(self.begun.elapsed());
        format!(
            "{after}: {total} decisions compared, {agreed} alike, {raced} raced, {differ} differ, {failed} failed"
        )
    }
}

/// Returns the cause of a difference and an example of it; `None` if the schedulers decided alike.
fn explained(compared: &Comparison) -> Option<(String, Example)> {
    let alike = matches!(compared.kind(), Kind::Same | Kind::Equal | Kind::BothWait);
    (!alike).then(|| caused(compared))
}

/// Returns the cause of a result, which is empty if the schedulers decided alike, and the pod as an example of it.
pub(super) fn caused(compared: &Comparison) -> (String, Example) {
    let plugin = |name: &Option<&'static str>| name.unwrap_or("the framework").to_owned();
    let (cause, ours, detail) = match &compared.finding {
        Finding::Same => (String::new(), compared.theirs.as_ref(), String::new()),
        Finding::Equal { ours } => (String::new(), Some(ours), String::new()),
        Finding::BothWait => (String::new(), None, String::new()),
        Finding::Elsewhere { ours, gaps } => {
            let first = gaps.first().map_or("a nominated node", |gap| gap.plugin);
            (first.to_owned(), Some(ours), gaps.iter().map(told).collect::<Vec<_>>().join(", "))
        }
        Finding::Rejected { ours, plugin: by, reason } => {
            (format!("{}: {reason}", plugin(by)), Some(ours), reason.clone())
        }
        Finding::Waits { message, plugin: by } => {
            (by.map_or_else(|| message.clone(), str::to_owned), None, message.clone())
        }
        Finding::Places { ours } => ("a node fits".to_owned(), Some(ours), String::new()),
        Finding::Failed { error } => (error.clone(), None, error.clone()),
    };
    let cause = match &compared.finding {
        finding if compared.has_raced => raced(finding).to_owned(),
        _ => cause,
    };
    let example = Example {
        pod: compared.pod.clone(),
        theirs: compared.theirs.as_ref().map(ToString::to_string),
        ours: ours.map(ToString::to_string),
        detail,
    };
    (cause, example)
}

/// Returns the name of the difference that raced.
fn raced(finding: &Finding) -> &'static str {
    match finding {
        Finding::Rejected { .. } => Kind::Rejected.name(),
        Finding::Waits { .. } => Kind::Waits.name(),
        Finding::Places { .. } => Kind::Places.name(),
        Finding::Equal { .. } => Kind::Equal.name(),
        _ => Kind::Elsewhere.name(),
    }
}

/// Returns a duration in Go's format, without fractions of a second.
pub(super) fn whole_seconds(duration: Duration) -> GoDuration {
    GoDuration::from_secs(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX))
}

fn told(Gap { plugin, ours, theirs }: &Gap) -> String {
    format!("{plugin} {ours} against {theirs}")
}

#[cfg(test)]
mod tests;
