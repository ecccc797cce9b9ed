//! A provisioner of our own: it makes the volumes that CSI drivers would make,
//! for any API server, and fails as they do where a test wants that.
//!
//! Say with [`Driver`]s who makes volumes and how each claim fares, and
//! [`Provisioner::start`] them:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions};
//! # use harbormaster_oracle::provisioner::{Behaviour, Driver, Outcome, Provisioner};
//! # let cluster = ControlPlane::start(&ControlPlaneOptions::default()).unwrap();
//! let driver = Driver::new("csi.example.com", ["topology.kubernetes.io/zone"])
//!     .of_class("slow", Behaviour::after(Duration::from_secs(2)))
//!     .of_claim("default/unlucky", Behaviour::default().with(Outcome::RemoveSelectedNode(1)));
//! let _provisioner = Provisioner::start(cluster.client(), vec![driver]);
//! ```
//!
//! What is left to the volume controller of kube-controller-manager, or to
//! whoever plays it: to bind the claim to the volume that was made, and to
//! write the annotation `volume.kubernetes.io/storage-provisioner` to claims of
//! classes that bind at once, which asks for a volume because there is none.
//! Nobody deletes the volumes that have been made.

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

/// Makes volumes until it is dropped. An API server that is away or refuses is
/// asked again; what it says goes to stderr.
#[derive(Debug)]
pub struct Provisioner {
    ended: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Provisioner {
    /// Plays `drivers` from now on, for claims that are there already as well.
    #[must_use]
    pub fn start(client: &ApiClient, drivers: Vec<Driver>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, claims) = mpsc::channel();
        let (for_watch, watch_ended) = (client.clone(), Arc::clone(&ended));
        // Ends within a second after `ended` has been set; nobody waits for it, as it changes nothing.
        thread::spawn(move || watch::watch(&for_watch, &watch_ended, &sender));
        let (for_tasks, tasks_ended) = (client.clone(), Arc::clone(&ended));
        let worker = thread::spawn(move || tasks::Tasks::new(for_tasks, drivers).work(&tasks_ended, &claims));
        Self { ended, worker: Some(worker) }
    }
}

impl Drop for Provisioner {
    /// Nothing is made any more afterwards.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // Its panic has been printed, and a destructor should not panic itself.
            let _ = worker.join();
        }
    }
}
