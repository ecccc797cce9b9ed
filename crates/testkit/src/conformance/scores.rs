//! Checks of scores.

use harbormaster_framework::{
    attempt::valid,
    cluster::Cluster,
    cycle::Cycle,
    nodeset::{NodeIdx, NodeSet},
    normalize::normalize,
    outcome::Normalize,
    pod::PodInfo,
    scores::Scores,
};

use super::{UNTOUCHED, failed, subsets};
use crate::trial::Trial;

/// Checks that normalized scores are within 0..=100 for any set of candidates: all rows, some rows or one row. The
/// plugin must not touch other rows, and raw scores that are normalized proportionally must not be negative.
///
/// # Panics
/// If the check or the plugin fails.
pub fn scores_are_valid(trial: &Trial, nodes: &Cluster, pod: &PodInfo) {
    for rows in subsets(nodes).iter().filter(|rows| !rows.is_empty()) {
        let Some(scores) = normalized(trial, nodes, pod, rows) else { continue };
        for (at, score) in scores.into_iter().enumerate() {
            let (plugin, row) = (trial.plugin().name(), NodeIdx::from(at));
            if !rows.contains(row) {
                assert_eq!(
                    score, UNTOUCHED,
                    "{plugin}: normalizes row {at} for {pod:?}, which is not a candidate"
                );
            } else if let Err(error) = valid(plugin, score) {
                panic!("{error}, for {pod:?} on {} of {} candidates", nodes.node(row).name(), rows.len());
            }
        }
    }
}

fn normalized(trial: &Trial, nodes: &Cluster, pod: &PodInfo, rows: &NodeSet) -> Option<Vec<i64>> {
    let plugin = trial.plugin();
    let indexes = trial.indexes(nodes, pod);
    let cx = Cycle::with_indexes(nodes, &indexes, pod);
    let slot = failed(trial, pod, trial.pre_score(nodes, pod, rows));
    slot.as_ref()?;
    let mut column = vec![UNTOUCHED; nodes.rows()];
    let mut scores = Scores::new(rows, NodeIdx(0), &mut column);
    failed(trial, pod, plugin.score_batch(&cx, &slot, &mut scores));
    if let Normalize::Proportional { .. } = plugin.normalization() {
        let negative = rows.iter().find(|row| column[row.at()] < 0 && column[row.at()] != UNTOUCHED);
        if let Some(row) = negative {
            let (name, node) = (plugin.name(), nodes.node(row).name());
            panic!(
                "{name}: raw score {} of {node} for {pod:?} is negative, so its share of the largest is meaningless",
                column[row.at()]
            );
        }
    }
    failed(trial, pod, normalize(plugin, &cx, &slot, rows, &mut column));
    Some(column)
}
