//! A pod's request, compared with the free resources of nodes.

use std::{borrow::Cow, ops::Range};

use harbormaster_api::{Node, Resources, Str, resources::is_extended};
use harbormaster_framework::{
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, Reject},
    sweep::Sweep,
    table::{Columns, NodeRef, NodeTable},
};
use rustc_hash::FxHashSet;

/// Resources that Filter ignores.
#[derive(Clone, Debug, Default)]
pub(super) struct IgnoredResources {
    pub(super) names: FxHashSet<String>,
    pub(super) groups: FxHashSet<String>,
}

impl IgnoredResources {
    fn covers(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        is_extended(name) && (self.names.contains(name) || self.groups.contains(group))
    }
}

/// Reasons why a node does not fit, one bit each; the bits from [`SCALARS`] on belong to the pod's scalar resources.
type ShortageBits = u64;

const PODS: ShortageBits = 1;
const CPU: ShortageBits = 1 << 1;
const MEMORY: ShortageBits = 1 << 2;
const STORAGE: ShortageBits = 1 << 3;
/// The request exceeds the node's capacity.
const EXCEEDS_CAPACITY: ShortageBits = 1 << 4;
const SCALARS: usize = 5;
/// A sweep checks its rows one by one if it contains fewer than one in this many rows of its span.
const SPARSE_FRACTION: usize = 4;
/// Maximum number of scalar resources that have bits; for a pod that requests more, nodes are checked one by one.
const MAX_SCALARS: usize = ShortageBits::BITS as usize - SCALARS;

const TOO_MANY_PODS: &str = "Too many pods";
/// Prefix of a reason that names a resource; the resource's name follows.
pub const INSUFFICIENT: &str = "Insufficient ";
const REASONS: [(ShortageBits, &str); 4] = [
    (PODS, TOO_MANY_PODS),
    (CPU, "Insufficient cpu"),
    (MEMORY, "Insufficient memory"),
    (STORAGE, "Insufficient ephemeral-storage"),
];

/// Returns the resource that a reason names: `pods` for [`TOO_MANY_PODS`], `None` for reasons of other plugins.
pub(super) fn insufficient(reason: &str) -> Option<&str> {
    if reason == TOO_MANY_PODS { Some("pods") } else { reason.strip_prefix(INSUFFICIENT) }
}

/// A pod's request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    cpu: i64,
    memory: i64,
    storage: i64,
    scalars: Vec<ScalarDemand>,
}

/// A requested scalar resource, with the reason given for a node that has too little of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScalarDemand {
    name: Str,
    ask: i64,
    reason: String,
    /// True if a device class provides the resource. DynamicResources then checks it on nodes that do not offer it.
    is_backed: bool,
}

/// Returns true if the request exceeds the free amount.
#[inline]
fn is_short(ask: i64, has: i64, used: i64) -> bool {
    ask > 0 && ask > has.wrapping_sub(used)
}

/// Returns `bit` if the request exceeds the free amount, and also [`EXCEEDS_CAPACITY`] if it exceeds the capacity.
#[inline]
fn shortage(ask: i64, has: i64, used: i64, bit: ShortageBits) -> ShortageBits {
    let short = is_short(ask, has, used);
    let exceeds_capacity = short && ask > has;
    (bit * ShortageBits::from(short)) | (EXCEEDS_CAPACITY * ShortageBits::from(exceeds_capacity))
}

/// Adds the shortages of one resource, for the rows starting at `from`.
fn add_shortages(
    shortages: &mut [ShortageBits],
    from: usize,
    ask: i64,
    has: &[i64],
    used: &[i64],
    bit: ShortageBits,
) {
    if ask > 0 {
        for ((bits, has), used) in shortages.iter_mut().zip(&has[from..]).zip(&used[from..]) {
            *bits |= shortage(ask, *has, *used, bit);
        }
    }
}

impl Demand {
    /// Prepares a request. `is_backed` returns true for resources that a device class provides.
    pub(super) fn new(
        request: &Resources,
        ignored: &IgnoredResources,
        is_backed: impl Fn(&Str) -> bool,
    ) -> Self {
        let counts = |(name, amount): &&(Str, i64)| *amount != 0 && !ignored.covers(name);
        let scalar = |(name, ask): &(Str, i64)| ScalarDemand {
            name: name.clone(),
            ask: *ask,
            reason: format!("{INSUFFICIENT}{name}"),
            is_backed: is_backed(name),
        };
        Self {
            cpu: request.milli_cpu,
            memory: request.memory,
            storage: request.ephemeral_storage,
            scalars: request.scalars.iter().filter(counts).map(scalar).collect(),
        }
    }

    pub(super) fn check(&self, nodes: &NodeTable, node: NodeRef<'_>) -> Result<(), Reject> {
        let shortage = self.column_shortages(nodes, node.idx());
        let scalars = self.scalars.iter().map(|scalar| (scalar, scalar.shortage(node, 1)));
        if shortage == 0 && scalars.clone().all(|(_, shortage)| shortage == 0) {
            return Ok(());
        }
        let exceeds_capacity =
            scalars.clone().fold(shortage, |all, (_, shortage)| all | shortage) & EXCEEDS_CAPACITY;
        let missing = scalars.filter(|(_, shortage)| *shortage != 0).map(|(scalar, _)| scalar);
        Err(reject(shortage | exceeds_capacity, missing))
    }

    fn column_shortages(&self, nodes: &NodeTable, row: NodeIdx) -> ShortageBits {
        let (columns, at) = (nodes.columns(), row.at());
        // As in kube-scheduler, eviction may help on every node with too many pods, even if the node allows none.
        // [`EXCEEDS_CAPACITY`] is therefore never set here.
        let pods = shortage(1, columns.pods[at], columns.used_pods[at], PODS) & PODS;
        pods | shortage(self.cpu, columns.cpu[at], columns.used_cpu[at], CPU)
            | shortage(self.memory, columns.memory[at], columns.used_memory[at], MEMORY)
            | shortage(self.storage, columns.storage[at], columns.used_storage[at], STORAGE)
    }

    /// Checks all rows of the sweep, column by column.
    pub(super) fn sweep(&self, nodes: &NodeTable, sweep: &mut Sweep<'_>) {
        let rows = sweep.rows();
        let span = rows.span();
        // Column scans are fast per row, but visit every row of the span.
        if self.scalars.len() > MAX_SCALARS || rows.len() < span.len() / SPARSE_FRACTION {
            for row in rows {
                let is_plain = self.scalars.is_empty() && self.column_shortages(nodes, row) == 0;
                if !is_plain && let Err(reject) = self.check(nodes, nodes.node(row)) {
                    sweep.reject(row, reject);
                }
            }
            return;
        }
        if self.scalars.is_empty() && self.fits_all(nodes.columns(), span.clone()) {
            return;
        }
        let shortages = self.shortages(nodes, rows, span.clone());
        let shortage_of = |row: NodeIdx| shortages[row.at() - span.start];
        let mut kinds: Vec<ShortageBits> = Vec::new();
        for row in rows {
            let shortage = shortage_of(row);
            if shortage != 0 && !kinds.contains(&shortage) {
                kinds.push(shortage);
            }
        }
        for kind in kinds {
            let bit = |at: usize| kind >> (SCALARS + at) & 1 == 1;
            let missing =
                self.scalars.iter().enumerate().filter(|(at, _)| bit(*at)).map(|(_, scalar)| scalar);
            let equal = rows.iter().filter(|row| shortage_of(*row) == kind);
            sweep.reject_each(equal, &reject(kind, missing));
        }
    }

    /// Returns true if no row of `span` has a shortage, apart from scalar resources. This is the usual case.
    fn fits_all(&self, columns: &Columns, span: Range<usize>) -> bool {
        let fits = |ask: i64, has: &[i64], used: &[i64]| {
            let mut amounts = has[span.clone()].iter().zip(&used[span.clone()]);
            ask <= 0 || !amounts.any(|(has, used)| is_short(ask, *has, *used))
        };
        fits(1, &columns.pods, &columns.used_pods)
            && fits(self.cpu, &columns.cpu, &columns.used_cpu)
            && fits(self.memory, &columns.memory, &columns.used_memory)
            && fits(self.storage, &columns.storage, &columns.used_storage)
    }

    /// Returns the shortages of every row of `span`; rows outside `rows` have unspecified values.
    fn shortages(&self, nodes: &NodeTable, rows: &NodeSet, span: Range<usize>) -> Vec<ShortageBits> {
        let columns = nodes.columns();
        let from = span.start;
        let mut shortages = vec![0; span.len()];
        add_shortages(&mut shortages, from, 1, &columns.pods, &columns.used_pods, PODS);
        shortages.iter_mut().for_each(|shortage| *shortage &= PODS);
        add_shortages(&mut shortages, from, self.cpu, &columns.cpu, &columns.used_cpu, CPU);
        add_shortages(&mut shortages, from, self.memory, &columns.memory, &columns.used_memory, MEMORY);
        add_shortages(&mut shortages, from, self.storage, &columns.storage, &columns.used_storage, STORAGE);
        for (at, scalar) in self.scalars.iter().enumerate() {
            for row in rows {
                shortages[row.at() - span.start] |= scalar.shortage(nodes.node(row), 1 << (SCALARS + at));
            }
        }
        shortages
    }

    /// Returns true if the pod would fit on the node if the node were empty.
    pub(super) fn fits_empty(&self, node: &Node) -> bool {
        let has = &node.allocatable;
        has.pods >= 1
            && self.cpu <= has.milli_cpu.max(0)
            && self.memory <= has.memory.max(0)
            && self.storage <= has.ephemeral_storage.max(0)
            && self
                .scalars
                .iter()
                .all(|s| s.is_left_to_devices(has.scalar(&s.name)) || s.ask <= has.scalar(&s.name))
    }

    /// Returns true if `new` has room for more pods than `old`, or has more of a requested resource. A resource that
    /// devices have to provide always counts as increased.
    pub(super) fn gains(&self, old: &Resources, new: &Resources) -> bool {
        let more = |ask: i64, old: i64, new: i64| ask > 0 && new > old;
        new.pods > old.pods
            || more(self.cpu, old.milli_cpu, new.milli_cpu)
            || more(self.memory, old.memory, new.memory)
            || more(self.storage, old.ephemeral_storage, new.ephemeral_storage)
            || self.scalars.iter().any(|s| {
                let has = new.scalar(&s.name);
                has > old.scalar(&s.name) || s.is_left_to_devices(has)
            })
    }
}

impl ScalarDemand {
    #[inline]
    fn shortage(&self, node: NodeRef<'_>, bit: ShortageBits) -> ShortageBits {
        let has = node.allocatable_scalar(&self.name);
        if self.is_left_to_devices(has) {
            return 0;
        }
        shortage(self.ask, has, node.requested_scalar(&self.name), bit)
    }

    /// Returns true if devices have to provide the resource on a node with this allocatable amount.
    #[inline]
    fn is_left_to_devices(&self, has: i64) -> bool {
        self.is_backed && has <= 0
    }
}

fn reject<'a>(shortage: ShortageBits, scalars: impl Iterator<Item = &'a ScalarDemand>) -> Reject {
    let fix = if shortage & EXCEEDS_CAPACITY == 0 { Fix::EvictionMayHelp } else { Fix::NothingHelps };
    let of_columns =
        REASONS.iter().filter(|(bit, _)| shortage & bit != 0).map(|(_, reason)| Cow::Borrowed(*reason));
    let of_scalars = scalars.map(|scalar| Cow::Owned(scalar.reason.clone()));
    Reject { fix, reasons: of_columns.chain(of_scalars).collect() }
}
