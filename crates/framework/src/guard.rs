//! The functions through which every plugin call passes.
//!
//! A call arrives with the plugin's type erased and returns an answer, or an error that names the plugin and the call.
//! A panic becomes such an error, so that one pod fails while the scheduler continues. Calls are measured here if there
//! is a [meter](crate::meter).

mod fetch;
mod group;
mod status;

use std::{
    any::Any,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use harbormaster_api::{
    Str,
    features::Features,
    points::{ExtensionPoint, PointSet},
};
use thiserror::Error;

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, WaitingPods},
    events::{ErasedRegistration, EventResource},
    index::{ClusterView, IndexKind, Indexes},
    meter::{PluginMeter, ProfileMeter, Stage, Stamp, Status},
    nodeset::{NodeIdx, NodeSet},
    objects::Objects,
    outcome::{
        Bound, Normalize, Permitted, PluginError, PluginResult, PostFiltered, PreFiltered, PreFlight, Reject,
        Stop,
    },
    plugin::{BoxFuture, Plugin, Queued, Rank, Scope, SignFragment, Turn, TurnCycle},
    pod::PodInfo,
    points::{AnyPlugin, Calls, Slot},
    reads::Reads,
    registry::BuildError,
    resource::ResourceKind,
    row_log::RowLog,
    scores::Scores,
    sweep::Sweep,
};
use status::{CallStatus, HasState};

/// Purpose of a plugin call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// One of the extension points.
    Point(ExtensionPoint),
    /// Notifies a PreFilter plugin that a pod has joined a node in a dry run.
    AddPod,
    /// Notifies a PreFilter plugin that a pod has left a node in a dry run.
    RemovePod,
    /// NormalizeScore.
    Normalize,
    /// Normalizes the scores of placements.
    NormalizePlacements,
    /// Unreserve.
    Unreserve,
    /// Applies an assumption made in Reserve to the current or a newer version of the object.
    Assume,
    /// PreBind's pre-flight.
    PreFlight,
    /// Prepares an index or notifies it of a change.
    Index,
    /// A queueing hint.
    Hint,
    /// Computes a signature for opportunistic batching, or lists what the plugin's cached answers depend on.
    Sign,
    /// Tells to which group a pod belongs, or what the group is like.
    Groups,
    /// Fetches an object, or says what is fetched.
    Fetch,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Point(point) => point.name(),
            Self::AddPod => "AddPod",
            Self::RemovePod => "RemovePod",
            Self::Normalize => "NormalizeScore",
            Self::NormalizePlacements => "NormalizePlacementScore",
            Self::Unreserve => "Unreserve",
            Self::Assume => "Assume",
            Self::PreFlight => "PreBindPreFlight",
            Self::Index => "Index",
            Self::Hint => "QueueingHint",
            Self::Sign => "Sign",
            Self::Groups => "Groups",
            Self::Fetch => "Fetch",
        })
    }
}

/// Error from a plugin call, worded as in kube-scheduler.
#[derive(Debug, Error)]
pub struct PointError {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// The failed call.
    pub call: Call,
    /// The plugin's error.
    pub source: PluginError,
}

impl PointError {
    /// Returns true if the plugin panicked.
    pub fn is_panic(&self) -> bool {
        self.source.is::<Panicked>()
    }
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ExtensionPoint as P;
        let (plugin, source) = (self.plugin, &self.source);
        match self.call {
            Call::Point(P::Filter) => write!(f, "running {plugin:?} filter plugin: {source}"),
            Call::Point(P::Score) => {
                write!(f, "running Score plugins: plugin {plugin:?} failed with: {source}")
            }
            Call::Normalize => {
                write!(f, "running Normalize on Score plugins: plugin {plugin:?} failed with: {source}")
            }
            Call::Point(P::PlacementScore) => {
                write!(f, "running PlacementScore plugins: plugin {plugin:?} failed with: {source}")
            }
            Call::NormalizePlacements => write!(
                f,
                "running NormalizePlacementScore on PlacementScore plugins: plugin {plugin:?} failed with: {source}"
            ),
            Call::AddPod | Call::RemovePod => {
                write!(f, "running {} on PreFilter plugin {plugin:?}: {source}", self.call)
            }
            Call::PreFlight => write!(f, "running PreBindPreFlight {plugin:?}: {source}"),
            call => write!(f, "running {call} plugin {plugin:?}: {source}"),
        }
    }
}

/// Rejection or error that kept a pod from passing a point.
#[derive(Debug)]
pub enum Stopped {
    /// Rejection by the named plugin.
    Reject(&'static str, Reject),
    /// Error from a plugin.
    Error(PointError),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reject(_, reject) => f.write_str(&reject.message()),
            Self::Error(error) => error.fmt(f),
        }
    }
}

impl From<PointError> for Stopped {
    fn from(error: PointError) -> Self {
        Self::Error(error)
    }
}

/// The source of a [`PointError`] when the plugin panicked.
#[derive(Debug, Error)]
#[error("plugin {plugin:?} panicked at {call}: {text}")]
pub struct Panicked {
    plugin: &'static str,
    call: Call,
    text: String,
}

/// Message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown panic")
}

fn panicked(plugin: &'static str, call: Call, panic: &(dyn Any + Send)) -> PointError {
    let panicked = Panicked { plugin, call, text: panic_text(panic).to_owned() };
    PointError { plugin, call, source: panicked.into() }
}

/// Runs the code of a plugin or an index and catches panics. After a panic, the framework discards the data that the
/// code was writing.
pub(crate) fn caught<T>(plugin: &'static str, call: Call, run: impl FnOnce() -> T) -> Result<T, PointError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| panicked(plugin, call, &*panic))
}

/// A plugin of a profile, with its type erased.
#[derive(Clone)]
pub struct GuardedPlugin {
    plugin: AnyPlugin,
    calls: Calls,
    /// `None` if nothing is measured.
    meter: Option<Arc<dyn PluginMeter>>,
}

/// A measured call in progress.
struct MeasuredCall<'a> {
    meter: &'a dyn PluginMeter,
    stage: Stage,
    at: Stamp,
}

impl MeasuredCall<'_> {
    fn end(self, status: Status) {
        self.meter.end(self.stage, self.at, status);
    }
}

impl fmt::Debug for GuardedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuardedPlugin({})", self.calls.name)
    }
}

impl GuardedPlugin {
    /// Wraps a plugin.
    pub fn new<P: Plugin>(plugin: P) -> Self {
        Self { plugin: Arc::new(plugin), calls: Calls::of::<P>(), meter: None }
    }

    /// Returns the same plugin, which watches only the kinds that these feature gates allow.
    pub(crate) fn with_features(mut self, features: Features) -> Self {
        self.calls.resources.retain(|kind| kind.is_watched(features));
        self
    }

    /// Returns the same plugin with its calls measured; `stages` are the stages at which it is called.
    pub(crate) fn metered(&self, meter: &dyn ProfileMeter, stages: &[Stage]) -> Self {
        Self { meter: Some(meter.plugin(self.name(), stages)), ..self.clone() }
    }

    /// Returns the same plugin without measurements.
    pub(crate) fn unmetered(&self) -> Self {
        Self { meter: None, ..self.clone() }
    }

    /// Makes a call.
    fn call<T: CallStatus>(
        &self,
        call: Call,
        run: impl FnOnce(&(dyn Any + Send + Sync)) -> T,
    ) -> Result<T, PointError> {
        let measured = self.begin(call);
        let answer = caught(self.calls.name, call, || run(&*self.plugin));
        if let Some(measured) = measured {
            measured.end(answer.as_ref().map_or(Status::Error, T::status));
        }
        answer
    }

    fn begin(&self, call: Call) -> Option<MeasuredCall<'_>> {
        let (meter, stage) = (self.meter.as_deref()?, Stage::of(call)?);
        Some(MeasuredCall { meter, stage, at: meter.begin(stage)? })
    }

    /// Records that the plugin evaluated either a pod (`times` is 1) or `times` nodes.
    pub(crate) fn evaluated(&self, stage: Stage, times: impl FnOnce() -> usize) {
        if let Some(meter) = &self.meter {
            meter.evaluated(stage, times());
        }
    }

    /// Makes a call that may fail but cannot reject.
    fn try_call<T: CallStatus>(
        &self,
        call: Call,
        run: impl FnOnce(&(dyn Any + Send + Sync)) -> PluginResult<T>,
    ) -> Result<T, PointError> {
        self.call(call, run)?.map_err(|source| self.failed(call, source))
    }

    /// Makes a call that may reject or fail.
    fn ask<T: CallStatus>(
        &self,
        call: Call,
        run: impl FnOnce(&(dyn Any + Send + Sync)) -> Result<T, Stop>,
    ) -> Result<T, Stopped> {
        self.call(call, run)?.map_err(|stop| self.stopped(call, stop))
    }

    /// Makes an asynchronous call that may reject or fail.
    async fn ask_async<'a, T: CallStatus>(
        &'a self,
        call: Call,
        run: impl FnOnce() -> BoxFuture<'a, Result<T, Stop>>,
    ) -> Result<T, Stopped> {
        self.wait_for(call, run).await?.map_err(|stop| self.stopped(call, stop))
    }

    async fn wait_for<'a, T: CallStatus>(
        &'a self,
        call: Call,
        run: impl FnOnce() -> BoxFuture<'a, T>,
    ) -> Result<T, PointError> {
        let measured = self.begin(call);
        let answer = self.polled(call, run).await;
        if let Some(measured) = measured {
            measured.end(answer.as_ref().map_or(Status::Error, T::status));
        }
        answer
    }

    async fn polled<'a, T>(
        &'a self,
        call: Call,
        run: impl FnOnce() -> BoxFuture<'a, T>,
    ) -> Result<T, PointError> {
        let mut future = caught(self.calls.name, call, run)?;
        let guarded = poll_fn(|cx| {
            let poll = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
            match poll {
                Ok(poll) => poll.map(Ok),
                Err(panic) => std::task::Poll::Ready(Err(panicked(self.calls.name, call, &*panic))),
            }
        });
        guarded.await
    }

    fn failed(&self, call: Call, source: PluginError) -> PointError {
        if let (Some(meter), Some(stage)) = (&self.meter, Stage::of(call)) {
            meter.failed(stage);
        }
        PointError { plugin: self.calls.name, call, source }
    }

    fn stopped(&self, call: Call, stop: Stop) -> Stopped {
        match stop {
            Stop::Reject(reject) => Stopped::Reject(self.calls.name, reject),
            Stop::Error(source) => Stopped::Error(self.failed(call, source)),
        }
    }

    // --- properties ---

    /// Returns true if calls from PreEnqueue to Permit may wait for something.
    pub fn may_block(&self) -> bool {
        self.calls.may_block
    }

    /// See [`Plugin::NAME`].
    pub fn name(&self) -> &'static str {
        self.calls.name
    }

    /// Scope of the plugin's answers.
    pub fn scope(&self) -> Scope {
        self.calls.scope
    }

    /// The points that the plugin implements.
    pub fn points(&self) -> PointSet {
        self.calls.set
    }

    /// See [`crate::plugin::Score::NORMALIZE`].
    pub fn normalization(&self) -> Normalize {
        self.calls.normalization
    }

    /// Kind of index that the plugin uses; see [`crate::plugin::Indexed`].
    pub fn index(&self) -> Option<IndexKind> {
        self.calls.index.map(|(kind, _)| kind)
    }

    /// Custom resources that the plugin watches; see [`crate::resource::Watches`].
    pub fn resources(&self) -> &[ResourceKind] {
        &self.calls.resources
    }

    /// Checks the plugin's declarations:
    /// - its points agree on the types of their states;
    /// - the events that it listens to can happen, and their objects are watched;
    /// - if it is row-scoped, it does not compare candidates;
    /// - it says what it fetches without a panic.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), BuildError> {
        let (plugin, resources) = (self.name(), self.resources());
        if let Some(conflict) = self.calls.filter_states.conflict().or(self.calls.score_states.conflict()) {
            return Err(BuildError::DifferentStates { plugin, conflict });
        }
        if self.scope() == Scope::Row && self.normalization() == Normalize::Custom {
            return Err(BuildError::RowNormalizes { plugin });
        }
        self.source().map_err(|PointError { source, .. }| BuildError::Refused { plugin, source })?;
        // If the plugin panics here, it is treated as having no registrations.
        for ErasedRegistration { event, .. } in self.events().unwrap_or_default().unwrap_or_default() {
            let resource = event.resource;
            let names = |kind: &ResourceKind| EventResource::named(kind.name()) == resource;
            if resource.is_named() && !resources.iter().any(names) {
                return Err(BuildError::UnwatchedResource { plugin, resource });
            }
            if let Some(never) = event.never_happens() {
                return Err(BuildError::NeverHappens { plugin, event, never });
            }
        }
        Ok(())
    }

    /// Filter state of a plugin without PreFilter.
    pub fn default_filter_slot(&self) -> Slot {
        self.calls.filter_states.default_slot()
    }

    /// Score state of a plugin without PreScore.
    pub fn default_score_slot(&self) -> Slot {
        self.calls.score_states.default_slot()
    }

    // --- the queue ---

    /// See [`Plugin::events`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn events(&self) -> Result<Option<Vec<ErasedRegistration>>, PointError> {
        self.call(Call::Hint, |_| (self.calls.events)(&self.plugin))
    }

    /// Calls a hint of this plugin and returns the result.
    ///
    /// # Errors
    /// When the hint fails.
    pub fn hint(
        &self,
        hint: &crate::events::ErasedHint,
        cx: crate::events::HintCycle<'_>,
        change: &crate::events::Change<'_>,
    ) -> Result<crate::events::Hint, PointError> {
        self.try_call(Call::Hint, |_| hint(cx, change))
    }

    /// See [`Plugin::sign`]; `None` if the pod cannot be signed.
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn sign(&self, pod: &PodInfo) -> Result<Option<Vec<SignFragment>>, PointError> {
        self.call(Call::Sign, |this| (self.calls.sign)(this, pod).ok())
    }

    /// Returns true if [`Self::prepare`] is called for the plugin. A row-scoped plugin does not look at its index for most
    /// pods.
    pub(crate) fn is_prepared(&self) -> bool {
        self.scope() == Scope::Cluster && self.calls.index.is_some()
    }

    /// Returns true if the plugin implements [`crate::plugin::ReadsCluster`] and its answers are cached.
    pub(crate) fn may_read_cluster(&self) -> bool {
        self.scope() == Scope::Row && self.calls.shims.reads_cluster.is_some()
    }

    /// See [`crate::plugin::ReadsCluster::reads_cluster`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub(crate) fn reads_cluster(&self, cx: &Cycle<'_>) -> Result<Reads, PointError> {
        let mut reads = Reads::default();
        if let Some(run) = self.calls.shims.reads_cluster {
            let listed = caught(self.calls.name, Call::Sign, || run(&*self.plugin, cx, &mut reads));
            listed?.map_err(|source| PointError { plugin: self.calls.name, call: Call::Sign, source })?;
        }
        Ok(reads)
    }

    /// See [`crate::plugin::ReadsCluster::changed_rows`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub(crate) fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> Result<Option<&'a RowLog>, PointError> {
        let Some(run) = self.calls.shims.changed_rows else { return Ok(None) };
        let log = caught(self.calls.name, Call::Sign, || run(&*self.plugin, cx))?;
        log.map_err(|source| PointError { plugin: self.calls.name, call: Call::Sign, source })
    }

    /// See [`Plugin::reads`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn reads(&self, pod: &PodInfo) -> Result<Reads, PointError> {
        let mut reads = Reads::default();
        caught(self.name(), Call::Sign, || (self.calls.reads)(&*self.plugin, pod.for_rows(), &mut reads))?;
        Ok(reads)
    }

    /// See [`crate::plugin::PreEnqueue`].
    ///
    /// # Errors
    /// When the plugin keeps the pod out of the queue, or fails.
    pub fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Result<(), Stopped> {
        let Some(run) = self.calls.shims.pre_enqueue else { return Ok(()) };
        self.ask(Call::Point(ExtensionPoint::PreEnqueue), |this| run(this, cx))
    }

    /// See [`crate::plugin::QueueSort`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn less(&self, a: Queued<'_>, b: Queued<'_>) -> Result<bool, PointError> {
        let Some(run) = self.calls.shims.less else { return Ok(false) };
        self.call(Call::Point(ExtensionPoint::QueueSort), |this| run(this, a, b))
    }

    /// See [`crate::plugin::QueueSort::rank`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn rank(&self, queued: Queued<'_>, objects: &Objects) -> Result<Rank, PointError> {
        let Some(run) = self.calls.shims.rank else { return Ok(Rank::default()) };
        self.call(Call::Point(ExtensionPoint::QueueSort), |this| run(this, queued, objects))
    }

    /// Returns true if the plugin implements [`crate::plugin::QueueSort::turn`].
    pub fn takes_turns(&self) -> bool {
        self.calls.shims.turn.is_some()
    }

    /// See [`crate::plugin::QueueSort::turn`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> Result<Turn, PointError> {
        let Some(run) = self.calls.shims.turn else { return Ok(Turn::default()) };
        self.try_call(Call::Point(ExtensionPoint::QueueSort), |this| run(this, namespace, cx))
    }

    // --- filtering ---

    /// See [`crate::plugin::Indexed::prepare`].
    ///
    /// # Errors
    /// When the plugin panics or its index cannot be built; the index is then discarded.
    pub fn prepare(
        &self,
        indexes: &mut Indexes,
        view: ClusterView<'_>,
        pod: &PodInfo,
    ) -> Result<(), PointError> {
        let Some((kind, run)) = self.calls.index else { return Ok(()) };
        let prepared = self.try_call(Call::Index, |this| run(this, indexes, view, pod));
        if prepared.is_err() {
            indexes.discard(kind);
        }
        prepared
    }

    /// See [`crate::plugin::PreFilter`]; fills `slot` unless the plugin skips.
    ///
    /// # Errors
    /// When the plugin rejects the pod or fails.
    pub fn pre_filter(&self, cx: &Cycle<'_>, slot: &mut Slot) -> Result<PreFiltered<()>, Stopped> {
        let Some(run) = self.calls.shims.pre_filter else { return Ok(PreFiltered::Skip) };
        self.ask(Call::Point(ExtensionPoint::PreFilter), |this| run(this, cx, slot))
    }

    /// See [`crate::plugin::PreFilter::add_pod`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn add_pod(
        &self,
        cx: &Cycle<'_>,
        slot: &mut Slot,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.add_pod else { return Ok(()) };
        self.try_call(Call::AddPod, |this| run(this, cx, slot, pod, row))
    }

    /// See [`crate::plugin::PreFilter::remove_pod`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn remove_pod(
        &self,
        cx: &Cycle<'_>,
        slot: &mut Slot,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.remove_pod else { return Ok(()) };
        self.try_call(Call::RemovePod, |this| run(this, cx, slot, pod, row))
    }

    /// See [`crate::plugin::Filter::filter`]; rejects nothing if the plugin skipped.
    ///
    /// # Errors
    /// When the pod does not fit, or the plugin fails.
    pub fn filter(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> Result<(), Stopped> {
        let Some(run) = self.calls.shims.filter.filter(|_| slot.is_some()) else { return Ok(()) };
        self.evaluated(Stage::Filter, || 1);
        self.ask(Call::Point(ExtensionPoint::Filter), |this| run(this, cx, slot, row))
    }

    /// See [`crate::plugin::Filter::filter_batch`]; rejects nothing if the plugin skipped.
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn filter_batch(&self, cx: &Cycle<'_>, slot: &Slot, sweep: &mut Sweep<'_>) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.filter_batch else { return Ok(()) };
        self.evaluated(Stage::Filter, || sweep.rows().len());
        self.try_call(Call::Point(ExtensionPoint::Filter), |this| run(this, cx, slot, sweep))
    }

    /// See [`crate::plugin::Filter::lacks`].
    pub fn lacks(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> Option<String> {
        let run = self.calls.shims.lacks?;
        // If the plugin panics here, only the details are lost: the plugin has already rejected the node.
        caught(self.name(), Call::Point(ExtensionPoint::Filter), || run(&*self.plugin, cx, slot, row)).ok()?
    }

    /// See [`crate::plugin::PostFilter`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn post_filter(&self, cx: &mut PostFilterCycle<'_>, slot: &Slot) -> Result<PostFiltered, PointError> {
        let no_help = PostFiltered::NoHelp { reasons: Vec::new(), nomination: Default::default() };
        let Some(run) = self.calls.shims.post_filter else { return Ok(no_help) };
        self.evaluated(Stage::PostFilter, || 1);
        self.try_call(Call::Point(ExtensionPoint::PostFilter), |this| run(this, cx, slot))
    }

    // --- scoring ---

    /// See [`crate::plugin::PreScore`]; leaves `slot` empty if the plugin skips.
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn pre_score(
        &self,
        cx: &Cycle<'_>,
        filtered: &Slot,
        candidates: &NodeSet,
        slot: &mut Slot,
    ) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.pre_score else { return Ok(()) };
        let answer = self.try_call(Call::Point(ExtensionPoint::PreScore), |this| {
            run(this, cx, filtered, candidates, slot)?;
            Ok(HasState(slot.is_some()))
        });
        answer.map(drop)
    }

    /// See [`crate::plugin::Score::score`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn score(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> Result<i64, PointError> {
        let Some(run) = self.calls.shims.score else { return Ok(0) };
        self.evaluated(Stage::Score, || 1);
        self.try_call(Call::Point(ExtensionPoint::Score), |this| run(this, cx, slot, row))
    }

    /// See [`crate::plugin::Score::scores_pod`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn scores_pod(&self, cx: &Cycle<'_>) -> Result<bool, PointError> {
        let Some(run) = self.calls.shims.scores_pod else { return Ok(true) };
        self.call(Call::Point(ExtensionPoint::Score), |this| run(this, cx))
    }

    /// See [`crate::plugin::Score::score_batch`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn score_batch(
        &self,
        cx: &Cycle<'_>,
        slot: &Slot,
        scores: &mut Scores<'_>,
    ) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.score_batch else { return Ok(()) };
        self.evaluated(Stage::Score, || scores.rows().len());
        self.try_call(Call::Point(ExtensionPoint::Score), |this| run(this, cx, slot, scores))
    }

    /// See [`crate::plugin::Score::normalize`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn normalize(
        &self,
        cx: &Cycle<'_>,
        slot: &Slot,
        rows: &NodeSet,
        scores: &mut [i64],
    ) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.normalize else { return Ok(()) };
        self.try_call(Call::Normalize, |this| run(this, cx, slot, rows, scores))
    }

    // --- from the decision to the binding ---

    /// See [`crate::plugin::Reserve::reserve`].
    ///
    /// # Errors
    /// When the plugin rejects the pod or fails.
    pub fn reserve(
        &self,
        cx: &Cycle<'_>,
        slot: &Slot,
        row: NodeIdx,
        assume: &mut Assume,
    ) -> Result<Slot, Stopped> {
        let Some(run) = self.calls.shims.reserve else { return Ok(None) };
        self.ask(Call::Point(ExtensionPoint::Reserve), |this| run(this, cx, slot, row, assume))
    }

    /// See [`crate::plugin::Reserve::unreserve`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.unreserve else { return Ok(()) };
        self.call(Call::Unreserve, |this| run(this, placement, calls))
    }

    /// See [`crate::plugin::Permit`].
    ///
    /// # Errors
    /// When the plugin rejects the pod or fails.
    pub fn permit(
        &self,
        cx: &Cycle<'_>,
        node: &Str,
        waiting: &mut dyn WaitingPods,
    ) -> Result<Permitted, Stopped> {
        let Some(run) = self.calls.shims.permit else { return Ok(Permitted::Allow) };
        self.ask(Call::Point(ExtensionPoint::Permit), |this| run(this, cx, node, waiting))
    }

    /// See [`crate::plugin::PreBind::pre_flight`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn pre_flight(&self, placement: &Placement) -> Result<PreFlight, PointError> {
        let Some(run) = self.calls.shims.pre_flight else { return Ok(PreFlight::NothingToDo) };
        self.try_call(Call::PreFlight, |this| run(this, placement))
    }

    /// See [`crate::plugin::PreBind::pre_bind`].
    ///
    /// # Errors
    /// When the plugin rejects the pod or fails.
    pub async fn pre_bind<'a>(&'a self, cx: &'a BindCycle) -> Result<(), Stopped> {
        let Some(run) = self.calls.shims.pre_bind else { return Ok(()) };
        self.ask_async(Call::Point(ExtensionPoint::PreBind), || run(&*self.plugin, cx)).await
    }

    /// See [`crate::plugin::Bind`].
    ///
    /// # Errors
    /// When the plugin rejects the pod or fails.
    pub async fn bind<'a>(&'a self, cx: &'a BindCycle) -> Result<Bound, Stopped> {
        let Some(run) = self.calls.shims.bind else { return Ok(Bound::NotMine) };
        self.ask_async(Call::Point(ExtensionPoint::Bind), || run(&*self.plugin, cx)).await
    }

    /// See [`crate::plugin::PostBind`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub async fn post_bind<'a>(&'a self, cx: &'a BindCycle) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.post_bind else { return Ok(()) };
        self.wait_for(Call::Point(ExtensionPoint::PostBind), || run(&*self.plugin, cx)).await
    }
}
