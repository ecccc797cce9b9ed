//! The scheduling framework: what plugin authors depend on.
//!
//! Reading order: [`plugin`] (the traits), [`outcome`] (what they answer), [`cycle`] and [`scope`] (what they are lent), [`sweep`] and [`scores`]
//! (many rows at once), [`cluster`] with [`table`] (nodes in columns) and [`index`] (what plugins keep), [`events`] (what wakes
//! pending pods), [`resource`] (kinds of objects that plugins bring along) with [`assume`] (what counts of them before the API
//! server has it), [`api_call`] (what plugins ask of the API server), [`registry`] and [`profile`] (from a configuration to
//! plugins in order), [`points`] and [`guard`] (how plugins are called), [`extender`] (who else is asked), [`attempt`] (the run loop), `kept` with [`reads`], `totals` and `best` (what outlives an attempt).
//!
//! Invariants: synchronous, no I/O, no clock, no randomness; the same input gives the same decision.

pub mod api_call;
pub mod assume;
pub mod attempt;
mod best;
pub mod cluster;
pub mod cycle;
pub mod diagnosis;
pub mod events;
pub mod extender;
pub mod guard;
pub mod index;
mod kept;
pub mod meter;
pub mod nodeset;
pub mod normalize;
pub mod objects;
pub mod outcome;
pub mod per_node;
pub mod plugin;
pub mod pod;
pub mod points;
pub mod profile;
pub mod reads;
pub mod registry;
pub mod resource;
pub mod scope;
pub mod scores;
pub mod sweep;
pub mod table;
mod totals;
pub mod window;

/// What a plugin's file imports.
pub mod prelude {
    pub use crate::{
        api_call::{Api, ApiCall, ApiFailure, ObjectPath},
        assume::Assume,
        cluster::Cluster,
        cycle::{BindCycle, Cycle, DryRun, EnqueueCycle, Placement, PostFilterCycle, WaitingPods, WhatIf},
        events::{Action, Change, EventResource, Hint, Registration},
        extender::EvictionPlan,
        index::{ClusterView, Index},
        nodeset::{NodeIdx, NodeSet},
        objects::{ObjectId, Objects},
        outcome::{
            Bound, Fix, Nomination, Normalize, Permitted, PluginError, PluginResult, PostFiltered,
            PreFiltered, PreFlight, PreScored, Reject, Stop, Verdict,
        },
        per_node::PerNode,
        plugin::{
            Bind, Filter, Indexed, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
            PreScore, QueueSort, Queued, Reserve, Scope, Score, SignFragment, Unsignable,
        },
        pod::PodInfo,
        points::Points,
        reads::Reads,
        registry::{Build, BuildCycle, NoArgs},
        resource::{Changed, Custom, CustomKey, Metadata, Resource, ResourceScope},
        scope::{Row, RowCycle, RowPod, Scoped, Whole},
        scores::Scores,
        sweep::Sweep,
        table::NodeRef,
    };
}
