//! Cost of victims.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use serde_json::Value;

use crate::verdict_oracle::Candidate;

/// Cost of the victims on a node, in the order in which kube-scheduler compares the criteria; a lower cost is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    violations: i64,
    highest_priority: i64,
    sum_of_priorities: i64,
    victims: usize,
    /// Earliest start time among the most important victims.
    started: Reverse<String>,
}

/// Priority and start time of every pod, by `namespace/name`.
#[derive(Debug)]
pub(super) struct Importance(BTreeMap<String, (i64, String)>);

impl Importance {
    pub(super) fn of(objects: &[Value]) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let importance = |pod: &Value| {
            let name = format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            let priority = pod["spec"]["priority"].as_i64().unwrap_or_default();
            (name, (priority, text(&pod["status"]["startTime"])))
        };
        Self(objects.iter().filter(|object| object["kind"] == "Pod").map(importance).collect())
    }

    pub(super) fn cost_of(&self, candidate: &Candidate) -> Cost {
        let importance = || candidate.victims.iter().filter_map(|name| self.0.get(name));
        let highest_priority = importance().map(|(priority, _)| *priority).max().unwrap_or(i64::MIN);
        let most_important = importance().filter(|(priority, _)| *priority == highest_priority);
        Cost {
            violations: candidate.violations,
            highest_priority,
            // Priorities are measured from the lowest possible priority.
            sum_of_priorities: importance().map(|(priority, _)| priority - i64::from(i32::MIN)).sum(),
            victims: candidate.victims.len(),
            started: Reverse(most_important.map(|(_, started)| started.clone()).min().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { violations, highest_priority, victims, started: Reverse(started), .. } = self;
        let sum = self.sum_of_priorities + i64::from(i32::MIN) * *victims as i64;
        write!(
            f,
            "{violations} budget violations, highest priority {highest_priority}, sum of priorities {sum}, {victims} \
             pods, the most important one started at {started}"
        )
    }
}
