//! Plugin arguments, `profiles[].pluginConfig[].args`.

use harbormaster::{
    api::{Str, resources},
    prelude::PluginError,
    serde::Deserialize,
};

/// `NodeResourceTopologyMatchArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Scoring of nodes; absent means [`Strategy::LeastAllocated`].
    pub scoring_strategy: Option<ScoringStrategy>,
    /// Has no effect: objects are watched, and pods that they do not contain yet always count.
    pub cache_resync_period_seconds: Option<i64>,
    /// Has no effect, for the same reason.
    pub discard_reserved_nodes: Option<bool>,
    /// Has no effect, for the same reason.
    pub cache: Option<Cache>,
    /// With `Enabled`, evictions give NUMA nodes their resources back.
    pub preemption_mode: Option<PreemptionMode>,
}

/// `scoringStrategy`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ScoringStrategy {
    /// Name of the strategy; required.
    #[serde(rename = "type")]
    pub name: Option<String>,
    /// Weights of resources; others weigh 1.
    pub resources: Option<Vec<ResourceSpec>>,
}

/// A resource and its weight.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceSpec {
    /// Name of the resource.
    pub name: Str,
    /// Weight; below 1 means 1.
    pub weight: i64,
}

/// `cache`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cache {
    /// Pods of other schedulers that are detected.
    pub foreign_pods_detect: Option<ForeignPodsDetect>,
    /// Pods that count for fingerprints.
    pub resync_method: Option<ResyncMethod>,
    /// Source of pods.
    pub informer_mode: Option<InformerMode>,
    /// Changes that are followed.
    pub resync_scope: Option<ResyncScope>,
}

/// `cache.foreignPodsDetect`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
#[expect(missing_docs, reason = "the names are those of scheduler-plugins, and have no effect")]
pub enum ForeignPodsDetect {
    All,
    None,
    OnlyExclusiveResources,
}

/// `cache.resyncMethod`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
#[expect(missing_docs, reason = "the names are those of scheduler-plugins, and have no effect")]
pub enum ResyncMethod {
    Autodetect,
    All,
    OnlyExclusiveResources,
}

/// `cache.informerMode`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
#[expect(missing_docs, reason = "the names are those of scheduler-plugins, and have no effect")]
pub enum InformerMode {
    Dedicated,
    Shared,
}

/// `cache.resyncScope`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
#[expect(missing_docs, reason = "the names are those of scheduler-plugins, and have no effect")]
pub enum ResyncScope {
    All,
    OnlyResources,
}

/// `preemptionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde")]
#[expect(missing_docs, reason = "the names are those of scheduler-plugins")]
pub enum PreemptionMode {
    Disabled,
    Enabled,
}

/// Scoring of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Prefers NUMA nodes with much left.
    LeastAllocated,
    /// Prefers NUMA nodes with little left.
    MostAllocated,
    /// Prefers NUMA nodes whose resources would be used evenly.
    BalancedAllocation,
    /// Prefers nodes where the pod needs few and near NUMA nodes.
    LeastNUMANodes,
}

/// A strategy and the weights of resources.
#[derive(Clone, Debug)]
pub struct Scoring {
    pub(crate) strategy: Strategy,
    weights: Vec<(Str, i64)>,
}

impl Scoring {
    /// Weight of a resource.
    pub(crate) fn weight(&self, name: &str) -> i64 {
        let found = self.weights.iter().rev().find(|(other, _)| *other == name);
        found.map_or(1, |(_, weight)| (*weight).max(1))
    }
}

impl Args {
    /// Returns true if evictions give NUMA nodes their resources back.
    pub fn preempts(&self) -> bool {
        self.preemption_mode == Some(PreemptionMode::Enabled)
    }

    /// Checks the arguments. Returns how nodes are scored.
    ///
    /// # Errors
    /// If the strategy does not exist.
    pub fn scoring(self) -> Result<Scoring, PluginError> {
        let given = self.scoring_strategy;
        let name = given.as_ref().map_or("LeastAllocated", |given| given.name.as_deref().unwrap_or(""));
        let strategy = match name {
            "LeastAllocated" => Strategy::LeastAllocated,
            "MostAllocated" => Strategy::MostAllocated,
            "BalancedAllocation" => Strategy::BalancedAllocation,
            "LeastNUMANodes" => Strategy::LeastNUMANodes,
            other => {
                return Err(format!(
                    "scoringStrategy.type: Invalid value: {other:?}: invalid ScoringStrategyType; the types are \
                     LeastAllocated, MostAllocated, BalancedAllocation and LeastNUMANodes"
                )
                .into());
            }
        };
        let listed = given.and_then(|given| given.resources).filter(|list| !list.is_empty());
        let weights = match listed {
            Some(list) => list.into_iter().map(|spec| (spec.name, spec.weight)).collect(),
            None => vec![(resources::CPU.into(), 1), (resources::MEMORY.into(), 1)],
        };
        Ok(Scoring { strategy, weights })
    }
}
