//! The subcommands.

pub(crate) mod bench;
pub(crate) mod cel;
pub(crate) mod decisions;
pub(crate) mod family;
pub(crate) mod hints;
pub(crate) mod outage;
pub(crate) mod preemptions;
pub(crate) mod remedies;
pub(crate) mod replicas;
pub(crate) mod shadow;
pub(crate) mod soak;
pub(crate) mod verdicts;

use std::path::PathBuf;

use clap::ValueEnum;
use harbormaster_api::Release;
use harbormaster_oracle::harbormaster::{self, harbormaster_binary, plugins_binary};
use harbormaster_oracle::scheduler::Contender;

/// A contender, as named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContenderName {
    /// Harbormaster, built by cargo unless `--harbormaster` is given
    Harbormaster,
    /// The real kube-scheduler; comparing it with itself validates the comparison
    KubeScheduler,
}

/// Release of Kubernetes.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct KubeArguments {
    /// Release of the Kubernetes components, and of the kube-scheduler that Harbormaster reproduces
    #[arg(long = "kube", value_name = "RELEASE", default_value_t = Release::V1_36, value_parser = release)]
    pub(crate) release: Release,
}

fn release(text: &str) -> Result<Release, String> {
    let found = Release::ALL.iter().find(|release| release.to_string() == text);
    found.copied().ok_or_else(|| {
        let known: Vec<_> = Release::ALL.iter().map(Release::to_string).collect();
        format!("the known releases are {}", known.join(", "))
    })
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

    /// Returns the program that contains the plugins of scheduler-plugins.
    pub(crate) fn plugins_binary(&self, shipped: bool) -> Result<PathBuf, harbormaster::Error> {
        match &self.harbormaster {
            Some(path) => harbormaster::existing(path.clone()),
            None => plugins_binary(shipped),
        }
    }

    pub(crate) fn contender(
        &self,
        name: ContenderName,
        shipped: bool,
    ) -> Result<Contender, harbormaster::Error> {
        match name {
            ContenderName::KubeScheduler => Ok(Contender::KubeScheduler),
            ContenderName::Harbormaster => Ok(Contender::Harbormaster(self.binary(shipped)?)),
        }
    }
}
