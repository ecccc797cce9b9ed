//! The interface of plugin authors: one trait per extension point.
//!
//! A plugin is a type that implements [`Plugin`] and the traits of the points it takes part in, and lists them once:
//!
//! ```
//! use harbormaster_framework::prelude::*;
//!
//! /// Keeps pods off nodes whose name starts with "edge-".
//! struct NoEdge;
//!
//! impl Plugin for NoEdge {
//!     const NAME: &'static str = "NoEdge";
//!     type FilterState = ();
//!     type ScoreState = ();
//!     fn points(points: &mut Points<Self>) {
//!         points.filter();
//!     }
//! }
//!
//! impl Filter for NoEdge {
//!     fn filter(&self, _: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<Verdict> {
//!         if node.name().starts_with("edge-") {
//!             return Ok(Err(Reject::unresolvable("node(s) are at the edge")));
//!         }
//!         Ok(Ok(()))
//!     }
//! }
//! ```
//!
//! Points are *written per node and may be run per table*: [`Filter::filter_batch`] and [`Score::score_batch`] have a
//! default that loops, and an override must give the same answers (the test kit checks it).

use std::{any::Any, future::Future, sync::Arc};

use harbormaster_api::{Str, points::ExtensionPoint};

use crate::{
    cycle::{BindCycle, Cycle, EnqueueCycle, PostFilterCycle, WaitingPods},
    events::Registration,
    index::{Index, IndexKind, Indexes, Known},
    nodeset::{NodeIdx, NodeSet},
    outcome::{
        BindFailure, Bound, Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight,
        PreScored, Reject, Verdict,
    },
    pod::PodInfo,
    points::Points,
    sweep::Sweep,
    table::NodeRef,
};

/// On what a plugin's filter verdicts and scores depend: how long they may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// On anything: asked anew in every cycle.
    #[default]
    Cluster,
    /// Only on the pod's [`harbormaster_api::PodSpec`] and `spec.nodeName` (not its name, labels or status), on the
    /// node's own row, on the number of nodes and on the plugin's arguments. Verdicts and scores of a row are then
    /// kept until the row changes or a node joins or leaves, and PreFilter and PreScore run once per spec instead of
    /// once per pod. PreScore sees an empty set of candidates, and scores must not be normalised by
    /// [`Normalize::Custom`].
    Row,
}

/// A scheduler plugin. See the [module documentation](self).
pub trait Plugin: Sized + Send + Sync + 'static {
    /// The name in configurations, metrics and messages.
    const NAME: &'static str;

    /// On what verdicts and scores depend.
    const SCOPE: Scope = Scope::Cluster;

    /// Made by PreFilter, lent to Filter, Reserve and Permit of the same attempt. Without a PreFilter: the default.
    type FilterState: Clone + Default + Send + Sync + 'static;

    /// Made by PreScore, lent to Score. Without a PreScore: the default.
    type ScoreState: Default + Send + Sync + 'static;

    /// Lists the extension points that this plugin implements.
    fn points(points: &mut Points<Self>);

    /// The events that may make pods schedulable that this plugin rejected. `None`: every event requeues them.
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        None
    }

    /// What this plugin reads of a pod, for opportunistic batching (KEP-5598): pods with equal fragments of all plugins
    /// get equal answers. `Err`: this pod cannot be batched; the default.
    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let _ = pod;
        Err(Unsignable)
    }
}

/// One key and value of a pod's signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignFragment {
    /// kube-scheduler's name of what was read.
    pub key: &'static str,
    /// Its value, in any form that is equal for equal input.
    pub value: String,
}

/// The pod cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsignable;

/// Decides whether a pod may enter the queue of pods that are tried. Called often: must be fast.
pub trait PreEnqueue: Plugin {
    /// `Err` keeps the pod out until one of the plugin's events lets it be asked again.
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> PluginResult<Verdict>;
}

/// Keeps an index of the cluster. Plugins that name the same type share one.
pub trait Indexed: Plugin {
    /// What is kept.
    type Index: Index;

    /// A pod is about to be tried: the index may get ready for the questions that the other points are going to ask of
    /// it. The only place where it can be changed by a plugin, and what it then answers must still be what a new index
    /// would answer.
    fn prepare(&self, index: &mut Self::Index, known: Known<'_>, pod: &PodInfo) {
        let _ = (index, known, pod);
    }
}

/// A pod in the queue, as far as ordering may look.
#[derive(Clone, Copy, Debug)]
pub struct Queued<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// When it entered the queue this time.
    pub since: harbormaster_api::Timestamp,
}

/// Orders the queue. A profile has exactly one, and all profiles the same.
pub trait QueueSort: Plugin {
    /// Whether `a` goes before `b`.
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool;
}

/// Looks at the pod once before nodes are filtered.
pub trait PreFilter: Plugin {
    /// Prepares state, narrows the nodes, or rejects the pod.
    fn pre_filter(&self, cx: &Cycle<'_>) -> PluginResult<PreFiltered<Self::FilterState>>;

    /// Another pod joins `node` in a question of the form "what if".
    fn add_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Self::FilterState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        let _ = (cx, state, pod, node);
        Ok(())
    }

    /// Another pod leaves `node` in a question of the form "what if".
    fn remove_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Self::FilterState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        let _ = (cx, state, pod, node);
        Ok(())
    }
}

/// Decides whether a pod fits a node.
pub trait Filter: Plugin {
    /// One node.
    fn filter(&self, cx: &Cycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> PluginResult<Verdict>;

    /// All candidate rows at once. [`Filter::filter`] is the definition; an override must agree with it.
    fn filter_batch(
        &self,
        cx: &Cycle<'_>,
        state: &Self::FilterState,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        for row in sweep.rows().iter() {
            if let Err(reject) = self.filter(cx, state, cx.nodes.node(row))? {
                sweep.reject(row, reject);
            }
        }
        Ok(())
    }
}

/// Called when no node fits: may find a node that would fit after evictions.
pub trait PostFilter: Plugin {
    /// Looks for help.
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>) -> PluginResult<PostFiltered>;
}

/// Looks at the pod and the candidates once before nodes are scored.
pub trait PreScore: Plugin {
    /// Prepares state, or skips this plugin's score.
    fn pre_score(&self, cx: &Cycle<'_>, candidates: &NodeSet) -> PluginResult<PreScored<Self::ScoreState>>;
}

/// Ranks the nodes that fit.
pub trait Score: Plugin {
    /// How raw scores become 0..=100.
    const NORMALIZE: Normalize = Normalize::AsIs;

    /// The raw score of one node.
    fn score(&self, cx: &Cycle<'_>, state: &Self::ScoreState, node: NodeRef<'_>) -> PluginResult<i64>;

    /// All candidates at once: writes `out[row]` for every row of `candidates`. [`Score::score`] is the definition; an
    /// override must agree with it.
    fn score_batch(
        &self,
        cx: &Cycle<'_>,
        state: &Self::ScoreState,
        candidates: &NodeSet,
        out: &mut [i64],
    ) -> PluginResult<()> {
        for row in candidates {
            out[row.at()] = self.score(cx, state, cx.nodes.node(row))?;
        }
        Ok(())
    }

    /// With [`Normalize::Custom`]: brings `scores[row]` of every candidate into 0..=100.
    fn normalize(
        &self,
        cx: &Cycle<'_>,
        state: &Self::ScoreState,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let _ = (cx, state, candidates, scores);
        Ok(())
    }
}

/// Told of the choice before the pod is bound.
pub trait Reserve: Plugin {
    /// Takes what the pod needs on that node, or says no.
    fn reserve(&self, cx: &Cycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> PluginResult<Verdict>;

    /// Gives it back. Called for every Reserve plugin, also for those whose `reserve` was not called or said no.
    fn unreserve(&self, pod: &PodInfo, node: &Str);
}

/// May hold a pod back before it is bound.
pub trait Permit: Plugin {
    /// Allows, rejects or waits. May release other pods through `waiting`.
    fn permit(&self, cx: &Cycle<'_>, node: &Str, waiting: &mut dyn WaitingPods) -> PluginResult<Permitted>;
}

/// Does what must be done before the binding, for example attaching a volume. Runs beside the scheduling cycle.
pub trait PreBind: Plugin {
    /// Local and quick: is there anything to do?
    fn pre_flight(&self, pod: &PodInfo, node: &Str) -> PluginResult<PreFlight> {
        let _ = (pod, node);
        Ok(PreFlight::Work { parallel: false })
    }

    /// Does it. An error gives the node up.
    fn pre_bind(&self, cx: &BindCycle) -> impl Future<Output = Result<(), BindFailure>> + Send;
}

/// Binds the pod. Runs beside the scheduling cycle.
pub trait Bind: Plugin {
    /// Binds, or leaves the pod to the next Bind plugin.
    fn bind(&self, cx: &BindCycle) -> impl Future<Output = Result<Bound, BindFailure>> + Send;
}

/// Told of a binding that succeeded.
pub trait PostBind: Plugin {
    /// Informational.
    fn post_bind(&self, cx: &BindCycle);
}

/// A plugin's state in one attempt; empty where the plugin said `Skip`.
pub type Slot = Option<Box<dyn Any + Send + Sync>>;

/// PreFilter's answer with the state put aside.
#[derive(Clone, Debug)]
pub enum PreFilterAnswer {
    /// Filter has nothing to check.
    Skip,
    /// Go on, perhaps on fewer nodes.
    Continue(Option<NodeSet>),
    /// No node can fit.
    Reject(Reject),
}

/// Whether an event may help, decided by one registration of one plugin.
pub type ErasedHint =
    Box<dyn Fn(&PodInfo, &crate::events::Change<'_>) -> PluginResult<crate::events::Hint> + Send + Sync>;

/// An event a plugin listens to, its hint bound to the plugin.
pub struct ErasedRegistration {
    /// What it listens to.
    pub event: crate::events::ClusterEvent,
    /// `None`: always queue.
    pub hint: Option<ErasedHint>,
}

/// A future of a plugin, boxed once at the border.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A plugin with its type erased, as profiles hold it. Made by [`crate::points::install`]; authors never write one.
pub trait ErasedPlugin: Send + Sync {
    /// See [`Plugin::NAME`].
    fn name(&self) -> &'static str;
    /// See [`Plugin::SCOPE`].
    fn scope(&self) -> Scope;
    /// Whether the plugin implements that point.
    fn implements(&self, point: ExtensionPoint) -> bool;
    /// See [`Plugin::events`].
    fn events(self: Arc<Self>) -> Option<Vec<ErasedRegistration>>;
    /// See [`Plugin::sign`].
    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable>;
    /// See [`PreEnqueue`].
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> PluginResult<Verdict>;
    /// See [`Indexed`]: the kind of index the plugin uses.
    fn index(&self) -> Option<IndexKind>;
    /// See [`Indexed::prepare`].
    fn prepare(&self, indexes: &mut Indexes, known: Known<'_>, pod: &PodInfo) -> PluginResult<()>;
    /// See [`QueueSort`].
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool;
    /// See [`PreFilter`]; fills `slot` unless skipped.
    fn pre_filter(&self, cx: &Cycle<'_>, slot: &mut Slot) -> PluginResult<PreFilterAnswer>;
    /// The state of a plugin without PreFilter.
    fn default_filter_slot(&self) -> Slot;
    /// See [`PreFilter::add_pod`].
    fn add_pod(&self, cx: &Cycle<'_>, slot: &mut Slot, pod: &PodInfo, row: NodeIdx) -> PluginResult<()>;
    /// See [`PreFilter::remove_pod`].
    fn remove_pod(&self, cx: &Cycle<'_>, slot: &mut Slot, pod: &PodInfo, row: NodeIdx) -> PluginResult<()>;
    /// A copy of the filter state.
    fn clone_slot(&self, slot: &Slot) -> Slot;
    /// See [`Filter::filter`]; fits when skipped.
    fn filter(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<Verdict>;
    /// See [`Filter::filter_batch`]; rejects nothing when skipped.
    fn filter_batch(&self, cx: &Cycle<'_>, slot: &Slot, sweep: &mut Sweep<'_>) -> PluginResult<()>;
    /// See [`PostFilter`].
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>) -> PluginResult<PostFiltered>;
    /// See [`PreScore`]; leaves `slot` empty when skipped.
    fn pre_score(&self, cx: &Cycle<'_>, candidates: &NodeSet, slot: &mut Slot) -> PluginResult<()>;
    /// The state of a plugin without PreScore.
    fn default_score_slot(&self) -> Slot;
    /// See [`Score::NORMALIZE`].
    fn normalization(&self) -> Normalize;
    /// See [`Score::score`].
    fn score(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<i64>;
    /// See [`Score::score_batch`].
    fn score_batch(&self, cx: &Cycle<'_>, slot: &Slot, rows: &NodeSet, out: &mut [i64]) -> PluginResult<()>;
    /// See [`Score::normalize`].
    fn normalize(&self, cx: &Cycle<'_>, slot: &Slot, rows: &NodeSet, scores: &mut [i64]) -> PluginResult<()>;
    /// See [`Reserve::reserve`].
    fn reserve(&self, cx: &Cycle<'_>, slot: &Slot, row: NodeIdx) -> PluginResult<Verdict>;
    /// See [`Reserve::unreserve`].
    fn unreserve(&self, pod: &PodInfo, node: &Str);
    /// See [`Permit`].
    fn permit(&self, cx: &Cycle<'_>, node: &Str, waiting: &mut dyn WaitingPods) -> PluginResult<Permitted>;
    /// See [`PreBind::pre_flight`].
    fn pre_flight(&self, pod: &PodInfo, node: &Str) -> PluginResult<PreFlight>;
    /// See [`PreBind::pre_bind`].
    fn pre_bind<'a>(&'a self, cx: &'a BindCycle) -> BoxFuture<'a, Result<(), BindFailure>>;
    /// See [`Bind`].
    fn bind<'a>(&'a self, cx: &'a BindCycle) -> BoxFuture<'a, Result<Bound, BindFailure>>;
    /// See [`PostBind`].
    fn post_bind(&self, cx: &BindCycle);
}
