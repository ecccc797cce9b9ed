//! What outlives an attempt: what plugins that judge [rows](crate::scope::Row) said of each.
//!
//! - A [`column`] holds the answers of one plugin for all pods of which it reads the same ([`crate::reads`]): it is
//!   shared by templates that differ only in what the plugin does not look at.
//! - A [`slate`] puts the columns of a pod together: which rows fit, and the sums of their scores. After a pod has
//!   landed one row differs, so for the next pod of its template one row is looked at again. This makes the cost of a
//!   decision almost independent of the number of nodes.
//!
//! Invariant: what is kept equals what the plugins would say now. It is bounded by bytes; the slates that were not
//! used for longest go first, and columns that no slate uses any more go with them.

mod column;
mod slate;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

pub(crate) use column::{Asked, Column};
use slate::{ColumnId, Desk, Slate};

use crate::{
    cycle::Cycle,
    guard::PointError,
    meter::Laps,
    nodeset::NodeSet,
    plugin::Scope,
    pod::{PodInfo, SpecInfo},
    profile::Profile,
    reads::Reads,
    sweep::PluginIdx,
    totals::Totals,
};

/// A slate that is kept. Valid until the next call of [`Kept::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlateId(usize);

/// Columns and slates of one profile.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    columns: Vec<Column>,
    /// By column: how many slates use it, and the key under which it is found.
    uses: Vec<(usize, Option<(PluginIdx, Reads)>)>,
    by_reads: FxHashMap<(PluginIdx, Reads), ColumnId>,
    free: Vec<ColumnId>,
    slates: Vec<Slate>,
    by_columns: FxHashMap<Box<[Option<ColumnId>]>, usize>,
    by_spec: BySpec,
    clock: u64,
    at_most: usize,
    /// [`Self::entries`] when the size was measured last.
    measured: usize,
}

impl Kept {
    /// Keeps about so many bytes at most, and always the slate in use.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { at_most: bytes, ..Self::default() }
    }

    /// The slate for pods like this one, its columns caught up with the nodes.
    pub(crate) fn open(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<SlateId, PointError> {
        self.clock += 1;
        let known = self.by_spec.get(cx.pod);
        let at = match known {
            Some(at) => at,
            None => {
                self.make_room(cx.nodes.rows());
                let at = self.find(profile, cx.pod)?;
                self.by_spec.insert(cx.pod, at);
                at
            }
        };
        self.slates[at].used = self.clock;
        for (plugin, column) in self.slates[at].columns.iter().enumerate() {
            if let Some(column) = column {
                self.columns[*column].catch_up(profile.asked(PluginIdx(plugin as u16), cx))?;
            }
        }
        Ok(SlateId(at))
    }

    /// Brings the slate's rows and totals up to date.
    pub(crate) fn sync(
        &mut self,
        slate: SlateId,
        profile: &Profile,
        cx: &Cycle<'_>,
        laps: &mut Laps,
    ) -> Result<(), PointError> {
        self.slates[slate.0].sync(Desk { profile, cx, columns: &mut self.columns, laps })
    }

    /// The rows that no row-scoped Filter plugin rejects, after [`Self::sync`].
    pub(crate) fn fits(&self, slate: SlateId) -> &NodeSet {
        self.slates[slate.0].fits()
    }

    /// How many rows these are.
    pub(crate) fn how_many_fit(&self, slate: SlateId) -> usize {
        self.slates[slate.0].how_many_fit()
    }

    /// The sums of kept scores, if they can be used, after [`Self::sync`].
    pub(crate) fn totals(&self, slate: SlateId) -> Option<&Totals> {
        self.slates[slate.0].totals()
    }

    /// Why there are no totals, if a plugin failed.
    pub(crate) fn take_score_failure(&mut self, slate: SlateId) -> Option<PointError> {
        self.slates[slate.0].take_score_failure()
    }

    /// The column of a row-scoped plugin.
    pub(crate) fn column(&self, slate: SlateId, plugin: PluginIdx) -> Option<&Column> {
        self.slates[slate.0].columns[plugin.at()].map(|column| &self.columns[column])
    }

    /// The same, to ask it.
    pub(crate) fn column_mut(&mut self, slate: SlateId, plugin: PluginIdx) -> Option<&mut Column> {
        self.slates[slate.0].columns[plugin.at()].map(|column| &mut self.columns[column])
    }

    /// Finds or makes the slate of a pod whose spec was not seen lately.
    fn find(&mut self, profile: &Profile, pod: &PodInfo) -> Result<usize, PointError> {
        let mut columns = Vec::with_capacity(profile.plugins().len());
        for (at, plugin) in profile.plugins().iter().enumerate() {
            columns.push(match plugin.scope() {
                Scope::Cluster => None,
                Scope::Row => Some((PluginIdx(at as u16), plugin.reads(pod)?)),
            });
        }
        let columns: Box<[Option<ColumnId>]> =
            columns.into_iter().map(|key| key.map(|key| self.column_for(key))).collect();
        if let Some(known) = self.by_columns.get(&columns) {
            return Ok(*known);
        }
        for column in columns.iter().flatten() {
            self.uses[*column].0 += 1;
        }
        self.by_columns.insert(columns.clone(), self.slates.len());
        self.slates.push(Slate::new(columns));
        Ok(self.slates.len() - 1)
    }

    fn column_for(&mut self, key: (PluginIdx, Reads)) -> ColumnId {
        if let Some(known) = self.by_reads.get(&key) {
            return *known;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.columns.push(Column::default());
            self.uses.push((0, None));
            self.columns.len() - 1
        });
        self.uses[id] = (0, Some(key.clone()));
        self.by_reads.insert(key, id);
        id
    }

    /// Lets go of what was not used for longest until the rest is small enough. To measure is to look at everything, so
    /// this waits until there is an eighth more than after the last time: kept is never much more than allowed.
    fn make_room(&mut self, rows: usize) {
        if self.entries(rows) <= self.measured + self.measured / 8 {
            return;
        }
        let size = self.size();
        if size > self.at_most {
            self.shrink(size);
        }
        self.measured = self.entries(rows);
    }

    /// About how many answers are kept, were all slates full.
    fn entries(&self, rows: usize) -> usize {
        self.slates.len() * (rows + 1)
    }

    /// Drops the slates that were not used for longest, but for the last one, until the rest is small enough. `size` is
    /// that of everything.
    fn shrink(&mut self, mut size: usize) {
        let mut by_age: Vec<usize> = (0..self.slates.len()).collect();
        by_age.sort_unstable_by_key(|at| std::cmp::Reverse(self.slates[*at].used));
        let mut stays = vec![true; self.slates.len()];
        while by_age.len() > 1 && size > self.at_most {
            let Some(oldest) = by_age.pop() else { break };
            stays[oldest] = false;
            size -= self.slates[oldest].size() + self.release_columns(oldest);
        }
        let mut places = 0..;
        let moved: Vec<Option<usize>> =
            stays.iter().map(|stays| if *stays { places.next() } else { None }).collect();
        let mut staying = stays.into_iter();
        self.slates.retain(|_| staying.next().unwrap_or(true));
        self.by_columns.retain(|_, at| follow(at, &moved));
        self.by_spec.0.retain(|_, (_, at)| follow(at, &moved));
        debug_assert_eq!(size, self.size(), "what was freed is what was measured");
    }

    /// Empties the columns that only this slate uses; returns how many bytes that frees.
    fn release_columns(&mut self, slate: usize) -> usize {
        let mut freed = 0;
        for column in self.slates[slate].columns.iter().flatten() {
            let (uses, key) = &mut self.uses[*column];
            *uses -= 1;
            if *uses == 0 {
                if let Some(key) = key.take() {
                    freed += key.1.size();
                    self.by_reads.remove(&key);
                }
                let gone = std::mem::take(&mut self.columns[*column]);
                freed += gone.size() - self.columns[*column].size();
                self.free.push(*column);
            }
        }
        freed
    }

    /// About how many bytes are kept.
    fn size(&self) -> usize {
        let keys = self.uses.iter().flat_map(|(_, key)| key).map(|(_, reads)| reads.size()).sum::<usize>();
        let columns = self.columns.iter().map(Column::size).sum::<usize>();
        keys + columns + self.slates.iter().map(Slate::size).sum::<usize>()
    }
}

/// Follows a slate to its new place; `false` if it is gone.
fn follow(at: &mut usize, moved: &[Option<usize>]) -> bool {
    match moved[*at] {
        Some(place) => {
            *at = place;
            true
        }
        None => false,
    }
}

/// The slates of specs that were seen lately. A spec that is gone makes room sooner or later.
#[derive(Debug, Default)]
struct BySpec(FxHashMap<(usize, Option<Str>), (Weak<SpecInfo>, usize)>);

impl BySpec {
    /// Specs are shared, so the address tells them apart as long as somebody holds them.
    fn key(pod: &PodInfo) -> (usize, Option<Str>) {
        (Arc::as_ptr(&pod.spec).addr(), pod.node_name.clone())
    }

    fn get(&self, pod: &PodInfo) -> Option<usize> {
        self.0.get(&Self::key(pod)).map(|(_, slate)| *slate)
    }

    fn insert(&mut self, pod: &PodInfo, slate: usize) {
        if self.0.len() >= 1024 && self.0.len().is_power_of_two() {
            self.0.retain(|_, (spec, _)| spec.strong_count() > 0);
        }
        self.0.insert(Self::key(pod), (Arc::downgrade(&pod.spec), slate));
    }
}
