//! Check of `harbormaster why`: the real plugins place the pod after every change that it proposes.
//!
//! Pods that fit nowhere come from random clusters. Each proposal is applied to the objects as a person would apply it,
//! and kube-scheduler's plugins evaluate the pod again. If the proposal is a priority, DefaultPreemption must choose the
//! same victims on the node. Changes to other pods, volumes and priorities are also looked for by trying all of them
//! with the real plugins: a proposal of the same kind must be as small.

mod apply;
mod brute_force;
mod question;
mod scarcity;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use harbormaster_api::Release;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Change, Inventory, Remedy, why_independent};
use serde::Serialize;
use serde_json::{Value, json};

use crate::generate::{Cluster, Random, Shape, is_pending};
use crate::verdict_oracle::VerdictOracle;
use question::Question;
use workloads::full_name;

/// Values that a priority class may have.
const PRIORITIES: &[i64] = &[-3, 5, 20, 1000, 3_000_000];

/// Size of the clusters.
const SHAPE: Shape = Shape { max_nodes: 20, max_pods: 12, admitted: true };

/// One of this many clusters has volumes in every state, which an API server would not accept all.
const WITH_VOLUMES: u64 = 3;

/// One of this many clusters with volumes is short of volumes and devices.
const SCARCE: u64 = 2;

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
    /// Smaller changes that were not proposed.
    pub missed: Vec<String>,
}

/// Checks the proposals for all pods without a node in random clusters. Calls `progress` after every cluster.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let mut real = VerdictOracle::start(options.release)?;
    let mut report = Report::default();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        let shape = Shape { admitted: seed % WITH_VOLUMES != 0, ..SHAPE };
        let mut cluster = Cluster::new(seed, &shape);
        if !cluster.features.is_empty() {
            continue;
        }
        cluster.add_missing_namespaces();
        add_priorities(&mut cluster, seed);
        if !shape.admitted && seed % SCARCE == 0 {
            scarcity::make_scarce(&mut cluster, seed);
        }
        check(&mut report, &mut real, options.release, (seed, &cluster))
            .with_context(|| format!("seed {seed}"))?;
        report.clusters += 1;
        progress(&report);
    }
    Ok(report)
}

fn check(
    report: &mut Report,
    real: &mut VerdictOracle,
    release: Release,
    (seed, cluster): (u64, &Cluster),
) -> Result<()> {
    let config = cluster.config.to_string();
    let features = harbormaster_api::features::Features::of(release);
    let setup = Setup::read(Some(("", &config)), &Choices { features, ..Choices::default() })?;
    for pod in cluster.objects.iter().filter(|object| is_pending(object)) {
        let name = full_name(pod);
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
        let mut question = Question { real, config: &cluster.config, objects: &objects, pod: &name };
        for remedy in &answer.remedies {
            *report.proposals.entry(kinds(remedy)).or_default() += 1;
            if !helps(&mut question, remedy)? {
                report.wrong.push(format!("seed {seed}, {name}: {}", remedy));
            }
        }
        // A pod without a node may fit nevertheless, if a plugin fails when it scores the nodes.
        let has_failed =
            answer.explanation.as_ref().is_some_and(|said| said.error.is_some() || !said.fits.is_empty());
        if !has_failed {
            let missed = brute_force::missed(&mut question, &answer)?;
            report.missed.extend(missed.into_iter().map(|missed| format!("seed {seed}, {name}: {missed}")));
        }
    }
    Ok(())
}

/// Gives pods the priorities of their classes, and adds other classes.
fn add_priorities(cluster: &mut Cluster, seed: u64) {
    for pod in cluster.objects.iter_mut().filter(|object| object["kind"] == "Pod") {
        let value = match pod["spec"]["priorityClassName"].as_str().and_then(|name| name.split_once('-')) {
            Some(("plus", value)) => value.parse::<i64>().ok(),
            Some(("minus", value)) => value.parse::<i64>().ok().map(|value| -value),
            _ => None,
        };
        if let Some(value) = value {
            pod["spec"]["priority"] = value.into();
        }
    }
    let mut random = Random::new(seed);
    let count = random.below(PRIORITIES.len());
    let classes = random.sample(PRIORITIES, count).into_iter().map(|value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": format!("class-{}", value + 3)}, "value": value,
        })
    });
    cluster.objects.extend(classes);
}

/// Returns true if the real plugins accept the pod after the changes: on some node, or on the node from which it evicts
/// the same pods.
fn helps(question: &mut Question<'_>, remedy: &Remedy) -> Result<bool> {
    let mut objects = question.objects.to_vec();
    apply::apply(&mut objects, question.pod, remedy, question.real.release())?;
    let promotion = remedy.changes.iter().find_map(|change| match change {
        Change::RaisePriority { node, victims, violations, .. } => Some((node, victims, violations)),
        _ => None,
    });
    let Some((node, victims, violations)) = promotion else { return question.fits(objects) };
    let candidates = question.candidates(objects)?.unwrap_or_default();
    Ok(candidates.get(node.as_str()).is_some_and(|candidate| {
        let same = candidate.victims.iter().collect::<BTreeSet<_>>() == victims.iter().collect();
        same && usize::try_from(candidate.violations) == Ok(*violations)
    }))
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clusters, pods, helped, proposals, longest, wrong, missed } = self;
        writeln!(f, "{clusters} clusters, {pods} pods without a node, proposals for {helped} of them")?;
        for (kinds, count) in proposals {
            writeln!(f, "  {kinds}: {count}")?;
        }
        writeln!(f, "longest answer: {longest:.1?}")?;
        for wrong in wrong {
            writeln!(f, "does not help: {wrong}")?;
        }
        for missed in missed {
            writeln!(f, "missed: {missed}")?;
        }
        let all = proposals.values().sum::<u64>();
        write!(f, "{} of {all} proposals do not help, {} are missed", wrong.len(), missed.len())
    }
}
