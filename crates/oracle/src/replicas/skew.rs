//! A wrong clock for one process.
//!
//! Linux has no per-process wall clock, and an option of the scheduler for a wrong clock might be set by accident. So
//! the C library's time function is replaced in a single process; the program itself is unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("skew.c");

/// Builds the library in `directory`, and returns the environment variables that shift a process's clock by `seconds`.
/// This works for programs that are dynamically linked with the C library.
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
        .context("running cc, the linker of Rust programs")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_process_gets_a_different_time_than_this_one() {
        let directory = tempfile::tempdir().unwrap();
        let environment = environment(directory.path(), -3600).unwrap();
        let output = Command::new("date").arg("+%s").envs(environment).output().unwrap();
        let printed: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let behind = now - Duration::from_secs(printed);
        assert!((3590..3660).contains(&behind.as_secs()), "{behind:?}");
    }
}
