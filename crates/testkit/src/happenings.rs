//! Changes in a cluster, reported as an engine for the newest release reports them.

use std::{fmt, sync::Arc};

use harbormaster_api::{Node, Pod, Release, Str};
use harbormaster_framework::{
    cluster::Cluster,
    events::{Action, ClusterEvent, EventResource, OwnedChange, PodEvents, node_events},
    pod::PodInfo,
    resource::{CustomChange, Resource},
};
use serde_json::{Map, Value};

use crate::custom::{key, raw};

/// Changes custom objects, and returns the changes as plugins receive them.
type CustomHappening = Box<dyn FnOnce(&mut Cluster) -> Vec<CustomChange>>;

/// A change in the cluster.
#[expect(clippy::large_enum_variant, reason = "there are only a few of them")]
pub enum Happening {
    /// A node is added, or its object changes.
    Node(Node),
    /// A node is removed; its pods remain until they are removed themselves.
    NodeGone(Str),
    /// A bound pod is added or changes.
    Pod(Box<Pod>),
    /// A bound pod terminates or is deleted: the node's name and the pod's UID.
    PodGone(Str, Str),
    /// The object of the waiting pod changes.
    Own(Box<Pod>),
    /// A custom object is added, changed or removed; see [`Self::custom`].
    Custom(String, CustomHappening),
}

impl fmt::Debug for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {} is added or changes", node.name),
            Self::NodeGone(name) => write!(f, "node {name} is removed"),
            Self::Pod(pod) => write!(f, "pod {} is added or changes", pod.full_name()),
            Self::PodGone(node, uid) => write!(f, "{uid} leaves {node}"),
            Self::Own(_) => f.write_str("the pod itself changes"),
            Self::Custom(what, _) => f.write_str(what),
        }
    }
}

/// An event and its change, as hints receive them.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) event: ClusterEvent,
    pub(crate) change: OwnedChange,
}

impl fmt::Display for Told {
    /// Writes the event and the fields that changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.event)?;
        match &self.change {
            OwnedChange::Pod(Some(old), Some(new)) => differences(&**old, &**new, f),
            OwnedChange::Node(Some(old), Some(new)) => differences(&**old, &**new, f),
            _ => Ok(()),
        }
    }
}

fn differences<T: serde::Serialize>(old: &T, new: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fields = |object: &T| match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    for (field, now) in &new {
        match old.get(field) {
            Some(Value::Object(before)) if field == "spec" => {
                let Value::Object(now) = now else { continue };
                for (field, now) in now.iter().filter(|(field, now)| before.get(*field) != Some(now)) {
                    write!(f, ", spec.{field} {} -> {now}", before.get(field).unwrap_or(&Value::Null))?;
                }
            }
            Some(before) if before != now => write!(f, ", {field} {before} -> {now}")?,
            _ => {}
        }
    }
    Ok(())
}

impl Happening {
    /// Returns the addition or change of a custom object.
    ///
    /// # Panics
    /// If the object has no name.
    pub fn custom<R: Resource>(object: &Value) -> Self {
        let raw = raw::<R>(object);
        let what = format!("{} {object}", R::KIND);
        Self::Custom(what, Box::new(move |cluster| cluster.set_custom(&raw)))
    }

    /// Returns the removal of a custom object.
    pub fn custom_gone<R: Resource>(namespace: &str, name: &str) -> Self {
        let key = key::<R>(namespace, name);
        let what = format!("{} {namespace}/{name} is removed", R::KIND);
        Self::Custom(what, Box::new(move |cluster| cluster.remove_custom(&key)))
    }

    /// Applies the change to the cluster and the waiting pod. Returns the resulting events for hints.
    pub(crate) fn take_place(self, cluster: &mut Cluster, pod: &mut Arc<PodInfo>) -> Vec<Told> {
        let told = match self {
            Self::Node(node) => set_node(cluster, node),
            Self::NodeGone(name) => remove_node(cluster, &name),
            Self::Pod(new) => set_pod(cluster, *new),
            Self::PodGone(node, uid) => remove_pod(cluster, &node, &uid),
            Self::Own(new) => {
                let (old, new) = (pod.pod.clone(), PodInfo::standalone(*new));
                *pod = new.clone();
                let updates = pod_events().updates(pod_events().own, &old, &new.pod);
                told(updates, &OwnedChange::Pod(Some(old.clone()), Some(new.pod.clone())))
            }
            Self::Custom(_, happens) => happens(cluster).into_iter().map(custom_told).collect(),
        };
        cluster.refresh();
        told
    }
}

fn pod_events() -> PodEvents {
    PodEvents::of(Release::NEWEST)
}

fn told(events: impl Iterator<Item = ClusterEvent>, change: &OwnedChange) -> Vec<Told> {
    events.map(|event| Told { event, change: change.clone() }).collect()
}

fn one(resource: EventResource, action: Action, change: OwnedChange) -> Vec<Told> {
    vec![Told { event: ClusterEvent::new(resource, action), change }]
}

fn set_node(cluster: &mut Cluster, node: Node) -> Vec<Told> {
    let new = Arc::new(node);
    let old = cluster.find(&new.name).and_then(|row| cluster.node(row).object().cloned());
    cluster.set_node(new.clone());
    match old {
        None => one(EventResource::Node, Action::ADD, OwnedChange::Node(None, Some(new))),
        Some(old) => told(node_events(&old, &new), &OwnedChange::Node(Some(old.clone()), Some(new.clone()))),
    }
}

fn remove_node(cluster: &mut Cluster, name: &str) -> Vec<Told> {
    let Some(old) = cluster.find(name).and_then(|row| cluster.node(row).object().cloned()) else {
        return Vec::new();
    };
    cluster.remove_node(name);
    one(EventResource::Node, Action::DELETE, OwnedChange::Node(Some(old), None))
}

fn find_pod(cluster: &Cluster, node: &str, uid: &str) -> Option<Arc<PodInfo>> {
    let at = cluster.all().find(|at| at.name().as_str() == node)?;
    at.pods().iter().find(|pod| pod.uid.as_str() == uid).cloned()
}

fn set_pod(cluster: &mut Cluster, pod: Pod) -> Vec<Told> {
    let new = PodInfo::standalone(pod);
    let Some(node) = new.node_name.clone() else { panic!("{new:?} has no node: set one with `on`") };
    match find_pod(cluster, &node, &new.uid) {
        None => {
            cluster.add_pod(&node, new.clone());
            let change = OwnedChange::Pod(None, Some(new.pod.clone()));
            one(EventResource::AssignedPod, Action::ADD, change)
        }
        Some(old) => {
            cluster.replace_pod(&node, &new);
            let change = OwnedChange::Pod(Some(old.pod.clone()), Some(new.pod.clone()));
            told(pod_events().updates(EventResource::AssignedPod, &old.pod, &new.pod), &change)
        }
    }
}

fn remove_pod(cluster: &mut Cluster, node: &Str, uid: &str) -> Vec<Told> {
    let Some(old) = find_pod(cluster, node, uid) else { return Vec::new() };
    cluster.remove_pod(node, uid);
    one(EventResource::AssignedPod, Action::DELETE, OwnedChange::Pod(Some(old.pod.clone()), None))
}

fn custom_told(change: CustomChange) -> Told {
    let (event, change) = OwnedChange::of_custom(change);
    Told { event, change }
}
