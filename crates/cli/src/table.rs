//! The result of a simulation for people.

use std::collections::BTreeSet;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use harbormaster_sim::{
    PodReport, Report,
    report::{NodeScore, Status},
};

/// How tables look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Whether to use colours.
    pub(crate) colours: bool,
    /// Whether to wrap long cells so that lines fit the terminal.
    pub(crate) fit_terminal: bool,
}

/// All pods as a table; if explanations were asked for, followed by a table of nodes per pod.
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
            Cell::new(pod.message.as_deref().unwrap_or_default()),
        ]);
    }
    let mut text = finished(&table);
    text += &format!("\n{}\n", summary(report));
    for pod in report.pods.iter().filter(|pod| pod.nodes.is_some()) {
        text += &explanation(pod, style);
    }
    text
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
    let arrangement =
        if style.fit_terminal { ContentArrangement::Dynamic } else { ContentArrangement::Disabled };
    table.set_content_arrangement(arrangement);
    table.set_header(header.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    table
}

/// The lines of a table.
pub(crate) fn finished(table: &Table) -> String {
    table.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

fn outcome(pod: &PodReport) -> Cell {
    match &pod.node {
        // Only where pods are judged on their own: gates do not count there.
        Some(node) if pod.is_gated() => Cell::new(format!("{node} (gated)")).fg(Color::Yellow),
        Some(node) => Cell::new(node).fg(Color::Green),
        None if pod.is_gated() => Cell::new("<gated>").fg(Color::Yellow),
        None if pod.preempted_by.is_some() => Cell::new("<preempted>").fg(Color::Red),
        None => Cell::new("<none>").fg(Color::Red),
    }
}

fn summary(report: &Report) -> String {
    let placed = report.pods.iter().filter(|pod| pod.node.is_some()).count();
    let gated = report.pods.iter().filter(|pod| pod.node.is_none() && pod.is_gated()).count();
    let preempted = report.pods.iter().filter(|pod| pod.preempted_by.is_some()).count();
    let rest = report.pods.len() - placed - gated - preempted;
    let mut text =
        format!("{} pods: {placed} placed, {rest} unschedulable, {gated} gated", report.pods.len());
    if preempted > 0 {
        text += &format!(", {preempted} preempted");
    }
    text
}

fn explanation(pod: &PodReport, style: Style) -> String {
    let to = pod.node.as_deref().unwrap_or("no node");
    let mut text = format!("\n{} ({}) -> {to}\n", pod.pod, pod.profile);
    for (point, status) in [("PreEnqueue", &pod.pre_enqueue), ("PreFilter", &pod.pre_filter)] {
        if let Some(status) = status {
            text += &format!("{point}: {}\n", verdict(status));
        }
    }
    let Some(nodes) = pod.nodes.as_ref().filter(|nodes| !nodes.is_empty()) else { return text };
    let no_scores = Default::default();
    let scores = pod.scores.as_ref().unwrap_or(&no_scores);
    let plugins: BTreeSet<&str> = scores.values().flat_map(|s| s.plugins.keys().map(AsRef::as_ref)).collect();
    let mut table = new_table(style, ["NODE", "VERDICT"]);
    if !scores.is_empty() {
        let titles = ["NODE", "VERDICT", "TOTAL"].into_iter().chain(plugins.iter().copied());
        table.set_header(titles.map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    }
    let mut order: Vec<_> = nodes.iter().collect();
    order.sort_by_key(|(name, status)| {
        let total = scores.get(*name).map_or(i64::MIN, |s| s.total);
        (status.is_some(), std::cmp::Reverse(total))
    });
    for (name, status) in order {
        let verdict = match status {
            None => Cell::new("fits").fg(Color::Green),
            Some(status) => Cell::new(verdict(status)).fg(Color::Red),
        };
        let mut row = vec![Cell::new(name), verdict];
        row.extend(scores.get(name).into_iter().flat_map(|score| score_cells(score, &plugins)));
        table.add_row(row);
    }
    text + &finished(&table)
}

/// The total, and per plugin the raw and the weighted score.
fn score_cells(score: &NodeScore, plugins: &BTreeSet<&str>) -> Vec<Cell> {
    let of = |plugin: &&str| match score.plugins.get(*plugin) {
        Some(s) => Cell::new(format!("{}->{}", s.raw, s.weighted)),
        None => Cell::new(""),
    };
    std::iter::once(Cell::new(score.total)).chain(plugins.iter().map(of)).collect()
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
        report.pods.push(PodReport { pod: "a/victim".into(), preempted_by, ..PodReport::default() });
        let text = render(&report, Style::default());
        assert!(text.contains("a/victim  <preempted>"), "{text}");
        assert!(text.contains("3 pods: 1 placed, 1 unschedulable, 0 gated, 1 preempted"), "{text}");
    }

    #[test]
    fn an_empty_report_is_a_sentence() {
        assert_eq!(render(&Report::default(), Style::default()), "no pod waits for a node\n");
    }
}
