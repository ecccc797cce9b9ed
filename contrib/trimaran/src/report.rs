//! Reports of the load of nodes, in the form of [load-watcher](https://github.com/paypal/load-watcher).

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use harbormaster::{
    api::{Str, Timestamp},
    prelude::*,
    serde::Deserialize,
    serde_json::Value,
};

/// Time before the end of the measured window for which a pod that was placed then is not certain to be part of the
/// measurement.
const REPORTING_INTERVAL: i64 = 60;

/// Measured resource. Measurements of other resources are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measured {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
}

/// Function that combined the measurements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Average.
    Average,
    /// Standard deviation.
    Deviation,
    /// Last measurement.
    Latest,
    /// Not given.
    Unknown,
}

/// A measured amount. Never infinite, and not a number only if the sender's was not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Percentage of the capacity.
    Percent(f64),
    /// Millicores or bytes.
    Absolute(i64),
}

/// One measurement of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Measured resource.
    pub measured: Measured,
    /// Function that combined the measurements.
    pub operator: Operator,
    /// The amount.
    pub amount: Amount,
}

impl Metric {
    /// Percentage of the capacity; `None` if an absolute amount relates to no capacity.
    pub fn percent(&self, capacity: i64) -> Option<f64> {
        match self.amount {
            Amount::Percent(percent) => Some(percent),
            Amount::Absolute(used) if capacity > 0 => Some(used.saturating_mul(100) as f64 / capacity as f64),
            Amount::Absolute(_) => None,
        }
    }
}

/// A report: the measurements of all nodes. Sources fetch it; simulations read it from manifests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(crate = "harbormaster::serde", from = "Wire")]
pub struct NodeLoads {
    /// End of the measured window in seconds; 0 if not given.
    pub window_end: i64,
    /// Equal for equal reports only.
    pub digest: u64,
    nodes: BTreeMap<Str, Vec<Metric>>,
}

impl Resource for NodeLoads {
    const GROUP: &'static str = "trimaran.scheduler-plugins.x-k8s.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "NodeLoads";
    const PLURAL: &'static str = "nodeloads";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

impl NodeLoads {
    /// Measurements of a node, in order; `None` if the node is not part of the report.
    pub fn of(&self, node: &str) -> Option<&[Metric]> {
        self.nodes.get(node).map(Vec::as_slice)
    }

    /// Number of nodes in the report.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if the report contains no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Pods placed after this time are not part of the measurements, or not certain to be.
    pub fn measured_until(&self) -> Timestamp {
        Timestamp::from_secs(self.window_end.saturating_sub(REPORTING_INTERVAL).max(0))
    }
}

/// The form in which reports arrive.
#[derive(Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
struct Wire {
    window: Option<Window>,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct Window {
    #[serde(default)]
    end: i64,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct Data {
    #[serde(rename = "NodeMetricsMap")]
    nodes: Option<BTreeMap<Str, WireNode>>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct WireNode {
    metrics: Option<Vec<WireMetric>>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct WireMetric {
    #[serde(rename = "type", default)]
    measured: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: Value,
    /// Millicores or bytes; not part of load-watcher's form.
    #[serde(default)]
    usage: Option<i64>,
}

impl WireMetric {
    /// Returns the measurement unless it is of no interest or makes no sense.
    fn metric(&self) -> Option<Metric> {
        let measured = match self.measured.as_str() {
            "CPU" => Measured::Cpu,
            "Memory" => Measured::Memory,
            _ => return None,
        };
        let operator = match self.operator.as_str() {
            "AVG" => Operator::Average,
            "STD" => Operator::Deviation,
            "Latest" => Operator::Latest,
            "" => Operator::Unknown,
            _ => return None,
        };
        let percent = || self.value.as_f64().filter(|value| value.is_finite()).map(Amount::Percent);
        let amount = self.usage.map(|used| Amount::Absolute(used.max(0))).or_else(percent)?;
        Some(Metric { measured, operator, amount })
    }
}

impl From<Wire> for NodeLoads {
    fn from(wire: Wire) -> Self {
        let nodes = wire.data.and_then(|data| data.nodes).unwrap_or_default();
        // A node without any measurement is not part of the report.
        let given = nodes.into_iter().filter_map(|(name, node)| {
            let given = node.metrics.filter(|metrics| !metrics.is_empty())?;
            Some((name, given.iter().filter_map(WireMetric::metric).collect()))
        });
        let nodes: BTreeMap<Str, Vec<Metric>> = given.collect();
        let window_end = wire.window.map_or(0, |window| window.end);
        let mut hasher = DefaultHasher::new();
        window_end.hash(&mut hasher);
        for (name, metrics) in &nodes {
            name.as_str().hash(&mut hasher);
            metrics.len().hash(&mut hasher);
            for Metric { measured, operator, amount } in metrics {
                (measured, operator).hash(&mut hasher);
                match amount {
                    Amount::Percent(percent) => (0, percent.to_bits()).hash(&mut hasher),
                    Amount::Absolute(used) => (1, used).hash(&mut hasher),
                }
            }
        }
        Self { window_end, digest: hasher.finish(), nodes }
    }
}
