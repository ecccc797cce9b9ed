//! LowRiskOverCommitment: avoids nodes where pods with limits above their requests may get in each other's way.

use std::collections::BTreeMap;

use harbormaster::{
    api::{PodSpec, requests, resources},
    framework::RowLog,
    prelude::*,
    serde::Deserialize,
    serde_json::Value,
};

use crate::{
    allocatable,
    arrivals::Arrivals,
    beta::Beta,
    listed,
    load_variation::Load,
    report::{Measured, NodeLoads},
    rounded,
    source::{MetricProvider, Source},
};

/// `LowRiskOverCommitmentArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LowRiskArgs {
    /// Address of load-watcher's service.
    pub watcher_address: Option<String>,
    /// Source of measurements without load-watcher.
    pub metric_provider: MetricProvider,
    /// Number of windows over which the load is smoothed; 5 by default.
    pub smoothing_window_size: Option<i64>,
    /// Weight, from 0 to 1, of the risk due to limits, by resource; 0.5 for others.
    pub risk_limit_weights: Option<BTreeMap<String, f64>>,
}

/// Avoids nodes where overcommitment is a risk. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct LowRiskOverCommitment {
    source: Source,
    /// Factor of the deviation.
    smoothing: f64,
    /// Weights of the risk due to limits: of CPU and of memory.
    weights: [f64; 2],
}

impl Plugin for LowRiskOverCommitment {
    const NAME: &'static str = "LowRiskOverCommitment";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&Claim::of(pod.derived));
    }
}

impl Build for LowRiskOverCommitment {
    type Args = LowRiskArgs;

    fn build(args: LowRiskArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        let source = Source::new(args.watcher_address, args.metric_provider)?;
        let window = args.smoothing_window_size.filter(|size| *size > 0).unwrap_or(5);
        let weight = |name: &str| {
            let given = args.risk_limit_weights.as_ref().and_then(|weights| weights.get(name)).copied();
            given.filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.5)
        };
        let weights = [weight(resources::CPU), weight(resources::MEMORY)];
        Ok(Self { source, smoothing: (window as f64).sqrt(), weights })
    }
}

impl Fetches for LowRiskOverCommitment {
    type Object = NodeLoads;

    fn plan(&self) -> FetchPlan {
        self.source.plan()
    }

    async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        self.source.fetch(web).await
    }
}

impl Indexed for LowRiskOverCommitment {
    type Index = Commitments;
}

impl ReadsCluster for LowRiskOverCommitment {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        reads.of(&self.fetched(cx.objects).map(|report| report.digest));
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        Ok(Some(self.index(cx)?.arrivals.log()))
    }
}

impl Score<Row> for LowRiskOverCommitment {
    fn scores_pod(&self, cx: &RowCycle<'_>) -> bool {
        let is_known = |cluster: Cycle<'_>| self.fetched(cluster.objects).is_some();
        !Claim::of(cx.pod.derived).is_nothing() && cx.cluster().is_some_and(is_known)
    }

    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(known) = self.known(cx)? else { return Ok(0) };
        Ok(self.rate_node(known, Claim::of(cx.pod.derived), node))
    }

    fn score_batch(&self, cx: &RowCycle<'_>, (): &(), scores: &mut Scores<'_>) -> PluginResult<()> {
        let (known, claim) = (self.known(cx)?, Claim::of(cx.pod.derived));
        for (row, score) in scores.iter_mut() {
            *score = known.map_or(0, |known| self.rate_node(known, claim, cx.nodes.node(row)));
        }
        Ok(())
    }
}

impl LowRiskOverCommitment {
    /// Returns the report, if there is one, and what pods on the nodes claim.
    fn known<'a>(&self, cx: &RowCycle<'a>) -> PluginResult<Option<(&'a NodeLoads, &'a Commitments)>> {
        let Some(cluster) = cx.cluster() else { return Ok(None) };
        let Some(report) = self.fetched(cluster.objects) else { return Ok(None) };
        Ok(Some((report, self.index(&cluster)?)))
    }

    fn rate_node(&self, (report, index): (&NodeLoads, &Commitments), claim: Claim, node: NodeRef<'_>) -> i64 {
        let Some(metrics) = report.of(node.name()).filter(|_| !claim.is_nothing()) else { return 0 };
        let recent = index.arrivals.requested_after(node.idx(), report.measured_until());
        let held = index.held(node.idx());
        let (milli_cpu, memory) = allocatable(node);
        let risks = [(Measured::Cpu, milli_cpu), (Measured::Memory, memory)];
        let risks = risks.into_iter().enumerate().map(|(at, (measured, capacity))| {
            let commitment = Commitment::new(capacity, claim.0[at], held[at]);
            let load = Load::of(metrics, measured, node, recent);
            commitment.risk(load, self.smoothing, self.weights[at])
        });
        let risk = risks.fold(0.0, f64::max);
        rounded((1.0 - risk) * 100.0).clamp(0, 100)
    }
}

/// Request and limit of one resource. The limit is at least the request.
type Bounds = (i64, i64);

/// Requests and limits of a pod: of CPU in millicores, and of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Claim([Bounds; 2]);

impl Claim {
    fn of(spec: &PodSpec) -> Self {
        let (requests, limits) = (requests::spec_request_list(spec), requests::limit_list(spec));
        Self([resources::CPU, resources::MEMORY].map(|name| {
            let request = listed(&requests, name).unwrap_or(0);
            (request, listed(&limits, name).unwrap_or(0).max(request))
        }))
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Sums of requests and limits.
type Sums = [(i128, i128); 2];

/// Sums of the requests and limits of the pods on each row, and when the pods arrived.
#[derive(Debug, Default, PartialEq)]
pub struct Commitments {
    rows: BTreeMap<NodeIdx, (usize, Sums)>,
    arrivals: Arrivals,
}

impl Commitments {
    fn held(&self, row: NodeIdx) -> [Bounds; 2] {
        let sums = self.rows.get(&row).map(|(_, sums)| *sums).unwrap_or_default();
        let bounded = |sum: i128| i64::try_from(sum).unwrap_or(i64::MAX);
        sums.map(|(request, limit)| (bounded(request), bounded(limit)))
    }
}

impl Index for Commitments {
    fn pod_joined(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.arrivals.pod_joined(view, row, pod);
        let (pods, sums) = self.rows.entry(row).or_default();
        *pods += 1;
        for (sum, (request, limit)) in sums.iter_mut().zip(Claim::of(&pod.spec).0) {
            *sum = (sum.0 + i128::from(request), sum.1 + i128::from(limit));
        }
    }

    fn pod_left(&mut self, view: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.arrivals.pod_left(view, row, pod);
        let Some((pods, sums)) = self.rows.get_mut(&row) else { return };
        *pods -= 1;
        for (sum, (request, limit)) in sums.iter_mut().zip(Claim::of(&pod.spec).0) {
            *sum = (sum.0 - i128::from(request), sum.1 - i128::from(limit));
        }
        if *pods == 0 {
            self.rows.remove(&row);
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if std::sync::Arc::ptr_eq(&old.derived, &new.derived) {
            self.arrivals.pod_changed(view, row, old, new);
        } else {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}

/// Requests and limits of one resource on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commitment {
    pub(crate) capacity: i64,
    /// Of all pods and the new one; requests are at most the capacity.
    pub(crate) request: i64,
    pub(crate) limit: i64,
    /// Of the pods without the new one; requests are at most the capacity.
    pub(crate) request_before: i64,
    pub(crate) limit_before: i64,
}

impl Commitment {
    fn new(capacity: i64, pod: Bounds, held: Bounds) -> Self {
        Self {
            capacity,
            request: held.0.saturating_add(pod.0).min(capacity),
            limit: held.1.saturating_add(pod.1),
            request_before: held.0.min(capacity),
            limit_before: held.1,
        }
    }

    /// Returns the risk from 0 to 1. `load` is the measured load, if there is one.
    pub(crate) fn risk(self, load: Option<Load>, smoothing: f64, weight: f64) -> f64 {
        let by_load = load.map_or(0.0, |load| self.risk_of_load(load, smoothing));
        (weight * self.risk_of_limits() + (1.0 - weight) * by_load).clamp(0.0, 1.0)
    }

    /// Share of the limits above the requests for which the node has no room.
    fn risk_of_limits(self) -> f64 {
        match self.limit > self.capacity {
            true => (self.limit - self.capacity) as f64 / self.limit.saturating_sub(self.request) as f64,
            false => 0.0,
        }
    }

    /// Probability of a load above the requests.
    fn risk_of_load(self, load: Load, smoothing: f64) -> f64 {
        let (mean, deviation) = load.fractions();
        let largest = if mean > 0.0 && mean < 1.0 { (mean * (1.0 - mean) * 0.99).sqrt() } else { 0.0 };
        let deviation = (deviation * smoothing).min(largest);
        let share = |amount: i64| match self.capacity > 0 {
            true => (amount as f64 / self.capacity as f64).clamp(0.0, 1.0),
            false => 0.0,
        };
        let (within, beta) = probability(mean, deviation, share(self.request_before));
        let mut within = within;
        if self.limit_before < self.capacity && self.request_before <= self.limit_before {
            let limit = share(self.limit_before);
            // The load cannot exceed the limits.
            if limit == 0.0 {
                within = 1.0;
            } else if let Some(below_limit) = beta.map(|beta| beta.up_to(limit)).filter(|below| *below > 0.0)
            {
                within = (within / below_limit).clamp(0.0, 1.0);
            }
        }
        1.0 - within
    }
}

/// Returns the probability of a load of at most `threshold`, and the distribution of the load if it is a beta
/// distribution.
fn probability(mean: f64, deviation: f64, threshold: f64) -> (f64, Option<Beta>) {
    if mean == 0.0 {
        return (1.0, None);
    }
    if deviation == 0.0 {
        return (if mean <= threshold { 1.0 } else { 0.0 }, None);
    }
    match Beta::fit(mean, deviation) {
        Some(beta) => (beta.up_to(threshold), Some(beta)),
        None => (0.0, None),
    }
}
