//! The deterministic scheduling engine.
//!
//! One state machine in ordinary synchronous Rust: [`Input`]s enter with the time at which they happened, [`Effect`]s
//! leave. The engine reads no clock, no random numbers, no environment, no file and no socket. The same inputs
//! therefore give the same effects: live, under virtual time, in the simulator and when a recording is replayed.
//!
//! Reading order:
//! 1. The interface: [`input`], [`effect`], [`outcome`]; [`note`] for log lines, [`meter`] for measurements.
//! 2. [`engine`]: the parts and the routes between them. Its submodules are changes of objects, the scheduling cycle
//!    (from the queue to a node), the binding cycle (from a node to a bound pod) and eviction (making room).
//! 3. The parts, each with private state: [`queue`], [`cache`], [`nominator`], `pods`, `finder` (finds nodes),
//!    `bindings` (pods that wait on Permit or are being bound), `evictions`, `reporter` (texts of conditions and
//!    events).
//! 4. Stateless parts: `permit` and `post_filter` call plugins, `failure` contains the reasons why a pod returns to the
//!    queue.
//! 5. [`recording`]: recording and replay of the engine's calls; [`dump`]: its complete state.
//!
//! Invariants:
//! - no pod is lost: every pod without a node whose profile exists is in the queue, in flight, waiting on Permit or
//!   being bound;
//! - a pod occupies its chosen node from the decision until the binding fails or the pod is deleted;
//! - work for one pod never visits all pods.

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
pub use effect::{BindTask, CallOffTask, CallTask, Condition, Effect, EvictTask, PodEvent, StatusPatch};
pub use engine::{Engine, EngineConfig};
pub use input::{BindOutcome, EvictOutcome, Input};
pub use note::{Note, Notes};
pub use outcome::{Attempted, Outcome};
