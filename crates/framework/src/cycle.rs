//! The views that the framework passes to plugins.

use std::{ops::Deref, sync::Arc, time::Duration};

use harbormaster_api::{Str, Timestamp};

use crate::{
    api_call::{Api, ApiCall},
    attempt::DryRun,
    cluster::Cluster,
    extender::EvictionPlan,
    group::{GroupId, GroupView, PodGroup},
    index::Indexes,
    nodeset::{NodeIdx, NodeSet},
    nominations::Nominations,
    objects::Objects,
    outcome::{PluginResult, Reject},
    pod::PodInfo,
    points::Slot,
    sweep::PluginIdx,
    table::NodeTable,
};

/// View of one scheduling attempt. It is borrowed, so it cannot be stored, sent to a task or used after the attempt.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// Objects other than nodes and pods.
    pub objects: &'a Objects,
    /// Nominated pods of all priorities.
    pub nominations: &'a Nominations,
    indexes: &'a Indexes,
    /// The pod to be scheduled.
    pub pod: &'a PodInfo,
    /// Time at which the attempt began. Plugins have no other clock.
    pub now: Timestamp,
    /// The pod's group. Present only in Permit of a pod that was placed together with its group.
    pub group: Option<GroupView<'a>>,
    /// Number of the cycle in which the pod is placed together with its group; `None` for a pod on its own. It is the
    /// same for all members that are placed in one cycle, and differs from cycle to cycle.
    pub group_cycle: Option<u64>,
    /// True if row-scoped plugins see the cluster.
    rows_see_cluster: bool,
}

impl<'a> Cycle<'a> {
    /// Creates the view for an attempt to schedule `pod`.
    pub fn new(cluster: &'a Cluster, pod: &'a PodInfo) -> Self {
        Self::with_indexes(cluster, cluster.indexes(), pod)
    }

    /// Creates a view with indexes that do not belong to the cluster.
    pub fn with_indexes(cluster: &'a Cluster, indexes: &'a Indexes, pod: &'a PodInfo) -> Self {
        Self {
            nodes: cluster.nodes(),
            objects: cluster.objects(),
            nominations: cluster.nominations(),
            indexes,
            pod,
            now: cluster.now(),
            group: None,
            group_cycle: cluster.group_cycle(),
            rows_see_cluster: true,
        }
    }

    /// Returns the view with the pod's group.
    #[must_use]
    pub fn with_group(self, group: Option<GroupView<'a>>) -> Self {
        Self { group, ..self }
    }

    /// Returns the view for answers that outlive the attempt. `reads_cluster` is true if they are stored together with
    /// the facts about the cluster that they depend on.
    pub(crate) fn for_cached(self, reads_cluster: bool) -> Self {
        Self { rows_see_cluster: reads_cluster, ..self }
    }

    /// Returns the view for row-scoped plugins that may see the cluster.
    pub(crate) fn for_rows(&self) -> Option<Self> {
        self.rows_see_cluster.then_some(*self)
    }

    /// The indexes of all plugins.
    pub(crate) fn indexes(&self) -> &'a Indexes {
        self.indexes
    }
}

/// View for PreEnqueue plugins.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueCycle<'a> {
    /// The pod that is about to enter the queue.
    pub pod: &'a PodInfo,
    /// Objects other than nodes and pods.
    pub objects: &'a Objects,
    /// True while pods are being evicted to free resources for this pod, or for its group.
    pub awaits_eviction: bool,
    /// The pod's group, if it has one.
    pub group: Option<GroupView<'a>>,
}

impl<'a> EnqueueCycle<'a> {
    /// The view for a pod on its own, for which no pods are being evicted.
    pub fn new(pod: &'a PodInfo, objects: &'a Objects) -> Self {
        Self { pod, objects, awaits_eviction: false, group: None }
    }
}

/// View for PostFilter plugins: the reasons why no node fits, and dry runs.
pub struct PostFilterCycle<'a> {
    /// The pod that fits no node.
    pub pod: &'a PodInfo,
    /// PreFilter's rejection of the pod for all nodes, if there was one. If no eviction can help, the PreFilter plugins
    /// after the one that rejected the pod were not called.
    pub pre_filter: Option<Reject>,
    /// True if the PreFilter method of this plugin was called in this attempt.
    pub pre_filtered: bool,
    /// Requests to the API server that the plugin wants to make. They are sent later, but before anything else happens
    /// to the pod. A failed request is reported but has no other effect: the pod waits for events as if the request had
    /// succeeded.
    pub calls: &'a mut Vec<ApiCall>,
    /// Time at which the pod is tried again even if no event wakes it; see [`Self::try_again_at`].
    pub retry_at: Option<Timestamp>,
    /// Dry runs, which show whether the pod would fit a node without certain other pods.
    pub what_if: &'a mut dyn WhatIf,
}

impl PostFilterCycle<'_> {
    /// Has the pod tried again at this time, or after its backoff if that ends later. For plugins whose answer changes as
    /// time passes, because the passing of time is no event. The earliest of several times counts. If the pod is tried
    /// before, the plugin must ask again.
    pub fn try_again_at(&mut self, time: Timestamp) {
        self.retry_at = Some(self.retry_at.map_or(time, |known| known.min(time)));
    }
}

/// Evaluates changes to the cluster. A dry run changes the node table itself and restores it afterwards.
pub trait WhatIf {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &NodeTable;

    /// Objects other than nodes and pods.
    fn objects(&self) -> &Objects;

    /// Time at which the attempt began.
    fn now(&self) -> Timestamp;

    /// Returns the view of the attempt, with which a plugin reads its index.
    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a>;

    /// Returns the rejection of a node; `None` if the node was not rejected.
    fn rejection(&self, row: NodeIdx) -> Option<Reject>;

    /// Returns the Filter plugin that rejected the pod on `row`; `None` if no filter did.
    fn rejected_by(&self, row: NodeIdx) -> Option<&'static str>;

    /// Returns the rows on which the pod might fit after evictions, in the order visited.
    fn evictable_rows(&self) -> Vec<NodeIdx>;

    /// Returns a number that determines where a search starts. It differs between attempts, so that searches do not
    /// always visit the same nodes first.
    fn offset(&self) -> usize;

    /// Returns true if a search stops once it has found enough nodes, as in kube-scheduler. Returns false if a search
    /// visits all nodes.
    fn stops_early(&self) -> bool;

    /// Returns true if [`Self::agreed`] calls extenders for the pod.
    fn asks_extenders(&self) -> bool {
        false
    }

    /// Returns the plans that extenders agree to, with the victims that the extenders name. Without extenders, returns
    /// all plans. Extenders cannot add plans.
    ///
    /// # Errors
    /// When an extender that is not ignorable fails.
    fn agreed(&mut self, plans: Vec<EvictionPlan>) -> PluginResult<Vec<EvictionPlan>> {
        Ok(plans)
    }

    /// Returns the rows with pods whose groups have other priorities than the pods themselves.
    fn reprioritized_rows(&self) -> NodeSet {
        NodeSet::default()
    }

    /// Returns a group whose object exists.
    fn group(&self, id: &GroupId) -> Option<&PodGroup> {
        let _ = id;
        None
    }

    /// Returns the members of a group that are on nodes, in the order of the rows and of the pods on a node.
    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)> {
        let _ = id;
        Vec::new()
    }

    /// Starts a dry run of one node.
    fn dry_run(&mut self, row: NodeIdx) -> DryRun<'_>;
}

/// One plugin's access to the pods that Permit holds back. The plugin acts only on its own behalf.
pub struct Waiting<'a> {
    pods: &'a mut (dyn WaitingPods + 'a),
    plugin: &'static str,
}

impl<'a> Waiting<'a> {
    /// Creates the view for `plugin`.
    pub fn new(pods: &'a mut (dyn WaitingPods + 'a), plugin: &'static str) -> Self {
        Self { pods, plugin }
    }

    /// Returns the waiting pods and their nodes, in the order in which they began to wait.
    pub fn list(&self) -> Vec<(Arc<PodInfo>, Str)> {
        self.pods.list()
    }

    /// Ends the delay that this plugin imposed on the pod.
    pub fn allow(&mut self, uid: &str) {
        self.pods.allow(uid, self.plugin);
    }

    /// Rejects a waiting pod, which then loses its node.
    pub fn reject(&mut self, uid: &str, message: impl Into<String>) {
        self.pods.reject(uid, self.plugin, message.into());
    }

    /// Moves a queued pod to the active queue.
    pub fn activate(&mut self, namespace: &str, name: &str) {
        self.pods.activate(namespace, name);
    }
}

/// The pods that Permit holds back. Plugins access them through [`Waiting`].
pub trait WaitingPods {
    /// Returns the waiting pods and their nodes, in the order in which they began to wait.
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)>;

    /// Ends the delay that `plugin` imposed on the pod.
    fn allow(&mut self, uid: &str, plugin: &'static str);

    /// Rejects a waiting pod, which then loses its node.
    fn reject(&mut self, uid: &str, plugin: &'static str, message: String);

    /// Moves a queued pod to the active queue.
    fn activate(&mut self, namespace: &str, name: &str);
}

/// A pod, the node chosen for it, and the reservation of the plugin that receives the placement.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The pod, not yet bound.
    pub pod: Arc<PodInfo>,
    /// The chosen node.
    pub node: Str,
    reserved: Slot,
}

impl Placement {
    /// Creates a placement without a reservation.
    pub fn new(pod: Arc<PodInfo>, node: Str) -> Self {
        Self { pod, node, reserved: None }
    }

    /// Returns the reservation if it is of type `T`. This is for hosts and tests; the plugin itself reads its
    /// reservation with [`Reserve::reserved`](crate::plugin::Reserve::reserved).
    pub fn reservation<T: 'static>(&self) -> Option<&T> {
        self.reserved.as_deref()?.downcast_ref()
    }
}

/// A pod, the node chosen for it, and the reservations of all plugins.
#[derive(Clone, Debug)]
pub struct Reservation {
    pod: Arc<PodInfo>,
    node: Str,
    /// Reservation of each plugin; plugins past the end have none.
    reserved: Vec<Slot>,
}

impl Reservation {
    /// Creates an empty reservation.
    pub fn new(pod: Arc<PodInfo>, node: Str) -> Self {
        Self { pod, node, reserved: Vec::new() }
    }

    /// The pod.
    pub fn pod(&self) -> &Arc<PodInfo> {
        &self.pod
    }

    /// The node chosen for the pod.
    pub fn node(&self) -> &Str {
        &self.node
    }

    /// Returns the view for one plugin.
    pub fn of(&self, plugin: PluginIdx) -> Placement {
        let reserved = self.reserved.get(plugin.at()).cloned().flatten();
        Placement { pod: self.pod.clone(), node: self.node.clone(), reserved }
    }

    /// Stores the reservation of a plugin.
    pub fn set(&mut self, plugin: PluginIdx, reserved: Slot) {
        if self.reserved.len() <= plugin.at() {
            self.reserved.resize(plugin.at() + 1, None);
        }
        self.reserved[plugin.at()] = reserved;
    }
}

/// Owned view for PreBind, Bind and PostBind of one pod. Derefs to its [`Placement`].
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

/// Maximum time for which Permit may hold back a pod.
pub const MAX_PERMIT_WAIT: Duration = Duration::from_secs(15 * 60);
