//! Preemption compared with the real kube-scheduler: both choose the same victims and report the same messages. When
//! the two compete for the same capacity, they stop evicting pods after a while. The disruption budgets are maintained
//! by the real controller or, with the in-memory API server, by the sandbox's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{ApiClient, Component};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, create_priority_classes, delete_pod, events, eventually, get_pod, list, name_of,
        wait_until_bound, wait_until_explained,
    },
    objects::{EVENTS, NODES, PODS, config, disruption, is_terminating, node, node_of, pod},
    pod_watch::PodWatch,
    process::Harbormaster,
    proxy::{Fault, Gate, Proxy, Request},
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    both_schedulers_choose_the_same_victims_and_report_the_same_messages,
    a_preemptor_is_not_tried_while_its_victims_are_being_evicted,
    two_schedulers_that_compete_for_capacity_stop_evicting_pods,
}

const OURS: &str = "ours";
const THEIRS: &str = "theirs";
const BOTH: [&str; 2] = [OURS, THEIRS];
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
/// Long enough for all effects of a wrong decision to show.
const QUIET: Duration = Duration::from_secs(2);

/// Both schedulers on one cluster, each with its own proxy.
struct Pair {
    // Fields are dropped in this order.
    harbormaster: Harbormaster,
    original: Component,
    proxies: BTreeMap<&'static str, Proxy>,
    watch: PodWatch,
    client: ApiClient,
    _cluster: Cluster,
}

impl Pair {
    fn new(cluster: Cluster) -> Self {
        let client = cluster.client().clone();
        create_priority_classes(&client);
        let proxies: BTreeMap<_, _> = BOTH.map(|name| (name, Proxy::new(&cluster))).into();
        proxies.values().for_each(Proxy::listen);
        let master = |name: &str| format!("--master=http://127.0.0.1:{}", proxies[name].port);
        let path =
            cluster.write_scheduler_config(&config(OURS).to_string()).expect("the configuration is written");
        let log = cluster.directory().join("harbormaster.log");
        let harbormaster = Harbormaster::start(&[format!("--config={}", path.display()), master(OURS)], log);
        let original = cluster
            .start_kube_scheduler(&config(THEIRS).to_string(), &[master(THEIRS), "--v=3".to_owned()])
            .expect("kube-scheduler starts");
        let watch = PodWatch::start(&client);
        Self { harbormaster, original, proxies, watch, client, _cluster: cluster }
    }

    fn create_node(&self, name: &str, cpu: &str, pool: &str) {
        let node = node(name, json!({"pool": pool}), cpu, "4Gi", 100);
        self.client.post(NODES, &node).expect("the node is created");
    }

    /// Creates a pod for a pool, or for a node if `spec` names a node, and returns the pod's UID. The default grace
    /// period is zero.
    fn create(&self, name: &str, scheduler: &str, class: &str, cpu: &str, spec: Value) -> String {
        let mut pod = pod(name, scheduler, json!({"cpu": cpu}), spec);
        if !class.is_empty() {
            pod["spec"]["priorityClassName"] = json!(class);
        }
        pod["metadata"]["labels"] = json!({"app": name});
        if pod["spec"]["terminationGracePeriodSeconds"].is_null() {
            pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        }
        let created = self.client.post(PODS, &pod).expect("the pod is created");
        created["metadata"]["uid"].as_str().expect("a UID").to_owned()
    }

    /// Waits until both schedulers know all nodes and pods.
    fn everything_is_known(&self) {
        let all = format!("0/{} nodes", list(&self.client, NODES).len());
        for scheduler in BOTH {
            // The marker is not retried when a node arrives, so every check needs a new pod.
            eventually("all nodes are known", PATIENCE, || {
                self.create("marker", scheduler, "", "0", in_pool("nowhere"));
                let (_, message) = wait_until_explained(&self.client, "marker");
                delete_pod(&self.client, "marker");
                message.starts_with(&all).then_some(())
            });
        }
    }

    fn pods(&self) -> Vec<Value> {
        list(&self.client, PODS)
    }

    /// Returns the number of attempts for a pod by its scheduler.
    fn attempts(&self, pod: &str, scheduler: &str) -> usize {
        match scheduler {
            OURS => self.harbormaster.attempts(pod),
            _ => {
                let log = fs::read_to_string(self.original.log_path()).expect("the log can be read");
                let name = format!("pod=\"default/{pod}\"");
                let is_try =
                    |line: &&str| line.contains("Attempting to schedule pod") && line.contains(&name);
                log.lines().filter(is_try).count()
            }
        }
    }

    /// Returns the number of `DELETE`s that a scheduler sent.
    fn deletes(&self, scheduler: &str) -> usize {
        self.proxies[scheduler].count(is_delete)
    }

    fn end(self) {
        self.harbormaster.ends_well();
        self.original.stop().expect("kube-scheduler ends");
    }
}

fn is_delete(request: &Request) -> bool {
    request.method == "DELETE"
}

fn on(node: &str) -> Value {
    json!({"nodeName": node})
}

fn in_pool(pool: &str) -> Value {
    json!({"nodeSelector": {"pool": pool}})
}

/// Creates a disruption budget that protects the named pod, and waits until the controller has processed it.
fn guard(pair: &Pair, name: &str) {
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pair.client.strategic_patch(&format!("{PODS}/{name}/status"), &running).expect("the patch is accepted");
    let budget = json!({
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    });
    pair.client.post(BUDGETS, &budget).expect("the budget is created");
    eventually("the budget is in force", PATIENCE, || {
        let budget = pair.client.get(&format!("{BUDGETS}/{name}")).ok()?;
        let status = &budget["status"];
        (status["currentHealthy"] == 1 && status["disruptionsAllowed"] == 0).then_some(())
    });
}

fn both_schedulers_choose_the_same_victims_and_report_the_same_messages(server: Server) {
    let pair = Pair::new(server.own_with_controllers());
    for scheduler in BOTH {
        // The guarded pod has the lower priority, but evicting the other pod violates no budget.
        let (guarded, free) = (format!("guarded-{scheduler}"), format!("free-{scheduler}"));
        pair.create_node(&guarded, "1", scheduler);
        pair.create_node(&free, "1", scheduler);
        pair.create(&guarded, scheduler, "", "1", on(&guarded));
        pair.create(&free, scheduler, "middle", "1", on(&free));
        guard(&pair, &guarded);
    }
    pair.everything_is_known();

    // Both schedulers explain in the same words why they do not preempt.
    for (name, class, cpu, pool) in [
        ("nowhere", "high", "1", Some("nowhere")),
        ("large", "high", "2", None),
        ("patient", "patient", "1", None),
        ("low", "", "1", None),
    ] {
        let [ours, theirs] = BOTH.map(|scheduler| {
            let pod = format!("{name}-{scheduler}");
            pair.create(&pod, scheduler, class, cpu, in_pool(pool.unwrap_or(scheduler)));
            wait_until_explained(&pair.client, &pod)
        });
        assert!(ours.1.contains("preemption: "), "{ours:?}");
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(BOTH.map(|scheduler| pair.deletes(scheduler)), [0, 0]);

    // The free pod is evicted first, then the guarded pod, because budgets are only respected on a best-effort basis.
    for (top, victim) in [("first", "free"), ("second", "guarded")] {
        let [ours, theirs] = BOTH.map(|scheduler| {
            let (top, victim) = (format!("{top}-{scheduler}"), format!("{victim}-{scheduler}"));
            let uid = pair.create(&top, scheduler, "high", "1", in_pool(scheduler));
            assert_eq!(wait_until_bound(&pair.client, &top), victim, "its node has the victim's name");
            assert!(get_pod(&pair.client, &victim).is_none());
            let event = eventually("the victim has an event", PATIENCE, || {
                events(&pair.client, &victim, "Preempted").pop()
            });
            let failed = eventually("the preemptor has an event", PATIENCE, || {
                events(&pair.client, &top, "FailedScheduling").pop()
            });
            let note = event["note"].as_str().unwrap_or_default().replace(&uid, "UID");
            let fields = ["type", "action", "related"].map(|field| event[field].clone());
            (note.replace(scheduler, "X"), fields, failed["note"].clone())
        });
        assert_eq!(ours, theirs);
    }
    let evicted = ["free-ours", "free-theirs", "guarded-ours", "guarded-theirs"];
    assert_eq!(pair.watch.evicted(), evicted);
    assert_eq!(BOTH.map(|scheduler| pair.deletes(scheduler)), [2, 2]);
    pair.end();
}

fn a_preemptor_is_not_tried_while_its_victims_are_being_evicted(server: Server) {
    let pair = Pair::new(server.own());
    let gate = Gate::default();
    for scheduler in BOTH {
        pair.proxies[scheduler].fault(1, Fault::hold(&gate), |request| {
            request.method == "DELETE" && request.path.contains("/low-")
        });
        pair.create_node(scheduler, "2", scheduler);
        pair.create_node(&format!("beside-{scheduler}"), "1", scheduler);
        pair.create(&format!("low-{scheduler}"), scheduler, "", "1", on(scheduler));
        pair.create(
            &format!("beside-{scheduler}"),
            scheduler,
            "high",
            "1",
            on(&format!("beside-{scheduler}")),
        );
        pair.create(&format!("peer-{scheduler}"), scheduler, "high", "1", on(scheduler));
    }
    pair.everything_is_known();
    let top = |scheduler: &str| format!("top-{scheduler}");
    for scheduler in BOTH {
        pair.create(&top(scheduler), scheduler, "high", "1", in_pool(scheduler));
    }
    for scheduler in BOTH {
        eventually("the victim is marked for eviction", PATIENCE, || {
            disruption(&get_pod(&pair.client, &format!("low-{scheduler}"))?).map(|_| ())
        });
    }
    // There is free capacity now, which would wake the preemptors if they were not held back while their evictions are
    // in progress.
    for scheduler in BOTH {
        pair.client.delete(&format!("{PODS}/beside-{scheduler}")).expect("the pod is deleted");
    }
    sleep(QUIET / 2);
    let attempts = || BOTH.map(|scheduler| pair.attempts(&top(scheduler), scheduler));
    assert_eq!(attempts(), [1, 1], "the preemptors are not tried while a deletion is in progress");
    gate.open();
    for scheduler in BOTH {
        wait_until_bound(&pair.client, &top(scheduler));
    }
    assert_eq!(attempts(), [2, 2]);
    pair.end();
}

const NODES_OF_THE_CROWD: usize = 4;
/// Number of CPUs of all nodes; each pod requests one.
const ROOM: usize = 2 * NODES_OF_THE_CROWD;

/// Stand-in for the kubelets: removes terminating pods and rejects pods on full nodes.
#[derive(Default)]
struct Kubelets {
    /// UIDs of the pods that were not rejected.
    admitted: BTreeSet<String>,
    /// Names of rejected pods.
    rejected: BTreeSet<String>,
}

impl Kubelets {
    /// Runs one round and returns all pods as they were before it.
    fn work(&mut self, pair: &Pair) -> Vec<Value> {
        let pods = pair.pods();
        for pod in pods.iter().filter(|pod| is_terminating(pod)) {
            // The request fails if the pod is already gone.
            let _ = pair.client.delete(&format!("{PODS}/{}?gracePeriodSeconds=0", name_of(pod)));
        }
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.admitted.retain(|known| pods.iter().any(|pod| uid(pod) == *known));
        for pod in pods.iter().filter(|pod| pod["status"]["phase"] != "Failed") {
            let Some(node) = node_of(pod) else { continue };
            let beside = |other: &&Value| node_of(other) == Some(node) && self.admitted.contains(&uid(other));
            if self.admitted.contains(&uid(pod)) {
                continue;
            }
            if pods.iter().filter(beside).count() < 2 {
                self.admitted.insert(uid(pod));
            } else {
                let failed = json!({"status": {"phase": "Failed", "reason": "OutOfcpu"}});
                let path = format!("{PODS}/{}/status", name_of(pod));
                if pair.client.strategic_patch(&path, &failed).is_ok() {
                    self.rejected.insert(name_of(pod).to_owned());
                }
            }
        }
        pods
    }
}

/// Lets the kubelets work until nothing changes, and returns all pods.
fn settle(pair: &Pair, kubelets: &mut Kubelets) -> Vec<Value> {
    let seen = || (BOTH.map(|scheduler| pair.deletes(scheduler)), pair.watch.bound());
    let attempts = || pair.harbormaster.lines_with(&["Attempting to schedule pod"]).len();
    let (mut last, mut since, mut at_rest) = (seen(), Instant::now(), None);
    eventually("the schedulers stop binding and deleting pods", PATIENCE, || {
        let pods = kubelets.work(pair);
        if last != seen() {
            (last, since, at_rest) = (seen(), Instant::now(), None);
        }
        // The last change may have woken some pods once more.
        if since.elapsed() > QUIET {
            let before = *at_rest.get_or_insert_with(attempts);
            let more = attempts() - before;
            assert!(more <= 5, "{more} attempts while nothing happens");
        }
        (since.elapsed() > 2 * QUIET).then_some(pods)
    })
}

fn two_schedulers_that_compete_for_capacity_stop_evicting_pods(server: Server) {
    let pair = Pair::new(server.own());
    // The pods of one scheduler take a moment to terminate.
    let graceful = |scheduler: &str, mut spec: Value| {
        spec["terminationGracePeriodSeconds"] = json!(if scheduler == OURS { 0 } else { 5 });
        spec
    };
    let mut ranks: BTreeMap<String, &str> = BTreeMap::new();
    for index in 0..NODES_OF_THE_CROWD {
        let node = format!("crowd-{index}");
        pair.create_node(&node, "2", "crowd");
        for scheduler in BOTH {
            pair.create(
                &format!("low-{index}-{scheduler}"),
                scheduler,
                "",
                "1",
                graceful(scheduler, on(&node)),
            );
        }
    }
    let mut kubelets = Kubelets::default();
    kubelets.work(&pair);
    pair.everything_is_known();
    // First, pods of middle priority fill everything; then more important pods arrive.
    let mut pods = Vec::new();
    for (class, count) in [("middle", 8), ("high", 3)] {
        for index in 0..count {
            for scheduler in BOTH {
                let name = format!("{class}-{index}-{scheduler}");
                let uid = pair.create(&name, scheduler, class, "1", graceful(scheduler, in_pool("crowd")));
                ranks.insert(uid, class);
            }
        }
        pods = settle(&pair, &mut kubelets);
    }
    let rank = |class: &str| ["low", "middle", "high"].iter().position(|c| *c == class).expect("a class");
    let class_of = |pod: &str| rank(pod.split('-').next().unwrap_or_default());

    // Every CPU is in use unless too many pods were rejected, and no waiting pod outranks a running one.
    let running: Vec<&str> = (pods.iter())
        .filter(|pod| node_of(pod).is_some() && pod["status"]["phase"] != "Failed")
        .map(name_of)
        .collect();
    let waiting: Vec<&str> = pods.iter().filter(|pod| node_of(pod).is_none()).map(name_of).collect();
    let mut evicted = pair.watch.evicted();
    evicted.retain(|pod| !kubelets.rejected.contains(pod));
    println!("{running:?}\nwaiting: {waiting:?}\nevicted: {evicted:?}\nrejected: {:?}", kubelets.rejected);
    assert!(running.len() == ROOM || waiting.is_empty() && running.len() < ROOM);
    let highest_waiting = waiting.iter().map(|pod| class_of(pod)).max().unwrap_or_default();
    assert!(running.iter().all(|pod| class_of(pod) >= highest_waiting));

    // Each evicted pod made room for a pod that was bound, and no other pod is missing.
    let bound_later = pair.watch.bound() - ROOM;
    assert!(evicted.len() <= bound_later, "{bound_later}");
    assert_eq!(ROOM + bound_later, running.len() + evicted.len() + kubelets.rejected.len());
    assert!(evicted.iter().all(|pod| class_of(pod) < rank("high")));
    let deletes: usize = BOTH.map(|scheduler| pair.deletes(scheduler)).iter().sum();
    assert!(deletes <= 2 * evicted.len(), "{deletes} DELETEs");
    for event in list(&pair.client, &format!("{EVENTS}?fieldSelector=reason%3DPreempted")) {
        let note = event["note"].as_str().unwrap_or_default();
        let by = note.split_whitespace().nth(3).unwrap_or_default();
        let victim = event["regarding"]["name"].as_str().unwrap_or_default();
        assert!(class_of(victim) < rank(ranks[by]), "{victim}: {note}");
    }
    assert!(pods.iter().all(|pod| disruption(pod).is_none()), "no pod that was marked for eviction stayed");
    pair.end();
}
