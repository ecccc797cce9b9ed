//! Flame graphs of a scheduler in the measured phase of a workload.
//!
//! `perf record` attaches to the running scheduler, so the scheduler is started as in every other run. The stacks are
//! found by the unwinding information that every program contains, and named by the symbols that the shipped program
//! keeps.

mod drawing;
mod stacks;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process;

/// Number of samples per second of CPU time. It is odd, so that samples do not coincide with regular work.
const FREQUENCY: &str = "299";

/// Sampling of call graphs: each sample copies so many bytes of the stack, which are unwound later.
const CALL_GRAPH: &str = "dwarf,32768";

/// Time that perf has to attach to a process, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// The reason there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum FlameError {
    /// perf is not installed.
    #[error(
        "a flame graph needs `perf`, which was not found; install it (the package is called `linux-perf`, `perf` or \
         `linux-tools`), and check that `perf --version` works in this shell"
    )]
    PerfMissing,
    /// perf ended with an error.
    #[error(
        "`perf {command}` failed: {output}\nIf it is not permitted, run as root, or allow it with \
         `sysctl kernel.perf_event_paranoid=1`; in a container, also add the capability PERFMON"
    )]
    Perf {
        /// perf's subcommand.
        command: &'static str,
        /// perf's messages.
        output: String,
    },
    /// perf recorded nothing.
    #[error("perf recorded no samples: the scheduler was idle")]
    Empty,
    /// An operation on a file or process failed.
    #[error("{action}: {source}")]
    Io {
        /// The failed action.
        action: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Recordings of one process.
#[derive(Debug)]
pub struct Profile {
    running: Option<Recording>,
    finished: Vec<PathBuf>,
    folder: TempDir,
}

/// A running `perf record`.
#[derive(Debug)]
struct Recording {
    child: Child,
    data: PathBuf,
    log: PathBuf,
}

impl Profile {
    /// Creates a profile without recordings. Fails if perf cannot be run.
    pub fn new() -> Result<Self, FlameError> {
        let output = Command::new("perf").arg("--version").output().map_err(not_started)?;
        if !output.status.success() {
            return Err(FlameError::Perf { command: "--version", output: text(&output.stderr) });
        }
        let folder = tempfile::Builder::new().prefix("harbormaster-perf-").tempdir();
        let folder = folder.map_err(io_error("creating a folder for recordings"))?;
        Ok(Self { running: None, finished: Vec::new(), folder })
    }

    /// Starts to record a process, and returns when perf has attached to it.
    pub(super) fn start(&mut self, pid: u32) -> Result<(), FlameError> {
        let file = |kind: &str| self.folder.path().join(format!("{}.{kind}", self.finished.len()));
        self.running = Some(Recording::start(pid, file("data"), file("log"))?);
        Ok(())
    }

    /// Ends the recording.
    pub(super) fn stop(&mut self) -> Result<(), FlameError> {
        if let Some(recording) = self.running.take() {
            self.finished.push(recording.stop()?);
        }
        Ok(())
    }

    /// Draws the flame graph of all recordings as an SVG document.
    pub fn svg(&self, title: &str) -> Result<String, FlameError> {
        let mut stacks = stacks::Frame::default();
        for data in &self.finished {
            stacks.add_all(&script(data)?);
        }
        if stacks.samples == 0 { Err(FlameError::Empty) } else { Ok(drawing::draw(title, &stacks)) }
    }
}

impl Recording {
    fn start(pid: u32, data: PathBuf, log: PathBuf) -> Result<Self, FlameError> {
        let output = File::create(&log).map_err(io_error("creating the log of perf"))?;
        let child = Command::new("perf")
            .args(["record", "--freq", FREQUENCY, "--call-graph", CALL_GRAPH])
            .args(["--pid", &pid.to_string(), "--output"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(not_started)?;
        let mut recording = Self { child, data, log };
        recording.wait_until_attached()?;
        Ok(recording)
    }

    /// Waits until perf has written the start of its file, which it does after it has attached to the process.
    fn wait_until_attached(&mut self) -> Result<(), FlameError> {
        let deadline = Instant::now() + PATIENCE;
        while self.data.metadata().map_or(0, |data| data.len()) == 0 {
            let ended = self.child.try_wait().map_err(io_error("waiting for perf"))?;
            if ended.is_some() || Instant::now() > deadline {
                return Err(self.failed());
            }
            sleep(POLL);
        }
        Ok(())
    }

    /// Ends the recording and returns its file.
    fn stop(mut self) -> Result<PathBuf, FlameError> {
        process::terminate(self.child.id()).map_err(io_error("running kill"))?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().map_err(io_error("waiting for perf"))?.is_none() {
            if Instant::now() > deadline {
                return Err(self.failed());
            }
            sleep(POLL);
        }
        // perf reports the signal as its status, so only its file shows whether it succeeded.
        Ok(self.data.clone())
    }

    fn failed(&self) -> FlameError {
        let output = std::fs::read_to_string(&self.log).unwrap_or_default();
        FlameError::Perf { command: "record", output: output.trim().to_owned() }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the stacks of a recording as text. Inlined functions are left out, because perf would need minutes to find
/// them.
fn script(data: &Path) -> Result<String, FlameError> {
    let output = Command::new("perf")
        .args(["script", "--no-inline", "--fields", "comm,ip,sym", "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .map_err(not_started)?;
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(FlameError::Perf { command: "script", output: text(&output.stderr) })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn not_started(source: io::Error) -> FlameError {
    match source.kind() {
        io::ErrorKind::NotFound => FlameError::PerfMissing,
        _ => FlameError::Io { action: "running perf", source },
    }
}

fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> FlameError {
    move |source| FlameError::Io { action, source }
}
