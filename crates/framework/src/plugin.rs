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
//!     fn filter(&self, _: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> Verdict {
//!         if node.name().starts_with("edge-") {
//!             return Err(Reject::unresolvable("node(s) are at the edge").into());
//!         }
//!         Ok(())
//!     }
//! }
//! ```
//!
//! Points are *written per node and may be run per table*: [`Filter::filter_batch`] and [`Score::score_batch`] have a
//! default that loops, and an override must give the same answers (the test kit checks it).

use harbormaster_api::Str;

use crate::{
    api_call::ApiCall,
    assume::Assume,
    cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, WaitingPods},
    events::Registration,
    index::{ClusterView, Index},
    nodeset::NodeSet,
    outcome::{
        Bound, Normalize, Permitted, PluginResult, PostFiltered, PreFiltered, PreFlight, PreScored, Stop,
        Verdict,
    },
    pod::PodInfo,
    points::Points,
    reads::Reads,
    scope::{Lent, RowPod, Scoped, Whole},
    scores::Scores,
    sweep::Sweep,
    table::NodeRef,
};

/// For how long a plugin's filter verdicts and scores may be kept: see [`crate::scope`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Not at all: some point of the plugin is lent the [whole](Whole) cluster.
    #[default]
    Cluster,
    /// Until the row changes: PreFilter, Filter, PreScore and Score are all lent [a row](crate::scope::Row).
    Row,
}

/// A scheduler plugin. See the [module documentation](self).
pub trait Plugin: Sized + Send + Sync + 'static {
    /// The name in configurations, metrics and messages.
    const NAME: &'static str;

    /// Made by PreFilter, lent to Filter, PostFilter, PreScore and Reserve of the same attempt. Without a PreFilter: the default.
    type FilterState: Clone + Default + Send + Sync + 'static;

    /// Made by PreScore, lent to Score. Without a PreScore: the default.
    type ScoreState: Default + Send + Sync + 'static;

    /// Lists the extension points that this plugin implements.
    fn points(points: &mut Points<Self>);

    /// The events that may make pods schedulable that this plugin rejected. `None`: every event requeues them.
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        None
    }

    /// For plugins that judge [rows](crate::scope::Row): what of the pod the answers depend on. Pods of which all plugins
    /// read the same share what is kept, so less is better. The whole spec and `spec.nodeName`, unless the plugin says
    /// otherwise.
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&*pod.spec.spec).of(&pod.node_name);
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
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict;
}

/// Keeps an index of the cluster. Plugins that name the same type share one.
pub trait Indexed: Plugin {
    /// What is kept.
    type Index: Index;

    /// A pod is about to be tried: the index may get ready for the questions that the other points are going to ask of
    /// it. The only place where it can be changed by a plugin, and what it then answers must still be what a new index
    /// would answer.
    fn prepare(&self, index: &mut Self::Index, view: ClusterView<'_>, pod: &PodInfo) {
        let _ = (index, view, pod);
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
pub trait PreFilter<S: Scoped = Whole>: Plugin {
    /// Prepares state, narrows the nodes, or rejects the pod.
    fn pre_filter(&self, cx: &S::Cycle<'_>) -> Result<PreFiltered<Self::FilterState>, Stop>;

    /// Another pod joins `node` in a question of the form "what if".
    fn add_pod(
        &self,
        cx: &S::Cycle<'_>,
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
        cx: &S::Cycle<'_>,
        state: &mut Self::FilterState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        let _ = (cx, state, pod, node);
        Ok(())
    }
}

/// Decides whether a pod fits a node.
pub trait Filter<S: Scoped = Whole>: Plugin {
    /// One node.
    fn filter(&self, cx: &S::Cycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> Verdict;

    /// Many rows at once: all candidates, or a part of them. [`Filter::filter`] is the definition; an override must agree
    /// with it, whichever rows are asked about together. Parts may come in any order, and one day at the same time.
    fn filter_batch(
        &self,
        cx: &S::Cycle<'_>,
        state: &Self::FilterState,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        for row in sweep.rows().iter() {
            match self.filter(cx, state, cx.nodes().node(row)) {
                Ok(()) => {}
                Err(Stop::Reject(reject)) => sweep.reject(row, reject),
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the lack of a node that this plugin rejects, in its own numbers and names: `wants 400 W, 120 W free`.
    /// `simulate --explain` shows it to people; nothing else asks.
    fn lacks(&self, cx: &S::Cycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> Option<String> {
        let _ = (cx, state, node);
        None
    }
}

/// Called when no node fits: may find a node that would fit after evictions.
pub trait PostFilter: Plugin {
    /// Looks for help. `state` is what PreFilter made; the default if it was not asked or said `Skip`.
    fn post_filter(
        &self,
        cx: &mut PostFilterCycle<'_>,
        state: &Self::FilterState,
    ) -> PluginResult<PostFiltered>;
}

/// Looks at the pod and the candidates once before nodes are scored.
pub trait PreScore<S: Scoped = Whole>: Plugin {
    /// Prepares state, or skips this plugin's score. `filtered` is what PreFilter made, and Filter noted in it; the default
    /// if it was not asked or said `Skip`.
    fn pre_score(
        &self,
        cx: &S::Cycle<'_>,
        filtered: &Self::FilterState,
        candidates: &NodeSet,
    ) -> PluginResult<PreScored<Self::ScoreState>>;
}

/// Ranks the nodes that fit.
pub trait Score<S: Scoped = Whole>: Plugin {
    /// How raw scores become 0..=100.
    const NORMALIZE: Normalize = Normalize::AsIs;

    /// The raw score of one node.
    fn score(&self, cx: &S::Cycle<'_>, state: &Self::ScoreState, node: NodeRef<'_>) -> PluginResult<i64>;

    /// Many rows at once: all candidates, or a part of them. Writes a score for each. [`Score::score`] is the definition;
    /// an override must agree with it, whichever rows are asked about together. Parts may come in any order, and one
    /// day at the same time.
    fn score_batch(
        &self,
        cx: &S::Cycle<'_>,
        state: &Self::ScoreState,
        scores: &mut Scores<'_>,
    ) -> PluginResult<()> {
        for (row, score) in scores.iter_mut() {
            *score = self.score(cx, state, cx.nodes().node(row))?;
        }
        Ok(())
    }

    /// With [`Normalize::Custom`]: brings `scores[row]` of every candidate into 0..=100.
    fn normalize(
        &self,
        cx: &S::Cycle<'_>,
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
    /// What was taken on the node: PreBind, PostBind and Unreserve of the same pod find it in their [`Placement`].
    type Reserved: Send + Sync + 'static;

    /// Takes what the pod needs on that node, or says no. What it `assume`s of objects counts for all pods behind this one.
    fn reserve(
        &self,
        cx: &Cycle<'_>,
        state: &Self::FilterState,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<Self::Reserved, Stop>;

    /// Gives it back. Called for every Reserve plugin, also for those whose `reserve` was not called or said no. What was
    /// assumed is taken back without help. `calls` are made later, before anything else is done for the pod.
    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>);
}

/// May hold a pod back before it is bound.
pub trait Permit: Plugin {
    /// Allows, rejects or waits. May release other pods through `waiting`.
    fn permit(&self, cx: &Cycle<'_>, node: &Str, waiting: &mut dyn WaitingPods) -> Result<Permitted, Stop>;
}

/// Does what must be done before the binding, for example attaching a volume. Runs beside the scheduling cycle.
pub trait PreBind: Plugin {
    /// Local and quick: is there anything to do?
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let _ = placement;
        Ok(PreFlight::Work { parallel: false })
    }

    /// Does it. An error gives the node up.
    fn pre_bind(&self, cx: &BindCycle) -> impl Future<Output = Verdict> + Send;
}

/// Binds the pod. Runs beside the scheduling cycle.
pub trait Bind: Plugin {
    /// Binds, or leaves the pod to the next Bind plugin.
    fn bind(&self, cx: &BindCycle) -> impl Future<Output = Result<Bound, Stop>> + Send;
}

/// Told of a binding that succeeded. Runs beside the scheduling cycle.
pub trait PostBind: Plugin {
    /// Informational: whatever comes of it, the pod is bound.
    fn post_bind(&self, cx: &BindCycle) -> impl Future<Output = ()> + Send;
}

/// A future of a plugin, boxed once at the border.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
