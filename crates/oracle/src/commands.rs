//! The subcommands.

pub(crate) mod bench;
pub(crate) mod decisions;
pub(crate) mod hints;
pub(crate) mod preemptions;
pub(crate) mod replicas;
pub(crate) mod soak;
pub(crate) mod verdicts;

use std::path::PathBuf;

use clap::ValueEnum;
use harbormaster_oracle::harbormaster::{self, harbormaster_binary};
use harbormaster_oracle::scheduler::Contender;

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Harbormaster, built by cargo unless `--harbormaster` is given
    Harbormaster,
    /// The real kube-scheduler; comparing it with itself validates the comparison
    KubeScheduler,
}

/// Harbormaster program to use.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HarbormasterArguments {
    /// Use this harbormaster program instead of building it with cargo
    #[arg(long, value_name = "FILE")]
    harbormaster: Option<PathBuf>,
}

impl HarbormasterArguments {
    pub(crate) fn binary(&self, shipped: bool) -> Result<PathBuf, harbormaster::Error> {
        match &self.harbormaster {
            Some(path) => harbormaster::existing(path.clone()),
            None => harbormaster_binary(shipped),
        }
    }

    pub(crate) fn contender(&self, side: Side, shipped: bool) -> Result<Contender, harbormaster::Error> {
        match side {
            Side::KubeScheduler => Ok(Contender::KubeScheduler),
            Side::Harbormaster => Ok(Contender::Harbormaster(self.binary(shipped)?)),
        }
    }
}
