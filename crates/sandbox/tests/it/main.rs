//! Whole clusters in one process: pods are placed, run, move and disappear.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod addresses;
mod cron_jobs;
mod daemon_sets;
mod events;
mod failing_pods;
mod job_groups;
mod node_failure;
mod pod_groups;
mod resource_claims;
mod runtime_classes;
mod services;
mod stateful_sets;
mod taint_evictions;
mod taint_rules;
mod volumes;

use std::time::Duration;

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};
use harbormaster_sandbox::{AttachedScheduler, Options, Pace, PodState, Sandbox, Source, Update};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

fn options(nodes: usize, manifests: &str) -> Options {
    let quick = Duration::from_millis(10);
    let sources = vec![Source { name: "test.yaml".to_owned(), text: manifests.to_owned() }];
    let manifests = if manifests.is_empty() { Vec::new() } else { sources };
    Options {
        manifests,
        nodes,
        pace: Pace { start: quick, stop: quick, run_for: quick },
        ..Options::default()
    }
}

async fn sandbox(nodes: usize, manifests: &str) -> Sandbox {
    let mut sandbox = Sandbox::start(options(nodes, manifests)).await.unwrap();
    assert!(sandbox.settled(LIMIT).await, "{:?}", sandbox.board);
    sandbox
}

fn pod(name: &str, cpu: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  containers:\n  \
         - {{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}\n---\n"
    )
}

fn workload(kind: &str, replicas: usize) -> String {
    format!(
        "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  selector: \
         {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: \
         {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: 100m}}}}}}]}}\n---\n"
    )
}

fn count(sandbox: &Sandbox, state: PodState) -> usize {
    sandbox.board.count(state)
}

fn read(sandbox: &Sandbox, resource: &str, name: &str) -> Value {
    sandbox.store().get(resource, "default", name).unwrap().value()
}

/// Waits until `is_true` returns true. Meant for conditions that the board does not show.
async fn eventually(is_true: impl Fn() -> bool) {
    let waited = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, waited).await.unwrap();
}

fn change(sandbox: &Sandbox, resource: &str, name: &str, patch: &Value) {
    sandbox.store().merge(resource, "default", name, false, patch).unwrap();
}

#[tokio::test]
async fn the_pods_of_a_deployment_run_and_their_number_follows_its_scale() {
    let mut sandbox = sandbox(3, &workload("Deployment", 4)).await;
    assert_eq!(count(&sandbox, PodState::Placed), 4);
    let status = read(&sandbox, "deployments.apps", "web")["status"].clone();
    assert_eq!((&status["availableReplicas"], &status["updatedReplicas"]), (&json!(4), &json!(4)));
    for (replicas, expected) in [(7, 7), (2, 2), (0, 0)] {
        change(&sandbox, "deployments.apps", "web", &json!({"spec": {"replicas": replicas}}));
        assert!(sandbox.settled(LIMIT).await);
        assert_eq!(count(&sandbox, PodState::Placed), expected);
    }
    change(&sandbox, "deployments.apps", "web", &json!({"spec": {"replicas": 1}}));
    assert!(sandbox.settled(LIMIT).await);
    sandbox.store().delete("deployments.apps", "default", "web", None).unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(sandbox.board.pods().count(), 0, "the objects of a deleted deployment are deleted");
}

#[tokio::test]
async fn a_new_template_replaces_all_pods() {
    for strategy in ["RollingUpdate", "Recreate"] {
        let mut sandbox = sandbox(3, "").await;
        let text = workload("Deployment", 4);
        let mut deployment: Value = serde_saphyr::from_str(text.trim_end_matches("---\n")).unwrap();
        deployment["spec"]["strategy"] = json!({"type": strategy});
        sandbox.store().create("deployments.apps", deployment).unwrap();
        assert!(sandbox.settled(LIMIT).await);
        let before: Vec<String> = sandbox.board.pods().map(|pod| pod.name.clone()).collect();
        let containers = json!([{"name": "c", "image": "other"}]);
        change(
            &sandbox,
            "deployments.apps",
            "web",
            &json!({"spec": {"template": {"spec": {"containers": containers}}}}),
        );
        assert!(sandbox.settled(LIMIT).await);
        assert_eq!(count(&sandbox, PodState::Placed), 4, "{strategy}");
        assert!(before.iter().all(|name| sandbox.board.pod(name).is_none()), "{strategy}");
        let status = read(&sandbox, "deployments.apps", "web")["status"].clone();
        assert_eq!((&status["replicas"], &status["updatedReplicas"]), (&json!(4), &json!(4)), "{strategy}");
    }
}

#[tokio::test]
async fn a_stateful_set_numbers_its_pods() {
    let mut sandbox = sandbox(2, &workload("StatefulSet", 3)).await;
    let names = |sandbox: &Sandbox| sandbox.board.pods().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&sandbox), ["default/web-0", "default/web-1", "default/web-2"]);
    change(&sandbox, "statefulsets.apps", "web", &json!({"spec": {"replicas": 1}}));
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(names(&sandbox), ["default/web-0"]);
}

#[tokio::test]
async fn a_job_finishes_when_enough_pods_have_finished() {
    let sandbox = sandbox(
        2,
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: sums}\nspec:\n  parallelism: 2\n  completions: 3\n  \
         template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}\n",
    )
    .await;
    assert_eq!(count(&sandbox, PodState::Finished), 3);
    let status = read(&sandbox, "jobs.batch", "sums")["status"].clone();
    assert_eq!((&status["succeeded"], &status["conditions"][0]["type"]), (&json!(3), &json!("Complete")));
}

#[tokio::test]
async fn pods_deleted_from_a_cordoned_node_are_replaced_elsewhere_and_a_budget_counts_its_pods() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec:\n  \
                  maxUnavailable: 1\n  selector: {matchLabels: {app: web}}\n";
    let mut sandbox = sandbox(2, &format!("{}{budget}", workload("Deployment", 4))).await;
    let status = read(&sandbox, "poddisruptionbudgets.policy", "web")["status"].clone();
    let numbers = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"];
    assert_eq!(numbers.map(|field| status[field].as_i64().unwrap()), [4, 4, 3, 1]);
    sandbox.store().merge("nodes", "", "node-1", false, &json!({"spec": {"unschedulable": true}})).unwrap();
    let on_node = |sandbox: &Sandbox, node: &str| {
        let pods = sandbox.board.pods().filter(|pod| pod.node.as_deref() == Some(node));
        pods.map(|pod| pod.name.trim_start_matches("default/").to_owned()).collect::<Vec<_>>()
    };
    for pod in on_node(&sandbox, "node-1") {
        sandbox.store().delete("pods", "default", &pod, None).unwrap();
        assert!(sandbox.settled(LIMIT).await);
    }
    assert_eq!((on_node(&sandbox, "node-1").len(), on_node(&sandbox, "node-2").len()), (0, 4));
}

#[tokio::test]
async fn pods_that_fit_nowhere_have_the_message_of_kube_scheduler() {
    let picky = "apiVersion: v1\nkind: Pod\nmetadata: {name: picky}\nspec:\n  nodeSelector: {disk: nvme}\n  \
                 containers: [{name: c, image: i}]\n---\n";
    let gated = "apiVersion: v1\nkind: Pod\nmetadata: {name: gated}\nspec:\n  schedulingGates: [{name: a/b}]\n  \
                 containers: [{name: c, image: i}]\n";
    let sandbox = sandbox(3, &format!("{}{picky}{gated}", pod("huge", "64"))).await;
    let message = |name: &str| sandbox.board.pod(name).unwrap().message.clone().unwrap_or_default();
    assert_eq!(
        message("default/huge"),
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not \
         helpful for scheduling."
    );
    assert_eq!(
        message("default/picky"),
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/3 nodes are \
         available: 3 Preemption is not helpful for scheduling."
    );
    assert_eq!(sandbox.board.pod("default/gated").unwrap().state, PodState::Gated);
}

#[tokio::test]
async fn a_pod_of_higher_priority_replaces_another() {
    let mut sandbox = sandbox(1, &pod("low", "3")).await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    sandbox.store().create("priorityclasses.scheduling.k8s.io", class).unwrap();
    let spec = json!({"priorityClassName": "high",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]});
    sandbox.store().create("pods", json!({"metadata": {"name": "high"}, "spec": spec})).unwrap();
    let mut lines = Vec::new();
    while let Update::News(news) = sandbox.next().await.unwrap() {
        lines.extend(news.iter().map(ToString::to_string));
    }
    let victim = "pod default/low is being deleted: default-scheduler: preempting to accommodate a higher priority pod";
    assert!(lines.iter().any(|line| line == victim), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("pod default/high -> node-1"));
    assert!(sandbox.board.pod("default/low").is_none());
}

#[tokio::test]
async fn a_sandbox_continues_from_the_state_in_a_dump() {
    let pod = |name: &str, spec: &str, status: &str| {
        format!(
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    {{name: {name}, namespace: shop, uid: {name}, \
             resourceVersion: '7', labels: {{app: web, pod-template-hash: abc}},\n    ownerReferences: [{{apiVersion: \
             apps/v1, kind: ReplicaSet, name: web-abc, uid: lost, controller: true}}]}}\n  spec: {{{spec}\
             priorityClassName: gold, priority: 7, containers: [{{name: c, image: i}}]}}\n  status: {{phase: {status}}}\n"
        )
    };
    let deployment = "- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web, namespace: shop, uid: d}\n  spec:\n    \
                      replicas: 2\n    selector: {matchLabels: {app: web}}\n    template:\n      metadata: {labels: {app: web}}\n      \
                      spec: {containers: [{name: c, image: i}]}\n";
    let dump = format!(
        "apiVersion: v1\nkind: List\nitems:\n{deployment}{}{}{}",
        pod("web-abc-1", "nodeName: node-2, ", "Running"),
        pod("web-abc-2", "", "Pending"),
        pod("web-abc-3", "nodeName: node-2, ", "Succeeded"),
    );
    let sandbox = sandbox(2, &dump).await;
    let pods: Vec<_> = sandbox.board.pods().map(|pod| (pod.name.as_str(), pod.state)).collect();
    assert_eq!(pods, [("shop/web-abc-1", PodState::Placed), ("shop/web-abc-2", PodState::Placed)]);
    assert_eq!(sandbox.board.pod("shop/web-abc-1").unwrap().node.as_deref(), Some("node-2"));
}

#[tokio::test]
async fn pods_from_a_dump_with_merged_label_keys_are_loaded_unchanged() {
    let term = "topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [hash]";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, labels: {{app: web, hash: x}}}}\nspec:\n  \
         topologySpreadConstraints: [{{maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, {term}}}]\n  affinity:\n    \
         podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{{term}}}]}}\n  \
         containers: [{{name: c, image: i}}]\n"
    );
    let first = sandbox(1, &pod).await;
    let dump = read(&first, "pods", "a");
    first.stop().await.unwrap();
    let pointers = [
        "/spec/topologySpreadConstraints/0",
        "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0",
    ];
    let merged = json!([{"key": "hash", "operator": "In", "values": ["x"]}]);
    for pointer in pointers {
        assert_eq!(dump.pointer(pointer).unwrap()["labelSelector"]["matchExpressions"], merged, "{pointer}");
    }
    let second = sandbox(1, &dump.to_string()).await;
    assert_eq!(read(&second, "pods", "a")["spec"]["affinity"], dump["spec"]["affinity"]);
    second.stop().await.unwrap();
}

#[tokio::test]
async fn custom_resources_and_their_definition_are_loaded_from_one_file() {
    let manifests = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm, namespace: machines}\nspec: {running: true}\nstatus: {phase: Up}\n---\n\
        apiVersion: v1\nkind: Namespace\nmetadata: {name: machines}\n---\n\
        apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: virtualmachines.kubevirt.io}\n\
        spec: {group: kubevirt.io, scope: Namespaced, names: {plural: virtualmachines, kind: VirtualMachine}, versions: \
        [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, \
        properties: {spec: {type: object, properties: {running: {type: boolean}, cores: {type: integer, default: 1}}}, \
        status: {type: object, properties: {phase: {type: string}}}}}}}]}\n";
    let sandbox = sandbox(1, manifests).await;
    let vms = "virtualmachines.kubevirt.io";
    let vm = sandbox.store().get(vms, "machines", "vm").unwrap().value();
    assert_eq!(vm["spec"], json!({"running": true, "cores": 1}));
    assert_eq!(vm["status"], json!({"phase": "Up"}), "no controller would set it");
    sandbox.store().delete("namespaces", "", "machines", None).unwrap();
    assert_eq!(sandbox.store().get(vms, "machines", "vm").unwrap_err().code, 404);
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn mistakes_in_manifests_are_reported_with_file_line_and_field() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}\n---\n";
    for (manifest, expected) in [
        (
            format!("{service}{}", pod("p", "lots")),
            "test.yaml:11: Pod default/p: spec.containers[0].resources.requests.cpu",
        ),
        (
            format!(
                "{service}{}",
                workload("Deployment", 1).replace("matchLabels: {app: web}", "matchLabels: {app: x}")
            ),
            "test.yaml:13: Deployment default/web: spec.template.metadata.labels",
        ),
        ("kind: [".to_owned(), "test.yaml:"),
    ] {
        let error = Sandbox::start(options(0, &manifest)).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_sandbox_stops_cleanly_with_unfinished_pods_and_without_a_scheduler() {
    let sandbox = Sandbox::start(options(3, &workload("Deployment", 30))).await.unwrap();
    let address = sandbox.address();
    sandbox.stop().await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nothing listens any more");

    let alone = Options { scheduler: AttachedScheduler::None, ..options(1, &pod("p", "1")) };
    let mut sandbox = Sandbox::start(alone).await.unwrap();
    assert!(sandbox.settled(LIMIT).await, "no scheduler is expected to place pods");
    assert_eq!(count(&sandbox, PodState::Waiting), 1);
    sandbox.store().bind("default", "p", "node-1").unwrap();
    assert!(sandbox.settled(LIMIT).await);
    assert_eq!(read(&sandbox, "pods", "p")["status"]["phase"], "Running");
    sandbox.stop().await.unwrap();
}

#[tokio::test]
async fn the_kubelets_and_the_server_have_the_release_of_the_options() {
    for &release in Release::ALL {
        let features = Features::of(release);
        let options = Options { features, ..options(1, &pod("p", "1")) };
        let mut sandbox = Sandbox::start(options).await.unwrap();
        assert!(sandbox.settled(LIMIT).await, "{:?}", sandbox.board);
        assert_eq!(count(&sandbox, PodState::Placed), 1);
        assert_eq!(sandbox.store().kubernetes_version(), release.version());
        let node = sandbox.store().get("nodes", "", "node-1").unwrap().value();
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], release.version());
        sandbox.stop().await.unwrap();
    }
}
