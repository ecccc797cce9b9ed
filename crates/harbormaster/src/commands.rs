//! The command line of `harbormaster`, and of every program that calls [`crate::main`] with its own plugins.
//!
//! Reading order: this file (selects the command), [`flags`] and [`run`] (the scheduler), [`shadow`] (comparison with
//! the cluster's scheduler), `sandbox` (a make-believe cluster), [`dump`], [`export`] and [`anonymise`] (the objects of
//! a real cluster), `cluster` and `manifest_files` (the cluster of a question),
//! `simulate`, `what_if`, `why` with `why_running`, `capacity` and `drain_plan` (questions), `replay` with [`origin`]
//! (recordings), `lint` (mistakes in a configuration), [`output`], `table`, `usage`, `alike` and [`layout`] (how results are shown),
//! [`generate`] (completions, manual pages and the schema), [`log`] and [`log_output`] (log lines), [`settings`] (what
//! the flags mean under a release of Kubernetes), [`server_version`] (the release to follow), [`reload`] (changes to
//! the configuration file), [`secure_port`] (health, metrics and configuration), `live_page`, [`page`] and `page_file` (the page that a
//! browser shows), [`running`] (access to a running scheduler), [`metric_limits`] (metrics and labels
//! that are not shown). If a program is called as `kube-scheduler` (through a symbolic link), it behaves as if the
//! `run` command were given.

#[cfg_attr(
    not(any(feature = "sandbox", feature = "simulate")),
    allow(dead_code, reason = "other commands show more")
)]
mod alike;
mod anonymise;
#[cfg(feature = "simulate")]
mod capacity;
#[cfg(feature = "simulate")]
mod cluster;
#[cfg(feature = "simulate")]
mod drain_plan;
mod dump;
mod export;
mod files;
mod flags;
#[cfg(feature = "simulate")]
mod format;
mod generate;
#[cfg_attr(
    not(any(feature = "sandbox", feature = "simulate")),
    allow(dead_code, reason = "other commands show more")
)]
mod layout;
#[cfg(feature = "simulate")]
mod lint;
mod live_page;
mod log;
mod log_output;
#[cfg(any(feature = "sandbox", feature = "simulate"))]
mod manifest_files;
mod metric_limits;
mod origin;
#[cfg_attr(not(feature = "simulate"), allow(dead_code, reason = "only `shadow` uses it then"))]
mod output;
mod page;
#[cfg(feature = "simulate")]
mod page_file;
#[cfg(target_os = "linux")]
mod patience;
mod reload;
#[cfg(feature = "simulate")]
mod replay;
mod run;
mod running;
#[cfg(feature = "sandbox")]
mod sandbox;
mod secure_port;
mod server_version;
mod settings;
mod shadow;
#[cfg(feature = "simulate")]
mod simulate;
#[cfg(feature = "simulate")]
mod table;
#[cfg(feature = "simulate")]
mod usage;
#[cfg(feature = "simulate")]
mod what_if;
#[cfg(feature = "simulate")]
mod why;
#[cfg(feature = "simulate")]
mod why_running;

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use clap::{ArgMatches, Command, FromArgMatches};
use harbormaster_api::Release;
#[cfg(any(feature = "sandbox", feature = "simulate"))]
use harbormaster_api::features::Features;
#[cfg(any(feature = "sandbox", feature = "simulate"))]
use harbormaster_config::{Emulation, FeatureGates};
use harbormaster_driver::Pace;
use harbormaster_framework::registry::Registry;
use harbormaster_setup::Choices;
use tokio::runtime::{Builder, Runtime};

/// The version of Harbormaster.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit from which the program was built, if `HARBORMASTER_COMMIT` was set during the build.
const COMMIT: Option<&str> = option_env!("HARBORMASTER_COMMIT");
/// Program name that selects the `run` command.
const KUBE_SCHEDULER: &str = "kube-scheduler";
/// Release that `simulate` and `sandbox` reproduce unless a flag names another.
#[cfg(any(feature = "sandbox", feature = "simulate"))]
const SIMULATED: Release = Release::NEWEST;
const AFTER_HELP: &str = "Exit codes: 0 success; 1 any error; for others, see the help of the command.";

/// Result of a command. Commands print their own errors.
pub(crate) type CommandResult = Result<(), CommandError>;

/// Reason why the exit code is not 0. Errors have already been printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// An error.
    Error,
    /// `--exit-code` is set, and a pod is unschedulable or was preempted.
    #[cfg(any(feature = "sandbox", feature = "simulate"))]
    Unschedulable,
    /// `lint` has warnings, or `replay` has differences.
    #[cfg(feature = "simulate")]
    Warnings,
}

/// A scheduler program: `harbormaster`, or one with its own plugins.
#[derive(Debug)]
pub(crate) struct Program {
    /// Name under which the program was called.
    name: String,
    /// Plugins that configurations may name.
    plugins: Registry,
}

/// Executes the command given by the process's arguments.
pub(crate) fn main(plugins: Registry) -> ExitCode {
    let mut args = env::args_os();
    let program = Program::new(&args.next().unwrap_or_default(), plugins);
    match program.dispatch(args.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Error) => ExitCode::FAILURE,
        #[cfg(any(feature = "sandbox", feature = "simulate"))]
        Err(CommandError::Unschedulable) => ExitCode::from(2),
        #[cfg(feature = "simulate")]
        Err(CommandError::Warnings) => ExitCode::from(2),
    }
}

impl Program {
    fn new(path: &OsStr, plugins: Registry) -> Self {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(env::consts::EXE_SUFFIX).unwrap_or(&name);
        let name = if name.is_empty() { "harbormaster" } else { name };
        Self { name: name.to_owned(), plugins }
    }

    /// Returns the default choices, with this program's plugins.
    fn choices(&self) -> Choices {
        Choices { plugins: self.plugins.clone(), ..Choices::default() }
    }

    fn dispatch(&self, mut args: Vec<OsString>) -> CommandResult {
        if self.name == KUBE_SCHEDULER {
            return run::main(self, KUBE_SCHEDULER, args);
        }
        // The arguments of `run` and `shadow` follow the rules of Go's flags, so this parser must not see them.
        if args.first().is_some_and(|first| first == "run") {
            return run::main(self, &format!("{} run", self.name), args.split_off(1));
        }
        if args.first().is_some_and(|first| first == "shadow") {
            return shadow::main(self, &format!("{} shadow", self.name), args.split_off(1));
        }
        let matches = match self.command().no_binary_name(true).try_get_matches_from(args) {
            Ok(matches) => matches,
            Err(error) => {
                // If printing fails, there is no way to report the failure.
                let _ = error.print();
                return if error.use_stderr() { Err(CommandError::Error) } else { Ok(()) };
            }
        };
        match matches.subcommand() {
            #[cfg(feature = "sandbox")]
            Some(("sandbox", matches)) => with(matches, |options| sandbox::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("simulate", matches)) => with(matches, |options| simulate::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("capacity", matches)) => with(matches, |options| capacity::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("drain-plan", matches)) => with(matches, |options| drain_plan::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("lint", matches)) => with(matches, |options| lint::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("replay", matches)) => with(matches, |options| replay::main(self, &options)),
            #[cfg(feature = "simulate")]
            Some(("why", matches)) => with(matches, |options| why::main(self, &options)),
            Some(("page", matches)) => with(matches, |options| page::main(&options)),
            Some(("dump", matches)) => with(matches, |options| dump::main(self, &options)),
            Some(("generate", matches)) => with(matches, |options| generate::main(self, &options)),
            _ => {
                let _ = self.command().print_help();
                Err(CommandError::Error)
            }
        }
    }

    fn command(&self) -> Command {
        let version = match self.name.as_str() {
            "harbormaster" => VERSION.to_owned(),
            _ => format!("(harbormaster {VERSION})"),
        };
        Command::new(self.name.clone())
            .bin_name(self.name.clone())
            .version(version)
            .about("A Kubernetes scheduler")
            .after_help(AFTER_HELP)
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands([
                flags::command("run"),
                shadow::command(),
                #[cfg(feature = "sandbox")]
                sandbox::command(),
                #[cfg(feature = "simulate")]
                simulate::command(),
                #[cfg(feature = "simulate")]
                why::command(),
                #[cfg(feature = "simulate")]
                capacity::command(),
                #[cfg(feature = "simulate")]
                drain_plan::command(),
                #[cfg(feature = "simulate")]
                lint::command(),
                #[cfg(feature = "simulate")]
                replay::command(),
                page::command(),
                dump::command(),
                generate::command(),
            ])
    }

    /// Returns the text that `run --version` prints.
    fn version(&self) -> String {
        let built = COMMIT.map(|commit| format!(", commit {commit}")).unwrap_or_default();
        match self.name.as_str() {
            "harbormaster" | KUBE_SCHEDULER => {
                format!("harbormaster v{VERSION} (kube-scheduler {}{built})", releases(" or "))
            }
            name => {
                format!("{name} (harbormaster v{VERSION}, kube-scheduler {}{built})", releases(" or "))
            }
        }
    }
}

/// Returns the releases of Kubernetes that can be reproduced, for example `v1.36 or v1.37`.
fn releases(separator: &str) -> String {
    Release::ALL.iter().map(|release| format!("v{release}")).collect::<Vec<_>>().join(separator)
}

/// Returns the gates of a scheduler without a real cluster, for the values of `--emulated-version` and
/// `--feature-gates`.
#[cfg(any(feature = "sandbox", feature = "simulate"))]
fn features(emulated_version: &str, feature_gates: &[String]) -> Result<Features, String> {
    let emulation = Emulation::parse([emulated_version], [], SIMULATED).map_err(|e| e.to_string())?;
    let gates = feature_gates.iter().map(String::as_str);
    Ok(FeatureGates::parse_at(gates, emulation).map_err(|e| e.to_string())?.features())
}

/// Returns a runtime on this thread.
fn runtime() -> Result<Runtime, String> {
    started(&mut Builder::new_current_thread())
}

/// Returns a runtime on this thread, which rests now and then.
fn paced_runtime(pace: Pace) -> Result<Runtime, String> {
    started(Builder::new_current_thread().on_thread_park(move || pace.rest()))
}

fn started(builder: &mut Builder) -> Result<Runtime, String> {
    builder.enable_all().build().map_err(|e| format!("starting the runtime: {e}"))
}

/// Runs a command with its options.
fn with<O: FromArgMatches>(matches: &ArgMatches, command: impl FnOnce(O) -> CommandResult) -> CommandResult {
    match O::from_arg_matches(matches) {
        Ok(options) => command(options),
        Err(error) => {
            let _ = error.print();
            Err(CommandError::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(path: &str) -> Program {
        Program::new(path.as_ref(), Choices::default().plugins)
    }

    #[test]
    fn the_commands_are_well_formed() {
        called("harbormaster").command().debug_assert();
    }

    #[test]
    fn a_program_has_the_name_under_which_it_is_called() {
        for (path, name) in [
            ("/usr/local/bin/kube-scheduler", KUBE_SCHEDULER),
            ("target/release/harbormaster", "harbormaster"),
            ("./own.scheduler", "own.scheduler"),
            ("", "harbormaster"),
        ] {
            assert_eq!(called(path).name, name);
        }
    }

    #[test]
    fn help_and_version_name_the_program() {
        let own = called("/bin/own-scheduler");
        assert_eq!(own.command().render_version(), format!("own-scheduler (harbormaster {VERSION})\n"));
        assert_eq!(
            own.version(),
            format!("own-scheduler (harbormaster v{VERSION}, kube-scheduler v1.36 or v1.37)")
        );
        assert_eq!(
            called(KUBE_SCHEDULER).version(),
            format!("harbormaster v{VERSION} (kube-scheduler v1.36 or v1.37)")
        );
        let help = own.command().render_help().to_string();
        assert!(help.contains("Usage: own-scheduler <COMMAND>") && !help.contains("harbormaster"), "{help}");
    }
}
