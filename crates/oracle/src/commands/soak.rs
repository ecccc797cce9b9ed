//! `harbormaster-oracle soak`.

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use harbormaster_oracle::soak::{Options, run};

use super::{HarbormasterArguments, KubeArguments};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Number of pods created per second, each deleted a minute later
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rate: u64,
    /// Duration in minutes; the last minute is compared with the third
    #[arg(long, default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(4..))]
    minutes: usize,
    /// Number of nodes, each with 4 CPUs, 32 GiB and room for 110 pods
    #[arg(long, default_value_t = 300)]
    nodes: usize,
    /// Also create and delete nodes, workloads with Services, and claims with volumes, and require that memory does not
    /// grow
    #[arg(long)]
    churn: bool,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let Self { kube: KubeArguments { release }, rate, minutes, nodes, churn, .. } = *self;
        let harbormaster = self.harbormaster.binary(true)?;
        let options = Options { release, harbormaster, rate, minutes, nodes, churn };
        println!(
            "{:>6}  {:>6}  {:>10}  {:>12}  {:>7}  {:>12}  {:>11}  {:>7}",
            "minute",
            "pods",
            "CPU-ms/pod",
            "resident MiB",
            "pending",
            "cached nodes",
            "cached pods",
            "assumed"
        );
        let report = run(&options, |number, minute| {
            println!(
                "{number:>6}  {:>6}  {:>10.3}  {:>12.1}  {:>7}  {:>12}  {:>11}  {:>7}",
                minute.pods,
                minute.cpu_ms_per_pod,
                minute.resident_mib,
                minute.pending,
                minute.cached_nodes,
                minute.cached_pods,
                minute.assumed_pods
            );
        })?;
        println!("{report}");
        Ok(report.is_steady())
    }
}
