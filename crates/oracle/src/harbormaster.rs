//! Finds or builds the `harbormaster` program.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the path of an existing program to use.
pub const VARIABLE: &str = "HARBORMASTER_BINARY";

/// The reason there is no `harbormaster` program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// cargo could not be run.
    #[error("cannot run cargo to build harbormaster: {0}")]
    Cargo(#[from] io::Error),
    /// cargo failed; its output is on stderr.
    #[error("cargo could not build harbormaster; see its messages above")]
    Build,
    /// The given path, or the one that cargo should have written, does not exist.
    #[error("no harbormaster program at {}", .0.display())]
    Missing(PathBuf),
}

/// Returns the path of the `harbormaster` program. If the program is out of date, cargo builds it with the features
/// that are shipped. The build profile is the shipped one if `shipped` is true, and otherwise the running program's.
/// The environment variable [`VARIABLE`] overrides the path.
pub fn harbormaster_binary(shipped: bool) -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os(VARIABLE) {
        return existing(PathBuf::from(path));
    }
    build("harbormaster", &["-p", "harbormaster", "--features", "otlp"], shipped)
}

/// Returns the path of the program `harbormaster-plugins`, which contains the plugins of scheduler-plugins, as
/// [`harbormaster_binary`] does for `harbormaster`.
pub fn plugins_binary(shipped: bool) -> Result<PathBuf, Error> {
    build("harbormaster-plugins", &["-p", "scheduler-plugins"], shipped)
}

fn build(program: &str, package: &[&str], shipped: bool) -> Result<PathBuf, Error> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (profile, folder) = match (shipped, cfg!(debug_assertions)) {
        (true, _) => ("dist", "dist"),
        (false, false) => ("release", "release"),
        (false, true) => ("dev", "debug"),
    };
    let mut command = cargo();
    command.args(["build", "--quiet", "--bin", program, "--profile", profile]);
    // With a test among the targets of the workspace, cargo chooses the same features for all crates as `cargo test
    // --workspace`, so everything that the test run has built is used again. They include the features that are shipped.
    match profile {
        "dev" => command.args(["--workspace", "--test", "nothing_left_behind"]),
        _ => command.args(package),
    };
    if !command.current_dir(&workspace).status()?.success() {
        return Err(Error::Build);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    existing(target.join(folder).join(program))
}

/// Returns a command for the cargo that started this process, or otherwise for the one on the `PATH`. The command runs
/// in the environment of a shell, without the variables that cargo sets for tests.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // When cargo runs a test, it sets variables that describe the test's package. If they were passed on, build scripts
    // that read them would run again, and everything that depends on those scripts would be rebuilt, both now and after
    // the test.
    let is_package_variable = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_package_variable)) {
        command.env_remove(name);
    }
    command
}

/// Returns the canonical path if the file exists.
pub fn existing(path: PathBuf) -> Result<PathBuf, Error> {
    if path.is_file() { Ok(path.canonicalize().unwrap_or(path)) } else { Err(Error::Missing(path)) }
}
