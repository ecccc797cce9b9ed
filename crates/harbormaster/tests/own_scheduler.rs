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

const WHY: &str = "1 node(s) belong to another team";

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn example() -> PathBuf {
    workspace().join("examples/own-scheduler")
}

/// Builds the example and runs its tests; gives its program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // With the workspace's versions nothing is fetched, and what other tests have built need not be built again.
        fs::copy(workspace().join("Cargo.lock"), example().join("Cargo.lock")).unwrap();
        let target = Path::new(env!("CARGO_BIN_EXE_harbormaster")).parent().unwrap();
        let mut cargo = cargo();
        cargo.args(["test", "--offline"]).current_dir(example());
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

/// Runs the program beside the example's files.
fn run(args: &[&str]) -> Output {
    Command::new(program()).args(args).current_dir(example()).output().unwrap()
}

#[test]
fn help_and_version_name_the_program() {
    let help = text(&run(&["--help"]).stdout);
    assert!(help.contains("Usage: own-scheduler <COMMAND>"), "{help}");
    let version = text(&run(&["run", "--version"]).stdout);
    assert!(version.starts_with("own-scheduler (harbormaster v"), "{version}");
    let wrong = text(&run(&["run", "--nonsense"]).stderr);
    assert!(wrong.contains("See 'own-scheduler run --help'"), "{wrong}");
}

#[test]
fn simulate_and_sandbox_ask_the_plugin() {
    for command in ["simulate", "sandbox"] {
        let ran = run(&[command, "--config", "scheduler.yaml", "-f", "cluster.yaml"]);
        assert!(ran.status.success() && text(&ran.stdout).contains(WHY), "{command}: {ran:?}");
    }
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
    let cluster = fs::read_to_string(example().join("cluster.yaml")).unwrap();
    let manifests = vec![Source { name: "cluster.yaml".to_owned(), text: cluster }];
    let options = Options { manifests, scheduler: Scheduler::None, ..Options::default() };
    let mut sandbox = Sandbox::start(options).await.unwrap();
    let files = tempfile::tempdir().unwrap();
    let kubeconfig = files.path().join("kubeconfig");
    fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
    let link = files.path().join("kube-scheduler");
    std::os::unix::fs::symlink(program().canonicalize().unwrap(), &link).unwrap();
    let mut command = Command::new(link);
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
    command.args(["--config=scheduler.yaml", "--leader-elect=false"]);
    let child = command.current_dir(example()).stderr(Stdio::null()).spawn().unwrap();
    let _scheduler = Running(child);
    let decided = sandbox.shows(Duration::from_secs(60), |board| {
        board.count(PodState::Placed) == 1 && board.count(PodState::Unschedulable) == 1
    });
    assert!(decided.await, "{:?}", sandbox.board);
    let theirs = sandbox.board.pod("default/theirs").unwrap();
    assert!(theirs.message.as_deref().unwrap().contains(WHY), "{theirs:?}");
}
