//! One scheduling attempt: from a pod and the node table to a node, or to the reasons why there is none.
//!
//! A [`Runner`] makes attempts for one profile and keeps between them what may be kept (`kept`).
//! [`Runner::find`] narrows (PreFilter), filters, scores and chooses; the [`Attempt`] that it returns owns its state, so
//! that several can be alive at once: Reserve, PostFilter's questions and log lines ask it.

mod draft;
mod dry_run;
mod explain;
mod filter;
mod narrowed;
mod score;
mod walk;

use std::sync::Arc;

use harbormaster_api::{Str, points::ExtensionPoint};

pub use dry_run::RowDryRun;
pub use explain::{Explanation, ScoreSheet, Why};
pub use score::valid;

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cluster::Cluster,
    cycle::{Cycle, Reservation},
    diagnosis::Diagnosis,
    extender::{EXTENDER_IDX, ExtenderError, Extenders, Passed},
    guard::{Call, PointError, Stopped},
    kept::{Column, Kept, SlateId},
    meter::{Laps, Stage, Status},
    nodeset::{NodeIdx, NodeSet},
    outcome::{Fix, Reject},
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::{PluginIdx, Verdicts},
    window::{Ranking, Rotation, Tie, Window},
};
use draft::Draft;
use walk::{best_rotating, walk};

/// How nodes are looked at and chosen.
#[derive(Debug)]
pub struct Search<'a> {
    /// Which of the feasible nodes are scored.
    pub window: Window,
    /// Which of equally good nodes is taken.
    pub tie: Tie,
    /// Where to begin; moves on.
    pub rotation: &'a mut Rotation,
    /// Nodes on which other pods count besides.
    pub nominated: &'a [NominatedRow],
    /// Nodes to try first (the nominated node, a hint). The first one that exists is taken without scoring if it fits.
    pub preferred: &'a [Str],
}

impl<'a> Search<'a> {
    /// All nodes are scored, nobody is nominated.
    pub fn all(rotation: &'a mut Rotation) -> Self {
        Self { window: Window::All, tie: Tie::Rotate, rotation, nominated: &[], preferred: &[] }
    }
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
    #[error(transparent)]
    Plugin(#[from] PointError),
    /// An extender failed that may not be ignored.
    #[error(transparent)]
    Extender(#[from] ExtenderError),
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

/// An attempt that has come to an end: what was found, and what plugins made on the way.
#[derive(Debug)]
pub struct Attempt {
    profile: Arc<Profile>,
    pod: Arc<PodInfo>,
    /// Filter states, by plugin.
    states: Vec<Slot>,
    found: Found,
    /// When no node fits: why not.
    rejections: Option<Box<Rejections>>,
    competed: Competed,
}

/// Why rows were rejected.
#[derive(Debug, Default)]
struct Rejections {
    /// PreFilter's word on all rows.
    all: Option<Reject>,
    /// The only rows that PreFilter left, and its word on the others.
    outside: Option<(NodeSet, Reject)>,
    by_row: Verdicts,
}

impl Rejections {
    fn of(&self, row: NodeIdx) -> Option<&Reject> {
        let outside = self.outside.as_ref().filter(|(only, _)| !only.contains(row));
        let whole = self.all.as_ref().or(outside.map(|(_, reject)| reject));
        whole.or_else(|| self.by_row.get(row).map(|(_, reject)| reject))
    }

    /// The Filter plugin that rejected the row, if PreFilter did not.
    fn filter_of(&self, row: NodeIdx) -> Option<PluginIdx> {
        let is_outside = self.outside.as_ref().is_some_and(|(only, _)| !only.contains(row));
        if self.all.is_some() || is_outside { None } else { self.by_row.get(row).map(|(plugin, _)| *plugin) }
    }
}

/// The rows that competed for the pod.
#[derive(Debug)]
enum Competed {
    Listed(Vec<NodeIdx>),
    All(NodeSet),
}

impl Attempt {
    /// Where the pod goes, or why nowhere.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The same, to keep.
    pub fn into_found(self) -> Found {
        self.found
    }

    /// Takes why the pod goes nowhere, leaving nothing of it in [`Self::found`]; empty if the pod goes somewhere.
    pub fn take_diagnosis(&mut self) -> Diagnosis {
        match &mut self.found {
            Found::Nowhere(diagnosis) => std::mem::take(diagnosis),
            Found::Node { .. } => Diagnosis::default(),
        }
    }

    /// Takes the candidates and the rest of their ranking, if there is one, leaving none in [`Self::found`].
    pub fn take_ranking(&mut self) -> Option<(Vec<Str>, Ranking)> {
        match &mut self.found {
            Found::Node { ranking, .. } => ranking.take(),
            Found::Nowhere(_) => None,
        }
    }

    /// Whether Reserve plugins accept the choice; `reservation` gets what they make, and the cluster looks as they
    /// assume. The caller undoes with [`unreserve`] in any case but success.
    ///
    /// # Errors
    /// The first refusal or failure.
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
            let made = plugin.reserve(&cx, &self.states[idx.at()], row, &mut assume)?;
            reservation.keep(*idx, made);
            cluster.assume(&self.pod.uid, assume)?;
        }
        Ok(())
    }

    /// A question of the form "what if" about one row; `nominated` are pods of equal or higher priority that are
    /// expected on the node.
    pub fn dry_run<'a>(
        &'a self,
        cluster: &'a mut Cluster,
        row: NodeIdx,
        nominated: &'a [Arc<PodInfo>],
    ) -> RowDryRun<'a> {
        RowDryRun::new(&self.profile, &self.states, cluster, &self.pod, row, nominated)
    }

    /// Why a row was rejected.
    pub fn rejection_of(&self, row: NodeIdx) -> Option<&Reject> {
        self.rejections.as_ref()?.of(row)
    }

    /// The Filter plugin that rejected a row; `None` if no filter did.
    pub fn rejected_by(&self, row: NodeIdx) -> Option<&'static str> {
        let plugin = self.rejections.as_ref()?.filter_of(row)?;
        Some(self.profile.name_of(plugin))
    }

    /// Those of `rows` that were rejected so, in the order given.
    pub fn rows_rejected_with(&self, rows: &[NodeIdx], fix: Fix) -> Vec<NodeIdx> {
        let is_so = |row: &NodeIdx| self.rejection_of(*row).is_some_and(|reject| reject.fix == fix);
        rows.iter().copied().filter(is_so).collect()
    }

    /// A plugin's filter state, for the points behind Filter.
    pub fn state(&self, plugin: PluginIdx) -> &Slot {
        &self.states[plugin.at()]
    }
}

/// What Reserve plugins want after they gave back what they took.
#[derive(Debug, Default)]
pub struct GivenBack {
    /// Calls to the API server, in order.
    pub calls: Vec<ApiCall>,
    /// What panicked. Every plugin was told all the same.
    pub troubles: Vec<PointError>,
}

/// Undoes Reserve: every Reserve plugin of the profile in reverse order, whatever one of them does. Nothing is assumed for the
/// pod any more.
pub fn unreserve(profile: &Profile, cluster: &mut Cluster, reservation: &Reservation) -> GivenBack {
    let mut given_back = GivenBack::default();
    profile.measured(
        Stage::Unreserve,
        |()| Status::Success,
        || {
            for idx in profile.at(ExtensionPoint::Reserve).iter().rev() {
                let told = profile.plugin(*idx).unreserve(&reservation.of(*idx), &mut given_back.calls);
                given_back.troubles.extend(told.err());
            }
        },
    );
    cluster.give_back(&reservation.pod().uid);
    given_back
}

/// The most bytes that a runner keeps between attempts, however many nodes there are.
const KEPT_BYTES: usize = 256 << 20;

/// Makes attempts for one profile, keeping what may be kept between them.
#[derive(Debug)]
pub struct Runner {
    profile: Arc<Profile>,
    kept: Kept,
    scratch: score::Scratch,
    laps: Laps,
    extenders: Extenders,
}

impl Runner {
    /// A runner for `profile`.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self::keeping(profile, KEPT_BYTES)
    }

    /// A runner that keeps about so many bytes of answers between attempts at most.
    pub fn keeping(profile: Arc<Profile>, bytes: usize) -> Self {
        let laps = Laps::of(profile.meter().cloned());
        let (kept, scratch) = (Kept::new(bytes), score::Scratch::default());
        Self { profile, kept, scratch, laps, extenders: Extenders::default() }
    }

    /// The same, which asks extenders as well.
    #[must_use]
    pub fn with_extenders(mut self, extenders: Extenders) -> Self {
        self.extenders = extenders;
        self
    }

    /// The profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Lets go of answers that no attempt has needed since this was called last.
    pub fn forget_unused(&mut self) {
        self.kept.forget_unused();
    }

    /// Looks for a node for `pod`.
    ///
    /// # Errors
    /// When the cluster is empty, or a plugin fails unexpectedly.
    pub fn find(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        search: Search<'_>,
    ) -> Result<Attempt, AttemptError> {
        if cluster.node_count() == 0 {
            return Err(AttemptError::NoNodes);
        }
        self.laps.begin(Stage::PreFilter);
        let narrowed = self.narrow(cluster, pod);
        self.laps.turn(Stage::Filter);
        self.laps.observe(Stage::PreFilter, narrowed_status(&narrowed));
        let mut draft = match narrowed? {
            Ok(draft) => draft,
            Err(attempt) => return Ok(*attempt),
        };
        let preferred = search.preferred.iter().find_map(|name| cluster.find(name));
        let fits_preferred = self.filter_from(cluster, &mut draft, search.nominated, preferred);
        self.laps.turn(Stage::PreScore);
        self.laps.observe(Stage::Filter, status_of(&fits_preferred));
        if let Some(row) = fits_preferred? {
            return Ok(draft.ended_at(row, vec![row], 1, None));
        }
        let slate = draft.slate;
        let chosen = self.choose(cluster, draft, search, preferred);
        self.laps.turn(Stage::Reserve);
        self.observe_scoring(slate, &chosen);
        chosen
    }

    /// Finds the rows that fit, unless the preferred one does, which is then returned.
    fn filter_from(
        &mut self,
        cluster: &mut Cluster,
        draft: &mut Draft,
        nominated: &[NominatedRow],
        preferred: Option<NodeIdx>,
    ) -> Result<Option<NodeIdx>, AttemptError> {
        if let Some(row) = preferred
            && self.fits(cluster, draft, nominated, row)?
            && self.extenders_take(cluster, draft, row)
        {
            return Ok(Some(row));
        }
        self.filter(cluster, draft, nominated).map(|()| None)
    }

    /// Takes note of PreScore and Score, if there was a choice.
    fn observe_scoring(&mut self, slate: SlateId, chosen: &Result<Attempt, AttemptError>) {
        if !self.laps.are_measured() || self.profile.scorers().is_empty() {
            return;
        }
        let (pre_score, score) = match chosen {
            Ok(Attempt { found: Found::Node { feasible: 2.., .. }, .. }) => {
                (Status::Success, Some(Status::Success))
            }
            Ok(_) | Err(AttemptError::Extender(_)) => return,
            Err(AttemptError::Plugin(PointError { call: Call::Point(ExtensionPoint::PreScore), .. })) => {
                (Status::Error, None)
            }
            Err(_) => (Status::Success, Some(Status::Error)),
        };
        self.laps.observe(Stage::PreScore, pre_score);
        if let Some(score) = score {
            self.laps.observe(Stage::Score, score);
        }
        for plugin in self.profile.at(ExtensionPoint::PreScore) {
            if self.kept.column(slate, *plugin).is_some_and(Column::has_pre_scored) {
                self.profile.plugin(*plugin).evaluated(Stage::PreScore, || 1);
            }
        }
    }

    /// Scores as many of the rows that fit as the window wants and extenders let pass, and takes the best.
    fn choose(
        &mut self,
        cluster: &mut Cluster,
        mut draft: Draft,
        search: Search<'_>,
        tried: Option<NodeIdx>,
    ) -> Result<Attempt, AttemptError> {
        let considered = draft.considered(cluster);
        let wanted = search.window.wanted(considered, self.profile.percentage_of_nodes_to_score());
        let has_preferences = !self.profile.scorers().is_empty() || self.extenders.choose_nodes();
        let wanted = if has_preferences { wanted } else { 1 };
        let asks_extenders = self.extenders.choose_for(&draft.pod);
        if wanted >= considered && search.tie == Tie::Rotate && !asks_extenders {
            return self.choose_of_all(cluster, draft, search.rotation);
        }
        let only = draft.narrowed.only.as_ref();
        let mut walk = walk(cluster, &draft.fits, only, search.rotation.position, wanted, tried);
        search.rotation.position = (search.rotation.position + walk.visited) % cluster.node_count();
        // Only who decides as kube-scheduler copies that it forgets the pods on nodes that come back as objects.
        let mut as_bare = false;
        if asks_extenders {
            let passed = self.ask_filters(cluster, &mut draft, walk.feasible)?;
            as_bare = passed.as_objects && search.tie == Tie::FirstOnHeap;
            walk.feasible = passed.rows;
        }
        let (row, ranking) = match walk.feasible.as_slice() {
            [] => return self.nowhere(cluster, draft),
            [one] => (*one, None),
            many => {
                let mut totals = match as_bare {
                    true => self.score_bare(cluster, &draft, many)?,
                    false => self.score(cluster, &draft, many)?,
                };
                if asks_extenders {
                    self.ask_for_scores(cluster, &draft, many, &mut totals);
                }
                match search.tie {
                    Tie::FirstOnHeap => ranked(cluster, many, totals),
                    Tie::Rotate => (best_rotating(many, &totals, search.rotation.row, cluster.rows()), None),
                }
            }
        };
        search.rotation.row = row.at() + 1;
        Ok(draft.ended_at(row, walk.feasible, walk.visited, ranking))
    }

    /// The best of all rows that fit; of equal ones the first behind the last choice.
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
                let feasible = match draft.as_kept {
                    true => self.kept.how_many_fit(draft.slate),
                    false => draft.fits.len(),
                };
                Ok(draft.ended_best(row, feasible, cluster))
            }
            None => self.nowhere(cluster, draft),
        }
    }

    /// Which of the rows that fit pass extenders, too. The others are rejected in the draft.
    fn ask_filters(
        &mut self,
        cluster: &Cluster,
        draft: &mut Draft,
        rows: Vec<NodeIdx>,
    ) -> Result<Passed, AttemptError> {
        // What extenders take is no plugin's time.
        self.laps.turn(Stage::Reserve);
        let mut passed = self.extenders.filter(&draft.pod, cluster.nodes(), rows)?;
        self.laps.turn(Stage::PreScore);
        for (row, reject) in passed.rejected.drain(..) {
            draft.fits.remove(row);
            draft.overlay.set(row, EXTENDER_IDX, reject);
            draft.forced.insert(row);
        }
        Ok(passed)
    }

    fn ask_for_scores(&mut self, cluster: &Cluster, draft: &Draft, rows: &[NodeIdx], totals: &mut [i64]) {
        self.laps.turn(Stage::Reserve);
        self.extenders.add_scores(&draft.pod, cluster.nodes(), rows, totals);
    }

    /// Whether extenders let that one row pass. One that fails does not: it is asked about the others next, and then it matters.
    fn extenders_take(&mut self, cluster: &Cluster, draft: &Draft, row: NodeIdx) -> bool {
        if !self.extenders.choose_for(&draft.pod) {
            return true;
        }
        self.laps.turn(Stage::Reserve);
        let passed = self.extenders.filter(&draft.pod, cluster.nodes(), vec![row]);
        self.laps.turn(Stage::Filter);
        passed.is_ok_and(|passed| !passed.rows.is_empty())
    }

    /// Whether some Filter plugin rejects the pod on that node, nominated pods aside.
    ///
    /// # Errors
    /// When a plugin fails unexpectedly.
    pub fn rejects(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<PodInfo>,
        row: NodeIdx,
    ) -> Result<bool, AttemptError> {
        match self.narrow(cluster, pod)? {
            Ok(draft) => Ok(draft.rejection(cluster, row)?.is_some()),
            Err(_) => Ok(false),
        }
    }
}

/// How PreFilter went.
fn narrowed_status(narrowed: &Result<Result<Draft, Box<Attempt>>, AttemptError>) -> Status {
    match narrowed {
        Ok(Ok(_)) => Status::Success,
        Ok(Err(ended)) => {
            let word = ended.rejections.as_ref().and_then(|rejections| rejections.all.as_ref());
            word.map_or(Status::Success, |reject| reject.fix.into())
        }
        Err(_) => Status::Error,
    }
}

fn status_of<T, E>(result: &Result<T, E>) -> Status {
    if result.is_ok() { Status::Success } else { Status::Error }
}

/// The one that kube-scheduler finds on top of its heap, and the rest of the heap.
fn ranked(cluster: &Cluster, rows: &[NodeIdx], totals: Vec<i64>) -> (NodeIdx, Option<(Vec<Str>, Ranking)>) {
    let mut ranking = Ranking::new(totals);
    let best = ranking.pop().map_or(rows[0], |at| rows[at]);
    let names = rows.iter().map(|row| cluster.node(*row).name().clone()).collect();
    (best, Some((names, ranking)))
}
