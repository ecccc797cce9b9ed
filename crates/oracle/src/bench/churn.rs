//! Pods that are created during a measurement to disturb it.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::components::ApiClient;

const INTERVAL: Duration = Duration::from_millis(200);

/// Collection of the created pods, in a namespace other than the one whose bindings are counted.
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates one pod per interval until this value is stopped or dropped.
#[derive(Debug)]
pub(super) struct Churn {
    stop: Sender<()>,
    worker: JoinHandle<Result<usize>>,
}

impl Churn {
    pub(super) fn start(client: &ApiClient, pod: fn() -> Value) -> Self {
        let client = client.clone();
        let (stop, stopped) = mpsc::channel();
        let worker = thread::spawn(move || {
            let mut created = 0;
            let mut next = Instant::now() + INTERVAL;
            while let Err(RecvTimeoutError::Timeout) =
                stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
            {
                let mut pod = pod();
                pod["metadata"]["name"] = format!("churn-{created}").into();
                client.post(PODS, &pod).context("creating a churn pod")?;
                created += 1;
                next += INTERVAL;
            }
            Ok(created)
        });
        Self { stop, worker }
    }

    /// Stops creating pods, and returns the number of pods created.
    pub(super) fn stop(self) -> Result<usize> {
        drop(self.stop);
        self.worker
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread that creates churn pods panicked")))
    }
}
