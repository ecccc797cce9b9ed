//! `examples/own-scheduler`, a third-party scheduler: its own tests pass, its program is ours with an additional
//! plugin, and the custom resource that the plugin reads may come and go while the program runs.
//!
//! This is a separate test program because it runs cargo, which uses all cores.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

#[path = "it/e2e/mod.rs"]
mod e2e;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    time::Duration,
};

use e2e::{
    cluster::{PATIENCE, eventually, get_pod, wait_until_bound, wait_until_explained},
    objects::{NODES, PODS, config, node, node_of, pod, scheduled_condition},
    process::Harbormaster,
    server::{Server, on_both_servers},
};
use harbormaster_oracle::{components::ApiClient, harbormaster::cargo};
use harbormaster_sandbox::{AttachedScheduler, Options, PodState, Sandbox, Source};
use serde_json::{Value, json};

on_both_servers! {
    custom_resources_may_appear_disappear_or_be_invalid_while_the_scheduler_runs,
}

const WHY: &str = "1 node(s) belong to another team";

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn example() -> PathBuf {
    workspace().join("examples/own-scheduler")
}

/// Builds the example, runs its tests, and returns the path of its program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // With the workspace's lock file, nothing is downloaded, and crates that other tests have built are reused.
        fs::copy(workspace().join("Cargo.lock"), example().join("Cargo.lock")).unwrap();
        let target = Path::new(env!("CARGO_BIN_EXE_harbormaster")).parent().unwrap();
        let mut cargo = cargo();
        cargo.args(["test", "--offline"]).current_dir(example());
        cargo.env("CARGO_TARGET_DIR", target.parent().unwrap());
        // These settings are the same as in the workspace, whose profiles do not apply to the example.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_DEV_STRIP", "debuginfo");
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

/// Runs the program in the example's directory.
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
fn simulate_and_sandbox_use_the_plugin() {
    for command in ["simulate", "sandbox"] {
        let ran = run(&[command, "--config", "scheduler.yaml", "-f", "cluster.yaml"]);
        assert!(ran.status.success() && text(&ran.stdout).contains(WHY), "{command}: {ran:?}");
    }
    for how in [&["--explain"][..], &["--explain", "--independent"]] {
        let ran = run(&[&["simulate", "--config", "scheduler.yaml", "-f", "cluster.yaml"], how].concat());
        let said = text(&ran.stdout);
        assert!(ran.status.success() && said.contains(WHY) && said.contains("red-1"), "{how:?}: {ran:?}");
    }
}

/// A process that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn under_the_name_kube_scheduler_the_program_runs_in_a_cluster_with_the_plugin() {
    let cluster = fs::read_to_string(example().join("cluster.yaml")).unwrap();
    let manifests = vec![Source { name: "cluster.yaml".to_owned(), text: cluster }];
    let options = Options { manifests, scheduler: AttachedScheduler::None, ..Options::default() };
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

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TEAMS: &str = "/apis/example.com/v1/teams";

/// Returns the example's custom resource definition without its validation rules.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "teams.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Team", "plural": "teams", "singular": "team"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// Creates a team as soon as the API server serves its kind.
fn create_team(client: &ApiClient, name: &str, namespaces: &Value) {
    let team = json!({
        "apiVersion": "example.com/v1",
        "kind": "Team",
        "metadata": {"name": name},
        "spec": {"namespaces": namespaces},
    });
    eventually("the team is created", PATIENCE, || client.post(TEAMS, &team).ok());
}

fn change_team(client: &ApiClient, change: &Value) {
    client.merge_patch(&format!("{TEAMS}/red"), change).unwrap();
}

fn custom_resources_may_appear_disappear_or_be_invalid_while_the_scheduler_runs(server: Server) {
    let cluster = server.own();
    let client = cluster.client();
    client.post(NODES, &node("red-1", json!({"example.com/team": "red"}), "4", "4Gi", 100)).unwrap();
    let mut config = config("own");
    let profile = &mut config["profiles"][0];
    profile["plugins"]["filter"] = json!({"enabled": [{"name": "TeamNodes"}]});
    profile["pluginConfig"] = json!([{"name": "TeamNodes", "args": {"nodeLabel": "example.com/team"}}]);
    let config = cluster.write_scheduler_config(&config.to_string()).unwrap();
    let log = cluster.directory().join("own.log");
    let scheduler = Harbormaster::start_program(program(), &[format!("--config={}", config.display())], log);

    let create = |name: &str| {
        client.post(PODS, &pod(name, "own", json!({"cpu": "10m"}), json!({}))).unwrap();
    };
    let is_kept_out = |name: &str| {
        let (_, message) = wait_until_explained(client, name);
        assert!(message.contains(WHY), "{message}");
    };
    let unserved = || scheduler.lines_with(&["does not serve this kind", "kind=\"teams.example.com\""]).len();

    // Without a definition there are no teams.
    create("first");
    is_kept_out("first");
    assert_eq!(unserved(), 1);
    client.post(DEFINITIONS, &definition()).unwrap();
    create_team(client, "red", &json!(["default"]));
    wait_until_bound(client, "first");
    assert_eq!(unserved(), 1);

    // Deleting the definition deletes the teams.
    client.delete(&format!("{DEFINITIONS}/teams.example.com")).unwrap();
    eventually("the teams are gone", PATIENCE, || (unserved() == 2).then_some(()));
    create("second");
    is_kept_out("second");
    eventually("the definition is created again", PATIENCE, || client.post(DEFINITIONS, &definition()).ok());
    create_team(client, "red", &json!(["default"]));
    wait_until_bound(client, "second");

    // Replacing the definition deletes its teams, however quickly it is replaced.
    change_team(client, &json!({"spec": {"namespaces": []}}));
    // Pods and teams arrive on different watches, so the first pods may arrive before the changed team.
    let is_bound = |name: &str| {
        eventually("the pod is bound or kept out", PATIENCE, || {
            let pod = get_pod(client, name)?;
            node_of(&pod).map(|_| true).or_else(|| scheduled_condition(&pod).map(|_| false))
        })
    };
    let mut names = (0..).map(|number| format!("again-{number}")).inspect(|name| create(name));
    let again = names.find(|name| !is_bound(name)).expect("there is always another name");
    is_kept_out(&again);
    client.delete(&format!("{DEFINITIONS}/teams.example.com")).unwrap();
    eventually("the definition is replaced", PATIENCE, || client.post(DEFINITIONS, &definition()).ok());
    create_team(client, "red", &json!(["default"]));
    wait_until_bound(client, &again);

    // An unreadable team is reported once and treated as absent.
    create_team(client, "blue", &json!("default"));
    let unreadable = |name: &str| scheduler.lines_with(&["counts as absent", &format!("object=\"{name}\"")]);
    eventually("the team is reported", PATIENCE, || (!unreadable("blue").is_empty()).then_some(()));
    create("third");
    wait_until_bound(client, "third");
    change_team(client, &json!({"spec": {"namespaces": "default"}}));
    eventually("the team is reported", PATIENCE, || (!unreadable("red").is_empty()).then_some(()));
    create("fourth");
    is_kept_out("fourth");
    change_team(client, &json!({"metadata": {"labels": {"still": "wrong"}}}));
    change_team(client, &json!({"spec": {"namespaces": ["default"]}}));
    wait_until_bound(client, "fourth");
    for name in ["blue", "red"] {
        let told = unreadable(name);
        assert!(matches!(told.as_slice(), [one] if one.contains("field=\"spec.namespaces\"")), "{told:?}");
    }
    scheduler.ends_well();
}
