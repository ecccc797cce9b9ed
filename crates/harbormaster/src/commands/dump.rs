//! The `dump` command: writes all objects of a cluster that affect scheduling, as manifests.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use serde_json::Value;
use zstd::stream::write::Encoder as Compressor;

use super::{
    CommandError, CommandResult, Program,
    anonymise::Anonymiser,
    export::{Access, Export},
    files::{self, COMPRESSED},
};

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    access: Access,
    /// A KubeSchedulerConfiguration; what its plugins read or fetch is also dumped, with definitions
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// The file to write [default: standard output]. If its name ends with .zst, it is compressed; every command reads
    /// it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace names, the same name always by the same one, and drop addresses, messages and most annotations. Resources,
    /// numbers, and the labels and annotations of Kubernetes keep their names
    #[arg(long)]
    anonymise: bool,
}

const DUMPED: &str = "Nothing is written to the cluster. Secrets and ConfigMaps are not read; commands, arguments and environments of \
     containers are left out.\n\nExit codes: 0 success; 1 any error.";

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("dump"))
        .visible_alias("snapshot")
        .about("Print everything in a cluster that affects scheduling, for simulate and sandbox")
        .after_help(DUMPED)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    let config = options.config.as_deref().map(files::read).transpose();
    let dumped = config.and_then(|config| Export::new(program, config.as_ref())).and_then(|export| {
        let path = options.output.as_deref();
        match path {
            None => dump(options, &export, &mut BufWriter::new(io::stdout().lock())),
            Some(path) if path.extension().is_some_and(|extension| extension == COMPRESSED) => {
                let file = created(path)?;
                let mut compressor = Compressor::new(file, 0).map_err(|error| unwritable(path, &error))?;
                dump(options, &export, &mut compressor)?;
                compressor
                    .finish()
                    .and_then(|mut file| file.flush())
                    .map_err(|error| unwritable(path, &error))
            }
            Some(path) => dump(options, &export, &mut created(path)?),
        }
    });
    dumped.map_err(|why| {
        eprintln!("error: {why}");
        CommandError::Error
    })
}

fn created(path: &Path) -> Result<BufWriter<File>, String> {
    File::create(path).map(BufWriter::new).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Writes the objects.
fn dump(options: &Options, export: &Export, out: &mut impl Write) -> Result<(), String> {
    let path = options.output.as_deref().unwrap_or(Path::new("standard output"));
    let mut names = options.anonymise.then(Anonymiser::new);
    export.read(&options.access, &mut |mut object: Value| {
        if let Some(names) = &mut names {
            names.object(&mut object);
        }
        write!(out, "---\n{}", harbormaster_yaml::write(&object)).map_err(|error| unwritable(path, &error))
    })?;
    out.flush().map_err(|error| unwritable(path, &error))
}
