//! `harbormaster simulate`.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use harbormaster_config::FeatureGates;
use harbormaster_sim::{Choices, Cluster, Reading, Report, Validate, setup};

use crate::{Ended, Failed, files, table};

/// What `harbormaster simulate` takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Manifests (YAML or JSON): files, directories, dumps of `kubectl get all,nodes -A -o yaml`, or - for standard
    /// input. Workloads get the pods that they lack: a DaemonSet one on each node that it allows, a CronJob those of one
    /// run
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// What becomes of fields that nobody knows or that are given twice: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: Validate,
    /// Make the pods of workloads that come from a cluster (they have a uid) and have none in the manifests, too
    #[arg(long)]
    fill: bool,
    /// A KubeSchedulerConfiguration
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Show what every plugin says about every node, at the time of the pod's last attempt
    #[arg(long)]
    explain: bool,
    /// Judge every pod on the cluster as it is given, without placing the others
    #[arg(long)]
    independent: bool,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Decide exactly as kube-scheduler with parallelism 1
    #[arg(long)]
    parity: bool,
    /// Comma-separated list of pairs: Gate=true,Other=false
    #[arg(long, value_name = "LIST")]
    feature_gates: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
}

/// A simulation that takes longer shows how far it is.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two signs of life.
const REFRESH: Duration = Duration::from_millis(100);

pub(crate) fn main(options: &Options) -> Ended {
    match simulate(options).map_err(Some).and_then(|report| print(options, &report)) {
        Ok(()) => Ok(()),
        Err(Some(why)) => {
            eprintln!("error: {why}");
            Err(Failed)
        }
        // Whoever read the result has seen enough.
        Err(None) => Ok(()),
    }
}

fn simulate(options: &Options) -> Result<Report, String> {
    let gates =
        FeatureGates::parse(options.feature_gates.iter().map(String::as_str)).map_err(|e| e.to_string())?;
    let choices = Choices { features: gates.features(), parity: options.parity, ..Choices::default() };
    let config = options.config.as_deref().map(files::read).transpose()?;
    let config = config.as_ref().map(|source| (source.name.as_str(), source.text.as_str()));
    let setup = setup::setup(config, &choices).map_err(|e| e.to_string())?;
    let reading = Reading { validate: options.validate, fill: options.fill };
    let cluster =
        Cluster::from_sources(&files::read_all(&options.files)?, reading).map_err(|e| e.to_string())?;
    for warning in &setup.warnings {
        eprintln!("warning: {warning}");
    }
    for notice in &cluster.notices {
        eprintln!("note: {notice}");
    }
    if options.independent {
        return Ok(harbormaster_sim::independent(&setup.engine, cluster, options.explain));
    }
    let mut progress = Progress::new();
    let report = harbormaster_sim::simulate(setup.engine, cluster, options.explain, &mut |done, of| {
        progress.show(done, of);
    });
    progress.clear();
    Ok(report)
}

/// Prints the result. `Err(None)` if nobody listens any more.
fn print(options: &Options, report: &Report) -> Result<(), Option<String>> {
    let stdout = io::stdout();
    let text = match options.output {
        Output::Json => serde_json::to_string_pretty(report).map_err(|e| Some(e.to_string()))? + "\n",
        Output::Table => {
            let style = table::Style {
                colours: stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
                fit_terminal: stdout.is_terminal(),
            };
            table::render(report, style)
        }
    };
    match stdout.lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Err(None),
        Err(e) => Err(Some(format!("standard output: {e}"))),
        Ok(()) => Ok(()),
    }
}

/// A line on stderr that tells how far a long simulation is.
struct Progress {
    begun: Instant,
    shown: Option<Instant>,
    wanted: bool,
}

impl Progress {
    fn new() -> Self {
        Self { begun: Instant::now(), shown: None, wanted: io::stderr().is_terminal() }
    }

    fn show(&mut self, done: usize, of: usize) {
        if !self.wanted || self.begun.elapsed() < PATIENCE {
            return;
        }
        if self.shown.is_none_or(|at| at.elapsed() >= REFRESH) {
            eprint!("\r{done} of {of} pods placed ");
            self.shown = Some(Instant::now());
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
