//! LoadVariationRiskBalancing: prefers nodes with a low and steady load.

use harbormaster::{framework::RowLog, prelude::*, serde::Deserialize, serde_json::Value};

use crate::{
    allocatable,
    arrivals::Arrivals,
    capacity,
    report::{Measured, Metric, NodeLoads, Operator},
    rounded,
    source::{MetricProvider, Source},
};

/// Bytes to mebibytes.
const MEBI: f64 = 1.0 / 1024.0 / 1024.0;

/// `LoadVariationRiskBalancingArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LoadVariationArgs {
    /// Address of load-watcher's service.
    pub watcher_address: Option<String>,
    /// Source of measurements without load-watcher.
    pub metric_provider: MetricProvider,
    /// Weight of the variation; 1 by default.
    pub safe_variance_margin: Option<f64>,
    /// Root that is taken of the variation; 1 by default.
    pub safe_variance_sensitivity: Option<f64>,
}

/// Prefers nodes with a low and steady load. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct LoadVariationRiskBalancing {
    source: Source,
    margin: f64,
    sensitivity: f64,
}

impl Plugin for LoadVariationRiskBalancing {
    const NAME: &'static str = "LoadVariationRiskBalancing";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&(pod.request().milli_cpu, pod.request().memory));
    }
}

impl Build for LoadVariationRiskBalancing {
    type Args = LoadVariationArgs;

    fn build(args: LoadVariationArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        let source = Source::new(args.watcher_address, args.metric_provider)?;
        let or_one = |given: Option<f64>| given.filter(|number| *number >= 0.0).unwrap_or(1.0);
        let margin = or_one(args.safe_variance_margin);
        Ok(Self { source, margin, sensitivity: or_one(args.safe_variance_sensitivity) })
    }
}

impl Fetches for LoadVariationRiskBalancing {
    type Object = NodeLoads;

    fn plan(&self) -> FetchPlan {
        self.source.plan()
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        self.source.fetch(web).await
    }
}

impl Indexed for LoadVariationRiskBalancing {
    type Index = Arrivals;
}

impl ReadsCluster for LoadVariationRiskBalancing {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        reads.of(&self.fetched(cx.objects).map(|report| report.digest));
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        Ok(Some(self.index(cx)?.log()))
    }
}

impl Score<Row> for LoadVariationRiskBalancing {
    fn scores_pod(&self, cx: &RowCycle<'_>) -> bool {
        cx.cluster().is_some_and(|cluster| self.fetched(cluster.objects).is_some())
    }

    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(known) = self.known(cx)? else { return Ok(0) };
        Ok(self.rate_node(known, cx.pod, node))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let known = self.known(cx)?;
        for (row, score) in scores.iter_mut() {
            *score = known.map_or(0, |known| self.rate_node(known, cx.pod, cx.nodes.node(row)));
        }
        Ok(())
    }
}

impl LoadVariationRiskBalancing {
    /// Returns the report, if there is one, and the pods that it may lack.
    fn known<'a>(&self, cx: &RowCycle<'a>) -> PluginResult<Option<(&'a NodeLoads, &'a Arrivals)>> {
        let Some(cluster) = cx.cluster() else { return Ok(None) };
        let Some(report) = self.fetched(cluster.objects) else { return Ok(None) };
        Ok(Some((report, self.index(&cluster)?)))
    }

    fn rate_node(
        &self,
        (report, arrivals): (&NodeLoads, &Arrivals),
        pod: RowPod<'_>,
        node: NodeRef<'_>,
    ) -> i64 {
        let Some(metrics) = report.of(node.name()) else { return 0 };
        let recent = arrivals.requested_after(node.idx(), report.measured_until());
        let request = (pod.request().milli_cpu, pod.request().memory);
        let scores = [Measured::Cpu, Measured::Memory].map(|measured| {
            let mut load = Load::of(metrics, measured, node, recent)?;
            load.request = amount(request, measured);
            Some(load.rate(self.margin, self.sensitivity))
        });
        let worst = scores.into_iter().flatten().reduce(f64::min);
        worst.map_or(0, rounded).clamp(0, 100)
    }
}

/// Amount of a resource in the units of the formulas: millicores, or mebibytes instead of bytes.
fn amount((milli_cpu, memory): (i64, i64), measured: Measured) -> f64 {
    match measured {
        Measured::Cpu => milli_cpu as f64,
        Measured::Memory => memory as f64 * MEBI,
    }
}

/// Load of one resource of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Amount that pods can get.
    pub(crate) capacity: f64,
    /// Request of the pod.
    pub(crate) request: f64,
    /// Average of what is used.
    pub(crate) average: f64,
    /// Standard deviation of what is used.
    pub(crate) deviation: f64,
}

impl Load {
    /// Reads the measurements of a resource; `None` if there are none. `recent` are the requests of pods that are not
    /// part of the measurements.
    pub(crate) fn of(
        metrics: &[Metric],
        measured: Measured,
        node: NodeRef<'_>,
        recent: (i64, i64),
    ) -> Option<Self> {
        let whole = match measured {
            Measured::Cpu => capacity(node).0,
            Measured::Memory => capacity(node).1,
        };
        let (mut average, mut latest, mut deviation, mut is_measured) = (None, 0.0, 0.0, false);
        for metric in metrics.iter().filter(|metric| metric.measured == measured) {
            let Some(percent) = metric.percent(whole) else { continue };
            match metric.operator {
                Operator::Average => average = Some(percent),
                Operator::Deviation => deviation = percent,
                Operator::Latest | Operator::Unknown => latest = percent,
            }
            is_measured = true;
        }
        let capacity = amount(allocatable(node), measured);
        let percent = average.unwrap_or(latest);
        is_measured.then(|| Self {
            capacity,
            request: 0.0,
            average: percent * capacity / 100.0 + amount(recent, measured),
            deviation: deviation * capacity / 100.0,
        })
    }

    /// Returns the average load with the request, and the deviation, both as fractions of the capacity from 0 to 1.
    pub(crate) fn fractions(&self) -> (f64, f64) {
        if self.capacity <= 0.0 {
            return (0.0, 0.0);
        }
        let average = (self.average + self.request) / self.capacity;
        (average.clamp(0.0, 1.0), (self.deviation / self.capacity).clamp(0.0, 1.0))
    }

    /// Rates the load from 0 to 100.
    pub(crate) fn rate(self, margin: f64, sensitivity: f64) -> f64 {
        if self.capacity <= 0.0 {
            return 0.0;
        }
        let within = |used: f64| used.min(self.capacity).max(0.0);
        let bounded = Self {
            request: self.request.max(0.0),
            average: within(self.average),
            deviation: within(self.deviation),
            ..self
        };
        let (average, mut deviation) = bounded.fractions();
        if sensitivity >= 0.0 {
            deviation = deviation.powf(1.0 / sensitivity);
        }
        deviation = (deviation * margin).clamp(0.0, 1.0);
        (1.0 - (average + deviation) / 2.0) * 100.0
    }
}
