//! Comparisons of Harbormaster with the real Kubernetes.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

mod commands;

/// Compares Harbormaster with the real kube-scheduler.
#[derive(Debug, Parser)]
#[command(name = "harbormaster-oracle", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compares the verdicts of every plugin on every node of random clusters.
    Verdicts(commands::verdicts::Arguments),
    /// Compares which changes wake a rejected pod.
    Hints(commands::hints::Arguments),
    /// Compares the victims of preemption in large clusters.
    Preemptions(commands::preemptions::Arguments),
    /// Checks with the real plugins that the changes that `why` proposes place the pod.
    Remedies(commands::remedies::Arguments),
    /// Compares the values, errors and costs of random CEL expressions.
    Cel(commands::cel::Arguments),
    /// Compares the outcome of every pod while a cluster changes.
    Decisions(commands::decisions::Arguments),
    /// Compares the plugins in contrib/ with those of kubernetes-sigs/scheduler-plugins.
    Family(commands::family::Arguments),
    /// Compares pods per second, CPU time and memory.
    Bench(commands::bench::Arguments),
    /// Checks that a pod costs no more after many minutes than at the start.
    Soak(commands::soak::Arguments),
    /// Checks the guarantees of three replicas while leaders are killed and the API server is down.
    Replicas(commands::replicas::Arguments),
    /// Measures a shadow beside kube-scheduler in a large cluster.
    Shadow(commands::shadow::Arguments),
    /// Measures how soon pods are bound after an outage of the API server.
    Outage(commands::outage::Arguments),
}

/// Output format of results on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    /// Readable text.
    #[default]
    Text,
    /// JSON.
    Json,
}

/// The exit status is 0 if there are no differences, 1 if there are (for `soak`: if the cost grows; for `replicas`: if
/// there is a violation; for `outage`: if Harbormaster binds too late), and 2 after an error.
fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verdicts(arguments) => arguments.run(),
        Command::Hints(arguments) => arguments.run(),
        Command::Preemptions(arguments) => arguments.run(),
        Command::Remedies(arguments) => arguments.run(),
        Command::Cel(arguments) => arguments.run(),
        Command::Decisions(arguments) => arguments.run(),
        Command::Family(arguments) => arguments.run(),
        Command::Bench(arguments) => arguments.run(),
        Command::Soak(arguments) => arguments.run(),
        Command::Replicas(arguments) => arguments.run(),
        Command::Shadow(arguments) => arguments.run(),
        Command::Outage(arguments) => arguments.run(),
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
