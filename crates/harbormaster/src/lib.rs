//! A Kubernetes scheduler that you extend with your own plugins.
//!
//! [`main`] is a complete program: all commands of `harbormaster`, with their flags and your plugins. [`Scheduler`]
//! schedules a cluster, simulates, or starts a sandbox inside another program or a test. Plugins are written with
//! [`prelude`], [`api`] and [`framework`], and tested with `testkit` (a feature) and [`sandbox`].
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! # use harbormaster::prelude::*;
//! # #[derive(Default)]
//! # struct MyPlugin;
//! # impl Plugin for MyPlugin {
//! #     const NAME: &'static str = "MyPlugin";
//! #     implemented_points!();
//! # }
//! fn main() -> ExitCode {
//!     harbormaster::main(|registry| {
//!         registry.register::<MyPlugin>();
//!     })
//! }
//! ```
//!
//! The guide for plugin authors is `docs/plugins.md` in the repository. It leads from a first scheduler to indexes,
//! assumed objects and tests, and maps the concepts of kube-scheduler's framework to ours. Its listings are in
//! `examples/guide`.
//!
//! `examples/own-scheduler` is a complete example: a plugin with arguments and a custom resource, its program and its
//! test.
//!
//! Features, all on by default except `otlp` and `testkit`:
//! - `cli`: [`main`]. Its commands `sandbox` and `simulate` need the features of the same names, and `why` and `capacity`
//!   need `simulate`.
//! - `sandbox`: the [`sandbox`] module and [`Scheduler::sandbox`], with an in-memory API server.
//! - `simulate`: the [`simulation`] module and [`Scheduler::simulate`].
//! - `otlp`: traces over OTLP. The container image is built with this feature.
//! - `mimalloc`: the allocator of the `harbormaster` program; the library does not use it.
//! - `testkit`: the `testkit` module, for testing plugins.
//!
//! Plugin authors may rely on everything that is public in this crate; `tests/surface/surface.txt` lists it.
//!
//! Reading order: `scheduler` (a scheduler inside another program), `commands` (the command line).

#[cfg(feature = "cli")]
mod commands;
mod scheduler;
#[cfg(feature = "simulate")]
mod witness;

pub use harbormaster_driver::{DriverError, ExitReason};
pub use harbormaster_framework::registry::Registry;
#[cfg(feature = "testkit")]
pub use harbormaster_testkit as testkit;
#[cfg(feature = "simulate")]
pub use scheduler::Simulation;
pub use scheduler::{Builder, Scheduler};
pub use {serde, serde_json};

/// Runs a scheduler program: executes the command given by the process's arguments, with the in-tree plugins and those
/// that `register` adds. A plugin whose name is already registered replaces the earlier plugin.
///
/// The commands are `run`, `simulate`, `why`, `capacity`, `sandbox`, `dump` and `generate`; if the program is called as
/// `kube-scheduler` (through a symbolic link), it behaves as if `run` were given. Help and version show the name under
/// which the program was called.
#[cfg(feature = "cli")]
pub fn main(register: impl FnOnce(&mut Registry)) -> std::process::ExitCode {
    let mut plugins = harbormaster_setup::Choices::default().plugins;
    register(&mut plugins);
    commands::main(plugins)
}

/// The usual imports of a plugin's source file.
pub mod prelude {
    pub use harbormaster_framework::{prelude::*, registry::Registry};
}

/// Kubernetes objects as the scheduler stores them and plugins read them.
pub mod api {
    pub use harbormaster_api::{
        Labels, Namespace, Node, Object, ObjectKey, ObjectKind, Pod, PodDisruptionBudget, PodSpec, QosClass,
        Quantity, Release, Resources, Service, Str, Timestamp, Workload, WorkloadKind,
        features::{Feature, Features},
        labels, node, pod,
        points::ExtensionPoint,
        requests, resources, selector, taint,
        wire::Decoder,
    };
}

/// Parts of the framework that the prelude omits because few plugins need them.
pub mod framework {
    pub use harbormaster_framework::{
        api_call::{ClusterApi, Verb},
        cycle::{MAX_PERMIT_WAIT, Reservation, WaitingPods},
        events::{ClusterEvent, CustomHintFn, HintFn},
        fetch::{Source, WebAccess, WebFailure},
        guard::{Call, PointError, Stopped},
        index::Contradiction,
        normalize::{Extremes, Formula},
        plugin::{BoxFuture, CopiedState},
        pod::{NonZero, SpecInfo},
        points::StateConflict,
        registry::{ArgsError, BuildError},
        resource::{
            AnyCustom, CustomChange, RawContent, RawObject, ResourceKind, ResourceName, ResourceSet,
            Undecodable,
        },
        row_log::{LogPosition, RowLog},
        table::{Columns, NodeTable, RowImage, UsedPorts},
    };
}

/// Preemption, for plugins that take the place of DefaultPreemption.
pub mod preemption {
    pub use harbormaster_api::args::DefaultPreemptionArgs;
    pub use harbormaster_plugins::default_preemption::{DefaultPreemption, EvictionTerms};
}

/// Errors in a configuration, with their positions.
pub mod config {
    pub use harbormaster_config::{ConfigError, ConfigErrors, Position};
}

/// Manifests, and reports of simulations.
#[cfg(feature = "simulate")]
pub mod simulation {
    pub use harbormaster_manifests::{Location, ManifestError, ManifestErrors, Source, Validate};
    pub use harbormaster_sim::{
        PodReport, Report,
        report::{ClaimReport, ClaimedVolume, DeviceName, DeviceReport, Fate, Status},
    };
}

/// A make-believe cluster for end-to-end tests: see [`Scheduler::sandbox`](crate::Scheduler::sandbox).
#[cfg(feature = "sandbox")]
pub mod sandbox {
    pub use harbormaster_sandbox::{
        AttachedScheduler, Board, Clock, FAIL_AFTER, Failure, News, Options, Pace, PodState, PodView,
        READY_AFTER, RUN_FOR, STOPPED, Sandbox, SandboxError, Source, Store, StoredObject, Update, Validate,
    };
}

/// Compiles the code shown in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
