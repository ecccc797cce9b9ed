//! A make-believe cluster: the API server of `harbormaster-apiserver`, the real scheduler attached to it over HTTP, and
//! small stand-ins for what else a cluster has. For trying Harbormaster with kubectl, for tests and for authors of
//! plugins.
//!
//! Reading order: [`sandbox`](Sandbox) (the whole), `manifests` and `nodes` (what it begins with), `kubelet` with
//! `network`, and `controllers` (the stand-ins), [`board`](Board) (where pods went and why), `inert` (what nobody acts on),
//! `events`, [`clock`](Clock), `mirror` and `fields` (helpers).
//!
//! What the stand-ins do:
//! - *kubelet*: nodes are ready, have a range of addresses and renew their leases, unless they are [`STOPPED`]; pods with
//!   a node become Running and Ready, with an address of its range; pods that are being deleted are gone after a moment;
//!   pods of Jobs, and others that may end, finish after the time in their annotation [`RUN_FOR`]; [`FAIL_AFTER`] and
//!   [`READY_AFTER`] make pods fail, or become ready late or never.
//! - *controllers*: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs have their pods,
//!   CronJobs their Jobs, disruption budgets their status, services their endpoints, load balancers an address; nodes have
//!   the taints of their conditions; pods leave nodes with `NoExecute` taints that they do not tolerate; what an owner
//!   leaves behind is deleted, and so are pods of nodes that are gone.
//! - *volume controllers and provisioners*: claims get the smallest volume that will do, or one that is made for them, of
//!   any class that names a provisioner, where their pod goes; ephemeral volumes and StatefulSets have their claims.
//! - All of them write events, as many as client-go would send. Kubelets tell of 1,000 pods in a row what they do to
//!   containers, and of ten more every second.
//!
//! Not played: containers (logs, exec and the like are refused), autoscaling, admission webhooks and policies,
//! volumes that grow, claims that are kept from being deleted while pods use them, readiness gates, histories of revisions
//! (`kubectl rollout undo` of DaemonSets and StatefulSets), indexes of Jobs, DaemonSets that surge. Nodes that fail are
//! tainted one and all, however many there are.

mod board;
mod clock;
mod controllers;
mod events;
mod fields;
mod inert;
mod kubelet;
mod manifests;
mod mirror;
mod network;
mod nodes;
mod sandbox;

use std::time::Duration;

pub use board::{Board, News, PodState, PodView, Update};
pub use clock::Clock;
pub use controllers::Controllers;
pub use harbormaster_apiserver::{Failure, Store, StoredObject};
pub use harbormaster_manifests::{Source, Validate};
pub use kubelet::{FAIL_AFTER, READY_AFTER, RUN_FOR, STOPPED};
pub use sandbox::{Sandbox, SandboxError};

use harbormaster_core::EngineConfig;
use harbormaster_driver::ExtenderConfig;

/// What a sandbox begins with, and how it behaves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// YAML or JSON: manifests, and dumps of `kubectl get -o yaml`.
    pub manifests: Vec<Source>,
    /// What becomes of fields in them that nobody knows.
    pub validate: Validate,
    /// Whether pods on nodes that are missing wait for a node again.
    pub reschedule_missing: bool,
    /// How many nodes are made from nothing, in three zones.
    pub nodes: usize,
    /// The scheduler that places pods.
    pub scheduler: AttachedScheduler,
    /// How the extenders of that scheduler are reached, in its order.
    pub extenders: Vec<ExtenderConfig>,
    /// The port on 127.0.0.1; 0 takes any that is free.
    pub port: u16,
    /// How fast the stand-ins are.
    pub pace: Pace,
    /// The time by which tolerations run out and CronJobs start; tests may move it.
    pub clock: Clock,
}

impl Options {
    /// A small demonstration: six nodes in three zones, workloads, and pods that fit nowhere.
    #[must_use]
    pub fn demo() -> Self {
        let text = include_str!("demo.yaml").to_owned();
        Self { manifests: vec![Source { name: "demo".to_owned(), text }], nodes: 6, ..Self::default() }
    }
}

/// The scheduler that places the pods of a sandbox.
#[derive(Clone, Debug, Default)]
pub enum AttachedScheduler {
    /// Harbormaster with the default profile.
    #[default]
    Default,
    /// Harbormaster with these profiles.
    Engine(EngineConfig),
    /// Another scheduler will be attached.
    None,
}

/// How fast the stand-ins are.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From a pod's binding until it runs.
    pub start: Duration,
    /// From a pod's deletion until it is gone.
    pub stop: Duration,
    /// How long pods of Jobs run that do not say.
    pub run_for: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self { start: millis(200), stop: millis(500), run_for: Duration::from_secs(30) }
    }
}
