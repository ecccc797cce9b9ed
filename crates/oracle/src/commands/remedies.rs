//! `harbormaster-oracle remedies`.

use anyhow::Result;
use harbormaster_oracle::remedies::{Options, run};

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
    #[arg(long, default_value_t = 200)]
    clusters: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options { release: self.kube.release, seed: self.seed, clusters: self.clusters };
        let report = run(&options, |report| {
            if report.clusters % 20 == 0 {
                eprintln!("{} clusters, {} pods ...", report.clusters, report.pods);
            }
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.wrong.is_empty() && report.missed.is_empty())
    }
}
