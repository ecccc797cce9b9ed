//! A make-believe cluster: the in-memory API server of `harbormaster-apiserver`, the real scheduler connected to it
//! over HTTP, and small stand-ins for the other components. It is meant for trying Harbormaster with kubectl, for
//! tests, and for plugin authors.
//!
//! Reading order: [`sandbox`](Sandbox) (the whole), `manifests` and `nodes` (the initial objects), `kubelet` with
//! `network`, and `controllers` (the stand-ins), [`board`](Board) (the state of all pods), `inert` (kinds without a
//! stand-in), `events`, [`clock`](Clock), `mirror` and `fields` (helpers).
//!
//! The stand-ins:
//! - *kubelet*: nodes are ready, have an address range and renew their leases, unless they are [`STOPPED`]. Pods with a
//!   node become Running and Ready, with an address from the node's range, and deleted pods disappear after a moment.
//!   Pods that may finish do so after the time in their [`RUN_FOR`] annotation; pods of Jobs also finish without it.
//!   [`FAIL_AFTER`] and [`READY_AFTER`] make pods fail, or become ready late or never.
//! - *controllers*: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get pods,
//!   CronJobs get Jobs, disruption budgets get a status, services get endpoints, and load balancers get an address.
//!   Pods get resource claims from templates. Deleted pod groups remain until their pods have finished. Nodes get the
//!   taints that correspond to their conditions, and pods leave nodes with `NoExecute` taints that they do not
//!   tolerate. Objects of deleted owners are deleted, and so are pods of deleted nodes.
//! - *volume controllers and provisioners*: a claim gets the smallest suitable volume. If there is none and the claim's
//!   class names a provisioner (any will do), a volume is provisioned for the node of the claim's pod. Ephemeral
//!   volumes and StatefulSets get claims.
//! - All stand-ins write events, as many as client-go would send. Kubelets send events about the containers of 1,000
//!   pods in a burst, and of ten more pods every second.
//!
//! Not simulated: containers (logs, exec and the like are refused), autoscaling, admission webhooks and policies,
//! volume expansion, protection of claims in use, readiness gates, revision histories (`kubectl rollout undo` of
//! DaemonSets and StatefulSets), indexed Jobs, DaemonSets with surge. All failing nodes are tainted, no matter how many
//! there are.

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

use harbormaster_api::features::Features;
use harbormaster_core::EngineConfig;
use harbormaster_driver::ExtenderConfig;

/// Settings of a sandbox.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Manifests, and dumps from `kubectl get -o yaml`, as YAML or JSON.
    pub manifests: Vec<Source>,
    /// Treatment of unknown fields in manifests.
    pub validate: Validate,
    /// True if pods on missing nodes become pending again. DaemonSet and static pods are removed instead.
    pub reschedule_missing: bool,
    /// Number of generated nodes, in three zones.
    pub nodes: usize,
    /// The scheduler that places pods.
    pub scheduler: AttachedScheduler,
    /// The release of Kubernetes that the API server and the kubelets report as their version, and the feature gates,
    /// which determine the kinds that the API server serves. If the scheduler is [`AttachedScheduler::Default`], it
    /// reproduces this release with these gates.
    pub features: Features,
    /// Connections to the scheduler's extenders, in the order in which its configuration lists them.
    pub extenders: Vec<ExtenderConfig>,
    /// Port on 127.0.0.1; 0 selects a free port.
    pub port: u16,
    /// Speed of the stand-ins.
    pub pace: Pace,
    /// Clock of the stand-ins; tests may advance it.
    pub clock: Clock,
}

impl Options {
    /// Returns a small demonstration: six nodes in three zones, workloads, and pods that fit nowhere.
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
    /// Harbormaster with the given configuration.
    Engine(EngineConfig),
    /// Another scheduler will be attached.
    None,
}

/// Speed of the stand-ins.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time from a pod's binding until it runs.
    pub start: Duration,
    /// Time from a pod's deletion until it is gone.
    pub stop: Duration,
    /// Running time of a Job's pod without an annotation.
    pub run_for: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self { start: millis(200), stop: millis(500), run_for: Duration::from_secs(30) }
    }
}
