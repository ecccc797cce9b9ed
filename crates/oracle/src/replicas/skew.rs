//! A wrong clock for one process.
//!
//! Linux has no wall clock per process, and a scheduler that could be told to be wrong would be told so by accident one day.
//! So the function of the C library that says what time it is gives way to ours, in that process alone: its program stays
//! what it is.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("skew.c");

/// Makes the library in `directory`, and says by which variables of the environment a process gets a clock that is off by
/// so many seconds. It works for programs that are linked with the C library when they start.
pub(super) fn environment(directory: &Path, seconds: i64) -> Result<[(&'static str, String); 2]> {
    let library = compile(directory)?;
    Ok([("LD_PRELOAD", library.display().to_string()), ("CLOCK_SKEW", seconds.to_string())])
}

fn compile(directory: &Path) -> Result<PathBuf> {
    let (source, library) = (directory.join("skew.c"), directory.join("skew.so"));
    std::fs::write(&source, SOURCE)?;
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .context("running cc, with which Rust programs are linked")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_process_gets_another_time_than_this_one() {
        let directory = tempfile::tempdir().unwrap();
        let environment = environment(directory.path(), -3600).unwrap();
        let output = Command::new("date").arg("+%s").envs(environment).output().unwrap();
        let told: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let behind = now - Duration::from_secs(told);
        assert!((3590..3660).contains(&behind.as_secs()), "{behind:?}");
    }
}
