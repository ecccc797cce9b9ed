//! Tables of what the nodes' pods request.

use std::collections::BTreeMap;

use harbormaster_sim::{NodeUsage, Usage};

use super::layout::{Cell, Colour, Style, Table};

/// Maximum number of nodes that have a row each. More nodes are summed by zone.
const MAX_ROWS: usize = 30;
/// Length of a bar in characters.
const BAR: i64 = 10;
/// Percentages from which a bar is yellow and red.
const FULL: (i64, i64) = (80, 95);

/// Renders the use of nodes, compared with the use `before` a change, if there is one. `all` shows each node.
pub(crate) fn render(after: &Usage, before: Option<&Usage>, all: bool, style: Style) -> String {
    let by_zone = !all && after.nodes.len() > MAX_ROWS;
    let rows = rows(after, by_zone);
    let before_rows = before.map(|before| self::rows(before, by_zone)).unwrap_or_default();
    let resources = resources(rows.values().chain(before_rows.values()));
    let first = if by_zone { "ZONE" } else { "NODE" };
    let titles = [first.to_owned(), "PODS".to_owned()].into_iter();
    let mut table = Table::new(titles.chain(resources.iter().map(|name| title(name))));
    for (key, row) in &rows {
        table.add(cells(key.clone(), row, before.map(|_| before_rows.get(key)), &resources));
    }
    for (key, row) in before_rows.iter().filter(|(key, _)| !rows.contains_key(*key)) {
        let amounts = resources.iter().map(|resource| percent(Some(row), resource).into());
        table.add([format!("{key} (gone)").into(), row.pods.0.into()].into_iter().chain(amounts));
    }
    if rows.len() > 1 {
        let sum_before = before.map(|_| sum(before_rows.values()));
        let sum_before = sum_before.as_ref().map(Some);
        table.add(cells("all".to_owned(), &sum(rows.values()), sum_before, &resources));
    }
    let idle = |usage: &Usage| usage.nodes.iter().filter(|node| node.is_idle()).count();
    let instead = before.map(|before| format!(", instead of {} of {}", idle(before), before.nodes.len()));
    let line = format!(
        "{} of {} nodes run no pods but those of DaemonSets{}",
        idle(after),
        after.nodes.len(),
        instead.unwrap_or_default()
    );
    format!("\n{}\n{}", table.render(style), style.paragraph(&line))
}

/// Returns the use by node or by zone.
fn rows(usage: &Usage, by_zone: bool) -> BTreeMap<String, NodeUsage> {
    let mut rows: BTreeMap<String, NodeUsage> = BTreeMap::new();
    for node in &usage.nodes {
        let key = match by_zone {
            true => node.zone.as_ref().map_or("<none>".to_owned(), ToString::to_string),
            false => node.node.to_string(),
        };
        rows.entry(key).or_default().add(node);
    }
    rows
}

/// Returns the title of a resource's column. The names of extended resources stay.
fn title(resource: &str) -> String {
    if resource.contains('/') { resource.to_owned() } else { resource.to_uppercase() }
}

fn sum<'a>(rows: impl Iterator<Item = &'a NodeUsage>) -> NodeUsage {
    rows.fold(NodeUsage::default(), |mut sum, row| {
        sum.add(row);
        sum
    })
}

/// Returns the names of all resources, in the order in which a node names them.
fn resources<'a>(rows: impl Iterator<Item = &'a NodeUsage>) -> Vec<String> {
    sum(rows).resources().map(str::to_owned).collect()
}

/// Returns a row. `before` is given if there is something to compare with, and is empty for a new node or zone.
fn cells(
    key: String,
    row: &NodeUsage,
    before: Option<Option<&NodeUsage>>,
    resources: &[String],
) -> Vec<Cell> {
    let was = |text: String| before.map(|_| format!("{text} → ")).unwrap_or_default();
    let pods_before = before.flatten().map_or("-".to_owned(), |row| row.pods.0.to_string());
    let mut cells = vec![Cell::from(key), format!("{}{}", was(pods_before), row.pods.0).into()];
    for resource in resources {
        let was = was(format!("{:>4}", percent(before.flatten(), resource)));
        cells.push(match row.percent(resource) {
            None => "-".into(),
            Some(used) => {
                let [requested, all] = row.amounts(resource);
                let text = format!("{was}{} {used:>3}%  {requested} of {all}", bar(used));
                let colour = match used {
                    _ if used >= FULL.1 => Colour::Red,
                    _ if used >= FULL.0 => Colour::Yellow,
                    _ => Colour::Green,
                };
                Cell::coloured(text, colour)
            }
        });
    }
    cells
}

fn percent(row: Option<&NodeUsage>, resource: &str) -> String {
    row.and_then(|row| row.percent(resource)).map_or("-".to_owned(), |percent| format!("{percent}%"))
}

fn bar(percent: i64) -> String {
    let filled = (percent * BAR / 100).clamp(0, BAR) as usize;
    "█".repeat(filled) + &"░".repeat(BAR as usize - filled)
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Resources;

    use super::*;

    fn node(name: &str, zone: &str, pods: (usize, usize), cpu: (i64, i64)) -> NodeUsage {
        let amounts =
            |milli_cpu: i64| Resources { milli_cpu, memory: milli_cpu << 20, ..Resources::default() };
        NodeUsage {
            node: name.into(),
            zone: Some(zone.into()),
            pods,
            requested: amounts(cpu.0),
            allocatable: amounts(cpu.1),
        }
    }

    #[test]
    fn few_nodes_have_a_row_each() {
        let usage =
            Usage { nodes: vec![node("a", "z", (3, 1), (1500, 2000)), node("b", "z", (1, 1), (0, 2000))] };
        let expected = "
NODE  PODS  CPU                        MEMORY
a     3     ███████░░░  75%  1.5 of 2  ███████░░░  75%  1.46Gi of 1.95Gi
b     1     ░░░░░░░░░░   0%  0 of 2    ░░░░░░░░░░   0%  0 of 1.95Gi
all   4     ███░░░░░░░  37%  1.5 of 4  ███░░░░░░░  37%  1.46Gi of 3.9Gi

1 of 2 nodes run no pods but those of DaemonSets
";
        assert_eq!(render(&usage, None, false, Style::default()), expected);
    }

    #[test]
    fn many_nodes_are_summed_by_zone_and_compared() {
        let of = |count: usize, used: i64| {
            let nodes =
                (0..count).map(|at| node(&format!("n{at}"), ["x", "y"][at % 2], (1, 0), (used, 1000)));
            Usage { nodes: nodes.collect() }
        };
        let told = render(&of(40, 500), Some(&of(38, 250)), false, Style::default());
        assert!(told.contains("x     19 → 20   25% → █████░░░░░  50%  10 of 20"), "{told}");
        assert!(
            told.ends_with("0 of 40 nodes run no pods but those of DaemonSets, instead of 0 of 38\n"),
            "{told}"
        );
        assert!(
            render(&of(40, 500), None, true, Style::default()).contains("\nn39 "),
            "--all shows each node"
        );
    }
}
