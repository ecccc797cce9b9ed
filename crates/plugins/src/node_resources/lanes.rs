//! Resources that are scored, each as a lane through the node table.

use harbormaster_api::{
    Resources, Str,
    args::ResourceSpec,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar},
};
use harbormaster_framework::{
    nodeset::NodeIdx,
    table::{Columns, NodeTable},
};

/// Where the numbers of a resource are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Cpu,
    Memory,
    Storage,
    Scalar(Str),
}

/// A resource of a plugin's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scored {
    pub(super) place: Place,
    pub(super) weight: i64,
}

impl Scored {
    /// The resources that nodes can have; others never count.
    pub(super) fn list(specs: &[ResourceSpec]) -> Vec<Self> {
        let place = |name: &str| match name {
            CPU => Some(Place::Cpu),
            MEMORY => Some(Place::Memory),
            EPHEMERAL_STORAGE => Some(Place::Storage),
            scalar => is_scalar(scalar).then(|| Place::Scalar(scalar.into())),
        };
        specs.iter().filter_map(|s| Some(Self { place: place(&s.name)?, weight: s.weight })).collect()
    }

    /// How much of it is in `amounts`.
    pub(super) fn of(&self, amounts: &Resources) -> i64 {
        match &self.place {
            Place::Cpu => amounts.milli_cpu,
            Place::Memory => amounts.memory,
            Place::Storage => amounts.ephemeral_storage,
            Place::Scalar(name) => amounts.scalar(name),
        }
    }
}

/// What counts as requested on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// What pods ask for.
    Requested,
    /// The same, with defaults for containers that do not ask for cpu or memory.
    NonZero,
}

/// One resource over all rows, and how much of it the pod asks for.
pub(super) struct Lane<'a> {
    pub(super) ask: i64,
    pub(super) weight: i64,
    numbers: Numbers<'a>,
}

enum Numbers<'a> {
    Columns { has: &'a [i64], used: &'a [i64] },
    Scalar { nodes: &'a NodeTable, name: &'a str },
}

impl<'a> Lane<'a> {
    /// The lanes of all resources that count for this pod: a scalar resource that it does not ask for is left out.
    pub(super) fn of(
        resources: &'a [Scored],
        asks: impl Iterator<Item = i64>,
        nodes: &'a NodeTable,
        count: Count,
    ) -> Vec<Self> {
        let counting = resources.iter().zip(asks);
        let counting = counting.filter(|(r, ask)| *ask != 0 || !matches!(r.place, Place::Scalar(_)));
        let lane = |(r, ask): (&'a Scored, i64)| Self {
            ask,
            weight: r.weight,
            numbers: Numbers::of(&r.place, nodes, count),
        };
        counting.map(lane).collect()
    }

    /// What the node has and what is used of it.
    #[inline]
    pub(super) fn at(&self, row: NodeIdx) -> (i64, i64) {
        match &self.numbers {
            Numbers::Columns { has, used } => (has[row.at()], used[row.at()]),
            Numbers::Scalar { nodes, name } => {
                let node = nodes.node(row);
                (node.allocatable_scalar(name), node.requested_scalar(name))
            }
        }
    }
}

impl<'a> Numbers<'a> {
    fn of(place: &'a Place, nodes: &'a NodeTable, count: Count) -> Self {
        let columns: &'a Columns = nodes.columns();
        let (has, used) = match (place, count) {
            (Place::Cpu, Count::Requested) => (&columns.cpu, &columns.used_cpu),
            (Place::Cpu, Count::NonZero) => (&columns.cpu, &columns.nonzero_cpu),
            (Place::Memory, Count::Requested) => (&columns.memory, &columns.used_memory),
            (Place::Memory, Count::NonZero) => (&columns.memory, &columns.nonzero_memory),
            (Place::Storage, _) => (&columns.storage, &columns.used_storage),
            (Place::Scalar(name), _) => return Self::Scalar { nodes, name },
        };
        Self::Columns { has, used }
    }
}
