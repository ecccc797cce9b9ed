//! Walks over nodes until enough of them fit.

use std::borrow::Cow;

use crate::{
    nodeset::{NodeIdx, NodeSet},
    table::NodeTable,
};

/// The rows to visit, in order.
pub(super) fn considered<'a>(
    nodes: &'a NodeTable,
    only: Option<&'a NodeSet>,
) -> impl Iterator<Item = NodeIdx> + 'a {
    nodes.order().iter().copied().filter(move |row| only.is_none_or(|only| only.contains(*row)))
}

/// Result of a walk over the nodes.
pub(super) struct Walk {
    pub(super) feasible: Vec<NodeIdx>,
    pub(super) visited: usize,
}

/// Collects the first `wanted` feasible nodes at or after `start`, wrapping around at the end of the list. Like a
/// single worker of kube-scheduler, the walk ends only when it finds one more feasible node or has visited all nodes,
/// and the rejected nodes before the additional node count as visited.
///
/// `tried` was evaluated before the walk and counts as visited even if the walk does not reach it.
pub(super) fn walk(
    nodes: &NodeTable,
    fits: &NodeSet,
    only: Option<&NodeSet>,
    start: usize,
    wanted: usize,
    tried: Option<NodeIdx>,
) -> Walk {
    let listed: Cow<'_, [NodeIdx]> = match only {
        None => Cow::Borrowed(nodes.order()),
        Some(_) => considered(nodes, only).collect(),
    };
    let mut walk = Walk { feasible: Vec::new(), visited: 0 };
    if listed.is_empty() {
        return walk;
    }
    let (before, after) = listed.split_at(start % listed.len());
    let mut tried = tried;
    for row in after.iter().chain(before) {
        if fits.contains(*row) {
            if walk.feasible.len() == wanted {
                break;
            }
            walk.feasible.push(*row);
        }
        walk.visited += 1;
        tried = tried.filter(|tried| tried != row);
    }
    walk.visited += usize::from(tried.is_some());
    walk
}

pub(super) fn best_rotating(candidates: &[NodeIdx], totals: &[i64], start: usize, rows: usize) -> NodeIdx {
    let distance = |row: NodeIdx| (row.at() + rows - start % rows) % rows;
    let best = candidates
        .iter()
        .zip(totals)
        .max_by_key(|(row, total)| (**total, std::cmp::Reverse(distance(**row))));
    best.map_or(candidates[0], |(row, _)| *row)
}
