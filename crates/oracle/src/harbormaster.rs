//! Where the built `harbormaster` is.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names an existing program to use instead of building one.
pub const VARIABLE: &str = "HARBORMASTER_BINARY";

/// Why there is no program to compare with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// cargo could not be run.
    #[error("running cargo to build harbormaster: {0}")]
    Cargo(#[from] io::Error),
    /// What cargo printed is on stderr.
    #[error("cargo could not build harbormaster; its messages are above")]
    Build,
    /// The path given, or the one cargo should have written, is not there.
    #[error("there is no harbormaster at {}", .0.display())]
    Missing(PathBuf),
}

/// The path of `harbormaster`, built by cargo if it is out of date, in the same
/// profile as this program, or as it is shipped. The environment variable
/// [`VARIABLE`] names another one.
pub fn harbormaster_binary(shipped: bool) -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os(VARIABLE) {
        return existing(PathBuf::from(path));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (profile, folder) = match (shipped, cfg!(debug_assertions)) {
        (true, _) => ("dist", "dist"),
        (false, false) => ("release", "release"),
        (false, true) => ("dev", "debug"),
    };
    let mut command = cargo();
    command.args(["build", "--quiet", "-p", "harbormaster", "--bin", "harbormaster", "--profile", profile]);
    if !command.current_dir(&workspace).status()?.success() {
        return Err(Error::Build);
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    existing(target.join(folder).join("harbormaster"))
}

/// The cargo that runs this process, or the one in the path, as a shell would call it.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells a test about its package: build scripts that look at it would run again, and whatever depends on
    // them would be compiled again, now and after the test once more.
    let of_package = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        command.env_remove(name);
    }
    command
}

/// `path` if there is a file.
pub fn existing(path: PathBuf) -> Result<PathBuf, Error> {
    if path.is_file() { Ok(path.canonicalize().unwrap_or(path)) } else { Err(Error::Missing(path)) }
}
