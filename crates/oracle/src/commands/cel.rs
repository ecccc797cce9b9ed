//! `harbormaster-oracle cel`.

use anyhow::Result;
use harbormaster_oracle::cel::{Options, run};

use super::KubeArguments;
use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Seed of the first expression
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of expressions, with consecutive seeds
    #[arg(long, default_value_t = 100_000)]
    expressions: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options { release: self.kube.release, seed: self.seed, expressions: self.expressions };
        let report = run(&options, |report| {
            if report.expressions % 10_000 == 0 {
                eprintln!("{} expressions, {} differences ...", report.expressions, report.different);
            }
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.different == 0)
    }
}
