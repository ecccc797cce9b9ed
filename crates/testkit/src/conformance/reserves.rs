//! Checks that Reserve and PreBind can be taken back.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{cluster::Cluster, cycle::Placement, outcome::Reject, pod::PodInfo};
use serde_json::Value;

use crate::{
    fake_api::FakeApi,
    trial::{Trial, finished, rejection},
};

/// Pods, and the nodes that they fit.
type Fits = Vec<Vec<Result<(), Reject>>>;

/// A pod that gives its node up must leave nothing behind: neither in the plugin, nor in objects, nor on the API server,
/// whether PreBind has run or not. What PreBind writes must be the same when it is done twice, must not undo what it
/// wrote for another pod, and must leave nothing to be assumed. `server` has the custom objects that `nodes` has; each
/// of `pods` can be reserved on `node`, alone and with the others before it.
///
/// # Panics
/// When something stays, or when the plugin fails.
pub fn reserve_is_taken_back(
    trial: &Trial,
    nodes: &mut Cluster,
    node: &str,
    pods: &[Arc<PodInfo>],
    server: &FakeApi,
) {
    pods.iter().for_each(|pod| server.set_pod(pod));
    let mut desk = Desk { trial, nodes, node, pods, server };
    for pod in pods {
        desk.without_reserve(pod);
        desk.unwritten(pod);
        desk.written(pod);
    }
    for (first, second) in pods.iter().zip(pods.iter().skip(1)) {
        desk.beside(first, second);
    }
    for pod in pods {
        desk.assumed_no_longer(pod);
    }
}

struct Desk<'a> {
    trial: &'a Trial,
    nodes: &'a mut Cluster,
    node: &'a str,
    pods: &'a [Arc<PodInfo>],
    server: &'a FakeApi,
}

impl Desk<'_> {
    fn name(&self) -> &'static str {
        self.trial.plugin().name()
    }

    /// Where all pods fit now.
    fn fits(&self) -> Fits {
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

    /// Everything is as it was.
    fn is_as_before(&self, fits: &Fits, objects: &BTreeMap<String, Value>, after: &str) {
        assert_eq!(self.fits(), *fits, "{}: says something else of pods after {after}", self.name());
        assert_eq!(
            unversioned(self.server.objects()),
            unversioned(objects.clone()),
            "{}: left something on the API server after {after}",
            self.name()
        );
    }

    /// Another plugin said no before this one was asked.
    fn without_reserve(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        self.unreserve(&Placement::new(pod.clone(), self.node.into()));
        self.is_as_before(&fits, &objects, &format!("Unreserve of {pod:?}, which was not reserved"));
    }

    fn unwritten(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        let placement = self.reserve(pod);
        self.unreserve(&placement);
        self.is_as_before(&fits, &objects, &format!("Reserve and Unreserve of {pod:?}"));
    }

    fn written(&mut self, pod: &Arc<PodInfo>) {
        let (fits, objects) = (self.fits(), self.server.objects());
        let placement = self.reserve(pod);
        self.pre_bind(&placement);
        let once = self.server.objects();
        // A scheduler that ends before the pod is bound has done this already when the next one goes on.
        self.pre_bind(&placement);
        assert_eq!(
            unversioned(self.server.objects()),
            unversioned(once),
            "{}: PreBind of {pod:?} writes something else the second time",
            self.name()
        );
        self.unreserve(&placement);
        self.is_as_before(&fits, &objects, &format!("Reserve, PreBind and Unreserve of {pod:?}"));
    }

    /// The first pod gives its node up, the second does not.
    fn beside(&mut self, first: &Arc<PodInfo>, second: &Arc<PodInfo>) {
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

    /// Written objects need no assumption any more.
    fn assumed_no_longer(&mut self, pod: &Arc<PodInfo>) {
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
            "{}: still assumes for {pod:?} what is written already",
            self.name()
        );
        self.unreserve(&placement);
        self.server.restore(objects);
        for raw in before {
            self.nodes.set_custom(&raw);
        }
    }
}

/// The objects without their versions.
fn unversioned(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for object in objects.values_mut() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    }
    objects
}
