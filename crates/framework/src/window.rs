//! The number of nodes that are scored, and the choice among equally good nodes.

/// Limit on the number of feasible nodes that are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// All feasible nodes, unless the profile has its own percentage.
    All,
    /// As many as kube-scheduler would score, given `percentageOfNodesToScore` (0 is adaptive).
    Sampled {
        /// Percentage for all profiles; a profile's own percentage takes precedence.
        percentage: i32,
    },
}

/// Choice among equally good nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The first one after the last choice, wrapping around.
    Rotate,
    /// The one at the top of kube-scheduler's heap.
    FirstOnHeap,
}

/// Start of the next search. It advances so that the same nodes do not always come first. Shared by all profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// For walks: a position in the order in which nodes are visited.
    pub position: usize,
    /// For [`Tie::Rotate`]: the row after the last choice.
    pub row: usize,
    /// Number of searches for victims so far.
    pub preemptions: u64,
}

impl Rotation {
    /// Returns the start of the next search for victims. The starts are scattered like kube-scheduler's random offsets,
    /// but are the same in every run.
    pub fn next_offset(&mut self) -> usize {
        self.preemptions += 1;
        // The output function of SplitMix64, which scatters consecutive numbers.
        let mut bits = self.preemptions.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half, so that the offset is the same on machines with smaller words.
        ((bits ^ (bits >> 31)) >> 32) as usize
    }
}

/// Minimum number of feasible nodes to find; clusters with fewer nodes are always searched completely.
const MIN_FEASIBLE: usize = 100;

impl Window {
    /// Returns the number of feasible nodes to find among `nodes`. `own` is the profile's percentage.
    pub fn wanted(self, nodes: usize, own: Option<i32>) -> usize {
        let percentage = match (self, own) {
            (Window::All, None) => return nodes,
            (_, Some(own)) => own,
            (Window::Sampled { percentage }, None) => percentage,
        };
        if nodes < MIN_FEASIBLE {
            return nodes;
        }
        let percentage = match percentage {
            0 => 50usize.saturating_sub(nodes / 125).max(5),
            given => given.clamp(0, 100) as usize,
        };
        (nodes * percentage / 100).max(MIN_FEASIBLE)
    }
}

/// Candidates as kube-scheduler ranks them: a binary heap built bottom-up. A child moves up only if its total is
/// strictly larger than its parent's; of two equal children, the left one moves. This gives ties a definite, if odd,
/// order.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Positions in `totals`.
    heap: Vec<usize>,
    totals: Vec<i64>,
}

impl Ranking {
    /// Ranks the positions of `totals`.
    pub fn new(totals: Vec<i64>) -> Self {
        let mut ranking = Self { heap: (0..totals.len()).collect(), totals };
        for at in (0..ranking.heap.len() / 2).rev() {
            ranking.sift_down(at);
        }
        ranking
    }

    /// Number of remaining positions.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns true if no position is left.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Takes the best position.
    pub fn pop(&mut self) -> Option<usize> {
        let best = *self.heap.first()?;
        self.heap.swap_remove(0);
        self.sift_down(0);
        Some(best)
    }

    fn sift_down(&mut self, mut at: usize) {
        let total = |heap: &[usize], at: usize| self.totals[heap[at]];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return;
            }
            let right_wins = right < self.heap.len() && total(&self.heap, right) > total(&self.heap, left);
            let child = if right_wins { right } else { left };
            if total(&self.heap, child) <= total(&self.heap, at) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adaptive_window_shrinks_with_the_cluster() {
        let window = Window::Sampled { percentage: 0 };
        let wanted: Vec<usize> =
            [50, 100, 1000, 5000, 15_000, 100_000].map(|n| window.wanted(n, None)).into_iter().collect();
        assert_eq!(wanted, [50, 100, 420, 500, 750, 5000]);
        assert_eq!(window.wanted(1000, Some(100)), 1000);
        assert_eq!(Window::All.wanted(1000, None), 1000);
        assert_eq!(Window::All.wanted(1000, Some(30)), 300);
    }

    #[test]
    fn ties_on_the_heap_have_a_definite_order_that_is_not_always_by_position() {
        let order = |totals: &[i64]| {
            let mut ranking = Ranking::new(totals.to_vec());
            std::iter::from_fn(move || ranking.pop()).collect::<Vec<_>>()
        };
        assert_eq!(order(&[5, 5, 5, 5]), [0, 3, 2, 1]);
        assert_eq!(order(&[1, 7, 7, 7])[0], 1);
        // The left subtree first moves its largest total up; then the left of the two equal children wins.
        assert_eq!(order(&[1, 2, 9, 9, 1])[0], 3);
    }
}
