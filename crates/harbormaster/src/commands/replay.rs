//! The `replay` command.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use clap::{Args, Command};
use harbormaster_api::Timestamp;
use harbormaster_core::{
    EngineConfig, PodState,
    recording::{Comparison, Mode, Moved, Placement, Progress, ReplaySummary, Replayer},
};
use harbormaster_driver::recording::files::{self as recordings, Lines, Run};
use harbormaster_framework::extender::Extenders;
use harbormaster_sim::{Why, why_decided};
use harbormaster_yaml::Source;
use serde::Serialize;

use super::{
    CommandError, CommandResult, Program, files,
    layout::{Style, Table},
    origin,
    output::Output,
    why, why_running,
};

const NOTES: &str = "A recording that begins with the scheduler's start and has no gap is replayed exactly: every decision, event \
     and condition must be the same, and the first difference is shown. What comes after a gap, or is left of a recording whose \
     beginning has been deleted, begins with the objects of that moment; there, and with --config, only the nodes and evictions \
     of pods are compared. The cluster remains the recorded one: after each decision, the pod is where it really was.\n\n\
     Exit codes: 0 the same decisions; 1 any error; 2 other decisions.";

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory of the recording: the value of --record
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// End the replay at this time (RFC 3339, such as 2026-01-31T08:30:00Z)
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show the state of this pod at the end of the replay, as `why --from` does for a running scheduler; for a pod that has
    /// been placed, show how the nodes compared before that decision: NAMESPACE/NAME, or NAME in the namespace default
    #[arg(long, value_name = "POD", conflicts_with = "config")]
    why: Option<String>,
    /// Decide with another KubeSchedulerConfiguration, and show the pods that it treats differently
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Format of the result
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("replay"))
        .about("Decide again what a running scheduler has recorded, and show differences")
        .after_help(NOTES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    let fail = |error: String| {
        eprintln!("error: {error}");
        CommandError::Error
    };
    let until = options.until.as_deref().map(|text| {
        Timestamp::parse(text)
            .map_err(|e| format!("--until {text:?}: expected a time such as 2026-01-31T08:30:00Z: {e}"))
    });
    let until = until.transpose().map_err(fail)?;
    let other = options.config.as_deref().map(files::read).transpose().map_err(fail)?;
    let directory = options.directory.display();
    let runs = recordings::runs(&options.directory).map_err(|e| fail(format!("{directory}: {e}")))?;
    if runs.is_empty() {
        return Err(fail(format!("{directory}: no file is named recording-….jsonl.zst")));
    }
    let mut replay = Replay {
        program,
        other: other.as_ref(),
        until,
        why: options.why.as_deref(),
        parts: Vec::new(),
        told: Told::default(),
    };
    for run in &runs {
        replay.run(run).map_err(fail)?;
    }
    replay.print(options).map_err(fail)?;
    match replay
        .parts
        .iter()
        .all(|part| part.difference.is_none() && part.comparison.iter().all(Comparison::is_equal))
    {
        true => Ok(()),
        false => Err(CommandError::Warnings),
    }
}

/// A part of a recording that is replayed by one engine: files without a gap.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    /// Start of the scheduler, and the ID of its process.
    run: String,
    /// Number of files.
    files: usize,
    /// Time of the last call, if there is one.
    until: Option<String>,
    lines: usize,
    attempts: usize,
    effects: usize,
    /// True if every result has to be the same.
    exact: bool,
    /// The first difference of an exact replay, with its file and line.
    difference: Option<String>,
    /// The compared decisions of a replay that is not exact.
    comparison: Option<Comparison>,
    /// Number of calls that are missing after this part.
    lost: Option<u64>,
    /// File whose end is missing.
    incomplete: Option<String>,
}

/// A replay of all recordings in a directory.
struct Replay<'a> {
    program: &'a Program,
    other: Option<&'a Source>,
    until: Option<Timestamp>,
    why: Option<&'a str>,
    parts: Vec<Part>,
    /// The pod at the end of the last part.
    told: Told,
}

/// What is known about a pod.
#[derive(Default)]
enum Told {
    #[default]
    Nothing,
    /// The pod waits for a node or its binding.
    Waits(Box<PodState>),
    /// The pod has been placed.
    Placed {
        placement: Placement,
        /// The files of the part that contains the decision.
        files: Vec<(u64, PathBuf)>,
        mode: Mode,
    },
}

/// The answer for a pod that has been placed.
#[derive(Serialize)]
struct Decided {
    /// Time of the decision, in RFC 3339.
    at: String,
    #[serde(flatten)]
    why: Why,
}

impl Replay<'_> {
    /// Replays what one process has recorded.
    fn run(&mut self, run: &Run) -> Result<(), String> {
        let mut rest = run.files.as_slice();
        while let Some((number, _)) = rest.first() {
            let exact = *number == 1 && self.other.is_none();
            let mode = if exact { Mode::Exact } else { Mode::Compare };
            let (program, other) = (self.program, self.other);
            let configure = |origin: Option<&_>| origin::build(origin, &program.plugins, other);
            let mut replayer = Replayer::new(Box::new(configure), mode, self.until);
            self.why.iter().for_each(|pod| replayer.follow(full_name(pod)));
            let mut part = Part { run: run.name.clone(), exact, ..Part::default() };
            part.files = play_files(&mut replayer, rest, &mut part)?;
            let (played, later) = rest.split_at(part.files);
            rest = later;
            let has_begun = replayer.now() != Timestamp::default();
            if has_begun {
                self.look(&replayer, played, mode);
            }
            if !has_begun && part.incomplete.is_none() {
                continue;
            }
            let ReplaySummary { lines, attempts, effects } = replayer.summary();
            let comparison = (!exact).then(|| replayer.comparison());
            let until = has_begun.then(|| replayer.now().to_rfc3339_micro());
            self.parts.push(Part { lines, attempts, effects, comparison, until, ..part });
        }
        Ok(())
    }

    /// Looks at the pod in question at the end of a part.
    fn look(&mut self, replayer: &Replayer<'_>, files: &[(u64, PathBuf)], mode: Mode) {
        let (Some(pod), Some(engine)) = (self.why, replayer.engine()) else { return };
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        match (engine.pod_state(namespace, name), replayer.placement(), &self.told) {
            (Some(state), ..) => self.told = Told::Waits(Box::new(state)),
            (None, Some(placement), _) => {
                self.told = Told::Placed { placement: placement.clone(), files: files.to_vec(), mode };
            }
            (None, None, Told::Placed { .. }) => {}
            (None, None, _) => self.told = Told::Nothing,
        }
    }

    /// Replays until just before the decision that placed the pod, and compares the nodes.
    fn explain(
        &self,
        pod: &str,
        (placement, mode): (&Placement, Mode),
        files: &[(u64, PathBuf)],
    ) -> Result<Decided, String> {
        let built = RefCell::new(None);
        let configure = |origin: Option<&_>| {
            let config = origin::build(origin, &self.program.plugins, None)?;
            built.replace(Some(config.clone()));
            Ok(config)
        };
        let mut replayer = Replayer::new(Box::new(configure), mode, None);
        replayer.end_after(placement.lines);
        play_files(&mut replayer, files, &mut Part::default())?;
        let gone = || format!("pod {pod} cannot be found before the decision that placed it");
        let engine = replayer.into_engine().ok_or_else(gone)?;
        let info = engine.pod_without_node(&full_name(pod)).ok_or_else(gone)?;
        let config: EngineConfig = built.take().ok_or_else(gone)?;
        // The answers of extenders are known only for the nodes that were asked about.
        let config = EngineConfig { extenders: Extenders::default(), ..config };
        let why = why_decided(&config, engine.into_cache(), &info, &placement.node);
        Ok(Decided { at: placement.at.to_rfc3339_micro(), why })
    }

    fn print(&self, options: &Options) -> Result<(), String> {
        let Some(pod) = options.why.as_deref() else {
            let parts = |style| self.parts.iter().map(|part| part.render(style)).collect::<String>();
            return options
                .output
                .print(&self.parts, |style| style.title("Replay of the recording") + &parts(style));
        };
        match &self.told {
            Told::Nothing => Err(format!(
                "pod {pod} does not wait for a node or its binding at this time, and was not placed before"
            )),
            Told::Waits(state) => {
                let value = serde_json::to_value(state).map_err(|e| e.to_string())?;
                options.output.print(state, |style| why_running::state(&value, style))
            }
            Told::Placed { placement, files, mode } => {
                let decided = self.explain(pod, (placement, *mode), files)?;
                options.output.print(&decided, |style| decided.render(style))
            }
        }
    }
}

impl Decided {
    fn render(&self, style: Style) -> String {
        let line = format!("Decided at {}.", self.at);
        why::render(&self.why, style) + "\n" + &style.paragraph(&line)
    }
}

fn full_name(pod: &str) -> String {
    if pod.contains('/') { pod.to_owned() } else { format!("default/{pod}") }
}

/// Replays files until one is missing or the part is over. Returns the number of files.
fn play_files(
    replayer: &mut Replayer<'_>,
    files: &[(u64, PathBuf)],
    part: &mut Part,
) -> Result<usize, String> {
    for (at, (number, path)) in files.iter().enumerate() {
        let is_over = play(replayer, path, part)?;
        let follows = files.get(at + 1).is_some_and(|(next, _)| *next == number + 1);
        if is_over || !follows || part.incomplete.is_some() {
            return Ok(at + 1);
        }
    }
    Ok(files.len())
}

/// Replays a file. Returns true if the part is over.
fn play(replayer: &mut Replayer<'_>, path: &Path, part: &mut Part) -> Result<bool, String> {
    let name = path.display();
    let mut lines = Lines::open(path).map_err(|e| format!("{name}: {e}"))?;
    replayer.begin_file();
    let mut line = String::new();
    for number in 1.. {
        let is_whole = lines.next(&mut line).map_err(|e| format!("{name}: line {number}: {e}"))?;
        if !is_whole {
            if !line.is_empty() || !lines.is_complete() {
                part.incomplete = Some(name.to_string());
            }
            return Ok(false);
        }
        match replayer.play(&line) {
            Ok(Progress::Played) => {}
            Ok(Progress::Gap(lost)) => {
                part.lost = Some(lost);
                return Ok(true);
            }
            Ok(Progress::Over) => return Ok(true),
            Err(error) if error.is_difference() => {
                part.difference = Some(format!("{name}: {error}"));
                return Ok(true);
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    Ok(true)
}

impl Part {
    fn render(&self, style: Style) -> String {
        let Self { run, files, until, attempts, effects, .. } = self;
        let number =
            |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
        let (files, attempts, effects) =
            (number(*files, "file"), number(*attempts, "attempt"), number(*effects, "effect"));
        let until = until.as_deref().map(|until| format!(" until {until}")).unwrap_or_default();
        let mut text = style.heading(&format!("{run}{until}: {files}, {attempts}, {effects}"));
        text += &match (&self.difference, &self.comparison) {
            (Some(difference), _) => style.item(&format!("differs: {difference}")),
            (None, Some(comparison)) => compared(comparison, style),
            (None, None) => style.item("bit-exact: everything was decided as recorded"),
        };
        if let Some(lost) = self.lost {
            text += &style.item(&format!("then a gap: {lost} calls could not be written"));
        }
        if let Some(file) = &self.incomplete {
            text += &style
                .item(&format!("the end of {file} is missing: the scheduler still writes it, or was killed"));
        }
        text
    }
}

fn compared(comparison: &Comparison, style: Style) -> String {
    let Comparison { same, elsewhere, waiting, only_now, other_victims } = comparison;
    let mut text = style.item(&format!(
        "compared: {same} pods on the same node, {} elsewhere, {} still waiting, {} only now on a node, {} with other \
         evictions",
        elsewhere.len(),
        waiting.len(),
        only_now.len(),
        other_victims.len()
    ));
    let moved: Vec<&Moved> = elsewhere.iter().chain(waiting).chain(only_now).collect();
    if !moved.is_empty() {
        let mut table = Table::new(["TIME", "POD", "RECORDED", "NOW"]);
        for Moved { pod, at, recorded, now } in moved {
            let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "-".to_owned());
            table.add([at.clone().into(), pod.clone().into(), node(recorded).into(), node(now).into()]);
        }
        text += &table.render(style);
    }
    if !other_victims.is_empty() {
        let mut table = Table::new(["PREEMPTOR", "EVICTED ONLY IN THE RECORDING", "EVICTED ONLY NOW"]);
        for one in other_victims {
            let (recorded, now) = (one.only_recorded.join(", "), one.only_now.join(", "));
            table.add([one.preemptor.clone().into(), recorded.into(), now.into()]);
        }
        text += &table.render(style);
    }
    text
}
