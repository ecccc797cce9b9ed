//! The handle that everybody shares: who records, and who shows.

use std::sync::Arc;

use harbormaster_core::{Engine, meter::Meter};
use prometheus::{GaugeVec, Registry};

use crate::{
    attempts::Attempts,
    client::{self, ClientMeter},
    encode, families as table,
    gauges::Gauges,
    process::Process,
    recorder::{self, Recorder},
};

/// The metrics of one process. Clones share all numbers.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    registry: Registry,
    engine: Arc<recorder::Families>,
    gauges: Gauges,
    client: Arc<client::Families>,
    process: Process,
    features: GaugeVec,
    build_info: GaugeVec,
    version_info: GaugeVec,
    master_status: GaugeVec,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The release of Kubernetes whose behaviour this is, and the oldest one that it is compatible with.
const RELEASE: (&str, &str) = ("1", "36");
const MIN_COMPATIBLE: &str = "1.35";

/// What a program says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The program's own version.
    pub version: &'a str,
    /// The commit that it was made from; empty if not known.
    pub commit: &'a str,
}

impl Metrics {
    /// All numbers at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        Self(Arc::new(Parts {
            engine: Arc::new(recorder::Families::new(&registry)),
            gauges: Gauges::new(&registry),
            client: Arc::new(client::Families::new(&registry)),
            process: Process::new(&registry),
            features: table::FEATURE_ENABLED.gauges(&registry),
            build_info: table::BUILD_INFO.gauges(&registry),
            version_info: table::VERSION_INFO.gauges(&registry),
            master_status: table::MASTER_STATUS.gauges(&registry),
            registry,
        }))
    }

    /// What an engine is lent: see `EngineConfig::meter`. Each engine needs one of its own.
    pub fn meter(&self) -> Arc<dyn Meter> {
        self.measured().0
    }

    /// The same, with what it knows of single attempts.
    pub fn measured(&self) -> (Arc<dyn Meter>, Attempts) {
        let recorder = Recorder::new(self.0.engine.clone());
        let attempts = recorder.attempts();
        (Arc::new(recorder), attempts)
    }

    /// Says how much the engine keeps. Cheap: a few numbers are read and stored.
    pub fn publish(&self, engine: &Engine) {
        self.0.gauges.publish(engine);
    }

    /// Counts requests to that server, `host:port`.
    pub fn client(&self, host: impl Into<String>) -> ClientMeter {
        ClientMeter::new(self.0.client.clone(), host.into())
    }

    /// Says what the program is.
    pub fn set_build(&self, build: Build<'_>) {
        let platform = format!("{}/{}", std::env::consts::OS, architecture());
        let (Build { version, commit }, (major, minor)) = (build, RELEASE);
        let labels = [major, minor, version, commit, "", "", "", "rustc", &platform];
        self.0.build_info.with_label_values(&labels).set(1.0);
        let release = format!("{major}.{minor}");
        self.0.version_info.with_label_values(&["kube", &release, &release, MIN_COMPATIBLE]).set(1.0);
    }

    /// Says whether a feature is on; `stage` is `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, on: bool) {
        self.0.features.with_label_values(&[name, stage]).set(f64::from(u8::from(on)));
    }

    /// Says whether this process holds the lease of that name.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.0.master_status.with_label_values(&[lease]).set(f64::from(u8::from(leads)));
    }

    /// The page `/metrics`; its content type is [`encode::CONTENT_TYPE`].
    pub fn page(&self) -> String {
        self.0.process.read();
        encode::page(&self.0.registry.gather())
    }
}

/// As Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests;
