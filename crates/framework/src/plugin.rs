//! The interface for plugin authors: one trait per extension point.
//!
//! A plugin is a type that implements [`Plugin`] and the traits of its extension points:
//!
//! ```
//! use harbormaster_framework::prelude::*;
//!
//! /// Keeps pods off nodes whose name starts with "edge-".
//! struct NoEdge;
//!
//! impl Plugin for NoEdge {
//!     const NAME: &'static str = "NoEdge";
//!     implemented_points!();
//! }
//!
//! impl Filter for NoEdge {
//!     fn filter(&self, _: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> Verdict {
//!         if node.name().starts_with("edge-") {
//!             return Err(Reject::unresolvable("node(s) are at the edge").into());
//!         }
//!         Ok(())
//!     }
//! }
//! ```
//!
//! An earlier point passes data to later points of the same attempt as a [`State`], which is a type parameter of the
//! points' traits. PreFilter returns the state for Filter, PostFilter, PreScore and Reserve; PreScore returns the state
//! for Score. The default type is `()`. A point receives the default value of its state if the plugin lacks the point
//! that returns the state, or if that point was not called or returned `Skip`. After `Skip`, the plugin's own Filter or
//! Score is not called. A plugin cannot be built if its points disagree on the type of a state.
//!
//! Filter and Score are written for a single node but may run over the whole table: by default,
//! [`Filter::filter_batch`] and [`Score::score_batch`] call the single-node method for each row. An override must
//! return the same answers; the test kit checks that it does.

use harbormaster_api::{Str, Timestamp};

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cluster::Cluster,
    cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, Waiting},
    events::Registration,
    group::PodGroup,
    index::{ClusterView, Index, Indexes},
    nodeset::NodeSet,
    objects::Objects,
    outcome::{
        Bound, Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight, PreScored, Stop,
        Verdict,
    },
    pod::PodInfo,
    points::Points,
    reads::Reads,
    row_log::RowLog,
    scope::{CycleView, RowPod, Scoped, WholeCluster},
    scores::Scores,
    sweep::Sweep,
    table::NodeRef,
};

/// Lifetime of a plugin's filter verdicts and scores; see [`crate::scope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// One attempt: at least one point of the plugin sees the [whole cluster](WholeCluster).
    #[default]
    Cluster,
    /// Until the row changes: PreFilter, Filter, PreScore and Score all see [one row](crate::scope::Row).
    Row,
}

/// A scheduler plugin. See the [module documentation](self).
pub trait Plugin: Sized + Send + Sync + 'static {
    /// Name in configurations, metrics and messages.
    const NAME: &'static str;

    /// False if no call from PreEnqueue to Permit ever waits: for a reply, for a file, or for a lock that somebody holds
    /// for long. If this is false for all plugins, pods that come a few at a time are tried on the thread that also serves
    /// the network, which saves waking another thread. Calls must not wait for anything in any case; this constant says
    /// what happens if one does: either no other pod is tried meanwhile, or the scheduler stands still.
    const MAY_BLOCK: bool = true;

    /// Finds the extension points that this plugin implements. [`implemented_points!`](crate::implemented_points)
    /// generates this method.
    fn points(points: &mut Points<Self>);

    /// Returns the events that may make a pod schedulable after this plugin has rejected it. With `None`, any event of
    /// the kinds in [`EVERYTHING`](crate::profile::EVERYTHING) or of the plugin's own resources requeues the pod.
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        None
    }

    /// Lists the parts of a pod that the answers of a [row-scoped](crate::scope::Row) plugin depend on. Pods that are
    /// equal in everything that the plugins read share cached answers, so the fewer reads, the better. The default is
    /// the whole spec and `spec.nodeName`.
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&*pod.spec).of(&pod.node_name);
    }

    /// Returns the parts of a pod that this plugin reads, for opportunistic batching (KEP-5598): pods whose fragments
    /// are equal for all plugins get equal answers. `Err`, the default, means that the pod cannot be batched.
    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let _ = pod;
        Err(Unsignable)
    }
}

/// Lets a [row-scoped](crate::scope::Row) plugin base its answers for a few pods on more than the row: on other objects
/// or on an index.
pub trait ReadsCluster: Plugin {
    /// Lists the facts about the cluster that the answers for the pod depend on. Called in every attempt, so it must be
    /// quick. Pods share cached answers only while these facts are equal. If the method adds nothing, the plugin must
    /// not use [`RowCycle::cluster`](crate::scope::RowCycle::cluster).
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()>;

    /// Returns a log of the rows whose answers for the pod may have changed although neither the row nor a fact has:
    /// usually the log of an index. Pods for which the plugin lists equal facts must have the same log. Called only for
    /// pods for which it lists facts. By default, there is no log.
    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        let _ = cx;
        Ok(None)
    }
}

/// Data that a point of a plugin prepares for later points of the same attempt. See the [module documentation](self).
pub trait State: Default + Send + Sync + 'static {}

impl<T: Default + Send + Sync + 'static> State for T {}

/// A state that dry runs copy before they change it.
pub trait CopiedState: State + Clone {}

impl<T: State + Clone> CopiedState for T {}

/// One key and value of a pod's signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignFragment {
    /// kube-scheduler's name for the field that was read.
    pub key: &'static str,
    /// The field's value, in any form that is equal for equal inputs.
    pub value: String,
}

/// Error returned by a plugin that cannot sign a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsignable;

/// Decides whether a pod may enter the scheduling queue. Called often, so it must be fast.
pub trait PreEnqueue: Plugin {
    /// Returns `Err` to keep the pod out of the queue until one of the plugin's events causes this method to be called
    /// again.
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict;
}

/// Declares an index over the cluster, which the plugin reads with [`Indexed::index`]. Plugins that name the same type
/// share one instance.
pub trait Indexed: Plugin {
    /// The type of the index.
    type Index: Index;

    /// Prepares the index for the pod that is about to be scheduled. Called at the start of an attempt, before
    /// PreFilter, but not for row-scoped plugins. This is the only place where a plugin can change the index.
    /// Afterwards, the index must still give the same answers as a newly built one.
    fn prepare(&self, index: &mut Self::Index, view: ClusterView<'_>, pod: &PodInfo) {
        let _ = (index, view, pod);
    }

    /// Returns the index.
    ///
    /// # Errors
    /// When the index cannot be built because it panics.
    fn index<'a>(&self, cx: &Cycle<'a>) -> PluginResult<&'a Self::Index> {
        cx.indexes().get()
    }
}

/// A pod or a group of pods in the queue, reduced to the data that its position may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// The pod, or the first member of the group.
    pub pod: &'a PodInfo,
    /// The group, unless the pod is on its own.
    pub group: Option<&'a PodGroup>,
    /// Time at which the pod or group last entered the queue.
    pub since: Timestamp,
    /// Result of [`QueueSort::rank`].
    pub rank: Rank,
}

/// Numbers by which a QueueSort plugin orders the queue; see [`QueueSort::rank`].
pub type Rank = [i64; 4];

impl<'a> Queued<'a> {
    /// A pod on its own.
    pub fn pod(pod: &'a PodInfo, since: Timestamp) -> Self {
        Self { pod, group: None, since, rank: Rank::default() }
    }

    /// Returns the same pod or group with this rank.
    #[must_use]
    pub fn ranked(self, rank: Rank) -> Self {
        Self { rank, ..self }
    }

    /// Priority of the group if it has one, and otherwise of the pod.
    pub fn priority(&self) -> i32 {
        self.group.and_then(|group| group.priority).unwrap_or_else(|| self.pod.priority())
    }
}

/// Numbers by which namespaces take turns; see [`QueueSort::turn`].
pub type Turn = [i64; 8];

/// View for [`QueueSort::turn`].
#[derive(Clone, Copy)]
pub struct TurnCycle<'a> {
    /// Objects other than nodes and pods.
    pub objects: &'a Objects,
    indexes: &'a Indexes,
}

impl<'a> TurnCycle<'a> {
    /// The view of a cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { objects: cluster.objects(), indexes: cluster.indexes() }
    }

    /// Returns the plugin's index.
    ///
    /// # Errors
    /// When the index cannot be built because it panics.
    pub fn index<P: Indexed>(&self, _: &P) -> PluginResult<&'a P::Index> {
        self.indexes.get()
    }
}

/// Orders the queue. Every profile has exactly one QueueSort plugin, and all profiles have the same one.
pub trait QueueSort: Plugin {
    /// True if the pods of different namespaces are ordered by [`Self::turn`] first.
    const TAKES_TURNS: bool = false;

    /// Returns true if `a` goes before `b`. The answer must depend only on the plugin's arguments, `a` and `b`, and must
    /// be a strict order: if `a` goes before `b`, and `b` before `c`, then `a` goes before `c`.
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool;

    /// Returns what [`Self::less`] needs to know about objects, as numbers whose meaning is up to the plugin. They are
    /// stored with the pod while it waits ([`Queued::rank`]), so an order that depends on objects stays consistent.
    /// Called when the pod or group enters the queue or changes, and for all that are in the queue after a change to an
    /// object of a kind that the plugin [watches](crate::resource::Watches). Not called for a plugin that watches none.
    fn rank(&self, queued: Queued<'_>, objects: &Objects) -> Rank {
        let _ = (queued, objects);
        Rank::default()
    }

    /// Returns when the pods of a namespace have their turn: those with the lowest numbers come first. Among namespaces
    /// with equal numbers, and within a namespace, [`Self::less`] decides. Groups count for their namespaces, too.
    ///
    /// Unlike ranks, turns are not stored, so they may depend on an index that changes with every decision. Called for
    /// each namespace with ready pods whenever the next pod is taken. The cost does not depend on the number of pods.
    ///
    /// # Errors
    /// When the plugin fails. The namespace then comes after all others.
    fn turn(&self, namespace: &str, cx: TurnCycle<'_>) -> PluginResult<Turn> {
        let _ = (namespace, cx);
        Ok(Turn::default())
    }
}

/// Examines the pod once before nodes are filtered.
pub trait PreFilter<V: Scoped = WholeCluster, S: CopiedState = ()>: Plugin {
    /// Prepares state, narrows the nodes, or rejects the pod.
    fn pre_filter(&self, cx: &V::Cycle<'_>) -> Result<PreFiltered<S>, Stop>;

    /// Updates the state after another pod has joined `node` in a dry run.
    fn add_pod(
        &self,
        cx: &V::Cycle<'_>,
        state: &mut S,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        let _ = (cx, state, pod, node);
        Ok(())
    }

    /// Updates the state after another pod has left `node` in a dry run.
    fn remove_pod(
        &self,
        cx: &V::Cycle<'_>,
        state: &mut S,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        let _ = (cx, state, pod, node);
        Ok(())
    }
}

/// Decides whether a pod fits a node.
pub trait Filter<V: Scoped = WholeCluster, S: State = ()>: Plugin {
    /// Evaluates one node.
    fn filter(&self, cx: &V::Cycle<'_>, state: &S, node: NodeRef<'_>) -> Verdict;

    /// Evaluates a batch of rows: all candidates or some of them. [`Filter::filter`] defines the answers; an override
    /// must agree with it for every combination of rows. Batches may come in any order and, in the future, in parallel.
    fn filter_batch(&self, cx: &V::Cycle<'_>, state: &S, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        for row in sweep.rows().iter() {
            match self.filter(cx, state, cx.nodes().node(row)) {
                Ok(()) => {}
                Err(Stop::Reject(reject)) => sweep.reject(row, reject),
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Describes the shortfall of a node that this plugin rejects, in the plugin's own terms, for example
    /// `wants 400 W, 120 W free`. Called only for explanations, as in `simulate --explain`.
    fn lacks(&self, cx: &V::Cycle<'_>, state: &S, node: NodeRef<'_>) -> Option<String> {
        let _ = (cx, state, node);
        None
    }
}

/// Looks for a way to make a pod fit, for example by evictions. Called when no node fits.
pub trait PostFilter<S: State = ()>: Plugin {
    /// Looks for a way to make the pod fit. `state` is the state that PreFilter returned, or the default if PreFilter
    /// was not called or returned `Skip`.
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, state: &S) -> PluginResult<PostFiltered>;
}

/// Examines the pod and the candidates once before nodes are scored.
pub trait PreScore<V: Scoped = WholeCluster, F: State = (), S: State = ()>: Plugin {
    /// Prepares state or skips this plugin's score. `filtered` is the state that PreFilter returned, including anything
    /// that Filter stored in it, or the default if PreFilter was not called or returned `Skip`.
    fn pre_score(&self, cx: &V::Cycle<'_>, filtered: &F, candidates: &NodeSet) -> PluginResult<PreScored<S>>;
}

/// Ranks the nodes that fit.
pub trait Score<V: Scoped = WholeCluster, S: State = ()>: Plugin {
    /// Conversion of raw scores to 0..=100.
    const NORMALIZE: Normalize = Normalize::AsIs;

    /// Returns false if all nodes are equally good for the pod; the plugin then does not score them. If the
    /// plugin has PreScore, this method is not called; PreScore returns `Skip` instead.
    fn scores_pod(&self, cx: &V::Cycle<'_>) -> bool {
        let _ = cx;
        true
    }

    /// Returns the raw score of one node.
    fn score(&self, cx: &V::Cycle<'_>, state: &S, node: NodeRef<'_>) -> PluginResult<i64>;

    /// Scores a batch of rows: all candidates or some of them. [`Score::score`] defines the scores; an override must
    /// agree with it for every combination of rows and write a score for each. Batches may come in any order and, in
    /// the future, in parallel.
    fn score_batch(&self, cx: &V::Cycle<'_>, state: &S, scores: &mut Scores<'_>) -> PluginResult<()> {
        for (row, score) in scores.iter_mut() {
            *score = self.score(cx, state, cx.nodes().node(row))?;
        }
        Ok(())
    }

    /// Converts `scores[row]` of every candidate to 0..=100. Called only with [`Normalize::Custom`].
    fn normalize(
        &self,
        cx: &V::Cycle<'_>,
        state: &S,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let _ = (cx, state, candidates, scores);
        Ok(())
    }
}

/// Reserves resources on the chosen node before the pod is bound.
pub trait Reserve<S: State = ()>: Plugin {
    /// The type of the reservation. PreBind, PostBind and Unreserve of the same pod read it with [`Reserve::reserved`].
    type Reserved: Send + Sync + 'static;

    /// Reserves what the pod needs on the node, or rejects the node. When later pods are scheduled, plugins see the
    /// objects as `assume` describes them.
    fn reserve(
        &self,
        cx: &Cycle<'_>,
        state: &S,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Self::Reserved, Stop>;

    /// Returns this plugin's reservation. `None` if its `reserve` rejected the node or was not called.
    fn reserved<'a>(&self, placement: &'a Placement) -> Option<&'a Self::Reserved> {
        placement.reservation()
    }

    /// Releases the reservation. Called for every Reserve plugin, including those whose `reserve` was not called or
    /// rejected the node. The framework itself reverts the plugin's assumptions. `calls` are sent later, but before
    /// anything else happens to the pod.
    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>);
}

/// May delay a pod before it is bound.
pub trait Permit: Plugin {
    /// Allows the pod, rejects it, or makes it wait. May release other pods through `waiting`.
    fn permit(&self, cx: &Cycle<'_>, node: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop>;
}

/// Prepares the binding, for example by attaching a volume. Runs in the binding cycle, concurrently with scheduling.
pub trait PreBind: Plugin {
    /// Reports whether there is anything to do. Must be local and quick.
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let _ = placement;
        Ok(PreFlight::Work { parallel: false })
    }

    /// Does the work. If it fails, the pod loses the node.
    fn pre_bind(&self, cx: &BindCycle) -> impl Future<Output = Verdict> + Send;
}

/// Binds the pod. Runs in the binding cycle, concurrently with scheduling.
pub trait Bind: Plugin {
    /// Binds the pod or leaves it to the next Bind plugin.
    fn bind(&self, cx: &BindCycle) -> impl Future<Output = Result<Bound, Stop>> + Send;
}

/// Follows up on a successful binding. Runs in the binding cycle, concurrently with scheduling.
pub trait PostBind: Plugin {
    /// Does follow-up work. The pod stays bound whatever happens here.
    fn post_bind(&self, cx: &BindCycle) -> impl Future<Output = ()> + Send;
}

/// A plugin's future, boxed to erase its type.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
