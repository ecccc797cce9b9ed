//! TargetLoadPacking: packs pods onto nodes up to a target utilization of the processor.

use harbormaster::{
    api::{Quantity, pod::Container, resources},
    framework::RowLog,
    prelude::*,
    serde::Deserialize,
    serde_json::Value,
};

use crate::{
    arrivals::Arrivals,
    capacity, listed,
    report::{Measured, Metric, NodeLoads, Operator},
    rounded,
    source::{MetricProvider, Source},
};

/// `TargetLoadPackingArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TargetLoadArgs {
    /// Address of load-watcher's service.
    pub watcher_address: Option<String>,
    /// Source of measurements without load-watcher.
    pub metric_provider: MetricProvider,
    /// CPU that a container without requests and limits is expected to use; 1 by default.
    pub default_requests: Option<std::collections::BTreeMap<String, Quantity>>,
    /// Expected use of a container, as a multiple of its request; `"1.5"` by default.
    pub default_requests_multiplier: Option<String>,
    /// Target utilization in percent; 40 by default.
    pub target_utilization: Option<i64>,
}

/// Prefers nodes whose utilization would be near a target. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct TargetLoadPacking {
    source: Source,
    /// Millicores of a container without requests and limits.
    default_request: i64,
    multiplier: f64,
    /// Percent, above 0 and at most 100.
    target: f64,
}

impl Plugin for TargetLoadPacking {
    const NAME: &'static str = "TargetLoadPacking";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&self.expected(pod));
    }
}

impl Build for TargetLoadPacking {
    type Args = TargetLoadArgs;

    fn build(args: TargetLoadArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        let source = Source::new(args.watcher_address, args.metric_provider)?;
        let default_request = args
            .default_requests
            .map_or(1000, |requests| requests.get(resources::CPU).map_or(0, |cpu| cpu.milli_value().max(0)));
        let multiplier = args.default_requests_multiplier.unwrap_or_else(|| "1.5".to_owned());
        let wrong =
            || format!("defaultRequestsMultiplier: must be a number of at least 0, but is {multiplier:?}");
        let multiplier = multiplier.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let multiplier = multiplier.ok_or_else(wrong)?;
        let target = args.target_utilization.filter(|percent| *percent > 0).unwrap_or(40);
        if target > 100 {
            return Err(format!("targetUtilization: must be at most 100, but is {target}").into());
        }
        Ok(Self { source, default_request, multiplier, target: target as f64 })
    }
}

impl Fetches for TargetLoadPacking {
    type Object = NodeLoads;

    fn plan(&self) -> FetchPlan {
        self.source.plan()
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        self.source.fetch(web).await
    }
}

impl Indexed for TargetLoadPacking {
    type Index = Arrivals;
}

impl ReadsCluster for TargetLoadPacking {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        reads.of(&self.fetched(cx.objects).map(|report| report.digest));
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        Ok(Some(self.index(cx)?.log()))
    }
}

impl Score<Row> for TargetLoadPacking {
    fn scores_pod(&self, cx: &RowCycle<'_>) -> bool {
        cx.cluster().is_some_and(|cluster| self.fetched(cluster.objects).is_some())
    }

    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(known) = self.known(cx)? else { return Ok(0) };
        Ok(self.rate_node(known, self.expected(cx.pod), node))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let (known, pod) = (self.known(cx)?, self.expected(cx.pod));
        for (row, score) in scores.iter_mut() {
            *score = known.map_or(0, |known| self.rate_node(known, pod, cx.nodes.node(row)));
        }
        Ok(())
    }
}

/// Returns the last measured utilization of the processor, in percent.
fn utilization(metrics: &[Metric], capacity: i64) -> Option<f64> {
    let is_level = |metric: &&Metric| {
        metric.measured == Measured::Cpu && matches!(metric.operator, Operator::Average | Operator::Latest)
    };
    metrics.iter().rev().find(is_level)?.percent(capacity)
}

impl TargetLoadPacking {
    /// Returns the report, if there is one, and the pods that it may lack.
    fn known<'a>(&self, cx: &RowCycle<'a>) -> PluginResult<Option<(&'a NodeLoads, &'a Arrivals)>> {
        let Some(cluster) = cx.cluster() else { return Ok(None) };
        let Some(report) = self.fetched(cluster.objects) else { return Ok(None) };
        Ok(Some((report, self.index(&cluster)?)))
    }

    fn rate_node(&self, (report, arrivals): (&NodeLoads, &Arrivals), pod: i64, node: NodeRef<'_>) -> i64 {
        let (capacity, _) = capacity(node);
        let percent = report.of(node.name()).and_then(|metrics| utilization(metrics, capacity));
        let Some(percent) = percent else { return 0 };
        let recent = arrivals.after(node.idx(), report.measured_until());
        let recent = recent.map(|spec| self.expected_of(spec)).fold(0, i64::saturating_add);
        self.rate(percent, capacity, pod, recent)
    }

    /// Millicores that the pod is expected to use.
    fn expected(&self, pod: RowPod<'_>) -> i64 {
        self.expected_of(pod.derived)
    }

    fn expected_of(&self, spec: &harbormaster::api::PodSpec) -> i64 {
        let sidecars = spec.init_containers.iter().filter(|container| container.restart_always);
        let running = spec.containers.iter().chain(sidecars);
        let overhead = listed(&spec.overhead, resources::CPU).unwrap_or(0);
        running.map(|container| self.expected_of_container(container)).fold(overhead, i64::saturating_add)
    }

    fn expected_of_container(&self, container: &Container) -> i64 {
        let request = || {
            let request = listed(&container.requests, resources::CPU)?;
            Some(rounded(request as f64 * self.multiplier))
        };
        listed(&container.limits, resources::CPU).or_else(request).unwrap_or(self.default_request)
    }

    /// Rates a node with a utilization in percent and a capacity in millicores. The pod and the pods that are not part
    /// of the measurement are expected to use some millicores.
    pub(crate) fn rate(&self, percent: f64, capacity: i64, pod: i64, recent: i64) -> i64 {
        let target = self.target;
        let mut predicted = 0.0;
        if capacity != 0 {
            let used = percent / 100.0 * capacity as f64;
            predicted = 100.0 * (used + pod as f64 + recent as f64) / capacity as f64;
        }
        if predicted > 100.0 {
            return 0;
        }
        let score = match predicted > target {
            true => target * (100.0 - predicted) / (100.0 - target),
            false => (100.0 - target) * predicted / target + target,
        };
        // A negative measurement would lead below 0.
        rounded(score).clamp(0, 100)
    }
}
