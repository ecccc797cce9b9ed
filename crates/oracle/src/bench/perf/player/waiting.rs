//! Waits for pods outside of measured phases.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::super::measurement::PATIENCE;
use super::super::plan::Labels;
use super::super::selector::selector;
use super::Player;

/// Longest interval between two counts. Lists take CPU time from the scheduler.
const INTERVAL: Duration = Duration::from_secs(1);

/// Content type of lists without specs and statuses.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

impl Player<'_> {
    /// Waits until `count` pods of a namespace have nodes. Fails if there is no progress for a while.
    pub(super) fn wait_for_bound(&self, namespace: &str, labels: &Labels, count: usize) -> Result<()> {
        wait(namespace, "have nodes", count, || self.count_bound(namespace, labels))
    }

    /// Waits until `count` pods of a namespace have nodes or were rejected.
    pub(super) fn wait_for_attempted(&self, namespace: &str, labels: &Labels, count: usize) -> Result<()> {
        wait(namespace, "have been tried", count, || {
            // A pod that gets its node between the two lists is counted twice; it has been tried in any case.
            Ok(self.count_rejected(namespace, labels)? + self.count_bound(namespace, labels)?)
        })
    }

    /// Number of pods of a namespace that have nodes.
    pub(super) fn count_bound(&self, namespace: &str, labels: &Labels) -> Result<usize> {
        let path = list(namespace, "spec.nodeName!%3D", labels);
        let body = self.client().get_as(&path, METADATA)?;
        let list: Value = serde_json::from_slice(&body).with_context(|| format!("reading {path}"))?;
        Ok(list["items"].as_array().map_or(0, Vec::len))
    }

    /// Number of pods of a namespace that have no nodes, and that the scheduler has tried to place.
    fn count_rejected(&self, namespace: &str, labels: &Labels) -> Result<usize> {
        let list = self.client().get(&list(namespace, "spec.nodeName%3D", labels))?;
        let is_tried = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|condition| condition["type"] == "PodScheduled"))
        };
        Ok(list["items"].as_array().into_iter().flatten().filter(is_tried).count())
    }
}

fn list(namespace: &str, fields: &str, labels: &Labels) -> String {
    let labels = selector(labels);
    format!(
        "/api/v1/namespaces/{namespace}/pods?fieldSelector={fields}&labelSelector={labels}&resourceVersion=0"
    )
}

/// Counts until there are `wanted` pods.
fn wait(namespace: &str, what: &str, wanted: usize, count: impl Fn() -> Result<usize>) -> Result<()> {
    let (mut most, mut progress, mut interval) = (0, Instant::now(), Duration::from_millis(50));
    loop {
        let counted = count()?;
        if counted >= wanted {
            return Ok(());
        }
        if counted > most {
            (most, progress) = (counted, Instant::now());
        }
        if progress.elapsed() > PATIENCE {
            bail!(
                "only {counted} of {wanted} pods in the namespace {namespace} {what}, and there was no progress \
                 within {PATIENCE:?}"
            );
        }
        sleep(interval);
        interval = (interval * 2).min(INTERVAL);
    }
}
