//! On what a plugin's answers may depend, as types: whoever judges rows is lent nothing else.
//!
//! A plugin chooses by the trait that it implements. `impl Filter for P` is lent the whole cluster and is asked anew in
//! every attempt. `impl Filter<Row> for P` is lent a [`RowCycle`], and its answers are kept until the row changes. What
//! could make a kept answer wrong is not there to be read:
//!
//! ```compile_fail,E0609
//! use harbormaster_framework::prelude::*;
//!
//! struct PowerCap;
//!
//! impl Plugin for PowerCap {
//!     const NAME: &'static str = "PowerCap";
//!     type FilterState = ();
//!     type ScoreState = ();
//!     fn points(points: &mut Points<Self>) {
//!         points.filter();
//!     }
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
//! The same goes for the pod's name, namespace, labels, owner and status, for other objects and for indexes:
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
//! ```compile_fail,E0599
//! # use harbormaster_framework::prelude::*;
//! fn index<'a, I: Index>(cx: &'a RowCycle<'_>) -> PluginResult<&'a I> { cx.index() }
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

/// Part of the cluster that PreFilter, Filter, PreScore and Score are lent: [`Whole`] or [`Row`].
pub trait Scoped: sealed::Sealed + 'static {
    /// Lent to the plugin during one attempt.
    type Cycle<'a>: Lent<'a>;

    /// The same as a value.
    const SCOPE: Scope;

    /// The part of an attempt that is lent.
    fn part<'a>(cx: &Cycle<'a>) -> Self::Cycle<'a>;
}

/// A [`Cycle`] or a part of one.
pub trait Lent<'a>: sealed::Sealed + Copy {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &'a NodeTable;
}

/// Everything, in a [`Cycle`]: the plugin is asked anew in every attempt.
#[derive(Clone, Copy, Debug)]
pub enum Whole {}

/// The parts of a single row, in a [`RowCycle`]: verdicts and scores depend on the pod's spec and `spec.nodeName`, as far as
/// the plugin [reads](crate::plugin::Plugin::reads) them, on the node's own row, on the number of nodes and on the
/// plugin's arguments. They are kept until the row changes or a node joins or leaves, and PreFilter and PreScore run
/// once for all pods of which the plugin reads the same. PreScore sees an empty set of candidates, and scores must not
/// be normalised by [`Normalize::Custom`](crate::outcome::Normalize::Custom). `nodes` is lent for its columns: a
/// verdict that depends on another row is wrong as soon as that one changes.
#[derive(Clone, Copy, Debug)]
pub enum Row {}

impl sealed::Sealed for Whole {}
impl sealed::Sealed for Row {}
impl sealed::Sealed for Cycle<'_> {}
impl sealed::Sealed for RowCycle<'_> {}

impl<'a> Lent<'a> for Cycle<'a> {
    fn nodes(&self) -> &'a NodeTable {
        self.nodes
    }
}

impl<'a> Lent<'a> for RowCycle<'a> {
    fn nodes(&self) -> &'a NodeTable {
        self.nodes
    }
}

impl Scoped for Whole {
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
        RowCycle { nodes: cx.nodes, pod: cx.pod.for_rows() }
    }
}

/// A [`Cycle`] for plugins that judge rows: it lacks what would make their answers depend on more.
#[derive(Clone, Copy)]
pub struct RowCycle<'a> {
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// The pod to be scheduled.
    pub pod: RowPod<'a>,
}

/// A pod as plugins see it that judge rows. Reads like its [`SpecInfo`].
#[derive(Clone, Copy, Debug)]
pub struct RowPod<'a> {
    /// Shared with all pods of an equal spec.
    pub spec: &'a SpecInfo,
    /// `spec.nodeName`.
    pub node_name: Option<&'a Str>,
}

impl<'a> RowPod<'a> {
    /// Spec of the pod.
    pub fn request(self) -> &'a Resources {
        &self.spec.request
    }

    /// The pod's priority.
    pub fn priority(self) -> i32 {
        self.spec.priority
    }
}

impl Deref for RowPod<'_> {
    type Target = SpecInfo;
    fn deref(&self) -> &SpecInfo {
        self.spec
    }
}

impl PodInfo {
    /// The pod as plugins see it that judge rows.
    pub fn for_rows(&self) -> RowPod<'_> {
        RowPod { spec: &self.spec, node_name: self.node_name.as_ref() }
    }
}
