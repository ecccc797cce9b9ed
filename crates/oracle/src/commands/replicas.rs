//! `harbormaster-oracle replicas`.

use anyhow::Result;
use harbormaster_oracle::replicas::{Options, Plan, Progress, run};

use super::{HarbormasterArguments, KubeArguments};
use crate::Format;

/// Number of nodes for each pod created per second. With this many nodes, a pod exists for over a minute before it is
/// deleted.
const NODES_PER_RATE: f64 = 2.5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    kube: KubeArguments,
    /// Number of pods created per second, and deleted per second once the nodes are 80 % full
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Duration in minutes; the leader is killed every minute, and a run of three minutes or more also has all other
    /// faults
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    minutes: u32,
    /// Number of nodes, each with room for about forty pods [default: 2.5 for each pod created per second]
    #[arg(long)]
    nodes: Option<usize>,
    /// Seed of the faults and of the pod sizes
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
            harbormaster: self.harbormaster.binary(true)?,
            plan: Plan::new(self.seed, self.minutes),
            seed: self.seed,
            rate: self.rate,
            nodes: self.nodes.unwrap_or((f64::from(self.rate) * NODES_PER_RATE).ceil() as usize),
            checks_times: true,
        };
        let print = |line: &str| match self.output {
            Format::Text => println!("{line}"),
            Format::Json => eprintln!("{line}"),
        };
        print(&options.plan.to_string());
        print(&format!(
            "{:>7}  {:>8}  {:>8}  {:>8}  {:>7}  {:>5}  {:>12}  {:>7}  {:<9}",
            "seconds", "created", "bound", "deleted", "pending", "full", "longest wait", "refused", "leader"
        ));
        let report = run(&options, |progress| print(&line(progress)))?;
        match self.output {
            Format::Text => println!("\n{report}"),
            Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(report.violations.is_empty())
    }
}

fn line(progress: &Progress) -> String {
    let Progress {
        at_s,
        created,
        bound,
        deleted,
        pending,
        full,
        longest_wait_s,
        refused_bindings,
        leader,
        events,
    } = progress;
    format!(
        "{at_s:>7.0}  {created:>8}  {bound:>8}  {deleted:>8}  {pending:>7}  {:>3.0} %  {longest_wait_s:>10.2} s  \
         {refused_bindings:>7}  {leader:<9}  {}",
        full * 100.0,
        events.join(", ")
    )
}
