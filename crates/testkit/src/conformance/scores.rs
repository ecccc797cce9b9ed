//! Scores end up within 0..=100, of whichever candidates.

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

/// Scores must be within 0..=100 after they are normalised, of whichever rows compete: all, some, one. Rows that do not
/// compete are left alone, and raw scores that are normalised proportionally must not be negative.
///
/// # Panics
/// When they are not, or when the plugin fails.
pub fn scores_are_valid(trial: &Trial, nodes: &Cluster, pod: &PodInfo) {
    for rows in subsets(nodes).iter().filter(|rows| !rows.is_empty()) {
        let Some(scores) = normalized(trial, nodes, pod, rows) else { continue };
        for (at, score) in scores.into_iter().enumerate() {
            let (plugin, row) = (trial.plugin().name(), NodeIdx::from(at));
            if !rows.contains(row) {
                assert_eq!(
                    score, UNTOUCHED,
                    "{plugin}: normalizes row {at} for {pod:?}, which is no candidate"
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
                "{name}: raw score {} of {node} for {pod:?} is negative: its share of the largest means nothing",
                column[row.at()]
            );
        }
    }
    failed(trial, pod, normalize(plugin, &cx, &slot, rows, &mut column));
    Some(column)
}
