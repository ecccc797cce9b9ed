//! `harbormaster-oracle bench`.

use anyhow::Result;
use harbormaster_oracle::bench::{Options, run};

use super::{HarbormasterArguments, Side};
use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Nodes with 4 CPUs, 32 GiB and 110 pods each.
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Pods that are measured, 100m and 500 MiB each.
    #[arg(long, default_value_t = 5000)]
    pods: usize,
    /// Pods that exist when the scheduler starts; at least one.
    #[arg(long, default_value_t = 100)]
    init_pods: usize,
    /// How often each scheduler runs, in the order A B B A.
    #[arg(long, default_value_t = 2)]
    pairs: usize,
    /// Threads that create pods.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Create the measured pods before the scheduler starts.
    #[arg(long)]
    backlog: bool,
    /// Disable the plugins that Harbormaster does not have yet on both sides.
    #[arg(long)]
    foundation: bool,
    /// Who is compared with kube-scheduler; Harbormaster is built optimised.
    #[arg(long, value_enum, default_value_t = Side::Harbormaster)]
    right: Side,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options {
            nodes: self.nodes,
            pods: self.pods.max(2),
            init_pods: self.init_pods,
            pairs: self.pairs.max(1),
            threads: self.threads,
            backlog: self.backlog,
            foundation: self.foundation,
        };
        let left = self.harbormaster.contender(Side::KubeScheduler, true)?;
        let right = self.harbormaster.contender(self.right, true)?;
        let report = run(&options, [&left, &right], |name, run| {
            eprintln!(
                "{name}: {:.0} pods/s, {:.3} CPU-ms/pod, {:.0} MiB, first binding after {:.2} s",
                run.pods_per_second, run.cpu_ms_per_pod, run.resident_mib, run.start_to_first_binding_s
            );
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(true)
    }
}
