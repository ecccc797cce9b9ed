//! `harbormaster-oracle verdicts`.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use harbormaster_oracle::generate::Shape;
use harbormaster_oracle::verdicts::{HarbormasterLibrary, Options, Original, VerdictSource, run};

use crate::Format;

/// Who judges beside the original plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Judge {
    /// Our plugins, in this process.
    Harbormaster,
    /// The original plugins once more, which checks the instrument.
    KubeScheduler,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The seed of the first cluster.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many clusters, with the seeds that follow.
    #[arg(long, default_value_t = 500)]
    clusters: u64,
    /// Most nodes in a cluster.
    #[arg(long, default_value_t = 40)]
    nodes: usize,
    /// Most pending pods in a cluster.
    #[arg(long, default_value_t = 200)]
    pods: usize,
    /// Seconds to spend on making a difference small.
    #[arg(long, default_value_t = 120)]
    shrink: u64,
    /// Look only at differences whose kind, as --keep-going prints it, contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Count the differences of all clusters by kind instead of ending with the first.
    #[arg(long)]
    keep_going: bool,
    /// Who is compared with the original plugins.
    #[arg(long, value_enum, default_value_t = Judge::Harbormaster)]
    right: Judge,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options {
            seed: self.seed,
            clusters: self.clusters,
            shape: Shape { max_nodes: self.nodes, max_pods: self.pods, admitted: false },
            shrink_for: Duration::from_secs(self.shrink),
            only: self.only.clone(),
            keep_going: self.keep_going,
        };
        let mut left = Original::start()?;
        let mut right: Box<dyn VerdictSource> = match self.right {
            Judge::KubeScheduler => Box::new(Original::start()?),
            Judge::Harbormaster => Box::new(HarbormasterLibrary),
        };
        let report = run(&options, &mut left, right.as_mut(), |counts| {
            if counts.clusters % 20 == 0 {
                eprintln!(
                    "{} clusters, {} pods, {} verdicts, {} scored nodes ...",
                    counts.clusters, counts.pods, counts.verdicts, counts.scores
                );
            }
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.is_equal())
    }
}
