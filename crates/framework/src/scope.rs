//! The inputs that a plugin's answers may depend on, as types.
//!
//! A plugin chooses its scope by the trait that it implements. `impl Filter for P` sees the whole cluster and is called
//! in every attempt. `impl Filter<Row> for P` sees a [`RowCycle`], and its answers are cached until the row changes. A
//! [`RowCycle`] lacks data on which cached answers must not depend, such as annotations, so this plugin does not
//! compile:
//!
//! ```compile_fail,E0609
//! use harbormaster_framework::prelude::*;
//!
//! struct PowerCap;
//!
//! impl Plugin for PowerCap {
//!     const NAME: &'static str = "PowerCap";
//!     implemented_points!();
//! }
//!
//! impl Filter<Row> for PowerCap {
//!     fn filter(&self, cx: &RowCycle<'_>, _: &(), _: NodeRef<'_>) -> Verdict {
//!         match cx.pod.annotations.get("example.com/watts") {
//!             Some(_) => Err(Reject::evictable("node(s) have no power left").into()),
//!             None => Ok(()),
//!         }
//!     }
//! }
//! ```
//!
//! The same applies to the pod's name, namespace, labels, owner and status, to other objects and to indexes:
//!
//! ```compile_fail,E0609
//! # use harbormaster_framework::prelude::*;
//! fn labels(cx: &RowCycle<'_>) -> bool { cx.pod.labels.is_empty() }
//! ```
//! ```compile_fail,E0609
//! # use harbormaster_framework::prelude::*;
//! fn namespace(cx: &RowCycle<'_>) -> bool { cx.pod.namespace == "default" }
//! ```
//! ```compile_fail,E0609
//! # use harbormaster_framework::prelude::*;
//! fn status(cx: &RowCycle<'_>) -> bool { cx.pod.status.nominated_node_name.is_some() }
//! ```
//! ```compile_fail,E0609
//! # use harbormaster_framework::prelude::*;
//! fn owner(cx: &RowCycle<'_>) -> bool { cx.pod.controller.is_some() }
//! ```
//! ```compile_fail,E0609
//! # use harbormaster_framework::prelude::*;
//! fn objects<'a>(cx: &'a RowCycle<'_>) -> &'a Objects { cx.objects }
//! ```
//! ```compile_fail,E0308
//! # use harbormaster_framework::prelude::*;
//! fn index<'a, P: Indexed>(this: &P, cx: &'a RowCycle<'_>) -> PluginResult<&'a P::Index> { this.index(cx) }
//! ```

use std::ops::Deref;

use harbormaster_api::{Resources, Str};

use crate::{
    cycle::Cycle,
    plugin::Scope,
    pod::{PodInfo, SpecInfo},
    table::NodeTable,
};

mod sealed {
    pub trait Sealed {}
}

/// The part of the cluster that PreFilter, Filter, PreScore and Score see: [`WholeCluster`] or [`Row`].
pub trait Scoped: sealed::Sealed + 'static {
    /// The view that is passed to the plugin during one attempt.
    type Cycle<'a>: CycleView<'a>;

    /// The same scope as a value.
    const SCOPE: Scope;

    /// Returns the plugin's view of an attempt.
    fn part<'a>(cx: &Cycle<'a>) -> Self::Cycle<'a>;
}

/// A [`Cycle`] or a restricted view of one.
pub trait CycleView<'a>: sealed::Sealed + Copy {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &'a NodeTable;
}

/// The whole cluster, in a [`Cycle`]: the plugin is called in every attempt.
#[derive(Clone, Copy, Debug)]
pub enum WholeCluster {}

/// A single row, in a [`RowCycle`].
///
/// Verdicts and scores may depend only on the parts of the pod's spec and `spec.nodeName` that the plugin
/// [reads](crate::plugin::Plugin::reads), on the node's own row, on the number of nodes and on the plugin's arguments.
/// They are cached until the row changes or a node joins or leaves. PreFilter and PreScore run once for all pods that
/// are equal in the parts that the plugin reads. PreScore sees an empty set of candidates, and scores must not use
/// [`Normalize::Custom`](crate::outcome::Normalize::Custom). Use `nodes` only for the columns of the node's own row: a
/// verdict that depends on another row becomes wrong as soon as that row changes. With
/// [`ReadsCluster`](crate::plugin::ReadsCluster), answers may depend on listed facts about the cluster, too.
#[derive(Clone, Copy, Debug)]
pub enum Row {}

impl sealed::Sealed for WholeCluster {}
impl sealed::Sealed for Row {}
impl sealed::Sealed for Cycle<'_> {}
impl sealed::Sealed for RowCycle<'_> {}

impl<'a> CycleView<'a> for Cycle<'a> {
    fn nodes(&self) -> &'a NodeTable {
        self.nodes
    }
}

impl<'a> CycleView<'a> for RowCycle<'a> {
    fn nodes(&self) -> &'a NodeTable {
        self.nodes
    }
}

impl Scoped for WholeCluster {
    type Cycle<'a> = Cycle<'a>;
    const SCOPE: Scope = Scope::Cluster;

    fn part<'a>(cx: &Cycle<'a>) -> Cycle<'a> {
        *cx
    }
}

impl Scoped for Row {
    type Cycle<'a> = RowCycle<'a>;
    const SCOPE: Scope = Scope::Row;

    fn part<'a>(cx: &Cycle<'a>) -> RowCycle<'a> {
        RowCycle { nodes: cx.nodes, pod: cx.pod.for_rows(), cluster: cx.for_rows() }
    }
}

/// The part of a [`Cycle`] that answers of row-scoped plugins may depend on.
#[derive(Clone, Copy)]
pub struct RowCycle<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// The pod to be scheduled.
    pub pod: RowPod<'a>,
    cluster: Option<Cycle<'a>>,
}

impl<'a> RowCycle<'a> {
    /// Returns the whole cluster for a plugin that [reads it](crate::plugin::ReadsCluster) for this pod. Answers may
    /// depend only on the facts that the plugin has listed. If the answer is going to be cached and the plugin has
    /// listed no facts, returns `None`.
    pub fn cluster(&self) -> Option<Cycle<'a>> {
        self.cluster
    }
}

/// The part of a pod that answers of row-scoped plugins may depend on. Derefs to its [`SpecInfo`].
#[derive(Clone, Copy, Debug)]
pub struct RowPod<'a> {
    /// The spec and the information derived from it, shared by all pods with an equal spec.
    pub derived: &'a SpecInfo,
    /// `spec.nodeName`.
    pub node_name: Option<&'a Str>,
}

impl<'a> RowPod<'a> {
    /// The pod's effective request.
    pub fn request(self) -> &'a Resources {
        &self.derived.request
    }

    /// The pod's priority.
    pub fn priority(self) -> i32 {
        self.derived.priority
    }
}

impl Deref for RowPod<'_> {
    type Target = SpecInfo;
    fn deref(&self) -> &SpecInfo {
        self.derived
    }
}

impl PodInfo {
    /// Returns the view of the pod for row-scoped plugins.
    pub fn for_rows(&self) -> RowPod<'_> {
        RowPod { derived: &self.derived, node_name: self.node_name.as_ref() }
    }
}
