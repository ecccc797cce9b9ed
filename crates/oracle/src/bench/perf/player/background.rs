//! Changes of the cluster that continue while further steps run.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::super::super::creation::pods;
use super::super::op::ChurnMode;
use super::super::plan::{ChurnSet, Deletion};
use super::super::selector::selector;
use crate::components::{ApiClient, Error};

/// A thread that changes the cluster until it is done or stopped.
#[derive(Debug)]
pub(super) struct Background {
    stop: Sender<()>,
    worker: JoinHandle<Result<usize>>,
}

impl Background {
    /// Starts to delete pods.
    pub(super) fn delete(client: &ApiClient, deletion: &Deletion) -> Self {
        let (client, deletion) = (client.clone(), deletion.clone());
        Self::start(move |stopped| delete(&client, &deletion, stopped).context("deleting pods").map(|()| 0))
    }

    /// Starts to create objects, and to delete them if the mode says so.
    pub(super) fn churn(client: &ApiClient, churn: &ChurnSet) -> Self {
        let (client, churn) = (client.clone(), churn.clone());
        Self::start(move |stopped| create(&client, &churn, stopped).context("churn"))
    }

    fn start(work: impl FnOnce(&Receiver<()>) -> Result<usize> + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        Self { stop, worker: thread::spawn(move || work(&stopped)) }
    }

    /// Stops the thread. Returns the number of objects that it created.
    pub(super) fn stop(self) -> Result<usize> {
        drop(self.stop);
        self.worker.join().unwrap_or_else(|_| Err(anyhow!("a thread that changes the cluster panicked")))
    }

    /// Waits until the thread is done.
    pub(super) fn finish(self) -> Result<()> {
        let Self { stop, worker } = self;
        let result =
            worker.join().unwrap_or_else(|_| Err(anyhow!("a thread that changes the cluster panicked")));
        drop(stop);
        result.map(drop)
    }
}

/// Waits until `due`. Returns false if the thread is stopped before.
fn wait_until(due: Instant, stopped: &Receiver<()>) -> bool {
    let wait = due.saturating_duration_since(Instant::now());
    stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
}

fn delete(client: &ApiClient, deletion: &Deletion, stopped: &Receiver<()>) -> Result<()> {
    let path = format!("{}?labelSelector={}", pods(&deletion.namespace), selector(&deletion.labels));
    if deletion.per_second == 0 {
        client.delete(&path)?;
        return Ok(());
    }
    let list = client.get(&path)?;
    let begun = Instant::now();
    for (index, pod) in (1..).zip(list["items"].as_array().into_iter().flatten()) {
        if !wait_until(begun + Duration::from_secs(1) * index / deletion.per_second, stopped) {
            break;
        }
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        delete_one(client, &format!("{}/{name}", pods(&deletion.namespace)))?;
    }
    Ok(())
}

/// Deletes an object, which may have gone already.
fn delete_one(client: &ApiClient, path: &str) -> Result<()> {
    match client.delete(path) {
        Ok(_) | Err(Error::Refused { status: 404, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates one object of each kind per interval. In the mode `recreate`, as many intervals follow in which these
/// objects are deleted in the same order.
fn create(client: &ApiClient, churn: &ChurnSet, stopped: &Receiver<()>) -> Result<usize> {
    let mut created = 0;
    let mut slots: Vec<Vec<String>> = vec![Vec::new(); churn.number];
    let begun = Instant::now();
    for cycle in 0.. {
        if churn.mode == ChurnMode::Create && churn.number > 0 && cycle == churn.number {
            break;
        }
        if !wait_until(begun + churn.interval * u32::try_from(cycle + 1)?, stopped) {
            break;
        }
        let slot = if churn.number > 0 { cycle % churn.number } else { 0 };
        if churn.mode == ChurnMode::Recreate && !slots[slot].is_empty() {
            slots[slot].drain(..).try_for_each(|path| delete_one(client, &path))?;
            continue;
        }
        for (object_type, object) in &churn.objects {
            let collection = object_type.collection(Some(&churn.namespace));
            let live = client.post(&collection, object)?;
            created += 1;
            if churn.mode == ChurnMode::Recreate {
                let name = live["metadata"]["name"].as_str().unwrap_or_default();
                slots[slot].push(format!("{collection}/{name}"));
            }
        }
    }
    Ok(created)
}
