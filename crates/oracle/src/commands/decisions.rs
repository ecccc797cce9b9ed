//! `harbormaster-oracle decisions`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use harbormaster_oracle::decisions::{
    Options, Report, Script, Size, Stage, TRIES, compare_on, shadow, shrink,
};
use harbormaster_oracle::scheduler::Contender;
use serde::Serialize;

use super::{ContenderName, HarbormasterArguments, KubeArguments};
use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Seeds of the scripts: one, or the first and the last as A..B
    #[arg(long, default_value = "1..20", value_parser = parse_seeds)]
    seeds: RangeInclusive<u64>,
    /// Number of nodes in a script
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Number of pods in a script
    #[arg(long, default_value_t = 300)]
    pods: usize,
    /// Number of changes to nodes and pods in a script
    #[arg(long, default_value_t = 40)]
    changes: usize,
    /// Enable opportunistic batching
    #[arg(long)]
    batching: bool,
    /// Give pods claims, and run the volume controller and simulated CSI drivers
    #[arg(long)]
    volumes: bool,
    /// Give pods resource claims and extended resources of device classes, and change devices; with --groups, give
    /// groups resource claims that their members share
    #[arg(long)]
    devices: bool,
    /// Configure extenders that filter, score, bind and preempt
    #[arg(long)]
    extenders: bool,
    /// Let pods form groups, instead of the other features; requires Kubernetes 1.37
    #[arg(long, conflicts_with_all = ["batching", "volumes", "extenders"])]
    groups: bool,
    /// Give groups topology constraints
    #[arg(long, requires = "groups", conflicts_with = "devices")]
    topology: bool,
    /// Run only kube-scheduler, and let `harbormaster shadow --parity` beside it compare all decisions
    #[arg(long, conflicts_with_all = ["batching", "extenders", "groups", "shrink", "right"])]
    shadow: bool,
    /// Run a saved script instead of generated ones
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Minutes to spend on shrinking a script that shows a difference; 0 disables shrinking
    #[arg(long, value_name = "MINUTES", default_value_t = 0)]
    shrink: u64,
    /// Number of scripts to run in parallel, each on its own API server
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Scheduler to compare with kube-scheduler
    #[arg(long, value_enum, default_value_t = ContenderName::Harbormaster)]
    right: ContenderName,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn parse_seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    match text.split_once("..") {
        Some((first, last)) => Ok(number(first)?..=number(last)?),
        None => Ok(number(text)?..=number(text)?),
    }
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let scripts = self.scripts()?;
        if self.shadow {
            let binary = self.harbormaster.binary(false)?;
            let stage = || Stage::audited(self.kube.release);
            let reports = self.each(scripts, stage, |stage, script| {
                shadow(stage, script, &binary).with_context(|| format!("seed {}", script.seed))
            })?;
            return self.print(reports, |report| (report.seed, report.agrees()));
        }
        let right = self.harbormaster.contender(self.right, false)?;
        let has_groups = scripts.iter().any(|script| script.groups);
        let stage = || Stage::start(self.kube.release, has_groups);
        let reports = self.each(scripts, stage, |stage, script| self.compare(stage, script, &right))?;
        self.print(reports, |report| (report.seed, report.finding.is_none()))
    }

    /// Plays every script on a stage, and returns the reports.
    fn each<T: Display + Send>(
        &self,
        scripts: Vec<Script>,
        stage: impl Fn() -> Result<Stage> + Sync,
        play: impl Fn(&mut Stage, &Script) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let scripts = Mutex::new(scripts.into_iter());
        let reports = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            let mut stage = stage()?;
            loop {
                let next = scripts.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(script) = next else { return Ok(()) };
                let report = play(&mut stage, &script)?;
                eprintln!("{report}");
                reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked")))
            })
        })?;
        Ok(reports.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn scripts(&self) -> Result<Vec<Script>> {
        if let Some(path) = &self.script {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            return Ok(vec![serde_json::from_str(&text).with_context(|| path.display().to_string())?]);
        }
        let size = Size { nodes: self.nodes, pods: self.pods, changes: self.changes };
        let options = Options {
            batching: self.batching,
            volumes: self.volumes,
            devices: self.devices,
            extenders: self.extenders,
            groups: self.groups,
            topology: self.topology,
            release: self.kube.release,
        };
        Ok(self.seeds.clone().map(|seed| Script::new(seed, size, options)).collect())
    }

    fn compare(&self, stage: &mut Stage, script: &Script, right: &Contender) -> Result<Report> {
        let left = Contender::KubeScheduler;
        let (seed, steps) = (script.seed, script.steps.len());
        eprintln!("seed {seed}: running {steps} steps with {}, then with {} ...", left.name(), right.name());
        let report = compare_on(stage, script, [&left, right], TRIES);
        let mut report = report.with_context(|| format!("seed {seed}"))?;
        if report.finding.is_some() && self.shrink > 0 {
            eprintln!("{report}\nshrinking the script ...");
            let limit = Duration::from_secs(self.shrink * 60);
            report = shrink(stage, report, script, [&left, right], limit, |script| {
                let objects: usize = script.steps.iter().map(|step| step.objects().len()).sum();
                eprintln!("{} steps, {objects} objects ...", script.steps.len());
            });
        }
        if let Some(finding) = &report.finding {
            let path = std::env::temp_dir().join(format!("harbormaster-decisions-{}.json", script.seed));
            eprintln!("to reproduce: {}", finding.save(self.kube.release, &path)?);
        }
        Ok(report)
    }

    /// Prints the reports, of which `tell` returns the seed and whether there are no differences.
    fn print<T: Display + Serialize>(
        &self,
        mut reports: Vec<T>,
        tell: impl Fn(&T) -> (u64, bool),
    ) -> Result<bool> {
        reports.sort_by_key(|report| tell(report).0);
        let equal = reports.iter().filter(|report| tell(report).1).count();
        match self.output {
            Format::Json => println!("{}", serde_json::to_string_pretty(&reports)?),
            Format::Text => {
                for report in &reports {
                    println!("{report}");
                }
                println!("{equal} of {} scripts without differences", reports.len());
            }
        }
        Ok(equal == reports.len())
    }
}
