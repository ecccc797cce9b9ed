//! DaemonSets: a pod on every node that the template allows.

mod placement;

use std::collections::BTreeMap;

use harbormaster_world::daemons::{NodeFit, target, tie, tolerate};
use serde_json::{Value, json};

use self::placement::{Fits, Placement};
use super::{
    ControllerContext, MOST_AT_ONCE, OwnedObjects, hash,
    pod_control::{EventWording, PodControl},
    pod_of, write_status,
};
use crate::{
    fields::{is_ending, is_finished, is_ready, name, share, text},
    mirror::Mirror,
    sandbox::carry_on,
};

const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";

/// Stand-in for the DaemonSet controller. It never adds a pod to a node before the old pod is gone: a set with
/// `maxSurge` is treated as having a `maxUnavailable` of one.
#[derive(Debug, Default)]
pub(super) struct DaemonSets {
    placement: Placement,
}

/// Pods of one set, keyed by the node that they are meant for. For each node, bound pods come before unbound pods, and
/// older pods before newer ones.
type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Value>>;

impl DaemonSets {
    pub(super) fn reconcile(
        &mut self,
        tools: &ControllerContext,
        sets: &Mirror,
        nodes: &Mirror,
        pods: &OwnedObjects<'_>,
    ) {
        let mut sets = sets.all().filter(|set| !is_ending(set)).peekable();
        if sets.peek().is_none() {
            return;
        }
        self.placement.take_in(nodes);
        for set in sets {
            let fits = self.placement.of(set);
            let own = by_node(pods.of(set));
            let template = Template::of(set);
            let control = PodControl {
                tools,
                component: "daemonset-controller",
                owner: set,
                words: EventWording::Usual,
            };
            manage(&control, fits, &own, &template);
            if text(set, "/spec/updateStrategy/type") != "OnDelete" {
                replace(&control, fits, &own, &template);
            }
            write_status(&tools.store, "daemonsets.apps", set, |set| status(set, fits, &own, &template));
        }
    }
}

/// Values that identify the pods created from a template.
struct Template {
    hash: String,
    generation: String,
}

impl Template {
    fn of(set: &Value) -> Self {
        let annotations = set.pointer("/metadata/annotations");
        let generation = annotations.and_then(|all| all.get(GENERATION)?.as_str()).unwrap_or_default();
        Self { hash: hash(&set["spec"]["template"]), generation: generation.to_owned() }
    }

    /// Returns true if a pod was created from the template. Pods from a cluster's dump have that cluster's hash, so a
    /// matching template generation is also enough.
    fn made(&self, pod: &Value) -> bool {
        let label = |label| pod.pointer("/metadata/labels").and_then(|all| all.get(label)?.as_str());
        label(HASH_LABEL) == Some(&self.hash)
            || (!self.generation.is_empty() && label(GENERATION_LABEL) == Some(&self.generation))
    }
}

fn by_node<'a>(pods: &[&'a Value]) -> ByNode<'a> {
    let mut all = ByNode::new();
    for pod in pods {
        all.entry(target(pod).unwrap_or_default()).or_default().push(pod);
    }
    for pods in all.values_mut() {
        pods.sort_by_key(|pod| {
            (text(pod, "/spec/nodeName").is_empty(), text(pod, "/metadata/creationTimestamp"))
        });
    }
    all
}

/// Creates the pods that nodes lack, and deletes pods that are finished, surplus or not allowed.
fn manage(control: &PodControl<'_>, fits: &Fits, own: &ByNode<'_>, template: &Template) {
    for (node, pods) in own {
        // Garbage collection deletes the pods that ran on a deleted node. The pods that still wait for such a node are
        // deleted here.
        let fit = fits.get(*node).copied().unwrap_or(NodeFit::Refuses);
        let mut keeps = if fit == NodeFit::Refuses { 0 } else { 1 };
        for pod in pods.iter().filter(|pod| !is_ending(pod)) {
            if is_finished(pod) || keeps == 0 {
                control.delete(pod);
            } else {
                keeps -= 1;
            }
        }
    }
    let needy = fits.iter().filter(|(node, fit)| **fit == NodeFit::Runs && !own.contains_key(node.as_str()));
    let mut needy: Vec<&String> = needy.map(|(node, _)| node).collect();
    needy.sort_unstable();
    for node in needy.into_iter().take(MOST_AT_ONCE) {
        carry_on("The DaemonSet controller", control.create(pod(control.owner, node, template)));
    }
}

fn pod(set: &Value, node: &str, template: &Template) -> Value {
    let mut pod = pod_of(set);
    pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
    pod["metadata"]["labels"][HASH_LABEL] = template.hash.as_str().into();
    if !template.generation.is_empty() {
        pod["metadata"]["labels"][GENERATION_LABEL] = template.generation.as_str().into();
    }
    tolerate(&mut pod["spec"]);
    tie(&mut pod["spec"], node);
    pod
}

/// Takes one step of a rolling update: deletes the outdated pods that are not ready, and as many other outdated pods as
/// `maxUnavailable` allows. The next step recreates the pods.
fn replace(control: &PodControl<'_>, fits: &Fits, own: &ByNode<'_>, template: &Template) {
    let desired =
        i64::try_from(fits.values().filter(|fit| **fit == NodeFit::Runs).count()).unwrap_or(i64::MAX);
    let limit =
        share(&control.owner["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], desired, true);
    let mut room = limit.unwrap_or(1).max(1);
    let mut candidates = Vec::new();
    for node in fits.iter().filter(|(_, fit)| **fit != NodeFit::Refuses).map(|(node, _)| node.as_str()) {
        let pods = own.get(node).map_or(&[][..], Vec::as_slice);
        match pods.iter().find(|pod| !is_ending(pod) && !is_finished(pod)) {
            Some(pod) if template.made(pod) && is_ready(pod) => {}
            Some(pod) if template.made(pod) => room -= 1,
            Some(pod) if is_ready(pod) => candidates.push(*pod),
            Some(pod) => {
                room -= 1;
                control.delete(pod);
            }
            None if fits.get(node) == Some(&NodeFit::Runs) => room -= 1,
            None => {}
        }
    }
    candidates.sort_by_key(|pod| name(pod));
    for pod in candidates.into_iter().take(usize::try_from(room).unwrap_or(0)) {
        control.delete(pod);
    }
}

fn status(set: &mut Value, fits: &Fits, own: &ByNode<'_>, template: &Template) {
    let runs = |node: &str| fits.get(node) == Some(&NodeFit::Runs);
    let desired = fits.values().filter(|fit| **fit == NodeFit::Runs).count();
    let first: Vec<&Value> =
        own.iter().filter(|(node, _)| runs(node)).filter_map(|(_, pods)| pods.first().copied()).collect();
    let misplaced = own.keys().filter(|node| fits.contains_key(**node) && !runs(node)).count();
    let ready = first.iter().filter(|pod| is_ready(pod)).count();
    let updated = first.iter().filter(|pod| template.made(pod)).count();
    let generation = set["metadata"]["generation"].clone();
    for (field, value) in [
        ("observedGeneration", generation),
        ("desiredNumberScheduled", json!(desired)),
        ("currentNumberScheduled", json!(first.len())),
        ("numberMisscheduled", json!(misplaced)),
        ("numberReady", json!(ready)),
        ("numberAvailable", json!(ready)),
        ("numberUnavailable", json!(desired.saturating_sub(ready))),
        ("updatedNumberScheduled", json!(updated)),
    ] {
        set["status"][field] = value;
    }
}
