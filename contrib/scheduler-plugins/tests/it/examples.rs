//! Runs `simulate` and `sandbox` on every folder of `examples/scheduler-plugins`.

use std::{fs, path::Path, process::Command};

/// Folders, with the pods in them and their nodes; `None` for a pod that gets none.
const EXAMPLES: &[(&str, &[(&str, Option<&str>)])] = &[
    (
        "capacity-scheduling",
        &[("team-b/serve-1", Some("only")), ("team-b/serve-2", Some("only")), ("team-b/serve-3", None)],
    ),
    (
        "coscheduling",
        &[
            ("training-1", None),
            ("training-2", None),
            ("training-3", None),
            ("rendering-1", Some("a")),
            ("rendering-2", Some("b")),
        ],
    ),
    (
        "node-resources-allocatable",
        &[("web", Some("small")), ("build", Some("medium")), ("train", Some("large"))],
    ),
    ("node-resource-topology-match", &[("trader", Some("whole")), ("simulation", None)]),
    ("network-overhead", &[("web", Some("near-b")), ("web-large", None), ("report", Some("far-d"))]),
    ("node-metadata", &[("batch", Some("spot")), ("payments", Some("on-demand"))]),
    ("pod-state", &[("new", Some("b"))]),
    ("preemption-toleration", &[("first", Some("b")), ("second", None)]),
    ("qos-sort", &[("best-effort", None), ("burstable", None), ("guaranteed", Some("only"))]),
    (
        "quota-sort",
        &[("team-a/train-3", None), ("team-b/serve-1", Some("only")), ("team-b/serve-2", Some("only"))],
    ),
    ("sysched", &[("web-2", Some("b"))]),
    ("topological-sort", &[("web", None), ("api", Some("only")), ("db", Some("only"))]),
    (
        "trimaran",
        &[
            ("target", Some("packed")),
            ("balanced", Some("idle")),
            ("careful", Some("packed")),
            ("thrifty", Some("hot")),
        ],
    ),
];

/// Examples with pods that no API server would create as they are: only a simulation can show them.
const ONLY_SIMULATED: &[&str] = &["pod-state"];

/// Folder in `contrib` with the definitions of an example's custom resources.
fn definitions(example: &str) -> String {
    let plugin = match example {
        "topological-sort" => "network-overhead",
        "quota-sort" => "capacity-scheduling",
        own => own,
    };
    format!("contrib/{plugin}/deploy/crd.yaml")
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &str, example: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_harbormaster-plugins"));
    let folder = format!("examples/scheduler-plugins/{example}");
    program.args([command, "--config", &format!("{folder}/scheduler.yaml")]);
    if command == "simulate" {
        // The members of a group have rows of their own.
        program.arg("--all");
    }
    let definitions = definitions(example);
    if root().join(&definitions).exists() {
        program.args(["-f", &definitions]);
    }
    let ran = program.args(["-f", &format!("{folder}/cluster.yaml")]).current_dir(root()).output().unwrap();
    assert!(ran.status.success(), "{command} {example}: {}", String::from_utf8_lossy(&ran.stderr));
    let warnings = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!warnings.contains("warning"), "{command} {example}: {warnings}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns what the last line about the pod says.
fn last_words<'a>(output: &'a str, pod: &str) -> &'a str {
    let name = if pod.contains('/') { pod.to_owned() } else { format!("default/{pod}") };
    let rest = |line: &'a str| line.trim_start_matches("pod ").strip_prefix(&name);
    let rest = output.lines().rev().filter_map(rest).find(|rest| rest.starts_with([' ', ':']));
    rest.unwrap_or_else(|| panic!("no {pod} in\n{output}"))
}

#[test]
fn every_example_places_its_pods() {
    for (example, pods) in EXAMPLES {
        for command in ["simulate", "sandbox"] {
            if command == "sandbox" && ONLY_SIMULATED.contains(example) {
                continue;
            }
            let output = run(command, example);
            for (pod, node) in *pods {
                let said = last_words(&output, pod);
                match node {
                    Some(node) => {
                        assert!(
                            said.split_whitespace().any(|word| word == *node),
                            "{command} {example} {pod}{said}"
                        );
                    }
                    None => assert!(
                        ["nodes are available", "minCount"].iter().any(|reason| said.contains(reason)),
                        "{command} {example} {pod}{said}"
                    ),
                }
            }
        }
    }
}

#[test]
fn lint_knows_the_plugins_of_every_example() {
    for (example, _) in EXAMPLES {
        let mut program = Command::new(env!("CARGO_BIN_EXE_harbormaster-plugins"));
        let config = format!("examples/scheduler-plugins/{example}/scheduler.yaml");
        let ran =
            program.args(["lint", "-o", "json", "--config", &config]).current_dir(root()).output().unwrap();
        let (told, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(told.contains("\"findings\""), "{example}: {errors}");
        assert!(!told.contains("unknown-plugin"), "{example}: {told}");
    }
}

#[test]
fn every_folder_is_an_example() {
    let folders = fs::read_dir(root().join("examples/scheduler-plugins")).unwrap();
    let mut folders: Vec<_> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let mut examples: Vec<_> = EXAMPLES.iter().map(|(example, _)| (*example).to_owned()).collect();
    folders.sort();
    examples.sort();
    assert_eq!(folders, examples);
}
