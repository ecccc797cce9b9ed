//! `harbormaster-oracle verdicts`.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use harbormaster_oracle::generate::Shape;
use harbormaster_oracle::verdicts::{HarbormasterLibrary, Options, RealPlugins, VerdictSource, run};

use super::KubeArguments;
use crate::Format;

/// Plugins to compare with kube-scheduler's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Judge {
    /// Harbormaster's plugins, in this process
    Harbormaster,
    /// kube-scheduler's plugins again, which validates the comparison
    KubeScheduler,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Seed of the first cluster
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of clusters, with consecutive seeds
    #[arg(long, default_value_t = 500)]
    clusters: u64,
    /// Maximum number of nodes in a cluster
    #[arg(long, default_value_t = 40)]
    nodes: usize,
    /// Maximum number of pending pods in a cluster
    #[arg(long, default_value_t = 200)]
    pods: usize,
    /// Seconds to spend on shrinking a cluster that shows a difference
    #[arg(long, default_value_t = 120)]
    shrink: u64,
    /// Ignore differences whose kind, as printed by --keep-going, does not contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Count the differences of all clusters by kind instead of stopping at the first
    #[arg(long)]
    keep_going: bool,
    /// Plugins to compare with kube-scheduler's
    #[arg(long, value_enum, default_value_t = Judge::Harbormaster)]
    right: Judge,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let release = self.kube.release;
        let options = Options {
            release,
            seed: self.seed,
            clusters: self.clusters,
            shape: Shape { max_nodes: self.nodes, max_pods: self.pods, admitted: false },
            shrink_for: Duration::from_secs(self.shrink),
            only: self.only.clone(),
            keep_going: self.keep_going,
            command: format!("verdicts --kube {release}"),
        };
        let mut left = RealPlugins::start(release)?;
        let mut right: Box<dyn VerdictSource> = match self.right {
            Judge::KubeScheduler => Box::new(RealPlugins::start(release)?),
            Judge::Harbormaster => Box::new(HarbormasterLibrary { release }),
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
