//! `simulate -f` and `sandbox -f` reject the same manifests as `kubectl apply -f` with a real API server, and name the
//! same fields. The manifests are in `manifests/strictness.txt`. With `-- --ignored`, the API server is that of 1.37.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use harbormaster_api::Release;
use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions, Kubectl, KubectlVersion};

/// Phrases that follow a field's path in the API server's messages.
const PROBLEMS: [&str; 7] = [
    ": Invalid value",
    ": Required value",
    ": Unsupported value",
    ": Duplicate value",
    ": Forbidden",
    ": Too long",
    ": Too many",
];

/// Longest time that controllers may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Workloads with eight pods: three of a Deployment, one of a StatefulSet, one of a DaemonSet, two of a Job, and one
/// without an owner.
const WORKLOADS: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {disk: ssd}}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
spec: {taints: [{key: own, effect: NoSchedule}]}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: high
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: disk, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {app: web}}}
      containers: [{name: c, image: i}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: sums}
spec:
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 3 1 1 *'
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: c, image: i}]}
";

struct Case<'a> {
    title: &'a str,
    manifest: &'a str,
    is_wrong: bool,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let (wrong, right) = text.split_once("## accepted\n").expect("a part with manifests that are accepted");
    let part = |text, is_wrong| {
        let cases = str::split(text, "### ").skip(1);
        cases.map(move |case| {
            let (title, manifest) = case.split_once('\n').expect("a title and a manifest");
            Case { title, manifest, is_wrong }
        })
    };
    part(wrong, true).chain(part(right, false)).collect()
}

/// A field named by the API server.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Exactly(String),
    /// A field whose value has the wrong type: Go's message contains neither list indexes nor map keys.
    About(String),
}

/// Returns the fields that the API server's message names.
fn fields(told: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    for problem in PROBLEMS {
        for (at, _) in told.match_indices(problem) {
            let before = &told[..at];
            // Paths contain no spaces, with this one exception.
            let before =
                before.replace("{topologyKey, whenUnsatisfiable}", "{topologyKey,whenUnsatisfiable}");
            let field = before.rsplit([' ', '\n']).next().unwrap_or_default();
            fields.push(Field::Exactly(field.trim_start_matches('[').replace(",when", ", when")));
        }
    }
    let unknown = told.split("unknown field \"").skip(1).filter_map(|rest| rest.split('"').next());
    fields.extend(unknown.map(|field| Field::Exactly(field.to_owned())));
    let typed = told.split("Go struct field ").skip(1).filter_map(|rest| rest.split_once(' '));
    fields.extend(typed.filter_map(|(field, _)| Some(Field::About(field.split_once('.')?.1.to_owned()))));
    fields.sort();
    fields.dedup();
    fields
}

impl Field {
    /// Returns true if the text names the field.
    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Exactly(field) => text.contains(&format!(": {field}: ")),
            Self::About(field) => {
                let bare = without_indices(text);
                [": ", "."].iter().any(|end| bare.contains(&format!(": {field}{end}")))
            }
        }
    }
}

fn without_indices(text: &str) -> String {
    let mut depth = 0;
    let is_kept = |c: &char| {
        depth += i32::from(*c == '[');
        let kept = depth == 0;
        depth -= i32::from(*c == ']');
        kept
    };
    text.chars().filter(is_kept).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn manifests_are_rejected_as_by_kubectl_and_a_real_api_server() {
    manifests_are_rejected_as_by(Release::V1_36);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn manifests_are_rejected_as_by_kubectl_and_a_real_api_server_of_1_37() {
    manifests_are_rejected_as_by(Release::V1_37);
}

fn manifests_are_rejected_as_by(release: Release) {
    let manifests =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/strictness.txt"))
            .expect("the manifests can be read");
    let cases = cases(&manifests);
    assert!(cases.iter().filter(|case| case.is_wrong).count() >= 60);
    assert!(cases.iter().filter(|case| !case.is_wrong).count() >= 10);
    let kubectl = Kubectl::ensure(KubectlVersion::Newest).expect("kubectl can be built");
    let options = ControlPlaneOptions { release, ..ControlPlaneOptions::default() };
    let server = ControlPlane::start(&options).expect("an API server");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manifest.yaml");
    let harbormaster = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        command
            .args(args)
            .arg(format!("--emulated-version={release}"))
            .arg("-f")
            .arg(&file)
            .current_dir(directory.path())
            .output()
            .expect("the binary runs")
    };
    let (mut told, mut named) = (String::new(), 0);
    for Case { title, manifest, is_wrong } in cases {
        fs::write(&file, manifest).expect("the manifest can be written");
        let apply = Command::new(kubectl.path())
            .args(["apply", "--kubeconfig"])
            .arg(server.kubeconfig())
            .arg("-f")
            .arg(&file)
            .env("HOME", directory.path())
            .output()
            .expect("kubectl runs");
        let simulate = harbormaster(&["simulate"]);
        let sandbox = harbormaster(&["sandbox"]);
        let all = [("kubectl", &apply), ("simulate", &simulate), ("sandbox", &sandbox)];
        let as_wanted = all.iter().all(|(_, output)| output.status.success() != is_wrong);
        let mut missing = fields(&text(&apply));
        named += usize::from(!missing.is_empty());
        missing.retain(|field| ![&simulate, &sandbox].iter().all(|output| field.is_in(&text(output))));
        if as_wanted && missing.is_empty() {
            continue;
        }
        let _ = writeln!(told, "### {title}: {}", if is_wrong { "to be refused" } else { "to be accepted" });
        for (who, output) in all {
            let _ = writeln!(told, "{who}: {:?}: {}", output.status.code(), text(output).trim());
        }
        if !missing.is_empty() {
            let _ = writeln!(told, "not named: {missing:?}");
        }
    }
    assert!(told.is_empty(), "\n{told}");
    assert!(named >= 100, "only {named} fields were recognized in the API server's messages");
}

#[test]
fn a_dump_of_a_real_cluster_is_accepted_unchanged() {
    dump_is_accepted(Release::V1_36);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn a_dump_of_a_real_cluster_of_1_37_is_accepted_unchanged() {
    dump_is_accepted(Release::V1_37);
}

fn dump_is_accepted(release: Release) {
    let kubectl = Kubectl::ensure(KubectlVersion::Newest).expect("kubectl can be built");
    let options = ControlPlaneOptions { release, controller_manager: true, ..ControlPlaneOptions::default() };
    let server = ControlPlane::start(&options).expect("an API server with controllers");
    let directory = tempfile::tempdir().expect("a directory");
    let kubectl = |args: &[&str]| {
        let output = Command::new(kubectl.path())
            .args(args)
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .output()
            .expect("kubectl runs");
        assert!(output.status.success(), "kubectl {args:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let file = |name: &str, content: &str| {
        fs::write(directory.path().join(name), content).expect("the file can be written");
    };
    file("workloads.yaml", WORKLOADS);
    kubectl(&["apply", "-f", "workloads.yaml"]);
    kubectl(&["autoscale", "deployment", "web", "--max=5", "--cpu=50%"]);
    let deadline = Instant::now() + LIMIT;
    while kubectl(&["get", "pods", "-o", "name"]).lines().count() < 8 {
        assert!(Instant::now() < deadline, "{}", kubectl(&["get", "all"]));
        sleep(Duration::from_millis(200));
    }
    file("dump.yaml", &kubectl(&["get", "all,nodes", "-A", "-o", "yaml"]));
    let harbormaster = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
        command.args(args).arg(format!("--emulated-version={release}")).current_dir(directory.path());
        let output = command.output().expect("the binary runs");
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), text(&output))
    };
    let (placed, notes) = harbormaster(&["simulate", "-f", "dump.yaml"]);
    assert!(notes.contains("1 HorizontalPodAutoscaler"), "{notes}");
    assert!(placed.contains("8 pods: "), "{placed}");
    let (placed, notes) = harbormaster(&["sandbox", "-f", "dump.yaml"]);
    assert!(notes.contains("HorizontalPodAutoscalers are stored and shown, but scale nothing"), "{notes}");
    assert!(placed.contains("8 pods: "), "{placed}");

    // This dump contains the Deployment but not its pods.
    file(
        "fewer.yaml",
        &kubectl(&["get", "deployments,replicasets,priorityclasses,nodes", "-A", "-o", "yaml"]),
    );
    let (placed, notes) = harbormaster(&["simulate", "-f", "fewer.yaml"]);
    assert!(
        notes.contains(
            "1 workload(s) come from a cluster, but their pods are not in the input; --fill creates these 3 \
             pods"
        ),
        "{notes}"
    );
    assert!(placed.contains("no pod is waiting for a node"), "{placed}");
    let (placed, notes) = harbormaster(&["simulate", "-f", "fewer.yaml", "--fill"]);
    assert!(placed.contains("3 pods: "), "{placed}{notes}");
}
