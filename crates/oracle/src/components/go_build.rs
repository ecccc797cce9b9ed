//! The `go` command.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, io_error};

/// Interval between progress messages of a running build.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// Number of trailing lines of `go build` output that an error contains.
const SHOWN_LINES: usize = 40;

/// Access of `go build` to `go.mod` and `go.sum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModFiles {
    /// The files are the checked-in ones.
    ReadOnly,
    /// The files are a copy in which versions have been replaced.
    Writable,
}

impl ModFiles {
    fn flag(self) -> &'static str {
        match self {
            Self::ReadOnly => "-mod=readonly",
            Self::Writable => "-mod=mod",
        }
    }
}

/// Versions of a Go module's dependencies. A module may have several sets of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    /// Name of the file that pins the versions. A file with the same name and the extension `sum` has the checksums.
    pub(super) go_mod: &'static str,
    /// Build tag of the source files that need these versions; empty if there are no such files.
    pub(super) tag: &'static str,
}

impl Versions {
    /// The versions in `go.mod`.
    pub(super) const MAIN: Self = Self { go_mod: "go.mod", tag: "" };

    /// Arguments of `go` commands that load packages.
    fn flags(self) -> [String; 2] {
        [format!("-modfile={}", self.go_mod), format!("-tags={}", self.tag)]
    }
}

/// The `go` command in a directory.
#[derive(Debug, Clone)]
pub(super) struct Go {
    directory: PathBuf,
    versions: Versions,
    /// Environment variables in addition to those of this process.
    environment: Vec<(&'static str, String)>,
}

/// Output of a finished `go` command.
#[derive(Debug)]
pub(super) struct GoOutput {
    pub(super) succeeded: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Go {
    pub(super) fn new(directory: &Path, versions: Versions) -> Self {
        // Without cgo, the build needs no C compiler and the program needs no shared libraries.
        let environment = vec![("CGO_ENABLED", "0".to_owned())];
        Self { directory: directory.to_owned(), versions, environment }
    }

    #[cfg(test)]
    pub(super) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((variable, value.into()));
        self
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the file that pins the versions.
    pub(super) fn go_mod(&self) -> PathBuf {
        self.directory.join(self.versions.go_mod)
    }

    /// Returns the same command in another directory.
    pub(super) fn at(&self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self.clone() }
    }

    /// Builds a program that reports `version` as its Kubernetes version.
    pub(super) fn build(
        &self,
        package: &str,
        output: &Path,
        version: &str,
        mod_files: ModFiles,
    ) -> Result<(), Error> {
        let mut child = self
            .command()
            .args(["build", "-v", mod_files.flag()])
            .args(self.versions.flags())
            .arg("-ldflags")
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

    /// Finds all packages that the program needs, and adds them to the module's files if they are missing there.
    pub(super) fn find_packages(&self) -> Result<GoOutput, Error> {
        let [go_mod, tags] = self.versions.flags();
        self.run(&["list", ModFiles::Writable.flag(), &go_mod, &tags, "-deps", "."])
    }

    /// Replaces all versions of a dependency.
    pub(super) fn replace(&self, module: &str, version: &str) -> Result<GoOutput, Error> {
        self.run(&["mod", "edit", &format!("-replace={module}={module}@{version}"), self.versions.go_mod])
    }

    /// Runs `go` with `arguments` and waits for it.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<GoOutput, Error> {
        let output = self.command().args(arguments).output().map_err(not_started)?;
        Ok(GoOutput {
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

/// Reads the output of `go build -v`, one line per package or message, and prints progress messages.
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

fn read_lines(input: impl Read, mut report: impl FnMut(usize)) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(input).split(b'\n').map_while(Result::ok) {
        lines.push(String::from_utf8_lossy(&line).into_owned());
        report(lines.len());
    }
    lines
}

/// Writes a line to stderr. Unlike the output of `eprintln!`, the line is visible while a test runs.
pub(super) fn progress(line: &str) {
    // If stderr cannot be written to, nothing can be done about it.
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
        let go = Go::new(directory.path(), Versions::MAIN);
        let error = go.build(".", &output, "v1", ModFiles::ReadOnly).unwrap_err();
        assert!(error.to_string().contains("undefined: missing"), "{error}");
    }
}
