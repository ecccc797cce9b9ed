//! Pods that share a row: the members of a group of pods and, in long tables, similar pods.

use std::collections::{BTreeSet, HashMap};

use super::layout::{Cell, Colour};

/// Similar pods share rows only if the table has at least this many pods.
const MANY: usize = 50;
/// Maximum number of nodes that a row lists by name.
const NAMED: usize = 3;

/// One pod's data for the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Group of pods to which the pod belongs (`namespace/name`).
    pub(crate) group: Option<String>,
    /// Owner of the pod; empty if there is none. Similar pods have the same owner.
    pub(crate) owner: String,
    /// The pod's node, or a placeholder such as `<none>`.
    pub(crate) place: String,
    /// True if `place` is a node.
    pub(crate) is_placed: bool,
    pub(crate) colour: Option<Colour>,
    /// Number of evaluated nodes, and number of those that fit.
    #[cfg_attr(not(feature = "simulate"), allow(dead_code, reason = "only `simulate` shows it"))]
    pub(crate) looked_at: Option<(usize, usize)>,
    #[cfg_attr(not(feature = "simulate"), allow(dead_code, reason = "only `simulate` shows it"))]
    pub(crate) tried: u32,
    pub(crate) message: String,
}

/// Puts pods that share a row together, in the order of their first pods. Similar pods share a row if there are many
/// pods.
pub(crate) fn grouped(rows: Vec<Row>) -> Vec<Vec<Row>> {
    let are_many = rows.len() >= MANY;
    together(rows, are_many)
}

/// Puts the members of groups together and, if `joins_similar` is set, similar pods, in the order of their first pods.
pub(crate) fn together(rows: Vec<Row>, joins_similar: bool) -> Vec<Vec<Row>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Row>> = Vec::new();
    for (at, row) in rows.into_iter().enumerate() {
        let key = match &row.group {
            Some(group) => Shared::Group(group.clone()),
            None if joins_similar => similarity(&row),
            None => Shared::Nothing(at),
        };
        let at = *places.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(row);
    }
    groups
}

/// Property that the pods of a row share.
#[derive(PartialEq, Eq, Hash)]
enum Shared {
    Group(String),
    /// Stem of the name, place and message.
    Similar(String, String, String),
    /// Number of the only pod of the row.
    Nothing(usize),
}

fn similarity(row: &Row) -> Shared {
    // Similar pods may have different nodes, and different numbers in their messages.
    let place = if row.is_placed { String::new() } else { row.place.clone() };
    let said = if row.is_placed { row.message.is_empty().to_string() } else { without_numbers(&row.message) };
    Shared::Similar(stem(row).to_owned(), place, said)
}

/// Returns the pod's owner or, without an owner, the pod's name without its suffix.
fn stem(row: &Row) -> &str {
    match row.owner.as_str() {
        "" => row.pod.rsplit_once('-').map_or(row.pod.as_str(), |(stem, _)| stem),
        owner => owner,
    }
}

fn without_numbers(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if short.ends_with('#') => {}
            '0'..='9' => short.push('#'),
            c => short.push(c),
        }
    }
    short
}

/// Returns the names of the pods in one cell: `shop/web-* (12 pods)`, or `shop/train (64 members)` for a group.
pub(crate) fn pods(group: &[Row]) -> Cell {
    let [first, rest @ ..] = group else { return Cell::default() };
    if let Some(name) = &first.group {
        let members = if rest.is_empty() { "member" } else { "members" };
        return Cell::from(format!("{name} ({} {members})", group.len()));
    }
    if rest.is_empty() {
        return Cell::from(&first.pod);
    }
    let common = rest.iter().fold(first.pod.as_str(), |common, row| {
        let same = common.char_indices().zip(row.pod.chars()).take_while(|((_, a), b)| a == b);
        &common[..same.map(|((at, c), _)| at + c.len_utf8()).last().unwrap_or_default()]
    });
    let end = common.rfind(['-', '/']).map_or(0, |end| end + 1);
    Cell::from(format!("{}* ({} pods)", &common[..end], group.len()))
}

/// Returns the nodes of the pods or their placeholder; for a group that lacks nodes, the number of placed members.
pub(crate) fn places(group: &[Row]) -> Cell {
    let Some(first) = group.first() else { return Cell::default() };
    let waiting = waiting(group).count();
    if first.group.is_some() && waiting > 0 {
        return Cell::coloured(format!("{}/{} placed", group.len() - waiting, group.len()), Colour::Red);
    }
    let nodes: BTreeSet<&str> = group.iter().map(|row| row.place.as_str()).collect();
    let text = match nodes.len() {
        0..=NAMED => nodes.into_iter().collect::<Vec<_>>().join(", "),
        many => format!("{many} nodes"),
    };
    match first.colour {
        Some(colour) => Cell::coloured(text, colour),
        None => Cell::from(text),
    }
}

/// Returns the numbers of nodes that fit and of evaluated nodes: `4/6`, or `3-5/6` if the pods differ.
#[cfg(feature = "simulate")]
pub(crate) fn fits(group: &[Row]) -> Cell {
    let looked_at = || group.iter().filter_map(|row| row.looked_at);
    let range = |numbers: &mut dyn Iterator<Item = usize>| {
        let (least, most) = numbers.fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        if least == most { most.to_string() } else { format!("{least}-{most}") }
    };
    if looked_at().next().is_none() {
        return Cell::default();
    }
    let fit = range(&mut looked_at().map(|(_, fit)| fit));
    Cell::from(format!("{fit}/{}", range(&mut looked_at().map(|(of, _)| of))))
}

/// Returns the highest number of attempts among the pods.
#[cfg(feature = "simulate")]
pub(crate) fn tried(group: &[Row]) -> Cell {
    Cell::from(group.iter().map(|row| row.tried).max().unwrap_or_default())
}

fn waiting(group: &[Row]) -> impl Iterator<Item = &Row> {
    group.iter().filter(|row| !row.is_placed)
}

/// Returns the message of the first pod, with a note if other pods have different messages. For a group that lacks
/// nodes, returns the messages of the members that wait.
pub(crate) fn message(group: &[Row]) -> Cell {
    let Some(first) = group.first() else { return Cell::default() };
    let waiting = waiting(group).count();
    if first.group.is_some() && waiting > 0 {
        let reasons = reasons(group);
        let begin = format!("waits for {waiting}");
        return Cell::from(if reasons.is_empty() {
            begin
        } else {
            format!("{begin}: {}", reasons.join("; "))
        });
    }
    let differs = group.iter().any(|row| row.message != first.message);
    Cell::from(if differs { format!("{} (and similar)", first.message) } else { first.message.clone() })
}

/// Returns the different messages of the members that wait. A member that could have had a node repeats the group's
/// message after these words.
fn reasons(group: &[Row]) -> Vec<&str> {
    let messages = waiting(group).map(|row| row.message.as_str());
    let own = messages.map(|said| said.strip_prefix("pod group is unschedulable, ").unwrap_or(said));
    let mut reasons: Vec<&str> = Vec::new();
    for reason in own.filter(|reason| !reason.is_empty()) {
        if let Some(known) = reasons.iter_mut().find(|known| reason.starts_with(**known)) {
            *known = reason;
        } else if !reasons
            .iter()
            .any(|known| known.starts_with(reason) || without_numbers(known) == without_numbers(reason))
        {
            reasons.push(reason);
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_of_a_group_share_a_row_with_their_reasons() {
        let few = "minCount (4) cannot be satisfied: 1 scheduled, 2 remaining";
        let repeated = format!("pod group is unschedulable, {few}, pod group preemption: no victims");
        let member = |name: &str, place: &str, message: &str| Row {
            group: Some("a/train".to_owned()),
            ..row(name, place, message)
        };
        let rows = vec![
            row("a/single", "n1", ""),
            member("a/t-0", "<none>", &repeated),
            member("a/t-1", "<none>", "0/3 nodes: 3 full"),
            member("a/t-2", "<none>", few),
            member("a/t-3", "n1", ""),
        ];
        let groups = grouped(rows);
        assert_eq!(groups.len(), 2);
        let shown = [pods(&groups[1]), places(&groups[1]), message(&groups[1])];
        let said = format!("waits for 3: {few}, pod group preemption: no victims; 0/3 nodes: 3 full");
        assert_eq!(shown.map(|cell| cell.text().to_owned()), ["a/train (4 members)", "1/4 placed", &said]);
        let placed = vec![member("a/t-0", "n1", ""), member("a/t-1", "n2", "")];
        let shown = [pods(&placed), places(&placed), message(&placed)];
        assert_eq!(shown.map(|cell| cell.text().to_owned()), ["a/train (2 members)", "n1, n2", ""]);
    }

    fn row(pod: &str, place: &str, message: &str) -> Row {
        Row {
            pod: pod.to_owned(),
            place: place.to_owned(),
            is_placed: !place.starts_with('<'),
            message: message.to_owned(),
            looked_at: Some((9, pod.len())),
            tried: 1,
            ..Row::default()
        }
    }

    #[test]
    fn pods_with_the_same_stem_and_outcome_share_a_row() {
        let rows = vec![
            row("a/web-1", "n1", ""),
            row("a/web-2", "<none>", "0/9 nodes: 3 full"),
            row("a/web-10", "n2", ""),
            row("a/web-3", "<none>", "0/9 nodes: 12 full"),
            row("a/db-0", "n1", ""),
            row("a/web-4", "<none>", "0/9 nodes: 9 tainted"),
        ];
        let others = (0..MANY).map(|at| row(&format!("b/other-{at}"), "n1", ""));
        let mut groups = grouped(rows.into_iter().chain(others).collect());
        assert_eq!(groups.pop().map(|others| others.len()), Some(MANY));
        let shown: Vec<[String; 4]> = groups
            .iter()
            .map(|group| {
                [pods(group), places(group), fits(group), message(group)].map(|cell| cell.text().to_owned())
            })
            .collect();
        assert_eq!(
            shown,
            [
                ["a/web-* (2 pods)", "n1, n2", "7-8/9", ""],
                ["a/web-* (2 pods)", "<none>", "7/9", "0/9 nodes: 3 full (and similar)"],
                ["a/db-0", "n1", "6/9", ""],
                ["a/web-4", "<none>", "7/9", "0/9 nodes: 9 tainted"],
            ]
            .map(|row| row.map(str::to_owned))
        );
    }
}
