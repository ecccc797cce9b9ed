//! The `sandbox` command.

mod kubeconfig;
mod screen;

use std::{
    collections::HashSet,
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Command, ValueEnum};
use harbormaster_core::Notes;
use harbormaster_port::LoopbackPort;
use harbormaster_sandbox::{AttachedScheduler, Board, Clock, News, PodState, Sandbox, Update, Validate};
use harbormaster_setup::{Choices, Setup};

use super::{
    CommandError, CommandResult, Program, SIMULATED, features, files, live_page::live_page, log,
    log_output::Output, manifest_files, run::Signals, secure_port,
};
use crate::scheduler;
use kubeconfig::Kubeconfig;
use screen::Screen;

/// Arguments of `sandbox`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Manifests (YAML or JSON): files, directories, output of `kubectl get -o yaml`, or - for standard input. Without
    /// manifests and without --nodes, a small demonstration is shown
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,
    /// Treatment of unknown and duplicate fields: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: Validate,
    /// Make pods on missing nodes pending again; without this flag, such pods stay bound. Pods of DaemonSets and static
    /// pods are removed with their nodes
    #[arg(long)]
    reschedule_missing: bool,
    /// Add this many nodes, in three zones
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Speed of the clock for tolerations, backoff after failures, deadlines and CronJobs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    clock_speed: u32,
    /// A KubeSchedulerConfiguration
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Keep running until Ctrl-C, for kubectl; otherwise exit when every pod has a node or a reason why it has none
    #[arg(long)]
    serve: bool,
    /// Write a kubeconfig to this file, which is removed on exit [default with --serve:
    /// ./harbormaster-sandbox.kubeconfig]
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// The scheduler that places the pods; with none, the sandbox leaves them to your own scheduler and keeps running,
    /// as with --serve
    #[arg(long, value_enum, default_value_t)]
    scheduler: SchedulerChoice,
    /// Exit with code 2 if a pod is unschedulable at the end
    #[arg(long)]
    exit_code: bool,
    /// The port of the API server on 127.0.0.1; 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Version of Kubernetes whose kube-scheduler is reproduced, and which the API server reports: 1.33 to 1.37.
    /// Versions before 1.36 differ from 1.36 only in their feature gates
    #[arg(long, value_name = "VERSION", default_value_t = SIMULATED.to_string())]
    emulated_version: String,
    /// Comma-separated list of pairs: Gate=true,Other=false
    #[arg(long, value_name = "LIST")]
    feature_gates: Vec<String>,
    /// Verbosity of the scheduler's log on stderr [default: warnings only]
    #[arg(short, value_name = "LEVEL")]
    verbosity: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SchedulerChoice {
    #[default]
    Harbormaster,
    None,
}

const EXIT_CODES: &str =
    "Exit codes: 0 success; 1 any error; with --exit-code, 2 if a pod is unschedulable at the end.";
const KUBECONFIG: &str = "harbormaster-sandbox.kubeconfig";
/// Interval between two redraws of the screen.
const REFRESH: Duration = Duration::from_millis(100);

impl Options {
    fn stays(&self) -> bool {
        self.serve || self.scheduler == SchedulerChoice::None
    }

    fn is_demonstration(&self) -> bool {
        self.files.is_empty() && self.nodes.is_none()
    }
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("sandbox"))
        .about("Schedule pods in a make-believe cluster, with an API server for kubectl")
        .after_help(EXIT_CODES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    log::start(Output::one(log::Format::Text), options.verbosity.unwrap_or(-1), &program.plugins);
    let ran = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| format!("starting the runtime: {e}"))
        .and_then(|runtime| runtime.block_on(play(program, options)));
    match ran {
        Ok(unschedulable) if options.exit_code && unschedulable > 0 => Err(CommandError::Unschedulable),
        Ok(_) => Ok(()),
        Err(why) => {
            eprintln!("error: {why}");
            Err(CommandError::Error)
        }
    }
}

/// Runs the sandbox, and returns the number of pods that are unschedulable at the end.
async fn play(program: &Program, options: &Options) -> Result<usize, String> {
    let mut signals = Signals::new().map_err(|e| format!("listening for signals: {e}"))?;
    let mut sandbox = Sandbox::start(contents(program, options)?).await.map_err(|e| e.to_string())?;
    if options.is_demonstration() {
        eprintln!("note: this is a demonstration; use -f or --nodes for your own cluster");
    }
    for notice in sandbox.notices() {
        eprintln!("note: {notice}");
    }
    if sandbox.store().list("nodes", "", "", "").is_ok_and(|(nodes, _)| nodes.is_empty()) {
        eprintln!("note: there are no nodes; add some with --nodes 3");
    }
    // The file is removed when this function returns, even with an error.
    let _kubeconfig = tell_how_to_connect(options, &sandbox)?;
    let _page = serve_page(options, &sandbox)?;
    let mut view = View::new(options);
    let ended = watch(options, &mut sandbox, &mut signals, &mut view).await;
    view.end(&sandbox).map_err(|e| format!("standard output: {e}"))?;
    if sandbox.board.pods().next().is_none() && !options.stays() {
        eprintln!(
            "note: there were no pods; add some with -f FILE, or use --serve and create them with kubectl"
        );
    }
    let unschedulable = sandbox.board.count(PodState::Unschedulable);
    tokio::select! {
        stopped = sandbox.stop() => ended.and(stopped.map_err(|e| e.to_string())).map(|()| unschedulable),
        () = signals.next() => Err("received a second signal: exiting immediately".to_owned()),
    }
}

/// Returns the settings of the sandbox.
fn contents(program: &Program, options: &Options) -> Result<harbormaster_sandbox::Options, String> {
    let mut extenders = Vec::new();
    let features = features(&options.emulated_version, &options.feature_gates)?;
    let scheduler = match options.scheduler {
        SchedulerChoice::None if options.config.is_some() => {
            return Err("--config has no effect with --scheduler=none".to_owned());
        }
        SchedulerChoice::None => AttachedScheduler::None,
        SchedulerChoice::Harbormaster => {
            let choices = Choices { features, ..program.choices() };
            let config = options.config.as_deref().map(files::read).transpose()?;
            let config = config.as_ref().map(|source| (source.name.as_str(), source.text.as_str()));
            let mut setup = Setup::read(config, &choices).map_err(|e| e.to_string())?;
            setup.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            setup.engine.notes = Notes::at(options.verbosity.unwrap_or(-1));
            extenders = scheduler::extenders(&setup.config);
            AttachedScheduler::Engine(setup.engine)
        }
    };
    let given = match options.is_demonstration() {
        true => harbormaster_sandbox::Options::demo(),
        false => harbormaster_sandbox::Options {
            manifests: manifest_files::read_all(&options.files)?,
            validate: options.validate,
            reschedule_missing: options.reschedule_missing,
            nodes: options.nodes.unwrap_or(0),
            ..harbormaster_sandbox::Options::default()
        },
    };
    let clock = Clock::with_speed(options.clock_speed);
    Ok(harbormaster_sandbox::Options { scheduler, features, extenders, port: options.port, clock, ..given })
}

fn tell_how_to_connect(options: &Options, sandbox: &Sandbox) -> Result<Option<Kubeconfig>, String> {
    let default = || options.stays().then(|| PathBuf::from(KUBECONFIG));
    let Some(path) = options.kubeconfig_out.clone().or_else(default) else { return Ok(None) };
    let kubeconfig = Kubeconfig::write(&path, &sandbox.kubeconfig())?;
    if options.stays() {
        println!("API server at https://{}, for kubectl in another terminal:\n", sandbox.address());
        println!("  export KUBECONFIG={}\n", quoted(kubeconfig.path()));
    }
    Ok(Some(kubeconfig))
}

/// Serves the page of the attached scheduler if the sandbox stays.
fn serve_page(options: &Options, sandbox: &Sandbox) -> Result<Option<LoopbackPort>, String> {
    if !options.serve || options.scheduler == SchedulerChoice::None {
        return Ok(None);
    }
    let metrics = sandbox.metrics().clone();
    let page = live_page(sandbox.console(), move || Some(metrics.clone()));
    let port = LoopbackPort::start(page, secure_port::why(sandbox.console()));
    let port = port.map_err(|e| format!("listening on 127.0.0.1 for the page: {e}"))?;
    println!("Page for a browser: {}\n", port.url());
    Ok(Some(port))
}

/// Returns a path quoted for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Shows updates until the sandbox has settled or the user ends it.
async fn watch(
    options: &Options,
    sandbox: &mut Sandbox,
    signals: &mut Signals,
    view: &mut View,
) -> Result<(), String> {
    let mut refresh = tokio::time::interval(REFRESH);
    refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let shown = tokio::select! {
            update = sandbox.next() => match update.map_err(|e| e.to_string())? {
                Update::News(news) => view.news(&news),
                Update::Notice(notice) => view.notice(&notice),
                Update::Settled if options.stays() => Ok(()),
                Update::Settled => return Ok(()),
            },
            _ = refresh.tick() => view.refresh(&sandbox.board),
            () = signals.next() => return Ok(()),
        };
        match shown {
            Ok(()) => {}
            // A reader that closes the pipe is not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && !options.stays() => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(format!("standard output: {error}")),
        }
    }
}

/// Output of the sandbox: a table that is redrawn in place, or lines.
enum View {
    Screen(Screen),
    Lines,
}

impl View {
    fn new(options: &Options) -> Self {
        // Log lines would break up the table.
        let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match io::stdout().is_terminal() && draws && options.verbosity.is_none() {
            true => Self::Screen(Screen::new(colours())),
            false => Self::Lines,
        }
    }

    fn news(&mut self, news: &[News]) -> io::Result<()> {
        match self {
            Self::Screen(screen) => {
                screen.mark_stale();
                Ok(())
            }
            Self::Lines => {
                let lines: String = news.iter().map(|news| screen::plain(&news.to_string()) + "\n").collect();
                write(&lines)
            }
        }
    }

    fn notice(&mut self, notice: &str) -> io::Result<()> {
        let line = format!("note: {}", screen::plain(notice));
        match self {
            Self::Screen(screen) => write(&screen.above(&line)),
            Self::Lines => {
                eprintln!("{line}");
                Ok(())
            }
        }
    }

    fn refresh(&mut self, board: &Board) -> io::Result<()> {
        match self {
            Self::Screen(screen) => write(&screen.redrawn(board)),
            Self::Lines => Ok(()),
        }
    }

    /// If there is a table, replaces it with a table of all pods. Then shows a summary.
    fn end(&self, sandbox: &Sandbox) -> io::Result<()> {
        let board = &sandbox.board;
        let table = match self {
            Self::Screen(screen) => screen.whole(board),
            Self::Lines => String::new(),
        };
        match write(&format!("{table}\n{}{}\n", summary(board), on_missing_nodes(sandbox))) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Returns a summary such as `12 pods: 9 placed, 2 unschedulable, 1 gated`.
fn summary(board: &Board) -> String {
    let always = [PodState::Placed, PodState::Unschedulable, PodState::Gated];
    let of = |state: PodState, word: &str| {
        let count = board.count(state);
        (count > 0 || always.contains(&state)).then(|| format!("{count} {word}"))
    };
    let parts: Vec<String> = [
        of(PodState::Placed, "placed"),
        of(PodState::Unschedulable, "unschedulable"),
        of(PodState::Gated, "gated"),
        of(PodState::Foreign, "of other schedulers"),
        of(PodState::Waiting, "undecided"),
        of(PodState::Finished, "finished"),
        of(PodState::Ending, "being deleted"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let count = board.pods().count();
    format!("{count} {}: {}", if count == 1 { "pod" } else { "pods" }, parts.join(", "))
}

/// Returns a text such as `, 12 of them on missing nodes`; empty if there are no such pods.
fn on_missing_nodes(sandbox: &Sandbox) -> String {
    let nodes = sandbox.store().list("nodes", "", "", "").map(|(nodes, _)| nodes).unwrap_or_default();
    let nodes: HashSet<&str> = nodes.iter().map(|node| node.name()).collect();
    let placed = sandbox.board.pods().filter(|pod| pod.state == PodState::Placed);
    let is_lost = |node: Option<&str>| node.is_some_and(|node| !nodes.contains(node));
    match placed.filter(|pod| is_lost(pod.node.as_deref())).count() {
        0 => String::new(),
        pods => format!(", {pods} of them on missing nodes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_requires_it() {
        assert_eq!(quoted(Path::new("/a/b.kubeconfig")), "/a/b.kubeconfig");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
