//! Cost per pod of the plugins of scheduler-plugins, compared with that of a plain pod under the default profile.
//!
//! `cargo bench -p harbormaster-oracle --bench family [-- NAME…]`
//!
//! Each shape adds one plugin to the default profile, in a cluster of 5,000 nodes with pods on them for which the plugin has
//! something to do. Every decision is confirmed as the API server would confirm it, so "us/whole" includes the handling
//! of these events. Plain pods are measured in the same cluster right before. The second table shows the same with ten
//! times as many pods on the nodes: nothing may grow with their number.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use harbormaster_api::{
    Node, Pod, PodSpec, Resources, Str, Timestamp,
    pod::{Container, Phase, PodCondition},
};
use harbormaster_core::{BindOutcome, Effect, Engine, Input};
use harbormaster_framework::resource::{CustomKey, RawObject};
use harbormaster_oracle::family::profiles::{at_score, everywhere, sorts, sorts_everywhere};
use harbormaster_setup::{Choices, Setup};
use serde_json::{Value, json};

const NODES: usize = 5000;
/// Number of pods that fill the caches before the measurement.
const WARM: usize = 104;
const MEASURED: usize = 800;
/// Number of pods on nodes.
const BOUND: [usize; 2] = [5000, 50_000];
/// Number of zones, and of regions three times as large.
const ZONES: usize = 9;
/// Number of rounds, of which the quickest counts.
const ROUNDS: usize = 3;

/// A plugin and a cluster in which it has something to do.
struct Shape {
    name: &'static str,
    /// `plugins` and `pluginConfig` of the profile.
    profile: fn() -> Value,
    /// Resource (`plural.version.group`) and custom objects.
    objects: fn() -> Vec<(&'static str, Value)>,
    /// Turns a plain pod into one of this shape.
    change: fn(usize, &mut Pod, &mut PodSpec),
}

fn nothing() -> Vec<(&'static str, Value)> {
    Vec::new()
}

const LOADS: &str = "nodeloads.v1alpha1.trimaran.scheduler-plugins.x-k8s.io";

/// A load report in which every node has CPU and memory.
fn loads() -> Vec<(&'static str, Value)> {
    let mut map = json!({});
    for at in 0..NODES {
        let metric = |kind: &str, operator: &str, value: usize| json!({"type": kind, "operator": operator, "value": value});
        let all = [
            metric("CPU", "AVG", at % 60),
            metric("CPU", "STD", at % 7),
            metric("Memory", "AVG", at % 50),
            metric("Memory", "STD", at % 5),
        ];
        map[format!("node-{at}")] = json!({"metrics": all});
    }
    let report = json!({
        "metadata": {"name": "kubernetes-metrics-server"},
        "window": {"duration": "15m", "end": 999_000},
        "data": {"NodeMetricsMap": map},
    });
    vec![(LOADS, report)]
}

/// Topologies with two NUMA nodes each. The agents write fingerprints, and know no pods.
fn topologies() -> Vec<(&'static str, Value)> {
    let zone = |id: usize| {
        let amount = |name: &str, amount: &str| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
        let resources = [amount("cpu", "4"), amount("memory", "32Gi")];
        json!({"name": format!("node-{id}"), "type": "Node", "resources": resources})
    };
    let topology = |at: usize| {
        let attributes = [
            json!({"name": "topologyManagerPolicy", "value": "single-numa-node"}),
            json!({"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001ef46db3751d8e999"}),
        ];
        json!({
            "metadata": {"name": format!("node-{at}")},
            "attributes": attributes,
            "zones": [zone(0), zone(1)],
        })
    };
    let name = "noderesourcetopologies.v1alpha2.topology.node.k8s.io";
    (0..NODES).map(|at| (name, topology(at))).collect()
}

fn guaranteed(spec: &mut PodSpec) {
    let container = &mut spec.containers[0];
    container.limits = container.requests.clone();
}

const GROUP: &str = "appgroup.diktyo.x-k8s.io";
const WORKLOAD: &str = "appgroup.diktyo.x-k8s.io.workload";

/// An application of two workloads, of which one depends on the other, and the costs between zones and regions.
fn application() -> Vec<(&'static str, Value)> {
    let dependency = json!({"workload": {"selector": "db"}, "maxNetworkCost": 90});
    let group = json!({
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"workloads": [
            {"workload": {"selector": "web"}, "dependencies": [dependency]},
            {"workload": {"selector": "db"}},
        ]},
        "status": {"topologyOrder": [
            {"workload": {"selector": "db"}, "index": 1},
            {"workload": {"selector": "web"}, "index": 2},
        ]},
    });
    let costs = |prefix: &str, number: usize, cost: usize| -> Value {
        let origin = |from: usize| {
            let to =
                (0..number).map(|to| json!({"destination": format!("{prefix}-{to}"), "networkCost": cost}));
            json!({"origin": format!("{prefix}-{from}"), "costList": to.collect::<Vec<_>>()})
        };
        (0..number).map(origin).collect()
    };
    let topology = json!({
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": [
            {"topologyKey": "topology.kubernetes.io/region", "originList": costs("region", ZONES / 3, 50)},
            {"topologyKey": "topology.kubernetes.io/zone", "originList": costs("zone", ZONES, 5)},
        ]}]},
    });
    vec![
        ("appgroups.v1alpha1.appgroup.diktyo.x-k8s.io", group),
        ("networktopologies.v1alpha1.networktopology.diktyo.x-k8s.io", topology),
    ]
}

/// Pods on nodes are of the workload `db`, as long as there is one per node, and the measured ones of `web`.
fn of_the_application(at: usize, pod: &mut Pod, _: &mut PodSpec) {
    let workload = if at < NODES { "db" } else { "web" };
    pod.labels = [(GROUP, "shop"), (WORKLOAD, workload)].into_iter().collect();
}

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";

/// 50 profiles of 60 system calls each.
fn profiles() -> Vec<(&'static str, Value)> {
    let profile = |at: usize| {
        let names: Vec<String> = (0..60).map(|call| format!("call{}", (call * 5 + at * 3) % 300)).collect();
        json!({
            "metadata": {"name": format!("profile-{at}"), "namespace": "default"},
            "spec": {"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": names}]},
        })
    };
    let name = "seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io";
    (0..50).map(|at| (name, profile(at))).collect()
}

/// Groups of eight.
fn groups() -> Vec<(&'static str, Value)> {
    let name = "podgroups.v1alpha1.scheduling.x-k8s.io";
    let group = |at: usize| json!({"metadata": {"name": format!("g{at}"), "namespace": "default"}, "spec": {"minMember": 8}});
    (0..(NODES * 10 + WARM + MEASURED) / 8 + 1).map(|at| (name, group(at))).collect()
}

/// Number of namespaces with quotas.
const TEAMS: usize = 50;

/// A quota in each namespace. Half of them are below groups.
fn quotas() -> Vec<(&'static str, Value)> {
    let amounts = |cpu: usize| json!({"cpu": cpu, "memory": format!("{}Gi", cpu * 8)});
    let quota = |at: usize| {
        let metadata = json!({"name": "quota", "namespace": format!("team-{at}")});
        let object = json!({"metadata": metadata, "spec": {"min": amounts(100), "max": amounts(300)}});
        ("elasticquotas.v1alpha1.scheduling.x-k8s.io", object)
    };
    let group = |at: usize| {
        let namespaces: Value =
            (0..5).map(|team| json!({"name": format!("team-{}", at * 5 + team)})).collect();
        let spec = json!({"min": amounts(600), "max": amounts(2000), "namespaces": namespaces});
        (
            "quotagroups.v1alpha1.harbormaster.dev",
            json!({"metadata": {"name": format!("group-{at}")}, "spec": spec}),
        )
    };
    (0..TEAMS).map(quota).chain((0..TEAMS / 10).map(group)).collect()
}

fn of_a_team(at: usize, pod: &mut Pod, _: &mut PodSpec) {
    pod.namespace = format!("team-{}", at % TEAMS).into();
}

fn classes() -> Vec<(&'static str, Value)> {
    let prefix = "preemption-toleration.scheduling.x-k8s.io";
    let annotations = json!({
        format!("{prefix}/minimum-preemptable-priority"): "10",
        format!("{prefix}/toleration-seconds"): "3600",
    });
    let class = json!({"metadata": {"name": "tolerant", "annotations": annotations}, "value": 1});
    vec![("priorityclasses.v1.scheduling.k8s.io", class)]
}

fn shapes() -> Vec<Shape> {
    let plain = |_: usize, _: &mut Pod, _: &mut PodSpec| {};
    vec![
        Shape {
            name: "NodeResourceTopologyMatch",
            profile: || everywhere("NodeResourceTopologyMatch", &json!({})),
            objects: topologies,
            change: |_, _, spec| guaranteed(spec),
        },
        Shape {
            name: "NetworkOverhead",
            profile: || everywhere("NetworkOverhead", &json!({})),
            objects: application,
            change: of_the_application,
        },
        Shape {
            name: "TopologicalSort",
            profile: || sorts("TopologicalSort"),
            objects: application,
            change: of_the_application,
        },
        Shape {
            name: "TargetLoadPacking",
            profile: || at_score("TargetLoadPacking", &json!({})),
            objects: loads,
            change: plain,
        },
        Shape {
            name: "LoadVariationRiskBalancing",
            profile: || at_score("LoadVariationRiskBalancing", &json!({})),
            objects: loads,
            change: plain,
        },
        Shape {
            name: "LowRiskOverCommitment",
            profile: || at_score("LowRiskOverCommitment", &json!({})),
            objects: loads,
            change: |_, _, spec| spec.containers[0].limits = vec![("cpu".into(), 100)],
        },
        Shape {
            name: "Peaks",
            profile: || {
                let model = json!({"k0": 471.7, "k1": -91.5, "k2": -0.07});
                let models: serde_json::Map<String, Value> =
                    (0..NODES).map(|at| (format!("node-{at}"), model.clone())).collect();
                at_score("Peaks", &json!({"NodePowerModel": models}))
            },
            objects: loads,
            change: plain,
        },
        Shape {
            name: "SySched",
            profile: || at_score("SySched", &json!({})),
            objects: profiles,
            change: |at, pod, _| {
                let path = format!("localhost/operator/default/profile-{}.json", at % 50);
                pod.annotations = [(Str::from(SECCOMP), Str::from(path))].into_iter().collect();
            },
        },
        Shape {
            name: "NodeResourcesAllocatable",
            profile: || at_score("NodeResourcesAllocatable", &json!({})),
            objects: nothing,
            change: plain,
        },
        Shape {
            name: "NodeMetadata",
            profile: || {
                let args = json!({
                    "metadataKey": "rank",
                    "metadataSource": "Label",
                    "metadataType": "Number",
                    "scoringStrategy": "Highest",
                });
                at_score("NodeMetadata", &args)
            },
            objects: nothing,
            change: plain,
        },
        Shape {
            name: "PodState",
            profile: || at_score("PodState", &json!({})),
            objects: nothing,
            change: |at, pod, _| {
                if at < NODES && at % 10 == 0 {
                    pod.deleted = Some(Timestamp::from_secs(1_000_000));
                }
            },
        },
        Shape {
            name: "PreemptionToleration",
            profile: || {
                json!({"plugins": {"postFilter": {
                    "enabled": [{"name": "PreemptionToleration"}],
                    "disabled": [{"name": "DefaultPreemption"}],
                }}})
            },
            objects: classes,
            change: |_, _, spec| spec.priority_class = Some("tolerant".into()),
        },
        Shape {
            name: "CapacityScheduling",
            profile: || {
                json!({"plugins": {
                    "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
                    "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
                }})
            },
            objects: quotas,
            change: of_a_team,
        },
        Shape { name: "QuotaSort", profile: || sorts("QuotaSort"), objects: quotas, change: of_a_team },
        Shape { name: "QOSSort", profile: || sorts("QOSSort"), objects: nothing, change: plain },
        Shape {
            name: "Coscheduling",
            profile: || sorts_everywhere("Coscheduling"),
            objects: groups,
            change: |at, pod, _| {
                let group = format!("g{}", at / 8);
                pod.labels = [("scheduling.x-k8s.io/pod-group", group.as_str())].into_iter().collect();
            },
        },
    ]
}

fn node(at: usize) -> Node {
    let zone = at % ZONES;
    let labels = [
        ("kubernetes.io/hostname", format!("node-{at}")),
        ("topology.kubernetes.io/zone", format!("zone-{zone}")),
        ("topology.kubernetes.io/region", format!("region-{}", zone / 3)),
        ("rank", (at % 100).to_string()),
    ];
    let all = Resources { milli_cpu: 4000, memory: 32 << 30, pods: 110, ..Resources::default() };
    Node {
        name: format!("node-{at}").into(),
        labels: labels.into_iter().collect(),
        capacity: all.clone(),
        allocatable: all,
        ..Node::default()
    }
}

fn pod(at: usize, change: fn(usize, &mut Pod, &mut PodSpec)) -> Pod {
    let name = format!("pod-{at}");
    let container = Container {
        name: "c".into(),
        image: "registry.example/app:v1".into(),
        requests: vec![("cpu".into(), 20), ("memory".into(), 100 << 20)],
        ..Container::default()
    };
    let mut spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        containers: vec![container],
        ..PodSpec::default()
    };
    let mut pod =
        Pod { uid: name.as_str().into(), namespace: "default".into(), name: name.into(), ..Pod::default() };
    change(at, &mut pod, &mut spec);
    pod.spec = Arc::new(spec);
    pod
}

/// The pod as the API server shows it on a node.
fn on(mut pod: Pod, node: Str, now: Timestamp) -> Pod {
    pod.node_name = Some(node);
    pod.status.conditions.push(PodCondition {
        type_: "PodScheduled".into(),
        status: "True".into(),
        last_transition: Some(now.truncate_to_second()),
        ..PodCondition::default()
    });
    pod
}

fn custom((resource, object): (&str, Value)) -> Input {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
    let key = CustomKey { resource: resource.into(), namespace: text("namespace"), name: text("name") };
    Input::Custom(RawObject::from_json(key, object.to_string()))
}

/// Durations per pod: of the decision, and of everything.
type Costs = (Duration, Duration);

/// Creates an engine with nodes, objects and `bound` pods that run.
fn engine(profile: &Value, shape: &Shape, bound: usize, now: Timestamp) -> Engine {
    let mut choices = Choices::default();
    scheduler_plugins::register(&mut choices.plugins);
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    });
    let setup = Setup::read(Some(("", &config.to_string())), &choices).expect("the configuration");
    let mut engine = Engine::new(setup.engine);
    (0..NODES).for_each(|at| engine.handle(Input::Node(node(at)), now));
    (shape.objects)().into_iter().for_each(|object| engine.handle(custom(object), now));
    for at in 0..bound {
        let mut there = on(pod(at, shape.change), format!("node-{}", at % NODES).into(), now);
        there.status.phase = Phase::Running;
        engine.handle(Input::Pod(there), now);
    }
    engine
}

fn confirm(engine: &mut Engine, now: Timestamp) {
    for effect in engine.take_effects() {
        if let Effect::Bind(task) = effect {
            let there = on(Pod::clone(&task.pod().pod), task.node().clone(), now);
            let uid = there.uid.clone();
            engine.handle(Input::Pod(there), now);
            engine.handle(Input::BindFinished { uid, outcome: BindOutcome::Bound }, now);
        }
    }
}

fn run(profile: &Value, shape: &Shape, bound: usize) -> Costs {
    let mut now = Timestamp::from_secs(1_000_000);
    let mut engine = engine(profile, shape, bound, now);
    let (mut deciding, mut begin) = (Duration::ZERO, Instant::now());
    for at in 0..WARM + MEASURED {
        if at == WARM {
            (deciding, begin) = (Duration::ZERO, Instant::now());
        }
        now.0 += 1_000_000;
        engine.handle(Input::Pod(pod(bound + at, shape.change)), now);
        let start = Instant::now();
        black_box(engine.schedule_one(now));
        deciding += start.elapsed();
        confirm(&mut engine, now);
    }
    (deciding / MEASURED as u32, begin.elapsed() / MEASURED as u32)
}

/// Plain pods under the default profile, and pods of the shape with its plugin, by turns.
fn compare(shape: &Shape, bound: usize) -> [Costs; 2] {
    let plain = Shape { name: "", profile: || json!({}), objects: nothing, change: |_, _, _| {} };
    let mut best = [(Duration::MAX, Duration::MAX); 2];
    for _ in 0..ROUNDS {
        let both = [run(&json!({}), &plain, bound), run(&(shape.profile)(), shape, bound)];
        for (best, new) in best.iter_mut().zip(both) {
            *best = (best.0.min(new.0), best.1.min(new.1));
        }
    }
    best
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let shapes: Vec<Shape> = shapes()
        .into_iter()
        .filter(|shape| wanted.is_empty() || wanted.iter().any(|name| name == shape.name))
        .collect();
    for bound in BOUND {
        println!("\n{NODES} nodes, {bound} pods on them: microseconds per pod");
        println!("{:28} {:>8} {:>8} {:>8} {:>8} {:>6}", "", "plain", "plugin", "plain", "plugin", "");
        println!("{:28} {:>17} {:>17} {:>6}", "plugin", "us/decision", "us/whole", "ratio");
        for shape in &shapes {
            let [plain, own] = compare(shape, bound);
            let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
            let ratio = us(own.1) / us(plain.1);
            println!(
                "{:28} {:8.1} {:8.1} {:8.1} {:8.1} {ratio:6.2}",
                shape.name,
                us(plain.0),
                us(own.0),
                us(plain.1),
                us(own.1)
            );
        }
    }
}
