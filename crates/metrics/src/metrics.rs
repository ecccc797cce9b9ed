//! The handle that recorders and the metrics page share.

use std::{
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use harbormaster_api::{Release, features::Features};
use harbormaster_core::{Engine, meter::Meter};
use prometheus::{GaugeVec, IntCounter, IntCounterVec};

use crate::{
    attempts::Attempts,
    client::{self, ClientMeter},
    encode, families as table,
    gauges::Gauges,
    limits::Limits,
    process::Process,
    recorder::{self, Recorder},
    series::Registry,
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
    shadow_pods: IntCounterVec,
    disabled: IntCounter,
    limits: OnceLock<Limits>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

/// Major version of Kubernetes.
const MAJOR: &str = "1";

/// Version information of a program.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The program's version.
    pub version: &'a str,
    /// The commit it was built from; empty if unknown.
    pub commit: &'a str,
}

impl Metrics {
    /// Creates the metrics of a release with its default features, all at zero.
    pub fn of(release: Release) -> Self {
        Self::with(Features::of(release))
    }

    /// Creates the metrics that exist with these features, all at zero.
    pub fn with(features: Features) -> Self {
        let registry = Registry::of(features);
        Self(Arc::new(Inner {
            engine: Arc::new(recorder::Families::new(&registry)),
            gauges: Gauges::new(&registry),
            client: Arc::new(client::Families::new(&registry)),
            process: Process::new(&registry),
            features: registry.gauges(&table::FEATURE_ENABLED),
            build_info: registry.gauges(&table::BUILD_INFO),
            version_info: registry.gauges(&table::VERSION_INFO),
            master_status: registry.gauges(&table::MASTER_STATUS),
            config_info: registry.gauges(&table::CONFIG_INFO),
            config_successful: registry.gauges(&table::CONFIG_SUCCESSFUL),
            config_time: registry.gauges(&table::CONFIG_TIME),
            shadow_pods: registry.counters(&table::SHADOW_PODS),
            disabled: registry.counters(&table::DISABLED_METRICS).with_label_values::<&str>(&[]),
            limits: OnceLock::new(),
            registry,
        }))
    }

    /// Creates a meter for `EngineConfig::meter`. Each engine needs its own.
    pub fn meter(&self) -> Arc<dyn Meter> {
        self.meter_with_attempts().0
    }

    /// Creates a meter, and a reader of the timings of the attempts that the meter measures.
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
        let Build { version, commit } = build;
        let release = self.0.registry.release();
        let minor = release.minor().to_string();
        let labels = [MAJOR, &minor, version, commit, "", "", "", "rustc", &platform];
        self.0.build_info.with_label_values(&labels).set(1.0);
        self.set_emulation(&release.to_string(), &format!("{MAJOR}.{}", release.minor() - 1));
    }

    /// Records whether a feature is enabled; `stage` is `ALPHA`, `BETA`, `DEPRECATED`, or empty.
    pub fn set_feature(&self, name: &str, stage: &str, on: bool) {
        self.0.features.with_label_values(&[name, stage]).set(f64::from(u8::from(on)));
    }

    /// Records whether this process holds the lease.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.0.master_status.with_label_values(&[lease]).set(f64::from(u8::from(leads)));
    }

    /// Sets the emulated Kubernetes version and the oldest compatible version. By default, these are the release and the
    /// one before.
    pub fn set_emulation(&self, emulated: &str, min_compatible: &str) {
        let release = self.0.registry.release().to_string();
        self.0.version_info.reset();
        let labels = ["kube", &release, emulated, min_compatible];
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

    /// Counts a decision of another scheduler that was compared.
    pub fn shadowed(&self, result: &str) {
        self.0.shadow_pods.with_label_values(&[result]).inc();
    }

    /// Returns the processor time that this process has used, in seconds, and its resident memory in bytes. Both are
    /// zero if the system does not tell.
    pub fn usage(&self) -> (f64, f64) {
        self.0.process.refresh();
        self.0.process.usage()
    }

    /// Returns the number of pods that got a node, and the sum of the times that they waited, in seconds.
    pub fn placed(&self) -> (u64, f64) {
        self.0.engine.placed()
    }

    /// Returns the `/metrics` page; its content type is [`encode::CONTENT_TYPE`].
    pub fn page(&self) -> String {
        self.0.process.refresh();
        let limits = self.0.limits.get();
        let families = self.0.registry.gather(limits.is_some_and(Limits::shows_hidden));
        match limits {
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
        "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
        "powerpc64" => "ppc64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests;
