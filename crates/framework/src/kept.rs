//! Answers that outlive an attempt: those of plugins that judge [rows](crate::scope::Row).
//!
//! - A [`column`] holds the answers of one plugin for all pods of which it reads the same ([`crate::reads`]): it is
//!   shared by templates that differ only in what the plugin does not look at.
//! - A [`slate`] puts the columns of a pod together: which rows fit, and the sums of their scores. After a pod has
//!   landed one row differs, so for the next pod of its template one row is looked at again. This makes the cost of a
//!   decision almost independent of the number of nodes.
//! - Only what is asked for again is worth its [`room`]. Slates and columns come as guests, of which there are few. The
//!   second question makes a resident of a guest; one that left before it is remembered for a while as a fingerprint
//!   ([`seen`]), and what is made for the second question is a resident at once. Both have a bound in bytes, which grows
//!   with the node table. Those that were not used for longest go first.
//!
//! Invariant: what is kept equals what the plugins would say now.

mod column;
mod room;
mod seen;
mod slate;
#[cfg(test)]
mod tests;

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, Weak},
};

use harbormaster_api::Str;
use rustc_hash::{FxBuildHasher, FxHashMap};

pub(crate) use column::{Asked, Column};
use room::{Room, Standing, Stay};
use seen::Seen;
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
    /// By column.
    shelves: Vec<Shelf>,
    by_reads: FxHashMap<(PluginIdx, Reads), ColumnId>,
    free_columns: Vec<ColumnId>,
    slates: Vec<Slate>,
    by_columns: FxHashMap<Box<[Option<ColumnId>]>, usize>,
    free_slates: Vec<usize>,
    by_spec: BySpec,
    seen: Seen,
    room: Room,
    /// The number of the attempt.
    clock: u64,
}

/// Where a column is kept.
#[derive(Debug, Default)]
struct Shelf {
    /// Number of slates that use it.
    users: usize,
    /// Under what it is found; `None` of an empty shelf.
    key: Option<(PluginIdx, Reads)>,
    stay: Stay,
}

impl Shelf {
    /// About how many bytes it holds, with its entry in the map.
    fn size(&self) -> usize {
        let reads = self.key.as_ref().map_or(0, |(_, reads)| reads.size());
        2 * (size_of::<Self>() + reads)
    }
}

impl Kept {
    /// Keeps about so many bytes at most, however large the node table is.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { room: Room::new(bytes), ..Self::default() }
    }

    /// The slate for pods like this one, its columns caught up with the nodes.
    pub(crate) fn open(&mut self, profile: &Profile, cx: &Cycle<'_>) -> Result<SlateId, PointError> {
        self.clock += 1;
        let at = match self.by_spec.get(cx.pod, &self.slates) {
            Some(known) => known,
            None => {
                self.make_room(cx.nodes.rows());
                let found = self.find(profile, cx.pod)?;
                self.by_spec.insert(cx.pod, found, &self.slates);
                found
            }
        };
        self.use_slate(at);
        for (plugin, column) in self.slates[at].columns.iter().enumerate() {
            if let Some(column) = column {
                self.shelves[*column].stay.used = self.clock;
                self.columns[*column].catch_up(profile.asked(PluginIdx(plugin as u16), cx))?;
            }
        }
        Ok(SlateId(at))
    }

    /// A guest that was made by another attempt becomes a resident, with its columns.
    fn use_slate(&mut self, at: usize) {
        let slate = &mut self.slates[at];
        slate.stay.used = self.clock;
        if slate.stay.standing == Standing::Resident || slate.made == self.clock {
            return;
        }
        self.room.promote(&mut slate.stay);
        for column in slate.columns.iter().flatten() {
            self.room.promote(&mut self.shelves[*column].stay);
        }
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
        let mut keys = Vec::with_capacity(profile.plugins().len());
        for (at, plugin) in profile.plugins().iter().enumerate() {
            keys.push(match plugin.scope() {
                Scope::Cluster => None,
                Scope::Row => Some((PluginIdx(at as u16), plugin.reads(pod)?)),
            });
        }
        let print = fingerprint(&keys);
        let columns: Box<[Option<ColumnId>]> =
            keys.into_iter().map(|key| key.map(|key| self.column_for(key))).collect();
        if let Some(known) = self.by_columns.get(&columns) {
            return Ok(*known);
        }
        for column in columns.iter().flatten() {
            self.shelves[*column].users += 1;
        }
        let at = self.free_slates.pop().unwrap_or(self.slates.len());
        if at == self.slates.len() {
            self.slates.push(Slate::default());
        }
        let stay = self.room.arrive(print, self.clock, &mut self.seen);
        self.by_columns.insert(columns.clone(), at);
        self.slates[at] = Slate::new(columns, stay, self.clock);
        Ok(at)
    }

    /// Finds or makes a column. One that was there before is asked for again.
    fn column_for(&mut self, key: (PluginIdx, Reads)) -> ColumnId {
        if let Some(known) = self.by_reads.get(&key) {
            self.room.promote(&mut self.shelves[*known].stay);
            return *known;
        }
        let id = self.free_columns.pop().unwrap_or(self.columns.len());
        if id == self.columns.len() {
            self.columns.push(Column::default());
            self.shelves.push(Shelf::default());
        }
        let stay = self.room.arrive(fingerprint(&key), self.clock, &mut self.seen);
        self.by_reads.insert(key.clone(), id);
        self.shelves[id] = Shelf { users: 0, key: Some(key), stay };
        id
    }
}

/// Fingerprint of something that was asked for.
fn fingerprint(asked_for: &impl Hash) -> u64 {
    FxBuildHasher.hash_one(asked_for)
}

/// The slates of specs that were seen lately. A spec that is gone makes room sooner or later.
#[derive(Debug, Default)]
struct BySpec {
    known: FxHashMap<(usize, Option<Str>), Known>,
    tidy_at: usize,
}

/// Fewer specs are not worth tidying up.
const FEW_SPECS: usize = 1024;

/// A spec's slate, and when that was made: another one may be in its place by now.
#[derive(Debug)]
struct Known {
    spec: Weak<SpecInfo>,
    slate: usize,
    made: u64,
}

impl Known {
    fn slate(&self, slates: &[Slate]) -> Option<usize> {
        slates.get(self.slate).is_some_and(|slate| slate.made == self.made).then_some(self.slate)
    }
}

impl BySpec {
    /// Specs are shared, so the address tells them apart as long as somebody holds them.
    fn key(pod: &PodInfo) -> (usize, Option<Str>) {
        (Arc::as_ptr(&pod.spec).addr(), pod.node_name.clone())
    }

    fn get(&self, pod: &PodInfo, slates: &[Slate]) -> Option<usize> {
        self.known.get(&Self::key(pod)).and_then(|known| known.slate(slates))
    }

    fn insert(&mut self, pod: &PodInfo, slate: usize, slates: &[Slate]) {
        if self.known.len() >= self.tidy_at.max(FEW_SPECS) {
            self.known.retain(|_, known| known.spec.strong_count() > 0 && known.slate(slates).is_some());
            self.tidy_at = 2 * self.known.len();
        }
        let known = Known { spec: Arc::downgrade(&pod.spec), slate, made: slates[slate].made };
        self.known.insert(Self::key(pod), known);
    }
}
