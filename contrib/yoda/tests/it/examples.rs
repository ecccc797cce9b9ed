//! Runs the commands of `README.md` on the files of `examples/yoda`.

use std::{path::Path, process::Command};

use harbormaster::config::ConfigErrors;
use serde_json::{Value, json};

const ARGS: [&str; 6] = [
    "--config",
    "examples/yoda/scheduler.yaml",
    "-f",
    "contrib/yoda/deploy/crd.yaml",
    "-f",
    "examples/yoda/cluster",
];

/// Pods that are placed, with the nodes on which they may be placed.
const PLACED: [(&str, &[&str]); 6] = [
    ("default/notebook", &["v100-a"]),
    ("default/two-fast-cards", &["titan"]),
    ("default/large", &["v100-b"]),
    ("default/whole-card", &["v100-a"]),
    ("default/beside-notebook", &["v100-a"]),
    ("default/web", &["v100-a", "v100-b", "titan", "silent", "plain"]),
];
/// Pods that are unschedulable, with their messages.
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

/// Returns the text after the pod's name in the last line about the pod: its node, or the reason it has none.
fn last_status_of<'a>(output: &'a str, pod: &str) -> &'a str {
    let rest = |line: &'a str| line.trim_start_matches("pod ").strip_prefix(pod);
    let rest = output.lines().rev().filter_map(rest).find(|rest| rest.starts_with([' ', ':']));
    rest.unwrap_or_else(|| panic!("no {pod} in\n{output}"))
}

fn all_are_where_they_belong(output: &str, with_running: bool) {
    for (pod, nodes) in PLACED.iter().filter(|(pod, _)| with_running || *pod != "default/notebook") {
        let output = last_status_of(output, pod);
        let node = output.split_whitespace().find(|word| *word != "->").unwrap_or_default();
        assert!(nodes.contains(&node), "{pod}{output}");
    }
    for (pod, message) in WAITING {
        let output = last_status_of(output, pod);
        assert!(output.contains(message), "{pod}{output}");
    }
}

#[test]
fn a_simulation_places_the_examples() {
    all_are_where_they_belong(&run("simulate", &[]), false);
}

#[test]
fn a_sandbox_places_the_examples() {
    all_are_where_they_belong(&run("sandbox", &[]), true);
}

#[test]
fn a_simulation_in_literal_mode_has_the_same_scores_as_the_original() {
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
    let output: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let fits = output["explanations"][0]["fits"].as_array().unwrap().iter();
    let scores: Vec<_> = fits
        .map(|group| {
            let yoda = &group["plugins"]["yoda"];
            (&group["nodes"][0], &yoda["raw"], &yoda["normalized"])
        })
        .collect();
    assert_eq!(json!(scores), json!([["n1", 1610, 100], ["n2", 1136, 0]]));
}

#[test]
fn errors_about_arguments_contain_the_file_and_the_field() {
    let built = |args: &str| -> Result<(), ConfigErrors> {
        let config = include_str!("../../deploy/scheduler-config.yaml");
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

#[test]
fn the_manifests_are_accepted_by_an_api_server() {
    let file = |name: &str| format!("{}/deploy/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let mut program = Command::new(env!("CARGO_BIN_EXE_yoda-scheduler"));
    program.args(["sandbox", "--nodes", "1"]);
    for name in ["crd", "sniffer", "scheduler"] {
        program.args(["-f".to_owned(), file(name)]);
    }
    let ran = program.output().unwrap();
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{errors}");
    // Only the scheduler's pod is placed, since no node has the label that the DaemonSet selects.
    assert!(output.contains("1 pod: 1 placed"), "{output}{errors}");
}
