//! Type erasure of plugins: [`Points`] lists the traits that a plugin implements, `Calls` is the resulting table of
//! functions.
//!
//! Only this module handles the concrete types of plugins and their states, and only [`crate::guard`] makes the calls.

use std::{any::Any, marker::PhantomData, sync::Arc};

use harbormaster_api::{
    Str,
    points::{ExtensionPoint, PointSet},
};

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, WaitingPods},
    events::{ErasedRegistration, Registration},
    index::{ClusterView, IndexKind, Indexes},
    nodeset::{NodeIdx, NodeSet},
    outcome::Bound,
    outcome::{
        Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight, PreScored, Stop, Verdict,
    },
    plugin::{
        Bind, BoxFuture, Filter, Indexed, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue,
        PreFilter, PreScore, QueueSort, Queued, Reserve, Scope, Score, SignFragment, Unsignable,
    },
    pod::PodInfo,
    reads::Reads,
    resource::{Resource, ResourceKind},
    scope::{RowPod, Scoped},
    scores::Scores,
    sweep::Sweep,
};

/// A plugin with its type erased.
pub(crate) type AnyPlugin = Arc<dyn Any + Send + Sync>;

/// A plugin's state in one attempt; `None` if the plugin returned `Skip`.
pub type Slot = Option<Arc<dyn Any + Send + Sync>>;

type ErasedPlugin<'a> = &'a (dyn Any + Send + Sync);
type WhatIfCall = fn(ErasedPlugin<'_>, &Cycle<'_>, &mut Slot, &PodInfo, NodeIdx) -> PluginResult<()>;
type Prepare = fn(ErasedPlugin<'_>, &mut Indexes, ClusterView<'_>, &PodInfo) -> PluginResult<()>;

/// PreFilter's answer without the state, which is stored separately.
#[derive(Clone, Debug)]
pub enum PreFilterAnswer {
    /// Filter has nothing to check.
    Skip,
    /// Continue, perhaps with fewer nodes.
    Continue(Option<NodeSet>),
}

/// The functions of a plugin whose type is erased; `None` for points where it does not take part. Every function
/// expects the plugin type that it was created for.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) set: PointSet,
    pub(crate) normalization: Normalize,
    pub(crate) events: fn(&AnyPlugin) -> Option<Vec<ErasedRegistration>>,
    pub(crate) sign: fn(ErasedPlugin<'_>, &PodInfo) -> Result<Vec<SignFragment>, Unsignable>,
    pub(crate) reads: fn(ErasedPlugin<'_>, RowPod<'_>, &mut Reads),
    pub(crate) filter_default: fn() -> Slot,
    pub(crate) score_default: fn() -> Slot,
    pub(crate) index: Option<(IndexKind, Prepare)>,
    pub(crate) resources: Vec<ResourceKind>,
    pub(crate) pre_enqueue: Option<fn(ErasedPlugin<'_>, EnqueueCycle<'_>) -> Verdict>,
    pub(crate) less: Option<fn(ErasedPlugin<'_>, Queued<'_>, Queued<'_>) -> bool>,
    pub(crate) pre_filter:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &mut Slot) -> Result<PreFilterAnswer, Stop>>,
    pub(crate) add_pod: Option<WhatIfCall>,
    pub(crate) remove_pod: Option<WhatIfCall>,
    pub(crate) filter: Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, NodeIdx) -> Verdict>,
    pub(crate) filter_batch:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, &mut Sweep<'_>) -> PluginResult<()>>,
    pub(crate) lacks: Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, NodeIdx) -> Option<String>>,
    pub(crate) post_filter:
        Option<fn(ErasedPlugin<'_>, &mut PostFilterCycle<'_>, &Slot) -> PluginResult<PostFiltered>>,
    pub(crate) pre_score:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, &NodeSet, &mut Slot) -> PluginResult<()>>,
    pub(crate) score: Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, NodeIdx) -> PluginResult<i64>>,
    pub(crate) score_batch:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, &mut Scores<'_>) -> PluginResult<()>>,
    pub(crate) normalize:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, &NodeSet, &mut [i64]) -> PluginResult<()>>,
    pub(crate) reserve:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Slot, NodeIdx, &mut Assume) -> Result<Slot, Stop>>,
    pub(crate) unreserve: Option<fn(ErasedPlugin<'_>, &Placement, &mut Vec<ApiCall>)>,
    pub(crate) permit:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &Str, &mut dyn WaitingPods) -> Result<Permitted, Stop>>,
    pub(crate) pre_flight: Option<fn(ErasedPlugin<'_>, &Placement) -> PluginResult<PreFlight>>,
    pub(crate) pre_bind: Option<for<'a> fn(ErasedPlugin<'a>, &'a BindCycle) -> BoxFuture<'a, Verdict>>,
    pub(crate) bind:
        Option<for<'a> fn(ErasedPlugin<'a>, &'a BindCycle) -> BoxFuture<'a, Result<Bound, Stop>>>,
    pub(crate) post_bind: Option<for<'a> fn(ErasedPlugin<'a>, &'a BindCycle) -> BoxFuture<'a, ()>>,
}

impl Calls {
    /// Returns the functions of plugins of type `P`.
    pub(crate) fn of<P: Plugin>() -> Self {
        let mut points = Points::<P> { calls: Self::of_no_point::<P>(), plugin: PhantomData };
        P::points(&mut points);
        points.calls
    }

    fn of_no_point<P: Plugin>() -> Self {
        Self {
            name: P::NAME,
            scope: Scope::Cluster,
            set: PointSet::default(),
            normalization: Normalize::AsIs,
            events: registrations::<P>,
            sign: |this, pod| plugin::<P>(this).sign(pod),
            reads: |this, pod, reads| plugin::<P>(this).reads(pod, reads),
            filter_default: || state(P::FilterState::default()),
            score_default: || state(P::ScoreState::default()),
            index: None,
            resources: Vec::new(),
            pre_enqueue: None,
            less: None,
            pre_filter: None,
            add_pod: None,
            remove_pod: None,
            filter: None,
            filter_batch: None,
            lacks: None,
            post_filter: None,
            pre_score: None,
            score: None,
            score_batch: None,
            normalize: None,
            reserve: None,
            unreserve: None,
            permit: None,
            pre_flight: None,
            pre_bind: None,
            bind: None,
            post_bind: None,
        }
    }
}

fn registrations<P: Plugin>(this: &AnyPlugin) -> Option<Vec<ErasedRegistration>> {
    let erase = |registration: Registration<P>| {
        let hint = registration.hint.map(|hint| {
            let this = this.clone();
            let hint: crate::events::ErasedHint =
                Box::new(move |pod, change| hint(plugin::<P>(&*this), pod, change));
            hint
        });
        ErasedRegistration { event: registration.event, hint }
    };
    Some(plugin::<P>(&**this).events()?.into_iter().map(erase).collect())
}

/// Restores the plugin's type. Only [`crate::guard::GuardedPlugin::new`] puts a plugin and its calls together.
fn plugin<P: Plugin>(this: ErasedPlugin<'_>) -> &P {
    match this.downcast_ref() {
        Some(plugin) => plugin,
        None => unreachable!("{} was called with another plugin", P::NAME),
    }
}

fn state<T: Send + Sync + 'static>(state: T) -> Slot {
    Some(Arc::new(state))
}

/// A plugin's state. Only the same plugin fills a slot.
fn state_in<T: 'static>(slot: &Slot) -> Option<&T> {
    slot.as_deref().and_then(|state| state.downcast_ref())
}

/// Returns a state for changing it, copying it first if it is shared.
fn state_to_change<T: Clone + Send + Sync + 'static>(slot: &mut Slot) -> Option<&mut T> {
    let shared = slot.as_mut()?;
    if Arc::get_mut(shared).is_none() {
        let copy: T = shared.downcast_ref::<T>()?.clone();
        *shared = Arc::new(copy);
    }
    Arc::get_mut(shared)?.downcast_mut()
}

/// The points that a plugin implements. Naming one compiles only if the plugin implements its trait.
pub struct Points<P: Plugin> {
    calls: Calls,
    plugin: PhantomData<fn(&P)>,
}

impl<P: Plugin> Points<P> {
    fn has(&mut self, point: ExtensionPoint) -> &mut Self {
        self.calls.set.insert(point);
        self
    }

    /// Records the scope of one of the points whose answers may be cached.
    fn judges<S: Scoped>(&mut self) -> &mut Self {
        let is_first = ![
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ]
        .iter()
        .any(|point| self.calls.set.contains(*point));
        if is_first || S::SCOPE == Scope::Cluster {
            self.calls.scope = S::SCOPE;
        }
        self
    }

    /// Declares an index.
    pub fn indexed(&mut self) -> &mut Self
    where
        P: Indexed,
    {
        let prepare: Prepare = |this, indexes, view, pod| {
            plugin::<P>(this).prepare(indexes.get_mut()?, view, pod);
            Ok(())
        };
        self.calls.index = Some((IndexKind::of::<P::Index>(), prepare));
        self
    }

    /// Declares that the plugin reads custom resources of that kind; the scheduler then watches them.
    pub fn resource<R: Resource>(&mut self) -> &mut Self {
        let kind = ResourceKind::of::<R>();
        if !self.calls.resources.iter().any(|known| known.is_same(&kind)) {
            self.calls.resources.push(kind);
        }
        self
    }

    /// Takes part in PreEnqueue.
    pub fn pre_enqueue(&mut self) -> &mut Self
    where
        P: PreEnqueue,
    {
        self.calls.pre_enqueue = Some(|this, cx| plugin::<P>(this).pre_enqueue(cx));
        self.has(ExtensionPoint::PreEnqueue)
    }

    /// Takes part in QueueSort.
    pub fn queue_sort(&mut self) -> &mut Self
    where
        P: QueueSort,
    {
        self.calls.less = Some(|this, a, b| plugin::<P>(this).less(a, b));
        self.has(ExtensionPoint::QueueSort)
    }

    /// Takes part in PreFilter.
    pub fn pre_filter<S: Scoped>(&mut self) -> &mut Self
    where
        P: PreFilter<S>,
    {
        self.calls.pre_filter = Some(|this, cx, slot| {
            Ok(match plugin::<P>(this).pre_filter(&S::part(cx))? {
                PreFiltered::Skip => {
                    *slot = None;
                    PreFilterAnswer::Skip
                }
                PreFiltered::Continue { state: new_state, only } => {
                    *slot = state(new_state);
                    PreFilterAnswer::Continue(only)
                }
            })
        });
        self.calls.add_pod = Some(|this, cx, slot, pod, row| match state_to_change(slot) {
            Some(state) => plugin::<P>(this).add_pod(&S::part(cx), state, pod, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.calls.remove_pod = Some(|this, cx, slot, pod, row| match state_to_change(slot) {
            Some(state) => plugin::<P>(this).remove_pod(&S::part(cx), state, pod, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.judges::<S>().has(ExtensionPoint::PreFilter)
    }

    /// Takes part in Filter.
    pub fn filter<S: Scoped>(&mut self) -> &mut Self
    where
        P: Filter<S>,
    {
        self.calls.filter = Some(|this, cx, slot, row| match state_in(slot) {
            Some(state) => plugin::<P>(this).filter(&S::part(cx), state, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.calls.filter_batch = Some(|this, cx, slot, sweep| match state_in(slot) {
            Some(state) => plugin::<P>(this).filter_batch(&S::part(cx), state, sweep),
            None => Ok(()),
        });
        self.calls.lacks = Some(|this, cx, slot, row| {
            plugin::<P>(this).lacks(&S::part(cx), state_in(slot)?, cx.nodes.node(row))
        });
        self.judges::<S>().has(ExtensionPoint::Filter)
    }

    /// Takes part in PostFilter.
    pub fn post_filter(&mut self) -> &mut Self
    where
        P: PostFilter,
    {
        self.calls.post_filter = Some(|this, cx, slot| match state_in(slot) {
            Some(state) => plugin::<P>(this).post_filter(cx, state),
            None => plugin::<P>(this).post_filter(cx, &P::FilterState::default()),
        });
        self.has(ExtensionPoint::PostFilter)
    }

    /// Takes part in PreScore.
    pub fn pre_score<S: Scoped>(&mut self) -> &mut Self
    where
        P: PreScore<S>,
    {
        self.calls.pre_score = Some(|this, cx, filtered, candidates, slot| {
            let this = plugin::<P>(this);
            let scored = match state_in(filtered) {
                Some(filtered) => this.pre_score(&S::part(cx), filtered, candidates),
                None => this.pre_score(&S::part(cx), &P::FilterState::default(), candidates),
            };
            *slot = match scored? {
                PreScored::Skip => None,
                PreScored::Continue(new_state) => state(new_state),
            };
            Ok(())
        });
        self.judges::<S>().has(ExtensionPoint::PreScore)
    }

    /// Takes part in Score (and NormalizeScore).
    pub fn score<S: Scoped>(&mut self) -> &mut Self
    where
        P: Score<S>,
    {
        self.calls.normalization = <P as Score<S>>::NORMALIZE;
        self.calls.score = Some(|this, cx, slot, row| match state_in(slot) {
            Some(state) => plugin::<P>(this).score(&S::part(cx), state, cx.nodes.node(row)),
            None => Ok(0),
        });
        self.calls.score_batch = Some(|this, cx, slot, scores| match state_in(slot) {
            Some(state) => plugin::<P>(this).score_batch(&S::part(cx), state, scores),
            None => Ok(()),
        });
        self.calls.normalize = Some(|this, cx, slot, rows, scores| match state_in(slot) {
            Some(state) => plugin::<P>(this).normalize(&S::part(cx), state, rows, scores),
            None => Ok(()),
        });
        self.judges::<S>().has(ExtensionPoint::Score)
    }

    /// Takes part in Reserve.
    pub fn reserve(&mut self) -> &mut Self
    where
        P: Reserve,
    {
        self.calls.reserve = Some(|this, cx, slot, row, assume| {
            let (this, node) = (plugin::<P>(this), cx.nodes.node(row));
            let reserved = match state_in(slot) {
                Some(state) => this.reserve(cx, state, node, assume),
                None => this.reserve(cx, &P::FilterState::default(), node, assume),
            };
            reserved.map(state)
        });
        self.calls.unreserve = Some(|this, placement, calls| plugin::<P>(this).unreserve(placement, calls));
        self.has(ExtensionPoint::Reserve)
    }

    /// Takes part in Permit.
    pub fn permit(&mut self) -> &mut Self
    where
        P: Permit,
    {
        self.calls.permit = Some(|this, cx, node, waiting| plugin::<P>(this).permit(cx, node, waiting));
        self.has(ExtensionPoint::Permit)
    }

    /// Takes part in PreBind.
    pub fn pre_bind(&mut self) -> &mut Self
    where
        P: PreBind,
    {
        self.calls.pre_flight = Some(|this, placement| plugin::<P>(this).pre_flight(placement));
        self.calls.pre_bind = Some(|this, cx| Box::pin(plugin::<P>(this).pre_bind(cx)));
        self.has(ExtensionPoint::PreBind)
    }

    /// Takes part in Bind.
    pub fn bind(&mut self) -> &mut Self
    where
        P: Bind,
    {
        self.calls.bind = Some(|this, cx| Box::pin(plugin::<P>(this).bind(cx)));
        self.has(ExtensionPoint::Bind)
    }

    /// Takes part in PostBind.
    pub fn post_bind(&mut self) -> &mut Self
    where
        P: PostBind,
    {
        self.calls.post_bind = Some(|this, cx| Box::pin(plugin::<P>(this).post_bind(cx)));
        self.has(ExtensionPoint::PostBind)
    }
}
