//! The deterministic scheduling engine.
//!
//! It is one state machine, written in ordinary synchronous Rust. [`Input`]s enter with the times at which they
//! happened, and [`Effect`]s leave. The engine reads no clock, no random numbers, no environment, no file and no
//! socket. The same inputs therefore produce the same effects, whether the engine runs live, under virtual time, in the
//! simulator or in a replay.
//!
//! Reading order:
//! 1. The interface: [`input`], [`effect`], [`outcome`]; [`note`] for log lines, [`meter`] for measurements.
//! 2. [`engine`]: the parts and the routes between them. Its submodules handle changes to objects, the scheduling cycle
//!    (from the queue to a node) of a pod or a group, the binding cycle (from a node to a bound pod), eviction (freeing resources), new
//!    configurations, and room for a pod that does not exist.
//! 3. The parts, each with private state: [`queue`], [`cache`], [`nominator`], `pods`, `finder` (finds nodes),
//!    `groups` (groups and the numbers of their members), `bindings` (pods that wait on Permit or are being bound),
//!    `inquiries` (pods about which extenders are being asked), `evictions`, `reporter` (writes conditions and events).
//! 4. Stateless parts: `permit` and `post_filter` call plugins; `failure` contains the reasons for returning a pod to
//!    the queue.
//! 5. [`recording`]: recording and replay of calls to the engine; [`dump`]: the engine's complete state; [`pod_state`]: that of
//!    one pod, with [`event_words`]; [`shadow`]: decisions without effects, compared with those of another scheduler.
//!
//! Invariants:
//! - no pod is lost: every pod that has a profile but no node, and is neither finished nor being deleted, is in the
//!   queue, being scheduled, waiting for extenders or on Permit, or being bound; a pod for which this does not hold is
//!   found and tried again (`watchdog`);
//! - a pod occupies its chosen node from the decision until the binding fails, the pod finishes, or the pod is deleted
//!   (if it is not bound yet, until its deletion begins);
//! - the engine never visits all pods in order to handle one pod.

mod batch;
mod bindings;
pub mod cache;
mod contradictions;
pub mod dump;
pub mod effect;
pub mod engine;
pub mod event_words;
mod evictions;
mod failure;
mod finder;
mod groups;
pub mod heap;
pub mod input;
mod inquiries;
pub mod meter;
pub mod nominator;
pub mod note;
pub mod outcome;
mod permit;
pub mod pod_state;
mod pods;
mod post_filter;
pub mod queue;
pub mod recording;
mod reporter;
pub mod shadow;
mod watchdog;

pub use dump::{Dump, DumpedGroup, DumpedNode};
pub use effect::{
    AskTask, BindTask, CallOffTask, CallTask, Condition, Effect, EvictTask, GroupCall, PodEvent, StatusPatch,
};
pub use engine::{Engine, EngineConfig, Room};
pub use input::{BindOutcome, EvictOutcome, Input};
pub use note::{Note, Notes};
pub use outcome::{Attempted, Outcome};
pub use pod_state::PodState;
pub use post_filter::Eviction;
pub use shadow::Shadow;
pub use watchdog::Stuck;
