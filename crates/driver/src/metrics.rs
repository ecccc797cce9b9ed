//! The two pages of numbers, for whoever serves them.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::oneshot;

use crate::message::EngineMessage;

pub use harbormaster_metrics::{
    encode::CONTENT_TYPE,
    limits::{Allowed, Limits},
    metrics::Build,
};

/// The numbers of a scheduler, and the pages that show them. Clones share everything: one goes into a
/// [`crate::DriverConfig`], another one to whoever serves the pages.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    numbers: harbormaster_metrics::Metrics,
    /// The engine that schedules at the moment.
    engine: Arc<Mutex<Option<mpsc::Sender<EngineMessage>>>>,
}

impl Metrics {
    /// The page `/metrics`, of type [`CONTENT_TYPE`].
    pub fn page(&self) -> String {
        self.numbers.page()
    }

    /// The page `/metrics/resources`, of the same type; empty while this process does not schedule. The engine is asked for its
    /// pods, which takes it about a millisecond per 100,000 of them.
    pub async fn resources(&self) -> String {
        let (answer, pods) = oneshot::channel();
        let asked = match &*self.engine.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(engine) => engine.send(EngineMessage::ListPods(answer)).is_ok(),
            None => false,
        };
        if !asked {
            return String::new();
        }
        // An engine that ends while it is asked has no pods.
        let pods = pods.await.unwrap_or_default();
        harbormaster_metrics::pods::page(pods.iter().map(|pod| &*pod.pod))
    }

    /// Says what the program is.
    pub fn set_build(&self, build: Build<'_>) {
        self.numbers.set_build(build);
    }

    /// Says whether a feature is on; `stage` is `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, on: bool) {
        self.numbers.set_feature(name, stage, on);
    }

    /// Says whether this process holds the lease of that name.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.numbers.set_leader(lease, leads);
    }

    /// Says which version of Kubernetes is emulated, and the oldest one to be compatible with.
    pub fn set_emulation(&self, emulated: &str, min_compatible: &str) {
        self.numbers.set_emulation(emulated, min_compatible);
    }

    /// Shows no more than that.
    pub fn limit(&self, limits: Limits) {
        self.numbers.limit(limits);
    }

    /// Says that a configuration file counts from now on, by the hexadecimal SHA-256 of its content.
    pub fn set_config(&self, sha256: &str) {
        self.numbers.set_config(sha256);
    }

    /// Says that the configuration file has changed and was refused.
    pub fn set_config_refused(&self) {
        self.numbers.set_config_refused();
    }

    /// Where numbers are kept.
    pub(crate) fn numbers(&self) -> &harbormaster_metrics::Metrics {
        &self.numbers
    }

    /// The engine behind `engine` schedules until the guard goes: an engine lives as long as somebody can tell it something.
    pub(crate) fn schedules(&self, engine: mpsc::Sender<EngineMessage>) -> Scheduling {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        Scheduling(self.clone())
    }
}

/// This process schedules.
pub(crate) struct Scheduling(Metrics);

impl Drop for Scheduling {
    fn drop(&mut self) {
        *self.0.engine.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
