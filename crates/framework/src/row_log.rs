//! Logs of changed rows.

use std::collections::VecDeque;

use crate::nodeset::{NodeIdx, NodeSet};

/// A position in a log of changed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(u64);

/// The rows that have changed, oldest first. The node table has such a log, and an index may have one.
#[derive(Debug, Default)]
pub struct RowLog {
    rows: VecDeque<NodeIdx>,
    start: u64,
}

impl RowLog {
    /// Notes that a row has changed.
    pub fn push(&mut self, row: NodeIdx) {
        self.rows.push_back(row);
    }

    /// Notes that every row may have changed.
    pub fn push_all(&mut self) {
        self.start += self.rows.len() as u64 + 1;
        self.rows.clear();
    }

    /// Drops old entries. `rows` is the number of rows: for a cache that is more than about two table lengths behind,
    /// recomputing everything is cheaper.
    pub fn trim(&mut self, rows: usize) {
        let keep = (2 * rows).max(1024);
        while self.rows.len() > keep {
            self.rows.pop_front();
            self.start += 1;
        }
    }

    /// The end of the log.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.start + self.rows.len() as u64)
    }

    /// Returns the rows that changed since `since` (possibly repeated), or `None` if any row may have changed, or if the
    /// log no longer contains that position.
    pub fn since(&self, since: LogPosition) -> Option<impl Iterator<Item = NodeIdx> + Clone + '_> {
        let skip = since.0.checked_sub(self.start)?;
        Some(self.rows.iter().skip(skip as usize).copied())
    }
}

/// Rows that changed: a few in ascending order, or a set of many.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangedRows<'a> {
    Few(&'a [NodeIdx]),
    Many(&'a NodeSet),
}

impl ChangedRows<'_> {
    /// Calls `visit` with each row, in ascending order.
    pub(crate) fn for_each(self, visit: impl FnMut(NodeIdx)) {
        match self {
            Self::Few(rows) => rows.iter().copied().for_each(visit),
            Self::Many(rows) => rows.iter().for_each(visit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &RowLog, at: LogPosition) -> Option<Vec<usize>> {
        log.since(at).map(|rows| rows.map(NodeIdx::at).collect())
    }

    #[test]
    fn a_log_tells_which_rows_changed_since_a_position() {
        let (mut log, first) = (RowLog::default(), LogPosition::default());
        assert_eq!(since(&log, first), Some(vec![]), "nothing has changed");
        log.push(NodeIdx(3));
        let second = log.end();
        log.push(NodeIdx(5));
        assert_eq!((since(&log, first), since(&log, second)), (Some(vec![3, 5]), Some(vec![5])));
        let third = log.end();
        log.push_all();
        assert_eq!((since(&log, first), since(&log, third)), (None, None), "all rows may have changed");
        let fourth = log.end();
        log.push(NodeIdx(1));
        assert_eq!((since(&log, third), since(&log, fourth)), (None, Some(vec![1])));
    }

    #[test]
    fn a_log_forgets_rows_that_changed_long_ago() {
        let mut log = RowLog::default();
        for row in 0..1025 {
            log.push(NodeIdx(row));
        }
        let end = log.end();
        log.trim(2);
        assert_eq!((log.end(), since(&log, LogPosition(0))), (end, None));
        assert_eq!(since(&log, LogPosition(1)).map(|rows| rows.len()), Some(1024));
    }
}
