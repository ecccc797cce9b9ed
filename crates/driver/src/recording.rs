//! Recordings of a running scheduler: see [`harbormaster_core::recording`].
//!
//! ```text
//! engine ──entries──> [`pipe`] (bounded, never waits) ──> thread: [`ring`] ──lines, compressed──> files
//! ```
//!
//! The engine only passes copies of its inputs and results on. A thread turns them into lines of JSON, compresses them,
//! and writes them to a ring of files: when a file is large or old enough, a new one begins, and the oldest ones are
//! deleted. Each file begins with all objects, so a replay can begin with any of them.
//!
//! If the thread cannot keep up, or the disk fails, entries are lost. The recording says so, and continues with a new
//! file.

pub mod files;
mod pipe;
mod ring;

use std::{io, path::PathBuf, thread, time::Duration};

use harbormaster_api::Timestamp;

pub use pipe::Pipe;

use ring::Ring;

/// Place and size of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingConfig {
    /// Directory of the files. It is created if it does not exist.
    pub directory: PathBuf,
    /// Maximum size of all files together, in bytes.
    pub max_size: u64,
    /// Age after which a file is deleted.
    pub max_age: Duration,
}

/// A recording in progress. It ends when the [`Pipe`] is dropped.
#[derive(Debug)]
pub struct Recording {
    thread: thread::JoinHandle<()>,
}

impl Recording {
    /// Starts a recording. Returns the end of the pipe for the engine.
    ///
    /// # Errors
    /// If the directory cannot be created, no file can be created in it, or the thread cannot be started.
    pub fn start(config: RecordingConfig, now: Timestamp) -> io::Result<(Pipe, Self)> {
        let directory = config.directory.display().to_string();
        let ring = Ring::create(config, now)
            .map_err(|error| io::Error::new(error.kind(), format!("{directory}: {error}")))?;
        let (pipe, outlet) = pipe::pipe();
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || ring.run(&outlet))?;
        Ok((pipe, Self { thread }))
    }

    /// Waits until everything is written.
    pub fn finish(self) {
        // A panic of the thread has been printed, and concerns only the recording.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests;
