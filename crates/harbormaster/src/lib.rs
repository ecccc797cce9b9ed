//! A Kubernetes scheduler with plugins of one's own.
//!
//! [`main`] is a whole program: the commands `run`, `simulate` and `sandbox` with all flags, and own plugins in each of
//! them. [`Scheduler`] is the same inside another program, or in a test. Plugins are written with [`prelude`], [`api`]
//! and [`framework`], and tested with [`testkit`] and [`sandbox`].
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! # use harbormaster::prelude::*;
//! # struct MyPlugin;
//! # impl Plugin for MyPlugin {
//! #     const NAME: &'static str = "MyPlugin";
//! #     type FilterState = ();
//! #     type ScoreState = ();
//! #     fn points(_: &mut Points<Self>) {}
//! # }
//! # impl Build for MyPlugin {
//! #     type Args = NoArgs;
//! #     fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
//! #         Ok(Self)
//! #     }
//! # }
//! fn main() -> ExitCode {
//!     harbormaster::main(|registry| {
//!         registry.register::<MyPlugin>();
//!     })
//! }
//! ```
//!
//! The guide for authors is `docs/plugins.md` in the repository: from a first scheduler to indexes, assumed objects and
//! tests, and what corresponds to which concept of kube-scheduler's framework. Its listings are in `examples/guide`.
//!
//! `examples/own-scheduler` is a whole one: a plugin with arguments and a custom resource, its program
//! and its test.
//!
//! Everything that is public here is what authors may rely on; `tests/surface/surface.txt` lists it.
//!
//! Inside: `commands` (the command line), `scheduler` (the same for other programs).

mod commands;
mod scheduler;
mod witness;

use std::process::ExitCode;

pub use harbormaster_driver::{DriverError, ExitReason};
pub use harbormaster_framework::registry::Registry;
pub use harbormaster_testkit as testkit;
pub use scheduler::{Builder, Scheduler, Simulation};
pub use {serde, serde_json};

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
        Resources, Service, Str, Timestamp, Workload, WorkloadKind,
        features::{Feature, Features},
        labels, node, pod,
        points::ExtensionPoint,
        requests, resources, selector, taint,
    };
}

/// What the prelude leaves out because few plugins name it.
pub mod framework {
    pub use harbormaster_framework::{
        api_call::{ClusterApi, Verb},
        cycle::{MAX_PERMIT_WAIT, Reservation},
        events::{ClusterEvent, CustomHintFn, HintFn},
        guard::{Call, PointError, Stopped},
        plugin::BoxFuture,
        pod::{NonZero, SpecInfo},
        points::PreFilterAnswer,
        registry::{ArgsError, BuildError},
        resource::{AnyCustom, CustomChange, RawObject, ResourceKind, ResourceName, Undecodable},
        table::{Columns, LogPosition, NodeTable, RowImage, UsedPorts},
    };
}

/// What is wrong with a configuration, and where.
pub mod config {
    pub use harbormaster_config::{ConfigError, ConfigErrors, Position};
}

/// Manifests, and what a simulation says of their pods.
pub mod simulation {
    pub use harbormaster_manifests::{Location, ManifestError, ManifestErrors, Source, Validate};
    pub use harbormaster_sim::{
        PodReport, Report,
        report::{ClaimReport, Fate, Status},
    };
    pub use harbormaster_world::volumes::ClaimedVolume;
}

/// A make-believe cluster for end-to-end tests: see [`Scheduler::sandbox`](crate::Scheduler::sandbox).
pub mod sandbox {
    pub use harbormaster_apiserver::{Failure, Object, Store};
    pub use harbormaster_sandbox::{
        Board, Clock, FAIL_AFTER, News, Options, Pace, PodState, PodView, READY_AFTER, RUN_FOR, STOPPED,
        Sandbox, SandboxError, Scheduler, Source, Update, Validate,
    };
}

/// Compiles the program that the README shows.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
