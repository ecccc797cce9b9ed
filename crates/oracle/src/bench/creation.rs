//! Creation of the objects of a run.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::watcher::Watcher;
use super::workload::{Creation, MEASURED, Size, Workload};
use crate::components::ApiClient;

/// Maximum number of warm-up pods. When they are bound, the scheduler is known to work. They also make the scheduler
/// open its connections and fill its pools, so that this one-time work is not measured.
const WARM_UP: usize = 100;

/// Number of measured pods that exist at the same time in a steady workload, as in `scheduler_perf`.
const GROUP: usize = 10;

/// Collections whose objects lose their status when they are created.
const WITHOUT_STATUS: [&str; 4] =
    ["/persistentvolumes", "/persistentvolumeclaims", "/resourceclaims", "/appgroups"];

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Longest time until the API server serves a custom resource.
const SERVED: Duration = Duration::from_secs(30);

/// Creates the objects of one run of a workload.
#[derive(Debug)]
pub(super) struct Creator<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) workload: &'a Workload,
    pub(super) size: Size,
    pub(super) threads: usize,
    /// See [`Options::rate`](super::Options::rate).
    pub(super) rate: Option<u32>,
}

impl Creator<'_> {
    /// Creates everything that exists before the scheduler starts, such as nodes, bound pods and warm-up pods.
    pub(super) fn prepare(&self) -> Result<()> {
        for namespace in self.workload.namespaces(self.size) {
            self.client.post("/api/v1/namespaces", &namespace).context("creating a namespace")?;
        }
        for definition in self.workload.definitions()? {
            self.define(&definition).context("creating a custom resource")?;
        }
        for (collection, object) in self.workload.fixtures(self.size) {
            create_one(self.client, &collection, &object).context("creating a fixture")?;
        }
        self.create(self.size.nodes, |index| {
            let mut all = vec![("/api/v1/nodes".to_owned(), self.workload.node(index))];
            all.append(&mut self.workload.equipment_of_node(index));
            all
        })
        .context("creating nodes")?;
        self.create(self.size.pods, |index| self.workload.storage_of_measured_pod(index))
            .context("creating the volumes of measured pods")?;
        self.create(self.size.init_pods, |index| {
            let mut all = self.workload.storage_of_init_pod(self.size, index);
            let (namespace, pod) = self.workload.init_pod(self.size, index);
            all.push((pods(&namespace), pod));
            all
        })
        .context("creating init pods")?;
        self.create(self.warm_up(), |index| vec![(pods(MEASURED), Workload::warm_up_pod(index))])
            .context("creating warm-up pods")
    }

    /// Number of warm-up pods, which are pending when the scheduler starts.
    pub(super) fn warm_up(&self) -> usize {
        WARM_UP.min(self.size.nodes)
    }

    /// Creates the measured pods.
    pub(super) fn create_measured(&self) -> Result<()> {
        let begun = Instant::now();
        self.each(self.size.pods, |index| {
            if let Some(rate) = self.rate {
                let due = begun + Duration::from_secs(1) * u32::try_from(index)? / rate.max(1);
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            self.client.post(&pods(MEASURED), &self.workload.measured_pod(index))?;
            Ok(())
        })
        .context("creating measured pods")
    }

    /// Creates the measured pods group by group. Deletes each group when all its pods are bound.
    pub(super) fn replace_measured(&self, bindings: &Watcher, patience: Duration) -> Result<()> {
        for first in (0..self.size.pods).step_by(GROUP) {
            let count = GROUP.min(self.size.pods - first);
            self.create_measured_from(first, count)?;
            bindings.wait_for(self.warm_up() + first + count, patience)?;
            self.each(count, |index| {
                let pod = self.workload.measured_pod(first + index);
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                self.client.delete(&format!("{}/{name}?gracePeriodSeconds=0", pods(MEASURED)))?;
                Ok(())
            })
            .context("deleting measured pods")?;
        }
        Ok(())
    }

    fn create_measured_from(&self, first: usize, count: usize) -> Result<()> {
        self.create(count, |index| vec![(pods(MEASURED), self.workload.measured_pod(first + index))])
            .context("creating measured pods")
    }

    /// Creates the objects that `objects(index)` returns, each in its collection, for every index below `count`.
    fn create(&self, count: usize, objects: impl Fn(usize) -> Vec<Creation> + Sync) -> Result<()> {
        self.each(count, |index| {
            objects(index)
                .iter()
                .try_for_each(|(collection, object)| create_one(self.client, collection, object))
        })
    }

    /// Creates a CustomResourceDefinition, and waits until the API server serves the resource.
    fn define(&self, definition: &Value) -> Result<()> {
        self.client.post(DEFINITIONS, definition)?;
        let spec = &definition["spec"];
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let [group, plural] = [&spec["group"], &spec["names"]["plural"]].map(part);
        let version = part(&spec["versions"][0]["name"]);
        let deadline = Instant::now() + SERVED;
        while let Err(error) = self.client.get(&format!("/apis/{group}/{version}/{plural}")) {
            ensure!(Instant::now() < deadline, "{plural} are not served: {error}");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Calls `act` for every index below `count`, on several threads.
    pub(super) fn each(&self, count: usize, act: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        in_parallel(self.threads, count, act)
    }
}

/// Calls `act` for every index below `count`, on several threads.
pub(super) fn in_parallel(
    threads: usize,
    count: usize,
    act: impl Fn(usize) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads.max(1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|first| {
                let act = &act;
                scope.spawn(move || (first..count).step_by(threads).try_for_each(act))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked")))
        })
    })
}

/// Creates an object in its collection, and its status if the API server drops the status of new objects of the kind.
pub(super) fn create_one(client: &ApiClient, collection: &str, object: &Value) -> Result<()> {
    let created = client.post(collection, object)?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    if WITHOUT_STATUS.iter().any(|end| collection.ends_with(end)) && object["status"].is_object() {
        let status = json!({"status": object["status"]});
        client.merge_patch(&format!("{collection}/{name}/status"), &status)?;
    }
    Ok(())
}

/// Returns the collection of a namespace's pods.
pub(super) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
