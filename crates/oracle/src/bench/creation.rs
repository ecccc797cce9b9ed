//! Creating the objects of a run.

use std::thread;

use anyhow::{Context, Result};
use serde_json::Value;

use super::workload::{MEASURED, Size, Workload};
use crate::components::ApiClient;

/// At most so many pods show that a scheduler is at work. They also open its
/// connections and fill its pools, which is not work per pod.
const WARM_UP: usize = 100;

/// Creates what one run of a workload needs.
#[derive(Debug)]
pub(super) struct Creator<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) workload: &'a Workload,
    pub(super) size: Size,
    pub(super) threads: usize,
}

impl Creator<'_> {
    /// All that exists before the scheduler starts: nodes with their bound pods,
    /// and the warm-up pods.
    pub(super) fn prepare(&self) -> Result<()> {
        for namespace in self.workload.namespaces(self.size) {
            self.client.post("/api/v1/namespaces", &namespace).context("creating a namespace")?;
        }
        for (collection, object) in self.workload.fixtures() {
            self.client.post(collection, &object).context("creating a fixture")?;
        }
        self.create(self.size.nodes, |index| ("/api/v1/nodes".to_owned(), self.workload.node(index)))
            .context("creating nodes")?;
        self.create(self.size.init_pods, |index| {
            let (namespace, pod) = self.workload.init_pod(self.size, index);
            (pods(&namespace), pod)
        })
        .context("creating init pods")?;
        self.create(self.warm_up(), |index| (pods(MEASURED), Workload::warm_up_pod(index)))
            .context("creating warm-up pods")
    }

    /// How many pods wait for the scheduler when it starts.
    pub(super) fn warm_up(&self) -> usize {
        WARM_UP.min(self.size.nodes)
    }

    /// The pods that are measured.
    pub(super) fn create_measured(&self) -> Result<()> {
        self.create(self.size.pods, |index| (pods(MEASURED), self.workload.measured_pod(index)))
            .context("creating measured pods")
    }

    /// Creates `count` objects in the collections that come with them.
    fn create(&self, count: usize, object: impl Fn(usize) -> (String, Value) + Sync) -> Result<()> {
        let threads = self.threads.max(1);
        let create_every = |first: usize| -> Result<()> {
            for index in (first..count).step_by(threads) {
                let (collection, object) = object(index);
                self.client.post(&collection, &object)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|first| {
                    scope.spawn({
                        let work = &create_every;
                        move || work(first)
                    })
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
