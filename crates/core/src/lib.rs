//! The deterministic scheduling engine.
//!
//! One state machine in ordinary synchronous Rust: [`Input`]s go in with the time at which they happened,
//! [`Effect`]s come out. It reads no clock, no random numbers, no environment, no file and no socket, so the same
//! inputs give the same effects: live, under virtual time, in the simulator and when an incident is played again.
//!
//! Reading order: [`input`] and [`effect`] (the border), [`engine`] (what an input does), [`cycle`] (one pod from the
//! queue to a node), [`binding`] (from a node to a bound pod), `eviction` (making room), [`queue`], [`cache`], [`nominator`] (the parts),
//! [`note`] (what can be told for log lines).
//!
//! Invariants:
//! - every pod without a node that a profile is responsible for is in the queue, in flight, waiting on Permit or being
//!   bound: none is lost;
//! - a pod counts on the node it was decided for from the decision until the binding failed or the pod is gone;
//! - nothing that is done per pod looks at all pods.

mod batch;
pub mod binding;
mod bindings;
pub mod cache;
pub mod cycle;
pub mod effect;
pub mod engine;
mod eviction;
pub mod heap;
pub mod input;
pub mod nominator;
pub mod note;
pub mod queue;

pub use cycle::{Attempted, Outcome};
pub use effect::{BindTask, Condition, Effect, EvictTask, PodEvent, StatusPatch, Trouble};
pub use engine::{Engine, EngineConfig};
pub use input::{BindOutcome, EvictOutcome, Input};
pub use note::{Note, Notes};
