//! Output of `harbormaster sandbox` without a terminal.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};

const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {nodeSelector: {kubernetes.io/hostname: node-2}, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 64}}}]}
";

fn sandbox(directory: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    command.arg("sandbox").current_dir(directory);
    command
}

#[test]
fn every_pod_has_a_line_with_its_node_or_the_reason_that_it_has_none() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("pods.yaml"), MANIFEST).expect("the manifest can be written");
    let output = sandbox(directory.path())
        .args(["--nodes", "3", "-f", "pods.yaml"])
        .output()
        .expect("the binary runs");
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    let mut lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.pop(), Some("2 pods: 1 placed, 1 unschedulable, 0 gated"), "{printed}");
    lines.retain(|line| !line.is_empty());
    lines.sort_unstable();
    let huge = "pod default/huge: 0/3 nodes are available: 3 Insufficient cpu. preemption: \
                0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(lines, ["pod default/small -> node-2", huge].into_iter().rev().collect::<Vec<_>>(), "{told}");
    assert!(!directory.path().join("harbormaster-sandbox.kubeconfig").exists());
}

#[cfg(unix)]
#[test]
fn the_sandbox_serves_until_it_is_interrupted_and_then_prints_a_summary() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = sandbox(directory.path())
        .args(["--nodes", "1", "--serve"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut lines = String::new();
    while !lines.contains("export KUBECONFIG=") {
        assert_ne!(out.read_line(&mut lines).expect("the output is UTF-8"), 0, "{lines}");
    }
    let config = fs::read_to_string(directory.path().join("harbormaster-sandbox.kubeconfig"));
    assert!(config.expect("a kubeconfig is written").contains("server: https://127.0.0.1:"));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("signals can be sent").success());
    out.read_to_string(&mut lines).expect("the output is UTF-8");
    assert!(lines.ends_with("0 pods: 0 placed, 0 unschedulable, 0 gated\n"), "{lines}");
    assert!(child.wait().expect("the sandbox ends").success());
    assert!(
        !directory.path().join("harbormaster-sandbox.kubeconfig").exists(),
        "the sandbox removes its file"
    );
}

/// Runs a sandbox with a manifest, and returns its standard output and standard error.
fn played(manifest: &str, args: &[&str]) -> (String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("m.yaml"), manifest).expect("the manifest can be written");
    let output =
        sandbox(directory.path()).args(["-f", "m.yaml"]).args(args).output().expect("the binary runs");
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    (printed.into_owned(), told.into_owned())
}

#[test]
fn pods_that_are_not_tried_have_a_line_too() {
    let manifest = "
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign}
spec: {schedulerName: other, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: there}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
";
    let (printed, told) = played(manifest, &["--nodes", "1"]);
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 4, "{printed}");
    assert_eq!(lines[0], "pod default/foreign: no profile has the scheduler name \"other\"");
    assert!(lines[1].starts_with("pod default/gated: "), "{printed}");
    assert_eq!(lines[2], "pod default/there -> node-1");
    assert_eq!(lines[3], "3 pods: 1 placed, 0 unschedulable, 1 gated, 1 of other schedulers");
    assert_eq!(told, "", "nothing is written to stderr");
}

#[test]
fn kinds_without_effect_are_reported_once() {
    let quota = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}}}\nspec: {{hard: {{pods: 1}}}}\n"
        )
    };
    let manifest = [quota("a"), quota("b")].concat();
    let (_, told) = played(&manifest, &["--nodes", "1"]);
    assert_eq!(
        told.matches("note: ResourceQuotas are stored and shown, but limit nothing").count(),
        1,
        "{told}"
    );
}

#[test]
fn the_log_contains_at_each_level_what_the_help_describes() {
    let rejected = "] \"Pod rejected by plugin\" pod=\"default/huge\" plugin=\"NodeResourcesFit\" reason=\"Insufficient cpu\" nodes=2";
    let new = "] \"Pod moved to an internal scheduling queue\" pod=\"default/huge\" event=\"UnscheduledPodAdd\" from=\"New\" \
               queue=\"Active\"";
    let failed = "] \"Pod moved to an internal scheduling queue\" pod=\"default/huge\" event=\"ScheduleAttemptFailure\" \
                  from=\"InFlight\" queue=\"Unschedulable\"";
    let scored = "] \"Plugin scored node for pod\" pod=\"default/free\" plugin=\"TaintToleration\" node=\"node-1\" score=300";
    let total = "] \"Calculated node's final score for pod\" pod=\"default/free\" node=\"node-2\" score=";
    let lines = [(4, rejected), (5, new), (5, failed), (10, scored), (10, total)];
    let manifest = MANIFEST
        .replace("name: small", "name: free")
        .replace("nodeSelector: {kubernetes.io/hostname: node-2}, ", "");
    for verbosity in [3, 4, 5, 10] {
        let (_, told) = played(&manifest, &["--nodes", "2", &format!("-v{verbosity}")]);
        for (level, line) in lines {
            assert_eq!(told.contains(line), verbosity >= level, "-v{verbosity}: {line}\n{told}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_kubeconfig_that_is_in_use_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let serve = || {
        let mut command = sandbox(directory.path());
        command.args(["--nodes", "1", "--serve"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut first = serve().spawn().expect("the binary runs");
    let mut out = BufReader::new(first.stdout.take().expect("the output is a pipe"));
    let mut lines = String::new();
    while !lines.contains("export KUBECONFIG=") {
        assert_ne!(out.read_line(&mut lines).expect("the output is UTF-8"), 0, "{lines}");
    }
    let path = directory.path().join("harbormaster-sandbox.kubeconfig");
    let before = fs::read_to_string(&path).expect("a kubeconfig is written");
    let second = serve().output().expect("the binary runs");
    let told = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains("error: harbormaster-sandbox.kubeconfig is used by another sandbox"), "{told}");
    assert!(told.contains("--kubeconfig-out"), "{told}");
    assert_eq!(fs::read_to_string(&path).expect("the kubeconfig still exists"), before);
    let ended = Command::new("kill").args(["-TERM", &first.id().to_string()]).status();
    assert!(ended.expect("signals can be sent").success());
    assert!(first.wait().expect("the sandbox ends").success());
    assert!(!path.exists());
}

#[test]
fn the_exit_code_can_report_unschedulable_pods() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("pods.yaml"), MANIFEST).expect("the manifest can be written");
    let code = |args: &[&str]| {
        let output = sandbox(directory.path()).args(["--nodes", "3", "-f", "pods.yaml"]).args(args).output();
        output.expect("the binary runs").status.code()
    };
    assert_eq!(code(&["--exit-code"]), Some(2));
    fs::write(directory.path().join("pods.yaml"), MANIFEST.replace("cpu: 64", "cpu: 1")).expect("written");
    assert_eq!(code(&["--exit-code"]), Some(0));
}

#[cfg(unix)]
#[test]
fn a_cluster_can_be_dumped_for_a_simulation() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |file: &str| directory.path().join(file);
    let manifest = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: standard, resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: hunter2}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, commit: '1234e567'}}
    spec:
      containers: [{name: c, image: i, env: [{name: TOKEN, value: hunter2}], resources: {requests: {cpu: 64}}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";
    fs::write(at("m.yaml"), manifest).expect("the manifest can be written");
    let node = "
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: 100, memory: 1Gi, pods: 9}}
";
    fs::write(at("node.yaml"), node).expect("the manifest can be written");
    let mut child = sandbox(directory.path())
        .args(["--nodes", "2", "--serve", "-f", "m.yaml"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut lines = String::new();
    while lines.matches("pod default/web").count() < 3 {
        assert_ne!(out.read_line(&mut lines).expect("the output is UTF-8"), 0, "{lines}");
    }
    let harbormaster = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        let output = command.args(args).current_dir(directory.path()).output().expect("the binary runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), told)
    };
    let (dump, told) = harbormaster(&["dump", "--kubeconfig", "harbormaster-sandbox.kubeconfig"]);
    assert_eq!(told, "");
    let kubeconfig = ["--kubeconfig", "harbormaster-sandbox.kubeconfig"];
    let (live, told) = harbormaster(&[&["simulate", "-o", "json"], &kubeconfig[..]].concat());
    assert_eq!(told, "", "the cluster can be asked without a file in between");
    let (more, _) = harbormaster(&[&["simulate", "-f", "node.yaml"], &kubeconfig[..]].concat());
    assert!(more.ends_with("3 pods: 1 placed, 2 unschedulable, 0 gated\n"), "a manifest adds a node: {more}");
    harbormaster(&[&["snapshot", "-o", "dump.yaml.zst"], &kubeconfig[..]].concat());
    harbormaster(&[&["dump", "--anonymise", "-o", "hidden.yaml"], &kubeconfig[..]].concat());
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("signals can be sent").success());
    child.wait().expect("the sandbox ends");
    for kind in ["Node", "Pod", "PersistentVolumeClaim", "StorageClass", "PodDisruptionBudget", "ReplicaSet"]
    {
        assert!(dump.contains(&format!("\nkind: {kind}\n")), "{kind}\n{dump}");
    }
    assert!(!dump.contains("hunter2") && dump.contains("commit: 1234e567\n"), "{dump}");
    fs::write(at("dump.yaml"), dump).expect("the dump can be written");
    let (table, told) = harbormaster(&["simulate", "-f", "dump.yaml"]);
    assert_eq!(told, "");
    assert!(table.ends_with("3 pods: 0 placed, 3 unschedulable, 0 gated\n"), "{table}");
    assert_eq!(harbormaster(&["simulate", "-o", "json", "-f", "dump.yaml.zst"]).0, live);
    let hidden = fs::read_to_string(at("hidden.yaml")).expect("the dump is text");
    for name in ["web", "1234e567", "standard", "commit"] {
        assert!(!hidden.contains(name), "{name}\n{hidden}");
    }
    let (hidden, told) = harbormaster(&["simulate", "-o", "json", "-f", "hidden.yaml"]);
    assert_eq!(told, "", "nothing is missing");
    let told = |json: &str| {
        let told: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let pods = told["pods"].as_array().expect("pods").iter();
        let facts =
            |pod: &serde_json::Value| ["state", "fits", "evaluated", "message"].map(|fact| pod[fact].clone());
        (told["totals"].clone(), pods.map(facts).collect::<Vec<_>>())
    };
    assert_eq!(told(&hidden), told(&live));
}

#[test]
fn claims_of_pods_get_devices() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/devices/devices.yaml");
    let (printed, told) = played(&fs::read_to_string(path).expect("the example exists"), &[]);
    let on = |pod: &str, node: &str| {
        let line = |line: &&str| line.starts_with(pod) && line.ends_with(&format!("-> {node}"));
        printed.lines().filter(line).count()
    };
    let (trainer, notebook) = ("pod training/trainer-", "pod training/notebook-");
    let counts = [on(trainer, "gpu-1"), on(trainer, "gpu-2"), on(trainer, "gpu-3"), on(notebook, "gpu-3")];
    assert_eq!(counts, [2, 2, 0, 2], "{printed}");
    assert!(printed.contains("3 cannot allocate all claims"), "{printed}");
    assert!(printed.contains("7 pods: 6 placed, 1 unschedulable, 0 gated"), "{printed}");
    assert_eq!(told, "", "nothing is written to stderr");
}
