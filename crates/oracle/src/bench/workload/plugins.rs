//! Workloads for the plugins of scheduler-plugins. Each adds one plugin to the default profile, and creates the objects
//! that the plugin reads and pods for which it has something to do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{
    BASE, Creation, MEASURED, Namespaces, PODS_PER_NAMESPACE, PREEMPTION, Size, Workload, init_namespace,
    node_name, pods,
};
use crate::family::profiles::{at_score, everywhere, sorts, sorts_everywhere};

/// Number of zones. Three of them make up a region.
const ZONES: usize = 9;

/// Number of nodes with a power model. Other nodes have the plugin's default.
const MODELS: usize = 5000;

/// Number of pods of a PodGroup.
const MEMBERS: usize = 8;

/// A plugin of scheduler-plugins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plugin {
    /// False if the version of scheduler-plugins that is compared lacks the plugin.
    pub(super) is_released: bool,
    /// `plugins` and `pluginConfig` of the profile, given the address of load-watcher's service.
    profile: fn(&str) -> Value,
    /// Folder in `contrib/` with the definitions of the plugin's custom resources, if it has any.
    folder: Option<&'static str>,
    /// Custom objects that exist from the start.
    objects: fn(Size) -> Vec<Creation>,
    /// Custom object of a node.
    of_node: fn(usize) -> Option<Creation>,
}

const NOTHING: Plugin = Plugin {
    is_released: true,
    profile: |_| json!({}),
    folder: None,
    objects: |_| Vec::new(),
    of_node: |_| None,
};

/// A workload in which every node has a pod already.
const FAMILY: Workload =
    Workload { size: Size { nodes: 5000, init_pods: 5000, pods: 2000 }, plugin: Some(NOTHING), ..BASE };

/// NodeResourceTopologyMatch without arguments. The plugin of scheduler-plugins then requests every node's object for
/// every pod.
const TOPOLOGY: Workload = Workload {
    name: "NodeResourceTopologyMatch",
    size: SMALL,
    init_pod: pods::guaranteed,
    measured_pod: |_| pods::guaranteed(),
    plugin: Some(Plugin {
        profile: |_| everywhere("NodeResourceTopologyMatch", &json!({})),
        folder: Some("node-resource-topology-match"),
        of_node: |index| Some((TOPOLOGIES.to_owned(), topology(index))),
        ..NOTHING
    }),
    ..FAMILY
};

/// For plugins of scheduler-plugins that take hundreds of milliseconds per pod.
const SMALL: Size = Size { nodes: 5000, init_pods: 5000, pods: 200 };

/// NetworkOverhead for pods that depend on those of another workload, of which every node has one.
const NETWORK: Workload = Workload {
    name: "NetworkOverhead",
    size: SMALL,
    init_pod: || pods::of_application("db"),
    measured_pod: |_| pods::of_application("web"),
    plugin: Some(Plugin {
        profile: |_| everywhere("NetworkOverhead", &json!({})),
        folder: Some("network-overhead"),
        objects: |_| application(),
        ..NOTHING
    }),
    ..FAMILY
};

/// Workloads for the plugins of scheduler-plugins.
pub static PLUGIN_WORKLOADS: [Workload; 16] = [
    TOPOLOGY,
    Workload {
        name: "NodeResourceTopologyMatch-cache",
        plugin: Some(Plugin {
            profile: |_| everywhere("NodeResourceTopologyMatch", &json!({"cacheResyncPeriodSeconds": 5})),
            ..plugin_of(&TOPOLOGY)
        }),
        size: FAMILY.size,
        ..TOPOLOGY
    },
    NETWORK,
    Workload {
        name: "TopologicalSort",
        plugin: Some(Plugin { profile: |_| sorts("TopologicalSort"), ..plugin_of(&NETWORK) }),
        size: FAMILY.size,
        ..NETWORK
    },
    Workload {
        name: "TargetLoadPacking",
        plugin: Some(Plugin { profile: |watcher| by_load("TargetLoadPacking", watcher), ..NOTHING }),
        ..FAMILY
    },
    Workload {
        name: "LoadVariationRiskBalancing",
        plugin: Some(Plugin { profile: |watcher| by_load("LoadVariationRiskBalancing", watcher), ..NOTHING }),
        ..FAMILY
    },
    Workload {
        name: "LowRiskOverCommitment",
        init_pod: pods::limited,
        measured_pod: |_| pods::limited(),
        plugin: Some(Plugin { profile: |watcher| by_load("LowRiskOverCommitment", watcher), ..NOTHING }),
        ..FAMILY
    },
    Workload {
        name: "Peaks",
        plugin: Some(Plugin {
            profile: |watcher| {
                let model = json!({"k0": 471.7, "k1": -91.5, "k2": -0.07});
                let models: Map<String, Value> =
                    (0..MODELS).map(|index| (node_name(index), model.clone())).collect();
                at_score("Peaks", &json!({"WatcherAddress": watcher, "NodePowerModel": models}))
            },
            ..NOTHING
        }),
        ..FAMILY
    },
    Workload {
        name: "SySched",
        init_pod: || pods::confined(0),
        measured_pod: pods::confined,
        plugin: Some(Plugin {
            profile: |_| at_score("SySched", &json!({})),
            folder: Some("sysched"),
            objects: |_| (0..pods::PROFILES).map(profile).collect(),
            ..NOTHING
        }),
        ..FAMILY
    },
    Workload {
        name: "NodeResourcesAllocatable",
        plugin: Some(Plugin { profile: |_| at_score("NodeResourcesAllocatable", &json!({})), ..NOTHING }),
        ..FAMILY
    },
    Workload {
        name: "PodState",
        plugin: Some(Plugin { profile: |_| at_score("PodState", &json!({})), ..NOTHING }),
        ..FAMILY
    },
    Workload {
        name: "PreemptionToleration",
        init_pod: pods::tolerant_victim,
        fixtures: || {
            let collection = "/apis/scheduling.k8s.io/v1/priorityclasses";
            vec![(collection, pods::priority_class()), (collection, pods::tolerant_class())]
        },
        plugin: Some(Plugin {
            profile: |_| {
                json!({"plugins": {"postFilter": {
                    "enabled": [{"name": "PreemptionToleration"}],
                    "disabled": [{"name": "DefaultPreemption"}],
                }}})
            },
            ..NOTHING
        }),
        ..PREEMPTION
    },
    Workload {
        name: "CapacityScheduling",
        size: Size { nodes: 5000, init_pods: 2000, pods: 2000 },
        init_namespaces: Namespaces::Many,
        plugin: Some(Plugin {
            profile: |_| {
                json!({"plugins": {
                    "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
                    "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
                }})
            },
            folder: Some("capacity-scheduling"),
            objects: quotas,
            ..NOTHING
        }),
        ..FAMILY
    },
    Workload { name: "QOSSort", plugin: Some(Plugin { profile: |_| sorts("QOSSort"), ..NOTHING }), ..FAMILY },
    Workload {
        name: "Coscheduling",
        measured_pod: |index| pods::of_pod_group(&group_name(index / MEMBERS)),
        plugin: Some(Plugin {
            profile: |_| sorts_everywhere("Coscheduling"),
            folder: Some("coscheduling"),
            objects: |size| (0..size.pods.div_ceil(MEMBERS)).map(|index| group(size, index)).collect(),
            ..NOTHING
        }),
        ..FAMILY
    },
    Workload {
        name: "NodeMetadata",
        plugin: Some(Plugin {
            is_released: false,
            profile: |_| {
                let args = json!({
                    "metadataKey": pods::RANK,
                    "metadataSource": "Label",
                    "metadataType": "Number",
                    "scoringStrategy": "Highest",
                });
                at_score("NodeMetadata", &args)
            },
            ..NOTHING
        }),
        ..FAMILY
    },
];

impl Plugin {
    /// Returns the profile of a scheduler that uses the plugin.
    pub(super) fn profile(&self, watcher: &str) -> Value {
        let mut profile = (self.profile)(watcher);
        profile["schedulerName"] = "default-scheduler".into();
        profile
    }

    /// Reads the definitions of the plugin's custom resources.
    pub(super) fn definitions(&self) -> Result<Vec<Value>> {
        let Some(folder) = self.folder else { return Ok(Vec::new()) };
        let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
        let path = contrib.join(folder).join("deploy/crd.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_saphyr::from_multiple(&text).with_context(|| format!("reading {}", path.display()))
    }

    pub(super) fn objects(&self, size: Size) -> Vec<Creation> {
        (self.objects)(size)
    }

    pub(super) fn of_node(&self, index: usize) -> Option<Creation> {
        (self.of_node)(index)
    }
}

const fn plugin_of(workload: &Workload) -> Plugin {
    match workload.plugin {
        Some(plugin) => plugin,
        None => NOTHING,
    }
}

/// Labels of a node: its place, and a number.
pub(super) fn node_labels(index: usize) -> [(&'static str, String); 3] {
    let zone = index % ZONES;
    [
        (pods::ZONE, format!("zone-{zone}")),
        (pods::REGION, format!("region-{}", zone / 3)),
        (pods::RANK, (index % 100).to_string()),
    ]
}

fn by_load(name: &str, watcher: &str) -> Value {
    at_score(name, &json!({"watcherAddress": watcher}))
}

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

/// Two NUMA nodes, and the fingerprint of a node without pods.
fn topology(index: usize) -> Value {
    let zone = |id: usize| {
        let amount = |name: &str, amount: &str| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
        let resources = [amount("cpu", "4"), amount("memory", "32Gi")];
        json!({"name": format!("node-{id}"), "type": "Node", "resources": resources})
    };
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node_name(index)},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001ef46db3751d8e999"},
        ],
        "zones": [zone(0), zone(1)],
    })
}

/// An application of two workloads, of which one depends on the other, and the costs between zones and regions.
fn application() -> Vec<Creation> {
    let workload = |name: &str| json!({"kind": "Deployment", "name": name, "selector": name});
    let group = json!({
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": pods::APPLICATION},
        "spec": {
            "numMembers": 2,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [
                {"workload": workload("web"), "dependencies": [{"workload": workload("db"), "maxNetworkCost": 90}]},
                {"workload": workload("db")},
            ],
        },
        "status": {"topologyOrder": [
            {"workload": workload("db"), "index": 1},
            {"workload": workload("web"), "index": 2},
        ]},
    });
    let costs = |prefix: &str, number: usize, cost: usize| -> Value {
        let origin = |from: usize| {
            let others = (0..number).filter(|to| *to != from);
            let to = others.map(|to| json!({"destination": format!("{prefix}-{to}"), "networkCost": cost}));
            json!({"origin": format!("{prefix}-{from}"), "costList": to.collect::<Vec<_>>()})
        };
        (0..number).map(origin).collect()
    };
    let topology = json!({
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default"},
        "spec": {
            "configmapName": "netperf",
            "weights": [{"name": "UserDefined", "topologyList": [
                {"topologyKey": pods::REGION, "originList": costs("region", ZONES / 3, 50)},
                {"topologyKey": pods::ZONE, "originList": costs("zone", ZONES, 5)},
            ]}],
        },
    });
    vec![
        ("/apis/appgroup.diktyo.x-k8s.io/v1alpha1/namespaces/default/appgroups".to_owned(), group),
        (
            "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies".to_owned(),
            topology,
        ),
    ]
}

/// A profile of 60 system calls.
fn profile(index: usize) -> Creation {
    let names: Vec<String> = (0..60).map(|call| format!("call{}", (call * 5 + index * 3) % 300)).collect();
    let object = json!({
        "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
        "kind": "SeccompProfile",
        "metadata": {"name": format!("profile-{index}")},
        "spec": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{"action": "SCMP_ACT_ALLOW", "names": names}],
        },
    });
    let group = "/apis/security-profiles-operator.x-k8s.io/v1beta1";
    (format!("{group}/namespaces/default/seccompprofiles"), object)
}

const SCHEDULING: &str = "scheduling.x-k8s.io/v1alpha1";

/// A quota in each namespace with init pods, and one for the measured pods.
fn quotas(size: Size) -> Vec<Creation> {
    let quota = |namespace: &str, cpu: usize| {
        let amounts = |cpu: usize| json!({"cpu": cpu, "memory": format!("{}Gi", cpu * 8)});
        let object = json!({
            "apiVersion": SCHEDULING,
            "kind": "ElasticQuota",
            "metadata": {"name": "quota"},
            "spec": {"min": amounts(cpu), "max": amounts(cpu * 3)},
        });
        (format!("/apis/{SCHEDULING}/namespaces/{namespace}/elasticquotas"), object)
    };
    let teams = (0..size.init_pods.div_ceil(PODS_PER_NAMESPACE)).map(init_namespace);
    teams.map(|team| quota(&team, 10)).chain([quota(MEASURED, size.pods)]).collect()
}

fn group_name(index: usize) -> String {
    format!("group-{index}")
}

/// A PodGroup. The last one may have fewer members than the others.
fn group(size: Size, index: usize) -> Creation {
    let object = json!({
        "apiVersion": SCHEDULING,
        "kind": "PodGroup",
        "metadata": {"name": group_name(index)},
        "spec": {"minMember": MEMBERS.min(size.pods - index * MEMBERS), "scheduleTimeoutSeconds": 60},
    });
    (format!("/apis/{SCHEDULING}/namespaces/{MEASURED}/podgroups"), object)
}
