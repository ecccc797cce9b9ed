//! Flags compared with the real kube-scheduler: messages and exit codes for invalid values are identical. The program
//! also starts with kubeadm's arguments when it is called `kube-scheduler`.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use harbormaster_api::Release;
use harbormaster_oracle::{
    components::{RealBinary, free_ports},
    process::terminate,
};
use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, eventually, wait_until_bound},
    objects::{NODES, PODS, node, pod},
    server::Server,
};

/// A process that is killed on drop.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::create(log).expect("the log can be written");
        let command = command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be shared"));
        Self(command.stderr(log).spawn().expect("the program runs"))
    }

    fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().expect("the process can be polled") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the process does not exit");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that runs the built program under the name `kube-scheduler`.
fn under_the_name_of_kube_scheduler(directory: &Path) -> Command {
    let link = directory.join("kube-scheduler");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_harbormaster"), &link).expect("a link can be made");
    }
    Command::new(link)
}

/// Returns the error with which a program exited, without the prefix of a log line.
fn reason(log: &str) -> String {
    let says = |line: &&str| line.starts_with("Error: ") || line.contains("\"command failed\" err=");
    let last = || log.lines().rfind(|line| !line.is_empty());
    let line = log.lines().find(says).or_else(last).unwrap_or_default();
    match line.split_once("\"command failed\" err=") {
        Some((_, quoted)) => serde_json::from_str(quoted).expect("a text in quotes"),
        None => line.trim_start_matches("Error: ").to_owned(),
    }
}

#[test]
fn invalid_values_give_the_same_message_and_exit_code() {
    fail_alike(Release::V1_36);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn invalid_values_give_the_same_message_and_exit_code_in_1_37() {
    fail_alike(Release::V1_37);
}

fn fail_alike(release: Release) {
    let real = RealBinary::ensure(release).expect("the real kube-scheduler");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let map = directory.path().join("map.yaml");
    fs::write(&map, "\"a\": \"c\"\n").expect("the file is written");
    let manifest = format!("--allow-metric-labels-manifest={}", map.display());
    for args in [
        &["--contention-profiling=x"][..],
        &["--emulated-version=1.0"],
        &["--emulated-version=x"],
        &["--emulated-version=1"],
        &["--emulated-version=1.35.2"],
        &["--emulated-version=foo=1.35"],
        &["--emulated-version=1.38"],
        &["--emulated-version=1.35,kube=1.35"],
        &["--emulated-version=1.34", "--feature-gates=GangScheduling=true"],
        &["--emulated-version=1.33", "--min-compatibility-version=1.35"],
        &["--min-compatibility-version=1.20"],
        &["--show-hidden-metrics-for-version=1.30"],
        &["--disabled-metrics=x,a-b"],
        &["--allow-metric-labels=x"],
        &["--allow-metric-labels=a=b", "--disabled-metrics=a-b"],
        &["--allow-metric-labels-manifest=/nope"],
        &[&manifest],
        &["--log-text-info-buffer-size=x"],
        &["--log-text-split-stream=x"],
        &["--log-text-split-stream", "--log-json-info-buffer-size=1Ki"],
        &["--logging-format=x"],
        &["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
        &["--feature-gates=SchedulerQueueingHints=false"],
        &["--nonsense"],
    ] {
        let is_version = |arg: &&str| arg.starts_with("--emulated-version");
        // Harbormaster reproduces 1.36 if an older version is emulated.
        let is_older = |arg: &&str| matches!(*arg, "--emulated-version=1.33" | "--emulated-version=1.34");
        if release != Release::V1_36 && args.iter().any(is_older) {
            continue;
        }
        let version =
            (!args.iter().any(is_version)).then(|| format!("--emulated-version=1.{}", release.minor()));
        let run = |command: &mut Command, log: &str| {
            let log = directory.path().join(log);
            let code = Process::start(command.args(args).args(&version), &log).end();
            (code, reason(&fs::read_to_string(log).expect("the log can be read")))
        };
        let theirs = run(Command::new(real.path()).arg("kube-scheduler"), "theirs");
        let mut ours = run(&mut under_the_name_of_kube_scheduler(directory.path()), "ours");
        // Harbormaster can emulate older and newer versions than this kube-scheduler.
        let minor = release.minor();
        ours.1 = ours.1.replace("1.37.0]", &format!("1.{minor}.0]"));
        ours.1 = ours.1.replace("1.33", &format!("1.{}", minor - 3));
        // Harbormaster suggests a similar gate.
        if let Some((text, _)) = ours.1.split_once(" (did you mean `") {
            ours.1 = text.to_owned();
        }
        assert_eq!(ours, theirs, "{args:?}");
        assert_eq!(ours.0, Some(1), "{args:?}");
    }
}

#[test]
fn kubeadms_arguments_work_under_the_name_kube_scheduler() {
    let cluster = Server::Embedded.own();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kubeconfig = cluster.kubeconfig().display();
    let [port] = free_ports().expect("a port is free");
    let mut command = under_the_name_of_kube_scheduler(directory.path());
    // The arguments are all of kubeadm's flags, and a free port.
    command
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg("--leader-elect=true")
        .arg(format!("--secure-port={port}"));
    let log = directory.path().join("log");
    let mut process = Process::start(&mut command, &log);
    cluster.client().post(NODES, &node("n1", json!({}), "4", "8Gi", 20)).expect("the node is created");
    let scheduler = "default-scheduler";
    cluster
        .client()
        .post(PODS, &pod("p", scheduler, json!({"cpu": "1"}), json!({})))
        .expect("the pod is created");
    assert_eq!(wait_until_bound(cluster.client(), "p"), "n1");
    assert!(terminate(process.0.id()).expect("kill runs"));
    assert_eq!(process.end(), Some(0));
    let log = eventually("the log", PATIENCE, || fs::read_to_string(&log).ok());
    assert!(!log.contains("panicked") && !log.contains("flags="), "{log}");
}
