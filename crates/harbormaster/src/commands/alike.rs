//! Grouping of similar pods into one row.

use std::collections::{BTreeSet, HashMap};

use super::layout::{Cell, Colour};

/// Similar pods share rows only if the table has at least this many pods.
pub(crate) const MANY: usize = 50;
/// Maximum number of nodes that a row lists by name.
const NAMED: usize = 3;

/// One pod's data for the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// `namespace/name`.
    pub(crate) pod: String,
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

/// Groups similar pods. The groups are in the order of their first pods.
pub(crate) fn grouped(rows: Vec<Row>) -> Vec<Vec<Row>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Row>> = Vec::new();
    for row in rows {
        // Similar pods may have different nodes, and different numbers in their messages.
        let place = if row.is_placed { String::new() } else { row.place.clone() };
        let said =
            if row.is_placed { row.message.is_empty().to_string() } else { without_numbers(&row.message) };
        let key = (stem(&row).to_owned(), place, said);
        let at = *places.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(row);
    }
    groups
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

/// Returns the names of similar pods in one cell: `shop/web-* (12 pods)`.
pub(crate) fn pods(group: &[Row]) -> Cell {
    let [first, rest @ ..] = group else { return Cell::default() };
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

/// Returns the nodes of similar pods, or their placeholder.
pub(crate) fn places(group: &[Row]) -> Cell {
    let Some(first) = group.first() else { return Cell::default() };
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

/// Returns the message of the first pod, with a note if other pods have different messages.
pub(crate) fn message(group: &[Row]) -> Cell {
    let Some(first) = group.first() else { return Cell::default() };
    let differs = group.iter().any(|row| row.message != first.message);
    Cell::from(if differs { format!("{} (and similar)", first.message) } else { first.message.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let groups = grouped(rows);
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
