//! A running component.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::{Error, RealBinary, io_error};

/// Makes the Go program exit when its standard input is closed; it then has 3 s to shut down gracefully.
const END_WITH_STDIN: (&str, &str) = ("END_WITH_STDIN", "1");

/// Maximum number of bytes that [`Component::log_tail`] returns.
const LOG_TAIL: u64 = 16 * 1024;

/// Number of log lines that a failing test prints.
const SHOWN_LINES: usize = 30;

/// Time after which [`Component::stop`] kills the process; a little longer than the program's own limit.
const GRACE: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(20);

/// A real component that runs as a child process and writes its output to a log file. Dropping this value kills the
/// child process. The child also exits when this process exits for any reason, because that closes the child's standard
/// input.
#[derive(Debug)]
pub struct Component {
    command: Box<RoleCommand>,
    child: Child,
    /// Dropped to request a graceful shutdown.
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

/// Command line that runs a role.
#[derive(Debug)]
struct RoleCommand {
    program: PathBuf,
    name: String,
    args: Vec<String>,
}

impl Component {
    /// Runs the role `name` with `args`. The output goes to the file `log`.
    pub(super) fn start(
        binary: &RealBinary,
        name: &str,
        args: &[String],
        log: PathBuf,
    ) -> Result<Self, Error> {
        let output = File::create(&log).map_err(io_error(format!("starting {name}")))?;
        let command =
            RoleCommand { program: binary.path().to_owned(), name: name.to_owned(), args: args.to_vec() };
        let (child, stdin) = command.spawn(output)?;
        Ok(Self { command: Box::new(command), child, stdin, log })
    }

    /// Stops the component, gracefully (as [`Self::stop`] does) or by killing it, and restarts it with the same
    /// arguments. New output is appended to its log.
    pub(super) fn restart(&mut self, gracefully: bool) -> Result<(), Error> {
        if gracefully {
            self.end()?;
        } else {
            self.kill()?;
        }
        let output = OpenOptions::new().append(true).open(&self.log);
        let output = output.map_err(io_error(format!("starting {}", self.command.name)))?;
        (self.child, self.stdin) = self.command.spawn(output)?;
        Ok(())
    }

    /// Returns the component's name, for example `kube-scheduler`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.command.name
    }

    /// Returns the process ID, for example for `/proc/PID/stat`.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of the log file.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Returns the end of the log, at most 16 KiB; empty if it cannot be read.
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

    /// Returns the exit status if the component has exited.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(io_error(format!("reading the state of {}", self.command.name)))
    }

    /// Requests a graceful shutdown, as SIGTERM does, and kills the component if it still runs after 5 s. A graceful
    /// shutdown of kube-apiserver takes up to 3 s.
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

    /// Kills the process and waits for its end. Does nothing if it has already exited.
    pub(super) fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(io_error(format!("stopping {}", self.command.name)))
    }

    /// Fails if the component has exited or `deadline` has passed. The error contains the end of the log.
    pub(super) fn check(&mut self, waiting_for: &str, deadline: Instant) -> Result<(), Error> {
        let problem = match self.exit_status()? {
            Some(status) => format!("exited ({status}) while the test waited for {waiting_for}"),
            None if Instant::now() >= deadline => {
                format!("is not ready: timed out waiting for {waiting_for}")
            }
            None => return Ok(()),
        };
        Err(Error::NotReady { component: self.command.name.clone(), problem, log: self.log_tail() })
    }
}

impl RoleCommand {
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
            eprintln!("the end of the log of {}:\n{}", self.command.name, end.join("\n"));
        }
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
