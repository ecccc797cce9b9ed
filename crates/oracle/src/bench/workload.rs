//! The shapes of work that schedulers are compared with, after those of
//! Kubernetes' own `scheduler_perf`.

mod pods;
mod volumes;

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

pub(super) use volumes::{Creation, VOLUMES, local_volume_name};

use volumes::{Source, Volumes};

/// Where the measured pods are created, and before them the pods that show
/// that a scheduler is at work.
pub(super) const MEASURED: &str = "measured";

/// How many init pods share a namespace where a shape has many.
const PODS_PER_NAMESPACE: usize = 40;

/// Workloads in turn where a shape has many of them: an ordinary cluster of as many Deployments.
const GROUPS: usize = 500;

/// The shape without pods that exist before and without any constraint.
pub const PLAIN: &str = "plain";

/// One shape: what exists before, what is measured, and what disturbs it.
#[derive(Debug)]
pub struct Workload {
    /// Its name, close to that of its model in `scheduler_perf`.
    pub name: &'static str,
    /// Its size unless another is asked for.
    pub size: Size,
    room: Room,
    /// The zones of the nodes in turn; none if empty.
    zones: &'static [&'static str],
    init_pod: fn() -> Value,
    init_namespaces: Namespaces,
    /// By its number.
    measured_pod: fn(usize) -> Value,
    volumes: Volumes,
    /// Collections, and what they must contain before the first pod.
    fixtures: fn() -> Vec<(&'static str, Value)>,
    /// Created at regular intervals during the measurement.
    pub(super) churn_pod: Option<fn() -> Value>,
}

/// How large a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Nodes with 4 CPUs, 32 GiB and 110 pods each.
    pub nodes: usize,
    /// Pods that are bound before the scheduler starts.
    pub init_pods: usize,
    /// Pods that are measured.
    pub pods: usize,
}

/// What is asked for instead of a shape's own size, for every shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    /// Instead of [`Size::nodes`].
    pub nodes: Option<usize>,
    /// Instead of [`Size::init_pods`].
    pub init_pods: Option<usize>,
    /// Instead of [`Size::pods`].
    pub pods: Option<usize>,
    /// Multiplies what is not asked for.
    pub scale: f64,
}

/// How many pods a node has room for.
#[derive(Debug, Clone, Copy)]
struct Room {
    init_pods: usize,
    /// Init pods and measured pods together.
    pods: usize,
}

#[derive(Debug, Clone, Copy)]
enum Namespaces {
    One,
    Many,
}

/// 4 CPUs hold 40 pods of 100m.
const BY_CPU: Room = Room { init_pods: 40, pods: 40 };

/// Every pod of the shape keeps the others off its node, or has the only volume there.
const ALONE: Room = Room { init_pods: 1, pods: 1 };

/// Every pod has a volume, and a node can only have so many.
const BY_VOLUMES: Room = Room { init_pods: volumes::PER_NODE, pods: volumes::PER_NODE };

const ONE_ZONE: &[&str] = &["zone-1"];

const THREE_ZONES: &[&str] = &["zone-1", "zone-2", "zone-3"];

const BASE: Workload = Workload {
    name: PLAIN,
    size: Size { nodes: 5000, init_pods: 0, pods: 5000 },
    room: BY_CPU,
    zones: &[],
    init_pod: pods::plain,
    init_namespaces: Namespaces::One,
    measured_pod: |_| pods::plain(),
    volumes: Volumes::None,
    fixtures: Vec::new,
    churn_pod: None,
};

/// All shapes.
pub static WORKLOADS: [Workload; 14] = [
    BASE,
    Workload {
        name: "SchedulingPodAffinity",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        zones: ONE_ZONE,
        init_pod: pods::affine,
        measured_pod: |_| pods::affine(),
        ..BASE
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        size: Size { nodes: 5000, init_pods: 1000, pods: 2000 },
        room: ALONE,
        init_pod: pods::anti_affine,
        measured_pod: |_| pods::anti_affine(),
        ..BASE
    },
    Workload {
        name: "RequiredPodAntiAffinityWithNSSelector",
        size: Size { nodes: 6000, init_pods: 4000, pods: 1000 },
        room: ALONE,
        init_pod: pods::anti_affine_by_namespace_labels,
        init_namespaces: Namespaces::Many,
        measured_pod: |_| pods::anti_affine_by_namespace_labels(),
        ..BASE
    },
    Workload {
        name: "DeploymentsApart",
        measured_pod: |index| pods::anti_affine_in_group(index % GROUPS),
        ..BASE
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        init_pod: pods::preferring_company,
        measured_pod: |_| pods::preferring_company(),
        ..BASE
    },
    Workload {
        name: "TopologySpreading",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        zones: THREE_ZONES,
        measured_pod: |_| pods::spread("DoNotSchedule"),
        ..BASE
    },
    Workload {
        name: "PreferredTopologySpreading",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        zones: THREE_ZONES,
        measured_pod: |_| pods::spread("ScheduleAnyway"),
        ..BASE
    },
    Workload {
        name: "DefaultTopologySpreading",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        zones: THREE_ZONES,
        measured_pod: |_| pods::of_service(),
        fixtures: || vec![("/api/v1/namespaces/measured/services", pods::service())],
        ..BASE
    },
    Workload {
        name: "PreemptionAsync",
        size: Size { nodes: 5000, init_pods: 20_000, pods: 2000 },
        // 4 times 900m leave 400m.
        room: Room { init_pods: 4, pods: 8 },
        init_pod: pods::victim,
        fixtures: || vec![("/apis/scheduling.k8s.io/v1/priorityclasses", pods::priority_class())],
        churn_pod: Some(pods::preemptor),
        ..BASE
    },
    Workload {
        name: "SchedulingInTreePVs",
        size: Size { nodes: 5000, init_pods: 1000, pods: 2000 },
        volumes: Volumes::Bound { source: Source::InTree, limited: false },
        ..BASE
    },
    Workload {
        name: "SchedulingMigratedInTreePVs",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        room: BY_VOLUMES,
        volumes: Volumes::Bound { source: Source::InTree, limited: true },
        ..BASE
    },
    Workload {
        name: "SchedulingCSIPVs",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        room: BY_VOLUMES,
        volumes: Volumes::Bound { source: Source::Csi, limited: true },
        ..BASE
    },
    Workload {
        name: "LocalVolumes",
        // kube-scheduler looks at every volume for every node: with 5,000 of each a run would take too long.
        size: Size { nodes: 500, init_pods: 0, pods: 400 },
        room: ALONE,
        volumes: Volumes::Local,
        fixtures: || vec![("/apis/storage.k8s.io/v1/storageclasses", volumes::local_class())],
        ..BASE
    },
];

impl Workload {
    /// The shape of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Fails when a pod would find no node: the run would not end.
    pub(super) fn check(&self, size: Size) -> Result<()> {
        let Size { nodes, init_pods, pods } = size;
        let name = self.name;
        let holds = nodes * self.room.init_pods;
        ensure!(init_pods <= holds, "{name}: {nodes} nodes hold {holds} init pods, not {init_pods}");
        let holds = nodes * self.room.pods;
        let all = init_pods + pods;
        ensure!(all <= holds, "{name}: {nodes} nodes hold {holds} init pods and measured pods, not {all}");
        Ok(())
    }

    /// The namespaces of a run.
    pub(super) fn namespaces(&self, size: Size) -> Vec<Value> {
        let init = match self.init_namespaces {
            Namespaces::One => 1,
            Namespaces::Many => size.init_pods.div_ceil(PODS_PER_NAMESPACE),
        };
        (0..init).map(init_namespace).chain([MEASURED.to_owned()]).map(pods::namespace).collect()
    }

    /// Other objects that must exist before the first pod, with their collections.
    pub(super) fn fixtures(&self) -> Vec<(&'static str, Value)> {
        (self.fixtures)()
    }

    /// Whether claims wait for their pods, so that somebody must let them have the volumes that the scheduler chooses.
    pub(super) fn has_waiting_claims(&self) -> bool {
        self.volumes == Volumes::Local
    }

    /// What a node of that number brings with it.
    pub(super) fn storage_of_node(&self, index: usize) -> Vec<Creation> {
        self.volumes.of_node(&node_name(index))
    }

    /// A node with the label that a kubelet sets, and in a zone if the shape has zones.
    pub(super) fn node(&self, index: usize) -> Value {
        let name = node_name(index);
        let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let mut labels = json!({"kubernetes.io/hostname": name});
        if !self.zones.is_empty() {
            labels[pods::ZONE] = self.zones[index % self.zones.len()].into();
        }
        json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": resources, "allocatable": resources},
        })
    }

    /// A namespace and a pod in it that has a node already: consecutive pods are
    /// on consecutive nodes.
    pub(super) fn init_pod(&self, size: Size, index: usize) -> (String, Value) {
        let (namespace, pod, _) = self.init_pod_and_storage(size, index);
        (namespace, pod)
    }

    /// What must exist before that pod.
    pub(super) fn storage_of_init_pod(&self, size: Size, index: usize) -> Vec<Creation> {
        self.init_pod_and_storage(size, index).2
    }

    fn init_pod_and_storage(&self, size: Size, index: usize) -> (String, Value, Vec<Creation>) {
        let namespace = match self.init_namespaces {
            Namespaces::One => 0,
            Namespaces::Many => index / PODS_PER_NAMESPACE,
        };
        let mut pod = (self.init_pod)();
        pod["metadata"]["name"] = format!("init-{index}").into();
        pod["spec"]["nodeName"] = node_name(index % size.nodes).into();
        let namespace = init_namespace(namespace);
        let storage = self.volumes.of_init_pod(&namespace, &mut pod);
        (namespace, pod, storage)
    }

    /// A pod in [`MEASURED`] that the scheduler finds when it starts. It asks for
    /// nothing and matches nothing, so it does not change the shape.
    pub(super) fn warm_up_pod(index: usize) -> Value {
        let mut pod = pods::without_requests();
        pod["metadata"]["name"] = format!("warm-up-{index}").into();
        pod
    }

    /// A pod in [`MEASURED`].
    pub(super) fn measured_pod(&self, index: usize) -> Value {
        self.measured_pod_and_storage(index).0
    }

    /// What must exist before that pod.
    pub(super) fn storage_of_measured_pod(&self, index: usize) -> Vec<Creation> {
        self.measured_pod_and_storage(index).1
    }

    fn measured_pod_and_storage(&self, index: usize) -> (Value, Vec<Creation>) {
        let mut pod = (self.measured_pod)(index);
        pod["metadata"]["name"] = format!("pod-{index}").into();
        let storage = self.volumes.of_measured_pod(MEASURED, &mut pod);
        (pod, storage)
    }
}

impl Sizing {
    /// The size of `workload` in this run.
    #[must_use]
    pub fn of(&self, workload: &Workload) -> Size {
        let scaled = |count: usize| (count as f64 * self.scale).ceil() as usize;
        let Size { nodes, init_pods, pods } = workload.size;
        Size {
            // A rate needs two bindings, and two pods may want a node each.
            nodes: self.nodes.unwrap_or(scaled(nodes).max(2)).max(1),
            init_pods: self.init_pods.unwrap_or(scaled(init_pods)),
            pods: self.pods.unwrap_or(scaled(pods)).max(2),
        }
    }
}

pub(super) fn node_name(index: usize) -> String {
    format!("node-{index}")
}

fn init_namespace(index: usize) -> String {
    format!("init-{index}")
}

#[cfg(test)]
mod tests;
