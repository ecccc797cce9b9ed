//! Compares the metrics pages of kube-scheduler and Harbormaster after the same small workload: families, types, labels
//! and buckets are identical, except for a list of exceptions with reasons, and values are equal where they must be.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_driver::{Clients, DriverConfig, ExitReason, Metrics, metrics::Build};
use harbormaster_oracle::{
    components::ApiClient,
    scheduler::{self, Contender, StartOptions},
};
use harbormaster_setup::{Choices, Setup};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::e2e::{
    cluster::{
        PATIENCE, create_priority_classes, eventually, get_pod, wait_until_bound, wait_until_explained,
    },
    group_scene::GROUPS,
    objects::{NODES, PODS, config, node, pod},
    server::{Cluster, Server, gates_of_groups, on_both_servers},
};

on_both_servers! {
    the_metrics_pages_of_both_schedulers_agree,
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_metrics_pages_of_both_schedulers_agree_in_1_37() {
    agree(Server::Embedded, Features::of(Release::V1_37));
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_metrics_pages_of_both_schedulers_agree_about_groups() {
    let features = Features::of(Release::V1_37)
        .with(Feature::GenericWorkload, true)
        .with(Feature::TopologyAwareWorkloadScheduling, true);
    agree(Server::Embedded, features);
}

const PROFILE: &str = "default-scheduler";
/// Time for which the compared values must be stable.
const QUIET: Duration = Duration::from_secs(4);

/// Families, or prefixes of their names, that only kube-scheduler has, with the reasons.
const ONLY_THEIRS: &[(&str, &str)] = &[
    ("go_", "there is no Go runtime"),
    ("workqueue_", "client-go's work queues are not used"),
    ("authentication_", "counted by the server of the secure port, which this test does not run"),
    ("authorization_", "counted by the server of the secure port, which this test does not run"),
    ("apiserver_", "counted by the library that serves kube-scheduler's page"),
    ("aggregator_", "counted by the library that serves kube-scheduler's page"),
    ("apiextensions_", "a part of the test's program, which contains all components"),
    ("authenticated_user_requests", "a part of the test's program"),
    ("node_collector_", "a part of the test's program"),
    ("cardinality_enforcement_", "labels are restricted when a page is rendered"),
    ("registered_metrics_total", "counted by the library that registers kube-scheduler's metrics"),
    ("hidden_metrics_total", "counted by the library that registers kube-scheduler's metrics"),
    ("rest_client_exec_plugin_", "a part of client-go"),
    ("rest_client_transport_", "a part of client-go"),
];

/// Families that only kube-scheduler 1.37 has, with the reasons.
const ONLY_THEIRS_IN_1_37: &[(&str, &str)] = &[("informer_", "a part of client-go")];

/// Families that kube-scheduler has only because members of groups wait in Permit.
const OF_WAITING_MEMBERS: &[(&str, &str)] =
    &[("scheduler_permit_wait_duration_seconds", "members of a group pass Permit together")];

/// Parts of the names of samples that differ in 1.37, with the reasons.
const OTHER_VALUES_IN_1_37: &[(&str, &str)] = &[
    ("\"PreFilter\",plugin=\"NodeName\"", "it rejects nodes in Filter only"),
    ("\"PreFilter\",plugin=\"NodeUnschedulable\"", "it rejects nodes in Filter only"),
    ("\"PreFilter\",plugin=\"TaintToleration\"", "it rejects nodes in Filter only"),
    ("\"PreScore\",plugin=\"VolumeBinding\"", "it skips pods without volumes to score"),
];

/// Families that only Harbormaster has, with the reasons.
const ONLY_OURS: &[(&str, &str)] = &[
    ("harbormaster_config_", "kube-scheduler reads its configuration once"),
    ("harbormaster_contradictions", "kube-scheduler does not compare objects with each other"),
];

/// Samples that must be equal, in addition to evaluations and extension points counted per pod.
const SAME_VALUES: &[&str] = &[
    "scheduler_schedule_attempts_total",
    "scheduler_pending_pods",
    "scheduler_queue_incoming_pods_total",
    "scheduler_unschedulable_pods",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims_sum",
    "scheduler_preemption_victims_count",
    "scheduler_pod_scheduling_attempts_sum",
    "scheduler_pod_scheduling_attempts_count",
    "scheduler_pod_scheduling_attempts_bucket",
    "scheduler_pod_scheduling_sli_duration_seconds_count",
    "scheduler_scheduling_attempt_duration_seconds_count",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_cache_size",
    "scheduler_goroutines{operation=\"binding\"}",
    "scheduler_batch_attempts_total",
    "scheduler_resourceclaim_creates_total",
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds_count",
    "dynamic_resource_allocation_resourceclaim_creates_total",
];

/// Samples that must be equal if there are groups. Others depend on how often groups are tried.
const SAME_VALUES_WITH_GROUPS: &[&str] = &[
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_workload_preemption_attempts_total",
    "scheduler_workload_preemption_victims_sum",
    "scheduler_workload_preemption_victims_count",
    "scheduler_preemption_workload_disruptions_sum",
    "scheduler_preemption_workload_disruptions_count",
    "scheduler_preemption_pdb_violations_total",
    "scheduler_preemption_evaluation_duration_seconds_count",
    "scheduler_preemption_execution_duration_seconds_count",
    "scheduler_generated_placements_total",
    "scheduler_placement_evaluations_total",
    "scheduler_placement_evaluation_duration_seconds_count",
];

/// A scheduler whose metrics pages can be read.
enum Scheduler {
    Original(scheduler::Scheduler),
    Ours { metrics: Metrics, stop: Option<oneshot::Sender<()>>, running: Option<JoinHandle<()>> },
}

impl Scheduler {
    fn original(cluster: &Cluster, config: &str, features: Features) -> Self {
        let (config, feature_gates) = (config.to_owned(), gates_of_groups(features));
        let options =
            StartOptions { config, feature_gates, parity: true, metrics: true, ..StartOptions::default() };
        let started = scheduler::Scheduler::start(&Contender::KubeScheduler, cluster, &options);
        Self::Original(started.expect("kube-scheduler starts"))
    }

    /// Runs Harbormaster in this process, because the secure port is not part of this test.
    fn ours(cluster: &Cluster, config: &str, features: Features) -> Self {
        let path = cluster.write_scheduler_config(config).expect("the configuration is written");
        let text = fs::read_to_string(&path).expect("the configuration can be read");
        let choices = Choices { parity: true, features, ..Choices::default() };
        let file = path.display().to_string();
        let setup = Setup::read(Some((&file, &text)), &choices).expect("the configuration is valid");
        let metrics = Metrics::with(features);
        metrics.set_build(Build { version: "v0", commit: "" });
        metrics.set_feature("OpportunisticBatching", "BETA", true);
        let client = &setup.config.client_connection;
        let connection = harbormaster_driver::ConnectionConfig {
            kubeconfig: Some(client.kubeconfig.clone().into()),
            qps: client.qps,
            burst: client.burst,
            ..Default::default()
        };
        let driver = DriverConfig { metrics: metrics.clone(), ..DriverConfig::default() };
        let (stop, stopped) = oneshot::channel();
        let running = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let stopped = async {
                let _ = stopped.await;
            };
            let ended = runtime.expect("a runtime").block_on(async {
                let clients = Clients::new(&connection).await?;
                harbormaster_driver::run(clients, driver, setup.engine, stopped).await
            });
            assert_eq!(ended.expect("the scheduler ends without an error"), ExitReason::Finished);
        });
        Self::Ours { metrics, stop: Some(stop), running: Some(running) }
    }

    fn page(&self) -> String {
        match self {
            Self::Original(original) => {
                original.page("/metrics").expect("the port answers").expect("the page exists")
            }
            Self::Ours { metrics, .. } => metrics.page(),
        }
    }

    fn resources(&self) -> String {
        match self {
            Self::Original(original) => {
                original.page("/metrics/resources").expect("the port answers").expect("the page exists")
            }
            Self::Ours { metrics, .. } => {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                runtime.block_on(metrics.resources())
            }
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Self::Ours { stop, running, .. } = self {
            drop(stop.take());
            if let Some(running) = running.take() {
                let ended = running.join();
                assert!(thread::panicking() || ended.is_ok(), "Harbormaster exits without an error");
            }
        }
    }
}

/// Shape of a family on a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    help: String,
    kind: String,
    /// Sets of label names that occur together.
    labels: BTreeSet<Vec<String>>,
    bounds: BTreeSet<String>,
}

/// Families by name, and samples.
type Page = (BTreeMap<String, Shape>, BTreeMap<String, f64>);

fn read(page: &str) -> Page {
    let (mut families, mut samples) = (BTreeMap::<String, Shape>::new(), BTreeMap::new());
    let mut name = String::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, help) = help.split_once(' ').unwrap_or((help, ""));
            name = family.to_owned();
            families.entry(name.clone()).or_default().help = help.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.split(' ').nth(1).expect("a type");
            families.entry(name.clone()).or_default().kind = kind.to_owned();
        } else if let Some((series, value)) = line.rsplit_once(' ') {
            samples.insert(series.to_owned(), value.parse().expect("a number"));
            let shape = families.get_mut(&name).expect("HELP and TYPE come first");
            let mut labels: Vec<String> = Vec::new();
            for (label, value) in labels_of(series) {
                match label == "le" {
                    true => drop(shape.bounds.insert(value.to_owned())),
                    false => labels.push(label.to_owned()),
                }
            }
            shape.labels.insert(labels);
        }
    }
    (families, samples)
}

/// Returns the labels of a series. No value in these pages contains a quote.
fn labels_of(series: &str) -> Vec<(&str, &str)> {
    let Some((_, labels)) = series.split_once('{') else { return Vec::new() };
    let mut rest = labels.trim_end_matches('}');
    let mut found = Vec::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').expect("a value ends");
        found.push((label, value));
        rest = after.trim_start_matches(',');
    }
    found
}

/// Creates the workload: some ordinary pods, one that fits nowhere, one that is woken, and one that preempts another.
fn work(client: &ApiClient) {
    let create = |name: &str, class: Option<&str>, cpu: &str, spec: Value| {
        let mut pod = pod(name, PROFILE, json!({"cpu": cpu, "memory": "64Mi"}), spec);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "2", "memory": "128Mi"});
        if let Some(class) = class {
            pod["spec"]["priorityClassName"] = json!(class);
        }
        client.post(PODS, &pod).expect("the pod is created");
    };
    let on = |pool: &str| json!({"nodeSelector": {"pool": pool}});
    for name in ["first", "second", "third"] {
        create(name, None, "100m", on("wide"));
        wait_until_bound(client, name);
    }
    create("nowhere", None, "100m", on("none"));
    wait_until_explained(client, "nowhere");
    create("late", None, "100m", on("late"));
    wait_until_explained(client, "late");
    client.post(NODES, &node("late", json!({"pool": "late"}), "1", "1Gi", 10)).expect("the node is created");
    wait_until_bound(client, "late");
    create("victim", None, "800m", on("narrow"));
    wait_until_bound(client, "victim");
    create("preemptor", Some("high"), "800m", on("narrow"));
    wait_until_bound(client, "preemptor");
    assert!(get_pod(client, "victim").is_none(), "the victim is gone");
}

/// Creates pods with devices: one whose device must become ready first, and one with an extended resource.
fn work_with_devices(client: &ApiClient) {
    const GROUP: &str = "/apis/resource.k8s.io/v1";
    let claims = format!("{GROUP}/namespaces/default/resourceclaims");
    let create = |path: &str, object: Value| drop(client.post(path, &object).expect("it is created"));
    create(NODES, node("d", json!({"pool": "devices"}), "2", "4Gi", 100));
    for (name, model) in [
        ("slow", json!({"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]})),
        ("fast", json!({})),
    ] {
        let mut device = model;
        device["name"] = name.into();
        let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
        let driver = format!("{name}.example.com");
        let spec = json!({"driver": driver, "nodeName": "d", "pool": pool, "devices": [device]});
        create(&format!("{GROUP}/resourceslices"), json!({"metadata": {"name": name}, "spec": spec}));
        let selectors = json!([{"cel": {"expression": format!("device.driver == '{driver}'")}}]);
        let spec = json!({"selectors": selectors, "extendedResourceName": format!("example.com/{name}")});
        create(&format!("{GROUP}/deviceclasses"), json!({"metadata": {"name": name}, "spec": spec}));
    }
    let exactly = json!({"deviceClassName": "slow"});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exactly}]}});
    create(&claims, json!({"metadata": {"name": "slow"}, "spec": spec}));
    // The claim and the pod arrive through two watches. A scheduler that learned of the pod first would gate it.
    sleep(Duration::from_secs(2));
    let entry = json!([{"name": "slow", "resourceClaimName": "slow"}]);
    create(PODS, pod("slow", PROFILE, json!({"cpu": "100m"}), json!({"resourceClaims": entry})));
    let claim = format!("{claims}/slow");
    eventually("the claim has a device", PATIENCE, || {
        let claim = client.get(&claim).expect("it exists");
        claim["status"]["reservedFor"].is_array().then_some(())
    });
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "R", "message": "M", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let device =
        json!({"driver": "slow.example.com", "pool": "slow", "device": "slow", "conditions": [condition]});
    let status = json!({"status": {"devices": [device]}});
    client.merge_patch(&format!("{claim}/status"), &status).expect("it is written");
    wait_until_bound(client, "slow");
    let mut extended =
        pod("fast", PROFILE, json!({"cpu": "100m"}), json!({"nodeSelector": {"pool": "devices"}}));
    let amounts = json!({"example.com/fast": "1", "cpu": "100m"});
    extended["spec"]["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
    create(PODS, extended);
    wait_until_bound(client, "fast");
}

/// Creates a group that is placed in one of two racks, a group on any nodes, and a group that preempts a pod despite a
/// disruption budget.
fn work_with_groups(client: &ApiClient) {
    let create = |path: &str, object: Value| drop(client.post(path, &object).expect("it is created"));
    for (name, pool, rack, cpu) in
        [("r1", "racks", "a", "2"), ("r2", "racks", "b", "1"), ("f", "full", "", "1")]
    {
        let labels = match rack {
            "" => json!({"pool": pool}),
            _ => json!({"pool": pool, "rack": rack}),
        };
        create(NODES, node(name, labels, cpu, "4Gi", 100));
    }
    let member = |name: &str, group: Option<&str>, class: Option<&str>, pool: &str| {
        let mut spec = json!({"nodeSelector": {"pool": pool}, "terminationGracePeriodSeconds": 0});
        if let Some(group) = group {
            spec["schedulingGroup"] = json!({"podGroupName": group});
        }
        if let Some(class) = class {
            spec["priorityClassName"] = class.into();
        }
        let mut pod = pod(name, PROFILE, json!({"cpu": "800m", "memory": "64Mi"}), spec);
        pod["metadata"]["labels"] = json!({"app": name});
        create(PODS, pod);
    };
    let spec = json!({"selector": {"matchLabels": {"app": "guarded"}}, "minAvailable": 1});
    create(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        json!({"metadata": {"name": "guard"}, "spec": spec}),
    );
    member("guarded", None, None, "full");
    wait_until_bound(client, "guarded");
    for (name, class, min_count, topology) in [
        ("together", None, 2, json!([{"key": "rack"}])),
        ("plain", None, 2, json!(null)),
        ("strong", Some("high"), 1, json!(null)),
    ] {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min_count}}});
        if !topology.is_null() {
            spec["schedulingConstraints"] = json!({"topology": topology});
        }
        if let Some(class) = class {
            spec["priorityClassName"] = class.into();
        }
        create(GROUPS, json!({"metadata": {"name": name}, "spec": spec}));
    }
    // Groups and pods arrive through two watches. Pods without their group would wait for it elsewhere.
    sleep(Duration::from_secs(2));
    for (group, class, pool, members) in [
        ("together", None, "racks", &["t1", "t2"][..]),
        ("plain", None, "wide", &["p1", "p2"]),
        ("strong", Some("high"), "full", &["s1"]),
    ] {
        members.iter().for_each(|name| member(name, Some(group), class, pool));
        members.iter().for_each(|name| drop(wait_until_bound(client, name)));
    }
}

/// Waits until the compared values are stable, and returns the page.
fn settled(scheduler: &Scheduler, features: Features) -> Page {
    let mut last = (read(&scheduler.page()), Instant::now());
    eventually("the compared values are stable", PATIENCE, || {
        sleep(Duration::from_millis(200));
        let page = read(&scheduler.page());
        if same(&page, features) != same(&last.0, features) {
            last = (page, Instant::now());
            return None;
        }
        (last.1.elapsed() > QUIET).then_some(())
    });
    read(&scheduler.page())
}

/// Returns the samples that must be equal on both pages.
fn same((_, samples): &Page, features: Features) -> BTreeMap<&str, f64> {
    let is_one_of = |list: &[&str], name: &str| {
        let is_sample = |rest: &str| rest.is_empty() || rest.starts_with('{');
        list.iter().any(|same| name.strip_prefix(same).is_some_and(is_sample))
    };
    let differs = |name: &str| {
        features.release() >= Release::V1_37
            && OTHER_VALUES_IN_1_37.iter().any(|(part, _)| name.contains(part))
    };
    let must = |name: &str| match features.enabled(Feature::GenericWorkload) {
        true => is_one_of(SAME_VALUES_WITH_GROUPS, name),
        false => {
            (is_one_of(SAME_VALUES, name) || is_evaluation_per_pod(name) || is_point_per_pod(name))
                && !differs(name)
        }
    };
    samples.iter().filter(|(name, _)| must(name)).map(|(name, value)| (name.as_str(), *value)).collect()
}

/// Returns true for evaluations that are counted per pod. Filter and Score are counted per node, and the schedulers
/// examine different numbers of nodes.
fn is_evaluation_per_pod(name: &str) -> bool {
    name.starts_with("scheduler_plugin_evaluation_total")
        && (name.contains("=\"PreFilter\"") || name.contains("=\"PreScore\""))
}

/// Returns true for the call count of an extension point that is called once per pod.
fn is_point_per_pod(name: &str) -> bool {
    const POINTS: [&str; 9] = [
        "PreEnqueue",
        "PreFilter",
        "Filter",
        "PostFilter",
        "PreScore",
        "Score",
        "Reserve",
        "Bind",
        "PostBind",
    ];
    name.starts_with("scheduler_framework_extension_point_duration_seconds_count")
        && labels_of(name).iter().any(|(label, value)| *label == "extension_point" && POINTS.contains(value))
}

fn scrape(
    server: Server,
    features: Features,
    start: fn(&Cluster, &str, Features) -> Scheduler,
) -> (Page, Vec<String>) {
    let cluster = server.own_with(features);
    let client = cluster.client().clone();
    create_priority_classes(&client);
    for (name, pool, cpu) in [("a", "wide", "2"), ("b", "wide", "2"), ("c", "narrow", "1")] {
        client.post(NODES, &node(name, json!({"pool": pool}), cpu, "4Gi", 100)).expect("the node is created");
    }
    let scheduler = start(&cluster, &config(PROFILE).to_string(), features);
    work(&client);
    work_with_devices(&client);
    if features.enabled(Feature::GenericWorkload) {
        work_with_groups(&client);
    }
    let page = settled(&scheduler, features);
    // Identical nodes may be chosen in any order.
    let resources = scheduler.resources();
    let without_node = |line: &str| match (line.find("node=\""), line.find(",pod=\"")) {
        (Some(from), Some(to)) => format!("{}{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    };
    let mut resources: Vec<String> = resources.lines().map(without_node).collect();
    resources.sort();
    (page, resources)
}

fn the_metrics_pages_of_both_schedulers_agree(server: Server) {
    agree(server, Features::of(Release::V1_36));
}

fn agree(server: Server, features: Features) {
    let (theirs, their_resources) = scrape(server, features, Scheduler::original);
    let (ours, our_resources) = scrape(server, features, Scheduler::ours);
    assert!(!our_resources.is_empty());
    assert_eq!(our_resources, their_resources);

    let mut further = Vec::new();
    if features.release() >= Release::V1_37 {
        further.extend(ONLY_THEIRS_IN_1_37);
    }
    if features.enabled(Feature::GenericWorkload) {
        further.extend(OF_WAITING_MEMBERS);
    }
    let only_theirs = [ONLY_THEIRS, &further].concat();
    let listed = |list: &[(&str, &str)], name: &str| list.iter().any(|(known, _)| name.starts_with(known));
    let mut wrong: Vec<String> = Vec::new();
    for (name, shape) in &theirs.0 {
        match ours.0.get(name) {
            _ if listed(&only_theirs, name) => {}
            None => wrong.push(format!("{name} is missing: {shape:?}")),
            Some(our) if our != shape => {
                wrong.push(format!("{name} differs:\n  ours   {our:?}\n  theirs {shape:?}"));
            }
            Some(_) => {}
        }
    }
    let more = ours.0.keys().filter(|name| !theirs.0.contains_key(*name) && !listed(ONLY_OURS, name));
    wrong.extend(more.map(|name| format!("kube-scheduler has no {name}")));

    let (our_values, their_values) = (same(&ours, features), same(&theirs, features));
    let names: BTreeSet<&&str> = our_values.keys().chain(their_values.keys()).collect();
    for name in names {
        let (our, their) = (our_values.get(*name), their_values.get(*name));
        if our != their {
            wrong.push(format!("{name}: ours {our:?}, theirs {their:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let fewest = if features.enabled(Feature::GenericWorkload) { 15 } else { 60 };
    assert!(our_values.len() > fewest, "too little was compared: {our_values:#?}");
    // No exception is superfluous.
    for (known, _) in if further.is_empty() { ONLY_THEIRS } else { &further } {
        let needed = theirs.0.keys().any(|name| name.starts_with(known) && !ours.0.contains_key(name));
        assert!(needed, "kube-scheduler has no family {known} that Harbormaster lacks");
    }
}
