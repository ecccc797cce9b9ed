//! The manifests in `deploy/`: they render, Kubernetes accepts them, and the scheduler can do all its work with the
//! arguments and permissions that they contain.

#![cfg(unix)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use harbormaster_oracle::components::{
    ApiClient, ControlPlane, ControlPlaneOptions, Endpoint, Error, Helm, HelmVersion, Kubectl,
    KubectlVersion, free_ports,
};
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, create_all, create_priority_classes, delete_pod, events, eventually, list,
        wait_until_bound, wait_until_explained,
    },
    objects::{NODES, PODS, node, pod},
    process::Harbormaster,
    volumes::{CLAIMS, CLASSES, NOBODY, SELECTED_NODE, VOLUMES, claim, class, users_of, volume},
};

const NAMESPACE: &str = "kube-system";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(crate) fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn kubectl(args: &[&str], kubeconfig: Option<&Path>) -> Output {
    let kubectl = Kubectl::ensure(KubectlVersion::Newest).expect("kubectl can be built");
    let mut command = Command::new(kubectl.path());
    if let Some(kubeconfig) = kubeconfig {
        command.arg("--kubeconfig").arg(kubeconfig);
    }
    command.args(args).output().expect("kubectl runs")
}

fn printed(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn overlay(name: &str) -> String {
    let path = deploy(&format!("kustomize/overlays/{name}"));
    printed(&kubectl(&["kustomize", path.to_str().expect("a path in UTF-8")], None))
}

fn chart(release: &str, values: &str) -> Result<String, String> {
    let helm = Helm::ensure(HelmVersion::Three).expect("Helm can be built");
    helm.render(&deploy("helm/harbormaster"), release, NAMESPACE, values).expect("Helm runs")
}

#[test]
fn unknown_and_invalid_chart_values_are_rejected() {
    for (values, why) in [
        ("replicas: 3", "replicas"),
        ("replicaCount: three", "replicaCount"),
        ("image: {digest: latest}", "digest"),
        ("schedulerName: ''", "schedulerName"),
        ("extraArgs: [v=4]", "extraArgs"),
        ("extraEnv: [{value: x}]", "extraEnv"),
        ("metrics: {serviceMonitor: {interval: often}}", "interval"),
    ] {
        let error = chart("harbormaster", values).expect_err(values);
        assert!(error.contains(why), "{values}: {error}");
    }
}

#[test]
fn the_chart_reflects_its_values() {
    let text = chart(
        "second",
        "{schedulerName: batch, replicaCount: 1, image: {registry: images.example.com, digest: \
         'sha256:0000000000000000000000000000000000000000000000000000000000000000'}, extraArgs: [-v=4], extraEnv: [{name: OTEL_SERVICE_NAME, value: mine}], config: {parallelism: \
         4}, rbac: {extraRules: [{apiGroups: [example.com], resources: [things], verbs: [list]}]}, metrics: \
         {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}, \
         schedulerPlugins: {enabled: true}}",
    )
    .unwrap();
    for part in [
        "image: images.example.com/harbormaster@sha256:0000",
        "schedulerName: batch",
        "parallelism: 4",
        "resourceName: second-harbormaster",
        "- -v=4",
        "- name: OTEL_SERVICE_NAME",
        "- things",
        "kind: ServiceMonitor",
        "alert: HarbormasterHasNoLeader",
        "harbormaster.json: \"{",
        "command: [/usr/local/bin/harbormaster-plugins]",
        "resources: [podgroups]",
        "replicas: 1",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let nothing = chart(
        "second",
        "{serviceAccount: {create: false}, rbac: {create: false}, podDisruptionBudget: {enabled: false}}",
    )
    .unwrap();
    assert!(!nothing.contains("harbormaster-plugins"), "{nothing}");
    for kind in ["ServiceAccount", "ClusterRole", "Role", "PodDisruptionBudget", "ServiceMonitor"] {
        assert!(!nothing.contains(&format!("kind: {kind}\n")), "{kind}:\n{nothing}");
    }
}

/// The user in the kubeconfig that kubeadm writes for the scheduler. The tests also use the name as the user's token.
const STATIC_POD: &str = "system:kube-scheduler";

/// Starts a cluster with RBAC and an audit log.
pub(crate) fn audited_cluster() -> (ControlPlane, tempfile::TempDir) {
    let files = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = files.path().join(name);
        fs::write(&path, text).expect("files can be written");
        path.display().to_string()
    };
    let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
    let tokens = format!("{},admin,admin,system:masters\n{STATIC_POD},{STATIC_POD},1\n", ControlPlane::TOKEN);
    let options = ControlPlaneOptions {
        controller_manager: true,
        apiserver_flags: vec![
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", write("tokens.csv", tokens)),
            format!("--client-ca-file={}", write("clients.crt", certificate())),
            format!("--audit-policy-file={}", write("policy.yaml", rules.to_string())),
            format!("--audit-log-path={}", files.path().join("audit.log").display()),
        ],
        ..ControlPlaneOptions::default()
    };
    (ControlPlane::start(&options).expect("the API server starts"), files)
}

/// Returns the certificate of an authority that issues client certificates. The API server publishes the certificate to
/// schedulers.
fn certificate() -> String {
    let key = rcgen::KeyPair::generate().expect("a key is made");
    rcgen::CertificateParams::default().self_signed(&key).expect("a certificate is made").pem()
}

pub(crate) fn apply(cluster: &Endpoint, files: &Path, manifests: &str) {
    let path = files.join("manifests.yaml");
    fs::write(&path, manifests).expect("files can be written");
    let path = path.to_str().expect("a path in UTF-8");
    printed(&kubectl(&["apply", "-f", path], Some(cluster.kubeconfig())));
}

/// A scheduler started from a manifest, with its secure port.
struct Started {
    process: Harbormaster,
    port: u16,
    /// Spec of the pod.
    spec: Value,
}

/// Starts the scheduler as the Deployment would: with its arguments, its configuration, and the permissions of its
/// service account.
fn start(cluster: &Endpoint, files: &Path, deployment: &str) -> Started {
    let client = cluster.client();
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}");
    let spec = client.get(&path).expect("the API server answers")["spec"]["template"]["spec"].take();
    let account = spec["serviceAccountName"].as_str().expect("a service account");
    let config = spec["volumes"][0]["configMap"]["name"].as_str().expect("a configuration");
    let config = client
        .get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{config}"))
        .expect("the API server answers");
    let folder = files.join("config");
    fs::create_dir_all(&folder).expect("directories can be made");
    fs::write(folder.join("config.yaml"), config["data"]["config.yaml"].as_str().expect("a configuration"))
        .expect("files can be written");

    let kubeconfig = write_kubeconfig(cluster, files, &token(client, NAMESPACE, account));
    let args = strings(&spec["containers"][0]["args"]);
    let mut args: Vec<String> =
        args.iter().map(|arg| arg.replace("/etc/harbormaster", &folder.to_string_lossy())).collect();
    // Inside a cluster, the scheduler needs no flags to find its credentials.
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        args.push(format!("--{flag}={kubeconfig}"));
    }
    start_with(spec, "harbormaster", args, files)
}

/// Starts the scheduler as the kubelet would start the static pod, with the permissions that Kubernetes grants to its
/// user.
fn start_static_pod(cluster: &Endpoint, files: &Path) -> Started {
    let path = deploy("static-pod/kube-scheduler.yaml");
    let path = path.to_str().expect("a path in UTF-8");
    let create = ["create", "--dry-run=client", "--validate=false", "-o", "json", "-f", path];
    let pod = printed(&kubectl(&create, Some(cluster.kubeconfig())));
    let mut pod: Value = serde_json::from_str(&pod).expect("a pod");
    let kubeconfig = write_kubeconfig(cluster, files, STATIC_POD);
    let command = strings(&pod["spec"]["containers"][0]["command"]);
    let (program, args) = command.split_first().expect("a command");
    let args = args.iter().map(|arg| arg.replace("/etc/kubernetes/scheduler.conf", &kubeconfig)).collect();
    start_with(pod["spec"].take(), program, args, files)
}

/// Starts a pod's program on a free port, because other tests may run at the same time.
fn start_with(spec: Value, program: &str, mut args: Vec<String>, files: &Path) -> Started {
    let [port] = free_ports().expect("a port is free");
    args.push(format!("--secure-port={port}"));
    Started { process: Harbormaster::start_as(program, &args, files), port, spec }
}

impl Started {
    /// Asserts that the kubelet's probes succeed.
    fn is_probed(&self) {
        let container = &self.spec["containers"][0];
        let nobody = ApiClient::new(&format!("https://127.0.0.1:{}", self.port), "");
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = &container[probe]["httpGet"];
            let ports = container["ports"].as_array().expect("ports");
            let port = ports.iter().find(|port| port["name"] == get["port"]).expect("the probe's port");
            assert_eq!(port["containerPort"], 10259, "{probe}: the scheduler's default port");
            assert_eq!(get["scheme"], "HTTPS", "{probe}");
            let path = get["path"].as_str().expect("a path");
            eventually(probe, PATIENCE, || nobody.get_text(path).ok().filter(|answer| answer == "ok"));
        }
    }

    /// Asserts that only authorized clients can read metrics.
    fn is_scraped(&self, cluster: &ApiClient) {
        let account = json!({"metadata": {"name": "scraper", "namespace": "default"}});
        cluster.post("/api/v1/namespaces/default/serviceaccounts", &account).expect("an account is created");
        let role = json!({"metadata": {"name": "scraper"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
        cluster.post(&format!("{ROLES}/clusterroles"), &role).expect("a role is created");
        let scrape = |token: &str| {
            ApiClient::new(&format!("https://127.0.0.1:{}", self.port), token).get_text("/metrics")
        };
        let token = token(cluster, "default", "scraper");
        let status = |answer: Result<String, Error>| match answer {
            Err(Error::Refused { status, .. }) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!([status(scrape("")), status(scrape(&token))], [403, 403]);
        let binding = json!({
            "metadata": {"name": "scraper"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
            "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
        });
        cluster.post(&format!("{ROLES}/clusterrolebindings"), &binding).expect("the account gets the role");
        // The scheduler caches a refusal for some seconds.
        let numbers = eventually("metrics", PATIENCE, || scrape(&token).ok());
        assert!(numbers.contains("scheduler_schedule_attempts_total"), "{numbers}");
    }

    /// Asserts that the scheduler holds the lease named `lease` until it exits.
    fn leads_and_ends(self, client: &ApiClient, lease: &str) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}");
        let holder = || client.get(&path).expect("the lease exists")["spec"]["holderIdentity"].take();
        assert_ne!(holder(), "");
        self.process.ends_well();
        assert_eq!(holder(), "");
    }
}

pub(crate) fn token(client: &ApiClient, namespace: &str, account: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = client.post(&path, &request).expect("the API server answers");
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

pub(crate) fn write_kubeconfig(cluster: &Endpoint, files: &Path, token: &str) -> String {
    let kubeconfig = files.join("kubeconfig");
    let admin = fs::read_to_string(cluster.kubeconfig()).expect("a kubeconfig");
    fs::write(&kubeconfig, admin.replace(cluster.token(), token)).expect("files can be written");
    kubeconfig.display().to_string()
}

/// Returns the API calls of the schedulers' accounts that were allowed, or those that were denied, as
/// `verb resource[/subresource]`.
pub(crate) fn calls(files: &Path, allowed: bool) -> BTreeSet<String> {
    let log = fs::read_to_string(files.join("audit.log")).expect("an audit log");
    let calls = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let calls = calls.filter(|call| {
        let user = call["user"]["username"].as_str().unwrap_or_default();
        let is_account =
            user.starts_with("system:serviceaccount:kube-system:") && user.contains("harbormaster");
        let is_ours = is_account || user == STATIC_POD;
        is_ours && (call["responseStatus"]["code"] != 403) == allowed
    });
    let describe = |call: Value| {
        let of = &call["objectRef"];
        let text = |field: &str| of[field].as_str().unwrap_or_default().to_owned();
        match text("subresource").as_str() {
            "" => format!("{} {}", call["verb"].as_str().unwrap_or_default(), text("resource")),
            sub => format!("{} {}/{sub}", call["verb"].as_str().unwrap_or_default(), text("resource")),
        }
    };
    calls.map(describe).collect()
}

/// Creates a device on node `a`, its class, and a claim for it.
fn create_devices(client: &ApiClient) {
    const API: &str = "/apis/resource.k8s.io/v1";
    create_all(client, &format!("{API}/deviceclasses"), &[json!({"metadata": {"name": "gpu"}, "spec": {}})]);
    let pool = json!({"name": "a", "generation": 1, "resourceSliceCount": 1});
    let spec =
        json!({"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": [{"name": "gpu-0"}]});
    create_all(client, &format!("{API}/resourceslices"), &[json!({"metadata": {"name": "a"}, "spec": spec})]);
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let spec = json!({"devices": {"requests": [request]}});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": spec});
    create_all(client, &format!("{API}/namespaces/default/resourceclaims"), &[claim]);
}

/// Creates pods of every kind for the scheduler named `scheduler`, and asserts their outcomes.
fn every_kind_of_pod(client: &ApiClient, scheduler: &str) {
    create_priority_classes(client);
    let nodes = [("a", "x"), ("b", "y")].map(|(name, zone)| {
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        node(name, labels, "4", "8Gi", 20)
    });
    create_all(client, NODES, &nodes);
    create_all(client, CLASSES, &[class("local", NOBODY), class("made", "csi.example.com")]);
    create_all(client, VOLUMES, &[volume("disk", "local", "b", &json!({}))]);
    create_all(client, CLAIMS, &[claim("data", "local"), claim("new", "made")]);
    create_devices(client);
    let labelled = |mut pod: Value, app: &str| {
        pod["metadata"]["labels"] = json!({"app": app});
        pod
    };
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "topology.kubernetes.io/zone"}]}}});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "spread"}}}]});
    let small = json!({"cpu": "100m"});
    create_all(
        client,
        PODS,
        &[
            pod("plain", scheduler, small.clone(), json!({})),
            labelled(pod("apart-1", scheduler, small.clone(), apart.clone()), "apart"),
            labelled(pod("apart-2", scheduler, small.clone(), apart), "apart"),
            labelled(pod("spread-1", scheduler, small.clone(), spread.clone()), "spread"),
            labelled(pod("spread-2", scheduler, small.clone(), spread), "spread"),
            pod("stores", scheduler, small.clone(), json!({"volumes": users_of(&["data"])})),
            pod("has-made", scheduler, small, json!({"volumes": users_of(&["new"])})),
            pod("large", scheduler, json!({"cpu": "100"}), json!({})),
            pod(
                "claims",
                scheduler,
                json!({}),
                json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
            ),
        ],
    );
    for pod in ["plain", "apart-1", "apart-2", "spread-1", "spread-2", "stores", "claims"] {
        wait_until_bound(client, pod);
    }
    // No provisioner creates the volume, but the claim names the selected node.
    eventually("a node for the new volume", PATIENCE, || {
        client.get(&format!("{CLAIMS}/new")).expect("the API server answers")["metadata"]["annotations"]
            [SELECTED_NODE]
            .as_str()
            .map(drop)
    });
    let (_, why) = wait_until_explained(client, "large");
    assert!(why.contains("2 Insufficient cpu"), "{why}");
    // The next two pods fill the nodes, so that the pod after them must evict one.
    let fill = |number: usize| {
        let spec = json!({"terminationGracePeriodSeconds": 0});
        pod(&format!("low-{number}"), scheduler, json!({"cpu": "3"}), spec)
    };
    create_all(client, PODS, &[fill(1), fill(2)]);
    wait_until_bound(client, "low-1");
    wait_until_bound(client, "low-2");
    create_all(
        client,
        PODS,
        &[pod("high", scheduler, json!({"cpu": "3"}), json!({"priorityClassName": "high"}))],
    );
    wait_until_bound(client, "high");
    // A binding that waits for a volume would delay the exit.
    delete_pod(client, "has-made");
    eventually("an event about the binding", PATIENCE, || events(client, "high", "Scheduled").pop());
}

#[test]
fn the_kustomize_deployment_can_schedule_every_kind_of_pod_with_its_permissions() {
    let (cluster, files) = audited_cluster();
    apply(&cluster, files.path(), &overlay("beside"));
    let harbormaster = start(&cluster, files.path(), "harbormaster");
    harbormaster.is_probed();
    every_kind_of_pod(cluster.client(), "harbormaster");
    harbormaster.is_scraped(cluster.client());
    harbormaster.leads_and_ends(cluster.client(), "harbormaster");
    assert_eq!(calls(files.path(), false), BTreeSet::new());
    let used = calls(files.path(), true);
    // The scheduler has used its lease and has read the certificate authorities for clients.
    for call in ["create leases", "get leases", "update leases", "list configmaps", "watch configmaps"] {
        assert!(used.contains(call), "{call}: {used:?}");
    }
    may_write_one_lease(cluster.client(), "harbormaster");
    // Every granted permission is used, except those that this test does not need.
    let unused: BTreeSet<String> =
        granted(cluster.client(), "harbormaster").difference(&used).cloned().collect();
    let expected = [
        // After a conflict, the scheduler checks whether the pod is already bound.
        "get pods",
        // PreBind waits for provisioned volumes.
        "get persistentvolumeclaims",
        "get persistentvolumes",
        // A claim is read again after a conflict.
        "get resourceclaims",
        // The scheduler creates a claim for extended resources that device classes provide.
        "create resourceclaims",
        "delete resourceclaims",
        // The API server checks this permission itself when an allocation is written.
        "patch resourceclaims/binding",
        // This server is Kubernetes 1.36, whose scheduler does not watch them.
        "watch devicetaintrules",
        // Nor pod groups, which need 1.37 and a feature gate.
        "watch podgroups",
        "patch podgroups/status",
        // Repeated events form a series.
        "update events",
        "patch events",
    ];
    // This API server supports streaming lists; others need plain lists.
    let is_expected = |call: &str| expected.contains(&call) || call.starts_with("list ");
    let unexpected: Vec<&String> = unused.iter().filter(|call| !is_expected(call)).collect();
    assert!(unexpected.is_empty(), "granted, but never used: {unexpected:?}");
}

#[test]
fn the_helm_release_that_replaces_kube_scheduler_can_schedule_every_kind_of_pod() {
    let (cluster, files) = audited_cluster();
    let values = "{schedulerName: default-scheduler, leaderElection: {resourceName: kube-scheduler, resourceNamespace: \
                  kube-system}}";
    apply(&cluster, files.path(), &chart("harbormaster", values).unwrap());
    let harbormaster = start(&cluster, files.path(), "harbormaster");
    harbormaster.is_probed();
    every_kind_of_pod(cluster.client(), "default-scheduler");
    harbormaster.leads_and_ends(cluster.client(), "kube-scheduler");
    assert_eq!(calls(files.path(), false), BTreeSet::new());
    may_write_one_lease(cluster.client(), "kube-scheduler");
}

#[test]
fn the_static_pod_can_schedule_every_kind_of_pod_with_kube_schedulers_permissions() {
    let (cluster, files) = audited_cluster();
    let harbormaster = start_static_pod(&cluster, files.path());
    harbormaster.is_probed();
    every_kind_of_pod(cluster.client(), "default-scheduler");
    harbormaster.leads_and_ends(cluster.client(), "kube-scheduler");
    assert_eq!(calls(files.path(), false), BTreeSet::new());
    assert!(calls(files.path(), true).contains("watch configmaps"));
}

/// Asserts that, of three leases, the account may get and update only the one named `lease`, and may patch or delete
/// none.
fn may_write_one_lease(client: &ApiClient, lease: &str) {
    let may = |verb: &str, name: &str| {
        let attributes = json!({
            "namespace": NAMESPACE, "verb": verb, "group": "coordination.k8s.io", "resource": "leases", "name": name,
        });
        let user = format!("system:serviceaccount:{NAMESPACE}:harbormaster");
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let answer = client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
        answer.expect("the API server answers")["status"]["allowed"] == true
    };
    for name in ["harbormaster", "kube-scheduler", "kube-controller-manager"] {
        let allowed = ["get", "update", "patch", "delete"].map(|verb| may(verb, name));
        let own = name == lease;
        assert_eq!(allowed, [own, own, false, false], "{name}");
    }
}

#[test]
fn overlays_and_chart_grant_the_same_permissions() {
    let (cluster, files) = audited_cluster();
    let client = cluster.client();
    apply(&cluster, files.path(), &overlay("beside"));
    let beside = (granted(client, "harbormaster"), lease_rights(client));
    let deployment = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/harbormaster");
    // The selector of a Deployment cannot be changed.
    client.delete(&deployment).unwrap();
    apply(&cluster, files.path(), &chart("harbormaster", "").unwrap());
    assert_eq!((granted(client, "harbormaster"), lease_rights(client)), beside);
    client.delete(&deployment).unwrap();
    apply(&cluster, files.path(), &overlay("replace"));
    assert_eq!(granted(client, "harbormaster"), beside.0);
    let lease: BTreeSet<String> =
        beside.1.iter().map(|right| right.replace("harbormaster", "kube-scheduler")).collect();
    assert_eq!(lease_rights(client), lease);
}

/// Returns the permissions of a ClusterRole, as `verb resource`.
fn granted(client: &ApiClient, role: &str) -> BTreeSet<String> {
    let role = client.get(&format!("{ROLES}/clusterroles/{role}")).expect("the API server answers");
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().flat_map(|rule| pairs(&rule["verbs"], &rule["resources"])).collect()
}

/// Returns the permissions of the lease's Role, as `verb name`.
fn lease_rights(client: &ApiClient) -> BTreeSet<String> {
    let roles = list(client, &format!("{ROLES}/namespaces/{NAMESPACE}/roles"));
    let role = roles.iter().find(|role| role["metadata"]["name"] == "harbormaster").expect("a role");
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().flat_map(|rule| pairs(&rule["verbs"], &rule["resourceNames"])).collect()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}

fn pairs(verbs: &Value, others: &Value) -> Vec<String> {
    let others = strings(others);
    strings(verbs).iter().flat_map(|verb| others.iter().map(move |other| format!("{verb} {other}"))).collect()
}
