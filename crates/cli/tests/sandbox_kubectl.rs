//! What somebody does in the first minutes: `harbormaster sandbox --serve` in one terminal, kubectl in another.

#![cfg(unix)]

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{Kubectl, KubectlVersion};

const LIMIT: Duration = Duration::from_secs(60);
const KUBECONFIG: &str = "harbormaster-sandbox.kubeconfig";

/// The demonstration, serving.
struct Sandbox {
    child: Child,
    directory: tempfile::TempDir,
    kubectl: Kubectl,
}

impl Sandbox {
    fn start(version: KubectlVersion) -> Self {
        let kubectl = Kubectl::ensure(version).expect("kubectl can be built");
        let directory = tempfile::tempdir().expect("a directory");
        let child = Command::new(env!("CARGO_BIN_EXE_harbormaster"))
            .args(["sandbox", "--serve"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let sandbox = Self { child, directory, kubectl };
        sandbox.eventually("a kubeconfig", || sandbox.path().join(KUBECONFIG).exists());
        sandbox
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn output(&self, command: &str) -> Output {
        Command::new(self.kubectl.path())
            .args(command.split(' '))
            .current_dir(self.path())
            .env("KUBECONFIG", KUBECONFIG)
            .env("HOME", self.path())
            .output()
            .expect("kubectl runs")
    }

    /// What kubectl prints.
    fn kubectl(&self, command: &str) -> String {
        let output = self.output(command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {command}: {told}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn eventually(&self, what: &str, is_true: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_true() {
            assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
            sleep(Duration::from_millis(50));
        }
    }

    /// The nodes of the running pods with a label.
    fn nodes_of(&self, label: &str) -> Vec<String> {
        let query = format!(
            "get pods -l {label} --field-selector status.phase=Running -o jsonpath={{.items[*].spec.nodeName}}"
        );
        self.kubectl(&query).split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pods_follow_scaling_and_move_from_a_drained_node(version: KubectlVersion) {
    let sandbox = Sandbox::start(version);
    sandbox.kubectl("rollout status deployment/web --timeout=60s");
    sandbox.kubectl("rollout status statefulset/db --timeout=60s");
    assert_eq!(sandbox.nodes_of("app=web").len(), 6);
    sandbox.kubectl("scale deployment web --replicas=9");
    sandbox.eventually("nine pods run", || sandbox.nodes_of("app=web").len() == 9);

    let node = sandbox.nodes_of("app=db").remove(0);
    assert_eq!(sandbox.kubectl(&format!("cordon {node}")), format!("node/{node} cordoned\n"));
    let drained = sandbox.kubectl(&format!("drain {node} --timeout=60s"));
    assert!(drained.contains(&format!("node/{node} drained")), "{drained}");
    sandbox.eventually("the pods have moved", || {
        let (web, db) = (sandbox.nodes_of("app=web"), sandbox.nodes_of("app=db"));
        web.len() == 9 && db.len() == 3 && !web.contains(&node) && !db.contains(&node)
    });
    assert!(sandbox.kubectl("get nodes").contains("Ready,SchedulingDisabled"));

    let described = sandbox.kubectl("describe pod huge");
    assert!(described.contains("FailedScheduling") && described.contains("Insufficient cpu"), "{described}");
    // The budget keeps two databases.
    sandbox.kubectl("scale statefulset db --replicas=2");
    sandbox.eventually("two databases are left", || sandbox.nodes_of("app=db").len() == 2);
    let output = sandbox.output(&format!("drain {} --timeout=2s", sandbox.nodes_of("app=db")[0]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("violate the pod's disruption budget"), "{told}");
}

#[test]
fn the_oldest_kubectl_scales_cordons_and_drains() {
    pods_follow_scaling_and_move_from_a_drained_node(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_scales_cordons_and_drains() {
    pods_follow_scaling_and_move_from_a_drained_node(KubectlVersion::Newest);
}
