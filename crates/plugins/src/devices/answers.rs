//! Answers that outlive an attempt: the pools that a row sees, and whether its free devices suffice for a demand.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use harbormaster_framework::{
    prelude::{NodeIdx, NodeSet},
    row_log::{LogPosition, RowLog},
};

use super::{
    DeviceGates,
    allocator::AllocationError,
    books::{Change, DeviceQuery},
    claim::ClaimSpec,
    pools::NodePool,
};

/// Maximum number of demands with answers. The least recently used demand is forgotten first.
const MAX_DEMANDS: usize = 64;

/// Answers by row. They are behind a lock, because attempts store answers through a shared reference to the index.
///
/// An answer takes 16 bytes and two bits for each row and demand.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    /// Feature gates of all answers.
    gates: DeviceGates,
    pools: Vec<Option<RowPools>>,
    demands: Vec<Answered>,
    /// Position in `demands` of the demand that was used last.
    recent: usize,
    /// Number of lookups so far. Serves as the clock of `last_use`.
    uses: u64,
}

/// Pools that a row sees.
#[derive(Clone, Debug)]
pub(super) struct RowPools {
    pub(super) pools: Arc<[Arc<NodePool>]>,
    /// For each pool that other rows may also see, the number of the latest change in the use of its devices.
    pub(super) shared: Box<[Arc<AtomicU64>]>,
    /// Number of the latest change that the pools take into account.
    pub(super) change: u64,
}

/// Answers for one demand.
#[derive(Debug)]
struct Answered {
    claims: Vec<Arc<ClaimSpec>>,
    max_steps: u64,
    last_use: u64,
    rows: Vec<Answer>,
    /// Rows whose answers in `rows` were current at `synced`, or later.
    known: NodeSet,
    /// Known rows on which the claims fit.
    fits: NodeSet,
    synced: LogPosition,
    /// The latest answer that is the same for all nodes that see these pools.
    common: Option<(Arc<[Arc<NodePool>]>, Answer)>,
}

/// Answer for one row.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    /// Number of the latest change that the answer takes into account; 0 if there is no answer.
    change: u64,
    /// Rank of the alternatives, or one of the constants below.
    outcome: i32,
}

impl Answer {
    fn result(self) -> Result<i64, AllocationError> {
        match self.outcome {
            NO_SOLUTION => Err(AllocationError::NoSolution),
            INVALID_POOLS => Err(AllocationError::InvalidPools),
            rank => Ok(i64::from(rank)),
        }
    }
}

/// Returns true if all nodes that see these pools can reach the same devices.
fn are_alike(pools: &[Arc<NodePool>]) -> bool {
    pools.iter().all(|pool| !pool.has_nodes_per_device)
}

const NO_SOLUTION: i32 = -1;
const INVALID_POOLS: i32 = -2;

impl Answers {
    /// Returns the answer for a row if nothing has changed since it was given.
    pub(super) fn get(
        &self,
        query: &DeviceQuery<'_>,
        row: NodeIdx,
        latest: Change,
    ) -> Option<Result<i64, AllocationError>> {
        let mut rows = self.rows(query.gates);
        let demand = rows.find(query)?;
        let answer = rows.known(demand, row, latest)?;
        rows.demands[demand].note(row, answer);
        Some(answer.result())
    }

    /// Passes the errors among the known answers for these rows to `take`. Returns the rows whose answers are not known.
    /// `log` contains all rows whose answers may have changed.
    pub(super) fn take_unfit<E>(
        &self,
        query: &DeviceQuery<'_>,
        log: &RowLog,
        asked: &NodeSet,
        mut take: impl FnMut(NodeIdx, AllocationError) -> Result<(), E>,
    ) -> Result<NodeSet, E> {
        let mut rows = self.rows(query.gates);
        let demand = rows.find_or_add(query);
        let answered = &mut rows.demands[demand];
        answered.catch_up(log);
        let mut unfit = asked.clone();
        unfit.intersect(&answered.known);
        unfit.subtract(&answered.fits);
        for row in &unfit {
            if let Some(Err(error)) = answered.rows.get(row.at()).map(|answer| answer.result()) {
                take(row, error)?;
            }
        }
        let mut unknown = asked.clone();
        unknown.subtract(&answered.known);
        Ok(unknown)
    }

    /// Returns the answer for another node that sees the same pools, if nothing has changed since it was given.
    pub(super) fn common(
        &self,
        query: &DeviceQuery<'_>,
        pools: &[Arc<NodePool>],
        change: u64,
    ) -> Option<Result<i64, AllocationError>> {
        let mut rows = self.rows(query.gates);
        let (known, answer) = rows.answered(query)?.common.as_ref()?;
        let is_same = known.len() == pools.len() && known.iter().zip(pools).all(|(a, b)| Arc::ptr_eq(a, b));
        (is_same && answer.change == change).then(|| answer.result())
    }

    /// Stores the answer for a row that sees these pools. Timeouts and fatal errors, which may name a claim, are not
    /// stored.
    pub(super) fn set(
        &self,
        query: &DeviceQuery<'_>,
        row: NodeIdx,
        pools: &Arc<[Arc<NodePool>]>,
        change: u64,
        answer: &Result<i64, AllocationError>,
    ) {
        let outcome = match answer {
            Ok(rank) => i32::try_from(*rank).ok().filter(|rank| *rank >= 0),
            Err(AllocationError::NoSolution) => Some(NO_SOLUTION),
            Err(AllocationError::InvalidPools) => Some(INVALID_POOLS),
            Err(AllocationError::TimedOut | AllocationError::Fatal(_)) => None,
        };
        let Some(outcome) = outcome else { return };
        let mut rows = self.rows(query.gates);
        let demand = rows.find_or_add(query);
        let answered = &mut rows.demands[demand];
        if answered.rows.len() <= row.at() {
            answered.rows.resize(row.at() + 1, Answer::default());
        }
        let answer = Answer { change, outcome };
        answered.rows[row.at()] = answer;
        answered.note(row, answer);
        if are_alike(pools) {
            answered.common = Some((pools.clone(), answer));
        }
    }

    /// Returns the pools that a row sees, if they take the change with this number into account.
    pub(super) fn pools(
        &self,
        gates: DeviceGates,
        row: NodeIdx,
        supply: u64,
    ) -> Option<Arc<[Arc<NodePool>]>> {
        let rows = self.rows(gates);
        let known = rows.pools.get(row.at())?.as_ref()?;
        (known.change >= supply).then(|| known.pools.clone())
    }

    /// Stores the pools that a row sees.
    pub(super) fn set_pools(&self, gates: DeviceGates, row: NodeIdx, pools: RowPools) {
        let mut rows = self.rows(gates);
        if rows.pools.len() <= row.at() {
            rows.pools.resize(row.at() + 1, None);
        }
        rows.pools[row.at()] = Some(pools);
    }

    /// Forgets the pools of a row. Without them, its answers are not used.
    pub(super) fn forget(&mut self, row: NodeIdx) {
        let rows = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(pools) = rows.pools.get_mut(row.at()) {
            *pools = None;
        }
    }

    fn rows(&self, gates: DeviceGates) -> MutexGuard<'_, Rows> {
        // A poisoned lock is harmless: answers are complete before they are stored.
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.gates != gates {
            *rows = Rows { gates, ..Rows::default() };
        }
        rows
    }
}

impl Rows {
    fn answered(&mut self, query: &DeviceQuery<'_>) -> Option<&mut Answered> {
        self.find(query).map(|at| &mut self.demands[at])
    }

    /// Returns the position in `demands` of the query's demand.
    fn find(&mut self, query: &DeviceQuery<'_>) -> Option<usize> {
        self.uses += 1;
        let is_recent = self.demands.get(self.recent).is_some_and(|recent| recent.is_same(query));
        if !is_recent {
            self.recent = self.demands.iter().position(|answered| answered.is_equal(query))?;
        }
        let answered = &mut self.demands[self.recent];
        if !is_recent {
            // The next query of this attempt has the same claim objects, so finding its demand is quick.
            answered.claims = specs(query);
        }
        answered.last_use = self.uses;
        Some(self.recent)
    }

    /// Returns the position in `demands` of the query's demand, which is added if it is not known.
    fn find_or_add(&mut self, query: &DeviceQuery<'_>) -> usize {
        self.find(query).unwrap_or_else(|| {
            self.add(query);
            self.recent
        })
    }

    /// Returns the answer for a row if nothing has changed since it was given.
    fn known(&self, demand: usize, row: NodeIdx, latest: Change) -> Option<Answer> {
        let pools = self.pools.get(row.at())?.as_ref().filter(|pools| pools.change >= latest.supply)?;
        let shared = pools.shared.iter().map(|change| change.load(Ordering::Relaxed));
        let latest = shared.fold(latest.supply.max(latest.usage), u64::max);
        let answer = *self.demands[demand].rows.get(row.at())?;
        (answer.change != 0 && answer.change >= latest).then_some(answer)
    }

    fn add(&mut self, query: &DeviceQuery<'_>) {
        if self.demands.len() >= MAX_DEMANDS {
            let oldest = self.demands.iter().enumerate().min_by_key(|(_, answered)| answered.last_use);
            oldest.map(|(at, _)| at).map(|at| self.demands.swap_remove(at));
        }
        let (claims, max_steps) = (specs(query), query.max_steps);
        self.demands.push(Answered {
            claims,
            max_steps,
            last_use: self.uses,
            rows: Vec::new(),
            known: NodeSet::default(),
            fits: NodeSet::default(),
            synced: LogPosition::default(),
            common: None,
        });
        self.recent = self.demands.len() - 1;
    }
}

impl Answered {
    /// Notes the current answer for a row.
    fn note(&mut self, row: NodeIdx, answer: Answer) {
        self.known.insert(row);
        self.fits.set(row, answer.outcome >= 0);
    }

    /// Forgets which answers are current, for rows that have changed.
    fn catch_up(&mut self, log: &RowLog) {
        match log.since(self.synced) {
            Some(rows) => rows.for_each(|row| self.known.remove(row)),
            None => self.known.clear(),
        }
        self.synced = log.end();
    }

    /// Returns true if the query has the same claim objects.
    fn is_same(&self, query: &DeviceQuery<'_>) -> bool {
        self.is_like(query, Arc::ptr_eq)
    }

    /// Returns true if the query has equal claims.
    fn is_equal(&self, query: &DeviceQuery<'_>) -> bool {
        self.is_like(query, |a, b| a == b)
    }

    fn is_like(
        &self,
        query: &DeviceQuery<'_>,
        are_alike: impl Fn(&Arc<ClaimSpec>, &Arc<ClaimSpec>) -> bool,
    ) -> bool {
        self.max_steps == query.max_steps
            && self.claims.len() == query.claims.len()
            && self.claims.iter().zip(query.claims).all(|(a, b)| are_alike(a, &b.spec))
    }
}

fn specs(query: &DeviceQuery<'_>) -> Vec<Arc<ClaimSpec>> {
    query.claims.iter().map(|claim| claim.spec.clone()).collect()
}
