//! The sorting algorithm of Go's `sort.Slice`.
//!
//! The sorting is not stable, so the order of equal elements depends on the algorithm: a quicksort that changes its
//! method for short, sorted and adverse input. This is the same algorithm with the same constants.

/// Sorts positions. `less` compares the elements at two of the positions.
pub(crate) fn sort(order: &mut [usize], less: &dyn Fn(usize, usize) -> bool) {
    let len = order.len();
    let bad_choices = usize::BITS - len.leading_zeros();
    Sorter { order, less }.quicksort(0, len, bad_choices);
}

/// Length up to which elements are inserted one by one.
const SHORT: usize = 12;
/// Length from which the pivot is chosen among nine elements, and from which a nearly sorted part is repaired.
const LONG: usize = 50;
/// Maximum number of repairs of a nearly sorted part.
const REPAIRS: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Unknown,
    Increasing,
    Decreasing,
}

struct Sorter<'s> {
    order: &'s mut [usize],
    less: &'s dyn Fn(usize, usize) -> bool,
}

impl Sorter<'_> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(self.order[a], self.order[b])
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
    }

    fn insert_all(&mut self, start: usize, end: usize) {
        for from in start + 1..end {
            let mut at = from;
            while at > start && self.less(at, at - 1) {
                self.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn sift_down(&mut self, mut root: usize, len: usize, first: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= len {
                return;
            }
            if child + 1 < len && self.less(first + child, first + child + 1) {
                child += 1;
            }
            if !self.less(first + root, first + child) {
                return;
            }
            self.swap(first + root, first + child);
            root = child;
        }
    }

    fn heap_sort(&mut self, start: usize, end: usize) {
        let len = end - start;
        for root in (0..len.div_ceil(2)).rev() {
            self.sift_down(root, len, start);
        }
        for last in (0..len).rev() {
            self.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn quicksort(&mut self, mut start: usize, mut end: usize, mut bad_choices: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let len = end - start;
            if len <= SHORT {
                return self.insert_all(start, end);
            }
            if bad_choices == 0 {
                return self.heap_sort(start, end);
            }
            if !was_balanced {
                self.break_patterns(start, end);
                bad_choices -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(start, end);
            if hint == Hint::Decreasing {
                self.order[start..end].reverse();
                pivot = end - 1 - (pivot - start);
                hint = Hint::Increasing;
            }
            if was_balanced && was_partitioned && hint == Hint::Increasing && self.repair(start, end) {
                return;
            }
            // The element before `start` is not greater than any element here. If it is not less than the pivot, the
            // pivot is one of the smallest elements.
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, is_partitioned) = self.partition(start, end, pivot);
            was_partitioned = is_partitioned;
            let (left, right) = (middle - start, end - middle);
            if left < right {
                was_balanced = left >= len / 8;
                self.quicksort(start, middle, bad_choices);
                start = middle + 1;
            } else {
                was_balanced = right >= len / 8;
                self.quicksort(middle + 1, end, bad_choices);
                end = middle;
            }
        }
    }

    /// Moves the elements that are less than the pivot in front of it, and all others behind it. Returns the position
    /// of the pivot, and true if the elements were already partitioned.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut is_partitioned = true;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                self.swap(high, start);
                return (high, is_partitioned);
            }
            self.swap(low, high);
            is_partitioned = false;
            low += 1;
            high -= 1;
        }
    }

    /// Moves the elements that equal the pivot to the beginning, and returns the position after them. No element is
    /// less than the pivot.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Moves a few elements that are out of order. Returns true if all elements are then in order.
    fn repair(&mut self, start: usize, end: usize) -> bool {
        let mut at = start + 1;
        for _ in 0..REPAIRS {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - start < LONG {
                return false;
            }
            self.swap(at, at - 1);
            if at - start >= 2 {
                let mut down = at - 1;
                while down >= 1 && self.less(down, down - 1) {
                    self.swap(down, down - 1);
                    down -= 1;
                }
            }
            if end - at >= 2 {
                let mut up = at + 1;
                while up < end && self.less(up, up - 1) {
                    self.swap(up, up - 1);
                    up += 1;
                }
            }
        }
        false
    }

    /// Swaps some elements with random ones.
    fn break_patterns(&mut self, start: usize, end: usize) {
        let len = end - start;
        let mut random = len as u64;
        let mask = (1u64 << (u64::BITS - random.leading_zeros())) - 1;
        let middle = start + len / 4 * 2;
        for at in middle - 1..=middle + 1 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = (random & mask) as usize;
            self.swap(at, start + if other >= len { other - len } else { other });
        }
    }

    fn choose_pivot(&self, start: usize, end: usize) -> (usize, Hint) {
        const MOST_SWAPS: u32 = 12;
        let len = end - start;
        let mut swaps = 0;
        let mut candidates = [start + len / 4, start + len / 4 * 2, start + len / 4 * 3];
        if len >= LONG {
            candidates = candidates.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let pivot = self.median(candidates, &mut swaps);
        let hint = match swaps {
            0 => Hint::Increasing,
            MOST_SWAPS => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, [a, b, c]: [usize; 3], swaps: &mut u32) -> usize {
        let mut ordered = |a, b| {
            if self.less(b, a) {
                *swaps += 1;
                (b, a)
            } else {
                (a, b)
            }
        };
        let (a, b) = ordered(a, b);
        let (b, _) = ordered(b, c);
        ordered(a, b).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[u64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        sort(&mut order, &|a, b| keys[a] < keys[b]);
        order
    }

    #[test]
    fn lists_of_all_lengths_and_shapes_are_sorted() {
        for len in 0..300u64 {
            let scattered = |at: u64| (at * 7919 + len) % 101;
            let shapes: [&dyn Fn(u64) -> u64; 5] =
                [&scattered, &|at| at, &|at| len - at, &|_| 1, &|at| at % 5 + u64::from(at == 60)];
            for shape in shapes {
                let keys: Vec<u64> = (0..len).map(shape).collect();
                let order = sorted(&keys);
                assert!(order.windows(2).all(|pair| keys[pair[0]] <= keys[pair[1]]), "{len}");
                let mut positions = order.clone();
                positions.sort_unstable();
                assert!(positions.into_iter().eq(0..keys.len()));
            }
        }
    }

    #[test]
    fn the_order_of_equal_elements_is_that_of_go() {
        let keys: Vec<u64> = (0..15).map(|at| at % 2).collect();
        assert_eq!(sorted(&keys[..12]), [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]);
        assert_eq!(sorted(&keys).len(), 15);
    }
}
