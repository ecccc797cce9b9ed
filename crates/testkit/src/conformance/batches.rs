//! Checks of batch methods and what-if changes.

use std::{ops::Range, sync::Arc};

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{
    cluster::Cluster,
    cycle::Cycle,
    nodeset::{NodeIdx, NodeSet},
    pod::PodInfo,
    scores::Scores,
};

use super::{UNTOUCHED, failed, filter_state, single_verdicts, subsets};
use crate::trial::Trial;

/// Checks that each batch method gives the same answers as its single-row method (for all rows, for a subset of the
/// rows, and for several subsets in sequence), and that it does not touch other rows.
///
/// # Panics
/// If the check or the plugin fails.
pub fn batch_equals_single(trial: &Trial, nodes: &Cluster, pod: &PodInfo) {
    for rows in subsets(nodes) {
        for ranges in [1, 3].map(|parts| ranges(nodes.rows(), parts)) {
            if trial.plugin().points().contains(ExtensionPoint::Filter) {
                filter_batch_equals_single(trial, nodes, pod, &rows, &ranges);
            }
            if trial.plugin().points().contains(ExtensionPoint::Score) {
                score_batch_equals_single(trial, nodes, pod, &rows, &ranges);
            }
        }
    }
}

/// Splits the table into ranges of rows, the last range first.
fn ranges(rows: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).rev().map(|at| rows * at / parts..rows * (at + 1) / parts).collect()
}

/// Returns the rows that are in the range.
fn part(rows: &NodeSet, range: &Range<usize>) -> NodeSet {
    rows.iter().filter(|row| range.contains(&row.at())).collect()
}

fn filter_batch_equals_single(
    trial: &Trial,
    nodes: &Cluster,
    pod: &PodInfo,
    rows: &NodeSet,
    ranges: &[Range<usize>],
) {
    let Some(single) = single_verdicts(trial, nodes, pod) else { return };
    let parts: Vec<NodeSet> = ranges.iter().map(|range| part(rows, range)).collect();
    let batch = trial.batch_verdicts_on_parts(nodes, pod, &parts);
    let batch = batch.unwrap_or_else(|stopped| panic!("{stopped:?}"));
    for ((row, one), (_, many)) in single.iter().zip(&batch) {
        let expected = if rows.contains(*row) { one } else { &Ok(()) };
        let name = nodes.node(*row).name();
        assert_eq!(
            many,
            expected,
            "{}: filter_batch for {pod:?} on {name}, asked in {} parts",
            trial.plugin().name(),
            ranges.len()
        );
    }
}

fn score_batch_equals_single(
    trial: &Trial,
    nodes: &Cluster,
    pod: &PodInfo,
    rows: &NodeSet,
    ranges: &[Range<usize>],
) {
    let indexes = trial.indexes(nodes, pod);
    let slot = failed(trial, pod, trial.pre_score(nodes, pod, rows));
    if slot.is_none() {
        return;
    }
    let cx = Cycle::with_indexes(nodes, &indexes, pod);
    let mut out = vec![UNTOUCHED; nodes.rows()];
    for range in ranges {
        let part = part(rows, range);
        let mut scores = Scores::new(&part, NodeIdx::from(range.start), &mut out[range.clone()]);
        failed(trial, pod, trial.plugin().score_batch(&cx, &slot, &mut scores));
    }
    for (at, many) in out.iter().enumerate() {
        let row = NodeIdx::from(at);
        let one = if rows.contains(row) {
            failed(trial, pod, trial.plugin().score(&cx, &slot, row))
        } else {
            UNTOUCHED
        };
        let name = nodes.node(row).name();
        assert_eq!(
            *many,
            one,
            "{}: score_batch for {pod:?} on {name}, asked in {} parts",
            trial.plugin().name(),
            ranges.len()
        );
    }
}

/// Checks that adding a pod to a node and removing it again changes no verdict. What-if questions rely on this
/// property.
///
/// # Panics
/// If the check or the plugin fails.
pub fn adding_and_removing_is_neutral(
    trial: &Trial,
    nodes: &mut Cluster,
    pod: &PodInfo,
    other: &Arc<PodInfo>,
) {
    let indexes = trial.indexes(nodes, pod);
    let Some(before) = single_verdicts(trial, nodes, pod) else { return };
    let Some(mut slot) = filter_state(trial, nodes, pod) else { return };
    for (row, _) in &before {
        nodes.what_if().dry_run_add(*row, other.clone());
        failed(
            trial,
            pod,
            trial.plugin().add_pod(&Cycle::with_indexes(nodes, &indexes, pod), &mut slot, other, *row),
        );
        nodes.what_if().dry_run_undo_add(*row, &other.uid);
        failed(
            trial,
            pod,
            trial.plugin().remove_pod(&Cycle::with_indexes(nodes, &indexes, pod), &mut slot, other, *row),
        );
    }
    for (row, verdict) in &before {
        let after = trial.judge(nodes, &indexes, pod, &slot, *row);
        assert_eq!(after, *verdict, "{}: {pod:?} after {other:?} came and went", trial.plugin().name());
    }
}
