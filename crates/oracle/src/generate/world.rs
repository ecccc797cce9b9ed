//! Values that the flavours of one cluster share.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Names and limits that the flavours of a cluster choose from.
#[derive(Debug, Clone)]
pub struct World {
    /// If true, only objects that kube-apiserver's validation accepts are generated.
    pub admitted: bool,
    /// Names of nodes, including one that does not exist.
    pub node_names: Vec<String>,
    /// Number of zones, at most 5.
    pub zones: usize,
    /// Scheduler names of the profiles.
    pub profiles: Vec<String>,
    /// Enabled feature gates that are disabled by default.
    pub features: Vec<String>,
    /// Pod priorities; there is only one if the order of retries must not depend on timing.
    pub priorities: Vec<i32>,
}

/// A profile of the scheduler configuration that flavours fill.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// `schedulerName`.
    pub name: String,
    /// Plugins to disable.
    pub disabled: Vec<String>,
    /// Plugins to disable at a single extension point, each with that extension point.
    pub disabled_at: Vec<(&'static str, String)>,
    /// Weights that differ from the default.
    pub weights: BTreeMap<String, i64>,
    /// Arguments by plugin.
    pub args: BTreeMap<String, Value>,
    /// `percentageOfNodesToScore`.
    pub percentage_of_nodes_to_score: Option<i32>,
}

impl Profile {
    /// Returns the entry of `profiles` in a KubeSchedulerConfiguration.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let name = |name: &str| json!({"name": name});
        let disabled: Vec<Value> = self.disabled.iter().map(String::as_str).map(name).collect();
        let enabled: Vec<Value> = (self.weights.iter())
            .filter(|(plugin, _)| !self.disabled.contains(plugin))
            .map(|(plugin, weight)| json!({"name": plugin, "weight": weight}))
            .collect();
        let mut profile = json!({
            "schedulerName": self.name,
            "plugins": {"multiPoint": {"disabled": disabled}},
        });
        if !enabled.is_empty() {
            profile["plugins"]["multiPoint"]["enabled"] = enabled.into();
        }
        for (point, plugin) in &self.disabled_at {
            push(&mut profile["plugins"][*point]["disabled"], name(plugin));
        }
        for (plugin, args) in &self.args {
            push(&mut profile["pluginConfig"], json!({"name": plugin, "args": args}));
        }
        if let Some(percentage) = self.percentage_of_nodes_to_score {
            profile["percentageOfNodesToScore"] = percentage.into();
        }
        profile
    }
}

/// Appends an item to a list that may not exist yet.
pub(crate) fn push(list: &mut Value, item: Value) {
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(items) = list.as_array_mut() {
        items.push(item);
    }
}
