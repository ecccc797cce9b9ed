//! The `shadow` command: runs beside the scheduler of a cluster, decides about the same pods, and reports how the
//! decisions differ. It writes nothing to the cluster.

mod durations;
mod journal;
mod report;
mod tally;

use std::{
    cell::RefCell,
    convert::Infallible,
    ffi::OsString,
    fs,
    future::pending,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::{Arg, ArgMatches, Command, ValueEnum as _};
use harbormaster_api::args::GoDuration;
use harbormaster_core::EngineConfig;
use harbormaster_driver::{Console, Health, Reader, ShadowConfig};
use harbormaster_port::{Content, Options, Port};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::{journal::Journal, report::Report, tally::Tally};
use super::{
    CommandError, CommandResult, Program, files,
    flags::{self, FlagType, Flags, Read},
    log,
    output::Output,
    run::{self, Signals},
    secure_port::{self, Shown},
    settings::{self, Candidates, Settings},
};

/// Flags of `run` that have no effect here. They are accepted, so that kube-scheduler's arguments can be used.
const WITHOUT_EFFECT: [&str; 4] = ["write-config-to", "record", "record-max-size", "record-max-age"];

/// Returns the subcommand, for help and parsing.
pub(crate) fn command() -> Command {
    let option = |name: &'static str, takes: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(takes).help(help).help_heading("Shadow flags")
    };
    let own = [
        option(
            "for",
            "duration",
            "Time after which to stop, for example 1h. Without it, SIGINT or SIGTERM ends the command",
        ),
        option(
            "every",
            "duration",
            "Interval between lines about the progress on stderr; 0 for none [default: 10s]",
        ),
        option("output", "table|json|yaml|markdown", "Format of the report on stdout [default: table]")
            .short('o'),
        option("report", "file", "File that gets the report in JSON too"),
        option("decisions", "file", "File that gets one line of JSON for each decision and each preemption"),
    ];
    let command = flags::command("shadow")
        .about("Compare the decisions of a cluster's scheduler with Harbormaster's, without writing to the cluster")
        .long_about(
            "Compare the decisions of a cluster's scheduler with Harbormaster's, without writing to the cluster. Takes the \
             flags of run; those for leader election and recordings have no effect. --config must name the \
             configuration of the cluster's scheduler; --kubeconfig overrides the kubeconfig that it names. The secure \
             port is off unless --secure-port is given.",
        )
        .after_help("Exit codes: 0 the time is over, or stopped by SIGTERM or SIGINT; 1 any error.")
        .args(own);
    let hidden: Vec<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let hidden = hidden
        .into_iter()
        .filter(|name| name.starts_with("leader-elect") || WITHOUT_EFFECT.contains(&name.as_str()));
    hidden
        .fold(command, |command, name| command.mut_arg(name, |arg| arg.hide(true)))
        .mut_arg("secure-port", |arg| {
            arg.help("The port for HTTPS with health and metrics; off unless given")
        })
        .mut_arg("parity", |arg| {
            arg.help(
                "Decide exactly as kube-scheduler does with parallelism 1, also among nodes with the same score. Without \
                 this flag, every feasible node is scored, and a node with the same score is no difference",
            )
        })
}

/// Flags that only this command has.
#[derive(Debug, PartialEq)]
struct OwnFlags {
    /// `--for`.
    at_most: Option<Duration>,
    /// `--every`; `None` for no progress.
    every: Option<Duration>,
    output: Output,
    report: Option<String>,
    decisions: Option<String>,
}

impl OwnFlags {
    fn of(matches: &ArgMatches) -> Result<Self, String> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let duration = |name: &str| -> Result<Option<Duration>, String> {
            let Some(given) = text(name) else { return Ok(None) };
            let parsed = GoDuration::parse([given].into_iter())
                .map_err(|(text, why)| format!("invalid argument {text:?} for \"--{name}\" flag: {why}"))?;
            Ok(Some(parsed.to_std()))
        };
        let output = match text("output") {
            None => Output::default(),
            Some(given) => Output::from_str(given, false)
                .map_err(|_| format!("--output={given}: the format is table, json, yaml or markdown"))?,
        };
        let every = duration("every")?.unwrap_or(Duration::from_secs(10));
        Ok(Self {
            at_most: duration("for")?,
            every: Some(every).filter(|every| !every.is_zero()),
            output,
            report: text("report").map(str::to_owned),
            decisions: text("decisions").map(str::to_owned),
        })
    }
}

/// Compares decisions until it is time to stop, then prints the report.
pub(crate) fn main(program: &Program, name: &str, args: Vec<OsString>) -> CommandResult {
    let (given, matches) = match flags::read_with(command(), args) {
        Ok(given) => given,
        Err(Read::Print(help)) => {
            print!("{help}");
            return Ok(());
        }
        Err(Read::Wrong(why)) => return run::usage_error(name, &why),
        Err(Read::Flags(_)) => return Err(CommandError::Error),
    };
    if let Some(&form) = given.version.given() {
        return run::print_version(program, name, form);
    }
    match OwnFlags::of(&matches) {
        Ok(own) => run::with_log(program, &given, |level| start(program, &given, &own, level)),
        Err(why) => run::usage_error(name, &why),
    }
}

fn start(program: &Program, given: &Flags, own: &OwnFlags, level: &log::Threshold) -> Result<(), String> {
    let port = match given.secure_port.given() {
        Some(_) => secure_port::options(given)?,
        None => None,
    };
    let source = given.config.given().map(|path| files::read(path)).transpose()?;
    let settings = |release| Settings::of(program.choices(), given, source.as_ref(), release);
    let candidates = Candidates::of(given, settings)?;
    match super::runtime()?.block_on(watch(given, own, candidates, port, level))? {
        Some(report) => publish(&report, own),
        None => Ok(()),
    }
}

/// Prints the report, and writes the file if one is named.
fn publish(report: &Report, own: &OwnFlags) -> Result<(), String> {
    own.output.print(report, |style| report.render(style))?;
    let Some(file) = &own.report else { return Ok(()) };
    let mut json = Vec::new();
    let written = Output::Json.write(&mut json, report).and_then(|()| fs::write(file, json));
    written.map_err(|e| format!("{file}: {e}"))
}

/// Watches the cluster until it is time to stop. Returns nothing if that is before the API server has answered.
async fn watch(
    given: &Flags,
    own: &OwnFlags,
    candidates: Candidates,
    port: Option<Options>,
    level: &log::Threshold,
) -> Result<Option<Report>, String> {
    let signals = Signals::new().map_err(|e| format!("listening for signals: {e}"))?;
    let mut journal = Journal::create(own.decisions.as_deref())?;
    let (health, stopping, shown) = (Health::default(), Arc::new(AtomicBool::new(false)), Shown::default());
    let config = &candidates.any().setup.config;
    let mut connection = settings::connection(given, config);
    // The configuration is that of another scheduler, so its kubeconfig is only a default.
    connection.kubeconfig = given.kubeconfig.given().map(Into::into).or(connection.kubeconfig);
    connection.check().map_err(|e| e.to_string())?;
    let checks = secure_port::checks(&health, &stopping, None);
    let console = Console::default();
    let set_verbosity = run::verbosity(level, &console);
    let content = secure_port::content(given, config, &shown, checks, set_verbosity, &console);
    // There is no queue to ask about.
    let content = Content { why: None, ..content };
    let port = port.map(|options| Port::start(options, content)).transpose().map_err(|e| e.to_string())?;
    let mut shutdown = pin!(run::asked_to_stop(signals, stopping));
    let reader = Reader::new(&connection).await.map_err(|e| e.to_string())?;
    let settings = tokio::select! {
        settings = candidates.choose(reader.client()) => settings?,
        () = &mut shutdown => {
            run::close(port);
            return Ok(None);
        }
    };
    settings.setup.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let metrics = settings.metrics();
    shown.set(&settings, &metrics);
    let tally = RefCell::new(Tally::new(notes(&settings.setup.engine)));
    let end = async {
        tokio::select! {
            () = shutdown => {}
            () = wait(own.at_most) => {}
        }
    };
    let config = ShadowConfig { metrics: metrics.clone(), health };
    let tell = |compared| {
        tally.borrow_mut().add(&compared);
        journal.add(&compared);
    };
    let compared = tokio::select! {
        compared = harbormaster_driver::shadow(&reader, config, settings.setup.engine, tell, end) => compared,
        never = show_progress(own.every, &tally) => match never {},
    };
    run::close(port);
    compared.map_err(|e| e.to_string())?;
    Ok(Some(Report::of(&tally.into_inner(), metrics.usage())))
}

/// Waits for the given time, or for ever.
async fn wait(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => pending().await,
    }
}

async fn show_progress(every: Option<Duration>, tally: &RefCell<Tally>) -> Infallible {
    let Some(every) = every else { return pending().await };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        eprintln!("{}", tally.borrow().line());
    }
}

/// Returns remarks about what the configuration means for the comparison.
fn notes(engine: &EngineConfig) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if !engine.extenders.is_empty() {
        notes.push("The extenders of the configuration were not called; differences may come from them.");
    }
    let of_all = engine.percentage_of_nodes_to_score;
    let percentages =
        engine.profiles.iter().map(|profile| profile.percentage_of_nodes_to_score().or(of_all).unwrap_or(0));
    if !engine.parity && percentages.into_iter().any(|percentage| percentage < 100) {
        notes.push(
            "With more than 100 nodes, kube-scheduler scores only some of the nodes that fit (percentageOfNodesToScore), \
             and may miss better ones. The comparison scores all.",
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(args: &[&str]) -> Result<OwnFlags, String> {
        match flags::read_with(command(), args.iter().map(OsString::from)) {
            Ok((_, matches)) => OwnFlags::of(&matches),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_of_its_own_stand_beside_those_of_run() {
        let flags =
            own(&["--kubeconfig=/k", "--leader-elect=true", "--for=1h", "--every", "0s", "-o", "json"]);
        let expected = OwnFlags {
            at_most: Some(Duration::from_secs(3600)),
            every: None,
            output: Output::Json,
            report: None,
            decisions: None,
        };
        assert_eq!(flags, Ok(expected));
        let flags = own(&["--report", "r.json"]).unwrap();
        assert_eq!(
            (flags.at_most, flags.every, flags.output, flags.report.as_deref()),
            (None, Some(Duration::from_secs(10)), Output::Table, Some("r.json"))
        );
    }

    #[test]
    fn wrong_values_are_named() {
        for (flag, expected) in [
            ("--for=long", "invalid argument \"long\" for \"--for\" flag"),
            ("-o=xml", "the format is table, json, yaml or markdown"),
        ] {
            let error = own(&[flag]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_help_shows_only_flags_with_an_effect() {
        let help = command().render_long_help().to_string();
        assert!(help.contains("--for") && help.contains("--kubeconfig"), "{help}");
        assert!(!help.contains("--leader-elect") && !help.contains("--record"), "{help}");
    }
}
