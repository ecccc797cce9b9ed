//! Type erasure of plugins: [`Points`] collects the traits that a plugin implements, and `Calls` is the resulting table
//! of functions.
//!
//! Only this module handles the concrete types of plugins and their states, and only [`crate::guard`] makes the calls.

use std::{
    any::{Any, TypeId},
    fmt,
    marker::PhantomData,
    sync::Arc,
};

use harbormaster_api::{
    Pod, Str,
    points::{ExtensionPoint, PointSet},
};

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, Waiting, WaitingPods},
    events::{ErasedRegistration, Registration},
    fetch::{FetchCalls, Fetches},
    group::{
        Feasibility, GroupCondition, GroupCycle, GroupId, GroupPlacement, GroupPostFilterCycle,
        GroupPostFiltered, GroupView, Groups, PlacementGenerate, PlacementScore, PodGroup,
        PodGroupPostFilter, ProposedPlacement,
    },
    index::{ClusterView, IndexKind, Indexes},
    nodeset::{NodeIdx, NodeSet},
    objects::Objects,
    outcome::Bound,
    outcome::{
        Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight, PreScored, Stop, Verdict,
    },
    plugin::{
        Bind, BoxFuture, CopiedState, Filter, Indexed, Permit, Plugin, PostBind, PostFilter, PreBind,
        PreEnqueue, PreFilter, PreScore, QueueSort, Queued, Rank, ReadsCluster, Reserve, Scope, Score,
        SignFragment, State, Turn, TurnCycle, Unsignable,
    },
    pod::PodInfo,
    reads::Reads,
    resource::{AnyCustom, Custom, ResourceKind, ResourceName, ResourceSet, Watches},
    row_log::RowLog,
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

/// The properties and functions of a plugin whose type is erased. Every function expects a plugin of the type for which
/// it was created.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) name: &'static str,
    pub(crate) may_block: bool,
    pub(crate) scope: Scope,
    pub(crate) set: PointSet,
    pub(crate) normalization: Normalize,
    pub(crate) events: fn(&AnyPlugin) -> Option<Vec<ErasedRegistration>>,
    pub(crate) sign: fn(ErasedPlugin<'_>, &PodInfo) -> Result<Vec<SignFragment>, Unsignable>,
    pub(crate) reads: fn(ErasedPlugin<'_>, RowPod<'_>, &mut Reads),
    pub(crate) filter_states: States,
    pub(crate) score_states: States,
    pub(crate) index: Option<(IndexKind, Prepare)>,
    pub(crate) resources: Vec<ResourceKind>,
    pub(crate) groups: Option<GroupCalls>,
    pub(crate) fetches: Option<FetchCalls>,
    pub(crate) shims: Shims,
}

/// The kind of objects that describe groups, and the methods of [`Groups`].
#[derive(Clone)]
pub(crate) struct GroupCalls {
    pub(crate) resource: ResourceName,
    pub(crate) group_of: fn(ErasedPlugin<'_>, &Pod) -> Option<Str>,
    pub(crate) describe: fn(ErasedPlugin<'_>, &AnyCustom) -> Option<PodGroup>,
    pub(crate) feasibility: fn(ErasedPlugin<'_>, GroupView<'_>, usize) -> Feasibility,
    pub(crate) record: fn(ErasedPlugin<'_>, &PodGroup, &GroupCondition) -> Option<ApiCall>,
}

/// One function for each method of the points; `None` for points that the plugin does not implement.
#[derive(Clone, Default)]
pub(crate) struct Shims {
    pub(crate) pre_enqueue: Option<fn(ErasedPlugin<'_>, EnqueueCycle<'_>) -> Verdict>,
    pub(crate) less: Option<fn(ErasedPlugin<'_>, Queued<'_>, Queued<'_>) -> bool>,
    pub(crate) rank: Option<fn(ErasedPlugin<'_>, Queued<'_>, &Objects) -> Rank>,
    pub(crate) turn: Option<fn(ErasedPlugin<'_>, &str, TurnCycle<'_>) -> PluginResult<Turn>>,
    pub(crate) pre_filter:
        Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &mut Slot) -> Result<PreFiltered<()>, Stop>>,
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
    pub(crate) scores_pod: Option<fn(ErasedPlugin<'_>, &Cycle<'_>) -> bool>,
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
    pub(crate) group_post_filter: Option<
        fn(
            ErasedPlugin<'_>,
            &mut GroupPostFilterCycle<'_>,
            &[Option<Slot>],
        ) -> PluginResult<GroupPostFiltered>,
    >,
    pub(crate) generate_placements:
        Option<fn(ErasedPlugin<'_>, &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stop>>,
    pub(crate) score_placement:
        Option<fn(ErasedPlugin<'_>, &GroupCycle<'_>, &ProposedPlacement<'_>) -> PluginResult<i64>>,
    pub(crate) normalize_placements:
        Option<fn(ErasedPlugin<'_>, &GroupCycle<'_>, &mut [i64]) -> PluginResult<()>>,
    pub(crate) reads_cluster: Option<fn(ErasedPlugin<'_>, &Cycle<'_>, &mut Reads) -> PluginResult<()>>,
    pub(crate) changed_rows:
        Option<for<'a> fn(ErasedPlugin<'_>, &Cycle<'a>) -> PluginResult<Option<&'a RowLog>>>,
}

impl Calls {
    /// Returns the functions for plugins of type `P`.
    pub(crate) fn of<P: Plugin>() -> Self {
        let mut points = Points::<P> { calls: Self::of_no_point::<P>(), plugin: PhantomData };
        P::points(&mut points);
        points.calls
    }

    fn of_no_point<P: Plugin>() -> Self {
        Self {
            name: P::NAME,
            may_block: P::MAY_BLOCK,
            scope: Scope::Cluster,
            set: PointSet::default(),
            normalization: Normalize::AsIs,
            events: registrations::<P>,
            sign: |this, pod| plugin::<P>(this).sign(pod),
            reads: |this, pod, reads| plugin::<P>(this).reads(pod, reads),
            filter_states: States::default(),
            score_states: States::default(),
            index: None,
            resources: Vec::new(),
            groups: None,
            fetches: None,
            shims: Shims::default(),
        }
    }
}

fn registrations<P: Plugin>(this: &AnyPlugin) -> Option<Vec<ErasedRegistration>> {
    let erase = |registration: Registration<P>| {
        let hint = registration.hint.map(|hint| {
            let this = this.clone();
            let hint: crate::events::ErasedHint =
                Box::new(move |cx, change| hint(plugin::<P>(&*this), cx, change));
            hint
        });
        ErasedRegistration { event: registration.event, hint }
    };
    Some(plugin::<P>(&**this).events()?.into_iter().map(erase).collect())
}

/// Restores the plugin's type. Only [`crate::guard::GuardedPlugin::new`] pairs a plugin with its calls.
fn plugin<P: Plugin>(this: ErasedPlugin<'_>) -> &P {
    match this.downcast_ref() {
        Some(plugin) => plugin,
        None => unreachable!("{} was called with another plugin", P::NAME),
    }
}

fn state<T: Send + Sync + 'static>(state: T) -> Slot {
    Some(Arc::new(state))
}

/// Returns a plugin's state. Only that plugin fills the slot. A point that takes `()` gets `()`, whatever the slot
/// holds.
fn state_in<T: 'static>(slot: &Slot) -> Option<&T> {
    let state = slot.as_deref()?;
    state.downcast_ref().or_else(|| (&() as &dyn Any).downcast_ref())
}

/// Returns a state for modification, copying it first if it is shared.
fn state_to_change<T: Clone + Send + Sync + 'static>(slot: &mut Slot) -> Option<&mut T> {
    let shared = slot.as_mut()?;
    if Arc::get_mut(shared).is_none() {
        let copy: T = shared.downcast_ref::<T>()?.clone();
        *shared = Arc::new(copy);
    }
    Arc::get_mut(shared)?.downcast_mut()
}

/// A point and the type of the state that it returns or takes.
#[derive(Clone, Copy)]
struct StateOf {
    point: ExtensionPoint,
    type_id: TypeId,
    type_name: &'static str,
    default: fn() -> Slot,
}

impl StateOf {
    fn new<S: State>(point: ExtensionPoint) -> Self {
        let default = || state(S::default());
        Self { point, type_id: TypeId::of::<S>(), type_name: std::any::type_name::<S>(), default }
    }

    fn is_nothing(&self) -> bool {
        self.type_id == TypeId::of::<()>()
    }
}

/// The type of state that one point of a plugin returns, and the types that other points take.
#[derive(Clone, Default)]
pub(crate) struct States {
    made: Option<StateOf>,
    taken: Vec<StateOf>,
}

impl States {
    /// The state that all points agree on: the state that a point returns, or else the first state other than `()` that
    /// a point takes. `None` if there is neither.
    fn agreed(&self) -> Option<&StateOf> {
        self.made.as_ref().or_else(|| self.taken.iter().find(|state| !state.is_nothing()))
    }

    /// The state for an attempt in which no point returned one.
    pub(crate) fn default_slot(&self) -> Slot {
        self.agreed().map_or_else(|| state(()), |state| (state.default)())
    }

    /// Returns two points that name different states, if there are any. A point that takes `()` agrees with every other
    /// point.
    pub(crate) fn conflict(&self) -> Option<StateConflict> {
        let agreed = self.agreed()?;
        let other = |taken: &&StateOf| !taken.is_nothing() && taken.type_id != agreed.type_id;
        let taken = self.taken.iter().find(other)?;
        Some(StateConflict { made: (agreed.point, agreed.type_name), taken: (taken.point, taken.type_name) })
    }
}

/// Two points of a plugin that name different states, and the types of the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateConflict {
    /// The point that returns the state (PreFilter or PreScore), or else the first point that takes one.
    pub made: (ExtensionPoint, &'static str),
    /// The point that takes a different state.
    pub taken: (ExtensionPoint, &'static str),
}

impl fmt::Display for StateConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((maker, made), (taker, taken)) = (self.made, self.taken);
        write!(f, "the state is {made} in {maker} but {taken} in {taker}")
    }
}

/// The points that a plugin implements, as [`crate::detection`] finds them.
pub struct Points<P: Plugin> {
    calls: Calls,
    plugin: PhantomData<fn(&P)>,
}

impl<P: Plugin> Points<P> {
    fn has(&mut self, point: ExtensionPoint) {
        self.calls.set.insert(point);
    }

    /// Records the scope of one of the points whose answers may be cached.
    fn record_scope<V: Scoped>(&mut self) {
        let is_first = ![
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ]
        .iter()
        .any(|point| self.calls.set.contains(*point));
        if is_first || V::SCOPE == Scope::Cluster {
            self.calls.scope = V::SCOPE;
        }
    }

    /// Adds the plugin's index.
    pub(crate) fn index(&mut self)
    where
        P: Indexed,
    {
        let prepare: Prepare = |this, indexes, view, pod| {
            plugin::<P>(this).prepare(indexes.get_mut()?, view, pod);
            Ok(())
        };
        self.calls.index = Some((IndexKind::of::<P::Index>(), prepare));
    }

    /// Adds the resources that the plugin watches.
    pub(crate) fn watches(&mut self)
    where
        P: Watches,
    {
        self.resources::<P>();
    }

    /// Adds the resources that the plugin or its index watches.
    pub(crate) fn resources<W: Watches>(&mut self) {
        W::Resources::kinds().into_iter().for_each(|kind| self.resource(kind));
    }

    fn resource(&mut self, kind: ResourceKind) {
        if !self.calls.resources.iter().any(|known| known.is_same(&kind)) {
            self.calls.resources.push(kind);
        }
    }

    /// Lets the plugin define groups.
    pub(crate) fn groups(&mut self)
    where
        P: Groups,
    {
        self.resource(ResourceKind::of::<P::Object>());
        self.calls.groups = Some(GroupCalls {
            resource: ResourceName::of::<P::Object>(),
            group_of: |this, pod| plugin::<P>(this).group_of(pod),
            describe: |this, object| {
                let object: &Custom<P::Object> = object.downcast_ref()?;
                let metadata = &object.metadata;
                let id = GroupId { namespace: metadata.namespace.clone(), name: metadata.name.clone() };
                let (uid, generation) = (metadata.uid.clone(), metadata.generation);
                Some(PodGroup { id, uid, generation, spec: plugin::<P>(this).describe(object) })
            },
            feasibility: |this, group, remaining| plugin::<P>(this).feasibility(group, remaining),
            record: |this, group, condition| plugin::<P>(this).record(group, condition),
        });
    }

    /// Lets the host fetch an object for the plugin.
    pub(crate) fn fetches(&mut self)
    where
        P: Fetches,
    {
        let kind = ResourceKind::of::<P::Object>();
        self.resource(kind);
        self.calls.fetches = Some(FetchCalls {
            kind,
            plan: |this| plugin::<P>(this).plan(),
            fetch: |this, web| Box::pin(plugin::<P>(this).fetch(web)),
        });
    }

    /// Lets row-scoped answers depend on facts about the cluster.
    pub(crate) fn reads_cluster(&mut self)
    where
        P: ReadsCluster,
    {
        self.calls.shims.reads_cluster = Some(|this, cx, reads| plugin::<P>(this).reads_cluster(cx, reads));
        self.calls.shims.changed_rows = Some(|this, cx| plugin::<P>(this).changed_rows(cx));
    }

    /// Adds PreEnqueue to the points of the plugin.
    pub(crate) fn pre_enqueue(&mut self)
    where
        P: PreEnqueue,
    {
        self.calls.shims.pre_enqueue = Some(|this, cx| plugin::<P>(this).pre_enqueue(cx));
        self.has(ExtensionPoint::PreEnqueue);
    }

    /// Adds QueueSort to the points of the plugin.
    pub(crate) fn queue_sort(&mut self)
    where
        P: QueueSort,
    {
        self.calls.shims.less = Some(|this, a, b| plugin::<P>(this).less(a, b));
        self.calls.shims.rank = Some(|this, queued, objects| plugin::<P>(this).rank(queued, objects));
        if P::TAKES_TURNS {
            self.calls.shims.turn = Some(|this, namespace, cx| plugin::<P>(this).turn(namespace, cx));
        }
        self.has(ExtensionPoint::QueueSort);
    }

    /// Adds PreFilter to the points of the plugin.
    pub(crate) fn pre_filter<V: Scoped, S: CopiedState>(&mut self)
    where
        P: PreFilter<V, S>,
    {
        self.calls.filter_states.made = Some(StateOf::new::<S>(ExtensionPoint::PreFilter));
        self.calls.shims.pre_filter = Some(|this, cx, slot| {
            Ok(match plugin::<P>(this).pre_filter(&V::part(cx))? {
                PreFiltered::Skip => {
                    *slot = None;
                    PreFiltered::Skip
                }
                PreFiltered::Continue { state: new_state, only } => {
                    *slot = state(new_state);
                    PreFiltered::Continue { state: (), only }
                }
            })
        });
        self.calls.shims.add_pod = Some(|this, cx, slot, pod, row| match state_to_change::<S>(slot) {
            Some(state) => plugin::<P>(this).add_pod(&V::part(cx), state, pod, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.calls.shims.remove_pod = Some(|this, cx, slot, pod, row| match state_to_change::<S>(slot) {
            Some(state) => plugin::<P>(this).remove_pod(&V::part(cx), state, pod, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.record_scope::<V>();
        self.has(ExtensionPoint::PreFilter);
    }

    /// Adds Filter to the points of the plugin.
    pub(crate) fn filter<V: Scoped, S: State>(&mut self)
    where
        P: Filter<V, S>,
    {
        self.calls.filter_states.taken.push(StateOf::new::<S>(ExtensionPoint::Filter));
        self.calls.shims.filter = Some(|this, cx, slot, row| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).filter(&V::part(cx), state, cx.nodes.node(row)),
            None => Ok(()),
        });
        self.calls.shims.filter_batch = Some(|this, cx, slot, sweep| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).filter_batch(&V::part(cx), state, sweep),
            None => Ok(()),
        });
        self.calls.shims.lacks = Some(|this, cx, slot, row| {
            plugin::<P>(this).lacks(&V::part(cx), state_in::<S>(slot)?, cx.nodes.node(row))
        });
        self.record_scope::<V>();
        self.has(ExtensionPoint::Filter);
    }

    /// Adds PostFilter to the points of the plugin.
    pub(crate) fn post_filter<S: State>(&mut self)
    where
        P: PostFilter<S>,
    {
        self.calls.filter_states.taken.push(StateOf::new::<S>(ExtensionPoint::PostFilter));
        self.calls.shims.post_filter = Some(|this, cx, slot| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).post_filter(cx, state),
            None => plugin::<P>(this).post_filter(cx, &S::default()),
        });
        self.has(ExtensionPoint::PostFilter);
    }

    /// Adds PodGroupPostFilter to the points of the plugin.
    pub(crate) fn group_post_filter<S: State>(&mut self)
    where
        P: PodGroupPostFilter<S>,
    {
        self.calls.filter_states.taken.push(StateOf::new::<S>(ExtensionPoint::PodGroupPostFilter));
        self.calls.shims.group_post_filter = Some(|this, cx, slots| {
            let default = S::default();
            let states = slots.iter().map(Option::as_ref);
            let states: Vec<Option<&S>> =
                states.map(|slot| Some(state_in::<S>(slot?).unwrap_or(&default))).collect();
            plugin::<P>(this).group_post_filter(cx, &states)
        });
        self.has(ExtensionPoint::PodGroupPostFilter);
    }

    /// Adds PlacementGenerate to the points of the plugin.
    pub(crate) fn generate_placements(&mut self)
    where
        P: PlacementGenerate,
    {
        self.calls.shims.generate_placements = Some(|this, cx| plugin::<P>(this).generate_placements(cx));
        self.has(ExtensionPoint::PlacementGenerate);
    }

    /// Adds PlacementScore to the points of the plugin.
    pub(crate) fn score_placement(&mut self)
    where
        P: PlacementScore,
    {
        self.calls.shims.score_placement =
            Some(|this, cx, proposed| plugin::<P>(this).score_placement(cx, proposed));
        self.calls.shims.normalize_placements =
            Some(|this, cx, scores| plugin::<P>(this).normalize_placements(cx, scores));
        self.has(ExtensionPoint::PlacementScore);
    }

    /// Adds PreScore to the points of the plugin.
    pub(crate) fn pre_score<V: Scoped, F: State, S: State>(&mut self)
    where
        P: PreScore<V, F, S>,
    {
        self.calls.filter_states.taken.push(StateOf::new::<F>(ExtensionPoint::PreScore));
        self.calls.score_states.made = Some(StateOf::new::<S>(ExtensionPoint::PreScore));
        self.calls.shims.pre_score = Some(|this, cx, filtered, candidates, slot| {
            let this = plugin::<P>(this);
            let scored = match state_in::<F>(filtered) {
                Some(filtered) => this.pre_score(&V::part(cx), filtered, candidates),
                None => this.pre_score(&V::part(cx), &F::default(), candidates),
            };
            *slot = match scored? {
                PreScored::Skip => None,
                PreScored::Continue(new_state) => state(new_state),
            };
            Ok(())
        });
        self.record_scope::<V>();
        self.has(ExtensionPoint::PreScore);
    }

    /// Adds Score (and NormalizeScore) to the points of the plugin.
    pub(crate) fn score<V: Scoped, S: State>(&mut self)
    where
        P: Score<V, S>,
    {
        self.calls.score_states.taken.push(StateOf::new::<S>(ExtensionPoint::Score));
        self.calls.normalization = <P as Score<V, S>>::NORMALIZE;
        self.calls.shims.scores_pod = Some(|this, cx| plugin::<P>(this).scores_pod(&V::part(cx)));
        self.calls.shims.score = Some(|this, cx, slot, row| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).score(&V::part(cx), state, cx.nodes.node(row)),
            None => Ok(0),
        });
        self.calls.shims.score_batch = Some(|this, cx, slot, scores| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).score_batch(&V::part(cx), state, scores),
            None => Ok(()),
        });
        self.calls.shims.normalize = Some(|this, cx, slot, rows, scores| match state_in::<S>(slot) {
            Some(state) => plugin::<P>(this).normalize(&V::part(cx), state, rows, scores),
            None => Ok(()),
        });
        self.record_scope::<V>();
        self.has(ExtensionPoint::Score);
    }

    /// Adds Reserve to the points of the plugin.
    pub(crate) fn reserve<S: State>(&mut self)
    where
        P: Reserve<S>,
    {
        self.calls.filter_states.taken.push(StateOf::new::<S>(ExtensionPoint::Reserve));
        self.calls.shims.reserve = Some(|this, cx, slot, row, assume| {
            let (this, node) = (plugin::<P>(this), cx.nodes.node(row));
            let reserved = match state_in::<S>(slot) {
                Some(state) => this.reserve(cx, state, node, assume),
                None => this.reserve(cx, &S::default(), node, assume),
            };
            reserved.map(state)
        });
        self.calls.shims.unreserve =
            Some(|this, placement, calls| plugin::<P>(this).unreserve(placement, calls));
        self.has(ExtensionPoint::Reserve);
    }

    /// Adds Permit to the points of the plugin.
    pub(crate) fn permit(&mut self)
    where
        P: Permit,
    {
        self.calls.shims.permit =
            Some(|this, cx, node, pods| plugin::<P>(this).permit(cx, node, &mut Waiting::new(pods, P::NAME)));
        self.has(ExtensionPoint::Permit);
    }

    /// Adds PreBind to the points of the plugin.
    pub(crate) fn pre_bind(&mut self)
    where
        P: PreBind,
    {
        self.calls.shims.pre_flight = Some(|this, placement| plugin::<P>(this).pre_flight(placement));
        self.calls.shims.pre_bind = Some(|this, cx| Box::pin(plugin::<P>(this).pre_bind(cx)));
        self.has(ExtensionPoint::PreBind);
    }

    /// Adds Bind to the points of the plugin.
    pub(crate) fn bind(&mut self)
    where
        P: Bind,
    {
        self.calls.shims.bind = Some(|this, cx| Box::pin(plugin::<P>(this).bind(cx)));
        self.has(ExtensionPoint::Bind);
    }

    /// Adds PostBind to the points of the plugin.
    pub(crate) fn post_bind(&mut self)
    where
        P: PostBind,
    {
        self.calls.shims.post_bind = Some(|this, cx| Box::pin(plugin::<P>(this).post_bind(cx)));
        self.has(ExtensionPoint::PostBind);
    }
}
