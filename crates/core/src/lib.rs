//! The deterministic scheduling engine.
//!
//! One state machine in ordinary synchronous Rust: [`Input`]s go in with the time at which they happened,
//! [`Effect`]s come out. It reads no clock, no random numbers, no environment, no file and no socket, so the same
//! inputs give the same effects: live, under virtual time, in the simulator and when an incident is played again.
//!
//! Reading order:
//! 1. The border: [`input`], [`effect`], [`outcome`]; [`note`] is for log lines, [`meter`] for measurements.
//! 2. [`engine`]: the parts on one screen, and the routes between them: what changes of objects do, the scheduling cycle
//!    (one pod from the queue to a node), the binding cycle (from a node to a bound pod), eviction (making room).
//! 3. The parts, each with state of its own that nobody else touches: [`queue`], [`cache`], [`nominator`], `pods`, `finder` (looks
//!    for nodes), `bindings` (Permit's waiting room), `evictions`, `reporter` (words of conditions and events).
//! 4. What has no state: `permit` and `post_filter` ask plugins, `failure` says why a pod goes back.
//! 5. [`recording`]: calls of the engine written down, and played again; [`dump`]: all that it holds.
//!
//! Invariants:
//! - every pod without a node that a profile is responsible for is in the queue, in flight, waiting on Permit or being
//!   bound: none is lost;
//! - a pod counts on the node it was decided for from the decision until the binding failed or the pod is gone;
//! - nothing that is done per pod looks at all pods.

mod batch;
mod bindings;
pub mod cache;
pub mod dump;
pub mod effect;
pub mod engine;
mod evictions;
mod failure;
mod finder;
pub mod heap;
pub mod input;
pub mod meter;
pub mod nominator;
pub mod note;
pub mod outcome;
mod permit;
mod pods;
mod post_filter;
pub mod queue;
pub mod recording;
mod reporter;

pub use dump::{Dump, DumpedNode};
pub use effect::{
    BindTask, CallOffTask, CallTask, Condition, Effect, EvictTask, PodEvent, StatusPatch, Trouble,
};
pub use engine::{Engine, EngineConfig};
pub use input::{BindOutcome, EvictOutcome, Input};
pub use note::{Note, Notes};
pub use outcome::{Attempted, Outcome};
