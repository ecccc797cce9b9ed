//! Recordings of calls to the engine, which can be replayed exactly.
//!
//! A [`Recorder`] takes the place of the engine: it passes every call on to the engine. Except for
//! [`Recorder::take_notes`], it writes each call as a line of JSON, with its time and its result, if any. [`replay`]
//! creates a new engine, makes the same calls and compares the results. The first line with a different result is an
//! error. The host opens the files.
//!
//! Requests to extenders and their answers are recorded on the line before the attempt that made them, so a replay
//! contacts no extender.
//!
//! The first line contains those settings of the engine that are data; for a replay, the host must supply the same
//! plugins and arguments. Objects are recorded in a private form that has only the fields that decisions use, not in
//! the form of the Kubernetes API. A recording can be replayed only by the version that wrote it.

mod extenders;
mod line;

use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
    ops::Deref,
    sync::Arc,
};

use harbormaster_api::Timestamp;
use rustc_hash::FxHashMap;
use serde_json::Value;
use thiserror::Error;

use crate::{
    effect::{Effect, EvictTask},
    engine::{Engine, EngineConfig},
    input::Input,
    note::Note,
    outcome::Attempted,
};
use extenders::{ExtenderRecorder, ExtenderReplay};
use line::{EvictionId, InvalidLine, Line, Setup};

/// An engine whose calls are recorded. Derefs to its [`Engine`].
pub struct Recorder<W> {
    engine: Engine,
    /// `None` if there are no extenders.
    extenders: Option<Arc<ExtenderRecorder>>,
    to: W,
    /// The error that ended the recording.
    failed: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// Creates an engine and writes the first line.
    pub fn new(mut config: EngineConfig, to: W) -> Self {
        let setup = Line::Setup(Setup::of(&config));
        let extenders = ExtenderRecorder::wrap(&mut config.extenders);
        let mut recorder = Self { engine: Engine::new(config), extenders, to, failed: None };
        recorder.write(&setup);
        recorder
    }

    /// See [`Engine::handle`].
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        self.write(&Line::Input(now, (&input).into()));
        self.engine.handle(input, now);
    }

    /// See [`Engine::tick`].
    pub fn tick(&mut self, now: Timestamp) {
        self.write(&Line::Tick(now));
        self.engine.tick(now);
    }

    /// See [`Engine::reconfigure`]. The new settings are recorded like those in the first line.
    pub fn reconfigure(&mut self, mut config: EngineConfig, now: Timestamp) {
        self.write(&Line::Reconfigure(now, Setup::of(&config)));
        self.extenders = ExtenderRecorder::wrap(&mut config.extenders);
        self.engine.reconfigure(config, now);
    }

    /// See [`Engine::schedule_one`].
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// See [`Engine::schedule_one_by`]. Every time read from the clock is recorded.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let mut times = Vec::new();
        let attempted = self.engine.schedule_one_by(&mut || {
            let now = clock();
            times.push(now);
            now
        });
        let exchanges = self.extenders.as_ref().map(|extenders| extenders.take()).unwrap_or_default();
        if !exchanges.is_empty() {
            self.write(&Line::Extenders(exchanges));
        }
        self.write(&Line::Attempt(times, line::attempted(attempted.as_ref())));
        attempted
    }

    /// See [`Engine::take_effects`].
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let effects = self.engine.take_effects();
        self.write(&Line::Effects(line::effects(&effects)));
        effects
    }

    /// See [`Engine::take_notes`]. Notes are not recorded.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.engine.take_notes()
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first write error. After that error, the engine continued without recording.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }

    /// Writes a line. An error must not keep pods from being scheduled, so it ends only the recording.
    fn write(&mut self, line: &Line<'_>) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.to, line).map_err(io::Error::from);
        self.failed = written.and_then(|()| self.to.write_all(b"\n")).err();
    }
}

impl<W> Deref for Recorder<W> {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

/// Summary of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Number of lines of all kinds.
    pub lines: usize,
    /// Number of attempts.
    pub attempts: usize,
    /// Number of effects, all equal to the recorded ones.
    pub effects: usize,
}

/// Error during a replay. Line numbers start at 1.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("line {0}: {1}")]
    Io(usize, io::Error),
    /// The line was not written by this version.
    #[error("line {0} is not a call to the engine: {1}")]
    Unreadable(usize, serde_json::Error),
    /// The line is valid but cannot occur here.
    #[error("line {0} cannot be replayed: {1}")]
    NotReplayable(usize, String),
    /// The engine behaved differently from the recording.
    #[error("line {line} differs: recorded {recorded}, now {now}")]
    Differs {
        /// Line number.
        line: usize,
        /// The recorded result.
        recorded: Value,
        /// The result of the replay.
        now: Value,
    },
}

/// Replays a recording on a new engine. An incomplete last line, as left by a killed process, ends the replay without
/// an error.
///
/// # Errors
/// The error at the first line that cannot be replayed or has a different result.
pub fn replay(config: EngineConfig, recording: impl BufRead) -> Result<ReplaySummary, ReplayError> {
    replay_through(config, [], recording)
}

/// Replays a recording in which new configurations were applied: `later` contains them, in order.
///
/// # Errors
/// The same errors as [`replay`], and an error if `later` lacks a configuration.
pub fn replay_through(
    config: EngineConfig,
    later: impl IntoIterator<Item = EngineConfig>,
    mut recording: impl BufRead,
) -> Result<ReplaySummary, ReplayError> {
    let mut replayer = Replayer::new(config, later.into_iter().collect());
    let mut text = String::new();
    loop {
        text.clear();
        let number = replayer.summary.lines + 1;
        let read = recording.read_line(&mut text).map_err(|error| ReplayError::Io(number, error))?;
        if read == 0 {
            return Ok(replayer.summary);
        }
        match serde_json::from_str(&text) {
            Ok(line) => replayer.replay_line(number, line)?,
            Err(error) if error.is_eof() && !text.ends_with('\n') => return Ok(replayer.summary),
            Err(error) => return Err(ReplayError::Unreadable(number, error)),
        }
    }
}

/// A replay in progress: the engine and its pending requests.
struct Replayer {
    setup: Setup,
    engine: Engine,
    /// Configurations that have not been applied yet.
    later: VecDeque<EngineConfig>,
    /// Requested evictions that have not ended.
    evictions: FxHashMap<EvictionId, EvictTask>,
    /// Recorded answers of extenders.
    extenders: Arc<ExtenderReplay>,
    summary: ReplaySummary,
}

impl Replayer {
    fn new(mut config: EngineConfig, later: VecDeque<EngineConfig>) -> Self {
        let extenders = Arc::new(ExtenderReplay::default());
        config.extenders = config.extenders.with_client(extenders.clone());
        Self {
            setup: Setup::of(&config),
            extenders,
            engine: Engine::new(config),
            later,
            evictions: FxHashMap::default(),
            summary: ReplaySummary::default(),
        }
    }

    fn replay_line(&mut self, number: usize, line: Line<'_>) -> Result<(), ReplayError> {
        match line {
            Line::Setup(setup) => expect_equal(number, setup.value(), self.setup.value())?,
            _ if number == 1 => {
                let why = "a recording must begin with the engine's settings".to_owned();
                return Err(ReplayError::NotReplayable(number, why));
            }
            Line::Input(at, recorded) => {
                let input = recorded.into_input(|id| self.evictions.remove(id));
                let input = input.map_err(|InvalidLine(why)| ReplayError::NotReplayable(number, why))?;
                self.engine.handle(input, at);
            }
            Line::Tick(at) => self.engine.tick(at),
            Line::Extenders(exchanges) => self.extenders.add(exchanges),
            Line::Attempt(times, recorded) => {
                let mut reads = 0;
                let attempted = self.engine.schedule_one_by(&mut || {
                    reads += 1;
                    // If the clock is read more often than in the recording, the comparison of the counts below fails.
                    times.get(reads - 1).or(times.last()).copied().unwrap_or_default()
                });
                self.summary.attempts += usize::from(attempted.is_some());
                expect_equal(number, recorded, line::attempted(attempted.as_ref()))?;
                expect_equal(number, times.len().into(), reads.into())?;
                expect_equal(number, 0.into(), self.extenders.clear().into())?;
            }
            Line::Reconfigure(at, setup) => {
                let mut config = self.later.pop_front().ok_or_else(|| {
                    let why =
                        "a new configuration was applied here, but none was given to the replay".to_owned();
                    ReplayError::NotReplayable(number, why)
                })?;
                expect_equal(number, setup.value(), Setup::of(&config).value())?;
                config.extenders = config.extenders.with_client(self.extenders.clone());
                self.engine.reconfigure(config, at);
            }
            Line::Effects(recorded) => self.compare_effects(number, recorded)?,
        }
        self.summary.lines = number;
        Ok(())
    }

    fn compare_effects(&mut self, number: usize, recorded: Vec<Value>) -> Result<(), ReplayError> {
        let effects = self.engine.take_effects();
        let now = line::effects(&effects);
        for at in 0..recorded.len().max(now.len()) {
            let of = |list: &[Value]| list.get(at).cloned().unwrap_or_default();
            expect_equal(number, of(&recorded), of(&now))?;
        }
        self.summary.effects += effects.len();
        let tasks = effects.into_iter().filter_map(|effect| match effect {
            Effect::Evict(task) => Some((EvictionId::of(&task), task)),
            _ => None,
        });
        self.evictions.extend(tasks);
        Ok(())
    }
}

fn expect_equal(line: usize, recorded: Value, now: Value) -> Result<(), ReplayError> {
    if recorded == now { Ok(()) } else { Err(ReplayError::Differs { line, recorded, now }) }
}
