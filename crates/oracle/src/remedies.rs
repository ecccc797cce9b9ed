//! Check of `harbormaster why`: the real plugins place the pod after every change that it proposes.
//!
//! Pods that fit nowhere come from random clusters. Each proposal is applied to the objects as a person would apply it,
//! and kube-scheduler's plugins evaluate the pod again.

mod apply;

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use harbormaster_api::Release;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Change, Inventory, Remedy, why_independent};
use serde::Serialize;
use serde_json::Value;

use crate::generate::{Cluster, Shape, is_pending};
use crate::verdict_oracle::{Request, VerdictOracle};

/// Size of the clusters.
const SHAPE: Shape = Shape { max_nodes: 20, max_pods: 12, admitted: true };

/// Options of a check.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of both schedulers.
    pub release: Release,
    /// Seed of the first cluster; the others have consecutive seeds.
    pub seed: u64,
    /// Number of clusters.
    pub clusters: u64,
}

/// Result of a check.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Number of clusters.
    pub clusters: u64,
    /// Number of pods that fit nowhere.
    pub pods: u64,
    /// Number of these pods for which a change was proposed.
    pub helped: u64,
    /// Number of proposals, by kind of change; several kinds are joined by `+`.
    pub proposals: BTreeMap<String, u64>,
    /// Longest time for one answer.
    pub longest: Duration,
    /// Proposals after which the pod does not fit according to the real plugins.
    pub wrong: Vec<String>,
}

/// Checks the proposals for all pods without a node in random clusters. Calls `progress` after every cluster.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let mut real = VerdictOracle::start(options.release)?;
    let mut report = Report::default();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        let mut cluster = Cluster::new(seed, &SHAPE);
        if !cluster.features.is_empty() {
            continue;
        }
        cluster.add_missing_namespaces();
        check(&mut report, &mut real, options.release, &cluster).with_context(|| format!("seed {seed}"))?;
        report.clusters += 1;
        progress(&report);
    }
    Ok(report)
}

fn check(report: &mut Report, real: &mut VerdictOracle, release: Release, cluster: &Cluster) -> Result<()> {
    let config = cluster.config.to_string();
    let features = harbormaster_api::features::Features::of(release);
    let setup = Setup::read(Some(("", &config)), &Choices { features, ..Choices::default() })?;
    for pod in cluster.objects.iter().filter(|object| is_pending(object)) {
        let name = format!(
            "{}/{}",
            pod["metadata"]["namespace"].as_str().unwrap_or("default"),
            pod["metadata"]["name"].as_str().unwrap_or_default()
        );
        let others = |object: &&Value| !is_pending(object) || *object == pod;
        let objects: Vec<Value> = cluster.objects.iter().filter(others).cloned().collect();
        let inventory = Inventory::from_objects(objects.clone(), release)?;
        let start = Instant::now();
        // A plugin that fails on the pod has no verdict that a change could turn.
        let Ok(Some(answer)) = why_independent(&setup.engine, inventory, &name) else { continue };
        report.longest = report.longest.max(start.elapsed());
        if answer.pod.node.is_some() || answer.pod.is_foreign {
            continue;
        }
        report.pods += 1;
        report.helped += u64::from(!answer.remedies.is_empty());
        for remedy in &answer.remedies {
            *report.proposals.entry(kinds(remedy)).or_default() += 1;
            let fits = fits_after(real, cluster, &objects, &name, remedy)?;
            if !fits {
                report.wrong.push(format!("{name}: {}", words(remedy)));
            }
        }
    }
    Ok(())
}

/// Returns true if the real plugins accept the pod on some node after the changes.
fn fits_after(
    real: &mut VerdictOracle,
    cluster: &Cluster,
    objects: &[Value],
    pod: &str,
    remedy: &Remedy,
) -> Result<bool> {
    let mut objects = objects.to_vec();
    apply::apply(&mut objects, pod, remedy, real.release())?;
    let request = Request {
        id: 1,
        config: Some(cluster.config.clone()),
        objects,
        pods: vec![pod.to_owned()],
        ..Request::default()
    };
    let response = real.ask(&request)?;
    if let Some(error) = response.error {
        anyhow::bail!("kube-scheduler's plugins rejected the cluster: {error}");
    }
    Ok(response.pods.iter().any(|verdict| verdict.nodes.values().any(Option::is_none)))
}

fn kinds(remedy: &Remedy) -> String {
    let name = |change: &Change| {
        let value = serde_json::to_value(change).unwrap_or_default();
        value["change"].as_str().unwrap_or_default().to_owned()
    };
    let mut kinds: Vec<String> = remedy.changes.iter().map(name).collect();
    kinds.sort();
    kinds.join("+")
}

fn words(remedy: &Remedy) -> String {
    remedy.changes.iter().map(Change::to_string).collect::<Vec<_>>().join(", and ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clusters, pods, helped, proposals, longest, wrong } = self;
        writeln!(f, "{clusters} clusters, {pods} pods without a node, proposals for {helped} of them")?;
        for (kinds, count) in proposals {
            writeln!(f, "  {kinds}: {count}")?;
        }
        writeln!(f, "longest answer: {longest:.1?}")?;
        for wrong in wrong {
            writeln!(f, "does not help: {wrong}")?;
        }
        write!(f, "{} of {} proposals do not help", wrong.len(), proposals.values().sum::<u64>())
    }
}
