//! The scheduling framework, the crate that plugin authors depend on.
//!
//! Reading order:
//! 1. [`plugin`] (one trait per extension point), [`outcome`] (what the traits' methods return), [`cycle`] and
//!    [`scope`] (what the methods receive), [`sweep`] and [`scores`] (batches of rows)
//! 2. [`cluster`] with [`table`] (the node table) and [`index`] (data structures that plugins declare)
//! 3. [`events`] (changes that wake pending pods), [`resource`] (kinds of objects that plugins add), [`assume`]
//!    (changes that a plugin expects before the API server confirms them), [`api_call`] (plugins' requests to the API
//!    server), [`group`] (pods that are placed together), [`fetch`] (objects that do not come from the API server)
//! 4. [`registry`] and [`profile`] (which turn a configuration into an ordered list of plugins), [`points`],
//!    [`detection`] and [`guard`] (which find and call the methods of plugins), [`extender`] (webhooks that take part
//!    in decisions)
//! 5. [`attempt`] (one scheduling cycle), `answer_cache` with [`reads`], `totals` and `max_tree` (answers that outlive
//!    an attempt)
//!
//! Invariants: decisions are synchronous and use no I/O, no clock and no randomness; the same input gives the same
//! decision.

mod answer_cache;
pub mod api_call;
pub mod assume;
pub mod attempt;

pub mod cluster;
pub mod cycle;
#[doc(hidden)]
pub mod detection;
pub mod diagnosis;
pub mod events;
pub mod extender;
pub mod fetch;
pub mod group;
pub mod guard;
pub mod index;

mod max_tree;
pub mod meter;
pub mod nodeset;
pub mod nominations;
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
pub mod row_log;
pub mod scope;
pub mod scores;
pub mod sweep;
pub mod table;
mod totals;
pub mod window;

/// Everything that a plugin's source file needs to import.
pub mod prelude {
    pub use crate::{
        api_call::{Api, ApiCall, ApiFailure, ObjectPath, Reply},
        assume::Assume,
        attempt::DryRun,
        cluster::Cluster,
        cycle::{BindCycle, Cycle, EnqueueCycle, Placement, PostFilterCycle, Waiting, WhatIf},
        events::{Action, Change, EventResource, Hint, HintCycle, Registration},
        extender::EvictionPlan,
        fetch::{FetchPlan, Fetches, Web, WebRequest},
        group::{
            Assignment, Disruption, Feasibility, GroupCondition, GroupCycle, GroupId, GroupPlacement,
            GroupPolicy, GroupPostFilterCycle, GroupPostFiltered, GroupSpec, GroupView, GroupWhatIf, Groups,
            PlacementGenerate, PlacementScore, PodGroup, PodGroupPostFilter, ProposedPlacement,
            ScheduledMember,
        },
        implemented_points,
        index::{ClusterView, Index},
        nodeset::{NodeIdx, NodeSet},
        nominations::Nominations,
        objects::{ObjectId, Objects},
        outcome::{
            Bound, Fix, Nomination, Normalize, Permitted, PluginError, PluginResult, PostFiltered,
            PreFiltered, PreFlight, PreScored, Reject, Stop, Verdict,
        },
        per_node::PerNode,
        plugin::{
            Bind, Filter, Indexed, Permit, Plugin, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter,
            PreScore, QueueSort, Queued, Rank, ReadsCluster, Reserve, Scope, Score, SignFragment, State,
            Turn, TurnCycle, Unsignable,
        },
        pod::PodInfo,
        reads::Reads,
        registry::{Build, BuildCycle, NoArgs},
        resource::{Changed, Custom, CustomKey, Metadata, Resource, ResourceScope, Watched, Watches},
        scope::{Row, RowCycle, RowPod, Scoped, WholeCluster},
        scores::Scores,
        sweep::Sweep,
        table::NodeRef,
    };
}
