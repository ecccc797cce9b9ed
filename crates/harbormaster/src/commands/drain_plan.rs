//! The `drain-plan` command.

use std::collections::HashSet;

use clap::{Args, Command};
use harbormaster_api::similar::did_you_mean;
use harbormaster_page::Scene;
use harbormaster_sim::{DrainPlan, Inventory, Report, UsageBefore, drain::Eviction};

use super::{
    CommandError, CommandResult, Program,
    cluster::{ClusterOptions, Loaded},
    format::Format,
    layout::{Cell, Colour, Style, Table},
    page_file::{self, Move, Moves},
    what_if::Settings,
};

const NOTES: &str = "The nodes are cordoned first, and the cluster's pending pods are scheduled as far as they fit. A round contains the pods \
     that can be evicted at the same time; the next round can begin when their replacements run. \
     Exit codes: 0 success; 1 any error; with --exit-code, 2 if a pod cannot be evicted or finds no room.";

/// Arguments of `drain-plan`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The nodes to drain
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    settings: Settings,
    /// Exit with code 2 if a pod cannot be evicted, or finds no room
    #[arg(long)]
    exit_code: bool,
    /// Format of the plan; html is a page for a browser
    #[arg(short = 'o', long = "output", value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("drain-plan"))
        .about("Show in which order the pods of nodes can be evicted, where they go, and which find no room")
        .after_help(NOTES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    match plan(program, options) {
        Ok(plan) if options.exit_code && plan.is_incomplete() => Err(CommandError::Unschedulable),
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("error: {error}");
            Err(CommandError::Error)
        }
    }
}

/// Makes the plan and prints it.
fn plan(program: &Program, options: &Options) -> Result<DrainPlan, String> {
    let Loaded { engine, cluster, extenders, .. } =
        options.cluster.load(program, &options.settings.steps())?;
    let nodes = known(&options.nodes, &cluster)?;
    let before = cluster.clone();
    let (plan, report) = harbormaster_sim::drain_plan(engine, cluster, &nodes);
    extenders.check()?;
    match options.format {
        Format::Text(output) => output.print(&plan, |style| render(&plan, style))?,
        Format::Html => page_file::print(&scene(&plan, &report, before))?,
    }
    Ok(plan)
}

/// Returns a page of the drained cluster, with the plan.
fn scene(plan: &DrainPlan, report: &Report, mut cluster: Inventory) -> Scene {
    let gone: HashSet<&str> =
        plan.evictions().filter(|one| one.owner.is_none()).map(|one| one.pod.as_str()).collect();
    cluster.bound.retain(|pod| !gone.contains(pod.full_name().as_str()));
    let mut scene = page_file::scene(UsageBefore::of(&cluster), report, report);
    let moved = plan.evictions().map(|Eviction { pod, node, to, .. }| Move {
        pod,
        from: Some(node),
        to: to.as_deref(),
        is_new: false,
    });
    let moves = Moves {
        cordoned: plan.nodes.iter().map(String::as_str).collect(),
        pods: moved.collect(),
        ..Moves::default()
    };
    page_file::mark(&mut scene, &moves);
    scene.title = "Plan of a drain".to_owned();
    scene.sections.push(page_file::section("Order of the evictions", summary(plan), table(plan)));
    scene
}

/// Returns the nodes, each once.
fn known(wanted: &[String], cluster: &Inventory) -> Result<Vec<String>, String> {
    let mut nodes: Vec<String> = Vec::new();
    for name in wanted {
        if !cluster.nodes.iter().any(|node| node.name == *name) {
            let names = cluster.nodes.iter().map(|node| node.name.as_str());
            return Err(format!("no node is named {name:?}{}", did_you_mean(name, names)));
        }
        if !nodes.contains(name) {
            nodes.push(name.clone());
        }
    }
    Ok(nodes)
}

fn render(plan: &DrainPlan, style: Style) -> String {
    let rows = if plan.rounds.is_empty() && plan.blocked.is_empty() {
        String::new()
    } else {
        format!("{}\n", table(plan).render(style))
    };
    let summary = summary(plan).iter().map(|line| style.paragraph(line)).collect::<String>();
    style.title("Plan of the drain") + &rows + &summary
}

fn table(plan: &DrainPlan) -> Table {
    let mut table = Table::new(["ROUND", "POD", "FROM", "TO", "NOTE"]);
    for (number, round) in (1_usize..).zip(&plan.rounds) {
        for Eviction { pod, node, owner, to, message } in &round.evictions {
            let (to, note) = match (owner, to) {
                (None, _) => (Cell::coloured("(gone)", Colour::Yellow), "nobody creates it again"),
                (_, Some(to)) => (Cell::coloured(to, Colour::Green), ""),
                (_, None) => (Cell::coloured("<none>", Colour::Red), message.as_deref().unwrap_or_default()),
            };
            table.add([number.into(), pod.into(), node.into(), to, note.into()]);
        }
    }
    for blocked in &plan.blocked {
        let to = Cell::coloured("<blocked>", Colour::Red);
        table.add(["".into(), (&blocked.pod).into(), (&blocked.node).into(), to, (&blocked.message).into()]);
    }
    table
}

/// Returns lines such as `5 pods leave in 2 rounds; 1 finds no room`.
fn summary(plan: &DrainPlan) -> Vec<String> {
    let count = |number: usize, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    let evictions: Vec<&Eviction> = plan.evictions().collect();
    let mut first = match evictions.len() {
        0 => "no pod leaves".to_owned(),
        pods => format!(
            "{} in {}",
            count(pods, "pod leaves", "pods leave"),
            count(plan.rounds.len(), "round", "rounds")
        ),
    };
    let homeless = evictions.iter().filter(|one| one.owner.is_some() && one.to.is_none()).count();
    let orphans = evictions.iter().filter(|one| one.owner.is_none()).count();
    for (number, one, many) in [
        (homeless, "finds no room", "find no room"),
        (orphans, "is not created again", "are not created again"),
        (plan.blocked.len(), "is blocked", "are blocked"),
    ] {
        if number > 0 {
            first += &format!("; {}", count(number, one, many));
        }
    }
    let mut lines = vec![first];
    let staying = |reason: &str| plan.staying.iter().filter(|pod| pod.reason == reason).count();
    let stay: Vec<String> = ["DaemonSet", "static", "terminating"]
        .into_iter()
        .filter(|reason| staying(reason) > 0)
        .map(|reason| count(staying(reason), &format!("{reason} pod"), &format!("{reason} pods")))
        .collect();
    if !stay.is_empty() {
        lines.push(format!("not evicted: {}", stay.join(", ")));
    }
    if !plan.preempted.is_empty() {
        lines.push(format!("preempted for these pods: {}", plan.preempted.join(", ")));
    }
    lines
}
