//! The ring of files, and the thread that writes it.

use std::{
    fs::{self, File},
    io::{self, Write},
    time::{Duration, Instant, SystemTime},
};

use harbormaster_api::Timestamp;
use harbormaster_core::recording::{Encoder, Entry};
use zstd::stream::write::Encoder as Compressor;

use super::{
    RecordingConfig, files,
    pipe::{Batch, Outlet},
};

/// Number of files that the ring has when it is full.
const FILES: u32 = 8;
/// Level of compression: the one that takes the least time.
const LEVEL: i32 = 1;
/// Maximum time for which written lines stay in memory. They are lost if the process is killed.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
/// Size from which on lines are passed to the compressor.
const CHUNK: usize = 1 << 18;
/// Time after a failure until the next try.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The files, and the lines that are not written yet.
pub(super) struct Ring {
    config: RecordingConfig,
    /// Name of the run.
    run: String,
    encoder: Encoder,
    lines: Vec<u8>,
    /// `None` after a failure.
    file: Option<Compressor<'static, CountingFile>>,
    opened: Instant,
    /// Size of the objects with which the file begins. A file in which nothing else has room would be followed by one
    /// after another.
    size_of_objects: u64,
    flushed: Instant,
    /// True if the compressor has lines that are not in the file.
    is_behind: bool,
    /// Time of the next try after a failure.
    retry_at: Instant,
}

/// A file and its size.
struct CountingFile {
    file: File,
    size: u64,
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Ring {
    /// Creates the directory and the first file.
    pub(super) fn create(config: RecordingConfig, now: Timestamp) -> io::Result<Self> {
        fs::create_dir_all(&config.directory)?;
        let begun = Instant::now();
        let mut ring = Self {
            config,
            run: files::run_name(now),
            encoder: Encoder::of_files(),
            lines: Vec::new(),
            file: None,
            opened: begun,
            size_of_objects: 0,
            flushed: begun,
            is_behind: false,
            retry_at: begun,
        };
        ring.open(1)?;
        Ok(ring)
    }

    /// Writes what comes out of the pipe until its end.
    pub(super) fn run(mut self, outlet: &Outlet) {
        loop {
            let batch = outlet.take(if self.is_behind { FLUSH_EVERY } else { RETRY_AFTER });
            let is_last = batch.is_last;
            if batch.has_overflowed {
                tracing::error!("The recording has ended: its directory was too slow for too long");
            }
            self.take(batch);
            if is_last {
                self.end();
                return;
            }
        }
    }

    /// Ends the last file.
    pub(super) fn end(mut self) {
        self.end_file().unwrap_or_else(|error| self.report(&error));
    }

    fn end_file(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| file.finish().map(drop))
    }

    pub(super) fn take(&mut self, batch: Batch) {
        let mut entries = batch.entries.into_iter();
        if let Some((lost, before)) = batch.gap {
            entries.by_ref().take(before).for_each(|entry| self.write(entry));
            self.write(Entry::gap(lost));
            self.pass_on();
            entries.for_each(|entry| self.encode(entry));
            self.lines.clear();
            tracing::warn!(lost, "The recording has a gap: its directory is too slow");
            if self.file.is_some() {
                self.begin_file();
            }
            return;
        }
        entries.for_each(|entry| self.write(entry));
        self.pass_on();
        self.begin_file_if_due();
    }

    fn begin_file_if_due(&mut self) {
        let is_due = match self.file {
            Some(_) => self.is_file_full(),
            None => Instant::now() >= self.retry_at,
        };
        if is_due && self.encoder.is_settled() {
            self.begin_file();
        }
    }

    /// Adds an entry to the lines.
    fn encode(&mut self, entry: Entry) {
        // Memory accepts everything.
        let _ = self.encoder.write(entry, &mut self.lines);
    }

    fn write(&mut self, entry: Entry) {
        self.encode(entry);
        if self.lines.len() >= CHUNK {
            self.pass_on();
            self.begin_file_if_due();
        }
    }

    fn pass_on(&mut self) {
        self.is_behind |= !self.lines.is_empty();
        self.compress(self.is_behind && self.flushed.elapsed() >= FLUSH_EVERY);
    }

    /// Passes the lines to the compressor. After a failure, they are lost.
    fn compress(&mut self, is_to_flush: bool) {
        if let Some(file) = &mut self.file {
            let mut passed = file.write_all(&self.lines);
            if is_to_flush && passed.is_ok() {
                passed = file.flush();
                (self.flushed, self.is_behind) = (Instant::now(), false);
            }
            if let Err(error) = passed {
                self.fail(&error);
            }
        }
        self.lines.clear();
    }

    fn is_file_full(&self) -> bool {
        let size = self.file.as_ref().map_or(0, |file| file.get_ref().size);
        let limit = (self.config.max_size / u64::from(FILES)).max(2 * self.size_of_objects);
        size >= limit || self.opened.elapsed() >= self.config.max_age / FILES
    }

    /// Ends the file and begins the next one with all objects.
    fn begin_file(&mut self) {
        if let Err(error) = self.end_file() {
            self.fail(&error);
            return;
        }
        // Memory accepts everything.
        let _ = self.encoder.begin_file(&mut self.lines);
        if let Err(error) = self.open(self.encoder.file()) {
            self.lines.clear();
            self.fail(&error);
            return;
        }
        self.compress(true);
        self.size_of_objects = self.file.as_ref().map_or(0, |file| file.get_ref().size);
    }

    fn open(&mut self, number: u64) -> io::Result<()> {
        self.delete_old()?;
        let path = self.config.directory.join(files::file_name(&self.run, number));
        let file = CountingFile { file: File::create_new(path)?, size: 0 };
        self.file = Some(Compressor::new(file, LEVEL)?);
        self.opened = Instant::now();
        Ok(())
    }

    /// Deletes old files, and the oldest ones until there is room for another file.
    fn delete_old(&self) -> io::Result<()> {
        let runs = files::runs(&self.config.directory)?;
        let all: Vec<_> = runs.into_iter().flat_map(|run| run.files).map(|(_, path)| path).collect();
        let mut sized = Vec::new();
        for path in all {
            let about = fs::metadata(&path)?;
            sized.push((path, about.len(), about.modified()?));
        }
        let mut total: u64 = sized.iter().map(|(_, size, _)| size).sum();
        let room = self.config.max_size - self.config.max_size / u64::from(FILES);
        for (path, size, modified) in sized {
            let age = SystemTime::now().duration_since(modified).unwrap_or_default();
            if total > room || age > self.config.max_age {
                fs::remove_file(path)?;
                total -= size;
            }
        }
        Ok(())
    }

    /// Gives up the file. The number of the next one tells that there is a gap.
    fn fail(&mut self, error: &io::Error) {
        self.report(error);
        self.file = None;
        self.encoder.leave_out_a_file();
        self.retry_at = Instant::now() + RETRY_AFTER;
    }

    fn report(&self, error: &io::Error) {
        let directory = self.config.directory.display();
        tracing::error!(%directory, err = %error, "Writing the recording failed; it has a gap, and is continued in a minute");
    }
}
