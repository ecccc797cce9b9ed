//! Building the Go modules under `tests/`, each into one program in `target/real`.

use std::fs::{self, File};
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

/// A Go module with one program.
#[derive(Debug, Clone, Copy)]
pub(super) struct GoModule {
    /// Where it lies, under the workspace.
    pub(super) directory: &'static str,
    /// The program is `target/real/NAME-KEY`, with the key of its sources.
    pub(super) name: &'static str,
    /// The version of Kubernetes that the program takes itself for.
    pub(super) version: &'static str,
    /// What it is, for people.
    pub(super) what: &'static str,
    /// How long the first build takes on 2 cores, in minutes.
    pub(super) minutes: u32,
}

impl GoModule {
    /// Returns the program, building it first when it does not exist for the
    /// present content of the module. Processes that run side by side build it
    /// once. Progress goes to stderr, past the capture of test output.
    pub(super) fn ensure(&self) -> Result<PathBuf, Error> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = workspace.join(self.directory);
        let directory = workspace.join("target/real");
        let key =
            source_key(&sources, self.version).map_err(io_error(format!("reading {}", sources.display())))?;
        let path = directory.join(format!("{}-{key:016x}", self.name));
        if !path.exists() {
            fs::create_dir_all(&directory).map_err(io_error(format!("creating {}", directory.display())))?;
            self.build_once(&sources, &directory, &path)?;
        }
        Ok(path)
    }

    /// Builds `path` unless another process has done so while we waited for it.
    fn build_once(&self, sources: &Path, directory: &Path, path: &Path) -> Result<(), Error> {
        let Self { what, minutes, .. } = self;
        let lock_path = directory.join("lock");
        let lock = File::create(&lock_path).map_err(io_error(format!("creating {}", lock_path.display())))?;
        if lock.try_lock().is_err() {
            progress(&format!("{what}: waiting for another process that builds ..."));
            lock.lock().map_err(io_error(format!("locking {}", lock_path.display())))?;
        }
        if path.exists() {
            return Ok(());
        }
        let unfinished = directory.join("unfinished");
        progress(&format!("building {what} with Go (about {minutes} min on 2 cores, once) ..."));
        let start = Instant::now();
        build(sources, &unfinished, self.version)?;
        progress(&format!("built {what} in {} s", start.elapsed().as_secs()));
        self.remove_outdated(directory);
        fs::rename(&unfinished, path).map_err(io_error(format!("creating {}", path.display())))
    }

    /// An outdated build would keep up to 140 MB. A process that runs one is
    /// not hurt.
    fn remove_outdated(&self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let file = entry.file_name();
            let key = file.to_string_lossy().strip_prefix(self.name).map(str::to_owned);
            if key.is_some_and(|key| is_key(&key)) {
                // It only costs disk if it stays.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a file name goes on with `-` and a key.
fn is_key(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|key| key.len() == 16 && u64::from_str_radix(key, 16).is_ok())
}

/// A key over names and contents of the module's files: FNV-1a, 64 bits, which
/// is the same in every process and every release of Rust.
fn source_key(sources: &Path, version: &str) -> io::Result<u64> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources)? {
        let path = entry?.path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        if matches!(kind, Some("go" | "mod" | "sum")) {
            files.push(path);
        }
    }
    files.sort();
    let mut key = Fnv::default();
    key.write(version.as_bytes());
    for path in files {
        key.write(path.file_name().unwrap_or_default().as_encoded_bytes());
        key.write(&[0]);
        key.write(&fs::read(&path)?);
        key.write(&[0]);
    }
    Ok(key.0)
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

fn build(sources: &Path, output: &Path, version: &str) -> Result<(), Error> {
    // No cgo: the build then needs no C compiler and the file no libraries.
    let mut child = Command::new("go")
        .args(["build", "-v", "-mod=readonly", "-ldflags"])
        .arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={version}"))
        .arg("-o")
        .arg(output)
        .arg(".")
        .current_dir(sources)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::GoMissing,
            _ => Error::Io { action: "running go build".to_owned(), source },
        })?;
    let printed = follow(&mut child);
    let status = child.wait().map_err(io_error("waiting for go build"))?;
    if !status.success() {
        let shown = &printed[printed.len().saturating_sub(SHOWN_LINES)..];
        return Err(Error::Build {
            directory: sources.to_owned(),
            status: status.to_string(),
            output: shown.join("\n"),
        });
    }
    Ok(())
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
fn progress(line: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_builds_of_the_same_name_are_outdated() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["kubectl-1.27-0123456789abcdef", "kubectl-1.2-0123456789abcdef", "kubectl-1.27-x"];
        for file in files {
            fs::write(directory.path().join(file), "").unwrap();
        }
        let module = GoModule { directory: "", name: "kubectl-1.27", version: "", what: "", minutes: 0 };
        module.remove_outdated(directory.path());
        assert_eq!(files.map(|file| directory.path().join(file).exists()), [false, true, true]);
    }

    #[test]
    fn the_key_changes_with_content_and_name_of_go_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let key = || source_key(directory.path(), "v1").unwrap();
        write("a.go", "package main");
        write("go.sum", "");
        let first = key();
        assert_eq!(first, key());
        write("notes.txt", "hello");
        assert_eq!(first, key());
        write("go.sum", "h1");
        let second = key();
        assert_ne!(first, second);
        fs::rename(directory.path().join("a.go"), directory.path().join("b.go")).unwrap();
        assert_ne!(second, key());
    }

    #[test]
    fn a_failing_build_shows_what_go_printed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("go.mod"), "module broken\n").unwrap();
        fs::write(directory.path().join("main.go"), "package main\nfunc main() { missing() }\n").unwrap();
        let error = build(directory.path(), &directory.path().join("out"), "v1").unwrap_err();
        assert!(error.to_string().contains("undefined: missing"), "{error}");
    }
}
