//! The configuration files of `scheduler_perf`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::obstacle::Obstacle;

/// A configuration file.
#[derive(Debug, Clone)]
pub(super) struct ConfigFile {
    /// Name for messages, such as `dra/performance-config.yaml`.
    pub(super) name: String,
    /// Folder that the paths in the file are relative to.
    pub(super) folder: PathBuf,
    /// The test cases that can be read, and the reasons the others cannot.
    pub(super) cases: Vec<Result<TestCase, Obstacle>>,
}

/// A test case: operations, and workloads that set their parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestCase {
    pub(super) name: String,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    #[serde(default)]
    pub(super) feature_gates: BTreeMap<String, bool>,
    pub(super) scheduler_config_path: Option<String>,
    pub(super) default_pod_template_path: Option<String>,
    /// Operations, which are decoded one by one so that an error can name the operation.
    pub(super) workload_template: Vec<Value>,
    pub(super) workloads: Vec<WorkloadEntry>,
    /// Ignored, because the benchmark measures the process and not its metrics.
    #[serde(rename = "metricsCollectorConfig")]
    _metrics_collector_config: Option<Value>,
    /// Ignored, because the benchmark compares two schedulers and has no thresholds.
    #[serde(rename = "defaultThresholdMetricSelector")]
    _default_threshold_metric_selector: Option<Value>,
}

/// A workload of a test case.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkloadEntry {
    pub(super) name: String,
    #[serde(default)]
    pub(super) labels: Vec<String>,
    #[serde(default)]
    pub(super) feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
    /// Ignored, as is `thresholdMetricSelector`.
    #[serde(rename = "threshold")]
    _threshold: Option<Value>,
    #[serde(rename = "thresholdMetricSelector")]
    _threshold_metric_selector: Option<Value>,
}

impl ConfigFile {
    /// Reads a file. Fails if it is not a list of test cases; a test case that cannot be read becomes an obstacle.
    pub(super) fn read(path: &Path, name: String) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let cases: Vec<Value> =
            serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let cases = cases.into_iter().map(|case| Self::case(&name, case)).collect();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { name, folder, cases })
    }

    fn case(file: &str, case: Value) -> Result<TestCase, Obstacle> {
        let name = case["name"].as_str().unwrap_or("a test case without a name").to_owned();
        serde_json::from_value(case)
            .map_err(|error| Obstacle::new(error.to_string()).in_workload(file, &name))
    }
}
