//! `harbormaster-oracle bench`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use harbormaster_oracle::{
    bench::{
        Catalog, Listing, Measurement, Options, PLAIN, PLUGIN_WORKLOADS, Plan, SizeOverrides, WORKLOADS,
        Workload, profile, run,
    },
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

/// Options that apply only to the workloads that the program contains.
const BUILT_IN: [&str; 7] = ["workloads", "nodes", "pods", "init_pods", "scale", "rate", "backlog"];

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
    /// Run the workloads of a configuration file of Kubernetes' scheduler_perf: a file, or the name of its folder in the
    /// sources of Kubernetes, such as `affinity`
    #[arg(long, value_name = "FILE", conflicts_with_all = BUILT_IN)]
    perf_config: Option<String>,
    /// Run only these workloads of scheduler_perf: TESTCASE or TESTCASE/WORKLOAD, where `*` stands for any text; may be
    /// repeated. Without --perf-config, all configuration files are searched
    #[arg(long = "perf-test", value_name = "NAME", conflicts_with_all = BUILT_IN)]
    perf_tests: Vec<String>,
    /// List the workloads of scheduler_perf, their parameters, and why some cannot run
    #[arg(long, conflicts_with_all = BUILT_IN)]
    perf_list: bool,
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
    /// Run only Harbormaster, once, and write a flame graph of the measured phase to this file, as SVG. Needs `perf`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "baseline", "right", "pairs"])]
    flame: Option<PathBuf>,
    /// Write a chart of the CPU time per pod to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        if self.perf_list {
            return self.list();
        }
        let options = self.options()?;
        let with_plugins = options.workloads.iter().any(|workload| workload.has_plugin());
        match &self.flame {
            Some(file) => self.draw_flames(file, &options, with_plugins),
            None => self.compare(&options, with_plugins),
        }
    }

    fn options(&self) -> Result<Options> {
        let Self { nodes, init_pods, pods, scale, .. } = *self;
        let plans = self.plans()?;
        Ok(Options {
            release: self.kube.release,
            workloads: if plans.is_empty() { self.workloads() } else { Vec::new() },
            plans,
            sizing: SizeOverrides { nodes, init_pods, pods, scale },
            pairs: self.pairs.max(1),
            threads: self.threads,
            rate: self.rate,
            backlog: self.backlog,
        })
    }

    /// Returns the selected workloads of `scheduler_perf`.
    fn plans(&self) -> Result<Vec<Plan>> {
        if self.perf_config.is_none() && self.perf_tests.is_empty() {
            return Ok(Vec::new());
        }
        let plans = Catalog::read(self.kube.release, self.perf_config.as_deref())?.plans(&self.perf_tests)?;
        for plan in &plans {
            for note in &plan.notes {
                eprintln!("{}: {note}", plan.name);
            }
        }
        Ok(plans)
    }

    fn list(&self) -> Result<bool> {
        let catalog = Catalog::read(self.kube.release, self.perf_config.as_deref())?;
        let entries = catalog.entries(&self.perf_tests)?;
        match self.output {
            Format::Text => println!("{}", Listing(&entries)),
            Format::Json => println!("{}", serde_json::to_string_pretty(&entries)?),
        }
        Ok(true)
    }

    /// Profiles Harbormaster. Its numbers are not printed as a comparison, because the profiler costs CPU time.
    fn draw_flames(&self, file: &Path, options: &Options, with_plugins: bool) -> Result<bool> {
        let contender = || self.contender(ContenderName::Harbormaster, with_plugins);
        let (measurement, profile) = profile(options, contender)?;
        let name = options.workloads.iter().map(|workload| workload.name);
        let name = name.chain(options.plans.iter().map(|plan| plan.name.as_str())).next().unwrap_or_default();
        print_progress(name, "harbormaster", &measurement);
        fs::write(file, profile.svg(&format!("Harbormaster, {name}: CPU time of the measured phase"))?)
            .with_context(|| format!("writing {}", file.display()))?;
        println!("wrote {}; the profiler takes CPU time, so compare no numbers of this run", file.display());
        Ok(true)
    }

    fn compare(&self, options: &Options, with_plugins: bool) -> Result<bool> {
        let left = match &self.baseline {
            Some(file) => Contender::Baseline(harbormaster::existing(file.clone())?),
            None => self.contender(ContenderName::KubeScheduler, with_plugins)?,
        };
        let right = self.contender(self.right, with_plugins)?;
        let report = run(options, [&left, &right], print_progress)?;
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

fn print_progress(workload: &str, contender: &str, run: &Measurement) {
    let first = run.start_to_first_binding_s;
    let first = first.map_or(String::new(), |seconds| format!("first binding after {seconds:.2} s, "));
    eprintln!(
        "{workload}, {contender}: {:.0} pods/s, {:.3} CPU-ms/pod, {:.0} MiB, {first}{} events, the last {:.1} s after \
         the last binding",
        run.pods_per_second, run.cpu_ms_per_pod, run.resident_mib, run.events, run.last_event_s
    );
}

fn names() -> Vec<&'static str> {
    let workloads = WORKLOADS.iter().chain(&PLUGIN_WORKLOADS);
    workloads.map(|workload| workload.name).chain([ALL, PLUGINS]).collect()
}
