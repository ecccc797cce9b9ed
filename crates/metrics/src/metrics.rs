//! The handle that recorders and the metrics page share.

use std::{
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use harbormaster_core::{Engine, meter::Meter};
use prometheus::{GaugeVec, IntCounter, Registry};

use crate::{
    attempts::Attempts,
    client::{self, ClientMeter},
    encode, families as table,
    gauges::Gauges,
    limits::Limits,
    process::Process,
    recorder::{self, Recorder},
};

/// The metrics of one process. Clones share all values.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    engine: Arc<recorder::Families>,
    gauges: Gauges,
    client: Arc<client::Families>,
    process: Process,
    features: GaugeVec,
    build_info: GaugeVec,
    version_info: GaugeVec,
    master_status: GaugeVec,
    config_info: GaugeVec,
    config_successful: GaugeVec,
    config_time: GaugeVec,
    disabled: IntCounter,
    limits: OnceLock<Limits>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The Kubernetes release whose behavior is implemented.
const RELEASE: (&str, &str) = ("1", "36");
/// The oldest release that this release is compatible with.
const MIN_COMPATIBLE: &str = "1.35";

/// Version information of a program.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The program's version.
    pub version: &'a str,
    /// The commit it was built from; empty if unknown.
    pub commit: &'a str,
}

impl Metrics {
    /// Creates the metrics, all at zero.
    pub fn new() -> Self {
        let registry = Registry::new();
        Self(Arc::new(Inner {
            engine: Arc::new(recorder::Families::new(&registry)),
            gauges: Gauges::new(&registry),
            client: Arc::new(client::Families::new(&registry)),
            process: Process::new(&registry),
            features: table::FEATURE_ENABLED.gauges(&registry),
            build_info: table::BUILD_INFO.gauges(&registry),
            version_info: table::VERSION_INFO.gauges(&registry),
            master_status: table::MASTER_STATUS.gauges(&registry),
            config_info: table::CONFIG_INFO.gauges(&registry),
            config_successful: table::CONFIG_SUCCESSFUL.gauges(&registry),
            config_time: table::CONFIG_TIME.gauges(&registry),
            disabled: table::DISABLED_METRICS.counters(&registry).with_label_values::<&str>(&[]),
            limits: OnceLock::new(),
            registry,
        }))
    }

    /// Creates a meter for `EngineConfig::meter`. Each engine needs its own.
    pub fn meter(&self) -> Arc<dyn Meter> {
        self.meter_with_attempts().0
    }

    /// Creates a meter and a reader of its attempts' timings.
    pub fn meter_with_attempts(&self) -> (Arc<dyn Meter>, Attempts) {
        let recorder = Recorder::new(self.0.engine.clone());
        let attempts = recorder.attempts();
        (Arc::new(recorder), attempts)
    }

    /// Updates the gauges of the engine's queue and cache. Cheap: reads and stores a few numbers.
    pub fn publish(&self, engine: &Engine) {
        self.0.gauges.publish(engine);
    }

    /// Returns a meter for requests to the server at `host:port`.
    pub fn client(&self, host: impl Into<String>) -> ClientMeter {
        ClientMeter::new(self.0.client.clone(), host.into())
    }

    /// Sets the program's version information.
    pub fn set_build(&self, build: Build<'_>) {
        let platform = format!("{}/{}", std::env::consts::OS, architecture());
        let (Build { version, commit }, (major, minor)) = (build, RELEASE);
        let labels = [major, minor, version, commit, "", "", "", "rustc", &platform];
        self.0.build_info.with_label_values(&labels).set(1.0);
        let release = format!("{major}.{minor}");
        self.0.version_info.with_label_values(&["kube", &release, &release, MIN_COMPATIBLE]).set(1.0);
    }

    /// Records whether a feature is enabled; `stage` is `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, on: bool) {
        self.0.features.with_label_values(&[name, stage]).set(f64::from(u8::from(on)));
    }

    /// Records whether this process holds the lease.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.0.master_status.with_label_values(&[lease]).set(f64::from(u8::from(leads)));
    }

    /// Sets the emulated Kubernetes version and the oldest compatible version, by default `1.36` and `1.35`.
    pub fn set_emulation(&self, emulated: &str, min_compatible: &str) {
        let (major, minor) = RELEASE;
        self.0.version_info.reset();
        let labels = ["kube", &format!("{major}.{minor}"), emulated, min_compatible];
        self.0.version_info.with_label_values(&labels).set(1.0);
    }

    /// Limits [`Self::page`]. Only the first call has an effect.
    pub fn limit(&self, limits: Limits) {
        let disabled = limits.disabled();
        if self.0.limits.set(limits).is_ok() {
            self.0.disabled.inc_by(disabled as u64);
        }
    }

    /// Records that a configuration file is now in effect, identified by the hexadecimal SHA-256 of its content.
    pub fn set_config(&self, sha256: &str) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.0.config_info.reset();
        self.0.config_info.with_label_values(&[sha256]).set(1.0);
        self.0.config_successful.with_label_values::<&str>(&[]).set(1.0);
        self.0.config_time.with_label_values::<&str>(&[]).set(now.as_secs_f64());
    }

    /// Records that a change to the configuration file was rejected.
    pub fn set_config_refused(&self) {
        self.0.config_successful.with_label_values::<&str>(&[]).set(0.0);
    }

    /// Returns the `/metrics` page; its content type is [`encode::CONTENT_TYPE`].
    pub fn page(&self) -> String {
        self.0.process.refresh();
        let families = self.0.registry.gather();
        match self.0.limits.get() {
            Some(limits) => encode::page(&limits.apply(families)),
            None => encode::page(&families),
        }
    }
}

/// Go's name of the processor architecture.
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
