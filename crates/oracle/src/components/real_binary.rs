//! Building the Go program that holds the real components.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, io_error};

/// What the components believe their version to be; the version in `go.mod`.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// The file name in `target/real/` is this and the key of the sources.
const FILE_PREFIX: &str = "components-";

/// How often a running build tells that it is alive.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);

/// How many of the last lines of `go build` an error shows.
const SHOWN_LINES: usize = 40;

/// The built program, `target/real/components-KEY` under the workspace. Its
/// first argument chooses the role: `etcd`, `kube-apiserver`,
/// `kube-controller-manager`, `kube-scheduler`, `verdicts`,
/// `service-account-key`.
#[derive(Debug, Clone)]
pub struct RealBinary {
    path: PathBuf,
}

impl RealBinary {
    /// Returns the program, building it first when it does not exist for the
    /// present content of `tests/real`. Processes that run side by side build
    /// it once. Progress goes to stderr, past the capture of test output.
    pub fn ensure() -> Result<Self, Error> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = workspace.join("tests/real");
        let directory = workspace.join("target/real");
        let key = source_key(&sources).map_err(io_error(format!("reading {}", sources.display())))?;
        let path = directory.join(format!("{FILE_PREFIX}{key:016x}"));
        if !path.exists() {
            fs::create_dir_all(&directory).map_err(io_error(format!("creating {}", directory.display())))?;
            build_once(&sources, &directory, &path)?;
        }
        Ok(Self { path })
    }

    /// The executable file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A key over names and contents of the module's files: FNV-1a, 64 bits, which
/// is the same in every process and every release of Rust.
fn source_key(sources: &Path) -> io::Result<u64> {
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
    key.write(KUBERNETES_VERSION.as_bytes());
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

/// Builds `path` unless another process has done so while we waited for it.
fn build_once(sources: &Path, directory: &Path, path: &Path) -> Result<(), Error> {
    let lock_path = directory.join("lock");
    let lock = File::create(&lock_path).map_err(io_error(format!("creating {}", lock_path.display())))?;
    if lock.try_lock().is_err() {
        progress("waiting for another process that builds the real Kubernetes components ...");
        lock.lock().map_err(io_error(format!("locking {}", lock_path.display())))?;
    }
    if path.exists() {
        return Ok(());
    }
    let unfinished = directory.join("unfinished");
    progress("building the real Kubernetes components with Go (about 4 minutes on 2 cores, once) ...");
    let start = Instant::now();
    build(sources, &unfinished)?;
    progress(&format!("built the real Kubernetes components in {} s", start.elapsed().as_secs()));
    remove_outdated(directory);
    fs::rename(&unfinished, path).map_err(io_error(format!("creating {}", path.display())))
}

/// Each outdated build would keep 140 MB. A process that runs one is not hurt.
fn remove_outdated(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(FILE_PREFIX) {
            // It only costs disk if it stays.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn build(sources: &Path, output: &Path) -> Result<(), Error> {
    // No cgo: the build then needs no C compiler and the file no libraries.
    let mut child = Command::new("go")
        .args(["build", "-v", "-mod=readonly", "-ldflags"])
        .arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"))
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
    fn the_key_changes_with_content_and_name_of_go_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let key = || source_key(directory.path()).unwrap();
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
        let error = build(directory.path(), &directory.path().join("out")).unwrap_err();
        assert!(error.to_string().contains("undefined: missing"), "{error}");
    }
}
