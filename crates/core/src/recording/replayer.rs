//! Replays recordings.

use std::{collections::VecDeque, io::BufRead, sync::Arc};

use harbormaster_api::{PodSpec, Str, Timestamp};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{
    comparison::{Comparer, Comparison},
    extenders::ExtenderReplay,
    line::{EvictionId, FORMAT, InvalidLine, Line, OLDEST_FORMAT, RecordedInput, Setup, Told},
    questions::Questions,
    results::{RecordedAttempt, RecordedEffect},
};
use crate::{
    effect::{Effect, EvictTask},
    engine::{Engine, EngineConfig},
    outcome::{Attempted, Outcome},
};

/// Summary of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Number of lines of all kinds.
    pub lines: usize,
    /// Number of attempts.
    pub attempts: usize,
    /// Number of effects. In an exact replay, all were equal to the recorded ones.
    pub effects: usize,
}

/// Error during a replay. Line numbers start at 1.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error("line {0}: {1}")]
    Io(usize, std::io::Error),
    /// The line was not written by a version that this version can read.
    #[error("line {0} is not a call to the engine: {1}")]
    Unreadable(usize, serde_json::Error),
    /// The line is valid but cannot occur here.
    #[error("line {0} cannot be replayed: {1}")]
    NotReplayable(usize, String),
    /// The engine behaved differently from the recording.
    #[error("line {line}{} differs: recorded {recorded}, now {now}", place(*at, pod.as_deref()))]
    Differs {
        /// Line number.
        line: usize,
        /// Time of the call.
        at: Timestamp,
        /// The pod that the result concerns (`namespace/name`), if it is known.
        pod: Option<String>,
        /// The recorded result.
        recorded: Value,
        /// The result of the replay.
        now: Value,
    },
}

impl ReplayError {
    /// Returns true if the recording is sound but was decided differently.
    pub fn is_difference(&self) -> bool {
        matches!(self, Self::Differs { .. })
    }
}

fn place(at: Timestamp, pod: Option<&str>) -> String {
    let time = if at == Timestamp::default() { None } else { Some(at.to_rfc3339()) };
    let parts: Vec<String> = time.into_iter().chain(pod.map(|pod| format!("pod {pod}"))).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// A decision that placed a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Name of the node.
    pub node: Str,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Number of lines that were played before the attempt.
    pub lines: usize,
}

/// Kind of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every result must equal the recorded one. Possible if the recording begins with the engine.
    Exact,
    /// Decisions are [compared](Comparison). The cluster stays the recorded one: a decision that differs is not carried
    /// out, and the pod is then where it was in the recording.
    Compare,
}

/// Whether a replay goes on after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The line was replayed.
    Played,
    /// Calls are missing after this line. Only a new replay can go on with the next file.
    Gap(u64),
    /// The line is later than the end of the replay, and was not replayed.
    Over,
}

/// Builds the configuration that an [origin](EngineConfig::origin) describes. It is called for the first settings, and
/// for each new configuration that was applied.
pub type Configure<'a> = Box<dyn FnMut(Option<&Value>) -> Result<EngineConfig, String> + 'a>;

/// A replay in progress.
pub struct Replayer<'a> {
    configure: Configure<'a>,
    mode: Mode,
    until: Option<Timestamp>,
    setup: Option<Setup>,
    /// `None` before the first line.
    engine: Option<Engine>,
    /// Number of the line in its file.
    line: usize,
    /// Time of the last call.
    now: Timestamp,
    /// True while the first lines of a file repeat what the engine knows.
    repeats: bool,
    specs: FxHashMap<u32, Arc<PodSpec>>,
    /// Requested evictions that have not ended.
    evictions: FxHashMap<EvictionId, EvictTask>,
    /// Recorded answers of extenders.
    extenders: Arc<ExtenderReplay>,
    /// Used only while decisions are compared.
    questions: Questions,
    comparer: Comparer,
    summary: ReplaySummary,
    /// Number of lines after which the replay is over.
    end: Option<usize>,
    /// The pod (`namespace/name`) whose placement is of interest, and its last placement.
    followed: Option<String>,
    placement: Option<Placement>,
}

impl<'a> Replayer<'a> {
    /// Returns a replay that has not begun. `until` is the time of the last line to replay.
    pub fn new(configure: Configure<'a>, mode: Mode, until: Option<Timestamp>) -> Self {
        Self {
            configure,
            mode,
            until,
            setup: None,
            engine: None,
            line: 0,
            now: Timestamp::default(),
            repeats: false,
            specs: FxHashMap::default(),
            evictions: FxHashMap::default(),
            extenders: Arc::new(ExtenderReplay::new(mode == Mode::Exact)),
            questions: Questions::default(),
            comparer: Comparer::default(),
            summary: ReplaySummary::default(),
            end: None,
            followed: None,
            placement: None,
        }
    }

    /// Notes the placements of the pod `name` (`namespace/name`).
    pub fn follow(&mut self, name: String) {
        self.followed = Some(name);
    }

    /// Returns the last decision that placed the pod that is followed.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Ends the replay after this number of lines.
    pub fn end_after(&mut self, lines: usize) {
        self.end = Some(lines);
    }

    /// The engine in its state after the last line; `None` before the first line.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// Returns the engine by value; `None` before the first line.
    pub fn into_engine(self) -> Option<Engine> {
        self.engine
    }

    /// Time of the last call.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Numbers of lines, attempts and effects so far.
    pub fn summary(&self) -> ReplaySummary {
        self.summary
    }

    /// Returns the differences between the decisions so far.
    pub fn comparison(&self) -> Comparison {
        self.comparer.comparison()
    }

    /// Notes that the next line is the first one of a file.
    pub fn begin_file(&mut self) {
        self.line = 0;
        self.specs.clear();
        self.repeats = self.engine.is_some();
    }

    /// Replays a line.
    ///
    /// # Errors
    /// If the line cannot be replayed or has a different result.
    pub fn play(&mut self, text: &str) -> Result<Progress, ReplayError> {
        if self.end == Some(self.summary.lines) {
            return Ok(Progress::Over);
        }
        self.line += 1;
        if self.line == 1 {
            self.check_format(text)?;
        }
        let line: Line =
            serde_json::from_str(text).map_err(|error| ReplayError::Unreadable(self.line, error))?;
        if let Some(at) = line.time() {
            if self.until.is_some_and(|until| at > until) {
                return Ok(Progress::Over);
            }
            self.now = at;
        }
        self.summary.lines += 1;
        self.play_line(line)
    }

    fn check_format(&self, text: &str) -> Result<(), ReplayError> {
        #[derive(Deserialize)]
        struct First {
            setup: (Value, Format),
        }
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Ok(First { setup: (_, Format { format }) }) = serde_json::from_str(text) else {
            return Err(self.refused("a recording must begin with the engine's settings"));
        };
        match format {
            OLDEST_FORMAT..=FORMAT => Ok(()),
            newer if newer > FORMAT => Err(self.refused(format!(
                "the recording has format {format}, and this program reads formats up to {FORMAT}: use a newer program"
            ))),
            _ => Err(self.refused(format!(
                "the recording has format {format}, and this program reads formats from {OLDEST_FORMAT} on"
            ))),
        }
    }

    fn refused(&self, why: impl Into<String>) -> ReplayError {
        ReplayError::NotReplayable(self.line, why.into())
    }

    fn play_line(&mut self, line: Line) -> Result<Progress, ReplayError> {
        match line {
            Line::Setup(file, setup) => self.begin(file, setup)?,
            Line::Spec(number, spec) => {
                self.specs.insert(number, spec);
            }
            Line::Base(at, object) => {
                if !self.repeats {
                    self.handle(object, at)?;
                }
            }
            line => {
                self.repeats = false;
                return self.play_call(line);
            }
        }
        Ok(Progress::Played)
    }

    fn begin(&mut self, file: u64, setup: Setup) -> Result<(), ReplayError> {
        if self.line != 1 {
            return Err(self.refused("settings occur only at the beginning"));
        }
        if let Some(current) = &self.setup {
            let (recorded, now) = (setup.value(), current.value());
            return self.expect_equal(recorded, now);
        }
        if self.mode == Mode::Exact && file != 1 {
            return Err(self.refused("the recording does not begin with the engine"));
        }
        let config = self.configured(&setup)?;
        self.engine = Some(Engine::new(config));
        self.setup = Some(setup);
        Ok(())
    }

    /// Builds the configuration for recorded settings. Unless decisions are compared, it must have the same settings.
    fn configured(&mut self, setup: &Setup) -> Result<EngineConfig, ReplayError> {
        let mut config = (self.configure)(setup.origin.as_deref()).map_err(|why| self.refused(why))?;
        config.concurrent_extenders = setup.concurrent_extenders;
        if self.mode == Mode::Exact {
            self.expect_equal(setup.value(), Setup::of(&config).value())?;
        }
        config.extenders = config.extenders.with_client(self.extenders.clone());
        Ok(config)
    }

    fn handle(&mut self, recorded: RecordedInput, at: Timestamp) -> Result<(), ReplayError> {
        if let RecordedInput::EvictFinished(id, _) = &recorded
            && self.mode == Mode::Compare
            && !self.evictions.contains_key(id)
        {
            return Ok(());
        }
        let recorded = match recorded {
            RecordedInput::Answered(number, answer) if self.mode == Mode::Compare => {
                self.questions.answered(number, answer);
                return Ok(());
            }
            recorded => recorded,
        };
        let (specs, evictions) = (&self.specs, &mut self.evictions);
        let input = recorded.into_input(|number| specs.get(&number).cloned(), |id| evictions.remove(id));
        let input = input.map_err(|InvalidLine(why)| self.refused(why))?;
        self.comparer.see(&input);
        self.live()?.handle(input, at);
        Ok(())
    }

    fn play_call(&mut self, line: Line) -> Result<Progress, ReplayError> {
        // Before the effects of an attempt, it is not known what the recording asks.
        if self.mode == Mode::Compare && !matches!(line, Line::Effects(_)) {
            self.answer_questions()?;
        }
        match line {
            Line::Input(at, recorded) => self.handle(recorded, at)?,
            Line::Tick(at) => self.live()?.tick(at),
            Line::Extenders(exchanges) => self.extenders.add(exchanges),
            Line::Attempt(times, recorded) if self.mode == Mode::Exact => {
                self.attempt(&times, recorded.value())?;
            }
            Line::Attempt(times, recorded) => {
                let recorded = recorded.value();
                self.questions.attempted(&recorded);
                self.attempt_freely(&times, &recorded)?;
            }
            Line::Reconfigure(at, setup) => {
                let config = self.configured(&setup)?;
                self.live()?.reconfigure(config, at);
                self.setup = Some(setup);
            }
            Line::Effects(recorded) => self.effects(recorded)?,
            Line::Gap(lost) => return Ok(Progress::Gap(lost)),
            Line::Setup(..) | Line::Spec(..) | Line::Base(..) => {}
        }
        if self.mode == Mode::Compare {
            self.compare_effects_here()?;
        }
        Ok(Progress::Played)
    }

    /// Answers the engine's questions as far as the recording has answers.
    fn answer_questions(&mut self) -> Result<(), ReplayError> {
        let now = self.now;
        for input in self.questions.take_answers() {
            self.live()?.handle(input, now);
        }
        Ok(())
    }

    fn live(&mut self) -> Result<&mut Engine, ReplayError> {
        let line = self.line;
        let missing = || {
            ReplayError::NotReplayable(line, "a recording must begin with the engine's settings".to_owned())
        };
        self.engine.as_mut().ok_or_else(missing)
    }

    fn attempt(&mut self, times: &[Timestamp], recorded: Value) -> Result<(), ReplayError> {
        let mut reads = 0;
        let attempted = self.live()?.schedule_one_by(&mut || {
            reads += 1;
            // If the clock is read more often than in the recording, the comparison of the counts below fails.
            times.get(reads - 1).or(times.last()).copied().unwrap_or_default()
        });
        self.summary.attempts += usize::from(attempted.is_some());
        attempted.iter().for_each(|attempted| self.note_placement(attempted));
        let now = Told::Here(RecordedAttempt::of(attempted.as_ref())).value();
        self.expect_equal(recorded, now)?;
        self.expect_equal(times.len().into(), reads.into())?;
        self.expect_equal(0.into(), self.extenders.clear().into())
    }

    /// Tries pods until the recorded one was tried or no other one is ready: their number may be another one.
    fn attempt_freely(&mut self, times: &[Timestamp], recorded: &Value) -> Result<(), ReplayError> {
        let first = recorded.get(0).unwrap_or(recorded);
        let wanted = first["pod"].as_str();
        let now = times.last().copied().unwrap_or(self.now);
        while let Some(attempted) = self.live()?.schedule_one(now) {
            self.summary.attempts += 1;
            self.note_placement(&attempted);
            let is_wanted = attempted.all().any(|(pod, _)| wanted == Some(pod.uid.as_str()));
            if is_wanted || !self.live()?.has_due_work() {
                break;
            }
        }
        self.extenders.clear();
        Ok(())
    }

    fn note_placement(&mut self, attempted: &Attempted) {
        let Some(name) = &self.followed else { return };
        for (pod, outcome) in attempted.all() {
            if let Outcome::Assumed { node, .. } = outcome
                && pod.full_name() == *name
            {
                let (node, lines) = (node.clone(), self.summary.lines - 1);
                self.placement = Some(Placement { node, at: self.now, lines });
            }
        }
    }

    /// Compares recorded effects with those of this engine.
    fn effects(&mut self, recorded: Told<Vec<RecordedEffect>>) -> Result<(), ReplayError> {
        let Value::Array(recorded) = recorded.value() else {
            return Err(self.refused("effects are a list"));
        };
        if self.mode == Mode::Compare {
            for effect in &recorded {
                self.comparer.recorded(effect, self.now);
                self.questions.recorded(effect);
            }
            return Ok(());
        }
        let effects = self.live()?.take_effects();
        let now: Vec<Value> =
            RecordedEffect::all(&effects).into_iter().map(|effect| Told::Here(effect).value()).collect();
        for at in 0..recorded.len().max(now.len()) {
            let of = |list: &[Value]| list.get(at).cloned().unwrap_or_default();
            self.expect_equal(of(&recorded), of(&now))?;
        }
        self.keep(effects);
        Ok(())
    }

    fn compare_effects_here(&mut self) -> Result<(), ReplayError> {
        let effects = self.live()?.take_effects();
        effects.iter().for_each(|effect| self.comparer.here(effect, self.now));
        self.keep(effects);
        Ok(())
    }

    fn keep(&mut self, effects: Vec<Effect>) {
        self.summary.effects += effects.len();
        for effect in effects {
            match effect {
                Effect::Evict(task) => drop(self.evictions.insert(EvictionId::of(&task), task)),
                Effect::Ask(task) if self.mode == Mode::Compare => self.questions.ask(task),
                _ => {}
            }
        }
    }

    fn expect_equal(&self, recorded: Value, now: Value) -> Result<(), ReplayError> {
        if recorded == now {
            return Ok(());
        }
        let pod = [&now, &recorded].into_iter().find_map(|value| self.pod_of(value));
        Err(ReplayError::Differs { line: self.line, at: self.now, pod, recorded, now })
    }

    /// Returns the name of the pod that a result concerns.
    fn pod_of(&self, result: &Value) -> Option<String> {
        let uid = match result {
            Value::Object(fields) => match (fields.get("pod"), fields.values().next()) {
                (Some(uid), _) => uid.as_str(),
                (None, Some(inner)) => inner["pod"].as_str().or(inner["id"]["preemptor"].as_str()),
                (None, None) => None,
            },
            _ => None,
        };
        Some(self.engine.as_ref()?.known().get(uid?)?.full_name())
    }
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
    let mut configs: VecDeque<EngineConfig> = std::iter::once(config).chain(later).collect();
    let missing = "a new configuration was applied here, but none was given to the replay";
    let configure = move |_: Option<&Value>| configs.pop_front().ok_or_else(|| missing.to_owned());
    let mut replayer = Replayer::new(Box::new(configure), Mode::Exact, None);
    let mut text = String::new();
    loop {
        text.clear();
        let number = replayer.summary.lines + 1;
        let read = recording.read_line(&mut text).map_err(|error| ReplayError::Io(number, error))?;
        if read == 0 {
            return Ok(replayer.summary);
        }
        match replayer.play(&text) {
            Ok(_) => {}
            Err(ReplayError::Unreadable(_, error)) if error.is_eof() && !text.ends_with('\n') => {
                return Ok(replayer.summary);
            }
            Err(error) => return Err(error),
        }
    }
}
