//! What the framework lends to plugins during one attempt.

use std::{sync::Arc, time::Duration};

use harbormaster_api::Str;

use crate::{
    nodeset::{NodeIdx, NodeSet},
    outcome::{PluginError, PluginResult, Reject, Verdict},
    plugin::BoxFuture,
    pod::PodInfo,
    table::NodeTable,
};

/// Borrowed for one scheduling attempt: it cannot be stored, sent to a task or used afterwards.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// The pod to be scheduled.
    pub pod: &'a PodInfo,
}

/// Lent to PostFilter plugins: why no node fits, and the means to ask "what if".
pub struct PostFilterCycle<'a> {
    /// The pod that fits nowhere.
    pub pod: &'a PodInfo,
    /// Answers "would the pod fit that node without those pods?".
    pub what_if: &'a mut dyn WhatIf,
}

/// Questions about a changed cluster, answered on the node table itself and undone afterwards.
pub trait WhatIf {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &NodeTable;

    /// Why the pod does not fit that node; `None` if no filter rejected it.
    fn rejection(&self, row: NodeIdx) -> Option<Reject>;

    /// Whether the pod fits `row` once the pods with these UIDs are gone from it.
    ///
    /// # Errors
    /// When a filter plugin fails unexpectedly.
    fn fits_without(&mut self, row: NodeIdx, gone: &[Str]) -> PluginResult<Verdict>;

    /// The rows that evicting pods might open up.
    fn evictable_rows(&self) -> NodeSet;
}

/// Pods that wait on Permit.
pub trait WaitingPods {
    /// UIDs and pods that wait, with the node they wait for, in the order in which they began to.
    fn list(&self) -> Vec<(Arc<PodInfo>, Str)>;

    /// Plugin `plugin` no longer holds the pod back.
    fn allow(&mut self, uid: &str, plugin: &'static str);

    /// The pod gives its node up.
    fn reject(&mut self, uid: &str, plugin: &'static str, message: String);

    /// Pods of the queue that should be tried soon (`namespace/name`).
    fn activate(&mut self, full_name: String);
}

/// Owned by one binding: what PreBind, Bind and PostBind see.
#[derive(Clone)]
pub struct BindCycle {
    /// The pod, not yet bound.
    pub pod: Arc<PodInfo>,
    /// The chosen node.
    pub node: Str,
    /// The API server.
    pub api: Arc<dyn ClusterApi>,
}

/// The calls that in-tree plugins make to the API server while binding.
pub trait ClusterApi: Send + Sync {
    /// `POST pods/<name>/binding`.
    ///
    /// # Errors
    /// As the API server answered.
    fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>>;
}

/// The longest that Permit may hold a pod.
pub const MAX_PERMIT_WAIT: Duration = Duration::from_secs(15 * 60);
