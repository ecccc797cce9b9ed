//! A stand-in for the volume controller that binds claims to the volumes that a scheduler has chosen.
//!
//! `scheduler_perf` uses a stand-in too. The controller in kube-controller-manager writes each volume and each claim
//! twice and handles them one after the other, so a benchmark would measure its rate instead of the scheduler's. The
//! stand-in writes each claim once, as soon as a volume refers to it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use super::watch::Watch;
use crate::components::ApiClient;

/// Watch of all volumes.
const ALL: &str = "/api/v1/persistentvolumes?watch=1&timeoutSeconds=3600";

/// Prefix of the lines of changed objects.
const MODIFIED: &[u8] = br#"{"type":"MODIFIED""#;

/// The stand-in; see the [module documentation](self). Its threads end when the API server stops.
#[derive(Debug)]
pub(super) struct VolumeController {
    writes: Arc<AtomicUsize>,
}

#[derive(Deserialize)]
struct Event {
    object: Volume,
}

#[derive(Deserialize)]
struct Volume {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    claim_ref: Option<ClaimRef>,
}

#[derive(Deserialize)]
struct ClaimRef {
    namespace: String,
    name: String,
}

impl VolumeController {
    /// Starts the given number of worker threads, and another thread that watches.
    pub(super) fn start(client: &ApiClient, threads: usize) -> Result<Self> {
        let watch = Watch::start(client, ALL)?;
        let (send, receive) = mpsc::channel();
        let receive = Arc::new(Mutex::new(receive));
        for _ in 0..threads.max(1) {
            let (client, receive) = (client.clone(), Arc::clone(&receive));
            thread::spawn(move || serve(&client, &receive));
        }
        let writes = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&writes);
        thread::spawn(move || {
            watch.read(|line| {
                if line.starts_with(MODIFIED) {
                    seen.fetch_add(1, Ordering::Relaxed);
                    // A line that cannot be decoded is not a volume that refers to a claim.
                    if let Ok(Event { object }) = serde_json::from_slice(line) {
                        let _ = send.send(object);
                    }
                }
            })
        });
        Ok(Self { writes })
    }

    /// Number of times that volumes have been written since the start. Only the scheduler writes them.
    pub(super) fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

fn serve(client: &ApiClient, volumes: &Mutex<Receiver<Volume>>) {
    loop {
        let next = volumes.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Volume { metadata, spec }) = next else { return };
        let Some(ClaimRef { namespace, name }) = spec.claim_ref else { continue };
        let patch = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": metadata.name},
        });
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        // If this fails, the pod stays pending, which the run reports.
        let _ = client.merge_patch(&path, &patch);
    }
}
