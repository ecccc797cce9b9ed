//! Compares which changes wake a pod after a plugin has rejected it.
//!
//! For each change of a random cluster, every plugin of kube-scheduler and of Harbormaster that is registered for the
//! change evaluates its queueing hint, which decides whether to retry a pending pod. A plugin evaluates its hint for
//! every pod, even for pods that it does not reject, because a hint depends only on the pod, the change, the
//! plugin's arguments and some other objects.

mod ours;
mod report;
mod scene;

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;
use harbormaster_api::features::{Feature, Features};

pub use report::{Difference, Report};

use crate::verdict_oracle::{Request, VerdictOracle};
use ours::Ours;
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
}

/// Feature gates without which some configurations are rejected and some hints are never evaluated.
const FEATURES: &[Feature] = &[Feature::StorageCapacityScoring, Feature::NodeDeclaredFeatures];

/// Compares the hints in all clusters, and calls `progress` after each cluster.
///
/// # Errors
/// If the hints of one of the two schedulers cannot be evaluated. Differences are not errors; they are in the report.
pub fn run(options: &Options, mut progress: impl FnMut(&Report)) -> Result<Report> {
    let names: Vec<String> = FEATURES.iter().map(|feature| feature.name().to_owned()).collect();
    let original = &mut VerdictOracle::with_features(options.release, &names)?;
    let features =
        FEATURES.iter().fold(Features::of(options.release), |all, feature| all.with(*feature, true));
    let mut report = Report { release: options.release, ..Report::default() };
    for seed in options.seed..options.seed.saturating_add(options.clusters) {
        compare(&Scene::new(seed), original, features, &mut report)
            .with_context(|| format!("seed {seed}"))?;
        report.clusters += 1;
        progress(&report);
    }
    Ok(report)
}

fn compare(
    scene: &Scene,
    original: &mut VerdictOracle,
    features: Features,
    report: &mut Report,
) -> Result<()> {
    let request = Request {
        config: Some(scene.config.clone()),
        objects: scene.pods.iter().chain(&scene.objects).cloned().collect(),
        changes: scene.changes.clone(),
        ..Request::default()
    };
    let response = original.ask(&request)?;
    if let Some(error) = response.error {
        bail!("kube-scheduler's plugins rejected the cluster: {error}");
    }
    let mut ours = Ours::new(&scene.config, features, &scene.objects)?;
    let pods = ours::decoded_pods(&scene.pods, features.release())?;
    if response.pods.len() != pods.len() {
        bail!("the request has {} pods, but the response has {}", pods.len(), response.pods.len());
    }
    for (at, change) in scene.changes.iter().enumerate() {
        report.changes += 1;
        let changed = change.new.as_ref().or(change.old.as_ref());
        let before = changed.and_then(|changed| scene.before(changed));
        let events = ours.events(change)?;
        let changed_waiting_pod = change.waiting_pod();
        for ((verdict, pod), object) in response.pods.iter().zip(&pods).zip(&scene.pods) {
            // When a waiting pod is updated, the queue evaluates hints only for that pod.
            let is_asked = changed_waiting_pod.as_ref().is_none_or(|changed| *changed == verdict.pod);
            if let Some(theirs) = verdict.hints.get(at).filter(|_| is_asked) {
                report.compare(scene.seed, object, change, theirs, &ours.hints(pod, &events));
            }
        }
        if let Some(changed) = changed.filter(|changed| changed["kind"] != "Pod" && changed["kind"] != "Node")
        {
            ours.set(changed, before);
        }
    }
    Ok(())
}
