//! `harbormaster-oracle outage`.

use std::time::Duration;

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use harbormaster_oracle::outage::{Options, Run, run};

use super::{ContenderName, HarbormasterArguments, KubeArguments};
use crate::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Time from the end of kube-apiserver until it is started again, in seconds
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 20)]
    seconds: u64,
    /// Number of runs of each scheduler, in the order A B B A
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pairs: usize,
    /// Number of instances of the scheduler; several elect a leader with default times, and one that exits because its
    /// lease ran out is not restarted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=9))]
    replicas: usize,
    /// Measure only this scheduler
    #[arg(long, value_enum)]
    only: Option<ContenderName>,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options {
            release: self.kube.release,
            outage: Duration::from_secs(self.seconds),
            pairs: self.pairs,
            replicas: self.replicas,
        };
        let names = match self.only {
            Some(name) => vec![name],
            None => vec![ContenderName::KubeScheduler, ContenderName::Harbormaster],
        };
        let contenders: Vec<_> = names
            .into_iter()
            .map(|name| self.harbormaster.contender(name, true))
            .collect::<Result<_, _>>()?;
        let report = run(&options, &contenders, |Run { scheduler, first_s, all_s, .. }| {
            eprintln!("{scheduler}: first binding after {first_s:.2} s, all after {all_s:.2} s");
        })?;
        match self.output {
            Format::Text => println!("{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.late().next().is_none())
    }
}
