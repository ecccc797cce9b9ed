//! Renders the result of a simulation as text.

use std::collections::BTreeSet;

use harbormaster_sim::{
    PodExplanation, PodReport, Report,
    explanation::{FittingNodes, RejectedNodes},
    report::{Fate, Status},
};

use super::{
    alike::{self, Row},
    layout::{Cell, Colour, Style, Table},
};

/// Maximum number of node groups to show, best scores first.
const BEST: usize = 10;

/// Text that follows the help and explains the columns.
pub(crate) const COLUMNS: &str = "Columns: FITS is how many of the evaluated nodes fit, in the attempt that placed the pod; TRIED is the number of \
     attempts. With --explain, FIT and DO NOT FIT count nodes with equal results, and raw->final shows a plugin's score as \
     computed and as used: normalized to the range 0 to 100 and multiplied by the plugin's weight.";

/// Renders all pods as a table. Members of a group share a row and, if there are many pods, so do similar pods, unless
/// `all` is set.
pub(crate) fn render(report: &Report, all: bool, style: Style) -> String {
    if report.pods.is_empty() {
        return style.paragraph(&format!("no pod is waiting for a node{}", on_missing_nodes(report)));
    }
    let rows: Vec<Row> = report.pods.iter().map(row).collect();
    let groups: Vec<Vec<Row>> = match all {
        true => rows.into_iter().map(|row| vec![Row { group: None, ..row }]).collect(),
        false => alike::grouped(rows),
    };
    let mut table = Table::new(["POD", "NODE", "FITS", "TRIED", "MESSAGE"]);
    for group in &groups {
        table.add([
            alike::pods(group),
            alike::places(group),
            alike::fits(group),
            alike::tried(group),
            alike::message(group),
        ]);
    }
    let mut text = table.render(style) + "\n" + &style.paragraph(&summary(report));
    if groups.len() < report.pods.len() {
        let what = if report.pods.iter().any(|pod| pod.group.is_some()) {
            "members of groups and similar"
        } else {
            "similar"
        };
        text += &style.paragraph(&format!("({what} pods share a row; --all shows each)"));
    }
    text
}

pub(crate) fn row(pod: &PodReport) -> Row {
    let (place, colour) = outcome(pod);
    Row {
        pod: pod.pod.clone(),
        group: pod.group.clone(),
        owner: pod.owner.clone().unwrap_or_default(),
        place,
        is_placed: pod.fate() == Fate::Placed,
        colour: Some(colour),
        looked_at: pod.looked_at,
        tried: pod.attempts,
        message: message(pod),
    }
}

/// Returns the reason that the pod has no node, or the volumes and devices that its claims get on its node.
pub(crate) fn message(pod: &PodReport) -> String {
    let volumes = pod.claims.iter().map(ToString::to_string);
    let devices = pod.devices.iter().map(ToString::to_string);
    let clauses = pod.message.iter().cloned().chain(volumes).chain(devices);
    clauses.collect::<Vec<_>>().join("; ")
}

/// Returns the pod's node, or a placeholder.
pub(crate) fn outcome(pod: &PodReport) -> (String, Colour) {
    match (pod.fate(), &pod.node) {
        // This happens only with `--independent`, which ignores scheduling gates.
        (Fate::Placed, Some(node)) if pod.is_gated() => (format!("{node} (gated)"), Colour::Yellow),
        (Fate::Placed, node) => (node.clone().unwrap_or_default(), Colour::Green),
        (Fate::Gated, _) => ("<gated>".to_owned(), Colour::Yellow),
        (Fate::Preempted, _) => ("<preempted>".to_owned(), Colour::Red),
        (Fate::Foreign, _) => ("<foreign>".to_owned(), Colour::Yellow),
        (Fate::Unschedulable, _) => ("<none>".to_owned(), Colour::Red),
    }
}

/// Returns true if the pod fits nowhere or was preempted.
pub(crate) fn has_failed(pod: &PodReport) -> bool {
    matches!(pod.fate(), Fate::Unschedulable | Fate::Preempted)
}

/// Returns a text such as `, 12 on missing nodes`; empty if there are no such pods.
fn on_missing_nodes(report: &Report) -> String {
    match report.missing_nodes.values().sum::<usize>() {
        0 => String::new(),
        pods => format!(", {pods} on missing nodes"),
    }
}

fn summary(report: &Report) -> String {
    let of = |fate| report.pods.iter().filter(|pod| pod.fate() == fate).count();
    let count = report.pods.len();
    let mut text = format!(
        "{count} {}: {} placed, {} unschedulable, {} gated",
        if count == 1 { "pod" } else { "pods" },
        of(Fate::Placed),
        of(Fate::Unschedulable),
        of(Fate::Gated)
    );
    for (fate, word) in [(Fate::Preempted, "preempted"), (Fate::Foreign, "of other schedulers")] {
        if of(fate) > 0 {
            text += &format!(", {} {word}", of(fate));
        }
    }
    text + &on_missing_nodes(report)
}

/// Renders the nodes on which the pod fits, with scores, and the reasons why it does not fit on the others.
pub(crate) fn explanation(pod: &PodReport, said: &PodExplanation, style: Style) -> String {
    let to = pod.node.as_deref().unwrap_or("no node");
    let mut text = "\n".to_owned() + &style.heading(&format!("{} ({}) -> {to}", pod.pod, pod.profile));
    for (point, status) in [("PreEnqueue", &pod.pre_enqueue), ("PreFilter", &said.pre_filter)] {
        if let Some(status) = status {
            text += &style.paragraph(&format!("{point}: {}", verdict(status)));
        }
    }
    if let Some(error) = &said.error {
        text += &style.paragraph(&format!("error: {error}"));
    }
    if !said.fits.is_empty() {
        text += &fits(&said.fits, pod.node.as_deref(), style);
    }
    if !said.rejected.is_empty() {
        text += &rejections(&said.rejected, style);
    }
    text
}

/// Renders nodes with equal scores on one line. Names the chosen node.
fn fits(groups: &[FittingNodes], chosen: Option<&str>, style: Style) -> String {
    let plugins: BTreeSet<&str> = groups.iter().flat_map(|g| g.plugins.keys().map(AsRef::as_ref)).collect();
    let shown = groups.iter().take(BEST);
    let begin = |group: &FittingNodes| {
        let example = group.nodes.iter().find(|node| Some(node.as_str()) == chosen).or(group.nodes.first());
        let example = example.map_or("", String::as_str);
        [Cell::coloured(group.nodes.len().to_string(), Colour::Green), example.into(), group.total.into()]
    };
    let titles = ["FIT", "EXAMPLE", "TOTAL"];
    let mut table = Table::new(titles.iter().chain(&plugins).copied());
    for group in shown.clone() {
        let scores = plugins.iter().map(|plugin| Cell::from(score(group, plugin).unwrap_or_default()));
        table.add(begin(group).into_iter().chain(scores));
    }
    // If the table with one column per plugin is too wide, all scores share a column and each is preceded by its
    // plugin's name.
    if style.width.is_some_and(|width| table.width() > width) {
        table = Table::new(titles.into_iter().chain(["SCORES (raw->final)"]));
        for group in shown {
            let said = |plugin: &&str| score(group, plugin).map(|score| format!("{plugin} {score}"));
            let scores = plugins.iter().filter_map(said).collect::<Vec<_>>().join(", ");
            table.add(begin(group).into_iter().chain([scores.into()]));
        }
    }
    let rest: usize = groups.iter().skip(BEST).map(|group| group.nodes.len()).sum();
    match rest {
        0 => table.render(style),
        rest => {
            table.render(style)
                + &style.paragraph(&format!("and {rest} more with lower scores (-o json shows all)"))
        }
    }
}

/// Returns a plugin's raw and weighted scores.
fn score(group: &FittingNodes, plugin: &str) -> Option<String> {
    group.plugins.get(plugin).map(|score| format!("{}->{}", score.raw, score.weighted))
}

/// Renders nodes that are rejected for the same reason on one line, with the resources and labels that they lack.
fn rejections(groups: &[RejectedNodes], style: Style) -> String {
    let mut table = Table::new(["DO NOT FIT", "EXAMPLE", "WHY"]);
    for group in groups {
        let mut why = verdict(&group.status);
        if !group.lacks.is_empty() {
            why += &format!(" ({})", group.lacks.join("; "));
        }
        let example = group.nodes.first().map_or("", String::as_str);
        table.add([Cell::coloured(group.nodes.len().to_string(), Colour::Red), example.into(), why.into()]);
    }
    table.render(style)
}

fn verdict(status: &Status) -> String {
    match status.plugin.as_ref() {
        "" => status.text(),
        plugin => format!("{plugin}: {}", status.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let placed = PodReport {
            pod: "a/placed".into(),
            node: Some("n1".into()),
            looked_at: Some((5, 3)),
            attempts: 1,
            ..PodReport::default()
        };
        let lost =
            PodReport { pod: "a/lost".into(), message: Some("no luck ".repeat(30)), ..PodReport::default() };
        Report { pods: vec![placed, lost], ..Report::default() }
    }

    #[test]
    fn preempted_pods_and_pods_of_other_schedulers_are_counted_separately() {
        let mut report = report();
        let preempted_by = Some("a/placed".to_owned());
        report.pods.push(PodReport { pod: "a/other".into(), is_foreign: true, ..PodReport::default() });
        report.pods.push(PodReport { pod: "a/victim".into(), preempted_by, ..PodReport::default() });
        let text = render(&report, false, Style::default());
        assert!(text.contains("a/victim  <preempted>"), "{text}");
        assert!(text.contains("a/other   <foreign>"), "{text}");
        assert!(
            text.contains("4 pods: 1 placed, 1 unschedulable, 0 gated, 1 preempted, 1 of other schedulers"),
            "{text}"
        );
    }

    #[test]
    fn nodes_are_shown_in_groups_and_the_chosen_node_is_named() {
        let group = |total: i64, nodes: &[&str]| FittingNodes {
            total,
            plugins: Default::default(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        };
        let fits = (0..12).map(|i| group(100 - i, &["x", "chosen"])).collect();
        let status = Status { plugin: "P".into(), code: "Unschedulable".into(), reasons: vec!["no".into()] };
        let lacks = vec!["this".to_owned(), "that".to_owned()];
        let rejected = vec![RejectedNodes { status, lacks, nodes: vec!["y".into(), "z".into()] }];
        let said = PodExplanation { fits, rejected, ..PodExplanation::default() };
        let pod = PodReport { pod: "a/p".into(), node: Some("chosen".into()), ..PodReport::default() };
        let narrow = explanation(&pod, &said, Style { width: Some(10), ..Style::default() });
        assert!(narrow.contains("SCORES (raw->final)"), "{narrow}");
        let text = explanation(&pod, &said, Style::default());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!((lines[0], lines[2]), ("a/p () -> chosen", "2    chosen   100"), "{text}");
        assert_eq!(lines[12], "and 4 more with lower scores (-o json shows all)", "{text}");
        assert_eq!(lines[14], "2           y        P: no (this; that)", "{text}");
    }

    #[test]
    fn many_similar_pods_share_a_row_unless_all_are_requested() {
        let pod = |i: usize| PodReport {
            pod: format!("a/web-{i}"),
            node: Some(format!("n{}", i % 7)),
            ..PodReport::default()
        };
        let report = Report {
            pods: (0..60).map(pod).collect(),
            missing_nodes: [("n9".to_owned(), 3)].into(),
            ..Report::default()
        };
        let text = render(&report, false, Style::default());
        assert!(text.contains("\na/web-* (60 pods)  7 nodes"), "{text}");
        let sum =
            "\n60 pods: 60 placed, 0 unschedulable, 0 gated, 3 on missing nodes\n(similar pods share a row";
        assert!(text.contains(sum), "{text}");
        assert_eq!(render(&report, true, Style::default()).lines().count(), 63);
    }

    #[test]
    fn an_empty_report_is_rendered_as_a_sentence() {
        assert_eq!(render(&Report::default(), false, Style::default()), "no pod is waiting for a node\n");
    }
}
