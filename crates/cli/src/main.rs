//! The `harbormaster` binary.
//!
//! Reading order: this file (which command), [`flags`] and [`run`] (the scheduler), [`sandbox`] (a make-believe
//! cluster), [`simulate`], [`files`] and [`table`] (scheduling manifests), [`log`] (log lines). Under the name
//! `kube-scheduler` (a symbolic link) the binary behaves as `harbormaster run`.

mod files;
mod flags;
mod log;
mod run;
mod sandbox;
mod simulate;
mod table;

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::{ArgMatches, Args, Command, FromArgMatches};

const AFTER_HELP: &str = "Exit codes: 0 success; 1 any error.";

/// How the commands end: with an error they have printed, or well.
pub(crate) type Ended = Result<(), Failed>;

/// How a command fails; the user was told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It could not do what it was asked for.
    Error,
    /// It was asked to fail if a pod is unschedulable, and one is.
    Unschedulable,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let own_name = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    let ended =
        if called_kube_scheduler(&own_name) { run::main("kube-scheduler", args) } else { dispatch(args) };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Error) => ExitCode::FAILURE,
        Err(Failed::Unschedulable) => ExitCode::from(2),
    }
}

fn called_kube_scheduler(own_name: &OsString) -> bool {
    Path::new(own_name).file_stem().is_some_and(|name| name == "kube-scheduler")
}

fn dispatch(mut args: Vec<OsString>) -> Ended {
    // The scheduler's flags follow other rules than ours, so its arguments are taken out first.
    if args.first().is_some_and(|first| first == "run") {
        return run::main("harbormaster run", args.split_off(1));
    }
    let matches = match command().no_binary_name(true).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            // There is nobody left to tell if printing fails.
            let _ = error.print();
            return if error.use_stderr() { Err(Failed::Error) } else { Ok(()) };
        }
    };
    match matches.subcommand() {
        Some(("sandbox", matches)) => with(matches, |options| sandbox::main(&options)),
        Some(("simulate", matches)) => with(matches, |options| simulate::main(&options)),
        _ => {
            let _ = command().print_help();
            Err(Failed::Error)
        }
    }
}

/// Runs a command with its options.
fn with<O: FromArgMatches>(matches: &ArgMatches, command: impl FnOnce(O) -> Ended) -> Ended {
    match O::from_arg_matches(matches) {
        Ok(options) => command(options),
        Err(error) => {
            let _ = error.print();
            Err(Failed::Error)
        }
    }
}

fn command() -> Command {
    // The documentation of the type would replace an earlier description.
    let simulate = simulate::Options::augment_args(Command::new("simulate"))
        .about("Show where the pods of manifests would be placed, without a cluster")
        .after_help(simulate::EXIT_CODES);
    let sandbox = sandbox::Options::augment_args(Command::new("sandbox"))
        .about("Schedule pods in a make-believe cluster, with an API server for kubectl")
        .after_help(AFTER_HELP);
    Command::new("harbormaster")
        .bin_name("harbormaster")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A Kubernetes scheduler")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(flags::command("run"))
        .subcommand(sandbox)
        .subcommand(simulate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn the_name_of_the_binary_decides() {
        assert!(called_kube_scheduler(&"/usr/local/bin/kube-scheduler".into()));
        assert!(!called_kube_scheduler(&"target/release/harbormaster".into()));
    }
}
