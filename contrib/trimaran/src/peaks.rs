//! Peaks: prefers nodes that need the least additional power for the pod.

use std::collections::BTreeMap;

use harbormaster::{
    api::{Str, resources},
    framework::{Extremes, Formula, RowLog},
    prelude::*,
    serde::Deserialize,
    serde_json::Value,
};

use crate::{
    arrivals::Arrivals,
    capacity,
    exponential::exp,
    listed,
    report::{Measured, NodeLoads, Operator},
    source::{MetricProvider, Source},
};

/// `PeaksArgs`. The names of the fields begin with capitals, as in scheduler-plugins.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "PascalCase", deny_unknown_fields, default)]
pub struct PeaksArgs {
    /// Address of load-watcher's service; without it, metrics-server is the source.
    #[serde(alias = "watcherAddress")]
    pub watcher_address: Option<String>,
    /// Power models by node.
    #[serde(alias = "nodePowerModel")]
    pub node_power_model: BTreeMap<Str, PowerModel>,
}

/// Power of a node at a utilization of `x` percent: `k0 + k1 · e^(k2 · x)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(crate = "harbormaster::serde", deny_unknown_fields, default)]
pub struct PowerModel {
    /// Does not count, because only differences do.
    pub k0: f64,
    /// Factor of the exponential function.
    pub k1: f64,
    /// Factor of the utilization.
    pub k2: f64,
}

impl PowerModel {
    /// Returns the additional power when the utilization rises, in units of 10^-15.
    pub(crate) fn rise(self, from: f64, to: f64) -> f64 {
        self.k1 * (exp(self.k2 * to) - exp(self.k2 * from)) * 1e15
    }
}

/// Prefers nodes that need the least additional power. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct Peaks {
    source: Source,
    models: BTreeMap<Str, PowerModel>,
}

impl Plugin for Peaks {
    const NAME: &'static str = "Peaks";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&request(pod));
    }
}

impl Build for Peaks {
    type Args = PeaksArgs;

    fn build(args: PeaksArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        let source = Source::new(args.watcher_address, MetricProvider::default())?;
        if args.node_power_model.is_empty() {
            return Err("NodePowerModel: required, with a model for each node; a file that NODE_POWER_MODEL names is not read".into());
        }
        Ok(Self { source, models: args.node_power_model })
    }
}

impl Fetches for Peaks {
    type Object = NodeLoads;

    fn plan(&self) -> FetchPlan {
        self.source.plan()
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        self.source.fetch(web).await
    }
}

impl Indexed for Peaks {
    type Index = Arrivals;
}

impl ReadsCluster for Peaks {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        reads.of(&self.fetched(cx.objects).map(|report| report.digest));
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        Ok(Some(self.index(cx)?.log()))
    }
}

impl Score<Row> for Peaks {
    const NORMALIZE: Normalize = Normalize::Formula(Formula(points));

    fn scores_pod(&self, cx: &RowCycle<'_>) -> bool {
        cx.cluster().is_some_and(|cluster| self.fetched(cluster.objects).is_some())
    }

    /// Returns the additional power, so the lowest score is the best.
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(cluster) = cx.cluster() else { return Ok(Formula::UNRATED) };
        let Some(report) = self.fetched(cluster.objects) else { return Ok(Formula::UNRATED) };
        let (recent, _) = self.index(&cluster)?.requested_after(node.idx(), report.measured_until());
        Ok(self.cost(report, node, recent, request(cx.pod)).unwrap_or(Formula::UNRATED))
    }
}

/// Millicores that the pod requests. Overhead counts only in addition to a request.
fn request(pod: RowPod<'_>) -> i64 {
    let overhead = listed(&pod.spec.overhead, resources::CPU).unwrap_or(0);
    Some(pod.request().milli_cpu).filter(|request| *request != overhead).unwrap_or(0)
}

/// Converts a cost to a score. If all nodes cost nothing, all get 0, unless some have unknown costs.
pub(crate) fn points(cost: i64, Extremes { min, max, are_all_rated }: Extremes) -> i64 {
    let above = |cost: i64| (i128::from(cost) - i128::from(min)) as f64;
    match (min, max) {
        (0, 0) if are_all_rated => 0,
        _ if min == max => 100,
        _ => 100 - (100.0 * above(cost) / above(max)) as i64,
    }
}

impl Peaks {
    /// Returns the cost of the pod on a node; `None` if it is not known, or if the node would be overloaded.
    fn cost(&self, report: &NodeLoads, node: NodeRef<'_>, recent: i64, request: i64) -> Option<i64> {
        let model = self.models.get(node.name())?;
        let (capacity, _) = capacity(node);
        let is_level = |operator| matches!(operator, Operator::Average | Operator::Latest);
        let mut levels = report.of(node.name())?.iter();
        let level = levels.find(|one| one.measured == Measured::Cpu && is_level(one.operator))?;
        let measured = level.percent(capacity)?;
        let percent = |more: i64| match capacity {
            0 => 0.0,
            capacity => 100.0 * (measured / 100.0 * capacity as f64 + more as f64) / capacity as f64,
        };
        let before = if recent == 0 { measured } else { percent(recent) };
        let after = percent(recent.saturating_add(request));
        // Without a request, the difference would be the error of rounding.
        let rise = if request == 0 { 0.0 } else { model.rise(before, after) };
        // The conversion saturates.
        (after <= 100.0 && !rise.is_nan()).then(|| (rise as i64).max(Formula::UNRATED + 1))
    }
}
