//! Scored resources, each as a lane of the node table.

use std::ops::Range;

use harbormaster_api::{
    Resources, Str,
    args::ResourceSpec,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar},
};
use harbormaster_framework::{
    nodeset::{NodeIdx, NodeSet},
    table::{Columns, NodeTable},
};

use super::backing::ClassDevices;

/// The column of the node table that contains a resource's amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResourceColumn {
    Cpu,
    Memory,
    Storage,
    Scalar(Str),
}

/// A resource in a plugin's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScoredResource {
    pub(super) column: ResourceColumn,
    pub(super) weight: i64,
}

impl ScoredResource {
    /// Converts the resources in a plugin's arguments. Ignores names that are not resources of a node.
    pub(super) fn list(specs: &[ResourceSpec]) -> Vec<Self> {
        let column = |name: &str| match name {
            CPU => Some(ResourceColumn::Cpu),
            MEMORY => Some(ResourceColumn::Memory),
            EPHEMERAL_STORAGE => Some(ResourceColumn::Storage),
            scalar => is_scalar(scalar).then(|| ResourceColumn::Scalar(scalar.into())),
        };
        specs.iter().filter_map(|s| Some(Self { column: column(&s.name)?, weight: s.weight })).collect()
    }

    /// Returns the resource's amount in `amounts`.
    pub(super) fn of(&self, amounts: &Resources) -> i64 {
        match &self.column {
            ResourceColumn::Cpu => amounts.milli_cpu,
            ResourceColumn::Memory => amounts.memory,
            ResourceColumn::Storage => amounts.ephemeral_storage,
            ResourceColumn::Scalar(name) => amounts.scalar(name),
        }
    }
}

/// Kind of requests on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Requests of the pods.
    Requested,
    /// Requests of the pods, with defaults for containers without a cpu or memory request.
    NonZero,
}

/// One resource over all rows, and the pod's request for it.
pub(super) struct Lane<'a> {
    pub(super) ask: i64,
    pub(super) weight: i64,
    numbers: Numbers<'a>,
}

enum Numbers<'a> {
    Columns {
        has: &'a [i64],
        used: &'a [i64],
    },
    /// `devices` count on nodes that do not offer the resource themselves.
    Scalar {
        nodes: &'a NodeTable,
        name: &'a str,
        devices: Option<ClassDevices<'a>>,
    },
}

impl<'a> Lane<'a> {
    /// Returns the lanes of the resources that count for the pod: all except scalar resources that it does not
    /// request. `devices` are the devices that provide each resource; empty if no device counts.
    pub(super) fn of(
        resources: &'a [ScoredResource],
        asks: impl Iterator<Item = i64>,
        nodes: &'a NodeTable,
        count: RequestKind,
        devices: &[Option<ClassDevices<'a>>],
    ) -> Vec<Self> {
        let counting = resources.iter().zip(asks).enumerate();
        let counting =
            counting.filter(|(_, (r, ask))| *ask != 0 || !matches!(r.column, ResourceColumn::Scalar(_)));
        let lane = |(at, (r, ask)): (usize, (&'a ScoredResource, i64))| {
            let devices = devices.get(at).copied().flatten();
            Self { ask, weight: r.weight, numbers: Numbers::of(&r.column, nodes, count, devices) }
        };
        counting.map(lane).collect()
    }

    /// Returns the capacity and use of several nodes together.
    pub(super) fn sum(&self, rows: &NodeSet) -> (i64, i64) {
        let offered = rows.iter().map(|row| self.at(row)).filter(|(has, _)| *has != 0);
        offered.fold((0, 0), |(has, used), (more, more_used)| {
            (has.wrapping_add(more), used.wrapping_add(more_used))
        })
    }

    /// Returns two lanes that are columns of the node table, the usual case; `None` for any other lanes. Computing with
    /// columns takes half the time.
    pub(super) fn two_columns(lanes: &[Self]) -> Option<[ColumnLane<'a>; 2]> {
        let [a, b] = lanes else { return None };
        Some([a.column()?, b.column()?])
    }

    fn column(&self) -> Option<ColumnLane<'a>> {
        let Self { ask, weight, numbers: Numbers::Columns { has, used } } = *self else { return None };
        Some(ColumnLane { ask, weight, has, used })
    }

    /// Returns the capacity and use of the row's node.
    #[inline]
    pub(super) fn at(&self, row: NodeIdx) -> (i64, i64) {
        match &self.numbers {
            Numbers::Columns { has, used } => (has[row.at()], used[row.at()]),
            Numbers::Scalar { nodes, name, devices } => {
                let node = nodes.node(row);
                let offered = node.allocatable_scalar(name);
                let counted = devices.filter(|_| offered == 0).map(|devices| devices.on(node));
                match counted.filter(|(all, _)| *all > 0) {
                    Some(counted) => counted,
                    None => (offered, node.requested_scalar(name)),
                }
            }
        }
    }
}

/// A [`Lane`] that is a column of the node table.
pub(super) struct ColumnLane<'a> {
    pub(super) ask: i64,
    pub(super) weight: i64,
    pub(super) has: &'a [i64],
    pub(super) used: &'a [i64],
}

impl ColumnLane<'_> {
    /// Returns the capacity and use of each of the rows' nodes.
    pub(super) fn run(&self, rows: Range<usize>) -> impl Iterator<Item = (i64, i64)> {
        self.has[rows.clone()].iter().copied().zip(self.used[rows].iter().copied())
    }

    /// Returns true if all rows have the resource, and no amount is negative or so large that 100 times the amount has
    /// no exact representation as `f64`.
    pub(super) fn is_exact(&self, rows: Range<usize>) -> bool {
        let mut all = self.ask;
        let mut have_all = true;
        for (has, used) in self.run(rows) {
            all |= has | used;
            have_all &= has != 0;
        }
        have_all && (0..1 << 46).contains(&all)
    }
}

impl<'a> Numbers<'a> {
    fn of(
        column: &'a ResourceColumn,
        nodes: &'a NodeTable,
        count: RequestKind,
        devices: Option<ClassDevices<'a>>,
    ) -> Self {
        let columns: &'a Columns = nodes.columns();
        let (has, used) = match (column, count) {
            (ResourceColumn::Cpu, RequestKind::Requested) => (&columns.cpu, &columns.used_cpu),
            (ResourceColumn::Cpu, RequestKind::NonZero) => (&columns.cpu, &columns.nonzero_cpu),
            (ResourceColumn::Memory, RequestKind::Requested) => (&columns.memory, &columns.used_memory),
            (ResourceColumn::Memory, RequestKind::NonZero) => (&columns.memory, &columns.nonzero_memory),
            (ResourceColumn::Storage, _) => (&columns.storage, &columns.used_storage),
            (ResourceColumn::Scalar(name), _) => return Self::Scalar { nodes, name, devices },
        };
        Self::Columns { has, used }
    }
}

#[cfg(test)]
pub(super) mod random {
    use harbormaster_testkit::random::Dice;

    use super::ColumnLane;

    /// Two columns of five rows.
    #[derive(Debug)]
    pub(in super::super) struct RandomColumns {
        pub(in super::super) has: [Vec<i64>; 2],
        pub(in super::super) used: [Vec<i64>; 2],
        pub(in super::super) asks: [i64; 2],
    }

    impl RandomColumns {
        /// Returns columns that are exact in one case of two.
        pub(in super::super) fn new(dice: &mut Dice) -> Self {
            let is_usual = dice.one_in(2);
            let mut column = |of: &[i64]| of.iter().map(|of| amount(dice, *of, is_usual)).collect::<Vec<_>>();
            let has = [column(&[0; 5]), column(&[0; 5])];
            let (used, asks) = ([column(&has[0]), column(&has[1])], column(&[has[0][0], has[1][0]]));
            Self { has, used, asks: [asks[0], asks[1]] }
        }

        pub(in super::super) fn lane(&self, of: usize, weight: i64) -> ColumnLane<'_> {
            ColumnLane { ask: self.asks[of], weight, has: &self.has[of], used: &self.used[of] }
        }
    }

    /// Returns an amount, sometimes next to a multiple of a hundredth of `of`. An unusual one is of any size, sometimes
    /// zero or negative.
    fn amount(dice: &mut Dice, of: i64, is_usual: bool) -> i64 {
        let part = |dice: &mut Dice| (of / 100) * dice.below(102) as i64 + dice.below(3) as i64;
        match dice.below(8) {
            2 | 3 if is_usual => part(dice) + 1,
            _ if is_usual => (dice.next_u64() >> (19 + dice.below(44))) as i64 + 1,
            0 => 0,
            1 => -(dice.below(1000) as i64),
            2 | 3 => part(dice) - 1,
            _ => (dice.next_u64() >> (2 + dice.below(61))) as i64,
        }
    }
}
