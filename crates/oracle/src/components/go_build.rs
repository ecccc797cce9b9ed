//! The `go` command.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, io_error};

/// How often a running build tells that it is alive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// How many of the last lines of `go build` an error shows.
const SHOWN_LINES: usize = 40;

/// Whether `go build` may write to `go.mod` and `go.sum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModFiles {
    /// They are checked in and say exactly what is built.
    AsTheyAre,
    /// They are a copy in which versions have been replaced.
    Updated,
}

impl ModFiles {
    fn flag(self) -> &'static str {
        match self {
            Self::AsTheyAre => "-mod=readonly",
            Self::Updated => "-mod=mod",
        }
    }
}

/// The `go` command in one folder.
#[derive(Debug, Clone)]
pub(super) struct Go {
    directory: PathBuf,
    /// Variables that it gets besides those of this process.
    environment: Vec<(&'static str, String)>,
}

/// What a finished `go` command printed.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) succeeded: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Go {
    pub(super) fn in_directory(directory: &Path) -> Self {
        // No cgo: the build then needs no C compiler and the file no libraries.
        Self { directory: directory.to_owned(), environment: vec![("CGO_ENABLED", "0".to_owned())] }
    }

    #[cfg(test)]
    pub(super) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((variable, value.into()));
        self
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same command in another folder.
    pub(super) fn moved_to(&self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), environment: self.environment.clone() }
    }

    /// Builds a program, which then takes itself for `version` of Kubernetes.
    pub(super) fn build(
        &self,
        package: &str,
        output: &Path,
        version: &str,
        mod_files: ModFiles,
    ) -> Result<(), Error> {
        let mut child = self
            .command()
            .args(["build", "-v", mod_files.flag(), "-ldflags"])
            .arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={version}"))
            .arg("-o")
            .arg(output)
            .arg(package)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_started)?;
        let printed = follow(&mut child);
        let status = child.wait().map_err(io_error("waiting for go build"))?;
        if !status.success() {
            let shown = &printed[printed.len().saturating_sub(SHOWN_LINES)..];
            return Err(Error::Build {
                directory: self.directory.clone(),
                status: status.to_string(),
                output: shown.join("\n"),
            });
        }
        Ok(())
    }

    /// Runs `go` with `arguments` to its end.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Printed, Error> {
        let output = self.command().args(arguments).output().map_err(not_started)?;
        Ok(Printed {
            succeeded: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("go");
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.current_dir(&self.directory).envs(environment).stdin(Stdio::null());
        command
    }
}

fn not_started(source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::GoMissing,
        _ => Error::Io { action: "running go".to_owned(), source },
    }
}

/// Reads what `go build -v` prints, one line per package or message, and tells
/// now and then how far it is.
fn follow(child: &mut Child) -> Vec<String> {
    let Some(stderr) = child.stderr.take() else { return Vec::new() };
    let start = Instant::now();
    let count = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let lines = count.load(Ordering::Relaxed);
                progress(&format!("  {lines} packages after {} s ...", start.elapsed().as_secs()));
            }
        });
        let lines = read_lines(stderr, |read| count.store(read, Ordering::Relaxed));
        drop(done);
        lines
    })
}

fn read_lines(input: impl Read, mut tell: impl FnMut(usize)) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(input).split(b'\n').map_while(Result::ok) {
        lines.push(String::from_utf8_lossy(&line).into_owned());
        tell(lines.len());
    }
    lines
}

/// Writes a line to stderr; unlike `eprintln!` it is shown while a test runs.
pub(super) fn progress(line: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_build_shows_what_go_printed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("go.mod"), "module broken\n").unwrap();
        std::fs::write(directory.path().join("main.go"), "package main\nfunc main() { missing() }\n")
            .unwrap();
        let output = directory.path().join("out");
        let go = Go::in_directory(directory.path());
        let error = go.build(".", &output, "v1", ModFiles::AsTheyAre).unwrap_err();
        assert!(error.to_string().contains("undefined: missing"), "{error}");
    }
}
