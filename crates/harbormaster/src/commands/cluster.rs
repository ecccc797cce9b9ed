//! The cluster that a command asks about, from manifests, and the scheduler that decides in it.

use std::{
    fmt,
    io::{self, IsTerminal as _},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use harbormaster_api::Release;
use harbormaster_config::{Setting, with_settings};
use harbormaster_core::EngineConfig;
use harbormaster_framework::extender::Extenders;
use harbormaster_manifests::{
    Validate,
    edits::{Edit, Step},
};
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Reading};
use harbormaster_yaml::Source;

use super::{
    Program, SIMULATED,
    export::{Access, Export},
    features, files, manifest_files,
};
use crate::{scheduler, witness::Witness};

/// Arguments that name the cluster and the scheduler.
#[derive(Debug, Args)]
pub(crate) struct ClusterOptions {
    /// Manifests (YAML or JSON): files, directories, dumps (output of the command dump or of kubectl get -o yaml), or -
    /// for standard input. Missing pods of workloads are created; a DaemonSet gets one pod on each eligible node, and a
    /// CronJob gets the pods of one run. Claims are bound to volumes; missing volumes are provisioned. Without manifests,
    /// the objects of the kubeconfig's cluster are read; with manifests, they are read first if --kubeconfig or --context
    /// is given, and the manifests add to them and replace them
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,
    #[command(flatten)]
    pub(super) access: Access,
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
    /// only in their feature gates [default: that of the cluster; 1.37 for manifests]
    #[arg(long, value_name = "VERSION")]
    emulated_version: Option<String>,
    /// Comma-separated list of pairs: Gate=true,Other=false
    #[arg(long, value_name = "LIST")]
    feature_gates: Vec<String>,
}

/// The text of all manifests, and of the configuration.
pub(crate) struct ClusterText {
    sources: Vec<Source>,
    config: Option<Source>,
    /// Release of Kubernetes that the manifests are for.
    release: Release,
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
    /// Returns true if the flags name a configuration.
    pub(crate) fn has_config(&self) -> bool {
        self.config.is_some()
    }

    /// Reads the cluster and the configuration, with edits. Prints warnings and notes to standard error.
    ///
    /// # Errors
    /// What is wrong with the flags, the configuration or a manifest.
    pub(crate) fn load(&self, program: &Program, edits: &[Step]) -> Result<Loaded, String> {
        let loaded = self.load_edited(program, &self.text(program)?, edits)?;
        loaded.print_notes();
        Ok(loaded)
    }

    /// Reads the manifests as text, those of a cluster first.
    ///
    /// # Errors
    /// If a file or the cluster cannot be read.
    pub(crate) fn text(&self, program: &Program) -> Result<ClusterText, String> {
        self.text_with(program, None)
    }

    /// Reads like [`Self::text`]. `config` is the configuration if the flags name none.
    ///
    /// # Errors
    /// If a file or the cluster cannot be read.
    pub(crate) fn text_with(&self, program: &Program, config: Option<Source>) -> Result<ClusterText, String> {
        let config = self.config.as_deref().map(files::read).transpose()?.or(config);
        let mut text = ClusterText { sources: Vec::new(), config, release: SIMULATED };
        if self.files.is_empty() || self.access.is_given() {
            self.read_cluster(program, &mut text)?;
        }
        text.sources.extend(manifest_files::read_all(&self.files)?);
        Ok(text)
    }

    /// Adds the objects of the kubeconfig's cluster, as a list in JSON.
    fn read_cluster(&self, program: &Program, text: &mut ClusterText) -> Result<(), String> {
        let export = Export::new(program, text.config.as_ref())?;
        let mut list = String::from(r#"{"apiVersion":"v1","kind":"List","items":["#);
        let mut progress = Progress::new();
        let mut count = 0;
        let read = export.read(&self.access, &mut |object| {
            list += if count == 0 { "\n" } else { ",\n" };
            list += &object.to_string();
            count += 1;
            progress.show(format_args!("{count} objects read"));
            Ok(())
        });
        progress.clear();
        list += "\n]}\n";
        let minor = read.map_err(|error| match self.access.is_given() {
            true => error,
            false => format!("{error}\nhelp: -f names manifests, and --kubeconfig and --context a cluster"),
        })?;
        text.release = minor.map_or(SIMULATED, Release::nearest);
        text.sources.push(Source { name: "the cluster".to_owned(), text: list });
        Ok(())
    }

    /// Reads the cluster, with edits, and the configuration. Prints nothing.
    ///
    /// # Errors
    /// If the flags, the configuration, a manifest or an edit are wrong.
    pub(crate) fn load_edited(
        &self,
        program: &Program,
        text: &ClusterText,
        edits: &[Step],
    ) -> Result<Loaded, String> {
        let version = self.emulated_version.clone().unwrap_or_else(|| text.release.to_string());
        let features = features(&version, &self.feature_gates)?;
        let choices = Choices { features, parity: self.parity, ..program.choices() };
        let mut setup = setup(text.config.as_ref(), &choices, edits)?;
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
        let mut cluster = Inventory::edited(&text.sources, reading, edits).map_err(|e| e.to_string())?;
        let witness = scheduler::lend_extenders(&mut setup, &mut cluster).map_err(|e| e.to_string())?;
        let warnings = setup.warnings.iter().map(|warning| format!("warning: {warning}"));
        let custom = cluster.custom_notices(&setup.engine);
        let notes = cluster.notices.iter().chain(&custom).map(|notice| format!("note: {notice}"));
        let lines = warnings.chain(notes).collect();
        Ok(Loaded { engine: setup.engine, cluster, extenders: CalledExtenders(witness), lines })
    }
}

/// Reads the configuration, and sets the fields that the edits name.
fn setup(config: Option<&Source>, choices: &Choices, edits: &[Step]) -> Result<Setup, String> {
    let config = config.map(|source| (source.name.as_str(), source.text.as_str()));
    let setup = Setup::read(config, choices).map_err(|e| e.to_string())?;
    let (steps, settings): (Vec<&Step>, Vec<Setting>) = edits.iter().filter_map(setting).unzip();
    if settings.is_empty() {
        return Ok(setup);
    }
    let text = config.map(|(_, text)| text);
    let text = with_settings(text, &setup.config, &settings)
        .map_err(|(at, why)| format!("{}: {why}", named(steps[at], &settings[at])))?;
    let name: Vec<String> = steps.iter().zip(&settings).map(|(step, setting)| named(step, setting)).collect();
    let changed = Setup::read(Some((&name.join(" ")[..], &text)), choices);
    changed.map_err(|errors| errors.without_positions().to_string())
}

/// Returns the change of the configuration that a step makes, if it makes one.
fn setting(step: &Step) -> Option<(&Step, Setting)> {
    match &step.edit {
        Edit::Set { path, value } => Some((step, Setting { path: path.clone(), value: value.clone() })),
        _ => None,
    }
}

/// Returns the name of a setting for errors: the flag, or the place in a file.
fn named(step: &Step, setting: &Setting) -> String {
    match step.line {
        Some(line) => format!("{}:{line}: {}", step.source, step.field),
        None => format!("{} {setting}", step.source),
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
