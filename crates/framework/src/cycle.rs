//! What the framework lends to plugins during one attempt.

use std::{ops::Deref, sync::Arc, time::Duration};

use harbormaster_api::Str;

use crate::{
    api_call::Api,
    cluster::Cluster,
    extender::EvictionPlan,
    index::{Index, Indexes},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{PluginResult, Reject},
    plugin::Reserve,
    pod::PodInfo,
    points::Slot,
    sweep::PluginIdx,
    table::NodeTable,
};

/// Borrowed for one scheduling attempt: it cannot be stored, sent to a task or used afterwards.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// What plugins look up beside nodes and pods.
    pub objects: &'a Objects,
    /// What plugins keep.
    indexes: &'a Indexes,
    /// The pod to be scheduled.
    pub pod: &'a PodInfo,
}

impl<'a> Cycle<'a> {
    /// What an attempt to schedule `pod` sees.
    pub fn new(cluster: &'a Cluster, pod: &'a PodInfo) -> Self {
        Self::with_indexes(cluster, cluster.indexes(), pod)
    }

    /// The same, with indexes that the cluster does not keep.
    pub fn with_indexes(cluster: &'a Cluster, indexes: &'a Indexes, pod: &'a PodInfo) -> Self {
        Self { nodes: cluster.nodes(), objects: cluster.objects(), indexes, pod }
    }

    /// The index of that type.
    ///
    /// # Errors
    /// When the plugin has not listed it with [`crate::points::Points::indexed`].
    pub fn index<I: Index>(&self) -> PluginResult<&'a I> {
        self.indexes.get()
    }
}

/// Lent to PreEnqueue plugins.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueCycle<'a> {
    /// The pod that asks to be let into the queue.
    pub pod: &'a PodInfo,
    /// What plugins look up beside nodes and pods.
    pub objects: &'a Objects,
    /// Pods are being evicted to make room for this one, and that is not finished.
    pub awaits_eviction: bool,
}

/// Lent to PostFilter plugins: why no node fits, and the means to ask "what if".
pub struct PostFilterCycle<'a> {
    /// The pod that fits nowhere.
    pub pod: &'a PodInfo,
    /// Set when PreFilter rejected the pod altogether. If no eviction can help then, PreFilter plugins behind the one that
    /// said so were not asked.
    pub pre_filter: Option<Reject>,
    /// Answers "would the pod fit that node without those pods?".
    pub what_if: &'a mut dyn WhatIf,
}

/// Questions about a changed cluster, answered on the node table itself and undone afterwards.
pub trait WhatIf {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &NodeTable;

    /// What plugins look up beside nodes and pods.
    fn objects(&self) -> &Objects;

    /// Why the pod does not fit that node; `None` if no filter rejected it.
    fn rejection(&self, row: NodeIdx) -> Option<Reject>;

    /// The Filter plugin that rejected the pod on that row; `None` if no filter did.
    fn rejected_by(&self, row: NodeIdx) -> Option<&'static str>;

    /// The rows that evicting pods might open up, in walking order.
    fn evictable_rows(&self) -> Vec<NodeIdx>;

    /// A number to begin a search with. It differs from attempt to attempt, so that the search does not always look at
    /// the same nodes first.
    fn offset(&self) -> usize;

    /// Whether a search stops once it has seen enough nodes, as kube-scheduler's does. Otherwise it looks at all of them.
    fn stops_early(&self) -> bool;

    /// Whether [`Self::agreed`] asks extenders about this pod.
    fn asks_extenders(&self) -> bool {
        false
    }

    /// Which of these evictions extenders agree to, and of which pods; all of them without extenders. None may be added.
    ///
    /// # Errors
    /// When an extender fails that may not be ignored.
    fn agreed(&mut self, plans: Vec<EvictionPlan>) -> PluginResult<Vec<EvictionPlan>> {
        Ok(plans)
    }

    /// Lets `ask` take pods off a node and put them back, and ask whether the pod fits. Whatever is off the node when
    /// `ask` returns is put back.
    ///
    /// # Errors
    /// As `ask` fails.
    fn dry_run(
        &mut self,
        row: NodeIdx,
        ask: &mut dyn FnMut(&mut dyn DryRun) -> PluginResult<()>,
    ) -> PluginResult<()>;
}

/// One node, about which is asked "what if".
pub trait DryRun {
    /// Takes a pod off the node.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    fn remove_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()>;

    /// Puts back a pod that was taken off.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    fn add_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()>;

    /// Why the pod does not fit the node as it is now; `None` if it does. Nominated pods of equal or higher priority count as if they were
    /// there already, and once more as if they were not.
    ///
    /// # Errors
    /// When a Filter plugin fails unexpectedly.
    fn rejection(&mut self) -> PluginResult<Option<Reject>>;
}

/// Pods that wait on Permit.
pub trait WaitingPods {
    /// UIDs and pods that wait, with the node they wait for, in the order in which they began to.
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)>;

    /// Plugin `plugin` no longer holds the pod back.
    fn allow(&mut self, uid: &str, plugin: &'static str);

    /// The pod gives its node up.
    fn reject(&mut self, uid: &str, plugin: &'static str, message: String);

    /// A pod of the queue that should be tried soon.
    fn activate(&mut self, namespace: &str, name: &str);
}

/// A pod and the node it was decided for, with what the plugin that is asked has reserved there.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The pod, not yet bound.
    pub pod: Arc<PodInfo>,
    /// The chosen node.
    pub node: Str,
    reserved: Slot,
}

impl Placement {
    /// Nothing is reserved.
    pub fn new(pod: Arc<PodInfo>, node: Str) -> Self {
        Self { pod, node, reserved: None }
    }

    /// With what `P` has reserved.
    #[must_use]
    pub fn with<P: Reserve>(self, reserved: P::Reserved) -> Self {
        Self { reserved: Some(Arc::new(reserved)), ..self }
    }

    /// What the plugin's Reserve made. `None` when it said no, was not asked, or when `P` is another plugin.
    pub fn reserved<P: Reserve>(&self) -> Option<&P::Reserved> {
        self.reserved.as_deref()?.downcast_ref()
    }
}

/// A pod and the node it was decided for, with what all plugins have reserved there.
#[derive(Clone, Debug)]
pub struct Reservation {
    pod: Arc<PodInfo>,
    node: Str,
    /// By plugin; empty if there is no Reserve plugin.
    made: Vec<Slot>,
}

impl Reservation {
    /// Nothing is reserved yet.
    pub fn new(pod: Arc<PodInfo>, node: Str) -> Self {
        Self { pod, node, made: Vec::new() }
    }

    /// The pod.
    pub fn pod(&self) -> &Arc<PodInfo> {
        &self.pod
    }

    /// The node that it was decided for.
    pub fn node(&self) -> &Str {
        &self.node
    }

    /// What one plugin sees of it.
    pub fn of(&self, plugin: PluginIdx) -> Placement {
        let reserved = self.made.get(plugin.at()).cloned().flatten();
        Placement { pod: self.pod.clone(), node: self.node.clone(), reserved }
    }

    /// That plugin has made this.
    pub fn keep(&mut self, plugin: PluginIdx, made: Slot) {
        if self.made.len() <= plugin.at() {
            self.made.resize(plugin.at() + 1, None);
        }
        self.made[plugin.at()] = made;
    }
}

/// Owned by one binding: what PreBind, Bind and PostBind see. Reads like its [`Placement`].
#[derive(Clone)]
pub struct BindCycle {
    /// The pod and its node.
    pub placement: Placement,
    /// The API server.
    pub api: Api,
}

impl Deref for BindCycle {
    type Target = Placement;
    fn deref(&self) -> &Placement {
        &self.placement
    }
}

/// The longest that Permit may hold a pod.
pub const MAX_PERMIT_WAIT: Duration = Duration::from_secs(15 * 60);
