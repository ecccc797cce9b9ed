//! Caches the answers of [row-scoped](crate::scope::Row) plugins across attempts.
//!
//! - A [`column`] holds the answers of one plugin for all pods that are equal in the parts that the plugin
//!   [reads](crate::reads). Pod templates that differ only in other parts share the column.
//! - A [`slate`] combines the columns of a pod: the rows that fit, and the sums of their scores. Placing a pod changes
//!   one row, so only that row must be evaluated again for the next pod of the same template. The cost of a decision is
//!   therefore almost independent of the number of nodes.
//! - The [`budget`] keeps entries that are used repeatedly, as a segmented LRU cache does. New slates and columns enter
//!   the probationary segment; their second use moves them to the protected segment. The fingerprint of an entry
//!   that is evicted from the probationary segment is remembered for a while ([`recently_evicted`]); if the entry is
//!   needed again, it goes straight to the protected segment. Both segments evict the least recently used entries first.
//!   The bound in bytes grows with the node table. The probationary segment has an eighth of it, and what the protected
//!   segment leaves free.
//!
//! Invariant: cached answers equal those that the plugins would give now.

mod budget;
mod column;
mod recently_evicted;
mod slate;
mod synced;
#[cfg(test)]
mod tests;

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, Weak},
};

use harbormaster_api::Str;
use rustc_hash::{FxBuildHasher, FxHashMap};

use budget::{Budget, Segment, Usage};
pub(crate) use column::{Column, ColumnSource};
use recently_evicted::RecentlyEvicted;
use slate::{ColumnId, Slate, SyncContext};
use synced::FoundChanges;

use crate::{
    cycle::Cycle,
    guard::PointError,
    meter::StageTimer,
    nodeset::NodeSet,
    plugin::Scope,
    pod::{PodInfo, SpecInfo},
    profile::Profile,
    reads::Reads,
    sweep::PluginIdx,
    totals::Totals,
};

/// Identifies a cached slate. Valid until the next call to [`AnswerCache::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlateId(usize);

/// Cached columns and slates of one profile.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    columns: Vec<Column>,
    /// Key and usage of each column, in the order of `columns`.
    column_entries: Vec<ColumnEntry>,
    by_reads: FxHashMap<ColumnKey, ColumnId>,
    free_columns: Vec<ColumnId>,
    slates: Vec<Slate>,
    by_columns: FxHashMap<Box<[Option<ColumnId>]>, usize>,
    free_slates: Vec<usize>,
    by_spec: SlatesBySpec,
    found_changes: FoundChanges,
    recently_evicted: RecentlyEvicted,
    budget: Budget,
    /// Number of the current attempt.
    clock: u64,
}

/// Key and usage of a cached column.
#[derive(Debug, Default)]
struct ColumnEntry {
    /// Number of slates that use the column.
    users: usize,
    /// Key of the column; `None` if the entry is free.
    key: Option<ColumnKey>,
    usage: Usage,
}

/// Everything that the answers of a column depend on, apart from the rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ColumnKey {
    plugin: PluginIdx,
    /// Parts of the pod.
    reads: Reads,
    /// Facts about the cluster.
    facts: Option<Reads>,
}

impl ColumnKey {
    fn new(plugin: PluginIdx, reads: Reads, facts: &[(PluginIdx, Reads)]) -> Self {
        let facts = facts.iter().find(|(of, _)| *of == plugin).map(|(_, facts)| facts.clone());
        Self { plugin, reads, facts }
    }

    fn size(&self) -> usize {
        self.reads.size() + self.facts.as_ref().map_or(0, Reads::size)
    }
}

impl ColumnEntry {
    /// Approximate size in bytes, including the entry in the map.
    fn size(&self) -> usize {
        let reads = self.key.as_ref().map_or(0, ColumnKey::size);
        2 * (size_of::<Self>() + reads)
    }
}

impl AnswerCache {
    /// Creates a cache of at most roughly `bytes` bytes, however large the node table is.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { budget: Budget::new(bytes), ..Self::default() }
    }

    /// Returns the slate for the pod of `cx`, after bringing the slate's columns up to date with the current nodes.
    pub(crate) fn open(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<SlateId, PointError> {
        self.clock += 1;
        let facts = profile.cluster_reads(cx)?;
        // Pods with equal specs share a slate only if the slate depends on nothing else.
        let known = if facts.is_empty() { self.by_spec.get(cx.pod, &self.slates) } else { None };
        let at = match known {
            Some(known) => known,
            None => {
                self.enforce_budget(cx.nodes.rows());
                let found = self.find(profile, cx.pod, &facts)?;
                if facts.is_empty() {
                    self.by_spec.insert(cx.pod, found, &self.slates);
                }
                found
            }
        };
        self.use_slate(at);
        for (plugin, column) in self.slates[at].columns.iter().enumerate() {
            if let Some(column) = column {
                self.column_entries[*column].usage.last_used = self.clock;
                let source = profile.column_source(PluginIdx(plugin as u16), cx);
                self.columns[*column].catch_up(source, &mut self.found_changes)?;
            }
        }
        Ok(SlateId(at))
    }

    /// Records the use of a slate. If an earlier attempt created the slate, moves it and its columns to the protected
    /// segment.
    fn use_slate(&mut self, at: usize) {
        let slate = &mut self.slates[at];
        slate.usage.last_used = self.clock;
        if slate.usage.segment == Segment::Protected || slate.created == self.clock {
            return;
        }
        self.budget.promote(&mut slate.usage);
        for column in slate.columns.iter().flatten() {
            self.budget.promote(&mut self.column_entries[*column].usage);
        }
    }

    /// Brings the slate's rows and totals up to date.
    pub(crate) fn sync(
        &mut self,
        slate: SlateId,
        profile: &Profile,
        cx: &Cycle<'_>,
        timer: &mut StageTimer,
    ) -> Result<(), PointError> {
        let context = SyncContext { profile, cx, columns: &mut self.columns, timer };
        self.slates[slate.0].sync(context, &mut self.found_changes)
    }

    /// Rows that no row-scoped Filter plugin rejects. Valid after [`Self::sync`].
    pub(crate) fn fits(&self, slate: SlateId) -> &NodeSet {
        self.slates[slate.0].fits()
    }

    /// Number of rows in [`Self::fits`].
    pub(crate) fn fit_count(&self, slate: SlateId) -> usize {
        self.slates[slate.0].fit_count()
    }

    /// Sums of cached scores; `None` if the sums cannot be used. Valid after [`Self::sync`].
    pub(crate) fn totals(&self, slate: SlateId) -> Option<&Totals> {
        self.slates[slate.0].totals()
    }

    /// Takes the plugin error that prevented the totals from being computed.
    pub(crate) fn take_score_failure(&mut self, slate: SlateId) -> Option<PointError> {
        self.slates[slate.0].take_score_failure()
    }

    /// The column of a row-scoped plugin; `None` for a cluster-scoped plugin.
    pub(crate) fn column(&self, slate: SlateId, plugin: PluginIdx) -> Option<&Column> {
        self.slates[slate.0].columns[plugin.at()].map(|column| &self.columns[column])
    }

    /// The column of a row-scoped plugin, for adding answers; `None` for a cluster-scoped plugin.
    pub(crate) fn column_mut(&mut self, slate: SlateId, plugin: PluginIdx) -> Option<&mut Column> {
        self.slates[slate.0].columns[plugin.at()].map(|column| &mut self.columns[column])
    }

    /// Finds or creates the slate of a pod whose spec was not seen recently, or for which the answers depend on facts
    /// about the cluster.
    fn find(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        facts: &[(PluginIdx, Reads)],
    ) -> Result<usize, PointError> {
        let mut keys = Vec::with_capacity(profile.plugins().len());
        for (at, plugin) in profile.plugins().iter().enumerate() {
            keys.push(match plugin.scope() {
                Scope::Cluster => None,
                Scope::Row => Some(ColumnKey::new(PluginIdx(at as u16), plugin.reads(pod)?, facts)),
            });
        }
        let fingerprint = fingerprint(&keys);
        let columns: Box<[Option<ColumnId>]> =
            keys.into_iter().map(|key| key.map(|key| self.column_for(key))).collect();
        if let Some(known) = self.by_columns.get(&columns) {
            return Ok(*known);
        }
        for column in columns.iter().flatten() {
            self.column_entries[*column].users += 1;
        }
        let at = self.free_slates.pop().unwrap_or(self.slates.len());
        if at == self.slates.len() {
            self.slates.push(Slate::default());
        }
        let usage = self.budget.admit(fingerprint, self.clock, &mut self.recently_evicted);
        self.by_columns.insert(columns.clone(), at);
        self.slates[at] = Slate::new(columns, usage, self.clock);
        Ok(at)
    }

    /// Finds or creates a column. An existing column becomes protected, because it is being used again.
    fn column_for(&mut self, key: ColumnKey) -> ColumnId {
        if let Some(known) = self.by_reads.get(&key) {
            self.budget.promote(&mut self.column_entries[*known].usage);
            return *known;
        }
        let id = self.free_columns.pop().unwrap_or(self.columns.len());
        if id == self.columns.len() {
            self.columns.push(Column::default());
            self.column_entries.push(ColumnEntry::default());
        }
        self.columns[id] = Column::new(key.facts.is_some());
        let usage = self.budget.admit(fingerprint(&key), self.clock, &mut self.recently_evicted);
        self.by_reads.insert(key.clone(), id);
        self.column_entries[id] = ColumnEntry { users: 0, key: Some(key), usage };
        id
    }
}

fn fingerprint(key: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(key)
}

/// Maps recently seen specs to their slates. Entries for dropped specs are eventually removed.
#[derive(Debug, Default)]
struct SlatesBySpec {
    entries: FxHashMap<(usize, Option<Str>), SpecEntry>,
    cleanup_at: usize,
}

/// Minimum number of specs for a cleanup.
const MIN_SPECS_FOR_CLEANUP: usize = 1024;

/// The position of a spec's slate and the attempt that created the slate. A newer slate may have taken the position.
#[derive(Debug)]
struct SpecEntry {
    spec: Weak<SpecInfo>,
    slate: usize,
    created: u64,
}

impl SpecEntry {
    fn slate(&self, slates: &[Slate]) -> Option<usize> {
        slates.get(self.slate).is_some_and(|slate| slate.created == self.created).then_some(self.slate)
    }
}

impl SlatesBySpec {
    /// Returns the key of a pod's spec. Specs are shared, so the address identifies a spec while the spec is alive.
    fn key(pod: &PodInfo) -> (usize, Option<Str>) {
        (Arc::as_ptr(&pod.derived).addr(), pod.node_name.clone())
    }

    fn get(&self, pod: &PodInfo, slates: &[Slate]) -> Option<usize> {
        self.entries.get(&Self::key(pod)).and_then(|entry| entry.slate(slates))
    }

    fn insert(&mut self, pod: &PodInfo, slate: usize, slates: &[Slate]) {
        if self.entries.len() >= self.cleanup_at.max(MIN_SPECS_FOR_CLEANUP) {
            self.entries.retain(|_, entry| entry.spec.strong_count() > 0 && entry.slate(slates).is_some());
            self.cleanup_at = 2 * self.entries.len();
        }
        let entry = SpecEntry { spec: Arc::downgrade(&pod.derived), slate, created: slates[slate].created };
        self.entries.insert(Self::key(pod), entry);
    }
}
