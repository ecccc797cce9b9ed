//! Stand-ins for controllers. After every change, each stand-in moves all its objects one step toward their specs.

mod budgets;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod ephemeral_volumes;
mod job_groups;
mod jobs;
mod node_lifecycle;
mod pod_control;
mod pod_groups;
mod replica_sets;
mod resource_claims;
mod services;
mod stateful_sets;
mod taint_evictions;
mod volumes;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harbormaster_api::Timestamp;
use harbormaster_apiserver::Store;
use harbormaster_world::{volumes::CLAIMS, workloads::hash};
use serde_json::{Value, json};

use self::{
    cron_jobs::CronJobs,
    daemon_sets::DaemonSets,
    deployments::Deployments,
    job_groups::{JobGroups, WORKLOADS},
    jobs::Jobs,
    node_lifecycle::NodeLifecycle,
    pod_groups::{POD_GROUPS, PodGroups},
    resource_claims::ResourceClaims,
    services::Services,
    taint_evictions::TaintEvictions,
    volumes::VolumeControllers,
};
use crate::{
    clock::Clock,
    events::Events,
    fields::{controller, is_ending, list, name, namespace, owned_by, text, uid},
    mirror::Mirror,
    sandbox::{SandboxError, carry_on},
};

/// Time to wait after a change, so that changes that arrive together are handled together.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of pods to create for an owner per step.
const MOST_AT_ONCE: usize = 500;

/// Stand-ins for the controllers of a cluster. They work while [`Controllers::run`] is being polled.
#[derive(Debug)]
pub struct Controllers {
    tools: ControllerContext,
    mirrors: Mirrors,
    deployments: Deployments,
    daemon_sets: DaemonSets,
    jobs: Jobs,
    cron_jobs: CronJobs,
    node_lifecycle: NodeLifecycle,
    services: Services,
    taint_evictions: TaintEvictions,
    volumes: VolumeControllers,
    resource_claims: ResourceClaims,
    pod_groups: PodGroups,
    job_groups: JobGroups,
}

/// Data that all controllers share.
#[derive(Debug)]
struct ControllerContext {
    store: Store,
    events: Events,
    clock: Clock,
}

#[derive(Debug)]
struct Mirrors {
    nodes: Mirror,
    pods: Mirror,
    deployments: Mirror,
    replica_sets: Mirror,
    replication_controllers: Mirror,
    stateful_sets: Mirror,
    daemon_sets: Mirror,
    jobs: Mirror,
    cron_jobs: Mirror,
    budgets: Mirror,
    services: Mirror,
}

impl Controllers {
    /// Creates controllers for the objects of a store.
    ///
    /// # Errors
    /// If a resource cannot be watched.
    pub fn new(store: &Store) -> Result<Self, SandboxError> {
        let mirrors = Mirrors {
            nodes: Mirror::new(store, "nodes")?,
            pods: Mirror::new(store, "pods")?,
            deployments: Mirror::new(store, "deployments.apps")?,
            replica_sets: Mirror::new(store, "replicasets.apps")?,
            replication_controllers: Mirror::new(store, "replicationcontrollers")?,
            stateful_sets: Mirror::new(store, "statefulsets.apps")?,
            daemon_sets: Mirror::new(store, "daemonsets.apps")?,
            jobs: Mirror::new(store, "jobs.batch")?,
            cron_jobs: Mirror::new(store, "cronjobs.batch")?,
            budgets: Mirror::new(store, "poddisruptionbudgets.policy")?,
            services: Mirror::new(store, "services")?,
        };
        let tools =
            ControllerContext { store: store.clone(), events: Events::new(store), clock: Clock::default() };
        Ok(Self {
            tools,
            mirrors,
            deployments: Deployments::default(),
            daemon_sets: DaemonSets::default(),
            jobs: Jobs::default(),
            cron_jobs: CronJobs::default(),
            node_lifecycle: NodeLifecycle::default(),
            services: Services::default(),
            taint_evictions: TaintEvictions::default(),
            volumes: VolumeControllers::new(store)?,
            resource_claims: ResourceClaims::new(store)?,
            pod_groups: PodGroups::new(store)?,
            job_groups: JobGroups::new(store)?,
        })
    }

    /// Replaces the machine's clock with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.tools.clock = clock;
        self
    }

    /// Adds provisioners for all storage classes. They are not part of kube-controller-manager.
    #[must_use]
    pub fn with_provisioners(mut self) -> Self {
        self.volumes.provision();
        self
    }

    /// Runs the controllers. Never returns; it ends only when its task is aborted.
    pub async fn run(mut self) {
        let mut wake = None;
        loop {
            tokio::select! {
                () = self.mirrors.changed() => tokio::time::sleep(PAUSE).await,
                () = self.volumes.changed() => tokio::time::sleep(PAUSE).await,
                () = self.resource_claims.changed() => tokio::time::sleep(PAUSE).await,
                () = self.pod_groups.changed() => tokio::time::sleep(PAUSE).await,
                () = self.job_groups.changed() => tokio::time::sleep(PAUSE).await,
                // The pause also lets other tasks run if something is due repeatedly.
                () = self.tools.clock.reaches(wake) => tokio::time::sleep(PAUSE).await,
            }
            // Before the pods, so that all pods are known that are older than the deletion of their group.
            self.pod_groups.catch_up().await;
            self.mirrors.catch_up().await;
            self.volumes.catch_up().await;
            self.resource_claims.catch_up().await;
            self.job_groups.catch_up().await;
            self.collect_garbage();
            wake = self.reconcile();
        }
    }

    /// Takes one step with every controller. Returns the time at which the next step is due even if nothing changes.
    fn reconcile(&mut self) -> Option<Timestamp> {
        let (tools, mirrors) = (&self.tools, &self.mirrors);
        let pods = OwnedObjects::new(mirrors.pods.all());
        let sets = OwnedObjects::new(mirrors.replica_sets.all());
        let progress = self.deployments.reconcile(tools, &mirrors.deployments, &sets, &pods);
        replica_sets::reconcile(tools, &replica_sets::REPLICA_SETS, &mirrors.replica_sets, &pods);
        replica_sets::reconcile(
            tools,
            &replica_sets::REPLICATION_CONTROLLERS,
            &mirrors.replication_controllers,
            &pods,
        );
        stateful_sets::reconcile(tools, &mirrors.stateful_sets, &pods);
        self.daemon_sets.reconcile(tools, &mirrors.daemon_sets, &mirrors.nodes, &pods);
        let groups = self.job_groups.with(self.pod_groups.all());
        let job = self.jobs.reconcile(tools, &mirrors.jobs, &pods, groups.as_ref());
        ephemeral_volumes::reconcile(tools, &mirrors.pods);
        self.volumes.reconcile(tools, &mirrors.nodes);
        self.resource_claims.reconcile(tools, &mirrors.pods);
        self.pod_groups.reconcile(&tools.store, &mirrors.pods);
        budgets::reconcile(&tools.store, mirrors);
        let jobs = OwnedObjects::new(mirrors.jobs.all());
        let start = self.cron_jobs.reconcile(tools, &mirrors.cron_jobs, &jobs);
        self.services.reconcile(tools, &mirrors.services, &mirrors.pods);
        self.node_lifecycle.reconcile(tools, &mirrors.nodes, &mirrors.pods);
        let eviction = self.taint_evictions.reconcile(tools, &mirrors.nodes, &mirrors.pods);
        [progress, job, start, eviction].into_iter().flatten().min()
    }

    /// Deletes the objects of deleted owners and the pods of deleted nodes.
    fn collect_garbage(&mut self) {
        let mirrors = &mut self.mirrors;
        let owners = [
            &mut mirrors.deployments,
            &mut mirrors.replica_sets,
            &mut mirrors.replication_controllers,
            &mut mirrors.stateful_sets,
            &mut mirrors.daemon_sets,
            &mut mirrors.jobs,
            &mut mirrors.cron_jobs,
        ];
        let owners = owners.into_iter().chain([&mut mirrors.pods]);
        let gone: Vec<Value> = owners.flat_map(Mirror::take_gone).collect();
        let gone: HashSet<&str> = gone.iter().map(uid).collect();
        let nodes = mirrors.nodes.take_gone();
        let nodes: HashSet<&str> = nodes.iter().map(name).collect();
        mirrors.budgets.take_gone();
        mirrors.services.take_gone();
        if gone.is_empty() && nodes.is_empty() {
            return;
        }
        let is_orphan = |object: &&Value| {
            let mut owners = list(object, "/metadata/ownerReferences").iter();
            owners.any(|owner| gone.contains(text(owner, "/uid")))
        };
        for set in mirrors.replica_sets.all().filter(is_orphan) {
            delete(&self.tools.store, "replicasets.apps", set, None);
        }
        for job in mirrors.jobs.all().filter(is_orphan) {
            delete(&self.tools.store, "jobs.batch", job, None);
        }
        for claim in self.volumes.claims().filter(is_orphan) {
            delete(&self.tools.store, CLAIMS, claim, None);
        }
        for group in self.pod_groups.all().filter(is_orphan) {
            delete(&self.tools.store, POD_GROUPS, group, None);
        }
        for workload in self.job_groups.all().filter(is_orphan) {
            delete(&self.tools.store, WORKLOADS, workload, None);
        }
        for pod in mirrors.pods.all() {
            if nodes.contains(text(pod, "/spec/nodeName")) {
                delete(&self.tools.store, "pods", pod, Some(0));
            } else if is_orphan(&pod) && !is_ending(pod) {
                delete(&self.tools.store, "pods", pod, None);
            }
        }
    }
}

impl Mirrors {
    async fn changed(&mut self) {
        tokio::select! {
            () = self.nodes.changed() => {}
            () = self.pods.changed() => {}
            () = self.deployments.changed() => {}
            () = self.replica_sets.changed() => {}
            () = self.replication_controllers.changed() => {}
            () = self.stateful_sets.changed() => {}
            () = self.daemon_sets.changed() => {}
            () = self.jobs.changed() => {}
            () = self.cron_jobs.changed() => {}
            () = self.budgets.changed() => {}
            () = self.services.changed() => {}
        }
    }

    async fn catch_up(&mut self) {
        let all = [
            &mut self.nodes,
            &mut self.pods,
            &mut self.deployments,
            &mut self.replica_sets,
            &mut self.replication_controllers,
            &mut self.stateful_sets,
            &mut self.daemon_sets,
            &mut self.jobs,
            &mut self.cron_jobs,
            &mut self.budgets,
            &mut self.services,
        ];
        for mirror in all {
            mirror.catch_up().await;
        }
    }
}

/// Objects, keyed by the UID of the owner that manages them.
struct OwnedObjects<'a>(HashMap<&'a str, Vec<&'a Value>>);

impl<'a> OwnedObjects<'a> {
    fn new(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut owned: HashMap<&str, Vec<&Value>> = HashMap::new();
        for object in objects {
            if let Some(owner) = controller(object) {
                owned.entry(text(owner, "/uid")).or_default().push(object);
            }
        }
        Self(owned)
    }

    fn of(&self, owner: &Value) -> &[&'a Value] {
        self.0.get(uid(owner)).map_or(&[], Vec::as_slice)
    }
}

fn delete(store: &Store, resource: &str, object: &Value, grace: Option<i64>) {
    carry_on("A controller", store.delete(resource, namespace(object), name(object), grace));
}

/// Changes an object's status if the change makes a difference.
fn write_status(store: &Store, resource: &str, object: &Value, change: impl Fn(&mut Value)) {
    let change = |object: &mut Value| {
        if !object["status"].is_object() {
            object["status"] = json!({});
        }
        change(object);
    };
    let mut new = object.clone();
    change(&mut new);
    if new != *object {
        let done = store.update_status(resource, namespace(object), name(object), change);
        carry_on("A controller", done.map(|_| ()));
    }
}

/// Returns a pod made from an owner's template. The pod has no name yet.
fn pod_of(owner: &Value) -> Value {
    let template = &owner["spec"]["template"];
    let mut metadata = json!({"namespace": namespace(owner), "ownerReferences": owned_by(owner)});
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
