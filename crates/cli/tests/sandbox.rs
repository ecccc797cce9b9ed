//! What `harbormaster sandbox` prints where nobody watches a terminal.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
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
fn every_pod_is_a_line_with_its_node_or_the_reason_why_it_has_none() {
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
    let huge = "pod default/huge: 0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: \
                0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    assert_eq!(lines, ["pod default/small -> node-2", huge].into_iter().rev().collect::<Vec<_>>(), "{told}");
    assert!(!directory.path().join("harbormaster-sandbox.kubeconfig").exists());
}

#[cfg(unix)]
#[test]
fn it_serves_until_it_is_interrupted_and_then_sums_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = sandbox(directory.path())
        .args(["--nodes", "1", "--serve"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("its output is read"));
    let mut lines = String::new();
    while !lines.contains("export KUBECONFIG=") {
        assert_ne!(out.read_line(&mut lines).expect("lines are texts"), 0, "{lines}");
    }
    let config = fs::read_to_string(directory.path().join("harbormaster-sandbox.kubeconfig"));
    assert!(config.expect("a kubeconfig is written").contains("server: https://127.0.0.1:"));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("signals can be sent").success());
    out.read_to_string(&mut lines).expect("lines are texts");
    assert!(lines.ends_with("0 pods: 0 placed, 0 unschedulable, 0 gated\n"), "{lines}");
    assert!(child.wait().expect("it ends").success());
}
