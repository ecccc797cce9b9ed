//! Changes of the cluster that a simulation assumes, and what they do.

use std::{collections::HashSet, fmt::Write as _};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, builder::ValueParser, error::ErrorKind,
    parser::ValueSource, value_parser,
};
use harbormaster_config::Setting;
use harbormaster_manifests::{
    edits::{Edit, ObjectName, Step},
    scenario,
};
use harbormaster_page::Section;
use harbormaster_sim::{
    Difference, PodReport,
    difference::{ChangedPod, Effect},
};

use super::{
    alike::{self, Row},
    files,
    layout::{Colour, Style, Table},
    page_file::{self, Move, Moves},
    table,
};

const HEADING: &str = "What if";
/// Flags that each are one change, or the begin of one.
const FLAGS: [&str; 8] = ["drain", "remove", "add", "scale", "delete", "repack", "set", "scenario"];

/// Flag that changes the configuration, for commands without changes of the cluster.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Set a field of the configuration, for example
    /// profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated. Elements of lists are selected by
    /// number or name, and [+] appends one; the value is YAML. This flag can be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Setting>,
}

impl Settings {
    /// Returns the changes.
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.set.iter().cloned().map(|setting| of_flag("set", set(setting))).collect()
    }
}

fn set(Setting { path, value }: Setting) -> Edit {
    Edit::Set { path, value }
}

/// Returns an edit that a flag names.
fn of_flag(flag: &str, edit: Edit) -> Step {
    Step { edit, source: format!("--{flag}").into(), line: None, field: String::new() }
}

/// Flags that change the cluster or the configuration, in the order in which they are given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes(Vec<Planned>);

#[derive(Clone, Debug)]
enum Planned {
    Edit(&'static str, Edit),
    /// Edits in a file.
    Scenario(String),
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the changes. Reads the scenarios.
    ///
    /// # Errors
    /// All mistakes in the first scenario that has any.
    pub(crate) fn steps(&self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        for planned in &self.0 {
            match planned {
                Planned::Edit(flag, edit) => steps.push(of_flag(flag, edit.clone())),
                Planned::Scenario(path) => steps.extend(scenario::read(&files::read(path)?)?),
            }
        }
        Ok(steps)
    }
}

impl Args for Changes {
    fn augment_args(command: Command) -> Command {
        let flag = |name: &'static str, value: &'static str, parser: ValueParser, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .value_parser(parser)
                .action(ArgAction::Append)
                .help_heading(HEADING)
                .help(help)
        };
        let text = || ValueParser::string();
        let object = |text: &str| text.parse::<ObjectName>();
        command.args([
            flag(
                "drain",
                "NODE",
                text(),
                "Cordon the node and make its pods pending, except for DaemonSet and static pods. This flag and the \
                 following ones can be repeated, and take effect in the order given. The result is the difference that they make",
            ),
            flag("remove", "NODE", text(), "Like --drain, but the node is gone, and its DaemonSet and static pods, too"),
            flag("add", "N", value_parser!(usize).into(), "Add N empty nodes like the one that --like names").requires("like"),
            flag("like", "NODE", text(), "Node of which --add adds copies").requires("add"),
            flag(
                "scale",
                "KIND/[NAMESPACE/]NAME=N",
                ValueParser::new(scaling),
                "Give a Deployment, ReplicaSet, StatefulSet or ReplicationController N replicas",
            ),
            flag(
                "delete",
                "KIND/[NAMESPACE/]NAME",
                ValueParser::new(object),
                "Delete an object and everything that it owns",
            ),
            Arg::new("repack").long("repack").action(ArgAction::SetTrue).help_heading(HEADING).help(
                "Make all pods pending, except for DaemonSet and static pods, so that the scheduler places them anew. With \
                 --config, this shows what another configuration would do",
            ),
            flag(
                "set",
                "PATH=VALUE",
                ValueParser::new(|text: &str| text.parse::<Setting>()),
                "Set a field of the configuration, for example \
                 profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated. Elements of lists are \
                 selected by number or name, and [+] appends one; the value is YAML. With --repack, the result shows what \
                 the cluster would look like",
            ),
            flag(
                "scenario",
                "FILE",
                text(),
                "Make the changes of a YAML list with the steps drain: NODE, remove: NODE, add: N with like: NODE, scale: \
                 KIND/[NAMESPACE/]NAME with replicas: N, delete: KIND/[NAMESPACE/]NAME, repack: all, and set: PATH with \
                 to: VALUE",
            ),
        ])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Changes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut planned: Vec<(usize, Planned)> = Vec::new();
        for flag in FLAGS {
            if matches.value_source(flag) != Some(ValueSource::CommandLine) {
                continue;
            }
            let found = matches.indices_of(flag).into_iter().flatten().zip(named(flag, matches)?);
            planned.extend(found);
        }
        planned.sort_by_key(|(index, _)| *index);
        Ok(Self(planned.into_iter().map(|(_, planned)| planned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the changes that a flag names, in the order given.
fn named(flag: &'static str, matches: &ArgMatches) -> Result<Vec<Planned>, Error> {
    let texts = |flag: &str| matches.get_many::<String>(flag).into_iter().flatten().cloned();
    let edit = |edit| Planned::Edit(flag, edit);
    Ok(match flag {
        "drain" => texts(flag).map(|node| edit(Edit::Drain { node })).collect(),
        "remove" => texts(flag).map(|node| edit(Edit::Remove { node })).collect(),
        "scenario" => texts(flag).map(Planned::Scenario).collect(),
        "repack" => vec![edit(Edit::Repack)],
        "add" => {
            let counts: Vec<usize> = matches.get_many(flag).into_iter().flatten().copied().collect();
            let originals: Vec<String> = texts("like").collect();
            if counts.len() != originals.len() {
                let message = "every --add N needs its own --like NODE, as in --add 2 --like node-a1\n";
                return Err(Error::raw(ErrorKind::WrongNumberOfValues, message));
            }
            let pairs = counts.into_iter().zip(originals);
            pairs.map(|(count, like)| edit(Edit::Add { count, like })).collect()
        }
        "scale" => {
            let all = matches.get_many::<(ObjectName, u32)>(flag).into_iter().flatten().cloned();
            all.map(|(workload, replicas)| edit(Edit::Scale { workload, replicas })).collect()
        }
        "set" => {
            let all = matches.get_many::<Setting>(flag).into_iter().flatten().cloned();
            all.map(|setting| edit(set(setting))).collect()
        }
        _ => {
            let all = matches.get_many::<ObjectName>(flag).into_iter().flatten().cloned();
            all.map(|object| edit(Edit::Delete { object })).collect()
        }
    })
}

/// Parses `deployment/shop/web=5`.
fn scaling(text: &str) -> Result<(ObjectName, u32), String> {
    let help = "expected KIND/NAME=N or KIND/NAMESPACE/NAME=N";
    let (object, replicas) = text.split_once('=').ok_or(help)?;
    let replicas =
        replicas.parse().map_err(|_| format!("{help}, and {replicas:?} is not a number of replicas"))?;
    Ok((object.parse()?, replicas))
}

/// Returns true if the change leaves the pod without a node.
pub(crate) fn is_harmed(pod: &ChangedPod) -> bool {
    let is_new_harm = matches!(pod.effect, Effect::Lost | Effect::Added);
    is_new_harm && pod.after.as_ref().is_some_and(table::has_failed)
}

/// Renders the difference that the changes make. Similar pods share a row if there are many, unless `all` is set.
pub(crate) fn render(told: &Difference, all: bool, style: Style) -> String {
    let mut text = style.title("Difference that changes make") + &style.paragraph(&assumption(told));
    if !told.pods.is_empty() {
        let (table, shares_rows) = pods(&told.pods, all);
        text += &format!("\n{}", table.render(style));
        if shares_rows {
            text += &style.paragraph("(similar pods share a row; --all shows each)");
        }
    }
    text + "\n" + &sums(told).iter().map(|line| style.paragraph(line)).collect::<String>()
}

/// Returns the difference as a section of a page.
pub(crate) fn section(told: &Difference, all: bool) -> Section {
    let mut lines = vec![assumption(told)];
    lines.extend(sums(told));
    let nodes = &told.nodes;
    for (what, names) in
        [("New", &nodes.added), ("Removed", &nodes.removed), ("No longer open for pods", &nodes.cordoned)]
    {
        if !names.is_empty() {
            lines.push(format!("{what}: {}.", names.join(", ")));
        }
    }
    page_file::section("What changes", lines, pods(&told.pods, all).0)
}

/// Returns what changes on the nodes and pods of a page.
pub(crate) fn moves(told: &Difference) -> Moves<'_> {
    Moves {
        new_nodes: told.nodes.added.iter().map(String::as_str).collect(),
        cordoned: told.nodes.cordoned.iter().map(String::as_str).collect(),
        pods: told.pods.iter().map(moved).collect(),
    }
}

fn moved(changed: &ChangedPod) -> Move<'_> {
    fn node(pod: Option<&PodReport>) -> Option<&str> {
        pod?.node.as_deref()
    }
    Move {
        pod: &changed.pod,
        from: node(changed.before.as_ref()),
        to: node(changed.after.as_ref()),
        is_new: changed.before.is_none(),
    }
}

fn assumption(told: &Difference) -> String {
    format!("If you {}:", told.changes.join(", then "))
}

/// Returns the numbers of pods that change, and of those that have nodes.
fn sums(told: &Difference) -> [String; 2] {
    let have = |totals: &std::collections::BTreeMap<&str, usize>| {
        format!("{} of {}", totals.get("placed").copied().unwrap_or(0), totals.values().sum::<usize>())
    };
    let line = format!("{} pods have a node, instead of {}", have(&told.after), have(&told.before));
    [summary(told), line]
}

/// Returns one row for each pod or for similar pods, and true if pods share rows.
fn pods(changed: &[ChangedPod], all: bool) -> (Table, bool) {
    let rows: Vec<(Row, Row)> = changed.iter().map(rows).collect();
    let after = rows.iter().map(|(_, after)| after.clone()).collect();
    let groups: Vec<Vec<Row>> = match all {
        true => rows.iter().map(|(_, after)| vec![after.clone()]).collect(),
        false => alike::grouped(after),
    };
    let mut table = Table::new(["POD", "BEFORE", "AFTER", "WHY"]);
    for group in &groups {
        let names: HashSet<&str> = group.iter().map(|row| row.pod.as_str()).collect();
        let before: Vec<Row> = rows
            .iter()
            .filter(|(row, _)| names.contains(row.pod.as_str()))
            .map(|(row, _)| row.clone())
            .collect();
        table.add([alike::pods(group), alike::places(&before), alike::places(group), alike::message(group)]);
    }
    (table, groups.len() < changed.len())
}

/// Returns the rows of a pod before and after the change.
fn rows(changed: &ChangedPod) -> (Row, Row) {
    let one = |pod: Option<&PodReport>, absent: &str, message: String| {
        let (place, colour) = match pod {
            Some(pod) => table::outcome(pod),
            None => (absent.to_owned(), Colour::Yellow),
        };
        let owner = pod.and_then(|pod| pod.owner.clone()).unwrap_or_else(|| stem(&changed.pod).to_owned());
        Row {
            pod: changed.pod.clone(),
            // Only pods that suffer the same share a row.
            owner: format!("{} {owner}", changed.effect.word()),
            place,
            is_placed: pod.is_some_and(|pod| pod.node.is_some()),
            colour: Some(colour),
            message,
            ..Row::default()
        }
    };
    let why = changed.after.as_ref().map(table::message).unwrap_or_default();
    (one(changed.before.as_ref(), "(new)", String::new()), one(changed.after.as_ref(), "(gone)", why))
}

fn stem(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(stem, _)| stem)
}

/// Returns a line such as `3 pods move, 1 pod loses its node; 12 pods do not change`.
fn summary(told: &Difference) -> String {
    let of = |word: &str| told.totals.get(word).copied().unwrap_or_default();
    let clauses = [
        ("moved", "moves", "move"),
        ("lost", "loses its node", "lose their nodes"),
        ("gained", "gets a node", "get nodes"),
        ("added", "is new", "are new"),
        ("removed", "is gone", "are gone"),
        ("otherReason", "waits for another reason", "wait for other reasons"),
    ];
    let said =
        clauses.into_iter().filter(|(word, ..)| of(word) > 0).map(|(word, one, many)| match of(word) {
            1 => format!("1 pod {one}"),
            count => format!("{count} pods {many}"),
        });
    let said: Vec<String> = said.collect();
    let mut text = if said.is_empty() { "no pod changes".to_owned() } else { said.join(", ") };
    // Writing to a string cannot fail.
    let _ = match of("unchanged") {
        _ if said.is_empty() => Ok(()),
        1 => write!(text, "; 1 pod does not change"),
        count => write!(text, "; {count} pods do not change"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(args: &[&str]) -> Result<Vec<String>, String> {
        let command = Changes::augment_args(Command::new("simulate")).no_binary_name(true);
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        let changes = Changes::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        Ok(changes.steps()?.iter().map(|step| step.edit.to_string()).collect())
    }

    #[test]
    fn changes_are_made_in_the_order_of_the_flags() {
        let args = [
            "--scale=deploy/web=0",
            "--drain",
            "b",
            "--add",
            "2",
            "--like",
            "a",
            "--drain",
            "a",
            "--delete=job/x/y",
            "--add=1",
            "--remove=c",
            "--like=d",
            "--set",
            "profiles[0].schedulerName=x",
            "--repack",
        ];
        let expected = [
            "scale deploy web to 0",
            "drain node b",
            "add 2 nodes like a",
            "drain node a",
            "delete job x/y",
            "add a node like d",
            "remove node c",
            "set profiles[0].schedulerName to x",
            "place all pods anew",
        ];
        assert_eq!(changes(&args).expect("the flags are right"), expected);
        assert_eq!(changes(&[]), Ok(Vec::new()));
    }

    #[test]
    fn wrong_changes_are_explained() {
        for (args, expected) in [
            (&["--add", "2"][..], "--like"),
            (&["--like", "a"], "--add"),
            (&["--add=1", "--add=2", "--like=a"], "every --add N needs its own --like NODE"),
            (&["--scale", "web"], "expected KIND/NAME=N"),
            (&["--scale", "deploy/web=many"], "\"many\" is not a number of replicas"),
            (&["--scale", "web=2"], "expected KIND/NAME or KIND/NAMESPACE/NAME, got \"web\""),
            (&["--delete", "web"], "expected KIND/NAME"),
            (&["--set", "parallelism"], "expected PATH=VALUE"),
            (&["--scenario", "/no/such/file"], "/no/such/file: "),
        ] {
            let told = changes(args).expect_err("the flags are wrong");
            assert!(told.contains(expected), "{args:?}: {told}");
        }
    }
}
