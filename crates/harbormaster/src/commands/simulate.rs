//! The `simulate` command.

use std::{
    cell::Cell,
    collections::HashSet,
    io::{self, Write},
};

use clap::{Args, Command};
use harbormaster_api::similar::did_you_mean;
use harbormaster_core::EngineConfig;
use harbormaster_manifests::edits::Step;
use harbormaster_sim::{
    Difference, Inventory, Outcome, PodExplanation, PodReport, Report, Usage, UsageBefore, difference,
    explain_independently, explain_simulated,
};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};

use super::{
    CommandError, CommandResult, Program,
    cluster::{ClusterOptions, Loaded, Progress},
    format::Format,
    layout::Style,
    output::{Output, printed},
    page_file, table, usage,
    what_if::{self, Changes},
};

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
        (Format::Html, true) => page(program, options).map(has_failed),
        (Format::Html, false) => {
            page_of_changes(program, options).map(|told| told.pods.iter().any(what_if::is_harmed))
        }
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
    let Loaded { engine, cluster, extenders, .. } = options.cluster.load(program, &[])?;
    let again = options.explain.then(|| (engine.clone(), cluster.clone()));
    let usage = options.usage.then(|| UsageBefore::of(&cluster));
    let all = place(options, engine, cluster);
    extenders.check()?;
    let shown = shown(options, &all)?;
    let usage = usage.map(|before| before.after(&all));
    let concerns = |pod: &PodReport| is_wanted(options, pod);
    let explained = Explained { independent: options.independent, all: &all, concerns: &concerns };
    printed(|out| match output.style() {
        Some(style) => {
            let mut text = style.title("Simulated placements") + &table::render(&shown, options.all, style);
            if let Some(usage) = &usage {
                text += &usage::render(usage, None, options.all, style);
            }
            out.write_all(style.tidy(&text).as_bytes())?;
            explained.write_text(out, style, again)
        }
        None => {
            let explanations = again.map(|again| Explanations::new(explained, again));
            output.write(out, &Document { told: &shown, usage: usage.as_ref(), explanations })
        }
    })?;
    Ok(shown)
}

/// Simulates, and prints a page for a browser.
fn page(program: &Program, options: &Options) -> Result<Report, String> {
    refuse_explanations(options)?;
    let Loaded { engine, cluster, extenders, .. } = options.cluster.load(program, &[])?;
    let before = UsageBefore::of(&cluster);
    let all = place(options, engine, cluster);
    extenders.check()?;
    let shown = shown(options, &all)?;
    page_file::print(&page_file::scene(before, &all, &shown))?;
    Ok(shown)
}

/// Simulates the cluster without and with the changes, and prints a page of the changed cluster.
fn page_of_changes(program: &Program, options: &Options) -> Result<Difference, String> {
    refuse_explanations(options)?;
    let (steps, text) = (options.changes.steps()?, options.cluster.text(program)?);
    let changed = options.cluster.load_edited(program, &text, &steps)?;
    changed.print_notes();
    let usage = UsageBefore::of(&changed.cluster);
    let (before, _) = outcome(options, options.cluster.load_edited(program, &text, &[])?)?;
    let (after, all) = outcome(options, changed)?;
    let told = told(options, &steps, &before, &after);
    let mut scene = page_file::scene(usage, &all, &selected(options, &all));
    page_file::mark(&mut scene, &what_if::moves(&told));
    scene.sections.push(what_if::section(&told, options.all));
    page_file::print(&scene)?;
    Ok(told)
}

fn refuse_explanations(options: &Options) -> Result<(), String> {
    match options.explain {
        true => Err("-o html shows no verdicts of plugins: leave out --explain".to_owned()),
        false => Ok(()),
    }
}

/// Simulates a cluster, and returns all its pods at the end.
fn outcome(options: &Options, loaded: Loaded) -> Result<(Outcome, Report), String> {
    let Loaded { engine, cluster, extenders, .. } = loaded;
    let outcome = Outcome::before(&cluster);
    let report = place(options, engine, cluster);
    extenders.check()?;
    Ok((outcome.after(&report), report))
}

/// Returns the difference that the changes make to the pods that `--pod` selects.
fn told(options: &Options, steps: &[Step], before: &Outcome, after: &Outcome) -> Difference {
    let mut told = difference(before, after);
    told.changes = steps.iter().map(|step| step.edit.to_string()).collect();
    let is_wanted = |pod: &str| options.pods.is_empty() || options.pods.iter().any(|name| is_name(pod, name));
    told.pods.retain(|pod| is_wanted(&pod.pod));
    told
}

/// Simulates the cluster without and with the changes, and prints the difference.
fn compare(program: &Program, options: &Options, output: Output) -> Result<Difference, String> {
    let (steps, text) = (options.changes.steps()?, options.cluster.text(program)?);
    let run = |loaded: Loaded| {
        let usage = options.usage.then(|| UsageBefore::of(&loaded.cluster));
        let (outcome, report) = outcome(options, loaded)?;
        let usage = usage.map(|before| before.after(&report));
        Ok::<(Outcome, Option<Usage>, Report), String>((outcome, usage, report))
    };
    let changed = options.cluster.load_edited(program, &text, &steps)?;
    changed.print_notes();
    let again = options.explain.then(|| (changed.engine.clone(), changed.cluster.clone()));
    let (before, used_before, _) = run(options.cluster.load_edited(program, &text, &[])?)?;
    let (after, used_after, all) = run(changed)?;
    let mut told = told(options, &steps, &before, &after);
    told.usage = used_before.zip(used_after);
    let shown: HashSet<&str> = told.pods.iter().map(|pod| pod.pod.as_str()).collect();
    let concerns = |pod: &PodReport| shown.contains(pod.pod.as_str());
    let explained = Explained { independent: options.independent, all: &all, concerns: &concerns };
    printed(|out| match output.style() {
        Some(style) => {
            let usage = told.usage.as_ref();
            let usage = usage.map(|(before, after)| usage::render(after, Some(before), options.all, style));
            let text = what_if::render(&told, options.all, style) + &usage.unwrap_or_default();
            out.write_all(style.tidy(&text).as_bytes())?;
            explained.write_text(out, style, again)
        }
        None => {
            let explanations = again.map(|again| Explanations::new(explained, again));
            output.write(out, &Document { told: &told, usage: None, explanations })
        }
    })?;
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
    Ok(selected(options, all))
}

fn selected(options: &Options, all: &Report) -> Report {
    let pods = all.pods.iter().filter(|pod| is_wanted(options, pod)).cloned().collect();
    Report { pods, missing_nodes: all.missing_nodes.clone(), ..Report::default() }
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
type SecondRun = (EngineConfig, Inventory);

/// The simulation that is explained, and the pods whose explanations are wanted.
#[derive(Clone, Copy)]
struct Explained<'a> {
    independent: bool,
    all: &'a Report,
    concerns: &'a dyn Fn(&PodReport) -> bool,
}

impl Explained<'_> {
    /// Passes the explanation of one pod after another to `tell` until `tell` fails.
    fn run<E>(
        self,
        (engine, cluster): SecondRun,
        tell: &mut dyn FnMut(&PodReport, PodExplanation) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut told = Ok(());
        let mut tell = |pod: &PodReport, said| {
            if told.is_ok() {
                told = tell(pod, said);
            }
        };
        match self.independent {
            true => explain_independently(&engine, cluster, self.all, self.concerns, &mut tell),
            false => explain_simulated(engine, cluster, self.all, self.concerns, &mut tell),
        }
        told
    }

    /// Writes the explanations as text, if they were requested.
    fn write_text(self, out: &mut dyn Write, style: Style, again: Option<SecondRun>) -> io::Result<()> {
        let Some(again) = again else { return Ok(()) };
        self.run(again, &mut |pod, said| {
            out.write_all(style.tidy(&table::explanation(pod, &said, style)).as_bytes())
        })
    }
}

/// A report or a difference as a document, with `"usage"` and `"explanations"` if they were requested; the form of a
/// report is that of [`harbormaster_sim::Explained`].
#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(flatten)]
    told: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanations: Option<Explanations<'a>>,
}

/// A list whose entries are computed while the list is written. It can be written only once.
struct Explanations<'a> {
    explained: Explained<'a>,
    again: Cell<Option<SecondRun>>,
}

impl<'a> Explanations<'a> {
    fn new(explained: Explained<'a>, again: SecondRun) -> Self {
        Self { explained, again: Cell::new(Some(again)) }
    }
}

impl Serialize for Explanations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if let Some(again) = self.again.take() {
            self.explained.run(again, &mut |_, said| list.serialize_element(&said))?;
        }
        list.end()
    }
}
