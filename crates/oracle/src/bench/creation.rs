//! Creation of the objects of a run.

use std::thread;

use anyhow::{Context, Result};
use serde_json::json;

use super::workload::{Creation, MEASURED, Size, VOLUMES, Workload, local_volume_name, node_name};
use crate::components::ApiClient;

/// Maximum number of warm-up pods. When they are bound, the scheduler is known to work. They also make the scheduler
/// open its connections and fill its pools, so that this one-time work is not measured.
const WARM_UP: usize = 100;

/// Creates the objects of one run of a workload.
#[derive(Debug)]
pub(super) struct Creator<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) workload: &'a Workload,
    pub(super) size: Size,
    pub(super) threads: usize,
}

impl Creator<'_> {
    /// Creates everything that exists before the scheduler starts: nodes with
    /// their bound pods, and the warm-up pods.
    pub(super) fn prepare(&self) -> Result<()> {
        for namespace in self.workload.namespaces(self.size) {
            self.client.post("/api/v1/namespaces", &namespace).context("creating a namespace")?;
        }
        for (collection, object) in self.workload.fixtures() {
            self.client.post(collection, &object).context("creating a fixture")?;
        }
        self.create(self.size.nodes, |index| {
            let mut all = vec![("/api/v1/nodes".to_owned(), self.workload.node(index))];
            all.append(&mut self.workload.storage_of_node(index));
            all
        })
        .context("creating nodes")?;
        if self.workload.has_waiting_claims() {
            self.make_volumes_available().context("making volumes available")?;
        }
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
        self.create(self.size.pods, |index| vec![(pods(MEASURED), self.workload.measured_pod(index))])
            .context("creating measured pods")
    }

    /// Writes the status that the volume controller writes for an unbound volume.
    fn make_volumes_available(&self) -> Result<()> {
        let available = json!({"status": {"phase": "Available"}});
        self.each(self.size.nodes, |index| {
            let name = local_volume_name(&node_name(index));
            self.client.merge_patch(&format!("{VOLUMES}/{name}/status"), &available)?;
            Ok(())
        })
    }

    /// Creates the objects that `objects(index)` returns, each in its collection, for every index below `count`.
    fn create(&self, count: usize, objects: impl Fn(usize) -> Vec<Creation> + Sync) -> Result<()> {
        self.each(count, |index| {
            for (collection, object) in objects(index) {
                self.client.post(&collection, &object)?;
            }
            Ok(())
        })
    }

    /// Calls `act` for every index below `count`, on several threads.
    fn each(&self, count: usize, act: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        let threads = self.threads.max(1);
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
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}
