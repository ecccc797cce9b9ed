//! Weighted dominant shares: how much a quota has borrowed, compared with what its weight entitles it to.
//!
//! Quotas are to borrow in proportion to their weights. Of several resources, the one counts of which the quota has
//! borrowed the largest part of all that is guaranteed.

use std::cmp::Ordering;

use crate::{
    amounts::Amounts,
    tree::{QuotaIdx, Tree},
};

/// A share, as a fraction with a positive denominator.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    borrowed: i128,
    /// All that is guaranteed, times the weight.
    of: i128,
}

impl Share {
    /// The share of a quota that has borrowed nothing.
    pub const NONE: Self = Self { borrowed: 0, of: 1 };

    /// The share of a quota that uses these amounts. Without a weight, it counts as 1.
    pub fn of(tree: &Tree, quota: QuotaIdx, used: &Amounts) -> Self {
        let quota = &tree.quotas()[quota];
        let weight = i128::from(quota.weight.unwrap_or(1));
        let shares = used.iter().filter_map(|(resource, amount)| {
            let whole = tree.guaranteed(resource)?.max(1);
            let borrowed = amount - quota.min.get(resource);
            (borrowed > 0).then(|| Self { borrowed, of: whole.saturating_mul(weight) })
        });
        shares.fold(Self::NONE, |a, b| if a < b { b } else { a })
    }

    /// Parts per billion, for comparisons that may be inexact.
    pub fn parts(self) -> i64 {
        let parts = self.borrowed.saturating_mul(1_000_000_000) / self.of;
        i64::try_from(parts).unwrap_or(i64::MAX)
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (a, b) = (self.borrowed.saturating_mul(other.of), other.borrowed.saturating_mul(self.of));
        Some(a.cmp(&b))
    }
}
