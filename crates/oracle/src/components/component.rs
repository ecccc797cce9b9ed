//! One running component.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::{Error, RealBinary, io_error};

/// Makes the Go program end when its standard input ends; it then has 3 s to
/// finish by itself.
const END_WITH_STDIN: (&str, &str) = ("END_WITH_STDIN", "1");

/// How much of a log [`Component::log_tail`] returns, in bytes.
const LOG_TAIL: u64 = 16 * 1024;

/// How many lines of the log a test that fails shows.
const SHOWN_LINES: usize = 30;

/// The time [`Component::stop`] gives, a little more than the program's own.
const GRACE: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(20);

/// A real component as a child process. Its output goes to a log file. It ends
/// with this value, and also when this process dies in any way: it follows the
/// pipe that is its standard input.
#[derive(Debug)]
pub struct Component {
    run: Box<Run>,
    child: Child,
    /// The life line; dropped to ask for a graceful end.
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

/// How it is run.
#[derive(Debug)]
struct Run {
    program: PathBuf,
    name: String,
    args: Vec<String>,
}

impl Component {
    /// Runs the role `name` with `args` and logs to `log`.
    pub(super) fn start(
        binary: &RealBinary,
        name: &str,
        args: &[String],
        log: PathBuf,
    ) -> Result<Self, Error> {
        let output = File::create(&log).map_err(io_error(format!("starting {name}")))?;
        let run = Run { program: binary.path().to_owned(), name: name.to_owned(), args: args.to_vec() };
        let (child, stdin) = run.spawn(output)?;
        Ok(Self { run: Box::new(run), child, stdin, log })
    }

    /// Ends it, gracefully as [`Self::stop`] does or at once, and runs it anew with the same arguments. Its log goes on.
    pub(super) fn restart(&mut self, gracefully: bool) -> Result<(), Error> {
        if gracefully {
            self.end()?;
        } else {
            self.kill()?;
        }
        let output = OpenOptions::new().append(true).open(&self.log);
        let output = output.map_err(io_error(format!("starting {}", self.run.name)))?;
        (self.child, self.stdin) = self.run.spawn(output)?;
        Ok(())
    }

    /// The component's name, for instance `kube-scheduler`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.run.name
    }

    /// The process id, for instance for `/proc/PID/stat`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where the component logs.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The end of the log, at most 16 KiB; empty when it cannot be read.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
            file.read_to_end(&mut bytes)
        });
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// How the component ended, if it has.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(io_error(format!("asking for the state of {}", self.run.name)))
    }

    /// Asks for a graceful end, as SIGTERM does, waits for it at most 5 s, then
    /// kills. What a graceful end takes is at most 3 s for kube-apiserver.
    pub fn stop(mut self) -> Result<ExitStatus, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<ExitStatus, Error> {
        drop(self.stdin.take());
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if let Some(status) = self.exit_status()? {
                return Ok(status);
            }
            sleep(POLL);
        }
        self.kill()
    }

    fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(io_error(format!("stopping {}", self.run.name)))
    }

    /// Fails when the component has ended or `deadline` has passed; the end of
    /// the log is in the error.
    pub(super) fn check(&mut self, waiting_for: &str, deadline: Instant) -> Result<(), Error> {
        let problem = match self.exit_status()? {
            Some(status) => format!("ended ({status}) before {waiting_for}"),
            None if Instant::now() >= deadline => {
                format!("is not there yet: timeout waiting for {waiting_for}")
            }
            None => return Ok(()),
        };
        Err(Error::NotReady { component: self.run.name.clone(), problem, log: self.log_tail() })
    }
}

impl Run {
    fn spawn(&self, output: File) -> Result<(Child, Option<ChildStdin>), Error> {
        let starting = || format!("starting {}", self.name);
        let errors = output.try_clone().map_err(io_error(starting()))?;
        let mut child = Command::new(&self.program)
            .arg(&self.name)
            .args(&self.args)
            .env(END_WITH_STDIN.0, END_WITH_STDIN.1)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(io_error(starting()))?;
        let stdin = child.stdin.take();
        Ok((child, stdin))
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log_tail();
            let lines: Vec<&str> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            eprintln!("the end of the log of {}:\n{}", self.run.name, end.join("\n"));
        }
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
