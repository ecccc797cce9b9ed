//! Finds the lowest priority class with which the pod would evict others.

use harbormaster_framework::attempt::AttemptError;
use harbormaster_validation::value::{name, text};
use serde::Serialize;

use super::{Change, Remedy, trials::Trials};
use crate::inventory::Inventory;

/// Highest priority that users may give to a class.
const HIGHEST: i32 = 1_000_000_000;

/// A PriorityClass whose pods may preempt others.
#[derive(Clone, Debug)]
pub(super) struct PriorityClass {
    name: String,
    value: i32,
}

/// Pods that the scheduler would evict for the pod, and their node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Victims {
    /// Name of the node.
    pub node: String,
    /// `namespace/name` of the pods, the most important first.
    pub victims: Vec<String>,
    /// Number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}

/// Returns the priority classes whose pods may preempt others, the lowest first, without those of the system.
pub(super) fn priority_classes(cluster: &Inventory) -> Vec<PriorityClass> {
    let all = cluster.custom_of("scheduling.k8s.io", "PriorityClass");
    let preempts = all.filter(|class| text(class, "/preemptionPolicy") != "Never");
    let classes = preempts.filter_map(|class| {
        let value = class["value"].as_i64().and_then(|value| i32::try_from(value).ok())?;
        Some(PriorityClass { name: name(class).to_owned(), value })
    });
    let mut classes: Vec<PriorityClass> = classes.filter(|class| class.value <= HIGHEST).collect();
    classes.sort_by(|a, b| a.value.cmp(&b.value).then_with(|| a.name.cmp(&b.name)));
    classes
}

impl Trials {
    /// Returns the pods that the scheduler would evict for the pod as it is.
    pub(super) fn evicts(&mut self) -> Result<Option<Victims>, AttemptError> {
        self.victims(&[])
    }

    fn victims(&mut self, changes: &[Change]) -> Result<Option<Victims>, AttemptError> {
        let pod = self.info(changes);
        let eviction = self.judge.eviction_for(&pod)?;
        Ok(eviction.map(|eviction| Victims {
            node: eviction.node.as_str().to_owned(),
            victims: eviction.victims.iter().map(|pod| pod.full_name()).collect(),
            violations: eviction.violations,
        }))
    }

    /// Finds the lowest priority class with which the pod evicts others. `others` are changes to the pod that are made as
    /// well.
    pub(super) fn raise_priority(&mut self, others: &[Change]) -> Result<Option<Remedy>, AttemptError> {
        for promotion in self.promotions() {
            let mut changes = others.to_vec();
            changes.push(promotion.clone());
            let Some(found) = self.victims(&changes)? else { continue };
            let at = (found.node.as_str()).into();
            changes.pop();
            changes.push(promotion.with(found));
            // The plugins may judge the pod otherwise once the victims are gone than during the search for them.
            if let Some(remedy) = self.remedy_on(&at, changes)? {
                return Ok(Some(remedy));
            }
        }
        Ok(None)
    }

    /// Returns the promotions worth trying: with each of them, the pod may evict more pods than with the previous one.
    fn promotions(&self) -> Vec<Change> {
        let spec = &self.pod.spec;
        let mut known = self.priorities_on_nodes();
        // With its own priority, the pod has been tried already.
        known.retain(|priority| spec.never_preempts || *priority >= spec.priority);
        let promotion = |class, to| Change::RaisePriority {
            class,
            from: spec.priority,
            to,
            node: Default::default(),
            victims: Vec::new(),
            violations: 0,
        };
        let mut promotions = Vec::new();
        if spec.never_preempts && known.first().is_some_and(|lowest| *lowest < spec.priority) {
            promotions.push(promotion(None, spec.priority));
            known.retain(|priority| *priority >= spec.priority);
        }
        for class in self.classes.iter().filter(|class| class.value > spec.priority) {
            if known.first().is_some_and(|lowest| *lowest < class.value) {
                promotions.push(promotion(Some(class.name.clone()), class.value));
                known.retain(|priority| *priority >= class.value);
            }
        }
        promotions
    }

    /// Returns the distinct priorities of the pods on nodes, the lowest first.
    fn priorities_on_nodes(&self) -> Vec<i32> {
        let nodes = self.judge.cache.cluster.nodes().nodes();
        let mut all: Vec<i32> =
            nodes.flat_map(|node| node.pods().iter().map(|pod| pod.spec.priority)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Change {
    /// Returns the promotion with the victims that the pod gets by it.
    fn with(self, found: Victims) -> Self {
        match self {
            Self::RaisePriority { class, from, to, .. } => Self::RaisePriority {
                class,
                from,
                to,
                node: found.node.as_str().into(),
                victims: found.victims,
                violations: found.violations,
            },
            other => other,
        }
    }
}
