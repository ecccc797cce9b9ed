//! The result of a simulation for people.

use std::collections::BTreeSet;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use harbormaster_sim::{
    PodExplanation, PodReport, Report,
    explanation::{FittingNodes, RejectedNodes},
    report::{Fate, Status},
};

/// How tables look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Whether to use colours.
    pub(crate) colours: bool,
    /// Whether to wrap long cells so that lines fit the terminal.
    pub(crate) fit_terminal: bool,
}

/// So many groups of nodes with the best scores are shown.
const BEST: usize = 10;

/// All pods as a table.
pub(crate) fn render(report: &Report, style: Style) -> String {
    if report.pods.is_empty() {
        return "no pod waits for a node\n".to_owned();
    }
    let mut table = new_table(style, ["POD", "NODE", "FITS", "TRIED", "MESSAGE"]);
    for pod in &report.pods {
        table.add_row([
            Cell::new(&pod.pod),
            outcome(pod),
            Cell::new(pod.looked_at.map_or(String::new(), |(of, fit)| format!("{fit}/{of}"))),
            Cell::new(pod.attempts),
            Cell::new(message(pod)),
        ]);
    }
    finished(&table) + &format!("\n{}\n", summary(report))
}

/// Columns and lines of the terminal.
pub(crate) fn terminal_size() -> (u16, u16) {
    known_size(crossterm::terminal::size().ok())
}

/// Some terminals do not tell their size, or tell that they have none.
fn known_size(told: Option<(u16, u16)>) -> (u16, u16) {
    told.filter(|(columns, lines)| *columns > 0 && *lines > 0).unwrap_or((80, 24))
}

/// A table without lines, with its header.
pub(crate) fn new_table<const N: usize>(style: Style, header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if style.colours {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if style.fit_terminal {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(terminal_size().0);
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    table.set_header(header.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    table
}

/// The lines of a table, without the room around them; what was wrapped stays in its column.
pub(crate) fn finished(table: &Table) -> String {
    let bare = |line: String| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned() + "\n";
    table.lines().map(bare).collect()
}

/// Why it has no node, or what its claims get there.
fn message(pod: &PodReport) -> String {
    let clauses = pod.message.iter().cloned().chain(pod.claims.iter().map(ToString::to_string));
    clauses.collect::<Vec<_>>().join("; ")
}

fn outcome(pod: &PodReport) -> Cell {
    match (pod.fate(), &pod.node) {
        // Only where pods are judged on their own: gates do not count there.
        (Fate::Placed, Some(node)) if pod.is_gated() => {
            Cell::new(format!("{node} (gated)")).fg(Color::Yellow)
        }
        (Fate::Placed, node) => Cell::new(node.as_deref().unwrap_or_default()).fg(Color::Green),
        (Fate::Gated, _) => Cell::new("<gated>").fg(Color::Yellow),
        (Fate::Preempted, _) => Cell::new("<preempted>").fg(Color::Red),
        (Fate::Foreign, _) => Cell::new("<foreign>").fg(Color::Yellow),
        (Fate::Unschedulable, _) => Cell::new("<none>").fg(Color::Red),
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
    text
}

/// Where the pod fits with the scores, and why it does not fit elsewhere.
pub(crate) fn explanation(pod: &PodReport, said: &PodExplanation, style: Style) -> String {
    let to = pod.node.as_deref().unwrap_or("no node");
    let mut text = format!("\n{} ({}) -> {to}\n", pod.pod, pod.profile);
    for (point, status) in [("PreEnqueue", &pod.pre_enqueue), ("PreFilter", &said.pre_filter)] {
        if let Some(status) = status {
            text += &format!("{point}: {}\n", verdict(status));
        }
    }
    if let Some(error) = &said.error {
        text += &format!("error: {error}\n");
    }
    if !said.fits.is_empty() {
        text += &fits(&said.fits, pod.node.as_deref(), style);
    }
    if !said.rejected.is_empty() {
        text += &rejections(&said.rejected, style);
    }
    text
}

/// Nodes with the same scores in one line. The chosen one is named.
fn fits(groups: &[FittingNodes], chosen: Option<&str>, style: Style) -> String {
    let plugins: BTreeSet<&str> = groups.iter().flat_map(|g| g.plugins.keys().map(AsRef::as_ref)).collect();
    let mut table = new_table(style, ["FIT", "EXAMPLE", "TOTAL"]);
    let titles = ["FIT", "EXAMPLE", "TOTAL"].into_iter().chain(plugins.iter().copied());
    table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for group in groups.iter().take(BEST) {
        let example = group.nodes.iter().find(|node| Some(node.as_str()) == chosen).or(group.nodes.first());
        let mut row = vec![
            Cell::new(group.nodes.len()).fg(Color::Green),
            Cell::new(example.map_or("", String::as_str)),
            Cell::new(group.total),
        ];
        row.extend(plugins.iter().map(|plugin| score(group, plugin)));
        table.add_row(row);
    }
    let rest: usize = groups.iter().skip(BEST).map(|group| group.nodes.len()).sum();
    match rest {
        0 => finished(&table),
        rest => finished(&table) + &format!("and {rest} more with lower scores (-o json shows all)\n"),
    }
}

/// The raw and the weighted score.
fn score(group: &FittingNodes, plugin: &str) -> Cell {
    let text = group.plugins.get(plugin).map(|s| format!("{}->{}", s.raw, s.weighted));
    Cell::new(text.unwrap_or_default())
}

/// Nodes that were rejected alike in one line, with what is missing.
fn rejections(groups: &[RejectedNodes], style: Style) -> String {
    let mut table = new_table(style, ["DO NOT FIT", "EXAMPLE", "WHY"]);
    for group in groups {
        let mut why = verdict(&group.status);
        if !group.lacks.is_empty() {
            why += &format!(" ({})", group.lacks.join("; "));
        }
        let example = group.nodes.first().map_or("", String::as_str);
        table.add_row([Cell::new(group.nodes.len()).fg(Color::Red), Cell::new(example), Cell::new(why)]);
    }
    finished(&table)
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
        Report { pods: vec![placed, lost] }
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let plain = render(&report(), Style::default());
        assert!(plain.contains("a/placed  n1      3/5") && !plain.contains('\u{1b}'), "{plain}");
        let colours = render(&report(), Style { colours: true, fit_terminal: false });
        assert!(colours.contains("\u{1b}["), "{colours}");
    }

    #[test]
    fn preempted_pods_are_counted_on_their_own() {
        let mut report = report();
        let preempted_by = Some("a/placed".to_owned());
        report.pods.push(PodReport { pod: "a/other".into(), is_foreign: true, ..PodReport::default() });
        report.pods.push(PodReport { pod: "a/victim".into(), preempted_by, ..PodReport::default() });
        let text = render(&report, Style::default());
        assert!(text.contains("a/victim  <preempted>"), "{text}");
        assert!(text.contains("a/other   <foreign>"), "{text}");
        assert!(
            text.contains("4 pods: 1 placed, 1 unschedulable, 0 gated, 1 preempted, 1 of other schedulers"),
            "{text}"
        );
    }

    #[test]
    fn a_terminal_without_a_size_is_taken_for_an_ordinary_one() {
        for (told, expected) in
            [(None, (80, 24)), (Some((0, 0)), (80, 24)), (Some((0, 50)), (80, 24)), (Some((99, 9)), (99, 9))]
        {
            assert_eq!(known_size(told), expected);
        }
    }

    #[test]
    fn nodes_are_told_of_in_groups_and_the_chosen_one_by_name() {
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
        let text = explanation(&pod, &said, Style::default());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!((lines[0], lines[2]), ("a/p () -> chosen", "2    chosen   100"), "{text}");
        assert_eq!(lines[12], "and 4 more with lower scores (-o json shows all)", "{text}");
        assert_eq!(lines[14], "2           y        P: no (this; that)", "{text}");
    }

    #[test]
    fn an_empty_report_is_a_sentence() {
        assert_eq!(render(&Report::default(), Style::default()), "no pod waits for a node\n");
    }
}
