//! How far answers follow the changes that they depend on.

use crate::{
    nodeset::{NodeIdx, NodeSet},
    row_log::{ChangedRows, LogPosition, RowLog},
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

    /// Returns the changed rows, or `None` if no answer can be kept: there is none yet, a node joined or left, or a log
    /// no longer lists all changes. `found` keeps them for other answers that are as old.
    pub(super) fn changed<'a>(
        &self,
        changes: &Changes<'_>,
        found: &'a mut FoundChanges,
    ) -> Option<ChangedRows<'a>> {
        let Changes { nodes, logs } = changes;
        if self.shape != Some(nodes.shape()) || logs.len() != self.logs.len() {
            return None;
        }
        let span = (nodes.shape(), self.nodes, nodes.log_end());
        if logs.is_empty() && found.many_in == Some(span) {
            return Some(ChangedRows::Many(&found.many));
        }
        let in_logs = logs.iter().zip(&self.logs).map(|(log, at)| log.since(*at));
        let in_logs: Vec<_> = in_logs.collect::<Option<_>>()?;
        let rows = nodes.changed_since(self.nodes)?.chain(in_logs.into_iter().flatten());
        if found.collect_few(nodes, rows.clone()) {
            return Some(ChangedRows::Few(&found.few));
        }
        found.collect_many(nodes, rows);
        found.many_in = logs.is_empty().then_some(span);
        Some(ChangedRows::Many(&found.many))
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

/// Maximum number of changed rows that are handled one by one, unless there are many rows.
const FEW: usize = 8;
/// A set visits one word for every 64 rows. It pays off if it has at least one member for this many words.
const WORDS_PER_MEMBER: usize = 16;

/// The rows that were found last to have changed. The columns that belong to one slate alone are as old as the slate.
#[derive(Debug, Default)]
pub(super) struct FoundChanges {
    few: Vec<NodeIdx>,
    many: NodeSet,
    /// Shape of the node table and the part of its log from which `many` is; `None` if another log was searched too.
    many_in: Option<(u64, LogPosition, LogPosition)>,
}

impl FoundChanges {
    /// Collects the rows if there are few; returns false if there are many.
    fn collect_few(&mut self, nodes: &NodeTable, mut rows: impl Iterator<Item = NodeIdx>) -> bool {
        let limit = FEW.max(nodes.rows() / 64 / WORDS_PER_MEMBER);
        self.few.clear();
        self.few.extend(rows.by_ref().take(limit).filter(|row| nodes.live().contains(*row)));
        self.few.sort_unstable();
        self.few.dedup();
        rows.next().is_none()
    }

    fn collect_many(&mut self, nodes: &NodeTable, rows: impl Iterator<Item = NodeIdx>) {
        self.many.clear();
        rows.for_each(|row| self.many.insert(row));
        self.many.intersect(nodes.live());
    }
}
