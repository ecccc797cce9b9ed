//! The page of a simulation, for a file: the report, and the nodes with their pods afterwards. What changes of the
//! cluster make of it, plans and capacities add to it.

use std::collections::{BTreeMap, HashMap};

use harbormaster_api::Str;
use harbormaster_core::pod_state::reasons;
use harbormaster_framework::pod::PodInfo;
use harbormaster_page::{Document, Mark, Member, Node, PlacedPod, Scene, Section, Total, WaitingRow};
use harbormaster_sim::{NodeUsage, PodReport, Report, UsageBefore, report::Fate};
use serde_json::Value;

use super::{
    alike::{self, Row},
    layout::Table,
    output::printed,
    table,
};

/// Maximum number of points of the chart.
const POINTS: usize = 200;

/// All pods by name, each with its node.
type Pods<'a> = BTreeMap<&'a str, (&'a PodInfo, Option<Str>)>;

/// Returns the scene. `shown` is the part of the report whose waiting pods are shown.
pub(super) fn scene(before: UsageBefore, all: &Report, shown: &Report) -> Scene {
    let course = before.course(all, POINTS).into_iter().map(total).collect();
    let pods = before.pods_after(all);
    let waiting = waiting(shown, &pods);
    let placed = placed(all, &pods);
    let usage = before.after(all);
    let places: HashMap<&str, usize> =
        usage.nodes.iter().enumerate().map(|(at, node)| (node.node.as_str(), at)).collect();
    let pods = placed
        .into_iter()
        .filter_map(|(node, pod)| Some(PlacedPod { node: *places.get(node.as_str())?, pod, before: None }))
        .collect();
    let notes = all.missing_nodes.iter().map(|(node, pods)| match pods {
        1 => format!("1 pod is on node {node}, which does not exist"),
        pods => format!("{pods} pods are on node {node}, which does not exist"),
    });
    Scene {
        title: "Simulation".to_owned(),
        notes: notes.collect(),
        nodes: usage.nodes.iter().map(node).collect(),
        pods,
        waiting,
        course,
        ..Scene::default()
    }
}

fn total(total: harbormaster_sim::Total) -> Total {
    Total { attempts: total.attempts, pods: total.usage.pods.0, requested: total.usage.requested }
}

/// Prints the page.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print(scene: &Scene) -> Result<(), String> {
    let page = Document::with(scene);
    printed(|out| out.write_all(page.html.as_bytes()))
}

/// Returns a section with a table.
pub(super) fn section(title: &str, lines: Vec<String>, table: Table) -> Section {
    let (columns, rows) = table.into_texts();
    let columns = columns.iter().map(|title| sentence_case(title)).collect();
    Section { title: title.to_owned(), lines, columns, rows, bars: Vec::new() }
}

/// Returns `COPIES ON EACH` as `Copies on each`.
fn sentence_case(title: &str) -> String {
    title.chars().take(1).chain(title.chars().skip(1).flat_map(char::to_lowercase)).collect()
}

/// Differences that a change of the cluster makes to nodes and pods.
#[derive(Debug, Default)]
pub(super) struct Moves<'a> {
    pub(super) new_nodes: Vec<&'a str>,
    pub(super) cordoned: Vec<&'a str>,
    pub(super) pods: Vec<Move<'a>>,
}

/// A pod that has another node than without the change.
#[derive(Debug)]
pub(super) struct Move<'a> {
    /// `namespace/name`.
    pub(super) pod: &'a str,
    pub(super) from: Option<&'a str>,
    pub(super) to: Option<&'a str>,
    /// True if there is no such pod without the change.
    pub(super) is_new: bool,
}

impl Move<'_> {
    fn before(&self) -> String {
        match self.from {
            Some(node) => node.to_owned(),
            None if self.is_new => "new".to_owned(),
            None => "no node".to_owned(),
        }
    }
}

/// Marks nodes and pods of the scene that differ.
pub(super) fn mark(scene: &mut Scene, moves: &Moves<'_>) {
    let mut marks: HashMap<&str, Mark> = HashMap::new();
    moves.new_nodes.iter().for_each(|node| marks.entry(node).or_default().is_new = true);
    moves.cordoned.iter().for_each(|node| marks.entry(node).or_default().is_cordoned = true);
    for Move { from, to, .. } in moves.pods.iter().filter(|one| one.from != one.to) {
        from.iter().for_each(|node| marks.entry(node).or_default().left += 1);
        to.iter().for_each(|node| marks.entry(node).or_default().came += 1);
    }
    for node in &mut scene.nodes {
        node.mark = marks.get(node.name.as_str()).copied();
    }
    let moves: HashMap<&str, &Move<'_>> = moves.pods.iter().map(|one| (one.pod, one)).collect();
    for placed in &mut scene.pods {
        placed.before = moves.get(placed.pod.name.as_str()).map(|one| one.before());
    }
    for member in scene.waiting.iter_mut().flat_map(|row| &mut row.members) {
        let before = moves.get(member.name.as_str()).map(|one| one.before());
        if let (Some(before), Value::Object(facts)) = (before, &mut member.facts) {
            facts.insert("before".to_owned(), before.into());
        }
    }
}

fn node(usage: &NodeUsage) -> Node {
    Node {
        name: usage.node.to_string(),
        zone: usage.zone.as_ref().map(ToString::to_string).unwrap_or_default(),
        requested: usage.requested.clone(),
        allocatable: usage.allocatable.clone(),
        mark: None,
    }
}

/// Returns the pods that have a node, each with its node.
fn placed(report: &Report, pods: &Pods<'_>) -> Vec<(Str, Member)> {
    let facts: HashMap<&str, Value> = report.pods.iter().map(|pod| (pod.pod.as_str(), facts(pod))).collect();
    let member = |(name, (pod, node)): (&&str, &(&PodInfo, Option<Str>))| {
        let facts = facts.get(name).cloned().unwrap_or_default();
        let member = Member { name: (*name).to_owned(), request: pod.request().clone(), facts };
        Some((node.clone()?, member))
    };
    pods.iter().filter_map(member).collect()
}

/// Returns the pods without a node; similar pods share a row.
fn waiting(report: &Report, pods: &Pods<'_>) -> Vec<WaitingRow> {
    let reports: HashMap<&str, &PodReport> = report.pods.iter().map(|pod| (pod.pod.as_str(), pod)).collect();
    let member = |row: &Row| Member {
        name: row.pod.clone(),
        request: pods.get(row.pod.as_str()).map(|(pod, _)| pod.request().clone()).unwrap_or_default(),
        facts: reports.get(row.pod.as_str()).map(|pod| facts(pod)).unwrap_or_default(),
    };
    let mut rows = Vec::new();
    for fate in Fate::ALL.into_iter().filter(|fate| *fate != Fate::Placed) {
        let alike = report.pods.iter().filter(|pod| pod.fate() == fate).map(table::row).collect();
        rows.extend(alike::together(alike, true).iter().map(|row| WaitingRow {
            pods: alike::pods(row).text().to_owned(),
            state: fate.word().to_owned(),
            message: alike::message(row).text().to_owned(),
            members: row.iter().map(member).collect(),
        }));
    }
    rows
}

/// Returns the report on a pod without its name and node, and with the reasons in its message.
fn facts(pod: &PodReport) -> Value {
    let mut facts = match serde_json::to_value(pod) {
        Ok(Value::Object(facts)) => facts,
        _ => return Value::Null,
    };
    facts.retain(|name, value| !value.is_null() && name != "pod" && name != "node");
    let reasons = pod.message.as_deref().map(reasons).unwrap_or_default();
    if !reasons.is_empty() {
        facts.insert("reasons".to_owned(), serde_json::json!(reasons));
    }
    Value::Object(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_pods_that_a_change_affects_are_marked() {
        let node = |name: &str| Node { name: name.to_owned(), ..Node::default() };
        let placed = |name: &str| PlacedPod {
            pod: Member { name: name.to_owned(), ..Member::default() },
            ..PlacedPod::default()
        };
        let member = Member { name: "x/lost".to_owned(), facts: serde_json::json!({}), ..Member::default() };
        let mut scene = Scene {
            nodes: vec![node("a"), node("b"), node("c")],
            pods: vec![placed("x/moved"), placed("x/added"), placed("x/same")],
            waiting: vec![WaitingRow { members: vec![member], ..WaitingRow::default() }],
            ..Scene::default()
        };
        let moved = |pod, from, to, is_new| Move { pod, from, to, is_new };
        let moves = Moves {
            new_nodes: vec!["b"],
            cordoned: vec!["a"],
            pods: vec![
                moved("x/moved", Some("a"), Some("b"), false),
                moved("x/added", None, Some("b"), true),
                moved("x/lost", Some("a"), None, false),
            ],
        };
        mark(&mut scene, &moves);
        let marks: Vec<Option<Mark>> = scene.nodes.iter().map(|node| node.mark).collect();
        let expected = [
            Some(Mark { is_cordoned: true, left: 2, ..Mark::default() }),
            Some(Mark { is_new: true, came: 2, ..Mark::default() }),
            None,
        ];
        assert_eq!(marks, expected);
        let before: Vec<Option<&str>> = scene.pods.iter().map(|pod| pod.before.as_deref()).collect();
        assert_eq!(before, [Some("a"), Some("new"), None]);
        assert_eq!(scene.waiting[0].members[0].facts["before"], "a");
    }

    #[test]
    fn titles_of_columns_are_written_as_in_a_sentence() {
        assert_eq!(sentence_case("COPIES ON EACH"), "Copies on each");
        assert_eq!(sentence_case(""), "");
    }
}
