//! One scheduling attempt: from a pod and the node table to a node, or to the reasons why there is none.
//!
//! [`Attempt::find`] runs PreFilter, Filter, PreScore, Score and normalisation and chooses. Whatever row-scoped
//! plugins said about rows that have not changed comes from [`crate::classes`].

mod dry_run;
mod explain;
mod narrowed;
mod score;
mod walk;

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

pub use dry_run::RowDryRun;
pub use explain::{Explanation, ScoreSheet};

use crate::{
    classes::{ClassTable, Classes, PointError, failed},
    cluster::Cluster,
    cycle::Cycle,
    diagnosis::Diagnosis,
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, PluginError, Reject},
    plugin::{ErasedPlugin, PreFilterAnswer, Scope, Slot},
    pod::PodInfo,
    profile::Profile,
    sweep::{PluginIdx, Sweep, Verdicts},
    window::{Ranking, Tie, Window},
};
use narrowed::Narrowed;
use walk::{best_rotating, considered, walk};

/// How nodes are looked at and chosen.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Which of the feasible nodes are scored.
    pub window: Window,
    /// Which of equally good nodes is taken.
    pub tie: Tie,
}

/// Pods that are expected on a node once others are gone from it, and therefore count there.
#[derive(Clone, Debug)]
pub struct NominatedRow {
    /// The node.
    pub row: NodeIdx,
    /// Pods of equal or higher priority, other than the pod of the attempt.
    pub pods: Vec<Arc<PodInfo>>,
}

/// Where the pod goes, or why nowhere.
#[derive(Debug)]
pub enum Found {
    /// The chosen node.
    Node {
        /// Its row.
        row: NodeIdx,
        /// How many nodes were looked at.
        evaluated: usize,
        /// How many of them fit.
        feasible: usize,
        /// With [`Tie::FirstOnHeap`]: the candidates and the rest of their ranking.
        ranking: Option<(Vec<Str>, Ranking)>,
    },
    /// No node fits.
    Nowhere(Diagnosis),
}

/// An attempt that ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The cluster is empty.
    #[error("no nodes available to schedule pods")]
    NoNodes,
    /// A plugin failed unexpectedly.
    #[error("{}", point_error(.0))]
    Plugin(PointError),
    /// A plugin's score is outside 0..=100.
    #[error(
        "applying score defaultWeights on Score plugins: plugin {plugin:?} returns an invalid score {score}, \
         it should in the range of [0, 100] after normalizing"
    )]
    InvalidScore {
        /// Which plugin.
        plugin: &'static str,
        /// What it said.
        score: i64,
    },
}

impl From<PointError> for AttemptError {
    fn from(error: PointError) -> Self {
        Self::Plugin(error)
    }
}

fn point_error(error: &PointError) -> String {
    let (plugin, source) = (error.plugin, &error.source);
    match error.point {
        ExtensionPoint::Filter => format!("running {plugin:?} filter plugin: {source}"),
        ExtensionPoint::Score => format!("running Score plugins: plugin {plugin:?} failed with: {source}"),
        point => format!("running {} plugin {plugin:?}: {source}", point.name()),
    }
}

/// Runs attempts for one profile, keeping what may be kept between them.
pub struct Attempt {
    profile: Arc<Profile>,
    classes: Classes,
    /// Filter states of cluster-scoped plugins in the attempt in progress.
    slots: Vec<Slot>,
    fits: NodeSet,
    overlay: Verdicts,
    /// Rows whose rejection in `overlay` counts whatever a kept filter says.
    forced: NodeSet,
    /// What PreFilter said in the attempt in progress.
    pre_filtered: PreFiltered,
    scratch: score::Scratch,
    /// The rows that competed in the attempt in progress; `None` stands for all that fit.
    competed: Option<Vec<NodeIdx>>,
}

/// What PreFilter said about all nodes at once.
#[derive(Debug, Default)]
enum PreFiltered {
    /// Every node may fit.
    #[default]
    Open,
    /// Only these may; the others are rejected so.
    Narrowed(NodeSet, Reject),
    /// None does.
    Rejected(Reject),
}

impl Attempt {
    /// An attempt runner for `profile` that keeps the answers for the 64 classes of pods seen last.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self::keeping(profile, 64)
    }

    /// An attempt runner that keeps the answers for so many classes of pods.
    pub fn keeping(profile: Arc<Profile>, classes: usize) -> Self {
        Self {
            profile,
            classes: Classes::keeping(classes),
            slots: Vec::new(),
            fits: NodeSet::default(),
            overlay: Verdicts::default(),
            forced: NodeSet::default(),
            pre_filtered: PreFiltered::Open,
            scratch: score::Scratch::default(),
            competed: None,
        }
    }

    /// The profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Looks for a node for `pod`.
    ///
    /// `start` is where the walk over nodes begins; it moves on as kube-scheduler's does. `preferred` are nodes to
    /// try first (the nominated node, a hint): the first that fits is taken without scoring.
    ///
    /// # Errors
    /// When the cluster is empty, or a plugin fails unexpectedly.
    pub fn find(
        &mut self,
        cluster: &mut Cluster,
        pod: &PodInfo,
        search: Search,
        start: &mut usize,
        nominated: &[NominatedRow],
        preferred: &[Str],
    ) -> Result<Found, AttemptError> {
        if cluster.node_count() == 0 {
            return Err(AttemptError::NoNodes);
        }
        let profile = self.profile.clone();
        self.prepare(cluster, pod)?;
        self.overlay.reset();
        self.forced.clear();
        self.pre_filtered = PreFiltered::Open;
        self.competed = Some(Vec::new());
        let narrowed = match self.pre_filter(&profile, cluster, pod)? {
            Ok(narrowed) => narrowed,
            Err(diagnosis) => {
                if let Some((_, reject)) = &diagnosis.pre_filter {
                    self.pre_filtered = PreFiltered::Rejected(reject.clone());
                }
                return Ok(Found::Nowhere(diagnosis));
            }
        };
        if let Some(only) = &narrowed.only {
            self.pre_filtered = PreFiltered::Narrowed(only.clone(), narrowed.outside());
        }
        let simple = nominated.is_empty() && self.all_filters_are_kept();
        if simple {
            let table = self.classes.get(&profile, cluster, pod)?;
            self.fits.copy_from(&table.fits);
        } else {
            self.filter_anew(&profile, cluster, pod, &narrowed, nominated)?;
        }
        if let Some(only) = &narrowed.only {
            self.fits.intersect(only);
        }
        let preferred = preferred.iter().find_map(|name| cluster.find(name));
        if let Some(row) = preferred.filter(|row| self.fits.contains(*row)) {
            return Ok(Found::Node { row, evaluated: 1, feasible: 1, ranking: None });
        }
        let considered = narrowed.only.as_ref().map_or(cluster.node_count(), NodeSet::len);
        let wanted = search.window.wanted(considered, profile.percentage_of_nodes_to_score());
        let wanted = if profile.scorers().is_empty() { 1 } else { wanted };
        let everything = wanted >= considered;
        if everything && search.tie == Tie::Rotate {
            let as_kept = simple && narrowed.only.is_none();
            let Some(row) = self.best(&profile, cluster, pod, *start, as_kept)? else {
                return Ok(Found::Nowhere(self.diagnose(&profile, cluster, pod, &narrowed)?));
            };
            *start = (row.at() + 1) % cluster.rows().max(1);
            self.competed = None;
            return Ok(Found::Node { row, evaluated: considered, feasible: self.fits.len(), ranking: None });
        }
        let walk = walk(cluster, &self.fits, narrowed.only.as_ref(), *start, wanted, preferred);
        let mut ranking = None;
        let row = match walk.feasible.as_slice() {
            [] => None,
            [one] => Some(*one),
            many => {
                let totals = self.score(&profile, cluster, pod, many)?;
                Some(match search.tie {
                    Tie::FirstOnHeap => {
                        let mut ranked = Ranking::new(totals);
                        let best = ranked.pop().map_or(many[0], |at| many[at]);
                        let names = many.iter().map(|row| cluster.node(*row).name().clone()).collect();
                        ranking = Some((names, ranked));
                        best
                    }
                    Tie::Rotate => best_rotating(many, &totals, *start, cluster.rows()),
                })
            }
        };
        *start = (*start + walk.visited) % cluster.node_count();
        match row {
            Some(row) => {
                let (evaluated, feasible) = (walk.visited, walk.feasible.len());
                self.competed = Some(walk.feasible);
                Ok(Found::Node { row, evaluated, feasible, ranking })
            }
            None => Ok(Found::Nowhere(self.diagnose(&profile, cluster, pod, &narrowed)?)),
        }
    }

    /// Lets indexes get ready for the pod.
    fn prepare(&self, cluster: &mut Cluster, pod: &PodInfo) -> Result<(), PointError> {
        for (plugin, kind) in self.profile.indexed() {
            let erased = self.profile.plugin(*plugin);
            cluster.keep(*kind);
            let (known, indexes) = cluster.split();
            erased.prepare(indexes, known, pod).map_err(failed(erased.name(), ExtensionPoint::PreFilter))?;
        }
        Ok(())
    }

    /// Whether some Filter plugin rejects the pod on that node, nominated pods aside.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn rejects(
        &mut self,
        cluster: &mut Cluster,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> Result<bool, AttemptError> {
        let profile = self.profile.clone();
        self.prepare(cluster, pod)?;
        if self.pre_filter(&profile, cluster, pod)?.is_err() {
            return Ok(false);
        }
        let Some(table) = self.classes.last(pod) else { return Ok(false) };
        let slot = |plugin| slot_of(&profile, table, &self.slots, plugin);
        Ok(filter_row(&profile, &Cycle::new(cluster, pod), slot, row)?.is_err())
    }

    /// Whether Reserve plugins accept the choice. The caller undoes with [`Self::unreserve`] in any case but success.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn reserve(
        &mut self,
        cluster: &Cluster,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> Result<Result<(), (&'static str, Reject)>, PointError> {
        let cx = Cycle::new(cluster, pod);
        let table = self.classes.last(pod);
        for plugin in self.profile.at(ExtensionPoint::Reserve) {
            let erased = self.profile.plugin(*plugin);
            let slot = table.map_or(&None, |table| slot_of(&self.profile, table, &self.slots, *plugin));
            let verdict =
                erased.reserve(&cx, slot, row).map_err(failed(erased.name(), ExtensionPoint::Reserve))?;
            if let Err(reject) = verdict {
                return Ok(Err((erased.name(), reject)));
            }
        }
        Ok(Ok(()))
    }

    /// A question of the form "what if" about one row. Uses the states of the attempt in progress; `nominated` are
    /// pods of equal or higher priority that are expected on the node.
    pub fn dry_run<'a>(
        &'a self,
        cluster: &'a mut Cluster,
        pod: &'a PodInfo,
        row: NodeIdx,
        nominated: &'a [Arc<PodInfo>],
    ) -> Option<RowDryRun<'a>> {
        let table = self.classes.last(pod)?;
        Some(RowDryRun::new(&self.profile, table, &self.slots, cluster, pod, row, nominated))
    }

    /// The rejection of one row in the attempt in progress.
    pub fn rejection_of(&self, pod: &PodInfo, row: NodeIdx) -> Option<Reject> {
        let table = self.classes.last(pod)?;
        self.last_word(table, row).cloned()
    }

    /// Those of `rows` that were rejected so in the attempt in progress, in the order given.
    pub fn rows_rejected_with(&self, pod: &PodInfo, rows: &[NodeIdx], fix: Fix) -> Vec<NodeIdx> {
        let Some(table) = self.classes.last(pod) else { return Vec::new() };
        let is_so = |row: &NodeIdx| self.last_word(table, *row).is_some_and(|reject| reject.fix == fix);
        rows.iter().copied().filter(is_so).collect()
    }

    /// Undoes Reserve: every Reserve plugin in reverse order.
    pub fn unreserve(&self, pod: &PodInfo, node: &Str) {
        unreserve(&self.profile, pod, node);
    }

    /// Whether every Filter plugin either has its verdicts kept or has nothing to check in this attempt.
    fn all_filters_are_kept(&self) -> bool {
        let filters = self.profile.at(ExtensionPoint::Filter);
        filters.iter().all(|p| self.profile.plugin(*p).scope() == Scope::Row || self.slots[p.at()].is_none())
    }

    /// PreFilter in order: kept answers for row-scoped plugins, fresh ones for the others.
    fn pre_filter(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
    ) -> Result<Result<Narrowed, Diagnosis>, AttemptError> {
        let nodes = cluster.nodes();
        let table = self.classes.get(profile, cluster, pod)?;
        self.slots.clear();
        let fresh = |p: &Arc<dyn ErasedPlugin>| match p.scope() {
            Scope::Row => None,
            Scope::Cluster => p.default_filter_slot(),
        };
        self.slots.extend(profile.plugins().iter().map(fresh));
        let cx = Cycle::new(cluster, pod);
        let mut narrowed = Narrowed { only: None, by: Vec::new() };
        let mut rejected: Option<(&'static str, Reject)> = None;
        for plugin in profile.at(ExtensionPoint::PreFilter) {
            let erased = profile.plugin(*plugin);
            let answer = match &table.pre_filter[plugin.at()] {
                Some(kept) => kept.clone(),
                None => erased
                    .pre_filter(&cx, &mut self.slots[plugin.at()])
                    .map_err(failed(erased.name(), ExtensionPoint::PreFilter))?,
            };
            match answer {
                PreFilterAnswer::Skip | PreFilterAnswer::Continue(None) => {}
                PreFilterAnswer::Continue(Some(only)) => narrowed.add(erased.name(), only),
                PreFilterAnswer::Reject(reject) => match reject.fix {
                    Fix::NothingHelps => {
                        return Ok(Err(Diagnosis::by_pre_filter(
                            nodes.node_count(),
                            Some(erased.name()),
                            reject,
                            Vec::new(),
                        )));
                    }
                    Fix::EvictionMayHelp => rejected = Some((erased.name(), reject)),
                    Fix::Pending => {
                        let source: PluginError = reject.message().into();
                        let point = ExtensionPoint::PreFilter;
                        return Err(PointError { plugin: erased.name(), point, source }.into());
                    }
                },
            }
            if let Some(reject) = narrowed.nothing_left() {
                return Ok(Err(Diagnosis::by_pre_filter(nodes.node_count(), None, reject, narrowed.by)));
            }
        }
        Ok(match rejected {
            Some((plugin, reject)) => {
                Err(Diagnosis::by_pre_filter(nodes.node_count(), Some(plugin), reject, narrowed.by))
            }
            None => Ok(narrowed),
        })
    }

    /// Filters with everything that cannot come from a kept table: cluster-scoped plugins and nominated pods. Leaves
    /// the rows that fit in `self.fits` and the new rejections in `self.overlay`.
    fn filter_anew(
        &mut self,
        profile: &Profile,
        cluster: &mut Cluster,
        pod: &PodInfo,
        narrowed: &Narrowed,
        nominated: &[NominatedRow],
    ) -> Result<(), AttemptError> {
        let table = self.classes.get(profile, cluster, pod)?;
        self.overlay.reset();
        self.overlay.resize(cluster.rows());
        self.forced.clear();
        self.fits.copy_from(&table.fits);
        let mut open = cluster.live().clone();
        if let Some(only) = &narrowed.only {
            open.intersect(only);
        }
        let last_kept = table.verdicts.plugins().map(|p| profile.filter_rank(p)).max().unwrap_or(0);
        for plugin in profile.at(ExtensionPoint::Filter) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Row || self.slots[plugin.at()].is_none() {
                continue;
            }
            let rank = profile.filter_rank(*plugin);
            let mut rows = self.fits.clone();
            if last_kept > rank {
                // Rows that a kept filter behind this one rejected: this one may have the first word.
                let behind = |row: &NodeIdx| {
                    table.verdicts.get(*row).is_some_and(|(p, _)| profile.filter_rank(*p) > rank)
                        && self.overlay.get(*row).is_none()
                };
                cluster.live().iter().filter(behind).for_each(|row| rows.insert(row));
            }
            rows.intersect(&open);
            let mut sweep = Sweep::new(*plugin, &rows, &mut self.fits, &mut self.overlay);
            erased
                .filter_batch(&Cycle::new(cluster, pod), &self.slots[plugin.at()], &mut sweep)
                .map_err(failed(erased.name(), ExtensionPoint::Filter))?;
        }
        for NominatedRow { row, pods } in nominated.iter().filter(|n| open.contains(n.row)) {
            let mut asked = RowDryRun::new(profile, table, &self.slots, cluster, pod, *row, pods);
            if let Err((plugin, reject)) = asked.fits_with_nominated()? {
                drop(asked);
                self.fits.remove(*row);
                self.overlay.set(*row, plugin, reject);
                self.forced.insert(*row);
            }
        }
        Ok(())
    }

    /// Why a row was rejected, by PreFilter or by a filter.
    fn last_word<'a>(&'a self, table: &'a ClassTable, row: NodeIdx) -> Option<&'a Reject> {
        match &self.pre_filtered {
            PreFiltered::Rejected(reject) => Some(reject),
            PreFiltered::Narrowed(only, reject) if !only.contains(row) => Some(reject),
            _ => rejection(&self.profile, table, &self.overlay, &self.forced, row).map(|(_, reject)| reject),
        }
    }

    fn diagnose(
        &mut self,
        profile: &Profile,
        cluster: &Cluster,
        pod: &PodInfo,
        narrowed: &Narrowed,
    ) -> Result<Diagnosis, AttemptError> {
        let nodes = cluster.nodes();
        let table = self.classes.get(profile, cluster, pod)?;
        let mixed = !self.overlay.is_empty() || narrowed.only.is_some();
        let counts: Vec<((PluginIdx, Reject), usize)> = if mixed {
            let mut merged = Verdicts::default();
            merged.resize(nodes.rows());
            let rows: Vec<NodeIdx> = considered(nodes, narrowed.only.as_ref()).collect();
            for row in &rows {
                if let Some((plugin, reject)) = rejection(profile, table, &self.overlay, &self.forced, *row) {
                    merged.set(*row, *plugin, reject.clone());
                }
            }
            merged.count(rows.into_iter()).into_iter().map(|(why, n)| (why.clone(), n)).collect()
        } else {
            let counted = table.verdicts.count(nodes.order().iter().copied());
            counted.into_iter().map(|(why, n)| (why.clone(), n)).collect()
        };
        let mut diagnosis = Diagnosis::new(nodes.node_count());
        for ((plugin, reject), n) in counts {
            diagnosis.add(profile.plugin(plugin).name(), &reject, n);
        }
        if let Some(only) = &narrowed.only {
            diagnosis.add_outside(&narrowed.by, &narrowed.outside(), nodes.node_count() - only.len());
        }
        Ok(diagnosis)
    }
}

/// Undoes Reserve: every Reserve plugin of the profile in reverse order.
pub fn unreserve(profile: &Profile, pod: &PodInfo, node: &Str) {
    for plugin in profile.at(ExtensionPoint::Reserve).iter().rev() {
        profile.plugin(*plugin).unreserve(pod, node);
    }
}

/// The rejection that counts for a row: the earlier one in the order of Filter plugins.
fn rejection<'a>(
    profile: &Profile,
    table: &'a ClassTable,
    overlay: &'a Verdicts,
    forced: &NodeSet,
    row: NodeIdx,
) -> Option<&'a (PluginIdx, Reject)> {
    if forced.contains(row) {
        return overlay.get(row);
    }
    match (table.verdicts.get(row), overlay.get(row)) {
        (Some(kept), Some(new)) if profile.filter_rank(kept.0) < profile.filter_rank(new.0) => Some(kept),
        (kept, None) => kept,
        (_, new) => new,
    }
}

/// A plugin's filter state: kept with the class, or made in this attempt.
fn slot_of<'a>(profile: &Profile, table: &'a ClassTable, fresh: &'a [Slot], plugin: PluginIdx) -> &'a Slot {
    match profile.plugin(plugin).scope() {
        Scope::Row => &table.filter_slots[plugin.at()],
        Scope::Cluster => &fresh[plugin.at()],
    }
}

fn filter_row<'a>(
    profile: &Profile,
    cx: &Cycle<'_>,
    slot: impl Fn(PluginIdx) -> &'a Slot,
    row: NodeIdx,
) -> Result<Result<(), (PluginIdx, Reject)>, PointError> {
    for plugin in profile.at(ExtensionPoint::Filter) {
        let erased = profile.plugin(*plugin);
        let verdict =
            erased.filter(cx, slot(*plugin), row).map_err(failed(erased.name(), ExtensionPoint::Filter))?;
        if let Err(reject) = verdict {
            return Ok(Err((*plugin, reject)));
        }
    }
    Ok(Ok(()))
}
