//! `harbormaster-oracle preemptions`.

use anyhow::Result;
use harbormaster_oracle::preemptions::{Options, run};

use super::KubeArguments;
use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Seed of the first cluster
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of clusters, with consecutive seeds
    #[arg(long, default_value_t = 40)]
    clusters: u64,
    /// Minimum number of nodes in a cluster
    #[arg(long, default_value_t = 300)]
    min_nodes: usize,
    /// Maximum number of nodes in a cluster
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Number of pods created in each cluster
    #[arg(long, default_value_t = 10)]
    pods: usize,
    /// Let Harbormaster stop its search as early as kube-scheduler
    #[arg(long)]
    parity: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options {
            release: self.kube.release,
            seed: self.seed,
            clusters: self.clusters,
            nodes: self.min_nodes.min(self.nodes)..=self.nodes,
            preemptors: self.pods,
            parity: self.parity,
        };
        let report = run(&options, |report| {
            if report.clusters % 10 == 0 {
                eprintln!("{} clusters, {} preemptions ...", report.clusters, report.evicting);
            }
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.findings.is_empty())
    }
}
