//! What happened, written down so that it can be played again bit for bit.
//!
//! A [`Recorder`] takes the place of the engine: it hands every call on and writes it down with its time and what came of it,
//! one line of JSON per call. [`replay`] makes a fresh engine, makes the same calls and compares what comes of them: the
//! first line at which the engine does something else is an error. Who writes where, and who reads from where, is the
//! host's business.
//!
//! What extenders were asked in an attempt, and what they said, is a line before that attempt: whoever plays it asks nobody.
//!
//! The first line says how the engine was set up, as far as that is data; plugins and their arguments must be the same by
//! the host's own care. The form of the objects is this program's own, not that of the Kubernetes API: it has the
//! fields that are decided on, and a version of the program reads the recordings of that version.

mod asked;
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
use asked::{Playback, Tape};
use line::{EvictionId, Line, Setup, Unplayable};

/// An engine whose calls are written down. Reads like its [`Engine`].
pub struct Recorder<W> {
    engine: Engine,
    /// `None` if there are no extenders.
    tape: Option<Arc<Tape>>,
    to: W,
    /// Why nothing is written any more.
    failed: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// A fresh engine, and the recording's first line.
    pub fn new(mut config: EngineConfig, to: W) -> Self {
        let setup = Line::Setup(Setup::of(&config));
        let tape = Tape::between(&mut config.extenders);
        let mut recorder = Self { engine: Engine::new(config), tape, to, failed: None };
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

    /// See [`Engine::take_over`]. Of the configuration is written what the first line says of the first one.
    pub fn take_over(&mut self, mut config: EngineConfig, now: Timestamp) {
        self.write(&Line::TakeOver(now, Setup::of(&config)));
        self.tape = Tape::between(&mut config.extenders);
        self.engine.take_over(config, now);
    }

    /// See [`Engine::schedule_one`].
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// See [`Engine::schedule_one_by`]. Every time that the clock tells is written down.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        let mut times = Vec::new();
        let attempted = self.engine.schedule_one_by(&mut || {
            let now = clock();
            times.push(now);
            now
        });
        let asked = self.tape.as_ref().map(|tape| tape.take()).unwrap_or_default();
        if !asked.is_empty() {
            self.write(&Line::Asked(asked));
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

    /// See [`Engine::take_notes`]; they are not recorded.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.engine.take_notes()
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first one of writing. The engine went on; the recording ends there.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }

    /// A failure to write must not keep pods from being scheduled: it ends the recording and nothing else.
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

/// What was played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Lines, all kinds of calls together.
    pub lines: usize,
    /// Pods that were tried.
    pub attempts: usize,
    /// Effects, all equal to the recorded ones.
    pub effects: usize,
}

/// Why a recording cannot be played, or what is different this time. Lines count from 1.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("line {0}: {1}")]
    Io(usize, io::Error),
    /// It is not a line of a recording by this version.
    #[error("line {0} is no call of the engine: {1}")]
    Unreadable(usize, serde_json::Error),
    /// The line is understood, but not possible here.
    #[error("line {0} cannot be played: {1}")]
    Unplayable(usize, String),
    /// The engine did something else than when it was recorded.
    #[error("line {line}: recorded was {recorded}, now it is {now}")]
    Differs {
        /// Which line.
        line: usize,
        /// What the line says.
        recorded: Value,
        /// What came of it now.
        now: Value,
    },
}

/// Plays a recording on a fresh engine. A line that breaks off at the very end, as when the recording process was
/// killed, ends it.
///
/// # Errors
/// At the first line that cannot be played, or of which comes something else than was recorded.
pub fn replay(config: EngineConfig, recording: impl BufRead) -> Result<Replayed, ReplayError> {
    replay_through(config, [], recording)
}

/// [`replay`] of a recording in which other configurations took over: `later` are those, in order.
///
/// # Errors
/// As [`replay`], and where a configuration takes over that `later` lacks.
pub fn replay_through(
    config: EngineConfig,
    later: impl IntoIterator<Item = EngineConfig>,
    mut recording: impl BufRead,
) -> Result<Replayed, ReplayError> {
    let mut player = Player::new(config, later.into_iter().collect());
    let mut text = String::new();
    loop {
        text.clear();
        let number = player.played.lines + 1;
        let read = recording.read_line(&mut text).map_err(|error| ReplayError::Io(number, error))?;
        if read == 0 {
            return Ok(player.played);
        }
        match serde_json::from_str(&text) {
            Ok(line) => player.play(number, line)?,
            Err(error) if error.is_eof() && !text.ends_with('\n') => return Ok(player.played),
            Err(error) => return Err(ReplayError::Unreadable(number, error)),
        }
    }
}

/// A fresh engine, and what it asked for that inputs will answer.
struct Player {
    setup: Setup,
    engine: Engine,
    /// The configurations that are still to take over.
    later: VecDeque<EngineConfig>,
    /// Evictions that were asked for and have not ended.
    evictions: FxHashMap<EvictionId, EvictTask>,
    /// What extenders say.
    extenders: Arc<Playback>,
    played: Replayed,
}

impl Player {
    fn new(mut config: EngineConfig, later: VecDeque<EngineConfig>) -> Self {
        let extenders = Arc::new(Playback::default());
        config.extenders = config.extenders.lent(extenders.clone());
        Self {
            setup: Setup::of(&config),
            extenders,
            engine: Engine::new(config),
            later,
            evictions: FxHashMap::default(),
            played: Replayed::default(),
        }
    }

    fn play(&mut self, number: usize, line: Line<'_>) -> Result<(), ReplayError> {
        match line {
            Line::Setup(setup) => same(number, setup.value(), self.setup.value())?,
            _ if number == 1 => {
                let why = "a recording begins with how the engine was set up".to_owned();
                return Err(ReplayError::Unplayable(number, why));
            }
            Line::Input(at, told) => {
                let input = told.into_input(|id| self.evictions.remove(id));
                let input = input.map_err(|Unplayable(why)| ReplayError::Unplayable(number, why))?;
                self.engine.handle(input, at);
            }
            Line::Tick(at) => self.engine.tick(at),
            Line::Asked(asked) => self.extenders.put(asked),
            Line::Attempt(times, recorded) => {
                let mut told = 0;
                let attempted = self.engine.schedule_one_by(&mut || {
                    told += 1;
                    // Where the clock is read once more than it was, the numbers differ below.
                    times.get(told - 1).or(times.last()).copied().unwrap_or_default()
                });
                self.played.attempts += usize::from(attempted.is_some());
                same(number, recorded, line::attempted(attempted.as_ref()))?;
                same(number, times.len().into(), told.into())?;
                same(number, 0.into(), self.extenders.drop_rest().into())?;
            }
            Line::TakeOver(at, setup) => {
                let mut config = self.later.pop_front().ok_or_else(|| {
                    let why = "another configuration takes over here, which is not given".to_owned();
                    ReplayError::Unplayable(number, why)
                })?;
                same(number, setup.value(), Setup::of(&config).value())?;
                config.extenders = config.extenders.lent(self.extenders.clone());
                self.engine.take_over(config, at);
            }
            Line::Effects(recorded) => self.compare_effects(number, recorded)?,
        }
        self.played.lines = number;
        Ok(())
    }

    fn compare_effects(&mut self, number: usize, recorded: Vec<Value>) -> Result<(), ReplayError> {
        let effects = self.engine.take_effects();
        let now = line::effects(&effects);
        for at in 0..recorded.len().max(now.len()) {
            let of = |list: &[Value]| list.get(at).cloned().unwrap_or_default();
            same(number, of(&recorded), of(&now))?;
        }
        self.played.effects += effects.len();
        let tasks = effects.into_iter().filter_map(|effect| match effect {
            Effect::Evict(task) => Some((EvictionId::of(&task), task)),
            _ => None,
        });
        self.evictions.extend(tasks);
        Ok(())
    }
}

fn same(line: usize, recorded: Value, now: Value) -> Result<(), ReplayError> {
    if recorded == now { Ok(()) } else { Err(ReplayError::Differs { line, recorded, now }) }
}
