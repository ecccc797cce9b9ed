//! One scheduling attempt: finds a node for a pod, or the reasons why no node fits.
//!
//! A [`Runner`] makes attempts for one profile and owns the answer cache that they share. [`Runner::find`] narrows the
//! nodes (PreFilter), filters and scores them, and chooses one. The [`Attempt`] that it returns owns its state, so
//! several attempts can exist at the same time; Reserve, PostFilter's dry runs and log messages use that state.

mod draft;
mod dry_run;
mod explain;
mod filter;
mod restriction;
mod score;
mod walk;

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

pub use dry_run::DryRun;
pub use explain::{Explanation, NodeRejection, ScoreSheet};
pub use score::valid;

use crate::{
    answer_cache::{AnswerCache, Column, SlateId},
    api_call::ApiCall,
    assume::Assume,
    cluster::Cluster,
    cycle::{Cycle, Reservation},
    diagnosis::Diagnosis,
    extender::{Answers, EXTENDER_IDX, ExtenderError, Extenders, FilterStage, FilteredRows, Unanswered},
    guard::{Call, PointError, Stopped},
    meter::{Stage, StageTimer, Staged, Status},
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, Reject},
    plugin::Scope,
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::{PluginIdx, Verdicts},
    window::{Ranking, Rotation, Tie, Window},
};
use draft::Draft;
use filter::Narrowing;
use walk::{best_rotating, considered, walk};

/// Settings for searching and choosing nodes.
#[derive(Debug)]
pub struct Search<'a> {
    /// Limit on the number of feasible nodes that are scored.
    pub window: Window,
    /// Choice among equally good nodes.
    pub tie: Tie,
    /// Positions where the search starts; the search advances them.
    pub rotation: &'a mut Rotation,
    /// Nodes to which pods are nominated. These pods are treated as occupying the nodes.
    pub nominated: &'a [NominatedRow],
    /// Nodes to try first, such as the nominated node or the next node of a cached ranking. The first of these nodes
    /// that exists is chosen without scoring if it fits.
    pub preferred: &'a [Str],
    /// The only nodes to consider, as if there were no others; `None` for all nodes.
    pub within: Option<&'a NodeSet>,
}

impl<'a> Search<'a> {
    /// Returns settings that score all nodes and include no nominated pods.
    pub fn all(rotation: &'a mut Rotation) -> Self {
        Self { window: Window::All, tie: Tie::Rotate, rotation, nominated: &[], preferred: &[], within: None }
    }
}

/// A node and the pods that are expected on it once its victims are gone. The pods are treated as already occupying the
/// node.
#[derive(Clone, Debug)]
pub struct NominatedRow {
    /// The node.
    pub row: NodeIdx,
    /// Pods of equal or higher priority, other than the pod of the attempt.
    pub pods: Vec<Arc<PodInfo>>,
}

/// Result of an attempt: a node, or the reasons why no node fits.
#[derive(Debug)]
pub enum Decision {
    /// The chosen node.
    Node {
        /// Row of the node.
        row: NodeIdx,
        /// Number of nodes that were evaluated.
        evaluated: usize,
        /// Number of evaluated nodes that fit.
        feasible: usize,
        /// With [`Tie::FirstOnHeap`]: the candidates and the rest of their ranking.
        ranking: Option<(Vec<Str>, Ranking)>,
    },
    /// No node fits.
    Unschedulable(Diagnosis),
}

/// Error that ended an attempt without a decision.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The cluster has no nodes.
    #[error("no nodes available to schedule pods")]
    NoNodes,
    /// A plugin failed unexpectedly.
    #[error(transparent)]
    Plugin(#[from] PointError),
    /// An extender that is not ignorable failed.
    #[error(transparent)]
    Extender(#[from] ExtenderError),
    /// An extender must be asked first: [`Answers::open`] is the question. The attempt has had no effect.
    #[error("an extender has not answered yet")]
    Unanswered,
    /// A plugin's score is outside 0..=100.
    #[error(
        "applying score defaultWeights on Score plugins: plugin {plugin:?} returns an invalid score {score}, \
         it should in the range of [0, 100] after normalizing"
    )]
    InvalidScore {
        /// Name of the plugin.
        plugin: &'static str,
        /// The invalid score.
        score: i64,
    },
}

impl From<Unanswered> for AttemptError {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Open => Self::Unanswered,
            Unanswered::Failed(error) => error.into(),
        }
    }
}

/// A finished attempt: its decision and the states of its plugins.
#[derive(Debug)]
pub struct Attempt {
    profile: Arc<Profile>,
    pod: Arc<PodInfo>,
    /// Filter state of each plugin.
    states: Vec<Slot>,
    decision: Decision,
    /// Rejections by row; present when no node fits.
    rejections: Option<Box<Rejections>>,
    candidates: Candidates,
}

/// The rejections made in one attempt.
#[derive(Debug, Default)]
struct Rejections {
    /// Rejection of all rows by PreFilter.
    all: Option<Reject>,
    /// The only rows that PreFilter allows, and its rejection of the other rows.
    outside: Option<(NodeSet, Reject)>,
    by_row: Verdicts,
}

impl Rejections {
    fn of(&self, row: NodeIdx) -> Option<&Reject> {
        let outside = self.outside.as_ref().filter(|(only, _)| !only.contains(row));
        let by_pre_filter = self.all.as_ref().or(outside.map(|(_, reject)| reject));
        by_pre_filter.or_else(|| self.by_row.get(row).map(|(_, reject)| reject))
    }

    /// Returns the Filter plugin that rejected the row; `None` if PreFilter rejected the row or the row fits.
    fn filter_of(&self, row: NodeIdx) -> Option<PluginIdx> {
        let is_outside = self.outside.as_ref().is_some_and(|(only, _)| !only.contains(row));
        if self.all.is_some() || is_outside { None } else { self.by_row.get(row).map(|(plugin, _)| *plugin) }
    }
}

/// Rows that are candidates for the pod.
#[derive(Debug)]
enum Candidates {
    Listed(Vec<NodeIdx>),
    All(NodeSet),
}

impl Attempt {
    /// The chosen node, or the reasons why no node fits.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the decision by value.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// Takes the diagnosis out of [`Self::decision`] and leaves an empty one in its place. The result is empty if a
    /// node was chosen.
    pub fn take_diagnosis(&mut self) -> Diagnosis {
        match &mut self.decision {
            Decision::Unschedulable(diagnosis) => std::mem::take(diagnosis),
            Decision::Node { .. } => Diagnosis::default(),
        }
    }

    /// Takes the candidates and the rest of their ranking out of [`Self::decision`].
    pub fn take_ranking(&mut self) -> Option<(Vec<Str>, Ranking)> {
        match &mut self.decision {
            Decision::Node { ranking, .. } => ranking.take(),
            Decision::Unschedulable(_) => None,
        }
    }

    /// Runs the Reserve plugins on the chosen row. `reservation` receives their reservations, and their assumptions are
    /// applied to the cluster. If a plugin fails, the caller must undo the reservations with [`unreserve`].
    ///
    /// # Errors
    /// The first rejection or error.
    pub fn reserve(
        &self,
        cluster: &mut Cluster,
        row: NodeIdx,
        reservation: &mut Reservation,
    ) -> Result<(), Stopped> {
        let status =
            |done: &Result<(), Stopped>| done.as_ref().err().map_or(Status::Success, Stopped::status);
        self.profile.measured(Stage::Reserve, status, || self.reserve_with_all(cluster, row, reservation))
    }

    fn reserve_with_all(
        &self,
        cluster: &mut Cluster,
        row: NodeIdx,
        reservation: &mut Reservation,
    ) -> Result<(), Stopped> {
        for idx in self.profile.at(ExtensionPoint::Reserve) {
            let plugin = self.profile.plugin(*idx);
            let mut assume = Assume::by(plugin.name());
            let cx = Cycle::new(cluster, &self.pod);
            let reserved = plugin.reserve(&cx, &self.states[idx.at()], row, &mut assume)?;
            reservation.set(*idx, reserved);
            cluster.assume(&self.pod.uid, assume)?;
        }
        Ok(())
    }

    /// Starts a dry run of one row. `nominated` are pods of equal or higher priority that are expected on the node.
    pub fn dry_run<'a>(
        &'a self,
        cluster: &'a mut Cluster,
        row: NodeIdx,
        nominated: Vec<Arc<PodInfo>>,
    ) -> DryRun<'a> {
        DryRun::new(&self.profile, &self.states, cluster, &self.pod, row, nominated.into())
    }

    /// Returns the rejection of a row.
    pub fn rejection_of(&self, row: NodeIdx) -> Option<&Reject> {
        self.rejections.as_ref()?.of(row)
    }

    /// Returns the name of the Filter plugin that rejected a row, or of the extenders if they did; `None` if neither
    /// did.
    pub fn rejected_by(&self, row: NodeIdx) -> Option<&'static str> {
        let plugin = self.rejections.as_ref()?.filter_of(row)?;
        Some(self.profile.name_of(plugin))
    }

    /// Returns the members of `rows` that were rejected with `fix`, in the given order.
    pub fn rows_rejected_with(&self, rows: &[NodeIdx], fix: Fix) -> Vec<NodeIdx> {
        let matches = |row: &NodeIdx| self.rejection_of(*row).is_some_and(|reject| reject.fix == fix);
        rows.iter().copied().filter(matches).collect()
    }

    /// Returns true if whether the pod fits a node depended on that node alone.
    pub fn is_local(&self) -> bool {
        let is_local = |plugin: &PluginIdx| {
            self.profile.plugin(*plugin).scope() == Scope::Row || self.states[plugin.at()].is_none()
        };
        self.profile.at(ExtensionPoint::Filter).iter().all(is_local)
    }

    /// A plugin's filter state, for the points after Filter.
    pub fn state(&self, plugin: PluginIdx) -> &Slot {
        &self.states[plugin.at()]
    }
}

/// Result of undoing Reserve.
#[derive(Debug, Default)]
pub struct UnreserveOutcome {
    /// Calls to the API server, in order.
    pub calls: Vec<ApiCall>,
    /// Panics of plugins. The other plugins were still called.
    pub errors: Vec<PointError>,
}

/// Undoes Reserve: calls every Reserve plugin of the profile in reverse order, even after one panics, and reverts
/// everything assumed for the pod.
pub fn unreserve(profile: &Profile, cluster: &mut Cluster, reservation: &Reservation) -> UnreserveOutcome {
    let mut outcome = UnreserveOutcome::default();
    profile.measured(
        Stage::Unreserve,
        |()| Status::Success,
        || {
            for idx in profile.at(ExtensionPoint::Reserve).iter().rev() {
                let result = profile.plugin(*idx).unreserve(&reservation.of(*idx), &mut outcome.calls);
                outcome.errors.extend(result.err());
            }
        },
    );
    cluster.revert_assumptions(&reservation.pod().uid);
    outcome
}

/// Maximum size of a runner's answer cache in bytes, however many nodes there are.
const MAX_CACHE_BYTES: usize = 256 << 20;

/// Makes attempts for one profile and caches answers between them.
#[derive(Debug)]
pub struct Runner {
    profile: Arc<Profile>,
    cache: AnswerCache,
    scratch: score::Scratch,
    timer: StageTimer,
    extenders: Extenders,
}

impl Runner {
    /// Creates a runner for `profile`.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self::with_cache_size(profile, MAX_CACHE_BYTES)
    }

    /// Creates a runner with an answer cache of at most roughly `bytes` bytes.
    pub fn with_cache_size(profile: Arc<Profile>, bytes: usize) -> Self {
        let timer = StageTimer::new(profile.meter().cloned());
        let (cache, scratch) = (AnswerCache::new(bytes), score::Scratch::default());
        Self { profile, cache, scratch, timer, extenders: Extenders::default() }
    }

    /// Adds extenders.
    #[must_use]
    pub fn with_extenders(mut self, extenders: Extenders) -> Self {
        self.extenders = extenders;
        self
    }

    /// The profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Removes cached answers that no attempt has used since the last call.
    pub fn forget_unused(&mut self) {
        self.cache.forget_unused();
    }

    /// Makes one attempt to find a node for `pod`, and waits for the answers of extenders.
    ///
    /// # Errors
    /// When the cluster has no nodes, a plugin fails, an extender that is not ignorable fails, or a score is invalid.
    pub fn find(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        search: Search<'_>,
    ) -> Result<Attempt, AttemptError> {
        self.find_with(cluster, pod, search, &mut Answers::waiting())
    }

    /// Like [`Self::find`], but takes the answers of extenders from `answers`.
    ///
    /// # Errors
    /// Also when the attempt ends at an open question. It is then as if it had not been made.
    pub fn find_with(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        search: Search<'_>,
        answers: &mut Answers,
    ) -> Result<Attempt, AttemptError> {
        if answers.wait() {
            return self.search(cluster, pod, search, answers);
        }
        let before = *search.rotation;
        let Search { window, tie, rotation, nominated, preferred, within } = search;
        self.timer.hold_reports();
        let search = Search { window, tie, rotation: &mut *rotation, nominated, preferred, within };
        let found = self.search(cluster, pod, search, answers);
        let is_open = matches!(found, Err(AttemptError::Unanswered));
        self.timer.release_reports(!is_open);
        if is_open {
            *rotation = before;
        }
        found
    }

    fn search(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        mut search: Search<'_>,
        answers: &mut Answers,
    ) -> Result<Attempt, AttemptError> {
        let within = search.within;
        if within.map_or(cluster.node_count(), NodeSet::len) == 0 {
            return Err(AttemptError::NoNodes);
        }
        self.timer.start();
        let narrowed =
            self.reported(Stage::PreFilter, pre_filter_status, |runner| runner.narrow(cluster, pod, within));
        let mut draft = match narrowed? {
            Narrowing::Continue(draft) => draft,
            Narrowing::Ended(attempt) => return Ok(attempt),
        };
        let preferred = search.preferred.iter().find_map(|name| cluster.find(name));
        let preferred = preferred.filter(|row| within.is_none_or(|within| within.contains(*row)));
        let fits_preferred = self.reported(Stage::Filter, status_of, |runner| {
            runner.filter_from(cluster, &mut draft, &mut search, preferred, answers)
        });
        if let Some(row) = fits_preferred? {
            return Ok(draft.finish_at(row, vec![row], 1, None));
        }
        let slate = draft.slate;
        let chosen =
            self.staged(Stage::PreScore, |runner| runner.choose(cluster, draft, search, preferred, answers));
        self.report_scoring(slate, &chosen);
        chosen
    }

    /// Finds the rows that fit, or returns the preferred row if it fits.
    fn filter_from(
        &mut self,
        cluster: &mut Cluster,
        draft: &mut Draft,
        search: &mut Search<'_>,
        preferred: Option<NodeIdx>,
        answers: &mut Answers,
    ) -> Result<Option<NodeIdx>, AttemptError> {
        if let Some(row) = preferred
            && self.fits(cluster, draft, search.nominated, row)?
            && self.extenders_accept(cluster, draft, row, answers)?
        {
            return Ok(Some(row));
        }
        match self.filter(cluster, draft, search.nominated) {
            Err(_) if search.tie == Tie::FirstOnHeap => self.filter_in_order(cluster, draft, search)?,
            filtered => filtered?,
        }
        Ok(None)
    }

    /// Repeats a failed search one node at a time. kube-scheduler reports the first failure that it reaches, or none if
    /// it finds enough feasible nodes before it reaches a failure.
    fn filter_in_order(
        &self,
        cluster: &mut Cluster,
        draft: &mut Draft,
        search: &mut Search<'_>,
    ) -> Result<(), AttemptError> {
        let mut rows: Vec<NodeIdx> = considered(cluster, draft.restriction.only.as_ref()).collect();
        let wanted = self.wanted(rows.len(), search);
        let start = search.rotation.position % rows.len().max(1);
        rows.rotate_left(start);
        let mut fits = NodeSet::default();
        for (visited, row) in rows.into_iter().enumerate() {
            match self.fits(cluster, draft, search.nominated, row) {
                // The walk that follows ends here.
                Ok(true) if fits.len() == wanted => {
                    fits.insert(row);
                    break;
                }
                Ok(true) => fits.insert(row),
                Ok(false) => {}
                Err(error) => {
                    search.rotation.position = (search.rotation.position + visited) % draft.nodes;
                    return Err(error);
                }
            }
        }
        draft.fits = fits;
        Ok(())
    }

    /// Number of feasible nodes to find among `considered` nodes.
    fn wanted(&self, considered: usize, search: &Search<'_>) -> usize {
        let has_preferences = !self.profile.scorers().is_empty() || self.extenders.choose_nodes();
        if !has_preferences {
            return 1;
        }
        search.window.wanted(considered, self.profile.percentage_of_nodes_to_score())
    }

    /// Reports PreScore and Score to the meter if nodes were scored.
    fn report_scoring(&mut self, slate: SlateId, chosen: &Result<Attempt, AttemptError>) {
        if !self.timer.is_enabled() || self.profile.scorers().is_empty() {
            return;
        }
        let (pre_score, score) = match chosen {
            Ok(Attempt { decision: Decision::Node { feasible: 2.., .. }, .. }) => {
                (Status::Success, Some(Status::Success))
            }
            Ok(_) | Err(AttemptError::Extender(_) | AttemptError::Unanswered) => return,
            Err(AttemptError::Plugin(PointError { call: Call::Point(ExtensionPoint::PreScore), .. })) => {
                (Status::Error, None)
            }
            Err(_) => (Status::Success, Some(Status::Error)),
        };
        self.timer.report(Stage::PreScore, pre_score);
        if let Some(score) = score {
            self.timer.report(Stage::Score, score);
        }
        for plugin in self.profile.at(ExtensionPoint::PreScore) {
            if self.cache.column(slate, *plugin).is_some_and(Column::has_pre_scored) {
                self.profile.plugin(*plugin).evaluated(Stage::PreScore, || 1);
            }
        }
    }

    /// Takes as many feasible rows as the window requires, drops those that extenders reject, scores the rest and
    /// chooses the best one.
    fn choose(
        &mut self,
        cluster: &mut Cluster,
        mut draft: Draft,
        search: Search<'_>,
        tried: Option<NodeIdx>,
        answers: &mut Answers,
    ) -> Result<Attempt, AttemptError> {
        let considered = draft.considered();
        let wanted = self.wanted(considered, &search);
        let asks_extenders = self.extenders.choose_for(&draft.pod);
        if wanted >= considered && search.tie == Tie::Rotate && !asks_extenders {
            return self.choose_of_all(cluster, draft, search.rotation);
        }
        let only = draft.restriction.only.as_ref();
        let mut walk = walk(cluster, &draft.fits, only, search.rotation.position, wanted, tried);
        search.rotation.position = (search.rotation.position + walk.visited) % draft.nodes;
        // Set only when choices must equal those of kube-scheduler, which ignores the pods on nodes that an extender
        // returns as objects.
        let mut stripped = false;
        if asks_extenders {
            let passed = self.ask_filters(cluster, &mut draft, walk.feasible, answers)?;
            stripped = passed.as_objects && search.tie == Tie::FirstOnHeap;
            walk.feasible = passed.rows;
        }
        let (row, ranking) = match walk.feasible.as_slice() {
            [] => return self.unschedulable(cluster, draft),
            [one] => (*one, None),
            many => {
                let mut totals = match stripped {
                    true => self.score_stripped(cluster, &draft, many)?,
                    false => self.score(cluster, &draft, many)?,
                };
                if asks_extenders {
                    self.ask_for_scores(cluster, &draft, many, &mut totals, answers)?;
                }
                self.staged(Stage::Score, |_| match search.tie {
                    Tie::FirstOnHeap => ranked(cluster, many, totals),
                    Tie::Rotate => (best_rotating(many, &totals, search.rotation.row, cluster.rows()), None),
                })
            }
        };
        search.rotation.row = row.at() + 1;
        Ok(draft.finish_at(row, walk.feasible, walk.visited, ranking))
    }

    /// Chooses the best of all rows that fit; among equally good rows, the first one after the last choice.
    fn choose_of_all(
        &mut self,
        cluster: &Cluster,
        draft: Draft,
        rotation: &mut Rotation,
    ) -> Result<Attempt, AttemptError> {
        let start = rotation.row % cluster.rows().max(1);
        match self.best(cluster, &draft, start)? {
            Some(row) => {
                rotation.row = row.at() + 1;
                let feasible = match draft.fits_as_cached {
                    true => self.cache.fit_count(draft.slate),
                    false => draft.fits.len(),
                };
                Ok(draft.finish_best(row, feasible))
            }
            None => self.unschedulable(cluster, draft),
        }
    }

    /// Returns the members of `rows` that the extenders accept. Records the others in the draft as rejected.
    fn ask_filters(
        &mut self,
        cluster: &Cluster,
        draft: &mut Draft,
        rows: Vec<NodeIdx>,
        answers: &mut Answers,
    ) -> Result<FilteredRows, AttemptError> {
        // Time spent in extenders does not count as time spent in plugins.
        let mut passed = self.unstaged(|runner| {
            runner.extenders.filter(&draft.pod, cluster.nodes(), rows, FilterStage::All, answers)
        })?;
        for (row, reject) in passed.rejected.drain(..) {
            draft.fits.remove(row);
            draft.overlay.set(row, EXTENDER_IDX, reject);
            draft.forced.insert(row);
        }
        Ok(passed)
    }

    fn ask_for_scores(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        rows: &[NodeIdx],
        totals: &mut [i64],
        answers: &mut Answers,
    ) -> Result<(), AttemptError> {
        let asked = self.unstaged(|runner| {
            runner.extenders.add_scores(&draft.pod, cluster.nodes(), rows, totals, answers)
        });
        Ok(asked?)
    }

    /// Returns true if the extenders accept `row`. An extender failure is treated as a rejection here: the
    /// extenders are then called again with all feasible rows, possibly including this one, and an error from that
    /// call is reported.
    fn extenders_accept(
        &mut self,
        cluster: &Cluster,
        draft: &Draft,
        row: NodeIdx,
        answers: &mut Answers,
    ) -> Result<bool, AttemptError> {
        if !self.extenders.choose_for(&draft.pod) {
            return Ok(true);
        }
        let passed = self.unstaged(|runner| {
            let stage = FilterStage::Preferred;
            runner.extenders.filter(&draft.pod, cluster.nodes(), vec![row], stage, answers)
        });
        match passed {
            Ok(passed) => Ok(!passed.rows.is_empty()),
            Err(Unanswered::Failed(_)) => Ok(false),
            Err(Unanswered::Open) => Err(AttemptError::Unanswered),
        }
    }

    /// Makes an attempt that considers one node only. Returns `None` if the pod does not fit it.
    ///
    /// # Errors
    /// When a plugin fails.
    pub fn find_on(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        nominated: &[NominatedRow],
        row: NodeIdx,
    ) -> Result<Option<Attempt>, AttemptError> {
        let Narrowing::Continue(draft) = self.narrow(cluster, pod, None)? else { return Ok(None) };
        let fits = self.fits(cluster, &draft, nominated, row)?;
        Ok(fits.then(|| draft.finish_at(row, vec![row], 1, None)))
    }

    /// Returns true if some Filter plugin rejects the pod on the given node, not counting nominated pods. Returns false
    /// if PreFilter rejects the pod for all nodes.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn rejects(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        row: NodeIdx,
    ) -> Result<bool, AttemptError> {
        match self.narrow(cluster, pod, None)? {
            Narrowing::Continue(draft) => Ok(draft.rejection(cluster, row)?.is_some()),
            Narrowing::Ended(_) => Ok(false),
        }
    }
}

impl Staged for Runner {
    fn timer(&mut self) -> &mut StageTimer {
        &mut self.timer
    }
}

/// Status of the PreFilter stage.
fn pre_filter_status(narrowing: &Result<Narrowing, AttemptError>) -> Status {
    match narrowing {
        Ok(Narrowing::Continue(_)) => Status::Success,
        Ok(Narrowing::Ended(attempt)) => {
            let reject = attempt.rejections.as_ref().and_then(|rejections| rejections.all.as_ref());
            reject.map_or(Status::Success, |reject| reject.fix.into())
        }
        Err(_) => Status::Error,
    }
}

fn status_of<T, E>(result: &Result<T, E>) -> Status {
    if result.is_ok() { Status::Success } else { Status::Error }
}

/// Returns the row that kube-scheduler would find at the top of its heap, and the rest of the heap.
fn ranked(cluster: &Cluster, rows: &[NodeIdx], totals: Vec<i64>) -> (NodeIdx, Option<(Vec<Str>, Ranking)>) {
    let mut ranking = Ranking::new(totals);
    let best = ranking.pop().map_or(rows[0], |at| rows[at]);
    let names = rows.iter().map(|row| cluster.node(*row).name().clone()).collect();
    (best, Some((names, ranking)))
}
