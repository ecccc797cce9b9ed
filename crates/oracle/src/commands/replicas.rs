//! `harbormaster-oracle replicas`.

use anyhow::Result;
use harbormaster_oracle::replicas::{Options, Plan, Row, run};

use super::HarbormasterArguments;
use crate::Format;

/// Nodes per pod and second: pods then stay for over a minute.
const NODES_PER_RATE: f64 = 2.5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pods per second that come, and that go when the nodes are full by four fifths.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// How long; in every minute the leader is killed, and from three on everything else happens, too.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    minutes: u32,
    /// Nodes with room for about forty pods each, instead of two and a half for each pod per second.
    #[arg(long)]
    nodes: Option<usize>,
    /// Chooses what happens when, and the sizes of pods.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    harbormaster: HarbormasterArguments,
    /// How to print the result.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<bool> {
        let options = Options {
            harbormaster: self.harbormaster.binary(true)?,
            plan: Plan::new(self.seed, self.minutes),
            seed: self.seed,
            rate: self.rate,
            nodes: self.nodes.unwrap_or((f64::from(self.rate) * NODES_PER_RATE).ceil() as usize),
            judges_times: true,
        };
        let tell = |line: &str| match self.output {
            Format::Text => println!("{line}"),
            Format::Json => eprintln!("{line}"),
        };
        tell(&options.plan.to_string());
        tell(&format!(
            "{:>7}  {:>8}  {:>8}  {:>8}  {:>7}  {:>5}  {:>12}  {:>7}  {:<9}",
            "seconds", "created", "bound", "deleted", "pending", "full", "longest wait", "refused", "leader"
        ));
        let report = run(&options, |row| tell(&line(row)))?;
        match self.output {
            Format::Text => println!("\n{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.violations.is_empty())
    }
}

fn line(row: &Row) -> String {
    let Row {
        at_s,
        created,
        bound,
        deleted,
        pending,
        full,
        longest_wait_s,
        refused_bindings,
        leader,
        happened,
    } = row;
    format!(
        "{at_s:>7.0}  {created:>8}  {bound:>8}  {deleted:>8}  {pending:>7}  {:>3.0} %  {longest_wait_s:>10.2} s  \
         {refused_bindings:>7}  {leader:<9}  {}",
        full * 100.0,
        happened.join(", ")
    )
}
