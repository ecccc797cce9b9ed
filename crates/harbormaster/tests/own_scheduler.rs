//! `examples/own-scheduler`, a scheduler that somebody else makes: its own tests pass, and its program is one of ours
//! with a plugin more.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    time::Duration,
};

use harbormaster_oracle::harbormaster::cargo;
use harbormaster_sandbox::{Options, PodState, Sandbox, Scheduler, Source};

const CONFIG: &str = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {filter: {enabled: [{name: TeamNodes}]}}
  pluginConfig:
  - name: TeamNodes
    args: {teams: {red: [paint]}}
";

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: red-1, labels: {example.com/team: red}}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs, namespace: default}
spec: {containers: [{name: c, image: i}]}
";

const WHY: &str = "1 node(s) belong to another team";

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Builds the example and runs its tests; gives its program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let example = workspace().join("examples/own-scheduler");
        // With the workspace's versions nothing is fetched, and what other tests have built need not be built again.
        fs::copy(workspace().join("Cargo.lock"), example.join("Cargo.lock")).unwrap();
        let target = Path::new(env!("CARGO_BIN_EXE_harbormaster")).parent().unwrap();
        let mut cargo = cargo();
        cargo.args(["test", "--offline"]).current_dir(&example);
        cargo.env("CARGO_TARGET_DIR", target.parent().unwrap());
        // As in the workspace, whose profiles do not reach the example.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let tested = cargo.output().unwrap();
        assert!(
            tested.status.success(),
            "`cargo test --offline` in examples/own-scheduler fails; if crates are missing, `cargo fetch` there gets \
             them:\n{}{}",
            text(&tested.stdout),
            text(&tested.stderr)
        );
        target.join(format!("own-scheduler{}", env::consts::EXE_SUFFIX))
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with the configuration and the cluster, for one test.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("scheduler.yaml"), CONFIG).unwrap();
    fs::write(directory.path().join("cluster.yaml"), CLUSTER).unwrap();
    directory
}

fn run(directory: &Path, args: &[&str]) -> Output {
    Command::new(program()).args(args).current_dir(directory).output().unwrap()
}

#[test]
fn help_and_version_name_the_program() {
    let files = files();
    let help = text(&run(files.path(), &["--help"]).stdout);
    assert!(help.contains("Usage: own-scheduler <COMMAND>"), "{help}");
    let version = text(&run(files.path(), &["run", "--version"]).stdout);
    assert!(version.starts_with("own-scheduler (harbormaster v"), "{version}");
    let wrong = text(&run(files.path(), &["run", "--nonsense"]).stderr);
    assert!(wrong.contains("See 'own-scheduler run --help'"), "{wrong}");
}

#[test]
fn simulate_and_sandbox_ask_the_plugin() {
    let files = files();
    for command in ["simulate", "sandbox"] {
        let ran = run(files.path(), &[command, "--config", "scheduler.yaml", "-f", "cluster.yaml"]);
        assert!(ran.status.success() && text(&ran.stdout).contains(WHY), "{command}: {ran:?}");
    }
    fs::write(files.path().join("scheduler.yaml"), CONFIG.replace("teams", "team")).unwrap();
    let wrong = run(files.path(), &["simulate", "--config", "scheduler.yaml", "-f", "cluster.yaml"]);
    let expected = "error: scheduler.yaml:7:12: profiles[0].pluginConfig[0].args.team: unknown field `team`, expected \
                    `nodeLabel` or `teams` (did you mean `teams`?)\n";
    assert_eq!((wrong.status.code(), text(&wrong.stderr).as_str()), (Some(1), expected));
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if that fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn as_kube_scheduler_it_runs_against_a_cluster_with_the_plugin() {
    let files = files();
    let manifests = vec![Source { name: "cluster.yaml".to_owned(), text: CLUSTER.to_owned() }];
    let options = Options { manifests, scheduler: Scheduler::None, ..Options::default() };
    let mut sandbox = Sandbox::start(options).await.unwrap();
    fs::write(files.path().join("kubeconfig"), sandbox.kubeconfig()).unwrap();
    let link = files.path().join("kube-scheduler");
    std::os::unix::fs::symlink(program().canonicalize().unwrap(), &link).unwrap();
    let mut command = Command::new(link);
    command.args(["--kubeconfig=kubeconfig", "--config=scheduler.yaml", "--leader-elect=false"]);
    let child = command.current_dir(files.path()).stderr(Stdio::null()).spawn().unwrap();
    let _scheduler = Running(child);
    let rejected = sandbox.shows(Duration::from_secs(60), |board| board.count(PodState::Unschedulable) == 1);
    assert!(rejected.await, "{:?}", sandbox.board);
    let theirs = sandbox.board.pod("default/theirs").unwrap();
    assert!(theirs.message.as_deref().unwrap().contains(WHY), "{theirs:?}");
}
