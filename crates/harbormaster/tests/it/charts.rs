//! Installs, upgrades and uninstalls the charts in `examples/charts` in the sandbox, and drains nodes on which their
//! pods run, with the real helm and kubectl.

#![cfg(unix)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{Helm, HelmVersion, Kubectl, KubectlVersion};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const KUBECONFIG: &str = "harbormaster-sandbox.kubeconfig";
/// Number of nodes: three in each zone, so that the pod of a zonal volume can move to another node of the zone.
const NODES: usize = 9;
/// The default storage class.
const CLASS: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: 'true'}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
";

/// Expected objects of a chart.
struct Chart {
    name: &'static str,
    /// Number of pods of the chart's workloads other than DaemonSets.
    pods: usize,
    daemons: usize,
    /// Number of bound claims.
    claims: usize,
    /// Values that the upgrade sets in addition to the image tag, and the number of pods after the upgrade.
    upgrade: (&'static str, usize),
    /// Kinds of objects that remain after the release is uninstalled.
    kept: &'static [&'static str],
}

const CHARTS: &[Chart] = &[
    Chart { pods: 3, claims: 3, upgrade: ("replicaCount=4", 4), ..nothing("database") },
    Chart { pods: 2, claims: 2, upgrade: ("replica.autoscaling.enabled=false", 3), ..nothing("cache") },
    Chart { pods: 3, claims: 3, upgrade: ("topics[0]=refunds", 3), ..nothing("broker") },
    Chart { pods: 1, upgrade: ("controller.autoscaling.enabled=false", 2), ..nothing("ingress-controller") },
    Chart { pods: 2, daemons: NODES, upgrade: ("retention=30d", 2), ..nothing("monitoring") },
    Chart {
        pods: 3,
        upgrade: ("replicaCount=2", 6),
        kept: &["customresourcedefinition"],
        ..nothing("certificates")
    },
    Chart {
        pods: 3,
        claims: 2,
        upgrade: ("replicaCount=3", 4),
        kept: &["persistentvolumeclaim"],
        ..nothing("web")
    },
    Chart { pods: 6, upgrade: ("server.replicas=1", 5), ..nothing("gitops") },
    Chart { pods: 4, claims: 3, upgrade: ("workers.replicas=2", 3), ..nothing("workflow") },
    Chart { pods: 2, daemons: NODES, upgrade: ("storageClass.name=faster", 2), ..nothing("storage-driver") },
];

const fn nothing(name: &'static str) -> Chart {
    Chart { name, pods: 0, daemons: 0, claims: 0, upgrade: ("", 0), kept: &[] }
}

/// A serving sandbox and its clients.
struct Sandbox {
    child: Child,
    directory: tempfile::TempDir,
    kubectl: Kubectl,
    helm: Helm,
}

impl Sandbox {
    fn start(helm: HelmVersion) -> Self {
        let kubectl = Kubectl::ensure(KubectlVersion::Newest).expect("kubectl can be built");
        let helm = Helm::ensure(helm).expect("helm can be built");
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("class.yaml"), CLASS).expect("files can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_harbormaster"))
            .args(["sandbox", "--serve", "-f", "class.yaml", "--nodes", &NODES.to_string()])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let sandbox = Self { child, directory, kubectl, helm };
        eventually("the kubeconfig exists", || sandbox.directory.path().join(KUBECONFIG).exists());
        sandbox
    }

    fn output(&self, program: &Path, command: &str, input: &str) -> Output {
        let mut child = Command::new(program)
            .args(command.split(' '))
            .current_dir(self.directory.path())
            .env("KUBECONFIG", KUBECONFIG)
            .env("HOME", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // The write fails if the program reads no input and has already exited.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("the program ends")
    }

    fn run(&self, program: &Path, command: &str, input: &str) -> String {
        let output = self.output(program, command, input);
        let (out, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}: {out}\n{told}");
        out
    }

    fn kubectl(&self, command: &str) -> String {
        self.run(self.kubectl.path(), command, "")
    }

    fn helm(&self, command: &str) -> String {
        self.run(self.helm.path(), command, "")
    }

    fn items(&self, command: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.kubectl(command)).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns a release's pods, which must all be ready: first those of Deployments and StatefulSets, then those of
    /// DaemonSets. Ignores pods of jobs and pods that are being deleted.
    fn pods(&self, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let mut pods = self.items(&format!("get pods -n {namespace} -o json"));
        pods.retain(|pod| {
            let owner = &pod["metadata"]["ownerReferences"][0]["kind"];
            pod["metadata"]["deletionTimestamp"].is_null()
                && (owner == "ReplicaSet" || owner == "StatefulSet" || owner == "DaemonSet")
        });
        for pod in &pods {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            assert!(is_ready, "{} is not ready", pod["metadata"]["name"]);
        }
        pods.into_iter().partition(|pod| pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet")
    }

    fn wait_until_rolled_out(&self, namespace: &str) {
        for workload in self.kubectl(&format!("get deploy,sts,ds -n {namespace} -o name")).lines() {
            self.kubectl(&format!("rollout status {workload} -n {namespace} --timeout=60s"));
        }
    }

    /// Returns those objects of a manifest that exist, as `kind.group/name`.
    fn there(&self, manifest: &str, namespace: &str) -> BTreeSet<String> {
        let command = format!("get -f - -n {namespace} --ignore-not-found -o name");
        self.run(self.kubectl.path(), &command, manifest).lines().map(str::to_owned).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_true() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(50));
    }
}

fn path_of(chart: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/charts").join(chart)
}

/// Installs a chart, upgrades it, drains a node on which its pods run, and uninstalls it.
fn live(sandbox: &Sandbox, chart: &Chart) {
    let Chart { name, pods, daemons, claims, upgrade: (change, then), kept } = chart;
    let place = format!("{name} {} -n {name}", path_of(name).display());
    sandbox.helm(&format!("install {place} --create-namespace --wait --timeout 60s"));
    let manifest = sandbox.helm(&format!("get manifest {name} -n {name}"));
    let documents = manifest.matches("\nkind: ").count();
    assert_eq!(sandbox.there(&manifest, name).len(), documents, "{name}: objects of the manifest that exist");
    let running = sandbox.pods(name);
    assert_eq!((running.0.len(), running.1.len()), (*pods, *daemons), "{name}: pods and daemons");
    let bound = sandbox.items(&format!("get pvc -n {name} -o json"));
    assert_eq!(
        bound.iter().filter(|claim| claim["status"]["phase"] == "Bound").count(),
        *claims,
        "{name}: claims"
    );

    sandbox.helm(&format!("upgrade {place} --set image.tag=new,{change} --wait --timeout 60s"));
    sandbox.wait_until_rolled_out(name);
    let (running, _) = sandbox.pods(name);
    assert_eq!(running.len(), *then, "{name}: pods after the upgrade");
    let is_new = |pod: &Value| {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        containers.filter_map(|container| container["image"].as_str()).any(|image| image.ends_with(":new"))
    };
    assert!(running.iter().any(is_new), "{name}: no pod has the new image");
    let history = sandbox.helm(&format!("history {name} -n {name}"));
    assert!(history.contains("superseded") && history.contains("deployed"), "{history}");

    let node = running[0]["spec"]["nodeName"].as_str().expect("a node").to_owned();
    sandbox.kubectl(&format!("drain {node} --ignore-daemonsets --delete-emptydir-data --timeout=60s"));
    eventually(&format!("{name}: only pods of DaemonSets are on the drained node"), || {
        let left = sandbox.items(&format!("get pods -A --field-selector spec.nodeName={node} -o json"));
        left.iter().all(|pod| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet")
    });
    sandbox.wait_until_rolled_out(name);
    assert_eq!(sandbox.pods(name).0.len(), *then, "{name}: pods after the drain");
    sandbox.kubectl(&format!("uncordon {node}"));

    let manifest = sandbox.helm(&format!("get manifest {name} -n {name}"));
    sandbox.helm(&format!("uninstall {name} -n {name} --wait --timeout 60s"));
    let left = sandbox.there(&manifest, name);
    let unwanted: Vec<&String> =
        left.iter().filter(|left| !kept.iter().any(|kind| left.starts_with(kind))).collect();
    assert!(unwanted.is_empty(), "{name}: left behind: {unwanted:?}");
    assert_eq!(
        left.is_empty(),
        kept.is_empty(),
        "{name}: {left:?} remain, but objects of these kinds should: {kept:?}"
    );
    assert_eq!(sandbox.helm(&format!("list -n {name} -q")), "", "{name}: the release is listed");
    let secrets = sandbox.kubectl(&format!("get secrets -n {name} -l owner=helm -o name"));
    assert_eq!(secrets, "", "{name}: secrets of releases are left behind");
    eventually(&format!("{name}: only pods of hooks are left"), || {
        let pods = sandbox.items(&format!("get pods -n {name} -o json"));
        pods.iter().all(|pod| pod["metadata"]["ownerReferences"][0]["kind"] == "Job")
    });
    sandbox.kubectl(&format!("delete namespace {name} --timeout=60s"));
}

fn all_live(version: HelmVersion) {
    let sandbox = Sandbox::start(version);
    for chart in CHARTS {
        live(&sandbox, chart);
    }
}

#[test]
fn ten_charts_work_with_helm_4() {
    all_live(HelmVersion::Four);
}

#[test]
fn ten_charts_work_with_helm_3() {
    all_live(HelmVersion::Three);
}

#[test]
fn all_charts_are_tested() {
    let folders = fs::read_dir(path_of("")).expect("a folder").flatten();
    let folders: BTreeSet<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let tried: BTreeSet<String> = CHARTS.iter().map(|chart| chart.name.to_owned()).collect();
    assert_eq!(folders, tried);
    assert_eq!(tried.len(), 10);
}

fn tests_rollbacks_and_passwords(version: HelmVersion) {
    let sandbox = Sandbox::start(version);
    let place = format!("db {} -n data", path_of("database").display());
    let password = || sandbox.kubectl("get secret db-database -n data -o jsonpath={.data.password}");
    sandbox.helm(&format!("install {place} --create-namespace --wait --timeout 60s"));
    let first = password();
    let tested = sandbox.helm("test db -n data --timeout 60s");
    assert!(tested.contains("Succeeded"), "{tested}");
    sandbox.helm(&format!("upgrade {place} --set replicaCount=2 --wait --timeout 60s"));
    assert_eq!((sandbox.pods("data").0.len(), password()), (2, first.clone()));
    // The hook's job is deleted on success.
    assert_eq!(sandbox.kubectl("get jobs -n data -o name"), "");
    sandbox.helm("rollback db 1 -n data --wait --timeout 60s");
    assert_eq!((sandbox.pods("data").0.len(), password()), (3, first));
    // If a pod does not fit, helm reports it after its timeout.
    let output = sandbox.output(
        sandbox.helm.path(),
        &format!("upgrade {place} --set resources.requests.cpu=900 --wait --timeout 4s"),
        "",
    );
    assert!(!output.status.success(), "{}", text(&output.stdout));
    let failed = sandbox.helm("status db -n data");
    assert!(failed.contains("STATUS: failed"), "{failed}");
}

#[test]
fn helm_4_runs_the_tests_of_a_chart_and_rolls_back_without_changing_passwords() {
    tests_rollbacks_and_passwords(HelmVersion::Four);
}

#[test]
fn helm_3_runs_the_tests_of_a_chart_and_rolls_back_without_changing_passwords() {
    tests_rollbacks_and_passwords(HelmVersion::Three);
}
