//! What readers run: the commands of `README.md`, on the files of `examples/yoda`.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::{path::Path, process::Command};

use harbormaster::{config::ConfigErrors, serde_json::Value};

const ARGS: [&str; 6] = [
    "--config",
    "examples/yoda/scheduler.yaml",
    "-f",
    "contrib/yoda/deploy/crd.yaml",
    "-f",
    "examples/yoda/cluster",
];

/// Pods that are placed, with all nodes that may be theirs, and pods that are not, with what the message says.
const PLACED: [(&str, &[&str]); 6] = [
    ("default/notebook", &["v100-a"]),
    ("default/two-fast-cards", &["titan"]),
    ("default/large", &["v100-b"]),
    ("default/whole-card", &["v100-a"]),
    ("default/beside-notebook", &["v100-a"]),
    ("default/web", &["v100-a", "v100-b", "titan", "silent", "plain"]),
];
const WAITING: [(&str, &str); 4] = [
    ("default/late", "0/5 nodes are available: 1 GPU Report Stale, 1 No GPU, 3 GPU Number Not Fit."),
    ("default/too-large", "0/5 nodes are available: 1 GPU Report Stale, 1 No GPU, 3 GPU Memory Not Fit."),
    (
        "default/too-many",
        "0/5 nodes are available: 1 GPU Number Not Fit, 1 GPU Report Stale, 1 No GPU, 2 GPU Level Not Fit.",
    ),
    (
        "default/misspelt",
        "0/5 nodes are available: label scv/number: \"one\" is not a whole number above zero.",
    ),
];

fn run(command: &str, more: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut program = Command::new(env!("CARGO_BIN_EXE_yoda-scheduler"));
    let ran = program.arg(command).args(ARGS).args(more).current_dir(root).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Whether the table has every pod on its node, or with its message.
fn shows(table: &str, running_too: bool) {
    let line = |pod: &str| {
        let line = table.lines().rev().find(|line| line.split_whitespace().next() == Some(pod));
        line.unwrap_or_else(|| panic!("no {pod} in\n{table}"))
    };
    for (pod, nodes) in PLACED.iter().filter(|(pod, _)| running_too || *pod != "default/notebook") {
        let node = line(pod).split_whitespace().nth(1).unwrap();
        assert!(nodes.contains(&node), "{}", line(pod));
    }
    for (pod, message) in WAITING {
        assert!(line(pod).contains("<none>") && line(pod).contains(message), "{}", line(pod));
    }
}

#[test]
fn a_simulation_places_the_examples() {
    shows(&run("simulate", &[]), false);
}

#[test]
fn a_sandbox_places_the_examples() {
    shows(&run("sandbox", &[]), true);
}

#[test]
fn a_simulation_in_literal_mode_has_the_scores_of_the_original() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name).display().to_string()
    };
    let config = write(
        "config.yaml",
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: [{plugins: {multiPoint: {enabled: [{name: yoda}]}, \
         queueSort: {enabled: [{name: yoda}], disabled: [{name: PrioritySort}]}}, pluginConfig: [{name: yoda, args: {mode: literal}}]}]}",
    );
    let card = |id: u32, free: u64| {
        format!(
            "{{id: {id}, health: Healthy, power: 250, totalMemory: 16000, freeMemory: {free}, clock: 5705, core: 1500, bandwidth: 15760}}"
        )
    };
    let scv = |name: &str, cards: &[String], number: u32, total: u64, free: u64| {
        format!(
            "---\n{{apiVersion: core.run-linux.com/v1, kind: Scv, metadata: {{name: {name}}}, status: {{cardNumber: {number}, \
             totalMemorySum: {total}, freeMemorySum: {free}, cardList: [{}]}}}}\n",
            cards.join(", ")
        )
    };
    let node = |name: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 110}}}}}}\n"
        )
    };
    let pod = |name: &str, node: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, labels: {{scv/memory: \"1000\"}}}}, \
             spec: {{{node}containers: [{{name: c, image: i}}]}}}}\n"
        )
    };
    let manifests = [
        node("n1"),
        node("n2"),
        scv("n1", &[card(0, 8000), card(1, 16000)], 2, 32000, 24000),
        scv("n2", &[card(0, 16000)], 1, 16000, 16000),
        pod("other", "nodeName: n1, "),
        pod("p", ""),
    ];
    let manifests = write("manifests.yaml", &manifests.concat());
    let mut program = Command::new(env!("CARGO_BIN_EXE_yoda-scheduler"));
    let definition = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crd.yaml");
    program.args(["simulate", "--config", &config, "-f", definition, "-f", &manifests]);
    let ran = program.args(["--explain", "--pod", "default/p", "-o", "json"]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said: Value = harbormaster::serde_json::from_slice(&ran.stdout).unwrap();
    panic!("{said:#}");
}

#[test]
fn arguments_are_checked_with_file_line_and_field() {
    let built = |args: &str| -> Result<(), ConfigErrors> {
        let config = include_str!("../deploy/scheduler-config.yaml");
        let (start, _) = config.split_once("    args:").unwrap();
        let config = format!("{start}    args: {args}\n");
        let builder = harbormaster::Scheduler::builder().plugin::<yoda::Yoda>();
        builder.config("scheduler.yaml", config).build().map(drop)
    };
    for args in ["{}", "{mode: literal}", "{mode: corrected, staleAfterSeconds: 5}"] {
        assert!(built(args).is_ok(), "{args}: {:?}", built(args));
    }
    for (args, expected) in [
        ("{mode: exact}", "args.mode: unknown variant `exact`, expected `literal` or `corrected`"),
        ("{staleAfterSeconds: 0}", "staleAfterSeconds: must be at least 1"),
        ("{staleAfterSeconds: -1}", "args.staleAfterSeconds: invalid value: integer `-1`, expected u64"),
        ("{master: m}", "args.master: unknown field `master`, expected `mode` or `staleAfterSeconds`"),
    ] {
        let error = built(args).unwrap_err().to_string();
        assert!(error.starts_with("scheduler.yaml:") && error.contains(expected), "{error}");
    }
}
