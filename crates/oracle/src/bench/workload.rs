//! The nodes and pods of a benchmark, as in Kubernetes' own `scheduler_perf`.

use std::thread;

use anyhow::Result;
use serde_json::{Value, json};

use crate::components::ApiClient;

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates `count` empty nodes.
pub(super) fn create_nodes(client: &ApiClient, count: usize, threads: usize) -> Result<()> {
    create(client, NODES, count, threads, |index| {
        let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        json!({
            "metadata": {"name": format!("node-{index}")},
            "status": {"capacity": resources, "allocatable": resources},
        })
    })
}

/// Creates `count` plain pods whose names begin with `prefix`.
pub(super) fn create_pods(client: &ApiClient, prefix: &str, count: usize, threads: usize) -> Result<()> {
    create(client, PODS, count, threads, |index| {
        let requests = json!({"cpu": "100m", "memory": "500Mi"});
        let container = json!({"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}});
        json!({"metadata": {"name": format!("{prefix}-{index}")}, "spec": {"containers": [container]}})
    })
}

fn create(
    client: &ApiClient,
    path: &str,
    count: usize,
    threads: usize,
    object: impl Fn(usize) -> Value + Sync,
) -> Result<()> {
    let threads = threads.max(1);
    let create_every = |first: usize| -> Result<()> {
        for index in (first..count).step_by(threads) {
            client.post(path, &object(index))?;
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
