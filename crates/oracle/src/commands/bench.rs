//! `harbormaster-oracle bench`.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use harbormaster_oracle::{
    bench::{Options, PLAIN, PLUGIN_WORKLOADS, SizeOverrides, WORKLOADS, Workload, run},
    components::FamilyBinary,
    harbormaster,
    scheduler::Contender,
};

use super::{ContenderName, HarbormasterArguments, KubeArguments};
use crate::Format;

/// Name that selects every workload of the release that kube-scheduler can run.
const ALL: &str = "all";

/// Name that selects plain pods and every workload that the scheduler of scheduler-plugins can run.
const PLUGINS: &str = "plugins";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Workload to run; may be repeated. If one of them needs a plugin of scheduler-plugins, `harbormaster-plugins` is
    /// compared with the scheduler of scheduler-plugins
    #[arg(
        long = "workload",
        value_name = "NAME",
        default_value = PLAIN,
        ignore_case = true,
        value_parser = PossibleValuesParser::new(names()),
    )]
    workloads: Vec<String>,
    /// Number of nodes, each with 4 CPUs, 32 GiB and room for 110 pods [default: the workload's]
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of measured pods [default: the workload's]
    #[arg(long)]
    pods: Option<usize>,
    /// Number of pods that are bound before the scheduler starts [default: the workload's]
    #[arg(long)]
    init_pods: Option<usize>,
    /// Factor by which the workloads' sizes are multiplied
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Number of runs of each scheduler, in the order A B B A
    #[arg(long, default_value_t = 2)]
    pairs: usize,
    /// Number of threads that create pods
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Create this many pods per second, and measure the time from each pod's creation to its binding
    #[arg(long, value_name = "PODS", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "backlog")]
    rate: Option<u32>,
    /// Create the measured pods before the scheduler starts
    #[arg(long)]
    backlog: bool,
    /// Scheduler to compare with kube-scheduler; Harbormaster is built as for a release
    #[arg(long, value_enum, default_value_t = ContenderName::Harbormaster)]
    right: ContenderName,
    /// Compare with this build of Harbormaster instead of kube-scheduler
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// Write a chart of the CPU time per pod to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let Self { nodes, init_pods, pods, scale, .. } = *self;
        let workloads = self.workloads();
        let with_plugins = workloads.iter().any(|workload| workload.has_plugin());
        let options = Options {
            release: self.kube.release,
            workloads: workloads.clone(),
            sizing: SizeOverrides { nodes, init_pods, pods, scale },
            pairs: self.pairs.max(1),
            threads: self.threads,
            rate: self.rate,
            backlog: self.backlog,
        };
        let left = match &self.baseline {
            Some(file) => Contender::Baseline(harbormaster::existing(file.clone())?),
            None => self.contender(ContenderName::KubeScheduler, with_plugins)?,
        };
        let right = self.contender(self.right, with_plugins)?;
        let report = run(&options, [&left, &right], |workload, name, run| {
            eprintln!(
                "{workload}, {name}: {:.0} pods/s, {:.3} CPU-ms/pod, {:.0} MiB, first binding after {:.2} s, {} events, \
                 the last {:.1} s after the last binding",
                run.pods_per_second,
                run.cpu_ms_per_pod,
                run.resident_mib,
                run.start_to_first_binding_s,
                run.events,
                run.last_event_s
            );
        })?;
        if let Some(path) = &self.svg {
            fs::write(path, report.svg()).with_context(|| format!("writing {}", path.display()))?;
        }
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        if let Some(workload) = report.failures().next() {
            bail!("{} failed: {}", workload.name, workload.failure.as_deref().unwrap_or_default());
        }
        Ok(true)
    }

    /// Returns a contender, which contains the plugins of scheduler-plugins if `with_plugins` is true.
    fn contender(&self, name: ContenderName, with_plugins: bool) -> Result<Contender> {
        if !with_plugins {
            return Ok(self.harbormaster.contender(name, true)?);
        }
        Ok(match name {
            ContenderName::KubeScheduler => {
                Contender::SchedulerPlugins(FamilyBinary::scheduler()?.path().to_owned())
            }
            ContenderName::Harbormaster => Contender::Harbormaster(self.harbormaster.plugins_binary(true)?),
        })
    }

    /// Returns the selected workloads in the order of their definition, so that plain pods come first.
    fn workloads(&self) -> Vec<&'static Workload> {
        let is_selected = |workload: &&'static Workload| {
            let exists = workload.exists_in(self.kube.release);
            self.workloads.iter().any(|name| {
                let is = |other: &str| name.eq_ignore_ascii_case(other);
                is(workload.name)
                    || is(ALL) && exists && !workload.has_plugin()
                    || is(PLUGINS) && (workload.has_released_plugin() || workload.name == PLAIN)
            })
        };
        WORKLOADS.iter().chain(&PLUGIN_WORKLOADS).filter(is_selected).collect()
    }
}

fn names() -> Vec<&'static str> {
    let workloads = WORKLOADS.iter().chain(&PLUGIN_WORKLOADS);
    workloads.map(|workload| workload.name).chain([ALL, PLUGINS]).collect()
}
