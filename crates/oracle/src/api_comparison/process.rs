//! A running kubectl.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Time limit for a command: longer than any command in a script takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(3);

/// A process whose input and output are files, so that it never blocks on a pipe. Dropping this value kills the
/// process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    start: Instant,
}

impl Process {
    /// Starts `command` with `input`. The paths of the process's files are `path` with different extensions.
    pub(super) fn start(command: &mut Command, path: &Path, input: &str) -> Result<Self> {
        let at = |ending: &str| path.with_extension(ending);
        fs::write(at("in"), input)?;
        let (out, err) = (at("out"), at("err"));
        let child = command
            .stdin(File::open(at("in"))?)
            .stdout(Stdio::from(File::create(&out)?))
            .stderr(Stdio::from(File::create(&err)?))
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        Ok(Self { child, out, err, start: Instant::now() })
    }

    /// Waits until the process exits. Returns the exit code, standard output and standard error.
    pub(super) fn finish(mut self) -> Result<(i32, String, String)> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code().unwrap_or(-1), read(&self.out)?, read(&self.err)?));
            }
            self.pause("to end")?;
        }
    }

    /// Waits until the process has printed `text`.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<()> {
        self.start = Instant::now();
        while !read(&self.out)?.contains(text) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the command exited ({status}) before it printed {text:?}: {}", read(&self.err)?);
            }
            self.pause(&format!("to print {text:?}"))?;
        }
        Ok(())
    }

    /// Kills the process. Returns standard output and standard error.
    pub(super) fn end(mut self) -> Result<(String, String)> {
        self.child.kill()?;
        self.child.wait()?;
        Ok((read(&self.out)?, read(&self.err)?))
    }

    /// Sleeps for a moment; fails if the process has taken too long.
    fn pause(&self, waiting_for: &str) -> Result<()> {
        if self.start.elapsed() > PATIENCE {
            bail!(
                "the command took too long {waiting_for}; its output so far:\n{}\n{}",
                read(&self.out).unwrap_or_default(),
                read(&self.err).unwrap_or_default()
            );
        }
        sleep(POLL);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
