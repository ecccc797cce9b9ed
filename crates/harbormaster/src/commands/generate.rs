//! The `generate` command: shell completions and manual pages, generated from the flags, and a schema for editors.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;

use super::{CommandError, CommandResult, Program};

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Artifact,
}

#[derive(Debug, Subcommand)]
enum Artifact {
    /// Print a script that makes a shell complete commands and flags
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the JSON schema of KubeSchedulerConfiguration, for editors
    Schema,
    /// Write a manual page for every command
    Man {
        /// The directory for the pages.
        #[arg(default_value = ".")]
        directory: PathBuf,
    },
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("generate"))
        .about("Generate shell completions, manual pages, and a schema for editors")
        .after_help(super::AFTER_HELP)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    let mut command = program.command();
    let done = match &options.what {
        Artifact::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command, &program.name, &mut script);
            io::stdout().write_all(&script)
        }
        Artifact::Schema => {
            let schema = harbormaster_config::json_schema();
            io::stdout().write_all(format!("{schema:#}\n").as_bytes())
        }
        Artifact::Man { directory } => {
            std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory))
        }
    };
    done.map_err(|error| {
        eprintln!("error: {error}");
        CommandError::Error
    })
}
