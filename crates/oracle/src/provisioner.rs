//! A simulated provisioner. On any API server, it creates the volumes that CSI drivers would create. If a test requires
//! it, the provisioner fails in the ways that CSI drivers fail.
//!
//! Specify with [`Driver`]s which volumes to create and how to handle each claim, and start the drivers with
//! [`Provisioner::start`]:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions};
//! # use harbormaster_oracle::provisioner::{Behaviour, Driver, Outcome, Provisioner};
//! # let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
//! let driver = Driver::new("csi.example.com", ["topology.kubernetes.io/zone"])
//!     .for_class("slow", Behaviour::after(Duration::from_secs(2)))
//!     .for_claim("default/unlucky", Behaviour::default().with(Outcome::RemoveSelectedNode(1)));
//! let _provisioner = Provisioner::start(cluster.client(), vec![driver]);
//! ```
//!
//! The volume controller of kube-controller-manager, or a stand-in for it, does the rest. It binds the claim to the
//! created volume. For classes that bind immediately, it requests a volume if no existing one fits, by writing the
//! annotation `volume.kubernetes.io/storage-provisioner` to the claim. Created volumes are never deleted.

mod driver;
mod tasks;
mod volume;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

pub use driver::{Behaviour, Driver, Outcome};

use crate::components::ApiClient;

/// Creates volumes until it is dropped. Failed requests are retried; errors are printed to stderr.
#[derive(Debug)]
pub struct Provisioner {
    ended: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Provisioner {
    /// Starts to simulate `drivers`, for existing claims too.
    #[must_use]
    pub fn start(client: &ApiClient, drivers: Vec<Driver>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, claims) = mpsc::channel();
        let (for_watch, watch_ended) = (client.clone(), Arc::clone(&ended));
        // This thread ends within a second after `ended` is set. It is not joined, because it changes nothing.
        thread::spawn(move || watch::watch(&for_watch, &watch_ended, &sender));
        let (for_tasks, tasks_ended) = (client.clone(), Arc::clone(&ended));
        let worker = thread::spawn(move || tasks::Tasks::new(for_tasks, drivers).work(&tasks_ended, &claims));
        Self { ended, worker: Some(worker) }
    }
}

impl Drop for Provisioner {
    /// Stops creating volumes.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // A panic of the thread has already been printed, and a destructor should not panic.
            let _ = worker.join();
        }
    }
}
