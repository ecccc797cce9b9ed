//! Every pending pod judged on the cluster as it is, without placing the others.

use std::{cell::RefCell, sync::Arc};

use harbormaster_api::points::ExtensionPoint;
use harbormaster_core::{EngineConfig, cache::Cache};
use harbormaster_framework::{
    attempt::{Attempt, AttemptError, Found, Search},
    classes::PointError,
    pod::PodInfo,
    window::{Tie, Window},
};

use crate::{
    SimError,
    cluster::Cluster,
    report::{PodReport, Report, Status},
    setup::{self, Setup},
    verdict::pre_enqueue,
};

/// Looks at all nodes and takes the first of the best.
const SEARCH: Search = Search { window: Window::All, tie: Tie::Rotate };

/// Judges every pending pod of `objects` (Kubernetes objects as JSON) on the given cluster.
///
/// Made for comparing many small clusters: the profiles of the last configuration are kept per thread.
///
/// # Errors
/// When the configuration or an object is wrong.
pub fn explain_independent(
    config: Option<&str>,
    objects: Vec<serde_json::Value>,
) -> Result<Report, SimError> {
    thread_local! {
        static LAST: RefCell<Option<(Option<String>, Arc<Setup>)>> = const { RefCell::new(None) };
    }
    let kept = LAST.with_borrow(|last| {
        last.as_ref().filter(|(text, _)| text.as_deref() == config).map(|(_, setup)| setup.clone())
    });
    let setup = match kept {
        Some(setup) => setup,
        None => {
            let setup = Arc::new(setup::setup(config.map(|text| ("", text)), &setup::Choices::default())?);
            LAST.set(Some((config.map(str::to_owned), setup.clone())));
            setup
        }
    };
    let cluster = Cluster::from_objects(objects)?;
    Ok(independent(&setup.engine, cluster, true))
}

/// Judges every pending pod of the cluster. With `explain`, says what every plugin thinks of every node.
pub fn independent(config: &EngineConfig, cluster: Cluster, explain: bool) -> Report {
    let mut judge = Judge::new(config);
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
    let report = |pod| {
        let info = judge.cache.info(pod);
        judge.report(&info, explain)
    };
    Report { pods: cluster.pending.into_iter().map(report).collect() }
}

/// Nodes with their pods, and the profiles.
pub(crate) struct Judge {
    pub(crate) cache: Cache,
    attempts: Vec<Attempt>,
}

impl Judge {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Self {
            cache: Cache::default(),
            attempts: config.profiles.iter().cloned().map(Attempt::new).collect(),
        }
    }

    fn attempt_of(&mut self, pod: &PodInfo) -> Option<usize> {
        self.attempts.iter().position(|a| *a.profile().name() == pod.spec.scheduler_name)
    }

    fn report(&mut self, pod: &PodInfo, explain: bool) -> PodReport {
        let mut report = PodReport::of(pod);
        let Some(at) = self.attempt_of(pod) else {
            report.message = Some(no_profile(pod));
            return report;
        };
        report.pre_enqueue = pre_enqueue(self.attempts[at].profile(), pod);
        report.attempts = 1;
        let nodes = &mut self.cache.cluster;
        match self.attempts[at].find(nodes, pod, SEARCH, &mut 0, &[], &[]) {
            Ok(Found::Node { row, evaluated, feasible, .. }) => {
                report.node = Some(nodes.node(row).name().as_str().to_owned());
                report.looked_at = Some((evaluated, feasible));
            }
            Ok(Found::Nowhere(diagnosis)) => report.message = Some(diagnosis.message()),
            Err(error) => report.message = Some(error.to_string()),
        }
        if explain {
            self.explain(pod, &mut report);
        }
        report
    }

    /// Adds what every plugin says about every node.
    pub(crate) fn explain(&mut self, pod: &PodInfo, report: &mut PodReport) {
        let Some(at) = self.attempt_of(pod) else { return };
        self.cache.cluster.refresh();
        match self.attempts[at].explain(&mut self.cache.cluster, pod) {
            Ok(explanation) => report.explain(explanation),
            Err(error) => report.explanation_failed(&error),
        }
    }
}

impl PodReport {
    pub(crate) fn of(pod: &PodInfo) -> Self {
        Self { pod: pod.full_name(), profile: pod.spec.scheduler_name.as_str().to_owned(), ..Self::default() }
    }

    fn explanation_failed(&mut self, error: &AttemptError) {
        self.nodes = Some(Default::default());
        self.scores = Some(Default::default());
        if let AttemptError::Plugin(PointError { plugin, point: ExtensionPoint::PreFilter, .. }) = error {
            let reasons = vec![error.to_string().into()];
            self.pre_filter = Some(Status { plugin: (*plugin).into(), code: "Error".into(), reasons });
        }
        if self.message.is_none() {
            self.message = Some(error.to_string());
        }
    }
}

/// What is said of a pod that no profile is responsible for.
pub(crate) fn no_profile(pod: &PodInfo) -> String {
    format!("no profile has the scheduler name {:?}", pod.spec.scheduler_name.as_str())
}
