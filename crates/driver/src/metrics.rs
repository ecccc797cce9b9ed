//! The two pages that show metrics.

use std::sync::{Arc, Mutex, PoisonError};

use harbormaster_api::features::Features;
use tokio::sync::oneshot;

use crate::message::{EngineMessage, ToEngine};

pub use harbormaster_metrics::{
    encode::CONTENT_TYPE,
    limits::{AllowedLabelValues, Limits},
    metrics::Build,
};

/// The metrics of a scheduler, and the pages that show them. Clones share everything: one clone goes into a
/// [`crate::DriverConfig`], another clone serves the pages.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    numbers: harbormaster_metrics::Metrics,
    /// The running engine.
    engine: Arc<Mutex<Option<ToEngine>>>,
}

impl Metrics {
    /// Creates the metrics that exist with these features, all at zero.
    pub fn with(features: Features) -> Self {
        Self { numbers: harbormaster_metrics::Metrics::with(features), engine: Arc::default() }
    }

    /// Returns the `/metrics` page, whose content type is [`CONTENT_TYPE`].
    pub fn page(&self) -> String {
        self.numbers.page()
    }

    /// Returns the `/metrics/resources` page, with the same content type; the page is empty while no engine is
    /// running. Requests the pods from the engine, which takes about a millisecond per 100,000 pods.
    pub async fn resources(&self) -> String {
        let (answer, pods) = oneshot::channel();
        let sent = match &*self.engine.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(engine) => engine.send(EngineMessage::ListPods(answer)).is_ok(),
            None => false,
        };
        if !sent {
            return String::new();
        }
        // An engine that ends in the meantime returns no pods.
        let pods = pods.await.unwrap_or_default();
        harbormaster_metrics::pods::page(pods.iter().map(|pod| &*pod.pod))
    }

    /// Sets the version of the program.
    pub fn set_build(&self, build: Build<'_>) {
        self.numbers.set_build(build);
    }

    /// Sets the state of a feature; `stage` is `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, on: bool) {
        self.numbers.set_feature(name, stage, on);
    }

    /// Sets whether this process holds the lease named `lease`.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.numbers.set_leader(lease, leads);
    }

    /// Sets the emulated version of Kubernetes and the oldest compatible version.
    pub fn set_emulation(&self, emulated: &str, min_compatible: &str) {
        self.numbers.set_emulation(emulated, min_compatible);
    }

    /// Limits the metrics that the `/metrics` page shows. Only the first call has an effect.
    pub fn limit(&self, limits: Limits) {
        self.numbers.limit(limits);
    }

    /// Records that a configuration file was applied; `sha256` is the hexadecimal SHA-256 of its content.
    pub fn set_config(&self, sha256: &str) {
        self.numbers.set_config(sha256);
    }

    /// Records that a changed configuration file was refused.
    pub fn set_config_refused(&self) {
        self.numbers.set_config_refused();
    }

    /// Returns the processor time that this process has used, in seconds, and its resident memory in bytes.
    pub fn usage(&self) -> (f64, f64) {
        self.numbers.usage()
    }

    /// Returns the number of pods that got a node, and the sum of the times that they waited, in seconds.
    pub fn placed(&self) -> (u64, f64) {
        self.numbers.placed()
    }

    pub(crate) fn numbers(&self) -> &harbormaster_metrics::Metrics {
        &self.numbers
    }

    /// Registers a running engine until the guard is dropped. The guard must be dropped, since an engine runs for as
    /// long as a sender exists.
    pub(crate) fn schedules(&self, engine: ToEngine) -> EngineGuard {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        EngineGuard(self.clone())
    }
}

/// Registration of a running engine.
pub(crate) struct EngineGuard(Metrics);

impl Drop for EngineGuard {
    fn drop(&mut self) {
        *self.0.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
