//! Harbormaster's hints.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, bail};
use harbormaster_api::{Release, features::Features};
use harbormaster_framework::{
    cluster::Cluster,
    events::{
        Action, ClusterEvent, ErasedRegistration, EventResource, Hint, HintCycle, OwnedChange, PodEvents,
        node_events,
    },
    guard::GuardedPlugin,
    pod::PodInfo,
    profile::Profile,
    resource::{CustomChange, CustomKey, RawObject, ResourceKind},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::Inventory;
use serde_json::Value;

use crate::verdict_oracle::{Change, Hints};

type Event = (ClusterEvent, OwnedChange);

/// A plugin with the events for which it is registered.
type Listener = (GuardedPlugin, Vec<ErasedRegistration>);

/// The profiles of a configuration.
pub(super) struct Ours {
    /// The plugins of each profile, by scheduler name.
    profiles: BTreeMap<String, Vec<Listener>>,
    resources: Vec<ResourceKind>,
    /// The objects other than nodes and pods that hints read.
    cluster: Cluster,
    pod_events: PodEvents,
    release: Release,
}

/// A decoded node or pod. Both fields are `None` if there is no object or it is of another kind.
#[derive(Default)]
struct Decoded {
    node: Option<Arc<harbormaster_api::Node>>,
    pod: Option<Arc<harbormaster_api::Pod>>,
}

impl Ours {
    /// Reads the configuration. `objects` are those that hints read.
    pub(super) fn new(config: &Value, features: Features, objects: &[Value]) -> Result<Self> {
        let choices = Choices { features, ..Choices::default() };
        let engine = Setup::read(Some(("", &config.to_string())), &choices)?.engine;
        let (resources, mut cluster) = (engine.resources(), Cluster::default());
        resources.iter().for_each(|kind| cluster.add_resource(*kind));
        let listeners = |profile: &Arc<Profile>| {
            let plugins = profile.registrations().into_iter();
            let listeners = plugins.map(|(plugin, heard)| (profile.plugin(plugin).clone(), heard)).collect();
            (profile.name().to_string(), listeners)
        };
        let profiles = engine.profiles.iter().map(listeners).collect();
        let release = features.release();
        let pod_events = PodEvents::of(release);
        let mut ours = Self { profiles, resources, cluster, pod_events, release };
        objects.iter().for_each(|object| drop(ours.set(object, Some(object))));
        Ok(ours)
    }

    /// Returns the events that a change causes. From then on, hints that look up the object see it as it is after the
    /// change; they look up neither nodes nor pods.
    pub(super) fn events(&mut self, change: &Change) -> Result<Vec<Event>> {
        let Change { old, new } = change;
        let object = new.as_ref().or(old.as_ref()).context("a change has neither an old nor a new object")?;
        if !matches!(object["kind"].as_str(), Some("Pod" | "Node")) {
            return Ok(self.custom_events(object, old.as_ref(), new.as_ref()));
        }
        let (old, new) = (self.decoded(old.as_ref())?, self.decoded(new.as_ref())?);
        let all = |events: &mut dyn Iterator<Item = ClusterEvent>, change: OwnedChange| {
            events.map(|event| (event, change.clone())).collect::<Vec<_>>()
        };
        let of_nodes = OwnedChange::Node(old.node.clone(), new.node.clone());
        let of_pods = OwnedChange::Pod(old.pod.clone(), new.pod.clone());
        let one = |resource, action, change| vec![(ClusterEvent::new(resource, action), change)];
        Ok(match (old, new) {
            (Decoded { node: Some(old), .. }, Decoded { node: Some(new), .. }) => {
                all(&mut node_events(&old, &new), of_nodes)
            }
            (Decoded { pod: Some(old), .. }, Decoded { pod: Some(new), .. }) => {
                let waits = new.node_name.is_none();
                let resource = if waits { self.pod_events.own } else { EventResource::AssignedPod };
                all(&mut self.pod_events.updates(resource, &old, &new), of_pods)
            }
            (Decoded { node: Some(_), .. }, _) => one(EventResource::Node, Action::DELETE, of_nodes),
            (Decoded { pod: Some(_), .. }, _) => one(EventResource::AssignedPod, Action::DELETE, of_pods),
            (_, Decoded { node: Some(_), .. }) => one(EventResource::Node, Action::ADD, of_nodes),
            (_, Decoded { pod: Some(_), .. }) => one(EventResource::AssignedPod, Action::ADD, of_pods),
            _ => bail!("a change concerns a finished pod"),
        })
    }

    fn decoded(&self, object: Option<&Value>) -> Result<Decoded> {
        let Some(object) = object else { return Ok(Decoded::default()) };
        let mut inventory = Inventory::from_objects(vec![object.clone()], self.release)?;
        let pod = inventory.bound.pop().or_else(|| inventory.pending.pop());
        Ok(Decoded { node: inventory.nodes.pop().map(Arc::new), pod: pod.map(Arc::new) })
    }

    fn custom_events(&mut self, object: &Value, old: Option<&Value>, new: Option<&Value>) -> Vec<Event> {
        self.set(object, old);
        self.set(object, new).into_iter().map(OwnedChange::of_custom).collect()
    }

    /// Lets hints see this version of the object; `None` removes it.
    pub(super) fn set(&mut self, object: &Value, version: Option<&Value>) -> Vec<CustomChange> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) =
            (text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group), text("/kind"));
        let mut changes = Vec::new();
        for read in self.resources.iter().filter(|read| read.name().group == group && read.kind() == kind) {
            let key = CustomKey {
                resource: read.name().to_string().into(),
                namespace: text("/metadata/namespace").into(),
                name: text("/metadata/name").into(),
            };
            changes.extend(match version {
                Some(object) => self.cluster.set_custom(&RawObject::from_json(key, object.to_string())),
                None => self.cluster.remove_custom(&key),
            });
        }
        changes
    }

    /// Returns the hint results of the plugins in the pod's profile, by plugin and event as kube-scheduler prints them.
    pub(super) fn hints(&self, pod: &PodInfo, events: &[Event]) -> Hints {
        let mut hints = Hints::new();
        let cx = HintCycle { pod, objects: self.cluster.objects() };
        let listeners = self.profiles.get(pod.spec.scheduler_name.as_str()).into_iter().flatten();
        for (plugin, registrations) in listeners {
            for (event, change) in events {
                for registration in registrations.iter().filter(|one| one.event.matches(*event)) {
                    let said = match &registration.hint {
                        None => Ok(Hint::Queue),
                        Some(hint) => plugin.hint(hint, cx, &change.view()),
                    };
                    let said = match said {
                        Err(_) => "Error",
                        Ok(Hint::Queue) => "Queue",
                        Ok(Hint::Skip) => "QueueSkip",
                    };
                    // A single registration that queues the pod is enough.
                    let known = hints.entry(format!("{} {event}", plugin.name())).or_default();
                    if matches!(known.as_str(), "" | "QueueSkip") {
                        said.clone_into(known);
                    }
                }
            }
        }
        hints
    }
}

/// Returns the decoded pending pods in the order of `objects`.
pub(super) fn decoded_pods(objects: &[Value], release: Release) -> Result<Vec<Arc<PodInfo>>> {
    let pods = Inventory::from_objects(objects.to_vec(), release)?.pending;
    Ok(pods.into_iter().map(PodInfo::standalone).collect())
}
