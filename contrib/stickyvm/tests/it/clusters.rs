//! Runs the program against API servers, with killed schedulers, competing schedulers and deleted nodes.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::ApiClient;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, delete_pod, eventually, get_pod, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, config, node, node_of, pod, scheduled_condition},
    process::Harbormaster,
    proxy::{Fault, Gate, Proxy, Request},
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    a_machine_stays_on_its_node_across_restarts_of_machine_and_scheduler,
    a_new_scheduler_continues_if_the_previous_one_is_killed_between_writing_and_binding,
    a_failed_binding_and_a_lost_response_leave_the_machine_pinned,
    two_schedulers_send_two_pods_of_a_machine_to_one_node,
    a_machine_on_a_deleted_node_waits_or_can_be_released,
    with_the_articles_configuration_the_node_is_written_after_the_binding,
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";
const INSTANCES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
const NAME: &str = "stickyvm";
const KEY: &str = "example.com/sticky-node";

/// Returns a cluster with KubeVirt's kinds and empty nodes with 16 CPUs each, numbered from 1.
fn cluster(server: Server, nodes: u32) -> Cluster {
    let cluster = server.own();
    let client = cluster.client();
    for definition in include_str!("../../deploy/crds.yaml").split("\n---\n") {
        let definition: Value = serde_saphyr::from_str(definition).unwrap();
        client.post(DEFINITIONS, &definition).unwrap();
    }
    for kind in [MACHINES, INSTANCES] {
        eventually("the kinds are served", PATIENCE, || client.get(kind).ok());
    }
    (1..=nodes).for_each(|number| create_node(client, &format!("n{number}")));
    cluster
}

fn create_node(client: &ApiClient, name: &str) {
    client.post(NODES, &node(name, json!({"name": name}), "16", "64Gi", 200)).unwrap();
}

/// Starts the scheduler with the plugins of the given configuration.
fn start(cluster: &Cluster, scheduler_name: &str, shipped: &str, log: &str) -> Harbormaster {
    let config = cluster.write_scheduler_config(&configured(scheduler_name, shipped).to_string()).unwrap();
    start_program(cluster, &[format!("--config={}", config.display())], log)
}

/// Starts the scheduler behind a proxy.
fn start_behind(proxy: &Proxy, cluster: &Cluster, log: &str) -> Harbormaster {
    proxy.listen();
    let config = cluster.directory().join("behind.json");
    std::fs::write(&config, configured(NAME, SHIPPED).to_string()).unwrap();
    let way = format!("--master=http://127.0.0.1:{}", proxy.port);
    start_program(cluster, &[format!("--config={}", config.display()), way], log)
}

fn start_program(cluster: &Cluster, args: &[String], log: &str) -> Harbormaster {
    let program = Path::new(env!("CARGO_BIN_EXE_stickyvm-scheduler"));
    Harbormaster::start_program(program, args, cluster.directory().join(log))
}

fn configured(scheduler_name: &str, shipped: &str) -> Value {
    let shipped: Value = serde_saphyr::from_str(shipped).unwrap();
    let mut config = config(scheduler_name);
    config["profiles"][0]["plugins"] = shipped["profiles"][0]["plugins"].clone();
    config
}

const SHIPPED: &str = include_str!("../../deploy/scheduler-config.yaml");
const ARTICLE: &str = include_str!("../../../../examples/stickyvm/article.yaml");

fn reference(owner: &Value) -> Value {
    let part = |field: &str| &owner["metadata"][field];
    let (version, kind) = (&owner["apiVersion"], &owner["kind"]);
    json!([{"apiVersion": version, "kind": kind, "name": part("name"), "uid": part("uid"), "controller": true}])
}

fn create_machine(client: &ApiClient, name: &str) -> Value {
    let machine =
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}});
    client.post(MACHINES, &machine).unwrap()
}

fn create_instance(client: &ApiClient, machine: &Value) -> Value {
    let metadata = json!({"name": machine["metadata"]["name"], "ownerReferences": reference(machine)});
    let instance =
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": metadata});
    client.post(INSTANCES, &instance).unwrap()
}

fn create_launcher(client: &ApiClient, name: &str, scheduler_name: &str, instance: &Value, spec: Value) {
    let mut launcher = pod(name, scheduler_name, json!({"cpu": "1"}), spec);
    launcher["metadata"]["ownerReferences"] = reference(instance);
    client.post(PODS, &launcher).unwrap();
}

/// Creates an instance and a pod, as KubeVirt does when a machine starts.
fn start_machine(client: &ApiClient, machine: &Value, pod: &str) {
    create_launcher(client, pod, NAME, &create_instance(client, machine), json!({}));
}

/// Deletes the instance and the pod, as when a machine stops.
fn stop_machine(client: &ApiClient, machine: &Value, pod: &str) {
    delete_pod(client, pod);
    client.delete(&format!("{INSTANCES}/{}", machine["metadata"]["name"].as_str().unwrap())).unwrap();
}

/// Returns the machine's annotated node.
fn pinned_node(client: &ApiClient, machine: &Value) -> Option<String> {
    let path = format!("{MACHINES}/{}", machine["metadata"]["name"].as_str().unwrap());
    let machine = client.get(&path).unwrap();
    machine["metadata"]["annotations"][KEY].as_str().map(str::to_owned)
}

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn a_machine_stays_on_its_node_across_restarts_of_machine_and_scheduler(server: Server) {
    const MACHINES: usize = 5;
    const RESTARTS: usize = 20;
    let cluster = cluster(server, MACHINES as u32 + 1);
    let client = cluster.client();
    let begun = Instant::now();
    let (mut dice, mut starts) = (Dice(7), 0);
    let mut start = || {
        starts += 1;
        start(&cluster, NAME, SHIPPED, &format!("{starts}.log"))
    };
    let mut scheduler = start();
    let mut kills = 0;
    for number in 0..MACHINES {
        let machine = create_machine(client, &format!("vm-{number}"));
        let name = format!("virt-launcher-{number}");
        let mut home = None;
        for round in 0..=RESTARTS {
            start_machine(client, &machine, &name);
            // Kill the scheduler during the first start of a machine and during every seventh start after it.
            if round % 7 == 0 {
                sleep(Duration::from_millis(dice.below(30)));
                scheduler.kill();
                kills += 1;
                scheduler = start();
            }
            let node = wait_until_bound(client, &name);
            let first = &*home.get_or_insert_with(|| node.clone());
            assert_eq!(node, *first, "vm-{number} after {round} restarts");
            assert_eq!(pinned_node(client, &machine).as_ref(), Some(first));
            if round == 0 {
                make_unattractive(client, first, number);
            }
            stop_machine(client, &machine, &name);
        }
    }
    println!("{} restarts, {kills} kills: {:?}", MACHINES * RESTARTS, begun.elapsed());
    scheduler.ends_well();
}

/// Puts pods on the node so that a pod without a pinned node goes elsewhere, and checks this with a probe pod.
fn make_unattractive(client: &ApiClient, node: &str, number: usize) {
    for filler in 0..2 {
        let name = format!("filler-{number}-{filler}");
        client.post(PODS, &pod(&name, "nobody", json!({"cpu": "1"}), json!({"nodeName": node}))).unwrap();
    }
    let probe = format!("probe-{number}");
    client.post(PODS, &pod(&probe, NAME, json!({"cpu": "1"}), json!({}))).unwrap();
    assert_ne!(wait_until_bound(client, &probe), node, "a pod that can go anywhere goes elsewhere");
    delete_pod(client, &probe);
}

fn a_new_scheduler_continues_if_the_previous_one_is_killed_between_writing_and_binding(server: Server) {
    let cluster = cluster(server, 3);
    let client = cluster.client();
    let proxy = Proxy::new(&cluster);
    proxy.fault(usize::MAX, Fault::hold(&Gate::default()), |request| request.is_bind_of("launcher"));
    let first = start_behind(&proxy, &cluster, "first.log");
    let machine = create_machine(client, "vm");
    start_machine(client, &machine, "launcher");
    let home = eventually("the node is written", PATIENCE, || pinned_node(client, &machine));
    first.kill();
    assert_eq!(node_of(&get_pod(client, "launcher").unwrap()), None);
    let second = start(&cluster, NAME, SHIPPED, "second.log");
    assert_eq!(wait_until_bound(client, "launcher"), home);
    make_unattractive(client, &home, 0);
    stop_machine(client, &machine, "launcher");
    start_machine(client, &machine, "launcher");
    assert_eq!(wait_until_bound(client, "launcher"), home);
    second.ends_well();
}

fn a_failed_binding_and_a_lost_response_leave_the_machine_pinned(server: Server) {
    let cluster = cluster(server, 3);
    let client = cluster.client();
    let proxy = Proxy::new(&cluster);
    let is_write =
        |request: &Request| request.method == "PATCH" && request.path.contains("/virtualmachines/");
    proxy.fault(1, Fault::BreakAfterwards, is_write);
    proxy.fault(1, Fault::status(409, "Conflict"), |request| request.is_bind_of("launcher"));
    let scheduler = start_behind(&proxy, &cluster, "behind.log");
    let machine = create_machine(client, "vm");
    start_machine(client, &machine, "launcher");
    let home = wait_until_bound(client, "launcher");
    assert_eq!(pinned_node(client, &machine), Some(home));
    assert_eq!(
        proxy.count(is_write),
        2,
        "the second attempt detects that the first succeeded, and nothing is written later"
    );
    assert_eq!(proxy.count(|request| request.is_bind_of("launcher")), 2);
    scheduler.ends_well();
}

fn two_schedulers_send_two_pods_of_a_machine_to_one_node(server: Server) {
    let cluster = cluster(server, 2);
    let client = cluster.client();
    let schedulers = ["first", "second"].map(|name| start(&cluster, name, SHIPPED, &format!("{name}.log")));
    // The first scheduler prefers n1, the second n2.
    let prefers = |node: &str| {
        let term = json!({"matchExpressions": [{"key": "name", "operator": "In", "values": [node]}]});
        let preferred = json!([{"weight": 100, "preference": term}]);
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
    };
    for round in 0..10 {
        let machine = create_machine(client, &format!("vm-{round}"));
        let instance = create_instance(client, &machine);
        let pods = [("first", "n1"), ("second", "n2")].map(|(scheduler, node)| {
            let name = format!("{scheduler}-{round}");
            create_launcher(client, &name, scheduler, &instance, prefers(node));
            name
        });
        let nodes = pods.map(|pod| wait_until_bound(client, &pod));
        assert_eq!(nodes[0], nodes[1], "round {round}");
        assert_eq!(pinned_node(client, &machine).as_ref(), Some(&nodes[0]));
    }
    schedulers.into_iter().for_each(|scheduler| drop(scheduler.ends_well()));
}

fn a_machine_on_a_deleted_node_waits_or_can_be_released(server: Server) {
    let cluster = cluster(server, 2);
    let client = cluster.client();
    let scheduler = start(&cluster, NAME, SHIPPED, "sticky.log");
    let machine = create_machine(client, "vm");
    start_machine(client, &machine, "launcher");
    let home = wait_until_bound(client, "launcher");
    let lose_it = || {
        stop_machine(client, &machine, "launcher");
        client.delete(&format!("{NODES}/{home}")).unwrap();
        // Nodes and pods reach the scheduler through separate watches.
        let selects = json!({"nodeSelector": {"name": home}});
        eventually("the scheduler has seen the node's deletion", PATIENCE, || {
            client.post(PODS, &pod("probe", NAME, json!({}), selects.clone())).unwrap();
            let fits = eventually("the probe is decided", PATIENCE, || {
                let probe = get_pod(client, "probe")?;
                node_of(&probe).map(|_| true).or_else(|| scheduled_condition(&probe).map(|_| false))
            });
            delete_pod(client, "probe");
            (!fits).then_some(())
        });
        start_machine(client, &machine, "launcher");
        let (_, message) = wait_until_explained(client, "launcher");
        assert!(
            message.contains(&format!(
                "VirtualMachine default/vm is pinned to node {home}, which does not exist"
            )),
            "{message}"
        );
    };
    lose_it();
    create_node(client, &home);
    assert_eq!(wait_until_bound(client, "launcher"), home);
    lose_it();
    client
        .merge_patch(&format!("{MACHINES}/vm"), &json!({"metadata": {"annotations": {KEY: null}}}))
        .unwrap();
    let next = wait_until_bound(client, "launcher");
    assert_ne!(next, home);
    assert_eq!(pinned_node(client, &machine), Some(next));
    scheduler.ends_well();
}

fn with_the_articles_configuration_the_node_is_written_after_the_binding(server: Server) {
    let cluster = cluster(server, 2);
    let client = cluster.client();
    let scheduler = start(&cluster, NAME, ARTICLE, "article.log");
    let machine = create_machine(client, "vm");
    start_machine(client, &machine, "launcher");
    let home = wait_until_bound(client, "launcher");
    eventually("the annotation is written", PATIENCE, || {
        pinned_node(client, &machine).filter(|node| *node == home)
    });
    make_unattractive(client, &home, 0);
    for _ in 0..3 {
        stop_machine(client, &machine, "launcher");
        start_machine(client, &machine, "launcher");
        assert_eq!(wait_until_bound(client, "launcher"), home);
        assert_eq!(node_of(&get_pod(client, "launcher").unwrap()), Some(home.as_str()));
    }
    assert_eq!(scheduler.lines_with(&["StickyVM is not enabled in preBind"]).len(), 1);
    assert_eq!(scheduler.lines_with(&["did you mean `NodeResourcesFit`?"]).len(), 1);
    scheduler.ends_well();
}
