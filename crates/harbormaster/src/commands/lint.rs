//! The `lint` command: settings of a KubeSchedulerConfiguration that are valid, but surely not meant.
//!
//! Each file in `lint/` checks one part of the configuration: [`plugins`] (which plugins run where), [`scores`]
//! (weights and arguments), [`extenders`], and [`settings`] (profiles, pods and the whole scheduler). A finding is a
//! warning only if nobody can want it; everything else is a note. Mistakes that validation rejects are errors, not
//! findings.

mod extenders;
mod finding;
mod plugins;
mod scores;
mod settings;

use clap::{Args, Command};
use harbormaster_manifests::Validate;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Reading};
use serde::Serialize;

use self::finding::{Demand, Finding, Severity, Subject};
use super::{
    CommandError, CommandResult, Program, SIMULATED, features, files,
    layout::{Cell, Colour, Style, Table},
    manifest_files,
    output::Output,
};

const NOTES: &str = "With manifests, the command also finds profiles without pods, pods without a profile, and resources of extenders that no pod \
     requests. Exit codes: 0 no warnings; 1 any error, such as an invalid configuration; 2 warnings.";

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The KubeSchedulerConfiguration
    #[arg(long, value_name = "FILE")]
    config: String,
    /// Manifests (YAML or JSON) whose pods the scheduler should schedule: files, directories, dumps (output of the
    /// command dump or of kubectl get -o yaml), or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    files: Vec<String>,
    /// Treatment of unknown and duplicate fields in manifests: strict, warn or ignore
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: Validate,
    /// Version of Kubernetes whose kube-scheduler is reproduced: 1.33 to 1.37
    #[arg(long, value_name = "VERSION", default_value_t = SIMULATED.to_string())]
    emulated_version: String,
    /// Comma-separated list of pairs: Gate=true,Other=false
    #[arg(long, value_name = "LIST")]
    feature_gates: Vec<String>,
    /// Format of the findings
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// All findings about a configuration.
#[derive(Debug, Serialize)]
struct Report {
    /// Name of the file.
    config: String,
    warnings: usize,
    notes: usize,
    /// Warnings first, then in the order of the file.
    findings: Vec<Finding>,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("lint"))
        .about("Find mistakes in a configuration that is valid")
        .after_help(NOTES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    match lint(program, options) {
        Ok(report) if report.warnings > 0 => Err(CommandError::Warnings),
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("error: {error}");
            Err(CommandError::Error)
        }
    }
}

/// Finds mistakes and prints them.
fn lint(program: &Program, options: &Options) -> Result<Report, String> {
    let features = features(&options.emulated_version, &options.feature_gates)?;
    let choices = Choices { features, ..program.choices() };
    let source = files::read(&options.config)?;
    let setup =
        Setup::read(Some((&source.name, &source.text)), &choices).map_err(|error| error.to_string())?;
    let points = |plugin: &str| choices.plugins.points(plugin);
    let plans = harbormaster_config::plan_profiles(&setup.config, &points, &features)
        .map_err(|error| error.to_string())?;
    let demand = demand(options, &choices)?;
    let subject = Subject { config: &setup.config, plans: &plans, choices: &choices, pods: demand.as_ref() };
    let report = report(&source.name, findings(&subject));
    options.output.print(&report, |style| render(&report, style))?;
    Ok(report)
}

/// Reads what the pods of the manifests ask for; `None` if no manifests are given, or if they contain no pods.
fn demand(options: &Options, choices: &Choices) -> Result<Option<Demand>, String> {
    if options.files.is_empty() {
        return Ok(None);
    }
    let sources = manifest_files::read_all(&options.files)?;
    let reading = Reading {
        validate: options.validate,
        fill: true,
        features: choices.features,
        // Pods on nodes that the manifests lack count, too.
        reschedule_missing: true,
        ..Reading::default()
    };
    let cluster = Inventory::from_sources(&sources, reading).map_err(|error| error.to_string())?;
    let pods = || cluster.bound.iter().chain(&cluster.pending);
    if pods().next().is_none() {
        return Err("the manifests contain no pods".to_owned());
    }
    Ok(Some(Demand::of(pods())))
}

/// Checks every part of the configuration.
fn findings(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = without_effect(subject);
    for check in [plugins::check, scores::check, extenders::check, settings::check] {
        findings.extend(check(subject));
    }
    findings
}

/// Returns the warnings that a start of the scheduler prints, too.
fn without_effect(subject: &Subject<'_>) -> Vec<Finding> {
    let warnings = harbormaster_setup::without_effect(subject.config, subject.choices);
    let finding = |warning: harbormaster_config::ConfigError| {
        let is_weight = warning.field.ends_with(".weight");
        let message = warning.message.strip_prefix(&format!("{}: ", warning.field));
        let message = message.unwrap_or(&warning.message);
        let (id, help) = match warning.help {
            Some(help) => ("unknown-plugin", help),
            None if is_weight => ("weight-zero", "remove the weight, or give another one".to_owned()),
            None => ("unknown-plugin", "correct the name, or remove the entry".to_owned()),
        };
        subject.warning(id, warning.field.clone(), message, help)
    };
    warnings.into_iter().map(finding).collect()
}

fn report(config: &str, mut findings: Vec<Finding>) -> Report {
    // The sort is stable, so findings about one line keep their order.
    findings.sort_by_key(|finding| (finding.severity, finding.line));
    let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
    Report { config: config.to_owned(), warnings, notes: findings.len() - warnings, findings }
}

fn render(report: &Report, style: Style) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let summary = match (report.warnings, report.notes) {
        (0, 0) => format!("{}: nothing found", report.config),
        (warnings, notes) => {
            format!("{}: {}, {}", report.config, count(warnings, "warning"), count(notes, "note"))
        }
    };
    let (title, summary) = (style.title("Findings"), style.paragraph(&summary));
    if report.findings.is_empty() {
        return title + &summary;
    }
    let mut table = Table::new(["SEVERITY", "FINDING", "LINE", "FIELD", "WHAT HAPPENS (WHAT TO DO)"]);
    for Finding { id, severity, field, line, message, help } in &report.findings {
        let colour = match severity {
            Severity::Warning => Colour::Yellow,
            Severity::Note => Colour::Green,
        };
        let line = line.map(|line| line.to_string()).unwrap_or_default();
        let told = format!("{message} ({help})");
        let severity = Cell::coloured(severity.name(), colour);
        table.add([severity, id.into(), line.into(), field.into(), told.into()]);
    }
    format!("{title}{}\n{summary}", table.render(style))
}

#[cfg(test)]
mod tests;
