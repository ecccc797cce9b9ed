//! The scheduling framework: what plugin authors depend on.
//!
//! Reading order: [`plugin`] (the traits), [`outcome`] (what they answer), [`cycle`] (what they are lent), [`sweep`] and [`scores`] (many rows at once), [`cluster`]
//! with [`table`] (nodes in columns) and [`index`] (what plugins keep), [`events`] (what wakes pending pods), [`resource`] (kinds of objects that plugins bring along), [`registry`] and [`profile`] (from a configuration to
//! plugins in order), [`points`] and [`guard`] (how plugins are called), [`attempt`] (the run loop), `kept` with [`reads`] and `totals` (what outlives an attempt).
//!
//! Invariants: synchronous, no I/O, no clock, no randomness; the same input gives the same decision.

pub mod attempt;
pub mod cluster;
pub mod cycle;
pub mod diagnosis;
pub mod events;
pub mod guard;
pub mod index;
mod kept;
pub mod nodeset;
pub mod normalize;
pub mod objects;
pub mod outcome;
pub mod plugin;
pub mod pod;
pub mod points;
pub mod profile;
pub mod reads;
pub mod registry;
pub mod resource;
pub mod scores;
pub mod sweep;
pub mod table;
mod totals;
pub mod window;

/// What a plugin's file imports.
pub mod prelude {
    pub use crate::{
        cluster::Cluster,
        cycle::{BindCycle, ClusterApi, Cycle, DryRun, EnqueueCycle, PostFilterCycle, WaitingPods, WhatIf},
        events::{Action, Change, EventResource, Hint, Registration},
        index::{ClusterView, Index},
        nodeset::{NodeIdx, NodeSet},
        objects::{ObjectId, Objects},
        outcome::{
            Bound, Fix, Nomination, Normalize, Permitted, PluginError, PluginResult, PostFiltered,
            PreFiltered, PreFlight, PreScored, Reject, Stop, Verdict,
        },
        plugin::{
            Bind, Filter, Indexed, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
            PreScore, QueueSort, Queued, Reserve, Scope, Score, SignFragment, Unsignable,
        },
        pod::PodInfo,
        points::Points,
        reads::Reads,
        registry::{Build, BuildCycle, NoArgs},
        resource::{Changed, Custom, CustomKey, Metadata, Resource, ResourceScope},
        scores::Scores,
        sweep::Sweep,
        table::NodeRef,
    };
}
