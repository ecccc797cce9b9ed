//! Workloads of the benchmark, modelled on those of Kubernetes' `scheduler_perf`.

mod devices;
mod groups;
mod plugins;
mod pods;
mod volumes;

use anyhow::{Result, ensure};
use harbormaster_api::Release;
use serde::Serialize;
use serde_json::{Value, json};

use devices::{Devices, Request};
use groups::{Groups, Policy};
pub use plugins::PLUGIN_WORKLOADS;
use plugins::Plugin;
use volumes::{Source, Volumes};

use super::updates;

/// A collection and an object in it.
pub(super) type Creation = (String, Value);

/// Namespace of the measured pods and of the warm-up pods.
pub(super) const MEASURED: &str = "measured";

/// Number of init pods per namespace in workloads with many namespaces.
const PODS_PER_NAMESPACE: usize = 40;

/// Number of Deployments or templates among which pods are distributed in turn, as in an ordinary cluster.
const GROUPS: usize = 500;

/// Name of the workload of plain pods, without init pods or constraints.
pub const PLAIN: &str = "plain";

/// A workload: objects that exist from the start, measured pods, and pods that disturb the measurement.
#[derive(Debug)]
pub struct Workload {
    /// Name, similar to that of the corresponding workload in `scheduler_perf`.
    pub name: &'static str,
    /// Default size.
    pub size: Size,
    capacity: Capacity,
    /// Zones to which nodes are assigned in turn. If there are none, nodes have no zone.
    zones: &'static [&'static str],
    init_pod: fn() -> Value,
    init_namespaces: Namespaces,
    /// Creates the measured pod with the given index.
    measured_pod: fn(usize) -> Value,
    volumes: Volumes,
    devices: Option<Devices>,
    groups: Option<Groups>,
    /// Plugin of scheduler-plugins that both contenders use.
    plugin: Option<Plugin>,
    /// Objects that must exist before the first pod, each with its collection.
    fixtures: fn() -> Vec<(&'static str, Value)>,
    /// A pod that is created at regular intervals during the measurement.
    pub(super) churn_pod: Option<fn() -> Value>,
    pub(super) load: Load,
}

/// The work of the scheduler during the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Bind the measured pods.
    Pods,
    /// Bind measured pods that come in small groups, each of which is deleted before the next one is created.
    SteadyPods,
    /// Bind the first pods after a start in a cluster with many bound pods.
    Start,
    /// Take note of status updates of init pods and nodes. They take the place of the measured pods, so there are as
    /// many updates as the size has pods.
    Updates,
}

/// Size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Number of nodes, each with 4 CPUs, 32 GiB and room for 110 pods.
    pub nodes: usize,
    /// Number of pods that are bound before the scheduler starts.
    pub init_pods: usize,
    /// Number of measured pods, or of status updates.
    pub pods: usize,
}

/// Overrides for the sizes of all workloads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeOverrides {
    /// Replaces [`Size::nodes`].
    pub nodes: Option<usize>,
    /// Replaces [`Size::init_pods`].
    pub init_pods: Option<usize>,
    /// Replaces [`Size::pods`].
    pub pods: Option<usize>,
    /// Factor by which all sizes without an override are multiplied.
    pub scale: f64,
}

/// Number of pods that fit on a node.
#[derive(Debug, Clone, Copy)]
struct Capacity {
    init_pods: usize,
    /// Init pods and measured pods in total.
    pods: usize,
}

#[derive(Debug, Clone, Copy)]
enum Namespaces {
    One,
    Many,
}

/// 40 pods of 100m fit on 4 CPUs.
const BY_CPU: Capacity = Capacity { init_pods: 40, pods: 40 };

/// Every pod repels the others from its node, or uses the only volume there.
const ALONE: Capacity = Capacity { init_pods: 1, pods: 1 };

/// Every pod has a volume, and the number of volumes per node is limited.
const BY_VOLUMES: Capacity = Capacity { init_pods: volumes::PER_NODE, pods: volumes::PER_NODE };

const ONE_ZONE: &[&str] = &["zone-1"];

const THREE_ZONES: &[&str] = &["zone-1", "zone-2", "zone-3"];

const BASE: Workload = Workload {
    name: PLAIN,
    size: Size { nodes: 5000, init_pods: 0, pods: 5000 },
    capacity: BY_CPU,
    zones: &[],
    init_pod: pods::plain,
    init_namespaces: Namespaces::One,
    measured_pod: |_| pods::plain(),
    volumes: Volumes::None,
    devices: None,
    groups: None,
    plugin: None,
    fixtures: Vec::new,
    churn_pod: None,
    load: Load::Pods,
};

/// Pods with claims for devices. Half of the devices are allocated from the start.
const CLAIMING: Workload = Workload {
    name: "SchedulingWithResourceClaimTemplate",
    size: Size { nodes: 500, init_pods: 0, pods: 2000 },
    capacity: Capacity { init_pods: 40, pods: devices::FREE_PER_NODE },
    devices: Some(Devices { request: Request::Exactly, claims_per_pod: 1 }),
    ..BASE
};

/// Plain pods while others preempt.
const PREEMPTION: Workload = Workload {
    name: "PreemptionAsync",
    size: Size { nodes: 5000, init_pods: 20_000, pods: 2000 },
    // Four pods of 900m leave 400m free.
    capacity: Capacity { init_pods: 4, pods: 8 },
    init_pod: pods::victim,
    fixtures: || vec![("/apis/scheduling.k8s.io/v1/priorityclasses", pods::priority_class())],
    churn_pod: Some(pods::preemptor),
    ..BASE
};

/// Plain pods in gangs of three.
const GANGS: Workload = Workload {
    name: "GangScheduling",
    size: Size { nodes: 5000, init_pods: 0, pods: 3000 },
    groups: Some(Groups { members: 3, policy: Policy::Gang, in_one_rack: false }),
    ..BASE
};

const GANGS_OF_64: Workload = Workload {
    name: "GangsOf64",
    size: Size { nodes: 5000, init_pods: 0, pods: 3200 },
    groups: Some(Groups { members: 64, policy: Policy::Gang, in_one_rack: false }),
    ..GANGS
};

/// All workloads for kube-scheduler.
pub static WORKLOADS: [Workload; 29] = [
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
        capacity: ALONE,
        init_pod: pods::anti_affine,
        measured_pod: |_| pods::anti_affine(),
        ..BASE
    },
    Workload {
        name: "RequiredPodAntiAffinityWithNSSelector",
        size: Size { nodes: 6000, init_pods: 4000, pods: 1000 },
        capacity: ALONE,
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
    Workload { name: "ManyTemplates", measured_pod: |index| pods::of_template(index % GROUPS), ..BASE },
    Workload {
        name: "Restart",
        size: Size { nodes: 5000, init_pods: 50_000, pods: 500 },
        load: Load::Start,
        ..BASE
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        init_pod: pods::preferring_similar,
        measured_pod: |_| pods::preferring_similar(),
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
    PREEMPTION,
    Workload {
        name: "SchedulingInTreePVs",
        size: Size { nodes: 5000, init_pods: 1000, pods: 2000 },
        volumes: Volumes::Bound { source: Source::InTree, limited: false },
        ..BASE
    },
    Workload {
        name: "SchedulingMigratedInTreePVs",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        capacity: BY_VOLUMES,
        volumes: Volumes::Bound { source: Source::InTree, limited: true },
        ..BASE
    },
    Workload {
        name: "SchedulingCSIPVs",
        size: Size { nodes: 5000, init_pods: 5000, pods: 2000 },
        capacity: BY_VOLUMES,
        volumes: Volumes::Bound { source: Source::Csi, limited: true },
        ..BASE
    },
    Workload {
        name: "LocalVolumes",
        // kube-scheduler checks every volume for every node, so with 5,000 of each a run would take too long.
        size: Size { nodes: 500, init_pods: 0, pods: 400 },
        capacity: ALONE,
        volumes: Volumes::Local,
        fixtures: || vec![("/apis/storage.k8s.io/v1/storageclasses", volumes::local_class())],
        ..BASE
    },
    Workload {
        name: "StatusUpdates",
        size: Size { nodes: 1000, init_pods: 1000, pods: 10_000 },
        load: Load::Updates,
        ..BASE
    },
    CLAIMING,
    Workload {
        name: "SchedulingWithMultipleResourceClaims",
        size: Size { nodes: 500, init_pods: 0, pods: 250 },
        capacity: Capacity { init_pods: 40, pods: devices::FREE_PER_NODE / 4 },
        devices: Some(Devices { request: Request::Exactly, claims_per_pod: 4 }),
        ..CLAIMING
    },
    Workload { name: "SteadyStateClusterResourceClaimTemplate", load: Load::SteadyPods, ..CLAIMING },
    Workload {
        name: "SteadyStateClusterResourceClaimTemplateFirstAvailable",
        devices: Some(Devices { request: Request::FirstAvailable, claims_per_pod: 1 }),
        load: Load::SteadyPods,
        ..CLAIMING
    },
    Workload {
        name: "DeviceTaintToleration",
        devices: Some(Devices { request: Request::Tolerating, claims_per_pod: 1 }),
        ..CLAIMING
    },
    Workload {
        name: "BasicScheduling",
        groups: Some(Groups { members: 3, policy: Policy::Basic, in_one_rack: false }),
        ..GANGS
    },
    GANGS,
    Workload {
        name: "GangsOf8",
        size: Size { nodes: 5000, init_pods: 0, pods: 3200 },
        groups: Some(Groups { members: 8, policy: Policy::Gang, in_one_rack: false }),
        ..GANGS
    },
    GANGS_OF_64,
    Workload {
        name: "GangsOf64OnHalfFullNodes",
        size: Size { nodes: 500, init_pods: 10_000, pods: 3200 },
        ..GANGS_OF_64
    },
    Workload {
        name: "GangsOf1000",
        groups: Some(Groups { members: 1000, policy: Policy::Gang, in_one_rack: false }),
        ..GANGS
    },
    Workload {
        name: "TopologyAwareScheduling",
        groups: Some(Groups { members: 4, policy: Policy::Gang, in_one_rack: true }),
        ..GANGS
    },
];

impl Workload {
    /// Returns the workload with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().chain(&PLUGIN_WORKLOADS).find(|workload| workload.name == name)
    }

    /// Returns true if the workload needs a plugin of scheduler-plugins.
    #[must_use]
    pub fn has_plugin(&self) -> bool {
        self.plugin.is_some()
    }

    /// Returns true if the workload needs a plugin that is in the version of scheduler-plugins that is compared.
    #[must_use]
    pub fn has_released_plugin(&self) -> bool {
        self.plugin.is_some_and(|plugin| plugin.is_released)
    }

    /// Returns the profile of the contenders, given the address of load-watcher's service; `None` for the default.
    pub(super) fn profile(&self, watcher: &str) -> Option<Value> {
        Some(self.plugin.as_ref()?.profile(watcher))
    }

    /// Returns the definitions of the custom resources.
    pub(super) fn definitions(&self) -> Result<Vec<Value>> {
        self.plugin.as_ref().map_or(Ok(Vec::new()), Plugin::definitions)
    }

    /// Returns true if Kubernetes of this release has all that the workload needs.
    #[must_use]
    pub fn exists_in(&self, release: Release) -> bool {
        !self.has_groups() || release >= Release::V1_37
    }

    /// Fails if the release lacks something, or if a pod would not fit: it would never be bound, and the run would fail
    /// only after a long wait.
    pub(super) fn check(&self, size: Size, release: Release) -> Result<()> {
        let Size { nodes, init_pods, pods } = size;
        let name = self.name;
        ensure!(
            self.exists_in(release),
            "{name}: Kubernetes {release} has no groups of pods; use --kube 1.37"
        );
        let most = nodes * self.capacity.init_pods;
        ensure!(init_pods <= most, "{name}: {nodes} nodes have room for {most} init pods, not {init_pods}");
        let most = nodes * self.capacity.pods;
        let all = init_pods + if self.load == Load::Updates { 0 } else { pods };
        ensure!(
            all <= most,
            "{name}: {nodes} nodes have room for {most} init pods and measured pods, not {all}"
        );
        Ok(())
    }

    /// Returns the namespaces of a run.
    pub(super) fn namespaces(&self, size: Size) -> Vec<Value> {
        let init = match self.init_namespaces {
            Namespaces::One => 1,
            Namespaces::Many => size.init_pods.div_ceil(PODS_PER_NAMESPACE),
        };
        (0..init).map(init_namespace).chain([MEASURED.to_owned()]).map(pods::namespace).collect()
    }

    /// Returns the other objects that must exist before the first pod, each with its collection.
    pub(super) fn fixtures(&self, size: Size) -> Vec<Creation> {
        let own = (self.fixtures)().into_iter().map(|(collection, object)| (collection.to_owned(), object));
        let groups = self.groups.into_iter().flat_map(|groups| groups.of(size.pods));
        let of_plugin = self.plugin.iter().flat_map(|plugin| plugin.objects(size));
        own.chain(self.devices.iter().flat_map(Devices::fixtures)).chain(groups).chain(of_plugin).collect()
    }

    /// Returns true if the measured pods are in groups.
    pub(super) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Returns true if every group must be in one rack.
    pub(super) fn has_racks(&self) -> bool {
        self.groups.is_some_and(|groups| groups.in_one_rack)
    }

    /// Returns true if claims wait for their pods and must therefore be bound by a volume controller.
    pub(super) fn has_waiting_claims(&self) -> bool {
        self.volumes == Volumes::Local
    }

    /// Returns true if pods have claims for devices, which a controller must create from a template.
    pub(super) fn has_device_claims(&self) -> bool {
        self.devices.is_some()
    }

    /// Returns the storage objects, devices and custom object of a node.
    pub(super) fn equipment_of_node(&self, index: usize) -> Vec<Creation> {
        let node = node_name(index);
        let devices = self.devices.iter().flat_map(|devices| devices.of_node(&init_namespace(0), &node));
        let of_plugin = self.plugin.iter().filter_map(|plugin| plugin.of_node(index));
        self.volumes.of_node(&node).into_iter().chain(devices).chain(of_plugin).collect()
    }

    /// Returns a node with the host name label that a kubelet sets. The node is in a zone if the workload has zones.
    pub(super) fn node(&self, index: usize) -> Value {
        let name = node_name(index);
        let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
        let mut labels = json!({"kubernetes.io/hostname": name});
        if !self.zones.is_empty() {
            labels[pods::ZONE] = self.zones[index % self.zones.len()].into();
        }
        if self.has_racks() {
            labels[groups::RACK] = format!("rack-{}", index / groups::NODES_PER_RACK).into();
        }
        if self.has_plugin() {
            for (key, value) in plugins::node_labels(index) {
                labels[key] = value.into();
            }
        }
        let status = match self.load {
            Load::Updates => updates::node_status(index, &resources),
            _ => json!({"capacity": resources, "allocatable": resources}),
        };
        json!({"metadata": {"name": name, "labels": labels}, "status": status})
    }

    /// Returns a namespace and a pod in it that is already bound. Consecutive pods are on consecutive nodes.
    pub(super) fn init_pod(&self, size: Size, index: usize) -> (String, Value) {
        let (namespace, pod, _) = self.init_pod_and_storage(size, index);
        (namespace, pod)
    }

    /// Returns the storage objects of an init pod, which must exist before it.
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

    /// Returns a pod in [`MEASURED`] that exists when the scheduler starts. It requests nothing and matches no
    /// selector, so it does not change the workload.
    pub(super) fn warm_up_pod(index: usize) -> Value {
        let mut pod = pods::without_requests();
        pod["metadata"]["name"] = format!("warm-up-{index}").into();
        pod
    }

    /// Returns a measured pod, in [`MEASURED`].
    pub(super) fn measured_pod(&self, index: usize) -> Value {
        self.measured_pod_and_storage(index).0
    }

    /// Returns the storage objects of a measured pod, which must exist before it.
    pub(super) fn storage_of_measured_pod(&self, index: usize) -> Vec<Creation> {
        self.measured_pod_and_storage(index).1
    }

    fn measured_pod_and_storage(&self, index: usize) -> (Value, Vec<Creation>) {
        let mut pod = (self.measured_pod)(index);
        pod["metadata"]["name"] = format!("pod-{index}").into();
        let storage = self.volumes.of_measured_pod(MEASURED, &mut pod);
        if let Some(devices) = &self.devices {
            devices.claim_for(&mut pod);
        }
        if let Some(groups) = self.groups {
            groups.join(index, &mut pod);
        }
        (pod, storage)
    }
}

impl SizeOverrides {
    /// Returns the size of `workload` with these overrides. The number of pods is rounded up to whole groups, because an
    /// incomplete gang is never bound.
    #[must_use]
    pub fn of(&self, workload: &Workload) -> Size {
        let scaled = |count: usize| (count as f64 * self.scale).ceil() as usize;
        let Size { nodes, init_pods, pods } = workload.size;
        let members = workload.groups.map_or(1, |groups| groups.members);
        let init_pods = self.init_pods.unwrap_or(scaled(init_pods));
        // A rate needs two bindings, and two pods may need two nodes.
        let pods = self.pods.unwrap_or(scaled(pods)).max(2).next_multiple_of(members);
        let needed = (init_pods + pods).div_ceil(workload.capacity.pods);
        let default = scaled(nodes).max(2).max(if members > 1 { needed } else { 0 });
        Size { nodes: self.nodes.unwrap_or(default).max(1), init_pods, pods }
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
