//! Runs the steps of a workload on a cluster.

mod allocation;
mod background;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::{Value, json};

use super::super::creation::{create_one, in_parallel, pods};
use super::super::measurement::PATIENCE;
use super::super::watcher::Watcher;
use super::super::workload::Creation;
use super::build;
use super::op::Stage;
use super::phase::{Meter, Phase};
use super::plan::{Deletion, Labels, NodeSet, ObjectSet, PlannedStep, PodMode, PodSet, Step};
use crate::components::{ApiClient, Error};

use background::Background;

/// Time in which the creation of an object is tried again, because the API server may not serve its kind yet.
const SERVED: Duration = Duration::from_secs(20);

const RETRY: Duration = Duration::from_secs(1);

/// Runs steps one after the other.
pub(super) struct Player<'a> {
    pub(super) meter: Meter<'a>,
    /// Number of threads that create objects.
    threads: usize,
    background: Vec<Background>,
    phase: Option<Phase>,
    namespaces: BTreeSet<String>,
    /// Number of pods per namespace that were created without waiting for them, and that no barrier has waited for yet.
    pending: BTreeMap<String, usize>,
}

impl<'a> Player<'a> {
    pub(super) fn new(meter: Meter<'a>, threads: usize) -> Self {
        let (background, phase, namespaces, pending) = Default::default();
        Self { meter, threads, background, phase, namespaces, pending }
    }

    /// Runs the steps, and stops what they left in the background. Returns the number of objects that churn created.
    pub(super) fn play(&mut self, steps: &[PlannedStep]) -> Result<usize> {
        for planned in steps {
            let PlannedStep { index, opcode, step } = planned;
            self.run(*index, step).with_context(|| format!("op {index} ({opcode})"))?;
        }
        let mut created = 0;
        for background in self.background.drain(..) {
            created += background.stop()?;
        }
        Ok(created)
    }

    fn client(&self) -> &'a ApiClient {
        self.meter.cluster.client()
    }

    fn run(&mut self, index: usize, step: &Step) -> Result<()> {
        match step {
            Step::CreateNodes(nodes) => self.create_nodes(index, nodes),
            Step::CreateNamespaces { prefix, count, template } => (0..*count)
                .try_for_each(|index| self.create_namespace(&format!("{prefix}-{index}"), template.as_ref())),
            Step::CreatePods(pods) => self.create_pods(pods),
            Step::CreateObjects(objects) => self.create_objects(objects),
            Step::CreateDevices { driver, nodes, per_node } => self.create_devices(driver, nodes, *per_node),
            Step::UpdateObjects { objects, per_second, subresources } => {
                self.update_objects(objects, *per_second, subresources)
            }
            Step::AllocateClaims { namespace, driver } => self.allocate(namespace, driver),
            Step::DeletePods(deletion) => self.delete_pods(deletion),
            Step::Churn(churn) => {
                self.create_namespace(&churn.namespace, None)?;
                self.background.push(Background::churn(self.client(), churn));
                Ok(())
            }
            Step::Barrier { namespaces, labels, stage } => self.barrier(namespaces, labels, *stage),
            Step::Sleep(duration) => {
                sleep(*duration);
                Ok(())
            }
            Step::StartMeasuring { namespaces, labels } => {
                namespaces.iter().try_for_each(|namespace| self.create_namespace(namespace, None))?;
                self.phase = Some(self.meter.begin(namespaces, labels)?);
                Ok(())
            }
            Step::StopMeasuring => self.finish_phase(false),
            Step::Nothing => Ok(()),
        }
    }

    /// Ends the phase; see [`Meter::finish`].
    fn finish_phase(&mut self, is_complete: bool) -> Result<()> {
        let phase = self.phase.take().context("no phase has begun")?;
        self.meter.finish(&phase, is_complete)
    }

    /// Creates a namespace unless it exists.
    fn create_namespace(&mut self, name: &str, template: Option<&Value>) -> Result<()> {
        if !self.namespaces.insert(name.to_owned()) {
            return Ok(());
        }
        let mut namespace = template.cloned().unwrap_or_else(|| json!({}));
        namespace["metadata"]["name"] = name.into();
        match self.client().post("/api/v1/namespaces", &namespace) {
            Ok(_) | Err(Error::Refused { status: 409, .. }) => Ok(()),
            Err(error) => Err(error).context("creating a namespace"),
        }
    }

    /// Creates the objects that `objects` returns for every index below `count`.
    fn create_all(
        &self,
        count: usize,
        objects: impl Fn(usize) -> Result<Vec<Creation>> + Sync,
    ) -> Result<()> {
        let client = self.client();
        in_parallel(self.threads, count, |index| {
            objects(index)?.iter().try_for_each(|(collection, object)| create_one(client, collection, object))
        })
    }

    fn create_nodes(&self, step: usize, nodes: &NodeSet) -> Result<()> {
        self.create_all(nodes.count, |index| Ok(build::node(nodes, step, index)?))
    }

    fn create_pods(&mut self, set: &PodSet) -> Result<()> {
        self.create_namespace(&set.namespace, None)?;
        // A client that renders templates would take CPU time from the scheduler.
        let objects = (0..set.count).map(|index| build::pod(set, index)).collect::<Result<Vec<_>, _>>()?;
        if !set.is_measured {
            return self.create_unmeasured(set, &objects);
        }
        let phase = self.meter.begin(std::slice::from_ref(&set.namespace), &Labels::new())?;
        if let PodMode::Steady(duration) = set.mode {
            self.keep_steady(set, &objects, duration, phase.bindings())?;
        } else {
            self.create_given(&objects)?;
            phase.bindings().wait_for(set.count, PATIENCE)?;
        }
        self.meter.finish(&phase, true)
    }

    fn create_unmeasured(&mut self, set: &PodSet, objects: &[Vec<Creation>]) -> Result<()> {
        match set.mode {
            PodMode::UntilCreated => {
                *self.pending.entry(set.namespace.clone()).or_default() += set.count;
                self.create_given(objects)
            }
            PodMode::UntilBound => {
                let before = self.count_bound(&set.namespace, &Labels::new())?;
                self.create_given(objects)?;
                self.wait_for_bound(&set.namespace, &Labels::new(), before + set.count)
            }
            PodMode::Steady(duration) => {
                let bindings = Watcher::bindings_in(self.client(), &set.namespace, "")?;
                self.keep_steady(set, objects, duration, &bindings)
            }
        }
    }

    /// Creates the given objects, of which each list is created in order.
    fn create_given(&self, objects: &[Vec<Creation>]) -> Result<()> {
        self.create_all(objects.len(), |index| Ok(objects[index].clone()))
    }

    /// Creates pods, and deletes each pod that gets a node. Until the time is over, a new pod takes its place.
    fn keep_steady(
        &self,
        set: &PodSet,
        objects: &[Vec<Creation>],
        duration: Duration,
        bindings: &Watcher,
    ) -> Result<()> {
        let end = Instant::now() + duration;
        self.create_given(objects)?;
        let (mut created, mut bound) = (set.count, 0);
        while bound < created {
            let Some(name) = bindings.name(bound, PATIENCE) else {
                bail!("only {bound} of {created} pods got a node, and no further one within {PATIENCE:?}");
            };
            bound += 1;
            self.client().delete(&format!("{}/{name}?gracePeriodSeconds=0", pods(&set.namespace)))?;
            if Instant::now() < end {
                self.replace(&objects[0], created)?;
                created += 1;
            }
        }
        Ok(())
    }

    /// Creates another pod like the first one, with a name of its own.
    fn replace(&self, first: &[Creation], number: usize) -> Result<()> {
        let Some((collection, pod)) = first.last() else { return Ok(()) };
        let mut pod = pod.clone();
        if let Some(name) = pod["metadata"]["name"].as_str() {
            pod["metadata"]["name"] = format!("{name}-{number}").into();
        }
        create_one(self.client(), collection, &pod)
    }

    fn create_objects(&mut self, set: &ObjectSet) -> Result<()> {
        if let Some(namespace) = &set.namespace {
            self.create_namespace(namespace, None)?;
        }
        let collection = set.object_type.collection(set.namespace.as_deref());
        let client = self.client();
        in_parallel(self.threads, set.count, |index| {
            let mut object = set.template.render(index, set.count)?;
            object["apiVersion"] = set.object_type.api_version.as_str().into();
            let deadline = Instant::now() + SERVED;
            loop {
                match client.post(&collection, &object) {
                    Ok(_) => return Ok(()),
                    Err(Error::Refused { status: 404 | 500.., .. }) if Instant::now() < deadline => {
                        sleep(RETRY);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    /// Creates a slice with devices for every node whose name matches a pattern with `*`.
    fn create_devices(&self, driver: &str, nodes: &str, per_node: usize) -> Result<()> {
        let pattern = format!("^{}$", regex::escape(nodes).replace(r"\*", "[^/]*"));
        let pattern = Regex::new(&pattern).with_context(|| format!("the pattern {nodes}"))?;
        let list = self.client().get("/api/v1/nodes")?;
        let names: Vec<_> = list["items"].as_array().into_iter().flatten().collect();
        let names = names.iter().filter_map(|node| node["metadata"]["name"].as_str());
        let names: Vec<_> = names.filter(|name| pattern.is_match(name)).collect();
        self.create_all(names.len(), |index| Ok(vec![build::slice(driver, names[index], per_node)]))
    }

    fn update_objects(&self, set: &ObjectSet, per_second: u32, subresources: &[String]) -> Result<()> {
        let collection = set.object_type.collection(set.namespace.as_deref());
        let begun = Instant::now();
        for index in 0..set.count {
            if per_second > 0 {
                let due = begun + Duration::from_secs(1) * u32::try_from(index + 1)? / per_second;
                sleep(due.saturating_duration_since(Instant::now()));
            }
            let object = set.template.render(index, set.count)?;
            let name = object["metadata"]["name"].as_str().context("the object has no name")?;
            let path = format!("{collection}/{name}");
            let subresource: String = subresources.iter().map(|name| format!("/{name}")).collect();
            self.client().put(&format!("{path}{subresource}"), &object)?;
            self.client().put(&format!("{path}/status"), &object)?;
        }
        Ok(())
    }

    fn delete_pods(&mut self, deletion: &Deletion) -> Result<()> {
        let background = Background::delete(self.client(), deletion);
        if deletion.is_in_background {
            self.background.push(background);
            return Ok(());
        }
        background.finish()
    }

    fn barrier(&mut self, namespaces: &[String], labels: &Labels, stage: Stage) -> Result<()> {
        let all = self.pending.keys().cloned().collect::<Vec<_>>();
        let namespaces = if namespaces.is_empty() { &all[..] } else { namespaces };
        for namespace in namespaces {
            let count = self.pending.get(namespace).copied().unwrap_or_default();
            match stage {
                Stage::Scheduled => self.wait_for_bound(namespace, labels, count)?,
                Stage::Attempted => self.wait_for_attempted(namespace, labels, count)?,
            }
        }
        if stage == Stage::Scheduled {
            self.pending.retain(|namespace, _| !namespaces.contains(namespace));
        }
        Ok(())
    }
}
