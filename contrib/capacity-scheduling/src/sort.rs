//! QuotaSort: tries the pods of quotas first that have borrowed the least for their weights.

use std::cmp::Reverse;

use harbormaster::prelude::*;

use crate::{ledger::Ledger, share::Share, tree::WHOLE};

/// Orders the queue by the shares of quotas, then by priority and time as PrioritySort does.
///
/// Shares are compared from the top of the tree of quotas down: first those of the quotas at the top, then those of the
/// quotas below them, and so on. A quota within its min has the share zero, as has a namespace without a quota. Quotas
/// that are more than eight levels below the top have no influence.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaSort;

impl Plugin for QuotaSort {
    const NAME: &'static str = "QuotaSort";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl Indexed for QuotaSort {
    type Index = Ledger;
}

impl QueueSort for QuotaSort {
    const TAKES_TURNS: bool = true;

    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let key = |queued: &Queued<'_>| (Reverse(queued.priority()), queued.since);
        key(&a) < key(&b)
    }

    /// Returns the shares of the quotas on the path from the top to the namespace.
    fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> PluginResult<Turn> {
        let ledger = cx.index(self)?;
        let tree = ledger.tree();
        let mut turn = Turn::default();
        let Some(leaf) = tree.leaf(namespace) else { return Ok(turn) };
        let path: Vec<_> = tree.path(leaf).filter(|at| *at != WHOLE).collect();
        for (share, at) in turn.iter_mut().zip(path.into_iter().rev()) {
            *share = Share::of(tree, at, ledger.used(at)).parts();
        }
        Ok(turn)
    }
}
