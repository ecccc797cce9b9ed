//! Work on all processors.

use std::{num::NonZero, thread};

/// Number of items below which one thread does all the work.
const FEW: usize = 64;

/// Applies a function to every item on several threads, and returns the results in the order of the items.
pub(crate) fn map<T: Send, R: Send>(mut items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len() / FEW);
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let mut shares = Vec::with_capacity(threads);
    while items.len() > share {
        shares.push(items.split_off(items.len() - share));
    }
    let work = &work;
    let done = |share: Vec<T>| share.into_iter().map(work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let others: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || done(share))).collect();
        let mut results = done(items);
        // The last share was taken first.
        for other in others.into_iter().rev() {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 63, 128, 1000, 1001] {
            let doubled = super::map((0..count).collect(), |i| i * 2);
            assert_eq!(doubled, (0..count).map(|i| i * 2).collect::<Vec<_>>());
        }
    }
}
