//! The cluster that a command asks about, from manifests, and the scheduler that decides in it.

use std::{
    fmt,
    io::{self, IsTerminal as _},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use harbormaster_core::EngineConfig;
use harbormaster_framework::extender::Extenders;
use harbormaster_manifests::{Validate, edits::Step};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Reading};
use harbormaster_yaml::Source;

use super::{Program, SIMULATED, features, files, manifest_files};
use crate::{scheduler, witness::Witness};

/// Format of an answer about the cluster.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Table,
    Json,
}

/// Arguments that name the cluster and the scheduler.
#[derive(Debug, Args)]
pub(crate) struct ClusterOptions {
    /// Manifests (YAML or JSON): files, directories, dumps (output of the command dump or of kubectl get -o yaml), or -
    /// for standard input. Missing pods of workloads are created; a DaemonSet gets one pod on each eligible node, and a
    /// CronJob gets the pods of one run. Claims are bound to volumes; missing volumes are provisioned
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// Treatment of unknown and duplicate fields: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub(crate) validate: Validate,
    /// Also create the pods of workloads that come from a cluster (they have a uid) and have no pods in the manifests
    #[arg(long)]
    fill: bool,
    /// Make pods pending again if their node is missing from the input; without this flag, such pods are ignored. Pods
    /// of DaemonSets and static pods are removed with their nodes
    #[arg(long)]
    reschedule_missing: bool,
    /// A KubeSchedulerConfiguration
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Decide exactly as kube-scheduler does with parallelism 1
    #[arg(long)]
    parity: bool,
    /// Do not call the extenders of the configuration
    #[arg(long)]
    no_extenders: bool,
    /// Version of Kubernetes whose kube-scheduler is reproduced: 1.33 to 1.37. Versions before 1.36 differ from 1.36
    /// only in their feature gates
    #[arg(long, value_name = "VERSION", default_value_t = SIMULATED.to_string())]
    emulated_version: String,
    /// Comma-separated list of pairs: Gate=true,Other=false
    #[arg(long, value_name = "LIST")]
    feature_gates: Vec<String>,
}

/// A cluster, and the scheduler that decides in it.
pub(crate) struct Loaded {
    pub(crate) engine: EngineConfig,
    pub(crate) cluster: Inventory,
    pub(crate) extenders: CalledExtenders,
    /// Warnings and notes for the user, one a line.
    lines: Vec<String>,
}

impl Loaded {
    /// Prints the warnings and notes to standard error.
    pub(crate) fn print_notes(&self) {
        self.lines.iter().for_each(|line| eprintln!("{line}"));
    }
}

/// The extenders that a simulation calls.
pub(crate) struct CalledExtenders(Option<Arc<Witness>>);

impl ClusterOptions {
    /// Reads the cluster and the configuration. Prints warnings and notes to standard error.
    ///
    /// # Errors
    /// What is wrong with the flags, the configuration or a manifest.
    pub(crate) fn load(&self, program: &Program) -> Result<Loaded, String> {
        let loaded = self.load_edited(program, &self.sources()?, &[])?;
        loaded.print_notes();
        Ok(loaded)
    }

    /// Reads the manifests as text.
    ///
    /// # Errors
    /// The first file that cannot be read.
    pub(crate) fn sources(&self) -> Result<Vec<Source>, String> {
        manifest_files::read_all(&self.files)
    }

    /// Reads the cluster, with edits, and the configuration. Prints nothing.
    ///
    /// # Errors
    /// If the flags, the configuration, a manifest or an edit are wrong.
    pub(crate) fn load_edited(
        &self,
        program: &Program,
        sources: &[Source],
        edits: &[Step],
    ) -> Result<Loaded, String> {
        let features = features(&self.emulated_version, &self.feature_gates)?;
        let choices = Choices { features, parity: self.parity, ..program.choices() };
        let config = self.config.as_deref().map(files::read).transpose()?;
        let config = config.as_ref().map(|source| (source.name.as_str(), source.text.as_str()));
        let mut setup = Setup::read(config, &choices).map_err(|e| e.to_string())?;
        if self.no_extenders {
            setup.engine.extenders = Extenders::default();
        }
        let full = !setup.engine.extenders.is_empty();
        let reading = Reading {
            validate: self.validate,
            fill: self.fill,
            reschedule_missing: self.reschedule_missing,
            full,
            features,
        };
        let mut cluster = Inventory::edited(sources, reading, edits).map_err(|e| e.to_string())?;
        let witness = scheduler::lend_extenders(&mut setup, &mut cluster).map_err(|e| e.to_string())?;
        let warnings = setup.warnings.iter().map(|warning| format!("warning: {warning}"));
        let custom = cluster.custom_notices(&setup.engine);
        let notes = cluster.notices.iter().chain(&custom).map(|notice| format!("note: {notice}"));
        let lines = warnings.chain(notes).collect();
        Ok(Loaded { engine: setup.engine, cluster, extenders: CalledExtenders(witness), lines })
    }
}

impl CalledExtenders {
    /// Prints the extenders' warnings.
    ///
    /// # Errors
    /// If a call of an extender failed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(witness) = &self.0 else { return Ok(()) };
        if let Some(failure) = witness.failure() {
            return Err(format!(
                "{failure}\nhelp: --no-extenders simulates without the extenders of the configuration"
            ));
        }
        witness.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
        Ok(())
    }
}

/// Time after which a simulation shows its progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between two progress updates.
const REFRESH: Duration = Duration::from_millis(100);

/// A line on stderr that shows the progress of a long simulation.
pub(crate) struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    wanted: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), shown: None, wanted: io::stderr().is_terminal() }
    }

    /// Replaces the line. Most calls print nothing.
    pub(crate) fn show(&mut self, line: fmt::Arguments<'_>) {
        if !self.wanted || self.begun.elapsed() < PATIENCE {
            return;
        }
        if self.shown.is_none_or(|at| at.elapsed() >= REFRESH) {
            eprint!("\r{line} ");
            self.shown = Some(Instant::now());
        }
    }

    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
