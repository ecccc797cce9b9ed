//! Independent verdicts: every pending pod is evaluated on the cluster as it is, without placing the other pods.

use std::{cell::RefCell, sync::Arc};

use harbormaster_api::{Str, features::Features};
use harbormaster_core::{EngineConfig, Eviction, cache::Cache};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Decision, Runner, Search},
    extender::Extenders,
    pod::PodInfo,
    profile::Profile,
    window::Rotation,
};
use harbormaster_setup::{Choices, Setup};
use serde::Serialize;

use crate::{
    SimError,
    explanation::PodExplanation,
    inventory::Inventory,
    report::{PodReport, Report},
    verdict::pre_enqueue,
};

/// A report with explanations, as `simulate --explain -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explained {
    /// Results for the pods.
    #[serde(flatten)]
    pub report: Report,
    /// One explanation for each pod that was tried.
    pub explanations: Vec<PodExplanation>,
}

/// Evaluates every pending pod of `objects` (Kubernetes objects as JSON) on the cluster that the objects describe, with
/// the given feature gates.
///
/// This is fast for many small clusters, because each thread keeps the profiles of the last configuration.
///
/// # Errors
/// If the configuration or an object is wrong.
pub fn explain_independent(
    config: Option<&str>,
    features: Features,
    objects: Vec<serde_json::Value>,
) -> Result<Explained, SimError> {
    thread_local! {
        static LAST: RefCell<Option<((Option<String>, Features), Arc<Setup>)>> = const { RefCell::new(None) };
    }
    let wanted = (config.map(str::to_owned), features);
    let kept = LAST.with_borrow(|last| {
        last.as_ref().filter(|(known, _)| *known == wanted).map(|(_, setup)| setup.clone())
    });
    let setup = match kept {
        Some(setup) => setup,
        None => {
            let choices = Choices { features, ..Choices::default() };
            let setup = Arc::new(Setup::read(config.map(|text| ("", text)), &choices)?);
            LAST.set(Some((wanted, setup.clone())));
            setup
        }
    };
    let cluster = Inventory::from_objects(objects, features.release())?;
    let report = independent(&setup.engine, cluster.clone());
    let mut explanations = Vec::new();
    let tell = &mut |_: &PodReport, said| explanations.push(said);
    explain_independently(&setup.engine, cluster, &report, &|_| true, tell);
    Ok(Explained { report, explanations })
}

/// Evaluates every pending pod on the cluster, independently of the other pending pods.
pub fn independent(config: &EngineConfig, cluster: Inventory) -> Report {
    let missing_nodes = cluster.missing_nodes.clone();
    let (mut judge, pending) = Judge::of(config, cluster);
    let pods = pending.iter().map(|pod| judge.report(pod)).collect();
    Report { pods, missing_nodes, ..Report::default() }
}

/// Explains the pods in `report` that `concerns` selects, with the verdicts of every plugin on every node. `report`
/// must be the result of [`independent`] for the same cluster. To limit memory use, `tell` gets the explanations one by
/// one.
pub fn explain_independently(
    config: &EngineConfig,
    cluster: Inventory,
    report: &Report,
    concerns: &dyn Fn(&PodReport) -> bool,
    tell: &mut dyn FnMut(&PodReport, PodExplanation),
) {
    let (mut judge, pending) = Judge::of(config, cluster);
    for (pod, reported) in pending.iter().zip(&report.pods) {
        if concerns(reported)
            && let Some(said) = judge.explain(pod)
        {
            tell(reported, said);
        }
    }
}

/// Evaluates single pods on a cluster, with the plugins of the profiles.
pub(crate) struct Judge {
    pub(crate) cache: Cache,
    runners: Vec<Runner>,
    extenders: Extenders,
}

impl Judge {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        let runner =
            |profile: &Arc<Profile>| Runner::new(profile.clone()).with_extenders(config.extenders.clone());
        let runners = config.profiles.iter().map(runner).collect();
        Self { cache: Cache::for_profiles(&config.profiles), runners, extenders: config.extenders.clone() }
    }

    /// Returns a judge for the cluster in an engine's cache.
    pub(crate) fn over(config: &EngineConfig, cache: Cache) -> Self {
        Self { cache, ..Self::new(config) }
    }

    /// Returns a judge for the cluster without its pending pods, and the pending pods.
    pub(crate) fn of(config: &EngineConfig, cluster: Inventory) -> (Self, Vec<Arc<PodInfo>>) {
        let mut judge = Self::new(config);
        for object in cluster.raw_objects(&config.resources()) {
            judge.cache.cluster.set_custom(&object);
        }
        for object in cluster.objects {
            judge.cache.set_object(object);
        }
        for node in cluster.nodes {
            judge.cache.set_node(Arc::new(node));
        }
        for pod in cluster.bound {
            if let Some(node) = pod.node_name.clone() {
                let info = judge.cache.info(pod);
                judge.cache.set_pod(info, &node);
            }
        }
        judge.cache.cluster.refresh();
        let pending: Vec<_> = cluster.pending.into_iter().map(|pod| judge.cache.info(pod)).collect();
        let nominated =
            pending.iter().filter_map(|pod| Some((pod.status.nominated_node_name.clone()?, pod.clone())));
        judge.cache.cluster.set_nominations(nominated.collect());
        (judge, pending)
    }

    fn runner_of(&mut self, pod: &PodInfo) -> Option<usize> {
        self.runners.iter().position(|a| *a.profile().name() == pod.spec.scheduler_name)
    }

    /// Returns the result for the pod on the cluster as it is.
    pub(crate) fn report(&mut self, pod: &Arc<PodInfo>) -> PodReport {
        let mut report = PodReport::of(pod);
        let Some(at) = self.runner_of(pod) else {
            report.mark_foreign();
            return report;
        };
        report.pre_enqueue = pre_enqueue(self.runners[at].profile(), self.cache.cluster.objects(), pod, None);
        report.attempts = 1;
        let nodes = &mut self.cache.cluster;
        let found = self.runners[at].find(nodes, pod, Search::all(&mut Rotation::default()));
        match found.map(Attempt::into_decision) {
            Ok(Decision::Node { row, evaluated, feasible, .. }) => {
                report.node = Some(nodes.node(row).name().as_str().to_owned());
                report.looked_at = Some((evaluated, feasible));
            }
            Ok(Decision::Unschedulable(diagnosis)) => report.message = Some(diagnosis.message()),
            Err(error) => report.message = Some(error.to_string()),
        }
        report
    }

    /// Returns the names of the nodes on which the pod fits; none if no profile has the pod's scheduler name.
    pub(crate) fn fitting(&mut self, pod: &Arc<PodInfo>) -> Result<Vec<Str>, AttemptError> {
        let Some(at) = self.runner_of(pod) else { return Ok(Vec::new()) };
        let cluster = &mut self.cache.cluster;
        cluster.refresh();
        if cluster.node_count() == 0 {
            return Ok(Vec::new());
        }
        let rows = self.runners[at].fitting(cluster, pod)?;
        Ok(rows.into_iter().map(|row| cluster.node(row).name().clone()).collect())
    }

    /// Returns the pods that the scheduler would evict for the pod; `None` if the pod fits, or if no eviction helps.
    pub(crate) fn eviction_for(&mut self, pod: &Arc<PodInfo>) -> Result<Option<Eviction>, AttemptError> {
        let Some(at) = self.runner_of(pod) else { return Ok(None) };
        let cluster = &mut self.cache.cluster;
        cluster.refresh();
        if cluster.node_count() == 0 {
            return Ok(None);
        }
        let attempt = self.runners[at].find(cluster, pod, Search::all(&mut Rotation::default()))?;
        if matches!(attempt.decision(), Decision::Node { .. }) {
            return Ok(None);
        }
        let profile = self.runners[at].profile().clone();
        Ok(self.cache.eviction_for(&profile, &self.extenders, attempt, pod)?)
    }

    /// Returns the verdicts of every plugin on every node, or `None` if no profile has the pod's scheduler name.
    pub(crate) fn explain(&mut self, pod: &Arc<PodInfo>) -> Option<PodExplanation> {
        let at = self.runner_of(pod)?;
        let cluster = &mut self.cache.cluster;
        cluster.refresh();
        Some(match self.runners[at].explain(cluster, pod) {
            Ok(said) => PodExplanation::new(pod, cluster, said),
            Err(error) => PodExplanation::failed(pod, &error),
        })
    }
}
