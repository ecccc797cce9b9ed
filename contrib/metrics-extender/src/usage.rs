//! CPU usage of the nodes, fetched from metrics-server in the background.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use harbormaster_extender::prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use kube::Client;
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Path of the node metrics on the API server.
const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// Timeout of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// CPU usage by node, in millicores, rounded up.
pub type Millicores = Arc<BTreeMap<String, u64>>;

/// The last metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct Usage {
    last: Arc<RwLock<Option<(Instant, Millicores)>>>,
    max_age: Duration,
    metrics: UsageMetrics,
}

#[derive(Clone, Debug)]
struct UsageMetrics {
    refreshes: IntCounterVec,
    nodes: IntGauge,
}

impl Usage {
    /// Returns a `Usage` that has no metrics yet. Metrics older than `max_age` are not used.
    pub fn new(max_age: Duration) -> Self {
        let refreshes =
            Opts::new("metrics_extender_refreshes_total", "Requests to metrics-server, by result.");
        let nodes = "Nodes in the last response of metrics-server.";
        let metrics = UsageMetrics {
            refreshes: IntCounterVec::new(refreshes, &["result"]).expect("names are valid"),
            nodes: IntGauge::new("metrics_extender_nodes", nodes).expect("names are valid"),
        };
        for result in ["success", "error"] {
            metrics.refreshes.with_label_values(&[result]);
        }
        Self { last: Arc::default(), max_age, metrics }
    }

    /// Registers the Prometheus metrics.
    pub fn register(&self, registry: &Registry) {
        for collector in [
            Box::new(self.metrics.refreshes.clone())
                as Box<dyn harbormaster_extender::prometheus::core::Collector>,
            Box::new(self.metrics.nodes.clone()),
        ] {
            registry.register(collector).expect("names differ");
        }
    }

    /// Returns the metrics, unless they are too old.
    pub fn now(&self) -> Option<Millicores> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner);
        let (heard, millicores) = last.as_ref()?;
        (heard.elapsed() <= self.max_age).then(|| millicores.clone())
    }

    /// Replaces the metrics.
    pub fn set(&self, millicores: BTreeMap<String, u64>) {
        self.metrics.nodes.set(i64::try_from(millicores.len()).unwrap_or(i64::MAX));
        *self.last.write().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::new(millicores)));
    }

    /// Keeps fetching metrics; never returns. Logs when metrics first arrive, and when errors start, change or end.
    pub async fn follow(self, client: Client, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut trouble: Option<String> = None;
        loop {
            ticks.tick().await;
            match fetch(&client).await {
                Ok(millicores) => {
                    self.metrics.refreshes.with_label_values(&["success"]).inc();
                    if self.last.read().unwrap_or_else(PoisonError::into_inner).is_none() || trouble.is_some()
                    {
                        tracing::info!(nodes = millicores.len(), "Metrics are available");
                    }
                    trouble = None;
                    self.set(millicores);
                }
                Err(why) => {
                    self.metrics.refreshes.with_label_values(&["error"]).inc();
                    if trouble.as_ref() != Some(&why) {
                        tracing::warn!(
                            error = why,
                            "Fetching metrics failed; once the last metrics are too old, nodes get no points"
                        );
                        trouble = Some(why);
                    }
                }
            }
        }
    }
}

async fn fetch(client: &Client) -> Result<BTreeMap<String, u64>, String> {
    let request = http::Request::get(NODES).body(Vec::new()).map_err(|error| error.to_string())?;
    let answer = timeout(LIMIT, client.request_text(request)).await;
    let answer = answer.map_err(|_| format!("{NODES}: no answer within {LIMIT:?}"))?;
    match answer {
        Ok(text) => read(&text),
        // kubectl's wording.
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err("the server could not find the requested resource (get nodes.metrics.k8s.io)".to_owned())
        }
        Err(error) => Err(format!("{NODES}: {error}")),
    }
}

#[derive(Deserialize)]
struct NodeMetricsList {
    #[serde(default)]
    items: Vec<NodeMetrics>,
}

#[derive(Deserialize)]
struct NodeMetrics {
    metadata: ObjectName,
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ObjectName {
    name: String,
}

/// Parses the response. Skips nodes without a valid CPU usage.
fn read(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let list: NodeMetricsList =
        serde_json::from_str(text).map_err(|error| format!("{NODES}: not a NodeMetricsList: {error}"))?;
    let used = |node: NodeMetrics| Some((node.metadata.name, millicores(node.usage.get("cpu")?)?));
    Ok(list.items.into_iter().filter_map(used).collect())
}

/// Converts a CPU quantity to millicores, rounded up as in Kubernetes.
fn millicores(quantity: &str) -> Option<u64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let exponent: i32 = match unit {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        _ => unit.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let power = exponent.checked_add(3)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scale = 10_u128.checked_pow(power.unsigned_abs());
    let rounded = match scale {
        Some(scale) if power < 0 => digits.div_ceil(scale),
        Some(scale) => digits.checked_mul(scale)?,
        // The result is one for any positive amount below one millicore.
        None if power < 0 => u128::from(digits > 0),
        None => return None,
    };
    u64::try_from(rounded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_rounded_up_to_millicores() {
        for (quantity, expected) in [
            ("264123456n", Some(265)),
            ("264000000n", Some(264)),
            ("66000001n", Some(67)),
            ("87m", Some(87)),
            ("1500u", Some(2)),
            ("0", Some(0)),
            ("0n", Some(0)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("1.0001", Some(1001)),
            ("2k", Some(2_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E-3", Some(1)),
            ("1e-2000000000", Some(1)),
            ("1e2000000000", None),
            ("1e-2147483648", Some(1)),
            ("1e-2147483649", None),
            ("1Ki", None),
            ("-5m", None),
            ("1.2.3", None),
            ("", None),
            (".", None),
            ("m", None),
            ("99999999999999999999999999999999999999999", None),
        ] {
            assert_eq!(millicores(quantity), expected, "{quantity}");
        }
    }

    #[test]
    fn nodes_without_a_valid_cpu_usage_have_no_metrics() {
        let text = r#"{"kind":"NodeMetricsList","items":[
            {"metadata":{"name":"a"},"timestamp":"2024-02-14T07:29:00Z","window":"10s","usage":{"cpu":"67m","memory":"1Gi"}},
            {"metadata":{"name":"b"},"usage":{"memory":"1Gi"}},
            {"metadata":{"name":"c"},"usage":{"cpu":"much"}},
            {"metadata":{"name":"d"}}]}"#;
        assert_eq!(read(text), Ok([("a".to_owned(), 67)].into()));
        assert_eq!(read("{}"), Ok(BTreeMap::new()));
        assert!(read("[").unwrap_err().contains("not a NodeMetricsList"));
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_that_are_too_old_are_not_used() {
        let usage = Usage::new(Duration::from_secs(60));
        assert_eq!(usage.now(), None);
        usage.set([("a".to_owned(), 67)].into());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(usage.now().unwrap()["a"], 67);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(usage.now(), None);
    }
}
