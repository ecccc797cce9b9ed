//! Scoring a batch of rows.

use std::ops::Range;

use crate::nodeset::{NodeIdx, NodeSet};

/// The scores of one plugin for a set of rows.
///
/// A batch may be split, so the rows may be only part of the node table. Other rows are never touched.
#[derive(Debug)]
pub struct Scores<'a> {
    rows: &'a NodeSet,
    /// The row of the first element of `scores`.
    first: usize,
    scores: &'a mut [i64],
}

impl<'a> Scores<'a> {
    /// Creates scores for `rows`. `scores` has one element for each row from `first` on, and must be long enough for
    /// all `rows`.
    pub fn new(rows: &'a NodeSet, first: NodeIdx, scores: &'a mut [i64]) -> Self {
        Self { rows, first: first.at(), scores }
    }

    /// The rows to score.
    pub fn rows(&self) -> &'a NodeSet {
        self.rows
    }

    /// Sets the score of a row. Does nothing if the row is not in [`Self::rows`].
    pub fn set(&mut self, row: NodeIdx, score: i64) {
        let place = row.at().checked_sub(self.first).and_then(|at| self.scores.get_mut(at));
        if let Some(place) = place.filter(|_| self.rows.contains(row)) {
            *place = score;
        }
    }

    /// Calls `write` for each run of consecutive rows in ascending order, with their indexes and their scores. This is
    /// the fastest way to compute scores from columns.
    pub fn for_each_run(&mut self, mut write: impl FnMut(Range<usize>, &mut [i64])) {
        let (first, end) = (self.first, self.first + self.scores.len());
        for run in self.rows.runs() {
            let run = run.start.max(first)..run.end.min(end);
            if !run.is_empty() {
                write(run.clone(), &mut self.scores[run.start - first..run.end - first]);
            }
        }
    }

    /// Iterates over the rows in ascending order and yields a mutable reference to each row's score.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (NodeIdx, &mut i64)> {
        let (mut places, mut next) = (self.scores.iter_mut(), self.first);
        self.rows.iter().filter_map(move |row| {
            let place = places.nth(row.at().checked_sub(next)?)?;
            next = row.at() + 1;
            Some((row, place))
        })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Pod;

    use super::*;
    use crate::{cluster::Cluster, cycle::Cycle, pod::PodInfo};

    fn set(rows: &[u32]) -> NodeSet {
        rows.iter().copied().map(NodeIdx).collect()
    }

    #[test]
    fn only_rows_of_the_batch_are_written() {
        let mut scores = [0; 6];
        let rows = set(&[11, 13, 15]);
        let mut part = Scores::new(&rows, NodeIdx(10), &mut scores);
        for row in [0, 9, 10, 11, 12, 13, 16, 200] {
            part.set(NodeIdx(row), i64::from(row));
        }
        assert_eq!(scores, [0, 11, 0, 13, 0, 0]);
        let mut part = Scores::new(&rows, NodeIdx(10), &mut scores);
        part.iter_mut().for_each(|(row, score)| *score += 100 * i64::from(row.0));
        assert_eq!(scores, [0, 1111, 0, 1313, 0, 1500]);
        let mut runs = Vec::new();
        let rows = set(&[2, 9, 10, 11, 14, 15, 16, 200]);
        Scores::new(&rows, NodeIdx(10), &mut scores).for_each_run(|run, scores| {
            runs.push((run, scores.to_vec()));
            scores.fill(7);
        });
        assert_eq!(runs, [(10..12, vec![0, 1111]), (14..16, vec![0, 1500])]);
        assert_eq!(scores, [7, 7, 0, 1313, 7, 7]);
    }

    #[test]
    fn parts_may_be_written_by_several_threads() {
        let (cluster, pod) = (Cluster::default(), PodInfo::standalone(Pod::default()));
        let cx = Cycle::new(&cluster, &pod);
        let mut scores = [0; 130];
        let (low, high) = scores.split_at_mut(70);
        let write = |rows: &NodeSet, first: u32, scores: &mut [i64]| {
            let mut part = Scores::new(rows, NodeIdx(first), scores);
            part.iter_mut().for_each(|(row, score)| *score = i64::from(row.0) + cx.nodes.rows() as i64);
        };
        std::thread::scope(|threads| {
            threads.spawn(|| write(&NodeSet::all(70), 0, low));
            threads.spawn(|| write(&(70..130).map(NodeIdx).collect(), 70, high));
        });
        assert!(scores.iter().copied().eq(0..130));
    }

    #[test]
    fn rows_without_an_element_are_skipped() {
        let mut scores = [0; 2];
        let rows = set(&[1, 5, 6, 7, 90]);
        let mut part = Scores::new(&rows, NodeIdx(5), &mut scores);
        assert_eq!(part.iter_mut().map(|(row, _)| row.0).collect::<Vec<_>>(), [5, 6]);
    }
}
