//! A Kubernetes scheduler with plugins of one's own.
//!
//! [`main`] is a whole program: the commands `run`, `simulate` and `sandbox` with all flags, and own plugins in each of
//! them. [`Scheduler`] is the same inside another program, or in a test. Plugins are written with [`prelude`], [`api`]
//! and [`framework`], and tested with [`testkit`] and [`sandbox`].
//!
//! ```no_run
//! use harbormaster::{prelude::*, serde::Deserialize};
//!
//! /// Keeps pods off nodes whose name starts with a prefix.
//! struct Avoid(AvoidArgs);
//!
//! #[derive(Deserialize)]
//! #[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
//! struct AvoidArgs {
//!     prefix: String,
//! }
//!
//! impl Plugin for Avoid {
//!     const NAME: &'static str = "Avoid";
//!     type FilterState = ();
//!     type ScoreState = ();
//!     fn points(points: &mut Points<Self>) {
//!         points.filter();
//!     }
//! }
//!
//! impl Build for Avoid {
//!     type Args = AvoidArgs;
//!     fn build(args: AvoidArgs, _: &BuildCycle) -> Result<Self, PluginError> {
//!         Ok(Self(args))
//!     }
//! }
//!
//! impl Filter for Avoid {
//!     fn filter(&self, _: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<Verdict> {
//!         Ok(match node.name().starts_with(&self.0.prefix) {
//!             true => Err(Reject::unresolvable("node(s) are to be avoided")),
//!             false => Ok(()),
//!         })
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     harbormaster::main(|registry| {
//!         registry.register::<Avoid>();
//!     })
//! }
//! ```
//!
//! Everything that is public here is what authors may rely on; `surface.txt` beside this crate's tests lists it.

mod commands;
mod scheduler;

use std::process::ExitCode;

pub use harbormaster_driver::{DriverError, ExitReason};
pub use harbormaster_framework::registry::Registry;
pub use harbormaster_testkit as testkit;
pub use scheduler::{Builder, Scheduler, Simulation};
pub use serde;

/// A scheduler's program: does what the arguments of the process say, with the plugins of this repository and those that
/// `register` adds. A plugin of a known name replaces that.
///
/// The commands are `run`, `simulate` and `sandbox`; called as `kube-scheduler` (a symbolic link) the program behaves as
/// with `run`. Help and version name the program as it was called.
pub fn main(register: impl FnOnce(&mut Registry)) -> ExitCode {
    let mut plugins = harbormaster_setup::Choices::default().plugins;
    register(&mut plugins);
    commands::main(plugins)
}

/// What a plugin's file imports.
pub mod prelude {
    pub use harbormaster_framework::{prelude::*, registry::Registry};
}

/// What plugins read: Kubernetes' objects as the scheduler knows them.
pub mod api {
    pub use harbormaster_api::{
        Labels, Namespace, Node, Object, ObjectKey, ObjectKind, Pod, PodDisruptionBudget, PodSpec, Quantity,
        Resources, Service, Str, Timestamp, Workload, WorkloadKind, features, labels, node, object, pod,
        points, quantity, requests, resources, selector, strings, taint, time,
    };
}

/// What the prelude leaves out because few plugins need it.
pub mod framework {
    pub use harbormaster_framework::{
        cluster, cycle, events, index, nodeset, objects, outcome, plugin, pod, points, registry, sweep, table,
    };
}

/// What is wrong with a configuration, and where.
pub mod config {
    pub use harbormaster_config::{ConfigError, ConfigErrors, Position};
}

/// Manifests, and what a simulation says of their pods.
pub mod simulation {
    pub use harbormaster_sim::{
        ManifestError, ManifestErrors, Place, PodReport, Report, Source, Validate,
        report::{Fate, Status},
    };
}

/// A make-believe cluster for end-to-end tests: see [`Scheduler::sandbox`](crate::Scheduler::sandbox).
pub mod sandbox {
    pub use harbormaster_apiserver::{Failure, Object, Store};
    pub use harbormaster_sandbox::{
        Board, Clock, News, Options, Pace, PodState, PodView, RUN_FOR, Sandbox, SandboxError, Scheduler,
        Source, Update, Validate,
    };
}
