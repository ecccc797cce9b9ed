//! Compares which changes wake a pod after a plugin has rejected it.
//!
//! For each change of a random cluster, every plugin of kube-scheduler and of Harbormaster that is registered for the
//! change evaluates its queueing hint, which decides whether to retry a pending pod. All plugins evaluate hints for all
//! pods, whether or not they reject them, because a hint depends only on the pod, the change and the plugin's
//! arguments.

mod ours;
mod report;
mod scene;

use anyhow::{Context, Result, bail};
use harbormaster_api::features::Feature;

pub use report::{Difference, Report};

use crate::verdict_oracle::{Hints, Request, VerdictOracle};
use ours::Ours;
use scene::Scene;

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of the first cluster; the others have consecutive seeds.
    pub seed: u64,
    /// Number of clusters.
    pub clusters: u64,
}

/// Feature gates that must be enabled because otherwise some configurations are refused and some hints are never
/// evaluated.
const FEATURES: &[Feature] = &[Feature::StorageCapacityScoring, Feature::NodeDeclaredFeatures];

/// Compares the hints in all clusters, and calls `progress` after each cluster.
///
/// # Errors
/// If the hints of one of the two schedulers cannot be evaluated. Differences are not errors; they are in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let features: Vec<String> = FEATURES.iter().map(|feature| feature.name().to_owned()).collect();
    let original = &mut VerdictOracle::with_features(&features)?;
    let mut report = Report::default();
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        compare(&Scene::new(seed), original, &mut report).with_context(|| format!("seed {seed}"))?;
        report.clusters += 1;
        progress(&report);
    }
    Ok(report)
}

fn compare(scene: &Scene, original: &mut VerdictOracle, report: &mut Report) -> Result<()> {
    let request = Request {
        config: Some(scene.config.clone()),
        objects: scene.pods.iter().chain(&scene.claims).cloned().collect(),
        changes: scene.changes.clone(),
        ..Request::default()
    };
    let response = original.ask(&request)?;
    if let Some(error) = response.error {
        bail!("the original plugins refuse the cluster: {error}");
    }
    let mut ours = Ours::new(&scene.config)?;
    let pods = ours::decoded_pods(&scene.pods)?;
    if response.pods.len() != pods.len() {
        bail!("the plugins were asked about {} pods, but answered for {}", pods.len(), response.pods.len());
    }
    for (at, change) in scene.changes.iter().enumerate() {
        report.changes += 1;
        let events = ours.events(change)?;
        let changed_waiting_pod = change.waiting_pod();
        for ((verdict, pod), object) in response.pods.iter().zip(&pods).zip(&scene.pods) {
            // When a waiting pod is updated, the queue evaluates hints only for that pod.
            let is_asked = changed_waiting_pod.as_ref().is_none_or(|changed| *changed == verdict.pod);
            if let Some(theirs) = verdict.hints.get(at).filter(|_| is_asked) {
                let mut hints = ours.hints(pod, &events);
                // A plugin before DynamicResources may hide that the claims are incomplete.
                if verdict.pre_enqueue.is_some() || change.breaks_claim_of(object) {
                    wait_for_claims(theirs, &mut hints);
                }
                report.compare(scene.seed, object, change, theirs, &hints);
            }
        }
    }
    Ok(())
}

/// Adopts kube-scheduler's decision to let a pod wait while its claims are incomplete. Harbormaster leaves this decision
/// to PreEnqueue.
fn wait_for_claims(theirs: &Hints, ours: &mut Hints) {
    for (hint, said) in ours.iter_mut().filter(|(hint, _)| hint.starts_with("DynamicResources ")) {
        if theirs.get(hint).is_some_and(|theirs| theirs == "QueueSkip") {
            "QueueSkip".clone_into(said);
        }
    }
}
