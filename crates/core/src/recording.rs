//! Recordings of calls to the engine, which can be replayed exactly.
//!
//! A [`Recorder`] takes the place of the engine: it passes every call on to the engine. Except for
//! [`Recorder::take_notes`], it hands each call to a [`Sink`], with its time and its result, if any. An [`Encoder`]
//! writes these entries as lines of JSON: at once ([`Lines`]), or on another thread. The host opens the files.
//!
//! A [`Replayer`] makes the same calls to a new engine. In a recording that begins with the engine, every result must
//! be the same; the first one that is not is an error. A recording that begins later starts with the objects of that
//! moment, so the replay knows no earlier attempts and no bindings in progress. Such a replay, and one with another
//! configuration, is not exact: it only [compares](Comparison) the decisions.
//!
//! Requests to extenders for which an attempt waited are recorded with their answers on the line before the attempt;
//! other answers of extenders are inputs. So a replay contacts no extender.
//!
//! The first line contains the settings of the engine that are data, and the host's description of the rest
//! ([`EngineConfig::origin`]), from which the host of a replay builds the same plugins. Objects are recorded in a
//! private form that has only the fields that decisions use, not in the form of the Kubernetes API. Later versions of
//! the program read it: fields may be added, and the number of the format increases with any other change.

mod comparison;
mod encoder;
mod extenders;
mod line;
mod questions;
mod replayer;
mod results;

use std::{
    io::{self, Write},
    ops::Deref,
    sync::Arc,
};

use harbormaster_api::{Pod, Timestamp};

use crate::{
    effect::Effect,
    engine::{Engine, EngineConfig, Room},
    input::Input,
    note::{Note, Notes},
    outcome::Attempted,
};
use extenders::ExtenderRecorder;
use line::{Line, Setup, Told};
use results::{RecordedAttempt, RecordedEffect};

pub use comparison::{Comparison, Moved, OtherVictims};
pub use encoder::{Encoder, Lines};
pub use replayer::{
    Configure, Mode, Placement, Progress, ReplayError, ReplaySummary, Replayer, replay, replay_through,
};

/// A part of a recording: the engine's settings, a call, or results.
pub struct Entry(Line);

impl Entry {
    /// Returns the entry for a number of entries that are lost.
    pub fn gap(lost: u64) -> Self {
        Self(Line::Gap(lost))
    }

    /// Returns true if the entry must not be lost: it contains settings or an object, without which no later file could
    /// begin.
    pub fn is_needed(&self) -> bool {
        match &self.0 {
            Line::Setup(..) | Line::Reconfigure(..) => true,
            Line::Input(_, input) => input.is_change(),
            _ => false,
        }
    }
}

/// Receiver of the entries of a recording. Must return quickly, because scheduling waits for it.
pub trait Sink {
    /// Takes the next entry.
    fn put(&mut self, entry: Entry);
}

/// An engine whose calls are recorded. Derefs to its [`Engine`].
pub struct Recorder<S> {
    engine: Engine,
    /// `None` if there are no extenders.
    extenders: Option<Arc<ExtenderRecorder>>,
    /// `None` if nothing is recorded.
    to: Option<S>,
}

impl<S: Sink> Recorder<S> {
    /// Creates an engine and records its settings. Without `to`, nothing is recorded.
    pub fn new(mut config: EngineConfig, mut to: Option<S>) -> Self {
        let mut extenders = None;
        if let Some(to) = &mut to {
            to.put(Entry(Line::Setup(1, Setup::of(&config))));
            extenders = ExtenderRecorder::wrap(&mut config.extenders);
        }
        Self { engine: Engine::new(config), extenders, to }
    }

    /// See [`Engine::room_for`]. The question is not recorded, because it has no effect.
    pub fn room_for(&mut self, pod: Pod) -> Option<Room> {
        self.engine.room_for(pod)
    }

    /// See [`Engine::handle`].
    pub fn handle(&mut self, input: Input, now: Timestamp) {
        self.put(|| Line::Input(now, (&input).into()));
        self.engine.handle(input, now);
    }

    /// See [`Engine::tick`].
    pub fn tick(&mut self, now: Timestamp) {
        self.put(|| Line::Tick(now));
        self.engine.tick(now);
    }

    /// See [`Engine::reconfigure`]. The new settings are recorded like those in the first line.
    pub fn reconfigure(&mut self, mut config: EngineConfig, now: Timestamp) {
        self.put(|| Line::Reconfigure(now, Setup::of(&config)));
        if self.to.is_some() {
            self.extenders = ExtenderRecorder::wrap(&mut config.extenders);
        }
        self.engine.reconfigure(config, now);
    }

    /// See [`Engine::schedule_one`].
    pub fn schedule_one(&mut self, now: Timestamp) -> Option<Attempted> {
        self.schedule_one_by(&mut || now)
    }

    /// See [`Engine::schedule_one_by`]. Every time read from the clock is recorded.
    pub fn schedule_one_by(&mut self, clock: &mut dyn FnMut() -> Timestamp) -> Option<Attempted> {
        if self.to.is_none() {
            return self.engine.schedule_one_by(clock);
        }
        let mut times = Vec::new();
        let attempted = self.engine.schedule_one_by(&mut || {
            let now = clock();
            times.push(now);
            now
        });
        let exchanges = self.extenders.as_ref().map(|extenders| extenders.take()).unwrap_or_default();
        if !exchanges.is_empty() {
            self.put(|| Line::Extenders(exchanges));
        }
        self.put(|| Line::Attempt(times, Told::Here(RecordedAttempt::of(attempted.as_ref()))));
        attempted
    }

    /// See [`Engine::take_effects`]. Recorded unless there are none.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        let effects = self.engine.take_effects();
        if !effects.is_empty() {
            self.put(|| Line::Effects(Told::Here(RecordedEffect::all(&effects))));
        }
        effects
    }

    /// See [`Engine::take_notes`]. Notes are not recorded.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.engine.take_notes()
    }

    /// See [`Engine::set_notes`]. Notes do not influence decisions.
    pub fn set_notes(&mut self, notes: Notes) {
        self.engine.set_notes(notes);
    }

    fn put(&mut self, line: impl FnOnce() -> Line) {
        if let Some(to) = &mut self.to {
            to.put(Entry(line()));
        }
    }
}

impl<W: Write> Recorder<Lines<W>> {
    /// Creates an engine whose calls are written to `to`.
    pub fn writing(config: EngineConfig, to: W) -> Self {
        Self::new(config, Some(Lines::to(to)))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first write error. After that error, the engine continued without recording.
    pub fn finish(self) -> io::Result<W> {
        match self.to {
            Some(to) => to.finish(),
            None => Err(io::Error::other("nothing was recorded")),
        }
    }
}

impl<S> Deref for Recorder<S> {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.engine
    }
}
