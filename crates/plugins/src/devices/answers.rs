//! Answers that outlive an attempt: the pools that a row sees, and whether its free devices suffice for a demand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use harbormaster_framework::prelude::NodeIdx;

use super::{DeviceGates, books::DeviceQuery, claim::ClaimSpec, pools::NodePool};

/// Maximum number of demands with answers. The least recently used demand is forgotten first.
const MAX_DEMANDS: usize = 64;

/// Answers by row. Reading and writing answers does not change what the index says, so both are possible while an
/// attempt borrows the index.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    /// Pools by row, with the number of the change after which they were gathered.
    pools: Vec<Option<(u64, Arc<[NodePool]>)>>,
    demands: Vec<Answered>,
    /// Number of the latest use.
    uses: u64,
}

/// Answers for one demand.
#[derive(Debug)]
struct Answered {
    demand: Demand,
    last_use: u64,
    rows: Vec<Option<Answer>>,
}

/// What an answer depends on, besides the row.
#[derive(Clone, Debug, PartialEq)]
struct Demand {
    claims: Vec<Arc<ClaimSpec>>,
    gates: DeviceGates,
    max_steps: u64,
}

/// Answer for one row.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Number of the latest change that the answer takes into account.
    change: u64,
    /// Rank of the alternatives; `None` if there is no solution.
    rank: Option<i64>,
}

impl Answers {
    /// Returns the answer for a row, if it was given after the change with this number.
    pub(super) fn get(&self, query: &DeviceQuery<'_>, row: NodeIdx, latest: u64) -> Option<Option<i64>> {
        let mut rows = self.rows();
        let answer = (*rows.answered(query)?.rows.get(row.at())?)?;
        (answer.change >= latest).then_some(answer.rank)
    }

    /// Stores the answer for a row.
    pub(super) fn set(&self, query: &DeviceQuery<'_>, row: NodeIdx, change: u64, rank: Option<i64>) {
        let mut rows = self.rows();
        if rows.answered(query).is_none() {
            rows.add(query);
        }
        let Some(answered) = rows.answered(query) else { return };
        if answered.rows.len() <= row.at() {
            answered.rows.resize(row.at() + 1, None);
        }
        answered.rows[row.at()] = Some(Answer { change, rank });
    }

    /// Returns the pools that a row sees, if they were gathered after the change with this number.
    pub(super) fn pools(&self, row: NodeIdx, latest: u64) -> Option<Arc<[NodePool]>> {
        let rows = self.rows();
        let (change, pools) = rows.pools.get(row.at())?.as_ref()?;
        (*change >= latest).then(|| pools.clone())
    }

    /// Stores the pools that a row sees.
    pub(super) fn set_pools(&self, row: NodeIdx, change: u64, pools: Arc<[NodePool]>) {
        let mut rows = self.rows();
        if rows.pools.len() <= row.at() {
            rows.pools.resize(row.at() + 1, None);
        }
        rows.pools[row.at()] = Some((change, pools));
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Answers are complete before they are stored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn answered(&mut self, query: &DeviceQuery<'_>) -> Option<&mut Answered> {
        self.uses += 1;
        let known = self.demands.iter_mut().find(|answered| answered.demand.is_of(query))?;
        known.last_use = self.uses;
        Some(known)
    }

    fn add(&mut self, query: &DeviceQuery<'_>) {
        if self.demands.len() >= MAX_DEMANDS {
            let oldest = self.demands.iter().enumerate().min_by_key(|(_, answered)| answered.last_use);
            oldest.map(|(at, _)| at).map(|at| self.demands.swap_remove(at));
        }
        let demand = Demand::of(query);
        self.demands.push(Answered { demand, last_use: self.uses, rows: Vec::new() });
    }
}

impl Demand {
    fn of(query: &DeviceQuery<'_>) -> Self {
        let claims = query.claims.iter().map(|claim| claim.spec.clone()).collect();
        Self { claims, gates: query.gates, max_steps: query.max_steps }
    }

    fn is_of(&self, query: &DeviceQuery<'_>) -> bool {
        self.gates == query.gates
            && self.max_steps == query.max_steps
            && self.claims.len() == query.claims.len()
            && self.claims.iter().zip(query.claims).all(|(a, b)| Arc::ptr_eq(a, &b.spec) || *a == b.spec)
    }
}
