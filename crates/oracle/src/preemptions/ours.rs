//! Harbormaster's decisions, made by an engine in this process.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use harbormaster_api::features::Features;
use harbormaster_api::{Pod, Timestamp};
use harbormaster_core::{Effect, Engine, EvictOutcome, Input};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::Inventory;
use serde_json::Value;

use super::Options;

/// The victims and their node.
#[derive(Debug)]
pub(super) struct Eviction {
    pub(super) node: String,
    /// `namespace/name`, sorted.
    pub(super) victims: Vec<String>,
}

/// An engine with the default configuration and the objects of the cluster. Victims are not deleted, so that every pod
/// is evaluated in the same cluster.
pub(super) struct Ours {
    engine: Engine,
    now: Timestamp,
    pending: BTreeMap<String, Pod>,
}

impl Ours {
    pub(super) fn new(options: &Options, objects: &[Value]) -> Result<Self> {
        let (features, parity) = (Features::of(options.release), options.parity);
        let setup = Setup::read(None, &Choices { features, parity, ..Choices::default() })?;
        let cluster = Inventory::from_objects(objects.to_vec())?;
        let (mut engine, now) = (Engine::new(setup.engine), Timestamp::from_secs(1_800_000_000));
        let there = cluster.objects.into_iter().map(Input::Object);
        let there = there.chain(cluster.nodes.into_iter().map(Input::Node));
        let there = there.chain(cluster.bound.into_iter().map(Input::Pod));
        there.for_each(|input| engine.handle(input, now));
        engine.take_effects();
        let pending = cluster.pending.into_iter();
        let pending = pending.map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod)).collect();
        Ok(Self { engine, now, pending })
    }

    /// Returns the victims for a pod, if there are any.
    pub(super) fn evicted_for(&mut self, pod: &str) -> Result<Option<Eviction>> {
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
