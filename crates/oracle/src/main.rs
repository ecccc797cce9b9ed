//! Measuring instruments for Harbormaster, made of the original Kubernetes.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

mod commands;

/// Compares Harbormaster with the original kube-scheduler.
#[derive(Debug, Parser)]
#[command(name = "harbormaster-oracle", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What every plugin says about every node of random clusters.
    Verdicts(commands::verdicts::Arguments),
    /// Compares which changes wake a rejected pod.
    Hints(commands::hints::Arguments),
    /// Compares the victims of preemption in large clusters.
    Preemptions(commands::preemptions::Arguments),
    /// What happens to every pod when a cluster changes.
    Decisions(commands::decisions::Arguments),
    /// Pods per second, CPU time and memory.
    Bench(commands::bench::Arguments),
    /// Whether a pod costs as much after many minutes as at first.
    Soak(commands::soak::Arguments),
    /// Whether three replicas keep their promises while leaders are killed and servers are away.
    Replicas(commands::replicas::Arguments),
}

/// How results are printed on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

/// The exit status is 0 without a difference, 1 with one (for `soak`: when the cost grows, for
/// `replicas`: with a violation), 2 after an error.
fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verdicts(arguments) => arguments.run(),
        Command::Hints(arguments) => arguments.run(),
        Command::Preemptions(arguments) => arguments.run(),
        Command::Decisions(arguments) => arguments.run(),
        Command::Bench(arguments) => arguments.run(),
        Command::Soak(arguments) => arguments.run(),
        Command::Replicas(arguments) => arguments.run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
