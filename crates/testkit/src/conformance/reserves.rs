//! Checks that Unreserve undoes Reserve and PreBind.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{cluster::Cluster, cycle::Placement, outcome::Reject, pod::PodInfo};
use serde_json::Value;

use crate::{
    fake_api::FakeApi,
    trial::{Trial, finished, rejection},
};

/// Verdicts, indexed by pod and node.
type VerdictsByPod = Vec<Vec<Result<(), Reject>>>;

/// Checks that a pod that loses its node before it is bound leaves nothing behind in the plugin, in the cluster's
/// objects or on the API server, whether or not PreBind has run. PreBind's writes must be repeatable, and Unreserve
/// must not undo what was written for another pod. Once the writes are visible, the plugin must no longer rely on
/// assumed changes. `server` must have the same custom objects as `nodes`. It must be possible to reserve `node` for
/// each of `pods`, alone or together with the pod before it in the list.
///
/// # Panics
/// If anything is left behind, or the plugin fails.
pub fn reserve_is_taken_back(
    trial: &Trial,
    nodes: &mut Cluster,
    node: &str,
    pods: &[Arc<PodInfo>],
    server: &FakeApi,
) {
    pods.iter().for_each(|pod| server.set_pod(pod));
    let mut check = ReserveCheck { trial, nodes, node, pods, server };
    for pod in pods {
        check.unreserve_without_reserve(pod);
        check.unreserve_unwritten(pod);
        check.unreserve_written(pod);
    }
    for (first, second) in pods.iter().zip(pods.iter().skip(1)) {
        check.unreserve_one_of_two(first, second);
    }
    for pod in pods {
        check.assumption_ends(pod);
    }
}

struct ReserveCheck<'a> {
    trial: &'a Trial,
    nodes: &'a mut Cluster,
    node: &'a str,
    pods: &'a [Arc<PodInfo>],
    server: &'a FakeApi,
}

impl ReserveCheck<'_> {
    fn name(&self) -> &'static str {
        self.trial.plugin().name()
    }

    /// Returns the plugin's verdicts about all pods on all nodes.
    fn fits(&self) -> VerdictsByPod {
        let of_pod = |pod: &Arc<PodInfo>| {
            let names = self.nodes.nodes().nodes().map(|node| node.name().clone());
            names.map(|name| self.trial.verdict(self.nodes, pod, &name)).collect()
        };
        self.pods.iter().map(of_pod).collect()
    }

    fn reserve(&mut self, pod: &Arc<PodInfo>) -> Placement {
        let reserved = self.trial.reserve(self.nodes, pod, self.node);
        reserved.unwrap_or_else(|stopped| {
            panic!("{}: does not reserve {} for {pod:?}: {stopped}", self.name(), self.node)
        })
    }

    fn unreserve(&mut self, placement: &Placement) {
        for call in self.trial.unreserve(self.nodes, placement) {
            if let Err(failure) = finished(self.server.api().call(call)) {
                assert!(
                    failure.is_not_found(),
                    "{}: Unreserve of {:?}: {failure}",
                    self.name(),
                    placement.pod
                );
            }
        }
    }

    fn pre_bind(&self, placement: &Placement) {
        if self.trial.plugin().points().contains(ExtensionPoint::PreBind)
            && let Err(stopped) = finished(self.trial.pre_bind(placement, &self.server.api()))
        {
            panic!("{}: PreBind of {:?}: {}", self.name(), placement.pod, rejection(stopped).message());
        }
    }

    /// Checks that verdicts and objects are unchanged.
    fn check_unchanged(&self, fits: &VerdictsByPod, objects: &BTreeMap<String, Value>, after: &str) {
        assert_eq!(self.fits(), *fits, "{}: answers differently about pods after {after}", self.name());
        assert_eq!(
            unversioned(self.server.objects()),
            unversioned(objects.clone()),
            "{}: left something on the API server after {after}",
            self.name()
        );
    }

    /// Calls Unreserve without Reserve, as happens when an earlier plugin rejects the pod.
    fn unreserve_without_reserve(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        self.unreserve(&Placement::new(pod.clone(), self.node.into()));
        self.check_unchanged(&fits, &objects, &format!("Unreserve of {pod:?}, which was not reserved"));
    }

    fn unreserve_unwritten(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        let placement = self.reserve(pod);
        self.unreserve(&placement);
        self.check_unchanged(&fits, &objects, &format!("Reserve and Unreserve of {pod:?}"));
    }

    fn unreserve_written(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        let placement = self.reserve(pod);
        self.pre_bind(&placement);
        let once = self.server.objects();
        // If a scheduler stops before the pod is bound, its successor repeats PreBind.
        self.pre_bind(&placement);
        assert_eq!(
            unversioned(self.server.objects()),
            unversioned(once),
            "{}: PreBind of {pod:?} writes something different the second time",
            self.name()
        );
        self.unreserve(&placement);
        self.check_unchanged(&fits, &objects, &format!("Reserve, PreBind and Unreserve of {pod:?}"));
    }

    /// Reserves the node for two pods, runs Unreserve only for the first, and checks that the writes for the second
    /// remain.
    fn unreserve_one_of_two(&mut self, first: &Arc<PodInfo>, second: &Arc<PodInfo>) {
        let objects = self.server.objects();
        let alone = self.reserve(second);
        self.pre_bind(&alone);
        let expected = self.server.objects();
        self.unreserve(&alone);
        self.server.restore(objects.clone());
        let placements = [first, second].map(|pod| self.reserve(pod));
        placements.iter().for_each(|placement| self.pre_bind(placement));
        self.unreserve(&placements[0]);
        assert_eq!(
            unversioned(self.server.objects()),
            unversioned(expected),
            "{}: Unreserve of {first:?} undoes what was written for {second:?}",
            self.name()
        );
        self.unreserve(&placements[1]);
        self.server.restore(objects);
    }

    /// Checks that reverting the assumed changes has no effect once the objects are written.
    fn assumption_ends(&mut self, pod: &Arc<PodInfo>) {
        let (objects, before) = (self.server.objects(), self.server.raw());
        let placement = self.reserve(pod);
        self.pre_bind(&placement);
        for raw in self.server.raw() {
            self.nodes.set_custom(&raw);
        }
        let assumed = self.fits();
        self.nodes.revert_assumptions(&pod.uid);
        assert_eq!(
            assumed,
            self.fits(),
            "{}: still assumes changes for {pod:?} that are already written",
            self.name()
        );
        self.unreserve(&placement);
        self.server.restore(objects);
        for raw in before {
            self.nodes.set_custom(&raw);
        }
    }
}

/// Returns the objects without their resource versions.
fn unversioned(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for object in objects.values_mut() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    }
    objects
}
