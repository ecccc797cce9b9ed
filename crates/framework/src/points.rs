//! How a typed plugin becomes an erased one: [`Points`] lists what it implements, [`install`] ties it up.

use std::sync::Arc;

use harbormaster_api::{
    Str,
    points::{ExtensionPoint, PointSet},
};

use crate::{
    cycle::{BindCycle, Cycle, EnqueueCycle, PostFilterCycle, WaitingPods},
    index::{IndexKind, Indexes, Known},
    nodeset::{NodeIdx, NodeSet},
    outcome::{
        BindFailure, Bound, Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight,
        PreScored, Verdict,
    },
    plugin::{
        Bind, BoxFuture, ErasedHint, ErasedPlugin, ErasedRegistration, Filter, Indexed, Permit, Plugin,
        PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreFilterAnswer, PreScore, QueueSort, Queued,
        Reserve, Scope, Score, SignFragment, Slot, Unsignable,
    },
    pod::PodInfo,
    sweep::Sweep,
};

type FilterState<P> = <P as Plugin>::FilterState;
type ScoreState<P> = <P as Plugin>::ScoreState;
type PrepareFn<P> = fn(&P, &mut Indexes, Known<'_>, &PodInfo) -> PluginResult<()>;
type WhatIfFn<P> = fn(&P, &Cycle<'_>, &mut FilterState<P>, &PodInfo, NodeIdx) -> PluginResult<()>;

/// The points a plugin implements. Naming one compiles only if the plugin implements its trait.
pub struct Points<P: Plugin> {
    set: PointSet,
    normalize: Normalize,
    index: Option<(IndexKind, PrepareFn<P>)>,
    pre_enqueue: Option<fn(&P, EnqueueCycle<'_>) -> PluginResult<Verdict>>,
    less: Option<fn(&P, Queued<'_>, Queued<'_>) -> bool>,
    pre_filter: Option<fn(&P, &Cycle<'_>) -> PluginResult<PreFiltered<FilterState<P>>>>,
    add_pod: Option<WhatIfFn<P>>,
    remove_pod: Option<WhatIfFn<P>>,
    filter: Option<fn(&P, &Cycle<'_>, &FilterState<P>, NodeIdx) -> PluginResult<Verdict>>,
    filter_batch: Option<fn(&P, &Cycle<'_>, &FilterState<P>, &mut Sweep<'_>) -> PluginResult<()>>,
    post_filter: Option<fn(&P, &mut PostFilterCycle<'_>) -> PluginResult<PostFiltered>>,
    pre_score: Option<fn(&P, &Cycle<'_>, &NodeSet) -> PluginResult<PreScored<ScoreState<P>>>>,
    score: Option<fn(&P, &Cycle<'_>, &ScoreState<P>, NodeIdx) -> PluginResult<i64>>,
    score_batch: Option<fn(&P, &Cycle<'_>, &ScoreState<P>, &NodeSet, &mut [i64]) -> PluginResult<()>>,
    normalize_own: Option<fn(&P, &Cycle<'_>, &ScoreState<P>, &NodeSet, &mut [i64]) -> PluginResult<()>>,
    reserve: Option<fn(&P, &Cycle<'_>, &FilterState<P>, NodeIdx) -> PluginResult<Verdict>>,
    unreserve: Option<fn(&P, &PodInfo, &Str)>,
    permit: Option<fn(&P, &Cycle<'_>, &Str, &mut dyn WaitingPods) -> PluginResult<Permitted>>,
    pre_flight: Option<fn(&P, &PodInfo, &Str) -> PluginResult<PreFlight>>,
    pre_bind: Option<for<'a> fn(&'a P, &'a BindCycle) -> BoxFuture<'a, Result<(), BindFailure>>>,
    bind: Option<for<'a> fn(&'a P, &'a BindCycle) -> BoxFuture<'a, Result<Bound, BindFailure>>>,
    post_bind: Option<fn(&P, &BindCycle)>,
}

impl<P: Plugin> Points<P> {
    fn of_plugin() -> Self {
        let mut points = Self {
            set: PointSet::default(),
            normalize: Normalize::AsIs,
            index: None,
            pre_enqueue: None,
            less: None,
            pre_filter: None,
            add_pod: None,
            remove_pod: None,
            filter: None,
            filter_batch: None,
            post_filter: None,
            pre_score: None,
            score: None,
            score_batch: None,
            normalize_own: None,
            reserve: None,
            unreserve: None,
            permit: None,
            pre_flight: None,
            pre_bind: None,
            bind: None,
            post_bind: None,
        };
        P::points(&mut points);
        points
    }

    /// The points as a set.
    pub fn set_of_plugin() -> PointSet {
        Self::of_plugin().set
    }

    fn has(&mut self, point: ExtensionPoint) -> &mut Self {
        self.set.insert(point);
        self
    }

    /// Keeps an index.
    pub fn indexed(&mut self) -> &mut Self
    where
        P: Indexed,
    {
        let prepare: PrepareFn<P> = |p, indexes, known, pod| {
            p.prepare(indexes.get_mut()?, known, pod);
            Ok(())
        };
        self.index = Some((IndexKind::of::<P::Index>(), prepare));
        self
    }

    /// Takes part in PreEnqueue.
    pub fn pre_enqueue(&mut self) -> &mut Self
    where
        P: PreEnqueue,
    {
        self.pre_enqueue = Some(P::pre_enqueue);
        self.has(ExtensionPoint::PreEnqueue)
    }

    /// Takes part in QueueSort.
    pub fn queue_sort(&mut self) -> &mut Self
    where
        P: QueueSort,
    {
        self.less = Some(P::less);
        self.has(ExtensionPoint::QueueSort)
    }

    /// Takes part in PreFilter.
    pub fn pre_filter(&mut self) -> &mut Self
    where
        P: PreFilter,
    {
        self.pre_filter = Some(P::pre_filter);
        self.add_pod = Some(|p, cx, state, pod, row| p.add_pod(cx, state, pod, cx.nodes.node(row)));
        self.remove_pod = Some(|p, cx, state, pod, row| p.remove_pod(cx, state, pod, cx.nodes.node(row)));
        self.has(ExtensionPoint::PreFilter)
    }

    /// Takes part in Filter.
    pub fn filter(&mut self) -> &mut Self
    where
        P: Filter,
    {
        self.filter = Some(|p, cx, state, row| p.filter(cx, state, cx.nodes.node(row)));
        self.filter_batch = Some(P::filter_batch);
        self.has(ExtensionPoint::Filter)
    }

    /// Takes part in PostFilter.
    pub fn post_filter(&mut self) -> &mut Self
    where
        P: PostFilter,
    {
        self.post_filter = Some(P::post_filter);
        self.has(ExtensionPoint::PostFilter)
    }

    /// Takes part in PreScore.
    pub fn pre_score(&mut self) -> &mut Self
    where
        P: PreScore,
    {
        self.pre_score = Some(P::pre_score);
        self.has(ExtensionPoint::PreScore)
    }

    /// Takes part in Score (and NormalizeScore).
    pub fn score(&mut self) -> &mut Self
    where
        P: Score,
    {
        self.normalize = P::NORMALIZE;
        self.score = Some(|p, cx, state, row| p.score(cx, state, cx.nodes.node(row)));
        self.score_batch = Some(P::score_batch);
        self.normalize_own = Some(P::normalize);
        self.has(ExtensionPoint::Score)
    }

    /// Takes part in Reserve.
    pub fn reserve(&mut self) -> &mut Self
    where
        P: Reserve,
    {
        self.reserve = Some(|p, cx, state, row| p.reserve(cx, state, cx.nodes.node(row)));
        self.unreserve = Some(P::unreserve);
        self.has(ExtensionPoint::Reserve)
    }

    /// Takes part in Permit.
    pub fn permit(&mut self) -> &mut Self
    where
        P: Permit,
    {
        self.permit = Some(P::permit);
        self.has(ExtensionPoint::Permit)
    }

    /// Takes part in PreBind.
    pub fn pre_bind(&mut self) -> &mut Self
    where
        P: PreBind,
    {
        self.pre_flight = Some(P::pre_flight);
        self.pre_bind = Some(|p, cx| Box::pin(p.pre_bind(cx)));
        self.has(ExtensionPoint::PreBind)
    }

    /// Takes part in Bind.
    pub fn bind(&mut self) -> &mut Self
    where
        P: Bind,
    {
        self.bind = Some(|p, cx| Box::pin(p.bind(cx)));
        self.has(ExtensionPoint::Bind)
    }

    /// Takes part in PostBind.
    pub fn post_bind(&mut self) -> &mut Self
    where
        P: PostBind,
    {
        self.post_bind = Some(P::post_bind);
        self.has(ExtensionPoint::PostBind)
    }
}

/// Ties a plugin and its points together.
pub fn install<P: Plugin>(plugin: P) -> Arc<dyn ErasedPlugin> {
    Arc::new(Installed { plugin, points: Points::of_plugin() })
}

struct Installed<P: Plugin> {
    plugin: P,
    points: Points<P>,
}

/// The one place where a slot's type is looked at. A slot is only ever filled by the same plugin, so the cast holds;
/// should it not, the plugin counts as skipped.
fn state_in<T: 'static>(slot: &Slot) -> Option<&T> {
    slot.as_deref().and_then(|state| state.downcast_ref())
}

fn state_in_mut<T: 'static>(slot: &mut Slot) -> Option<&mut T> {
    slot.as_deref_mut().and_then(|state| state.downcast_mut())
}

impl<P: Plugin> Installed<P> {
    fn change_what_if(
        &self,
        change: Option<WhatIfFn<P>>,
        cx: &Cycle<'_>,
        slot: &mut Slot,
        pod: &PodInfo,
        row: NodeIdx,
    ) -> PluginResult<()> {
        match (change, state_in_mut(slot)) {
            (Some(change), Some(state)) => change(&self.plugin, cx, state, pod, row),
            _ => Ok(()),
        }
    }
}

impl<P: Plugin> ErasedPlugin for Installed<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn scope(&self) -> Scope {
        P::SCOPE
    }

    fn implements(&self, point: ExtensionPoint) -> bool {
        self.points.set.contains(point)
    }

    fn events(self: Arc<Self>) -> Option<Vec<ErasedRegistration>> {
        let bind_hint = |hint: crate::events::HintFn<P>| -> ErasedHint {
            let this = self.clone();
            Box::new(move |pod, change| hint(&this.plugin, pod, change))
        };
        let events = self.plugin.events()?;
        Some(
            events
                .into_iter()
                .map(|r| ErasedRegistration { event: r.event, hint: r.hint.map(bind_hint) })
                .collect(),
        )
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        self.plugin.sign(pod)
    }

    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> PluginResult<Verdict> {
        self.points.pre_enqueue.map_or(Ok(Ok(())), |run| run(&self.plugin, cx))
    }

    fn index(&self) -> Option<IndexKind> {
        self.points.index.map(|(kind, _)| kind)
    }

    fn prepare(&self, indexes: &mut Indexes, known: Known<'_>, pod: &PodInfo) -> PluginResult<()> {
        self.points.index.map_or(Ok(()), |(_, prepare)| prepare(&self.plugin, indexes, known, pod))
    }

    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        self.points.less.is_some_and(|less| less(&self.plugin, a, b))
    }

    fn pre_filter(&self, cx: &Cycle<'_>, slot: &mut Slot) -> PluginResult<PreFilterAnswer> {
        let Some(run) = self.points.pre_filter else { return Ok(PreFilterAnswer::Skip) };
        Ok(match run(&self.plugin, cx)? {
            PreFiltered::Skip => {
                *slot = None;
                PreFilterAnswer::Skip
            }
            PreFiltered::Continue { state, only } => {
                *slot = Some(Box::new(state));
                PreFilterAnswer::Continue(only)
            }
            PreFiltered::Reject(reject) => PreFilterAnswer::Reject(reject),
        })
    }

    fn default_filter_slot(&self) -> Slot {
        Some(Box::new(FilterState::<P>::default()))
    }

    fn add_pod(&self, cx: &Cycle<'_>, slot: &mut Slot, pod: &PodInfo, row: NodeIdx) -> PluginResult<()> {
        self.change_what_if(self.points.add_pod, cx, slot, pod, row)
    }

    fn remove_pod(&self, cx: &Cycle<'_>, slot: &mut Slot, pod: &PodInfo, row: NodeIdx) -> PluginResult<()> {
        self.change_what_if(self.points.remove_pod, cx, slot, pod, row)
    }

    fn clone_slot(&self, slot: &Slot) -> Slot {
        let state: &FilterState<P> = state_in(slot)?;
        Some(Box::new(state.clone()))
    }

    fn filter(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<Verdict> {
        match (self.points.filter, state_in(slot)) {
            (Some(run), Some(state)) => run(&self.plugin, cx, state, row),
            _ => Ok(Ok(())),
        }
    }

    fn filter_batch(&self, cx: &Cycle<'_>, slot: &Slot, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        match (self.points.filter_batch, state_in(slot)) {
            (Some(run), Some(state)) => run(&self.plugin, cx, state, sweep),
            _ => Ok(()),
        }
    }

    fn post_filter(&self, cx: &mut PostFilterCycle<'_>) -> PluginResult<PostFiltered> {
        match self.points.post_filter {
            Some(run) => run(&self.plugin, cx),
            None => Ok(PostFiltered::NoHelp { reasons: Vec::new(), nomination: Default::default() }),
        }
    }

    fn pre_score(&self, cx: &Cycle<'_>, candidates: &NodeSet, slot: &mut Slot) -> PluginResult<()> {
        let Some(run) = self.points.pre_score else { return Ok(()) };
        *slot = match run(&self.plugin, cx, candidates)? {
            PreScored::Skip => None,
            PreScored::Continue(state) => Some(Box::new(state)),
        };
        Ok(())
    }

    fn default_score_slot(&self) -> Slot {
        Some(Box::new(ScoreState::<P>::default()))
    }

    fn normalization(&self) -> Normalize {
        self.points.normalize
    }

    fn score(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<i64> {
        match (self.points.score, state_in(slot)) {
            (Some(run), Some(state)) => run(&self.plugin, cx, state, row),
            _ => Ok(0),
        }
    }

    fn score_batch(&self, cx: &Cycle<'_>, slot: &Slot, rows: &NodeSet, out: &mut [i64]) -> PluginResult<()> {
        match (self.points.score_batch, state_in(slot)) {
            (Some(run), Some(state)) => run(&self.plugin, cx, state, rows, out),
            _ => Ok(()),
        }
    }

    fn normalize(&self, cx: &Cycle<'_>, slot: &Slot, rows: &NodeSet, scores: &mut [i64]) -> PluginResult<()> {
        match (self.points.normalize_own, state_in(slot)) {
            (Some(run), Some(state)) => run(&self.plugin, cx, state, rows, scores),
            _ => Ok(()),
        }
    }

    fn reserve(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<Verdict> {
        let Some(run) = self.points.reserve else { return Ok(Ok(())) };
        match state_in(slot) {
            Some(state) => run(&self.plugin, cx, state, row),
            None => run(&self.plugin, cx, &FilterState::<P>::default(), row),
        }
    }

    fn unreserve(&self, pod: &PodInfo, node: &Str) {
        if let Some(run) = self.points.unreserve {
            run(&self.plugin, pod, node);
        }
    }

    fn permit(&self, cx: &Cycle<'_>, node: &Str, waiting: &mut dyn WaitingPods) -> PluginResult<Permitted> {
        self.points.permit.map_or(Ok(Permitted::Allow), |run| run(&self.plugin, cx, node, waiting))
    }

    fn pre_flight(&self, pod: &PodInfo, node: &Str) -> PluginResult<PreFlight> {
        self.points.pre_flight.map_or(Ok(PreFlight::NothingToDo), |run| run(&self.plugin, pod, node))
    }

    fn pre_bind<'a>(&'a self, cx: &'a BindCycle) -> BoxFuture<'a, Result<(), BindFailure>> {
        match self.points.pre_bind {
            Some(run) => run(&self.plugin, cx),
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn bind<'a>(&'a self, cx: &'a BindCycle) -> BoxFuture<'a, Result<Bound, BindFailure>> {
        match self.points.bind {
            Some(run) => run(&self.plugin, cx),
            None => Box::pin(async { Ok(Bound::NotMine) }),
        }
    }

    fn post_bind(&self, cx: &BindCycle) {
        if let Some(run) = self.points.post_bind {
            run(&self.plugin, cx);
        }
    }
}
