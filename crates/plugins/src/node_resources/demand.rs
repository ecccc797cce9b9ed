//! What a pod asks of a node, and which of it the node lacks.

use std::{borrow::Cow, ops::Range};

use harbormaster_api::{Node, Resources, Str, resources::is_extended};
use harbormaster_framework::{
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, Reject},
    sweep::Sweep,
    table::{NodeRef, NodeTable},
};
use rustc_hash::FxHashSet;

/// Resources that Filter does not look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Ignored {
    pub(super) names: FxHashSet<String>,
    pub(super) groups: FxHashSet<String>,
}

impl Ignored {
    fn covers(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        is_extended(name) && (self.names.contains(name) || self.groups.contains(group))
    }
}

/// Why a node does not fit, one bit per reason: from bit [`SCALARS`] on one per scalar of the pod.
type Lack = u64;

const PODS: Lack = 1;
const CPU: Lack = 1 << 1;
const MEMORY: Lack = 1 << 2;
const STORAGE: Lack = 1 << 3;
/// The node could never hold the pod, even empty.
const NEVER: Lack = 1 << 4;
const SCALARS: usize = 5;
/// Fewer rows than this part of those between the first and the last are judged one by one.
const FEW_ROWS: usize = 4;
/// A pod with more scalars than there are bits is judged node by node.
const MOST_SCALARS: usize = Lack::BITS as usize - SCALARS;

const TOO_MANY_PODS: &str = "Too many pods";
const INSUFFICIENT: &str = "Insufficient ";
const REASONS: [(Lack, &str); 4] = [
    (PODS, TOO_MANY_PODS),
    (CPU, "Insufficient cpu"),
    (MEMORY, "Insufficient memory"),
    (STORAGE, "Insufficient ephemeral-storage"),
];

/// The resource that is missing according to a reason, `pods` being their number.
pub(super) fn insufficient(reason: &str) -> Option<&str> {
    if reason == TOO_MANY_PODS { Some("pods") } else { reason.strip_prefix(INSUFFICIENT) }
}

/// What one pod asks for, ready to be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    cpu: i64,
    memory: i64,
    storage: i64,
    scalars: Vec<ScalarDemand>,
}

/// A scalar resource that counts, with the words for its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScalarDemand {
    name: Str,
    ask: i64,
    reason: String,
}

/// `bit` if `ask` is more than what is free of `has`, and [`NEVER`] if it is more than all of it.
#[inline]
fn lack(ask: i64, has: i64, used: i64, bit: Lack) -> Lack {
    let short = ask > 0 && ask > has.wrapping_sub(used);
    let never = short && ask > has;
    (bit * Lack::from(short)) | (NEVER * Lack::from(never))
}

/// Notes in `lacks` which of the rows `from` there on have too little of one resource.
fn note(lacks: &mut [Lack], from: usize, ask: i64, has: &[i64], used: &[i64], bit: Lack) {
    if ask > 0 {
        for ((noted, has), used) in lacks.iter_mut().zip(&has[from..]).zip(&used[from..]) {
            *noted |= lack(ask, *has, *used, bit);
        }
    }
}

impl Demand {
    pub(super) fn new(request: &Resources, ignored: &Ignored) -> Self {
        let counts = |(name, amount): &&(Str, i64)| *amount != 0 && !ignored.covers(name);
        let scalar = |(name, ask): &(Str, i64)| ScalarDemand {
            name: name.clone(),
            ask: *ask,
            reason: format!("{INSUFFICIENT}{name}"),
        };
        Self {
            cpu: request.milli_cpu,
            memory: request.memory,
            storage: request.ephemeral_storage,
            scalars: request.scalars.iter().filter(counts).map(scalar).collect(),
        }
    }

    pub(super) fn judge(&self, nodes: &NodeTable, node: NodeRef<'_>) -> Result<(), Reject> {
        let lack = self.lack_of_columns(nodes, node.idx());
        let scalars = self.scalars.iter().map(|scalar| (scalar, scalar.lack(node, 1)));
        if lack == 0 && scalars.clone().all(|(_, lack)| lack == 0) {
            return Ok(());
        }
        let never = scalars.clone().fold(lack, |all, (_, lack)| all | lack) & NEVER;
        let missing = scalars.filter(|(_, lack)| *lack != 0).map(|(scalar, _)| scalar);
        Err(reject(lack | never, missing))
    }

    fn lack_of_columns(&self, nodes: &NodeTable, row: NodeIdx) -> Lack {
        let (columns, at) = (nodes.columns(), row.at());
        // A full node can always be emptied, so it is never beyond help.
        let pods = lack(1, columns.pods[at], columns.used_pods[at], PODS) & PODS;
        pods | lack(self.cpu, columns.cpu[at], columns.used_cpu[at], CPU)
            | lack(self.memory, columns.memory[at], columns.used_memory[at], MEMORY)
            | lack(self.storage, columns.storage[at], columns.used_storage[at], STORAGE)
    }

    /// Judges all rows of the sweep, column by column.
    pub(super) fn sweep(&self, nodes: &NodeTable, sweep: &mut Sweep<'_>) {
        let rows = sweep.rows();
        let span = rows.span();
        // Columns are quick per row, but look at all of them.
        if self.scalars.len() > MOST_SCALARS || rows.len() < span.len() / FEW_ROWS {
            for row in rows {
                if let Err(reject) = self.judge(nodes, nodes.node(row)) {
                    sweep.reject(row, reject);
                }
            }
            return;
        }
        let lacks = self.lacks(nodes, rows, span.clone());
        let lack_of = |row: NodeIdx| lacks[row.at() - span.start];
        let mut kinds: Vec<Lack> = Vec::new();
        for row in rows {
            let lack = lack_of(row);
            if lack != 0 && !kinds.contains(&lack) {
                kinds.push(lack);
            }
        }
        for kind in kinds {
            let bit = |at: usize| kind >> (SCALARS + at) & 1 == 1;
            let missing =
                self.scalars.iter().enumerate().filter(|(at, _)| bit(*at)).map(|(_, scalar)| scalar);
            let alike = rows.iter().filter(|row| lack_of(*row) == kind);
            sweep.reject_each(alike, &reject(kind, missing));
        }
    }

    /// What every row of `span` lacks; of those that are none of `rows` anything.
    fn lacks(&self, nodes: &NodeTable, rows: &NodeSet, span: Range<usize>) -> Vec<Lack> {
        let columns = nodes.columns();
        let from = span.start;
        let mut lacks = vec![0; span.len()];
        note(&mut lacks, from, 1, &columns.pods, &columns.used_pods, PODS);
        lacks.iter_mut().for_each(|lack| *lack &= PODS);
        note(&mut lacks, from, self.cpu, &columns.cpu, &columns.used_cpu, CPU);
        note(&mut lacks, from, self.memory, &columns.memory, &columns.used_memory, MEMORY);
        note(&mut lacks, from, self.storage, &columns.storage, &columns.used_storage, STORAGE);
        for (at, scalar) in self.scalars.iter().enumerate() {
            for row in rows {
                lacks[row.at() - span.start] |= scalar.lack(nodes.node(row), 1 << (SCALARS + at));
            }
        }
        lacks
    }

    /// Whether the pod would fit the node if nothing else ran there.
    pub(super) fn fits_empty(&self, node: &Node) -> bool {
        let has = &node.allocatable;
        has.pods >= 1
            && self.cpu <= has.milli_cpu.max(0)
            && self.memory <= has.memory.max(0)
            && self.storage <= has.ephemeral_storage.max(0)
            && self.scalars.iter().all(|s| s.ask <= has.scalar(&s.name))
    }

    /// Whether `new` has room for more pods than `old`, or more of something that the pod asks for.
    pub(super) fn gains(&self, old: &Resources, new: &Resources) -> bool {
        let more = |ask: i64, old: i64, new: i64| ask > 0 && new > old;
        new.pods > old.pods
            || more(self.cpu, old.milli_cpu, new.milli_cpu)
            || more(self.memory, old.memory, new.memory)
            || more(self.storage, old.ephemeral_storage, new.ephemeral_storage)
            || self.scalars.iter().any(|s| new.scalar(&s.name) > old.scalar(&s.name))
    }
}

impl ScalarDemand {
    #[inline]
    fn lack(&self, node: NodeRef<'_>, bit: Lack) -> Lack {
        lack(self.ask, node.allocatable_scalar(&self.name), node.requested_scalar(&self.name), bit)
    }
}

fn reject<'a>(lack: Lack, scalars: impl Iterator<Item = &'a ScalarDemand>) -> Reject {
    let fix = if lack & NEVER == 0 { Fix::EvictionMayHelp } else { Fix::NothingHelps };
    let of_columns =
        REASONS.iter().filter(|(bit, _)| lack & bit != 0).map(|(_, reason)| Cow::Borrowed(*reason));
    let of_scalars = scalars.map(|scalar| Cow::Owned(scalar.reason.clone()));
    Reject { fix, reasons: of_columns.chain(of_scalars).collect() }
}
