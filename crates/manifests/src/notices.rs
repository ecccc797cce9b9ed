//! Notices for the user about ignored objects and missing nodes.

use std::{cmp::Reverse, collections::BTreeMap};

/// Maximum number of names in a line; the others are only counted.
const SHOWN: usize = 5;

/// Joins names: `a, b, and 3 more`.
pub(crate) fn shortened(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

/// Returns a line with the number of ignored objects of each kind: `ignored: 3 HorizontalPodAutoscaler`.
pub fn ignored_line(ignored: &BTreeMap<String, usize>) -> Option<String> {
    let kinds: Vec<String> = ignored.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    (!kinds.is_empty()).then(|| format!("ignored: {}", kinds.join(", ")))
}

/// Returns a line with the number of pods on each missing node: `3 pods are on nodes that are not in the input: …`.
pub fn missing_nodes_line(nodes: &BTreeMap<String, usize>) -> Option<String> {
    let mut by_count: Vec<(&String, &usize)> = nodes.iter().collect();
    by_count.sort_by_key(|(_, pods)| Reverse(**pods));
    let names: Vec<String> = by_count.iter().map(|(node, pods)| format!("{node} ({pods})")).collect();
    let pods: usize = nodes.values().sum();
    let are = if pods == 1 { "pod is" } else { "pods are" };
    let names = shortened(&names);
    (pods > 0).then(|| {
        format!(
            "{pods} {are} on nodes that are not in the input, and are ignored: {names}; --reschedule-missing makes \
             them pending again"
        )
    })
}
