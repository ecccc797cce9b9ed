//! The `simulate` command.

mod format;
mod page;

use std::{
    cell::Cell,
    io::{self, BufWriter, Write as _},
};

use clap::{Args, Command};
use harbormaster_api::similar::did_you_mean;
use harbormaster_core::EngineConfig;
use harbormaster_page::Document;
use harbormaster_sim::{
    Difference, Inventory, Outcome, PodExplanation, PodReport, Report, Usage, UsageBefore, difference,
    explain_independently, explain_simulated,
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};

use super::{
    CommandError, CommandResult, Program,
    cluster::{ClusterOptions, Loaded, Output, Progress},
    layout::Style,
    table, usage,
    what_if::{self, Changes},
};
use format::Format;

const EXIT_CODES: &str = "Exit codes: 0 success; 1 any error; with --exit-code, 2 if one of the pods shown is unschedulable or preempted \
     (gated pods and pods of other schedulers do not count). With --drain and the like, 2 if the change leaves one of the \
     pods shown without a node.";

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    changes: Changes,
    /// Show each pod in its own row, even if many are alike
    #[arg(long)]
    all: bool,
    /// Show every plugin's verdicts on the nodes at the time of the pod's last attempt; nodes with equal verdicts are
    /// grouped
    #[arg(long)]
    explain: bool,
    /// Also show what the pods of every node request, and what the node offers; the sums by zone if there are many nodes
    #[arg(long)]
    usage: bool,
    /// Show only these pods (NAMESPACE/NAME, or NAME in any namespace); all pods are scheduled in any case
    #[arg(long = "pod", value_name = "NAME")]
    pods: Vec<String>,
    /// Exit with code 2 if one of the pods shown is unschedulable or preempted
    #[arg(long)]
    exit_code: bool,
    /// Evaluate each pod against the cluster as given, without placing the other pods
    #[arg(long)]
    independent: bool,
    /// Format of the result; html is a page for a browser
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("simulate"))
        .about("Show where the pods of manifests would be placed, without a cluster")
        .after_help(format!("{}\n\n{}", table::COLUMNS, EXIT_CODES))
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    let has_failed = |report: Report| report.pods.iter().any(table::has_failed);
    let failed = match (options.format, options.changes.is_empty()) {
        (Format::Html, _) => page(program, options).map(has_failed),
        (Format::Text(output), true) => simulate(program, options, output).map(has_failed),
        (Format::Text(output), false) => {
            compare(program, options, output).map(|told| told.pods.iter().any(what_if::is_harmed))
        }
    };
    match failed {
        Ok(true) if options.exit_code => Err(CommandError::Unschedulable),
        Ok(_) => Ok(()),
        Err(why) => {
            eprintln!("error: {why}");
            Err(CommandError::Error)
        }
    }
}

/// Simulates and prints the result.
fn simulate(program: &Program, options: &Options, output: Output) -> Result<Report, String> {
    let Loaded { engine, cluster, extenders, .. } = options.cluster.load(program)?;
    let again = options.explain.then(|| (engine.clone(), cluster.clone()));
    let usage = options.usage.then(|| UsageBefore::of(&cluster));
    let all = place(options, engine, cluster);
    extenders.check()?;
    let shown = shown(options, &all)?;
    let usage = usage.map(|before| before.after(&all));
    let printed = match output {
        Output::Json => print_json(options, &all, &shown, usage.as_ref(), again),
        Output::Table => print_table(options, &all, &shown, usage.as_ref(), again),
    };
    written(printed)?;
    Ok(shown)
}

/// Simulates, and prints a page for a browser.
fn page(program: &Program, options: &Options) -> Result<Report, String> {
    if options.explain || !options.changes.is_empty() {
        return Err("the page of -o html shows one simulation: leave out --explain and changes".to_owned());
    }
    let Loaded { engine, cluster, extenders, .. } = options.cluster.load(program)?;
    let before = UsageBefore::of(&cluster);
    let all = place(options, engine, cluster);
    extenders.check()?;
    let shown = shown(options, &all)?;
    let document = Document::with(&page::scene(before, &all, &shown));
    let mut out = io::stdout().lock();
    written(out.write_all(document.html.as_bytes()).and_then(|()| out.flush()))?;
    Ok(shown)
}

/// Turns a failed write into an error. A reader that closes the pipe is not an error.
fn written(printed: io::Result<()>) -> Result<(), String> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Simulates the cluster without and with the changes, and prints the difference.
fn compare(program: &Program, options: &Options, output: Output) -> Result<Difference, String> {
    if options.explain {
        return Err("--explain explains one simulation, but changes need two".to_owned());
    }
    let (steps, text) = (options.changes.steps()?, options.cluster.text(program)?);
    let run = |Loaded { engine, cluster, extenders, .. }: Loaded| {
        let outcome = Outcome::before(&cluster);
        let usage = options.usage.then(|| UsageBefore::of(&cluster));
        let report = place(options, engine, cluster);
        extenders.check()?;
        let usage = usage.map(|before| before.after(&report));
        Ok::<(Outcome, Option<Usage>), String>((outcome.after(&report), usage))
    };
    let changed = options.cluster.load_edited(program, &text, &steps)?;
    changed.print_notes();
    let (before, used_before) = run(options.cluster.load_edited(program, &text, &[])?)?;
    let (after, used_after) = run(changed)?;
    let mut told = difference(&before, &after);
    told.usage = used_before.zip(used_after);
    told.changes = steps.iter().map(|step| step.edit.to_string()).collect();
    told.pods
        .retain(|pod| options.pods.is_empty() || options.pods.iter().any(|name| is_name(&pod.pod, name)));
    let mut out = BufWriter::new(io::stdout().lock());
    let printed = match output {
        Output::Json => serde_json::to_writer_pretty(&mut out, &told)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n")),
        Output::Table => {
            let style = Style::of_stdout();
            let usage = told.usage.as_ref();
            let usage = usage.map(|(before, after)| usage::render(after, Some(before), options.all, style));
            let text = what_if::render(&told, options.all, style) + &usage.unwrap_or_default();
            out.write_all(text.as_bytes())
        }
    };
    written(printed.and_then(|()| out.flush()))?;
    Ok(told)
}

fn place(options: &Options, engine: EngineConfig, cluster: Inventory) -> Report {
    if options.independent {
        return harbormaster_sim::independent(&engine, cluster);
    }
    let mut progress = Progress::new();
    let report = harbormaster_sim::simulate(engine, cluster, &mut |done, of| {
        progress.show(format_args!("{done} of {of} pods placed"));
    });
    progress.clear();
    report
}

/// Returns the part of the report that `--pod` selects.
fn shown(options: &Options, all: &Report) -> Result<Report, String> {
    for name in &options.pods {
        if !all.pods.iter().any(|pod| is_called(pod, name)) {
            let known = all.pods.iter().map(|pod| match name.contains('/') {
                true => pod.pod.as_str(),
                false => short(pod),
            });
            return Err(format!("no pod without a node is named {name:?}{}", did_you_mean(name, known)));
        }
    }
    let pods = all.pods.iter().filter(|pod| is_wanted(options, pod)).cloned().collect();
    Ok(Report { pods, missing_nodes: all.missing_nodes.clone() })
}

fn is_wanted(options: &Options, pod: &PodReport) -> bool {
    options.pods.is_empty() || options.pods.iter().any(|name| is_called(pod, name))
}

fn is_called(pod: &PodReport, name: &str) -> bool {
    is_name(&pod.pod, name)
}

/// Returns true if `name` names the pod (`namespace/name`), with or without its namespace.
fn is_name(pod: &str, name: &str) -> bool {
    pod == name || pod.split_once('/').is_some_and(|(_, short)| short == name)
}

/// Returns the pod's name without its namespace.
fn short(pod: &PodReport) -> &str {
    pod.pod.split_once('/').map_or(pod.pod.as_str(), |(_, name)| name)
}

/// Inputs of a second run, which explains the pods one by one, so that the explanations need not be kept in memory.
type SecondRun = Option<(EngineConfig, Inventory)>;

/// Passes the explanation of one pod after another to `tell` until `tell` fails.
fn explain<E>(
    options: &Options,
    all: &Report,
    again: SecondRun,
    tell: &mut dyn FnMut(&PodReport, PodExplanation) -> Result<(), E>,
) -> Result<(), E> {
    let Some((engine, cluster)) = again else { return Ok(()) };
    let mut told = Ok(());
    let mut tell = |pod: &PodReport, said| {
        if told.is_ok() {
            told = tell(pod, said);
        }
    };
    let concerns = |pod: &PodReport| is_wanted(options, pod);
    match options.independent {
        true => explain_independently(&engine, cluster, all, &concerns, &mut tell),
        false => explain_simulated(engine, cluster, all, &concerns, &mut tell),
    }
    told
}

fn print_table(
    options: &Options,
    all: &Report,
    shown: &Report,
    usage: Option<&Usage>,
    again: SecondRun,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let style = Style::of_stdout();
    out.write_all(table::render(shown, options.all, style).as_bytes())?;
    if let Some(usage) = usage {
        out.write_all(usage::render(usage, None, options.all, style).as_bytes())?;
    }
    explain(options, all, again, &mut |pod, said| {
        out.write_all(table::explanation(pod, &said, style).as_bytes())
    })?;
    out.flush()
}

/// Writes the report as JSON, with `"usage"` and `"explanations"` if they were requested.
fn print_json(
    options: &Options,
    all: &Report,
    shown: &Report,
    usage: Option<&Usage>,
    again: SecondRun,
) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let explanations = again.map(|again| Explanations { options, all, again: Cell::new(Some(again)) });
    serde_json::to_writer_pretty(&mut out, &ReportJson { report: shown, usage, explanations })?;
    out.write_all(b"\n")?;
    out.flush()
}

/// JSON form of a report, as of [`harbormaster_sim::Explained`].
#[derive(Serialize)]
struct ReportJson<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanations: Option<Explanations<'a>>,
}

/// A list whose entries are computed while the list is written. It can be written only once.
struct Explanations<'a> {
    options: &'a Options,
    all: &'a Report,
    again: Cell<SecondRun>,
}

impl Serialize for Explanations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        explain(self.options, self.all, self.again.take(), &mut |_, said| list.serialize_element(&said))?;
        list.end()
    }
}
