//! Comparison of the victims of two schedulers in clusters of hundreds of full nodes.
//!
//! kube-scheduler's DefaultPreemption evaluates every node and reports its choice. Harbormaster's engine makes its
//! decision for the same pod in the same cluster. The choice between equal nodes is random, so the nodes
//! themselves are not compared. On Harbormaster's node, both schedulers must choose the same victims, and these must
//! not cost more than the victims on kube-scheduler's node. The cost consists of violated disruption budgets, the
//! highest priority, the sum of priorities, the number of victims, and the start time of the most important victim, in
//! this order.

mod cost;
mod ours;
mod report;
mod scene;

use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;

pub use report::{Finding, Report};

use crate::verdict_oracle::{Preemption, Request, VerdictOracle};
use cost::Importance;
use ours::Eviction;
pub(crate) use ours::{Ours, raw};
use scene::Scene;

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Release of Kubernetes.
    pub release: Release,
    /// Seed of the first cluster; the others have consecutive seeds.
    pub seed: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Number of nodes in a cluster.
    pub nodes: RangeInclusive<usize>,
    /// Number of pods created in each cluster. Each pod is evaluated without the others.
    pub preemptors: usize,
    /// If true, Harbormaster's search stops early, as with `--parity`. Victims that cost more than those that a full search
    /// would find are then no mistake.
    pub parity: bool,
}

/// Compares the decisions in all clusters, and calls `progress` after each cluster.
///
/// # Errors
/// If one of the two schedulers fails. Different decisions are not errors; they are in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let original = &mut VerdictOracle::start(options.release)?;
    let mut report = Report::default();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        let scene = Scene::new(seed, &options.nodes, options.preemptors);
        let mut ours = Ours::new(options, &scene.objects)?;
        compare(&scene, original, &mut ours, options, &mut report).with_context(|| format!("seed {seed}"))?;
        report.clusters += 1;
        progress(&report);
    }
    Ok(report)
}

fn compare(
    scene: &Scene,
    original: &mut VerdictOracle,
    ours: &mut Ours,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let importance = Importance::of(&scene.objects);
    let request = Request { objects: scene.objects.clone(), preempt: true, ..Request::default() };
    let response = original.ask(&request)?;
    if let Some(error) = response.error {
        bail!("kube-scheduler's plugins rejected the cluster: {error}");
    }
    for verdict in response.pods {
        let Some(theirs) = verdict.preemption else {
            report.fitting += 1;
            continue;
        };
        report.preemptors += 1;
        let eviction = ours.evicted_for(&verdict.pod)?;
        if let Some(wrong) = judge(&importance, &theirs, eviction.as_ref(), options, report) {
            report.findings.push(Finding { seed: scene.seed, pod: verdict.pod, wrong });
        }
    }
    Ok(())
}

/// Describes the mistake in Harbormaster's decision, if there is one.
fn judge(
    importance: &Importance,
    theirs: &Preemption,
    ours: Option<&Eviction>,
    options: &Options,
    report: &mut Report,
) -> Option<String> {
    let best = theirs.candidates.get(&theirs.node).map(|candidate| importance.cost_of(candidate));
    let (Some(best), Some(ours)) = (&best, ours) else {
        return (best.is_some() != ours.is_some()).then(|| {
            format!("kube-scheduler evicts on {:?}, Harbormaster on {:?}", theirs.node, ours.map(|o| &o.node))
        });
    };
    report.evicting += 1;
    report.candidates += theirs.candidates.len();
    let Some(candidate) = theirs.candidates.get(&ours.node) else {
        return Some(format!("according to kube-scheduler, evictions on {} do not help", ours.node));
    };
    let mut victims = candidate.victims.clone();
    victims.sort();
    if victims != ours.victims {
        let Eviction { node, victims: evicted } = ours;
        return Some(format!("on {node}, Harbormaster evicts {evicted:?}, kube-scheduler {victims:?}"));
    }
    let cost = importance.cost_of(candidate);
    report.on_the_same_node += usize::from(ours.node == theirs.node);
    if cost > *best && options.parity {
        report.costlier += 1;
        return None;
    }
    (cost > *best).then(|| format!("{} costs {cost}; {} costs only {best}", ours.node, theirs.node))
}
