//! Disruption budgets while pods leave and come back.

use harbormaster_api::{Object, Pod, Str, selector::LabelSelector};
use harbormaster_validation::value::{name, namespace};
use serde_json::Value;

use crate::inventory::Inventory;

/// All disruption budgets of a cluster.
pub(super) struct Budgets(Vec<Budget>);

struct Budget {
    /// `namespace/name`.
    name: String,
    namespace: Str,
    selector: LabelSelector,
    /// Number of healthy pods.
    healthy: i64,
    /// Number of pods that must stay healthy.
    desired: i64,
}

impl Budgets {
    /// Reads the budgets. Uses the numbers in their status; if there is none, as in manifests written by hand, all pods on
    /// nodes count as healthy.
    pub(super) fn new(cluster: &Inventory) -> Self {
        let budgets = cluster.objects.iter().filter_map(|object| match object {
            Object::PodDisruptionBudget(budget) => Some(budget),
            _ => None,
        });
        let all = budgets.filter_map(|budget| {
            let is_it = |raw: &&Value| budget.namespace == namespace(raw) && budget.name == name(raw);
            let raw = cluster.budgets.iter().rev().find(is_it).cloned().unwrap_or_default();
            let mut read = Budget {
                name: format!("{}/{}", budget.namespace, budget.name),
                namespace: budget.namespace.clone(),
                selector: budget.selector.clone()?,
                healthy: 0,
                desired: 0,
            };
            let count = |pods: &[Pod]| {
                let pods = pods.iter().filter(|pod| read.covers(pod) && !pod.is_terminating());
                i64::try_from(pods.count()).unwrap_or(i64::MAX)
            };
            let (running, expected) =
                (count(&cluster.bound), count(&cluster.bound) + count(&cluster.pending));
            // Manifests written by hand have the status of a new budget, which nobody has looked at yet.
            let is_told =
                raw["status"]["observedGeneration"].as_i64().is_some_and(|generation| generation > 0);
            let told = |field: &str| raw["status"][field].as_i64().filter(|_| is_told);
            let (healthy, desired) = (told("currentHealthy"), told("desiredHealthy"));
            read.healthy = healthy.unwrap_or(running);
            read.desired = desired.unwrap_or_else(|| needed(&raw["spec"], expected));
            Some(read)
        });
        Self(all.collect())
    }

    /// Returns the positions of the budgets of a pod.
    pub(super) fn of(&self, pod: &Pod) -> Vec<usize> {
        let all = self.0.iter().enumerate().filter(|(_, budget)| budget.covers(pod));
        all.map(|(at, _)| at).collect()
    }

    /// Returns true if a budget allows an eviction.
    pub(super) fn allows(&self, at: usize) -> bool {
        self.0[at].healthy > self.0[at].desired
    }

    /// Counts a pod that runs (1) or runs no more (-1).
    pub(super) fn count(&mut self, pod: &Pod, change: i64) {
        self.0.iter_mut().filter(|budget| budget.covers(pod)).for_each(|budget| budget.healthy += change);
    }

    pub(super) fn name(&self, at: usize) -> &str {
        &self.0[at].name
    }

    /// Returns a clause such as `budget shop/web needs 2 healthy pods and has 2`.
    pub(super) fn state(&self, at: usize) -> String {
        let Budget { name, healthy, desired, .. } = &self.0[at];
        format!("budget {name} needs {desired} healthy pods and has {healthy}")
    }
}

impl Budget {
    fn covers(&self, pod: &Pod) -> bool {
        pod.namespace == self.namespace && self.selector.matches(&pod.labels)
    }
}

/// Returns the number of pods that must stay healthy of an expected number.
fn needed(spec: &Value, expected: i64) -> i64 {
    match (share(&spec["minAvailable"], expected), share(&spec["maxUnavailable"], expected)) {
        (Some(least), _) => least.max(0),
        (None, Some(away)) => (expected - away).max(0),
        // As in Kubernetes, a budget without amounts allows no disruptions.
        (None, None) => i64::MAX,
    }
}

/// Returns a number as it is, or a percentage as its share of the total, rounded up.
fn share(value: &Value, total: i64) -> Option<i64> {
    match value {
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(percent.saturating_mul(total).saturating_add(99) / 100)
        }
        number => number.as_i64(),
    }
}
