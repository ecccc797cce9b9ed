//! The `why` command.

use clap::{Args, Command};
use harbormaster_api::{Pod, similar::did_you_mean};
use harbormaster_manifests::edits::ObjectName;
use harbormaster_sim::{
    Change, Contrast, GroupState, Inventory, PodReport, Standing, StuckMember, Victims, Waker, Why,
    report::Fate,
};

use super::{
    CommandError, CommandResult, Program,
    cluster::{ClusterOptions, ClusterText, Loaded, Progress},
    layout::{Cell, Colour, Style, Table},
    output::Output,
    running::Credentials,
    table,
    what_if::Settings,
    why_running::{self, Running},
};

const NOTES: &str = "The other pending pods are scheduled first, as far as they fit, unless --independent is given. Every change that is shown has been tried: with it, the \
     pod fits. Changes are listed from small to large; two changes on one line are needed together.";

const HOPELESS: &str = "No change that was tried would place it.";

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The pod: NAMESPACE/NAME, or NAME in any namespace; or a workload, of which the first pod without a node is meant:
    /// KIND/NAME or KIND/NAMESPACE/NAME
    #[arg(value_name = "POD")]
    pod: String,
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    settings: Settings,
    /// Also ask the running scheduler of the kubeconfig's cluster: the address of its secure port, such as
    /// https://host:10259. The credentials of the kubeconfig must allow GET on /debug/why, and its authority must be that of
    /// the scheduler's certificate, unless the flags below replace them. Changes are looked for in the cluster, with the
    /// scheduler's own configuration if the credentials allow GET on /configz
    #[arg(long, value_name = "URL", conflicts_with = "files")]
    from: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
    /// Explain the pod on the cluster as given, without placing the other pods
    #[arg(long)]
    independent: bool,
    /// Format of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn command() -> Command {
    // `augment_args` sets the description to the doc comment of `Options`, so `about` must be called afterwards.
    Options::augment_args(Command::new("why"))
        .about("Show why a pod has no node, and the smallest changes that would give it one; or why it is on its node")
        .after_help(NOTES)
}

pub(crate) fn main(program: &Program, options: &Options) -> CommandResult {
    answer(program, options).map_err(|error| {
        eprintln!("error: {error}");
        CommandError::Error
    })
}

/// Asks and prints the answer.
fn answer(program: &Program, options: &Options) -> Result<(), String> {
    if let Some(from) = &options.from {
        let told = of_running(program, options, from)?;
        return options.output.print(&told, |style| why_running::render(&told, style));
    }
    let told = simulated(program, options, &options.cluster.text(program)?)?;
    options.output.print(&told, |style| render(&told, style))
}

/// Asks the scheduler, and looks for changes in the cluster.
fn of_running(program: &Program, options: &Options, from: &str) -> Result<Running, String> {
    let connection = options.credentials.connection(from, &options.cluster.access);
    let mut told = why_running::ask(from, &connection, &options.pod)?;
    let config = match options.cluster.has_config() {
        true => None,
        false => why_running::configuration(from, &connection),
    };
    let text = options.cluster.text_with(program, config);
    let simulation = text.and_then(|text| simulated(program, options, &text));
    // In the cluster, a pod may be named without its namespace or by its workload.
    if let Ok(why) = &simulation
        && told["pod"] != why.pod.pod
    {
        told = why_running::ask(from, &connection, &why.pod.pod)?;
    }
    Running::new(told, simulation)
}

/// Answers by a simulation.
fn simulated(program: &Program, options: &Options, text: &ClusterText) -> Result<Why, String> {
    let loaded = options.cluster.load_edited(program, text, &options.settings.steps())?;
    loaded.print_notes();
    let Loaded { engine, cluster, extenders, .. } = loaded;
    let (pod, is_placed) = find(&options.pod, &cluster)?;
    let told = match options.independent {
        _ if is_placed => Ok(harbormaster_sim::why_placed(&engine, cluster, &pod)),
        true => harbormaster_sim::why_independent(&engine, cluster, &pod),
        false => {
            let mut progress = Progress::new();
            let told = harbormaster_sim::why(engine, cluster, &pod, &mut |done, of| {
                progress.show(format_args!("{done} of {of} pods placed"));
            });
            progress.clear();
            told
        }
    };
    extenders.check()?;
    told.map_err(|error| error.to_string())?.ok_or_else(|| format!("pod {pod} is not pending"))
}

/// Returns the full name of the pod, and true if it is on a node. Prefers pods without a node.
fn find(name: &str, cluster: &Inventory) -> Result<(String, bool), String> {
    let is_called = |pod: &&Pod| if name.contains('/') { pod.full_name() == name } else { pod.name == *name };
    let found: Vec<&Pod> = cluster.pending.iter().filter(is_called).collect();
    match found[..] {
        [pod] => Ok((pod.full_name(), false)),
        [] => match (first_of_workload(name, cluster), cluster.bound.iter().find(is_called)) {
            (Some(pod), _) => Ok((pod.full_name(), false)),
            (None, Some(pod)) => Ok((pod.full_name(), true)),
            (None, None) => {
                let all = cluster.pending.iter().chain(&cluster.bound);
                let names: Vec<String> = all.map(|pod| known_as(name, pod)).collect();
                let help = did_you_mean(name, names.iter().map(String::as_str));
                Err(format!("no pod is named {name:?}{help}"))
            }
        },
        _ => Err(format!(
            "{} pods are named {name:?}; add the namespace, as in {}",
            found.len(),
            found[0].full_name()
        )),
    }
}

/// Returns the first pending pod of a workload, such as `deployment/web`.
fn first_of_workload<'a>(name: &str, cluster: &'a Inventory) -> Option<&'a Pod> {
    let wanted: ObjectName = name.parse().ok()?;
    cluster.pending.iter().find(|pod| {
        let is_there = wanted.namespace.as_ref().is_none_or(|namespace| pod.namespace == *namespace);
        is_there && pod.controller.as_ref().is_some_and(|owner| is_owner(&wanted, &owner.kind, &owner.name))
    })
}

/// Returns true if the controller of a pod is the workload, or the ReplicaSet of the Deployment that is meant.
fn is_owner(wanted: &ObjectName, kind: &str, name: &str) -> bool {
    let is_kind = |kind: &str, short: &str| {
        let written = wanted.kind.to_lowercase();
        written == kind.to_lowercase() || written == format!("{}s", kind.to_lowercase()) || written == short
    };
    let short = match kind {
        "ReplicaSet" => "rs",
        "StatefulSet" => "sts",
        "DaemonSet" => "ds",
        "ReplicationController" => "rc",
        _ => "",
    };
    let deployment = name.rsplit_once('-').map_or("", |(deployment, _)| deployment);
    let is_deployment = kind == "ReplicaSet" && is_kind("Deployment", "deploy");
    is_kind(kind, short) && wanted.name == name || is_deployment && wanted.name == deployment
}

fn known_as(name: &str, pod: &Pod) -> String {
    if name.contains('/') { pod.full_name() } else { pod.name.as_str().to_owned() }
}

pub(super) fn render(told: &Why, style: Style) -> String {
    let mut text = headline(told, style) + &group(told, style);
    if let Some(said) = &told.explanation {
        text += &match said.pod == told.pod.pod {
            true => table::explanation(&told.pod, said, style),
            false => {
                let (pod, profile) = (said.pod.clone(), told.pod.profile.clone());
                table::explanation(&PodReport { pod, profile, ..PodReport::default() }, said, style)
            }
        };
    }
    text + &standing(told, style) + &wakers(told, style) + &changes(told, style)
}

/// Returns what the scheduler would do with other pods, and what would place the pod.
pub(super) fn changes(told: &Why, style: Style) -> String {
    evicted(told, style) + &remedies(told, style)
}

fn headline(told: &Why, style: Style) -> String {
    let pod = &told.pod;
    let message = pod.message.as_deref().unwrap_or_default();
    let times = if pod.attempts == 1 { "once".to_owned() } else { format!("{} times", pod.attempts) };
    let line = match pod.fate() {
        // A pod that was on a node from the start has not been tried.
        Fate::Placed if pod.attempts == 0 => {
            format!("{} is on node {}", pod.pod, pod.node.as_deref().unwrap_or_default())
        }
        Fate::Placed => format!("{} gets node {}", pod.pod, pod.node.as_deref().unwrap_or_default()),
        Fate::Gated => format!("{} is held back: {message}", pod.pod),
        Fate::Unschedulable => format!("{} waits, tried {times}: {message}", pod.pod),
        Fate::Preempted | Fate::Foreign => format!("{}: {message}", pod.pod),
    };
    style.title(&format!("Pod {}", pod.pod)) + &style.paragraph(&line)
}

/// Returns how far the pod's gang is from getting enough nodes.
fn group(told: &Why, style: Style) -> String {
    let Some(GroupState { group, min_count, members, placed, fits, stuck }) = &told.group else {
        return String::new();
    };
    let mut line = format!("PodGroup {group} needs nodes for {min_count} members. ");
    line += &match placed {
        0 => format!("{members} exist, and {fits} of them would fit."),
        _ => format!("{members} exist, {placed} have nodes, and {fits} more would fit."),
    };
    if let Some(StuckMember { pod, message }) = stuck {
        line += &format!(" Beside them, {pod} finds no node: {message}");
    }
    style.paragraph(&line)
}

fn wakers(told: &Why, style: Style) -> String {
    if told.woken_by.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["REJECTED BY", "IS TRIED AGAIN AFTER"]);
    for Waker { plugin, events } in &told.woken_by {
        table.add([plugin.into(), events.join("; ").into()]);
    }
    format!("\n{}", table.render(style))
}

/// Returns how close the next best node is to the node of a placed pod.
fn standing(told: &Why, style: Style) -> String {
    let Some(Standing { own, rival, fits, better, plugins }) = &told.standing else { return String::new() };
    let node = told.pod.node.as_deref().unwrap_or_default();
    let sentence = match (own, rival) {
        (None, None) => format!("If it were placed now, it would fit on no node, not even on {node}."),
        (None, Some(rival)) => {
            format!(
                "If it were placed now, it would not fit on {node}. The best of {fits} nodes is {}.",
                rival.node
            )
        }
        (Some(_), None) => format!("Only {node} fits."),
        (Some(own), Some(rival)) => {
            let first = match better {
                0 if own.total == rival.total => "as good as any other".to_owned(),
                0 => "the best".to_owned(),
                1 => "second to one that is better now".to_owned(),
                many => format!("worse than {many} others now"),
            };
            format!(
                "Of {fits} nodes that fit, {node} is {first}: its score is {}, that of {} is {}.",
                own.total, rival.node, rival.total
            )
        }
    };
    let mut text = "\n".to_owned() + &style.paragraph(&sentence);
    if let (Some(rival), false) = (rival, plugins.is_empty()) {
        let mut table = Table::new(["SCORE BY", node, &rival.node]);
        for Contrast { plugin, own, rival } in plugins {
            table.add([plugin.into(), own.to_string().into(), rival.to_string().into()]);
        }
        text += &format!("\n{}", table.render(style));
    }
    text
}

/// Returns what the scheduler would do with other pods, if it would do something.
fn evicted(told: &Why, style: Style) -> String {
    let Some(Victims { node, victims, violations }) = &told.evicts else { return String::new() };
    let budgets = match violations {
        0 => String::new(),
        many => format!(" ({many} of them against a disruption budget)"),
    };
    let line = format!("It would evict {} from node {node}{budgets}.", victims.join(", "));
    "\n".to_owned() + &style.paragraph(&line)
}

fn remedies(told: &Why, style: Style) -> String {
    match (told.pod.fate(), told.remedies.is_empty()) {
        (Fate::Placed | Fate::Preempted | Fate::Foreign, _) => return String::new(),
        (Fate::Gated, true) => {
            let fits = told.explanation.as_ref().is_some_and(|said| !said.fits.is_empty());
            let line = if fits { "It fits as soon as it is released." } else { HOPELESS };
            return "\n".to_owned() + &style.paragraph(line);
        }
        (Fate::Unschedulable, true) => return "\n".to_owned() + &style.paragraph(HOPELESS),
        (_, false) => {}
    }
    let first = if told.group.is_some() { "MEMBERS" } else { "FITS" };
    let mut table = Table::new([first, "EXAMPLE", "IF YOU"]);
    for remedy in &told.remedies {
        let example = match remedy.changes[..] {
            [Change::AddNode { .. }] => "the new node",
            _ => &remedy.example,
        };
        let count = remedy.members.unwrap_or(remedy.fits);
        table.add([
            Cell::coloured(count.to_string(), Colour::Green),
            example.into(),
            remedy.to_string().into(),
        ]);
    }
    format!("\n{}", table.render(style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_by_kind_short_name_or_plural_and_a_deployment_owns_its_replica_sets_pods() {
        for (written, kind, name, expected) in [
            ("rs/web-6d4f", "ReplicaSet", "web-6d4f", true),
            ("replicasets/web-6d4f", "ReplicaSet", "web-6d4f", true),
            ("rs/web", "ReplicaSet", "web-6d4f", false),
            ("deployment/web", "ReplicaSet", "web-6d4f", true),
            ("deploy/shop/web", "ReplicaSet", "web-6d4f", true),
            ("deploy/shop/web", "ReplicaSet", "web", false),
            ("deploy/web", "StatefulSet", "web", false),
            ("Job/report", "Job", "report", true),
            ("job/report", "Job", "other", false),
        ] {
            let wanted = written.parse().expect("a name");
            assert_eq!(is_owner(&wanted, kind, name), expected, "{written} {kind} {name}");
        }
    }
}
