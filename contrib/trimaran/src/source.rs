//! Where reports come from, as the arguments of all four plugins say.

use std::{collections::BTreeMap, time::Duration};

use harbormaster::{
    api::{Quantity, Str},
    prelude::*,
    serde::Deserialize,
    serde_json::{self, Value, json},
};

use crate::report::NodeLoads;

/// Time between two fetches.
const EVERY: Duration = Duration::from_secs(30);
/// Age at which a report is no longer used.
const KEEP: Duration = Duration::from_secs(300);
/// Address of Prometheus if none is given.
const PROMETHEUS: &str = "http://prometheus-k8s:9090";
/// Path of the node metrics on the API server.
const METRICS_SERVER: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// `metricProvider`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MetricProvider {
    /// `KubernetesMetricsServer`, `Prometheus` or `SignalFx`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// URL.
    pub address: Option<String>,
    /// Token.
    pub token: Option<String>,
    /// True to accept any certificate.
    pub insecure_skip_verify: Option<bool>,
}

/// A source of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The service of load-watcher.
    Watcher(WebRequest),
    /// metrics-server, through the API server.
    MetricsServer,
    /// Prometheus; the request has the address of the server.
    Prometheus(WebRequest),
}

impl Source {
    /// Reads the arguments that all plugins have.
    ///
    /// # Errors
    /// If the provider does not exist or is not supported.
    pub fn new(watcher_address: Option<String>, provider: MetricProvider) -> Result<Self, PluginError> {
        if let Some(address) = watcher_address.filter(|address| !address.is_empty()) {
            let url = format!("{}/watcher", address.trim_end_matches('/'));
            return Ok(Self::Watcher(WebRequest { url, ..WebRequest::default() }));
        }
        let MetricProvider { kind, address, token, insecure_skip_verify } = provider;
        match kind.as_deref().unwrap_or("KubernetesMetricsServer") {
            "" | "KubernetesMetricsServer" => Ok(Self::MetricsServer),
            "Prometheus" => {
                let url = address.filter(|address| !address.is_empty());
                let url = url.as_deref().unwrap_or(PROMETHEUS).trim_end_matches('/').to_owned();
                let bearer_token = token.filter(|token| !token.is_empty());
                let insecure = insecure_skip_verify.unwrap_or(true);
                Ok(Self::Prometheus(WebRequest { url, bearer_token, insecure }))
            }
            "SignalFx" => {
                Err("metricProvider.type: SignalFx is not supported; run load-watcher with SignalFx and set \
                               watcherAddress"
                    .into())
            }
            other => Err(format!("metricProvider.type: invalid MetricProvider.Type, got {other}").into()),
        }
    }

    /// Returns the plan of the fetches; all plugins with the same source share it.
    pub fn plan(&self) -> FetchPlan {
        let name = match self {
            Self::MetricsServer => "kubernetes-metrics-server".to_owned(),
            Self::Watcher(request) => format!("load-watcher-{}", slug(&request.url)),
            Self::Prometheus(request) => format!("prometheus-{}", slug(&request.url)),
        };
        FetchPlan { name: name.into(), every: EVERY, keep: KEEP }
    }

    /// Fetches a report.
    ///
    /// # Errors
    /// If the source does not answer, or with something other than a recent report.
    pub async fn fetch(&self, web: &Web) -> PluginResult<Value> {
        match self {
            Self::Watcher(request) => from_watcher(web, &web.get(request).await?),
            Self::MetricsServer => from_metrics_server(web, &web.get_from_api(METRICS_SERVER).await?),
            Self::Prometheus(server) => from_prometheus(web, server).await,
        }
    }
}

/// Makes part of an object's name of a URL.
fn slug(url: &str) -> String {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let url = url.trim_end_matches("/watcher").to_ascii_lowercase();
    let parts = url.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

/// Seconds since 1970.
fn seconds(web: &Web) -> i64 {
    web.now().0 / 1_000_000_000
}

/// Returns a report whose window ends now.
fn report(web: &Web, source: &str, nodes: BTreeMap<String, Vec<Value>>) -> Value {
    let nodes: BTreeMap<_, _> =
        nodes.into_iter().map(|(name, metrics)| (name, json!({"metrics": metrics}))).collect();
    let now = seconds(web);
    json!({"timestamp": now, "window": {"end": now}, "source": source, "data": {"NodeMetricsMap": nodes}})
}

fn from_watcher(web: &Web, text: &str) -> PluginResult<Value> {
    let report: Value = serde_json::from_str(text)?;
    let loads = NodeLoads::deserialize(&report)?;
    let age = seconds(web).saturating_sub(loads.window_end);
    if loads.window_end > 0 && age > KEEP.as_secs() as i64 {
        return Err(format!("the report is {age} seconds old").into());
    }
    if loads.is_empty() {
        return Err("the report contains no nodes".into());
    }
    Ok(report)
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct NodeMetricsList {
    #[serde(default)]
    items: Vec<NodeMetrics>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct NodeMetrics {
    metadata: ObjectName,
    #[serde(default)]
    usage: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct ObjectName {
    name: String,
}

/// Nodes have absolute amounts here: only the scheduler knows their capacities.
fn from_metrics_server(web: &Web, text: &str) -> PluginResult<Value> {
    let list: NodeMetricsList = serde_json::from_str(text)?;
    let metrics = |node: &NodeMetrics| -> Vec<Value> {
        let quantity = |name| Quantity::deserialize(node.usage.get(name)?).ok();
        let metric = |kind, used: Option<i64>| {
            let used = used.filter(|used| *used >= 0)?;
            Some(json!({"type": kind, "operator": "Latest", "usage": used}))
        };
        let cpu = metric("CPU", quantity("cpu").map(|cpu| cpu.milli_value()));
        let memory = metric("Memory", quantity("memory").map(|memory| memory.value()));
        [cpu, memory].into_iter().flatten().collect()
    };
    let nodes: BTreeMap<_, _> =
        list.items.iter().map(|node| (node.metadata.name.clone(), metrics(node))).collect();
    if nodes.is_empty() {
        return Err("metrics-server reports no nodes".into());
    }
    Ok(report(web, "KubernetesMetricsServer", nodes))
}

/// Queries of Prometheus: type, operator, function and metric.
const QUERIES: [(&str, &str, &str, &str); 4] = [
    ("CPU", "AVG", "avg_over_time", "instance:node_cpu:ratio"),
    ("CPU", "STD", "stddev_over_time", "instance:node_cpu:ratio"),
    ("Memory", "AVG", "avg_over_time", "instance:node_memory_utilisation:ratio"),
    ("Memory", "STD", "stddev_over_time", "instance:node_memory_utilisation:ratio"),
];

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct QueryAnswer {
    data: QueryData,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct QueryData {
    #[serde(default)]
    result: Vec<Sample>,
}

#[derive(Deserialize)]
#[serde(crate = "harbormaster::serde")]
struct Sample {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    /// Time and value.
    value: (Value, Str),
}

async fn from_prometheus(web: &Web, server: &WebRequest) -> PluginResult<Value> {
    let mut nodes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (kind, operator, function, metric) in QUERIES {
        let query = format!("{function}({metric}[15m])").replace('[', "%5B").replace(']', "%5D");
        let url = format!("{}/api/v1/query?query={query}", server.url);
        let text = web.get(&WebRequest { url, ..server.clone() }).await?;
        let answer: QueryAnswer = serde_json::from_str(&text)?;
        for Sample { metric: labels, value: (_, value) } in answer.data.result {
            let ratio = value.parse::<f64>().ok().filter(|ratio| ratio.is_finite());
            let (Some(instance), Some(ratio)) = (labels.get("instance"), ratio) else { continue };
            let metric = json!({"type": kind, "operator": operator, "value": ratio * 100.0});
            nodes.entry(node_of(instance).to_owned()).or_default().push(metric);
        }
    }
    if nodes.is_empty() {
        return Err("Prometheus has no values of instance:node_cpu:ratio with the label `instance`".into());
    }
    Ok(report(web, "Prometheus", nodes))
}

/// Name of the node of an instance: the instance without its port.
fn node_of(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => instance,
    }
}
