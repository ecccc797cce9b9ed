//! How far answers follow the changes that they depend on.

use crate::{
    nodeset::NodeIdx,
    row_log::{LogPosition, RowLog},
    table::NodeTable,
};

/// Changes that answers depend on: those of the node table, and those in [other
/// logs](crate::plugin::ReadsCluster::changed_rows).
pub(super) struct Changes<'a> {
    pub(super) nodes: &'a NodeTable,
    pub(super) logs: Vec<&'a RowLog>,
}

/// The latest changes that answers take into account.
#[derive(Debug, Default)]
pub(super) struct Synced {
    /// Shape of the node table; `None` if there are no answers.
    shape: Option<u64>,
    nodes: LogPosition,
    logs: Vec<LogPosition>,
}

impl Synced {
    /// Returns true if nothing has changed.
    pub(super) fn is_current(&self, changes: &Changes<'_>) -> bool {
        let Changes { nodes, logs } = changes;
        self.shape == Some(nodes.shape())
            && self.nodes == nodes.log_end()
            && logs.iter().map(|log| log.end()).eq(self.logs.iter().copied())
    }

    /// Returns the changed rows (possibly repeated), or `None` if no answer can be kept: there is none yet, a node joined
    /// or left, or a log no longer lists all changes.
    pub(super) fn changed<'a>(&self, changes: &Changes<'a>) -> Option<impl Iterator<Item = NodeIdx> + 'a> {
        let Changes { nodes, logs } = changes;
        if self.shape != Some(nodes.shape()) || logs.len() != self.logs.len() {
            return None;
        }
        let logs = logs.iter().zip(&self.logs).map(|(log, at)| log.since(*at));
        let logs: Vec<_> = logs.collect::<Option<_>>()?;
        Some(nodes.changed_since(self.nodes)?.chain(logs.into_iter().flatten()))
    }

    /// Takes all changes into account.
    pub(super) fn catch_up(&mut self, changes: &Changes<'_>) {
        let Changes { nodes, logs } = changes;
        (self.shape, self.nodes) = (Some(nodes.shape()), nodes.log_end());
        self.logs.clear();
        self.logs.extend(logs.iter().map(|log| log.end()));
    }

    /// Notes that there are no answers.
    pub(super) fn forget(&mut self) {
        self.shape = None;
    }
}
