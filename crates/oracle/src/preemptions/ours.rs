//! Harbormaster's decisions, made by an engine in this process.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use harbormaster_api::features::Features;
use harbormaster_api::{Pod, Timestamp};
use harbormaster_core::{Effect, Engine, EngineConfig, EvictOutcome, Input};
use harbormaster_framework::resource::{CustomKey, RawObject, ResourceKind};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::Inventory;
use serde_json::Value;

use super::Options;

/// The victims and their node.
#[derive(Debug)]
pub(crate) struct Eviction {
    pub(crate) node: String,
    /// `namespace/name`, sorted.
    pub(crate) victims: Vec<String>,
}

/// An engine with the default configuration and the objects of the cluster. Victims are not deleted, so that every pod
/// is evaluated in the same cluster.
pub(crate) struct Ours {
    engine: Engine,
    now: Timestamp,
    pending: BTreeMap<String, Pod>,
}

impl Ours {
    pub(super) fn new(options: &Options, objects: &[Value]) -> Result<Self> {
        let (features, parity) = (Features::of(options.release), options.parity);
        let setup = Setup::read(None, &Choices { features, parity, ..Choices::default() })?;
        Ok(Self::of(setup.engine, Inventory::from_objects(objects.to_vec(), options.release)?))
    }

    /// Creates an engine with a configuration and the objects of a cluster.
    pub(crate) fn of(config: EngineConfig, cluster: Inventory) -> Self {
        let custom: Vec<RawObject> = config.resources().iter().flat_map(|kind| raw(&cluster, kind)).collect();
        let (mut engine, now) = (Engine::new(config), Timestamp::from_secs(1_800_000_000));
        custom.into_iter().for_each(|object| engine.handle(Input::Custom(object), now));
        let there = cluster.objects.into_iter().map(Input::Object);
        let there = there.chain(cluster.nodes.into_iter().map(Input::Node));
        let there = there.chain(cluster.bound.into_iter().map(Input::Pod));
        there.for_each(|input| engine.handle(input, now));
        engine.take_effects();
        let pending = cluster.pending.into_iter();
        let pending = pending.map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod)).collect();
        Self { engine, now, pending }
    }

    /// Returns the victims for a pod, if there are any.
    pub(crate) fn evicted_for(&mut self, pod: &str) -> Result<Option<Eviction>> {
        let pod = self.pending.remove(pod).with_context(|| format!("there is no pending pod {pod}"))?;
        let uid = pod.uid.clone();
        self.engine.handle(Input::Pod(pod), self.now);
        self.engine.schedule_one(self.now);
        let (mut nominated, mut victims) = (None, Vec::new());
        loop {
            let effects = self.engine.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::PatchStatus(patch) => {
                        nominated = patch.nominated_node.flatten().or(nominated);
                    }
                    Effect::Evict(task) => {
                        victims.push(task.victim.full_name().to_string());
                        let outcome = EvictOutcome::Evicted;
                        self.engine.handle(Input::EvictFinished { task, outcome }, self.now);
                    }
                    _ => {}
                }
            }
        }
        self.engine.handle(Input::PodGone(uid), self.now);
        self.engine.take_effects();
        victims.sort();
        Ok(nominated.map(|node| Eviction { node: node.to_string(), victims }))
    }
}

/// Returns the objects of a kind that a plugin reads.
pub(crate) fn raw(cluster: &Inventory, kind: &ResourceKind) -> Vec<RawObject> {
    let name = kind.name();
    let raw = |object: &Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let (namespace, own) = (text("namespace").into(), text("name").into());
        let key = CustomKey { resource: name.to_string().into(), namespace, name: own };
        RawObject::from_json(key, object.to_string())
    };
    cluster.custom_of(name.group, kind.kind()).map(raw).collect()
}
