//! The built binary as a process.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::cluster::{PATIENCE, eventually};

const POLL: Duration = Duration::from_millis(10);
/// Longest wait for the process to exit. On shutdown, Harbormaster abandons unfinished work after ten seconds.
pub const END: Duration = Duration::from_secs(30);

/// Path of the built `harbormaster`. `None` in the tests of other crates, which have their own programs.
const BINARY: Option<&str> = option_env!("CARGO_BIN_EXE_harbormaster");

fn binary() -> &'static Path {
    Path::new(BINARY.expect("cargo sets it for tests of this crate"))
}

/// A running `harbormaster run`, killed on drop.
pub struct Harbormaster {
    child: Child,
    log: PathBuf,
}

/// Returns the arguments of a scheduler whose secure port answers everybody's requests for `paths`.
pub fn with_open_port(config: &Path, port: u16, paths: &str) -> [String; 4] {
    [
        format!("--config={}", config.display()),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--authorization-always-allow-paths={paths}"),
    ]
}

impl Harbormaster {
    /// Starts the binary, without leader election or a secure port unless `args` enables them. The binary's log is
    /// written to `log`.
    pub fn start(args: &[String], log: PathBuf) -> Self {
        Self::start_program(binary(), args, log)
    }

    /// Starts the binary as [`Self::start`] does, with additional environment variables.
    pub fn start_with_variables(variables: &[(&str, String)], args: &[String], log: PathBuf) -> Self {
        Self::start_command(Command::new(binary()).envs(variables.iter().cloned()), args, log)
    }

    /// Starts another scheduler program, with the arguments that [`Self::start`] adds.
    pub fn start_program(program: &Path, args: &[String], log: PathBuf) -> Self {
        Self::start_command(&mut Command::new(program), args, log)
    }

    fn start_command(command: &mut Command, args: &[String], log: PathBuf) -> Self {
        let mut all = ["run", "--leader-elect=false", "--secure-port=0", "-v=4"].map(str::to_owned).to_vec();
        all.extend_from_slice(args);
        Self::start_exactly(command, &all, log)
    }

    /// Starts the built binary under another name, through a link in `directory`, with exactly the given arguments.
    pub fn start_as(name: &str, args: &[String], directory: &Path) -> Self {
        let program = directory.join(name);
        std::os::unix::fs::symlink(binary(), &program).expect("a link can be made");
        Self::start_exactly(&mut Command::new(program), args, directory.join("log"))
    }

    fn start_exactly(command: &mut Command, args: &[String], log: PathBuf) -> Self {
        let output = File::create(&log).expect("the log can be written");
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file can be shared"))
            .stderr(output)
            .spawn()
            .expect("the binary runs");
        Self { child, log }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns all log lines written so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log can be read")
    }

    /// Returns the log lines that contain all of `parts`.
    pub fn lines_with(&self, parts: &[&str]) -> Vec<String> {
        let log = self.log();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(has_all).map(str::to_owned).collect()
    }

    /// Returns the number of attempts to schedule a pod in the `default` namespace.
    pub fn attempts(&self, pod: &str) -> usize {
        self.lines_with(&["Attempting to schedule pod", &format!("\"default/{pod}\"")]).len()
    }

    /// Returns the number of bindings of a pod in the `default` namespace that failed in PreBind.
    pub fn failed_bindings(&self, pod: &str) -> usize {
        self.lines_with(&["Error scheduling pod; retrying", "PreBind", &format!("\"default/{pod}\"")]).len()
    }

    /// Waits for a log line that contains all of `parts`.
    pub fn wait_for_line(&self, parts: &[&str]) -> String {
        eventually(&format!("a log line with {parts:?}"), PATIENCE, || {
            self.lines_with(parts).into_iter().next()
        })
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends the named signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    /// Returns true if the process is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the process can be polled").is_none()
    }

    /// Waits until the process exits.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        wait(&mut self.child, limit)
            .unwrap_or_else(|| panic!("the process did not exit within {limit:?}:\n{}", self.log()))
    }

    /// Sends SIGTERM, and asserts that the process exits successfully and that nothing in it panicked. Returns the
    /// process's log.
    pub fn ends_well(mut self) -> String {
        self.terminate();
        let status = self.wait(END);
        let log = self.log();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.contains("panicked"), "{log}");
        log
    }
}

impl Drop for Harbormaster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the end of the log of Harbormaster:\n{}",
                lines[lines.len().saturating_sub(30)..].join("\n")
            );
        }
        // Both calls fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the binary until it exits, and returns its exit code and stderr. Kills it after `limit`.
pub fn run_to_end(args: &[&str], directory: &Path, limit: Duration) -> (Option<i32>, String) {
    let errors = directory.join("stderr");
    let mut child = Command::new(binary())
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).expect("stderr can be written"))
        .spawn()
        .expect("the binary runs");
    let status = wait(&mut child, limit);
    if status.is_none() {
        child.kill().expect("the process can be killed");
        child.wait().expect("the process ends");
    }
    let text = fs::read_to_string(&errors).expect("stderr can be read");
    (status.and_then(|status| status.code()), text)
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("the process can be polled") {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(POLL);
    }
}
