//! `harbormaster-oracle shadow`.

use anyhow::{Context, Result};
use harbormaster_oracle::bench::{PLAIN, ShadowOptions, Workload, beside};

use super::{HarbormasterArguments, KubeArguments};
use crate::Format;

/// Workload of pods with a constraint that spreads them over zones.
const SPREAD: &str = "TopologySpreading";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Number of nodes
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Number of plain pods
    #[arg(long, default_value_t = 5000)]
    plain: usize,
    /// Number of pods with spread constraints
    #[arg(long, default_value_t = 1000)]
    spread: usize,
    /// `percentageOfNodesToScore` of kube-scheduler; without it, kube-scheduler's default
    #[arg(long, value_name = "PERCENT")]
    percentage: Option<u32>,
    /// Number of threads that create pods
    #[arg(long, default_value_t = 8)]
    threads: usize,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let binary = self.harbormaster.binary(true)?;
        let options = ShadowOptions {
            release: self.kube.release,
            nodes: self.nodes,
            threads: self.threads,
            percentage: self.percentage,
        };
        let mut costs = Vec::new();
        for (name, pods) in [(PLAIN, self.plain), (SPREAD, self.spread)] {
            let workload = Workload::named(name).with_context(|| format!("no workload is named {name}"))?;
            if pods > 0 {
                let cost = beside(options, workload, pods, &binary).with_context(|| name.to_owned())?;
                eprintln!("{cost}");
                costs.push(cost);
            }
        }
        match self.output {
            Format::Text => costs.iter().for_each(|cost| println!("{cost}")),
            Format::Json => println!("{}", serde_json::to_string_pretty(&costs)?),
        }
        Ok(true)
    }
}
