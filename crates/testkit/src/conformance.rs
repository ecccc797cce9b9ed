//! Checks of the rules that every plugin must follow. A failed check panics with a message that says where the plugin
//! breaks a rule, for example for which pod and node.

mod batches;
mod hints;
mod indexes;
mod orders;
mod permits;
mod reserves;
mod resources;
mod rows;
mod scores;

use harbormaster_framework::{
    cluster::Cluster,
    nodeset::{NodeIdx, NodeSet},
    outcome::Reject,
    pod::PodInfo,
    points::Slot,
};

pub use batches::{adding_and_removing_is_neutral, batch_equals_single};
pub use hints::{what_helps_wakes, what_helps_wakes_anywhere};
pub use indexes::index_equals_rebuilt_one;
pub use orders::order_is_strict;
pub use permits::permit_lets_all_go;
pub use reserves::reserve_is_taken_back;
pub use resources::resource_fits_definition;
pub use rows::{answers_are_repeatable, reads_are_complete, row_scope_holds};
pub use scores::scores_are_valid;

use crate::trial::{Trial, rejection};

/// A value that no plugin writes, to detect scores that were not written.
const UNTOUCHED: i64 = i64::MIN + 7;

/// Returns four sets: all rows, every other row, one row, and no row.
fn subsets(nodes: &Cluster) -> [NodeSet; 4] {
    let every_other = nodes.live().iter().filter(|row| row.0.is_multiple_of(2)).collect();
    [nodes.live().clone(), every_other, nodes.live().iter().take(1).collect(), NodeSet::default()]
}

fn failed<T>(trial: &Trial, pod: &PodInfo, result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|e| panic!("{} fails for {pod:?}: {e}", trial.plugin().name()))
}

/// A row, and Filter's verdict for the row.
type RowVerdict = (NodeIdx, Result<(), Reject>);

/// Returns PreFilter's state, or `None` if PreFilter rejects the pod.
fn filter_state(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Option<Slot> {
    match trial.pre_filtered(nodes, pod) {
        Ok((_, slot)) => Some(slot),
        Err(stopped) => {
            rejection(stopped);
            None
        }
    }
}

fn single_verdicts(trial: &Trial, nodes: &Cluster, pod: &PodInfo) -> Option<Vec<RowVerdict>> {
    let (slot, indexes) = (filter_state(trial, nodes, pod)?, trial.indexes(nodes, pod));
    let ask = |row: NodeIdx| (row, trial.judge(nodes, &indexes, pod, &slot, row));
    Some(nodes.live().iter().map(ask).collect())
}
