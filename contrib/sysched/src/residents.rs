//! The profiles that the pods on each node name.

use std::collections::BTreeMap;

use harbormaster::{api::Str, prelude::*};

use crate::profile::{Name, SeccompProfile, named_by};

/// Profiles that a pod names, sorted.
pub type Named = Vec<Name>;

/// A set of system calls: bit `n` stands for the one with number `n`.
pub(crate) type Calls = Vec<u64>;

/// Number of system calls.
pub(crate) fn size(calls: &[u64]) -> i64 {
    calls.iter().map(|bits| i64::from(bits.count_ones())).sum()
}

/// Most default profiles for which tables are kept. A program has few; more are left over from earlier configurations.
const MOST_TABLES: usize = 8;

/// Number of pods by row and by the profiles that they name, and the same for all rows together.
#[derive(Debug, Default)]
pub struct Residents {
    by_row: BTreeMap<NodeIdx, BTreeMap<Named, usize>>,
    all: BTreeMap<Named, usize>,
    tables: Vec<Table>,
}

/// The tables follow from the rest and from the profiles.
impl PartialEq for Residents {
    fn eq(&self, other: &Self) -> bool {
        (&self.by_row, &self.all) == (&other.by_row, &other.all)
    }
}

/// System calls of the pods, with one default profile.
#[derive(Debug)]
pub(crate) struct Table {
    default: Name,
    numbers: BTreeMap<Str, usize>,
    /// System calls of pods, by the profiles that they name.
    calls: BTreeMap<Named, Calls>,
    hosts: Vec<Host>,
    /// Rows whose pods have changed.
    stale: Vec<NodeIdx>,
    /// True if profiles have changed.
    is_stale: bool,
}

/// System calls of the pods on a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// System calls of any of them.
    pub(crate) calls: Calls,
    /// Number of these.
    pub(crate) size: i64,
    /// Number of pods.
    pub(crate) pods: i64,
    /// Sum of the numbers of system calls of each pod.
    pub(crate) used: i64,
}

impl Table {
    fn new(default: &Name) -> Self {
        Self {
            default: default.clone(),
            numbers: BTreeMap::new(),
            calls: BTreeMap::new(),
            hosts: Vec::new(),
            stale: Vec::new(),
            is_stale: true,
        }
    }

    /// System calls of the pod for which the index was prepared.
    pub(crate) fn calls_of(&self, pod: &PodInfo) -> Option<&Calls> {
        self.calls.get(&named(pod))
    }

    /// System calls of the pods on a row; `None` if it has had no pods.
    pub(crate) fn host(&self, row: NodeIdx) -> Option<&Host> {
        self.hosts.get(row.at())
    }

    fn learn(&mut self, named: &Named, profiles: Watched<'_, SeccompProfile>) -> &Calls {
        if !self.calls.contains_key(named) {
            let mut calls = Calls::new();
            named.iter().for_each(|name| self.add(name, profiles, &mut calls));
            if calls.is_empty() {
                let default = self.default.clone();
                self.add(&default, profiles, &mut calls);
            }
            self.calls.insert(named.clone(), calls);
        }
        &self.calls[named]
    }

    fn add(&mut self, (namespace, name): &Name, profiles: Watched<'_, SeccompProfile>, calls: &mut Calls) {
        let Some(profile) = profiles.get(namespace, name) else { return };
        for name in profile.object.allowed() {
            let next = self.numbers.len();
            let number = *self.numbers.entry(name.clone()).or_insert(next);
            if calls.len() <= number / 64 {
                calls.resize(number / 64 + 1, 0);
            }
            calls[number / 64] |= 1 << (number % 64);
        }
    }

    fn set_host(
        &mut self,
        row: NodeIdx,
        pods: Option<&BTreeMap<Named, usize>>,
        profiles: Watched<'_, SeccompProfile>,
    ) {
        let mut host = Host::default();
        for (named, count) in pods.into_iter().flatten() {
            let (calls, count) = (self.learn(named, profiles), i64::try_from(*count).unwrap_or(i64::MAX));
            if host.calls.len() < calls.len() {
                host.calls.resize(calls.len(), 0);
            }
            host.calls.iter_mut().zip(calls).for_each(|(bits, other)| *bits |= other);
            host.pods = host.pods.saturating_add(count);
            host.used = host.used.saturating_add(count.saturating_mul(size(calls)));
        }
        host.size = size(&host.calls);
        if self.hosts.len() <= row.at() {
            self.hosts.resize(row.at() + 1, Host::default());
        }
        self.hosts[row.at()] = host;
    }
}

impl Residents {
    /// The table with a default profile, once it was prepared.
    pub(crate) fn table(&self, default: &Name) -> Option<&Table> {
        self.tables.iter().find(|table| table.default == *default)
    }

    /// Brings the table with a default profile up to date, and adds the system calls of the pod.
    pub(crate) fn update(&mut self, default: &Name, profiles: Watched<'_, SeccompProfile>, pod: &PodInfo) {
        if self.table(default).is_none() {
            if self.tables.len() == MOST_TABLES {
                self.tables.remove(0);
            }
            self.tables.push(Table::new(default));
        }
        let Some(table) = self.tables.iter_mut().find(|table| table.default == *default) else { return };
        // Combinations that no pod names any more are forgotten.
        if table.is_stale || table.calls.len() > 2 * self.all.len() + 64 {
            *table = Table { is_stale: false, ..Table::new(default) };
            for (row, pods) in &self.by_row {
                table.set_host(*row, Some(pods), profiles);
            }
        }
        for row in std::mem::take(&mut table.stale) {
            table.set_host(row, self.by_row.get(&row), profiles);
        }
        table.learn(&named(pod), profiles);
    }

    fn changed(&mut self, row: NodeIdx) {
        for table in self.tables.iter_mut().filter(|table| !table.is_stale) {
            table.stale.push(row);
            // Nobody has asked for long.
            table.is_stale = table.stale.len() > 2 * table.hosts.len() + 1024;
        }
    }
}

impl Watches for Residents {
    type Resources = SeccompProfile;
}

fn named(pod: &PodInfo) -> Named {
    named_by(pod).into_iter().collect()
}

fn remove(counts: &mut BTreeMap<Named, usize>, named: &Named) {
    if let Some(count) = counts.get_mut(named) {
        *count -= 1;
        if *count == 0 {
            counts.remove(named);
        }
    }
}

impl Index for Residents {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let named = named(pod);
        *self.all.entry(named.clone()).or_default() += 1;
        *self.by_row.entry(row).or_default().entry(named).or_default() += 1;
        self.changed(row);
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        let named = named(pod);
        remove(&mut self.all, &named);
        if let Some(counts) = self.by_row.get_mut(&row) {
            remove(counts, &named);
            if counts.is_empty() {
                self.by_row.remove(&row);
            }
        }
        self.changed(row);
    }

    fn object_changed(&mut self, _: ClusterView<'_>, id: &ObjectId) {
        if matches!(id, ObjectId::Custom(key) if key.is_of::<SeccompProfile>()) {
            self.tables.iter_mut().for_each(|table| table.is_stale = true);
        }
    }

    fn pod_changed(&mut self, view: ClusterView<'_>, row: NodeIdx, old: &PodInfo, new: &PodInfo) {
        if old.annotations != new.annotations || old.spec.seccomp_profiles != new.spec.seccomp_profiles {
            self.pod_left(view, row, old);
            self.pod_joined(view, row, new);
        }
    }
}
