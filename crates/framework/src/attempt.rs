//! One scheduling attempt: from a pod and the node table to a node, or to the reasons why there is none.
//!
//! [`Attempt::find`] runs PreFilter, Filter, PreScore, Score and normalisation and chooses. Whatever row-scoped
//! plugins said about rows that have not changed comes from [`crate::classes`].

mod explain;
mod narrowed;
mod walk;

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

pub use explain::{Explanation, ScoreSheet};

use crate::{
    classes::{ClassTable, Classes, PointError, failed},
    cycle::Cycle,
    diagnosis::Diagnosis,
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, Normalize, PluginError, PluginResult, Reject, Verdict},
    plugin::{ErasedPlugin, PreFilterAnswer, Scope, Slot},
    pod::PodInfo,
    profile::Profile,
    sweep::{PluginIdx, Sweep, Verdicts},
    table::NodeTable,
    totals::normalized,
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
        nodes: &mut NodeTable,
        pod: &PodInfo,
        search: Search,
        start: &mut usize,
        nominated: &[NominatedRow],
        preferred: &[Str],
    ) -> Result<Found, AttemptError> {
        if nodes.node_count() == 0 {
            return Err(AttemptError::NoNodes);
        }
        let profile = self.profile.clone();
        let narrowed = match self.pre_filter(&profile, nodes, pod)? {
            Ok(narrowed) => narrowed,
            Err(diagnosis) => return Ok(Found::Nowhere(diagnosis)),
        };
        let simple = nominated.is_empty() && self.all_filters_are_kept();
        self.overlay.reset();
        if !simple {
            self.filter_anew(&profile, nodes, pod, &narrowed, nominated)?;
        }
        let table = self.classes.get(&profile, nodes, pod)?;
        if simple {
            self.fits.copy_from(&table.fits);
        }
        if let Some(only) = &narrowed.only {
            self.fits.intersect(only);
        }
        let preferred = preferred.iter().find_map(|name| nodes.find(name));
        if let Some(row) = preferred.filter(|row| self.fits.contains(*row)) {
            return Ok(Found::Node { row, evaluated: 1, feasible: 1, ranking: None });
        }
        let considered = narrowed.only.as_ref().map_or(nodes.node_count(), NodeSet::len);
        let wanted = search.window.wanted(considered, profile.percentage_of_nodes_to_score());
        let wanted = if profile.scorers().is_empty() { 1 } else { wanted };
        let everything = wanted >= considered;
        let best_is_known = everything && search.tie == Tie::Rotate && narrowed.only.is_none() && simple;
        if let Some(totals) = table.totals.as_ref().filter(|totals| best_is_known && totals.valid()) {
            let Some(row) = totals.best(*start) else {
                return Ok(Found::Nowhere(self.diagnose(&profile, nodes, pod, &narrowed)?));
            };
            *start = (row.at() + 1) % nodes.rows().max(1);
            return Ok(Found::Node { row, evaluated: considered, feasible: self.fits.len(), ranking: None });
        }
        let walk = walk(nodes, &self.fits, narrowed.only.as_ref(), *start, wanted, preferred);
        let total_nodes = nodes.node_count();
        let mut ranking = None;
        let row = match walk.feasible.as_slice() {
            [] => {
                *start = (*start + walk.visited) % total_nodes;
                return Ok(Found::Nowhere(self.diagnose(&profile, nodes, pod, &narrowed)?));
            }
            [one] => *one,
            many => {
                let totals = self.score(&profile, nodes, pod, many)?;
                match search.tie {
                    Tie::FirstOnHeap => {
                        let mut ranked = Ranking::new(totals);
                        let best = ranked.pop().map_or(many[0], |at| many[at]);
                        let names = many.iter().map(|row| nodes.node(*row).name().clone()).collect();
                        ranking = Some((names, ranked));
                        best
                    }
                    Tie::Rotate => best_rotating(many, &totals, *start, nodes.rows()),
                }
            }
        };
        *start = match search.tie {
            Tie::FirstOnHeap => (*start + walk.visited) % total_nodes,
            Tie::Rotate if everything => (row.at() + 1) % nodes.rows().max(1),
            Tie::Rotate => (*start + walk.visited) % total_nodes,
        };
        Ok(Found::Node { row, evaluated: walk.visited, feasible: walk.feasible.len(), ranking })
    }

    /// Whether some Filter plugin rejects the pod on that node, nominated pods aside.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn rejects(&mut self, nodes: &NodeTable, pod: &PodInfo, row: NodeIdx) -> Result<bool, AttemptError> {
        let profile = self.profile.clone();
        if self.pre_filter(&profile, nodes, pod)?.is_err() {
            return Ok(false);
        }
        Ok(self.fits_row(nodes, pod, row)?.is_err())
    }

    /// Whether Reserve plugins accept the choice. The caller undoes with [`Self::unreserve`] in any case but success.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn reserve(
        &mut self,
        nodes: &NodeTable,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> Result<Result<(), (&'static str, Reject)>, PointError> {
        let cx = Cycle { nodes, pod };
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

    /// Whether the pod fits that one row as the table stands, by every Filter plugin in order. Uses the states of the
    /// attempt in progress.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    fn fits_row(&self, nodes: &NodeTable, pod: &PodInfo, row: NodeIdx) -> Result<Verdict, PointError> {
        let Some(table) = self.classes.last(pod) else { return Ok(Ok(())) };
        let slot = |plugin| slot_of(&self.profile, table, &self.slots, plugin);
        let verdict = filter_row(&self.profile, &Cycle { nodes, pod }, slot, row)?;
        Ok(verdict.map_err(|(_, reject)| reject))
    }

    /// Whether the pod would fit that row without the pods of those UIDs, which are put back afterwards. Uses the states
    /// of the attempt in progress.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn fits_row_without(
        &self,
        nodes: &mut NodeTable,
        pod: &PodInfo,
        row: NodeIdx,
        gone: &[Str],
    ) -> Result<Verdict, PointError> {
        let Some(table) = self.classes.last(pod) else { return Ok(Ok(())) };
        let mut slots = copy_slots(&self.profile, table, &self.slots);
        let taken = nodes.what_if_removed(row, gone);
        let cx = Cycle { nodes, pod };
        let told = tell(&self.profile, &taken, |plugin, at, other| {
            plugin.remove_pod(&cx, &mut slots[at], other, row)
        });
        let verdict = told.and_then(|()| filter_row(&self.profile, &cx, |plugin| &slots[plugin.at()], row));
        for other in taken.into_iter().rev() {
            nodes.what_if_added(row, other);
        }
        Ok(verdict?.map_err(|(_, reject)| reject))
    }

    /// The rejection of one row in the attempt in progress.
    pub fn rejection_of(&self, pod: &PodInfo, row: NodeIdx) -> Option<Reject> {
        let table = self.classes.last(pod)?;
        rejection(&self.profile, table, &self.overlay, row).map(|(_, reject)| reject.clone())
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
        nodes: &NodeTable,
        pod: &PodInfo,
    ) -> Result<Result<Narrowed, Diagnosis>, AttemptError> {
        let table = self.classes.get(profile, nodes, pod)?;
        self.slots.clear();
        let fresh = |p: &Arc<dyn ErasedPlugin>| match p.scope() {
            Scope::Row => None,
            Scope::Cluster => p.default_filter_slot(),
        };
        self.slots.extend(profile.plugins().iter().map(fresh));
        let cx = Cycle { nodes, pod };
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
        nodes: &mut NodeTable,
        pod: &PodInfo,
        narrowed: &Narrowed,
        nominated: &[NominatedRow],
    ) -> Result<(), AttemptError> {
        let table = self.classes.get(profile, nodes, pod)?;
        self.overlay.reset();
        self.overlay.resize(nodes.rows());
        self.fits.copy_from(&table.fits);
        let mut open = nodes.live().clone();
        if let Some(only) = &narrowed.only {
            open.intersect(only);
        }
        for plugin in profile.at(ExtensionPoint::Filter) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Row {
                continue;
            }
            let rank = profile.filter_rank(*plugin);
            let earlier = |row: &NodeIdx| {
                table.verdicts.get(*row).is_some_and(|(p, _)| profile.filter_rank(*p) < rank)
                    || self.overlay.get(*row).is_some()
            };
            let rows: NodeSet = open.iter().filter(|row| !earlier(row)).collect();
            let mut sweep = Sweep::new(*plugin, &rows, &mut self.fits, &mut self.overlay);
            erased
                .filter_batch(&Cycle { nodes, pod }, &self.slots[plugin.at()], &mut sweep)
                .map_err(failed(erased.name(), ExtensionPoint::Filter))?;
        }
        for NominatedRow { row, pods } in nominated {
            let slots = copy_slots(profile, table, &self.slots);
            if let Err((plugin, reject)) = filter_with_nominated(profile, nodes, pod, slots, *row, pods)? {
                self.fits.remove(*row);
                self.overlay.set(*row, plugin, reject);
            }
        }
        Ok(())
    }

    fn diagnose(
        &mut self,
        profile: &Profile,
        nodes: &NodeTable,
        pod: &PodInfo,
        narrowed: &Narrowed,
    ) -> Result<Diagnosis, AttemptError> {
        let table = self.classes.get(profile, nodes, pod)?;
        let mixed = !self.overlay.is_empty() || narrowed.only.is_some();
        let counts: Vec<((PluginIdx, Reject), usize)> = if mixed {
            let mut merged = Verdicts::default();
            merged.resize(nodes.rows());
            let rows: Vec<NodeIdx> = considered(nodes, narrowed.only.as_ref()).collect();
            for row in &rows {
                if let Some((plugin, reject)) = rejection(profile, table, &self.overlay, *row) {
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

    fn score(
        &mut self,
        profile: &Profile,
        nodes: &NodeTable,
        pod: &PodInfo,
        candidates: &[NodeIdx],
    ) -> Result<Vec<i64>, AttemptError> {
        let mut totals = vec![0; candidates.len()];
        self.score_into(profile, nodes, pod, candidates, |at, _, _, _, weighted| totals[at] += weighted)?;
        if profile.scorers().is_empty() {
            totals.fill(1);
        }
        Ok(totals)
    }

    /// Calls `record(candidate, plugin, raw, normalised, weighted)` for every scorer and candidate.
    fn score_into(
        &mut self,
        profile: &Profile,
        nodes: &NodeTable,
        pod: &PodInfo,
        candidates: &[NodeIdx],
        mut record: impl FnMut(usize, &'static str, i64, i64, i64),
    ) -> Result<(), AttemptError> {
        let cx = Cycle { nodes, pod };
        let set: NodeSet = candidates.iter().copied().collect();
        let table = self.classes.get(profile, nodes, pod)?;
        if let Some(failure) = table.take_score_failure() {
            return Err(failure.into());
        }
        let mut fresh: Vec<Slot> = Vec::new();
        fresh.resize_with(profile.plugins().len(), || None);
        for plugin in profile.at(ExtensionPoint::PreScore) {
            let erased = profile.plugin(*plugin);
            if erased.scope() == Scope::Cluster {
                erased
                    .pre_score(&cx, &set, &mut fresh[plugin.at()])
                    .map_err(failed(erased.name(), ExtensionPoint::PreScore))?;
            }
        }
        let mut column = vec![0; nodes.rows()];
        for (at, scorer) in profile.scorers().iter().enumerate() {
            let erased = profile.plugin(scorer.plugin);
            if scorer.scope == Scope::Row {
                if table.raw.get(at).is_none_or(Vec::is_empty) {
                    continue;
                }
                // A candidate may be a row that a kept filter rejected (never so today), hence the copy by candidate.
                candidates.iter().for_each(|row| column[row.at()] = table.raw[at][row.at()]);
            } else {
                if !profile.enabled(scorer.plugin, ExtensionPoint::PreScore) {
                    fresh[scorer.plugin.at()] = erased.default_score_slot();
                }
                if fresh[scorer.plugin.at()].is_none() {
                    continue;
                }
                erased
                    .score_batch(&cx, &fresh[scorer.plugin.at()], &set, &mut column)
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            }
            let raw: Vec<i64> = candidates.iter().map(|row| column[row.at()]).collect();
            if scorer.normalize == Normalize::Custom {
                let slot = &fresh[scorer.plugin.at()];
                erased
                    .normalize(&cx, slot, &set, &mut column)
                    .map_err(failed(erased.name(), ExtensionPoint::Score))?;
            }
            let max = raw.iter().copied().max().unwrap_or(0).max(0);
            for (at, row) in candidates.iter().enumerate() {
                let score = normalized(scorer.normalize, column[row.at()], max);
                if !(0..=100).contains(&score) {
                    return Err(AttemptError::InvalidScore { plugin: erased.name(), score });
                }
                record(at, erased.name(), raw[at], score, score * scorer.weight);
            }
        }
        Ok(())
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
    row: NodeIdx,
) -> Option<&'a (PluginIdx, Reject)> {
    match (table.verdicts.get(row), overlay.get(row)) {
        (Some(kept), Some(new)) if profile.filter_rank(kept.0) < profile.filter_rank(new.0) => Some(kept),
        (kept, None) => kept,
        (_, new) => new,
    }
}

/// The filter states of all plugins, to be changed in a question of the form "what if".
fn copy_slots(profile: &Profile, table: &ClassTable, fresh: &[Slot]) -> Vec<Slot> {
    let all = (0..profile.plugins().len()).map(|at| PluginIdx(at as u16));
    all.map(|plugin| profile.plugin(plugin).clone_slot(slot_of(profile, table, fresh, plugin))).collect()
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

/// Tells every PreFilter plugin, with its position, of pods that join or leave in a question of the form "what if".
fn tell(
    profile: &Profile,
    pods: &[Arc<PodInfo>],
    mut about: impl FnMut(&dyn ErasedPlugin, usize, &PodInfo) -> PluginResult<()>,
) -> Result<(), PointError> {
    for pod in pods {
        for plugin in profile.at(ExtensionPoint::PreFilter) {
            let erased = profile.plugin(*plugin);
            about(&**erased, plugin.at(), pod).map_err(failed(erased.name(), ExtensionPoint::PreFilter))?;
        }
    }
    Ok(())
}

/// Filters one row as if the nominated pods were on it already.
fn filter_with_nominated(
    profile: &Profile,
    nodes: &mut NodeTable,
    pod: &PodInfo,
    mut slots: Vec<Slot>,
    row: NodeIdx,
    nominated: &[Arc<PodInfo>],
) -> Result<Result<(), (PluginIdx, Reject)>, PointError> {
    for other in nominated {
        nodes.what_if_added(row, other.clone());
    }
    let cx = Cycle { nodes, pod };
    let added = tell(profile, nominated, |plugin, at, other| plugin.add_pod(&cx, &mut slots[at], other, row));
    let verdict = added.and_then(|()| filter_row(profile, &cx, |plugin| &slots[plugin.at()], row));
    for other in nominated {
        nodes.end_what_if(row, &other.uid);
    }
    verdict
}
