//! A user's first minutes: `harbormaster sandbox --serve` in one terminal, kubectl in another. The oldest kubectl talks to
//! a sandbox of the oldest release, the newest kubectl to one of the newest release.

#![cfg(unix)]

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_api::Release;
use harbormaster_oracle::components::{Kubectl, KubectlVersion};

const LIMIT: Duration = Duration::from_secs(60);
const KUBECONFIG: &str = "harbormaster-sandbox.kubeconfig";

/// A running `sandbox --serve`, with the demonstration unless it was started with `--nodes`.
struct Sandbox {
    child: Child,
    directory: tempfile::TempDir,
    kubectl: Kubectl,
}

/// Returns the release of the sandbox to which a kubectl talks.
fn release_for(version: KubectlVersion) -> Release {
    match version {
        KubectlVersion::Oldest => Release::V1_36,
        KubectlVersion::Newest => Release::NEWEST,
    }
}

impl Sandbox {
    fn start(version: KubectlVersion) -> Self {
        Self::start_with(version, &[])
    }

    fn start_with(version: KubectlVersion, flags: &[&str]) -> Self {
        let kubectl = Kubectl::ensure(version).expect("kubectl can be built");
        let directory = tempfile::tempdir().expect("a directory");
        let child = Command::new(env!("CARGO_BIN_EXE_harbormaster"))
            .args(["sandbox", "--serve"])
            .arg(format!("--emulated-version={}", release_for(version)))
            .args(flags)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let sandbox = Self { child, directory, kubectl };
        sandbox.eventually("the kubeconfig exists", || sandbox.path().join(KUBECONFIG).exists());
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

    /// Runs kubectl and returns its output.
    fn kubectl(&self, command: &str) -> String {
        let output = self.output(command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {command}: {told}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs kubectl, which must fail within [`LIMIT`], and returns its error message.
    fn refused(&self, command: &str) -> String {
        let mut child = Command::new(self.kubectl.path())
            .args(command.split(' '))
            .current_dir(self.path())
            .env("KUBECONFIG", KUBECONFIG)
            .env("HOME", self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let deadline = Instant::now() + LIMIT;
        while child.try_wait().expect("kubectl can be polled").is_none() {
            if Instant::now() > deadline {
                // `kill` fails if kubectl has just exited. The test fails either way.
                let _ = child.kill();
                panic!("kubectl {command} hangs");
            }
            sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().expect("kubectl has ended");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "kubectl {command} is not rejected: {told}");
        told
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).expect("files can be written");
    }

    fn eventually(&self, what: &str, is_true: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_true() {
            assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Returns the nodes of the running pods with a label.
    fn nodes_of(&self, label: &str) -> Vec<String> {
        let query = format!(
            "get pods -l {label} --field-selector status.phase=Running -o jsonpath={{.items[*].spec.nodeName}}"
        );
        self.kubectl(&query).split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
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
    // The disruption budget protects two database pods.
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

const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: \"agent:1\"}]}
---
apiVersion: v1
kind: Service
metadata: {name: agent}
spec: {selector: {app: agent}, ports: [{port: 80}]}
";

fn daemon_sets_roll_out_and_stay_on_drained_nodes(version: KubectlVersion) {
    let sandbox = Sandbox::start(version);
    sandbox.write("agent.yaml", AGENT);
    sandbox.kubectl("apply -f agent.yaml");
    sandbox.kubectl("rollout status ds/agent --timeout=60s");
    let mut nodes = sandbox.nodes_of("app=agent");
    nodes.sort();
    assert_eq!(nodes, ["node-1", "node-2", "node-3", "node-4", "node-5", "node-6"]);
    let listed = sandbox.kubectl("get ds agent --no-headers");
    let numbers: Vec<&str> = listed.split_whitespace().skip(1).take(5).collect();
    assert_eq!(numbers, ["6"; 5], "{listed}");
    let described = sandbox.kubectl("describe ds agent");
    assert!(
        described.contains("SuccessfulCreate") && described.contains("Created pod: agent-"),
        "{described}"
    );
    assert!(described.contains("daemonset-controller"), "{described}");

    sandbox.kubectl("set image ds/agent c=agent:2");
    sandbox.kubectl("rollout status ds/agent --timeout=60s");
    let images = sandbox.kubectl("get pods -l app=agent -o jsonpath={.items[*].spec.containers[0].image}");
    assert_eq!(images.split_whitespace().collect::<Vec<_>>(), ["agent:2"; 6]);

    let told = sandbox.refused("drain node-1 --timeout=60s");
    assert!(told.contains("cannot delete DaemonSet-managed Pods"), "{told}");
    sandbox.kubectl("drain node-1 --ignore-daemonsets --timeout=60s");
    assert!(sandbox.nodes_of("app=agent").contains(&"node-1".to_owned()));

    sandbox.kubectl("rollout status deployment/web --timeout=60s");
    let described = sandbox.kubectl("describe deployment web");
    assert!(described.contains("deployment-controller") && described.contains("from 0 to 6"), "{described}");
    let wide = sandbox.kubectl("get pods,svc -o wide --no-headers");
    assert!(wide.contains("10.244."), "{wide}");
    let addresses =
        sandbox.kubectl("get pods,svc -o jsonpath={.items[*].status.podIP}{.items[*].spec.clusterIP}");
    let mut addresses: Vec<&str> = addresses.split_whitespace().collect();
    let all = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!((addresses.len(), all > 15), (all, true), "{wide}");

    sandbox.kubectl("taint node node-2 gone=yes:NoExecute");
    sandbox.eventually("the node is empty", || {
        let pods = sandbox.kubectl("get pods --field-selector spec.nodeName=node-2 -o name");
        pods.is_empty()
    });
    let events = sandbox.kubectl("get events");
    assert!(events.contains("Marking for deletion Pod default/"), "{events}");

    sandbox.kubectl("delete ds agent");
    sandbox.eventually("the pods of the DaemonSet are gone", || sandbox.nodes_of("app=agent").is_empty());
}

#[test]
fn the_oldest_kubectl_rolls_out_daemon_sets() {
    daemon_sets_roll_out_and_stay_on_drained_nodes(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_rolls_out_daemon_sets() {
    daemon_sets_roll_out_and_stay_on_drained_nodes(KubectlVersion::Newest);
}

fn commands_that_need_containers_are_rejected_immediately(version: KubectlVersion) {
    let sandbox = Sandbox::start(version);
    sandbox.kubectl("rollout status statefulset/db --timeout=60s");
    sandbox.write("file", "");
    for command in [
        "logs db-0",
        "logs -f deployment/web",
        "exec db-0 -- true",
        "exec -it db-0 -- sh",
        "attach db-0",
        "port-forward db-0 18080:80",
        "cp file db-0:/tmp/file",
        "debug db-0 --image=busybox",
        "debug db-0 -it --image=busybox -- sh",
        "debug node/node-1 -it --image=busybox -- sh",
    ] {
        let told = sandbox.refused(command);
        assert!(told.contains("there are no containers in the sandbox"), "kubectl {command}: {told}");
    }
}

#[test]
fn the_oldest_kubectl_reports_that_there_are_no_containers() {
    commands_that_need_containers_are_rejected_immediately(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_reports_that_there_are_no_containers() {
    commands_that_need_containers_are_rejected_immediately(KubectlVersion::Newest);
}

const TICK: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: '@every 2s'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}
";

fn cron_jobs_start_jobs_on_schedule_and_on_request(version: KubectlVersion) {
    let sandbox = Sandbox::start(version);
    sandbox.write("tick.yaml", TICK);
    sandbox.kubectl("apply -f tick.yaml");
    sandbox.eventually("a job is started", || {
        sandbox.kubectl("describe cronjob tick").contains("Created job tick-")
    });
    sandbox.kubectl("create job at-once --from=cronjob/tick");
    sandbox.eventually("the job has a pod", || {
        let described = sandbox.kubectl("describe job at-once");
        described.contains("job-controller") && described.contains("Created pod: at-once-")
    });
    sandbox.kubectl("delete cronjob tick");
    sandbox.eventually("the jobs of the CronJob are gone", || {
        sandbox.kubectl("get jobs,pods -l job-name -o name").is_empty()
    });
}

#[test]
fn the_oldest_kubectl_sees_jobs_of_cron_jobs() {
    cron_jobs_start_jobs_on_schedule_and_on_request(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_sees_jobs_of_cron_jobs() {
    cron_jobs_start_jobs_on_schedule_and_on_request(KubectlVersion::Newest);
}

const STORAGE: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: csi.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce, ReadWriteMany], storageClassName: '', nfs: {server: s, path: /d}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], storageClassName: '', resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: unused}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  replicas: 2
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: c, image: i}], volumes: [{name: shared, persistentVolumeClaim: {claimName: shared}}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

/// Returns the rows of a table without the ages, with one space between columns.
fn rows(table: &str) -> Vec<String> {
    let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let without_age = |line: String| line.rsplit_once(' ').map(|(row, _)| row.to_owned()).unwrap_or_default();
    table.lines().map(row).map(without_age).collect()
}

fn claims_get_volumes(version: KubectlVersion) {
    let sandbox = Sandbox::start(version);
    sandbox.write("storage.yaml", STORAGE);
    sandbox.kubectl("apply -f storage.yaml");
    sandbox.kubectl("rollout status statefulset/store --timeout=60s");
    let volume = |claim: &str| sandbox.kubectl(&format!("get pvc {claim} -o jsonpath={{.spec.volumeName}}"));
    let (first, second) = (volume("data-store-0"), volume("data-store-1"));
    assert_eq!(
        rows(&sandbox.kubectl("get pvc")),
        [
            "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS",
            &format!("data-store-0 Bound {first} 1Gi RWO fast <unset>"),
            &format!("data-store-1 Bound {second} 1Gi RWO fast <unset>"),
            "shared Bound disk 5Gi RWO,RWX <unset>",
            "unused Pending fast <unset>",
        ]
    );
    let mut made = [
        format!("{first} 1Gi RWO Delete Bound default/data-store-0 fast <unset>"),
        format!("{second} 1Gi RWO Delete Bound default/data-store-1 fast <unset>"),
    ];
    made.sort();
    assert_eq!(
        rows(&sandbox.kubectl("get pv")),
        [
            "NAME CAPACITY ACCESS MODES RECLAIM POLICY STATUS CLAIM STORAGECLASS VOLUMEATTRIBUTESCLASS REASON",
            "disk 5Gi RWO,RWX Retain Bound default/shared <unset>",
            &made[0],
            &made[1],
        ]
    );
    assert_eq!(
        rows(&sandbox.kubectl("get sc")),
        [
            "NAME PROVISIONER RECLAIMPOLICY VOLUMEBINDINGMODE ALLOWVOLUMEEXPANSION",
            "fast (default) csi.example.com Delete WaitForFirstConsumer false",
            "standard (default) sandbox.harbormaster.dev/volumes Delete WaitForFirstConsumer false",
        ]
    );
    let described = sandbox.kubectl("describe pvc unused");
    let waits = "persistentvolume-controller  waiting for first consumer to be created before binding";
    assert!(described.contains("WaitForFirstConsumer") && described.contains(waits), "{described}");
    let described = sandbox.kubectl("describe pvc data-store-0");
    let made = format!("Successfully provisioned volume {first}");
    assert!(described.contains(&made) && described.contains("Used By:       store-0"), "{described}");
    let described = sandbox.kubectl("describe statefulset store");
    let created = "create Claim data-store-0 Pod store-0 in StatefulSet store success";
    assert!(described.contains(created), "{described}");

    sandbox.kubectl("delete statefulset store");
    sandbox.eventually("the pods of the StatefulSet are gone", || sandbox.nodes_of("app=store").is_empty());
    sandbox.kubectl("delete pvc data-store-0 shared");
    sandbox.eventually("one volume is kept and one is gone", || {
        let left = sandbox.kubectl("get pv --no-headers -o custom-columns=:.metadata.name,:.status.phase");
        left.contains("Released") && left.lines().count() == 2
    });
}

#[test]
fn the_oldest_kubectl_sees_claims_and_their_volumes() {
    claims_get_volumes(KubectlVersion::Oldest);
}

#[test]
fn the_newest_kubectl_sees_claims_and_their_volumes() {
    claims_get_volumes(KubectlVersion::Newest);
}

const STUCK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: stuck}
spec:
  selector: {matchLabels: {app: stuck}}
  template:
    metadata: {labels: {app: stuck}, annotations: {sandbox.harbormaster.dev/fail-after: 20s}}
    spec: {containers: [{name: c, image: i}]}
";

fn nodes_fail_and_pods_crash_on_request(version: KubectlVersion) {
    let sandbox = Sandbox::start_with(version, &["--nodes", "3", "--clock-speed", "300"]);
    sandbox.kubectl("create deployment web --image=i --replicas=6");
    sandbox.eventually("six pods run", || sandbox.nodes_of("app=web").len() == 6);
    sandbox.kubectl("annotate node node-1 sandbox.harbormaster.dev/stopped=true");
    let count = |word: &str| {
        sandbox.kubectl("get pods -l app=web --no-headers").lines().filter(|line| line.contains(word)).count()
    };
    sandbox.eventually("two pods of node-1 are terminating and six others run", || {
        count("Terminating") == 2 && count("Running") == 6
    });
    let nodes = rows(&sandbox.kubectl("get nodes --no-headers"));
    let ready: Vec<bool> = nodes.iter().map(|node| !node.contains(" NotReady ")).collect();
    assert_eq!(ready, [false, true, true], "{nodes:?}");
    let described = sandbox.kubectl("describe node node-1");
    for told in
        ["node.kubernetes.io/unreachable:NoExecute", "Kubelet stopped posting node status.", "RenewTime:"]
    {
        assert!(described.contains(told), "{told}: {described}");
    }
    sandbox.kubectl("annotate node node-1 sandbox.harbormaster.dev/stopped-");
    sandbox.eventually("the terminating pods are gone", || count("Terminating") == 0);
    sandbox.kubectl("wait --for=condition=Ready node/node-1 --timeout=30s");

    sandbox.write("stuck.yaml", STUCK);
    sandbox.kubectl("apply -f stuck.yaml");
    let of_stuck = || sandbox.kubectl("get pods -l app=stuck --no-headers");
    sandbox.eventually("the pod is in a crash loop", || of_stuck().contains("CrashLoopBackOff"));

    sandbox.kubectl("create serviceaccount bob");
    assert_eq!(sandbox.kubectl("create token bob").split('.').count(), 3);
}

#[test]
fn failures_can_be_rehearsed_with_the_oldest_kubectl() {
    nodes_fail_and_pods_crash_on_request(KubectlVersion::Oldest);
}

#[test]
fn failures_can_be_rehearsed_with_the_newest_kubectl() {
    nodes_fail_and_pods_crash_on_request(KubectlVersion::Newest);
}
