//! Runs the commands of `README.md` on the files of `examples/stickyvm`.

use std::{
    path::Path,
    process::{Command, Output},
};

use harbormaster::{Scheduler, config::ConfigErrors};

/// Pods that are placed, with their nodes.
const PLACED: [(&str, &str); 3] = [
    ("default/virt-launcher-fedora", "node-1"),
    ("default/virt-launcher-debian", "node-2"),
    ("default/virt-launcher-debian-target", "node-1"),
];
/// Pods that are unschedulable, with their messages.
const WAITING: [(&str, &str); 2] = [
    (
        "default/virt-launcher-windows",
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [StickyVM].",
    ),
    (
        "default/virt-launcher-alpine",
        "VirtualMachine default/alpine is pinned to node node-9, which does not exist (annotation \
         example.com/sticky-node)",
    ),
];

fn run(command: &str, config: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut program = Command::new(env!("CARGO_BIN_EXE_stickyvm-scheduler"));
    program.args([command, "--config", config, "-f", "contrib/stickyvm/deploy/crds.yaml"]);
    let ran = program.args(["-f", "examples/stickyvm/cluster"]).current_dir(root).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    ran
}

#[test]
fn simulations_and_sandboxes_place_the_machines_with_either_configuration_file() {
    for command in ["simulate", "sandbox"] {
        for config in ["examples/stickyvm/scheduler.yaml", "examples/stickyvm/article.yaml"] {
            let ran = run(command, config);
            let said = String::from_utf8_lossy(&ran.stdout);
            // A simulation prints a table at the end; a sandbox prints a line per pod.
            let is_about = |line: &&str, pod: &str| {
                line.trim_start_matches("pod ").split([' ', ':']).next() == Some(pod)
            };
            let line = |pod: &str| {
                said.lines()
                    .rev()
                    .find(|line| is_about(line, pod))
                    .unwrap_or_else(|| panic!("no {pod} in\n{said}"))
            };
            for (pod, node) in PLACED {
                assert!(
                    line(pod).split_whitespace().any(|word| word == node),
                    "{command} {config}: {}",
                    line(pod)
                );
            }
            for (pod, message) in WAITING {
                assert!(line(pod).contains(message), "{command} {config}: {}", line(pod));
            }
        }
    }
}

#[test]
fn the_articles_typo_causes_a_warning_and_is_harmless() {
    let warning = "examples/stickyvm/article.yaml:14:9: profiles[0].plugins.preFilter.disabled[0].name: there is no plugin \
                   \"NodeResourceFit\", so nothing is disabled (did you mean `NodeResourcesFit`?)";
    for command in ["simulate", "sandbox"] {
        let ran = run(command, "examples/stickyvm/article.yaml");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert!(told.contains(warning), "{told}");
    }
}

#[test]
fn errors_about_arguments_contain_the_file_and_the_field() {
    let built = |args: &str| -> Result<Scheduler, ConfigErrors> {
        let config = include_str!("../../deploy/scheduler-config.yaml");
        let (start, _) = config.split_once("    args:").unwrap();
        let config = format!("{start}    args: {args}\n");
        Scheduler::builder().plugin::<stickyvm::StickyVM>().config("scheduler.yaml", config).build()
    };
    for args in ["{}", "{annotation: example.org/node}"] {
        assert!(built(args).unwrap().warnings().is_empty(), "{args}");
    }
    for (args, expected) in [
        (
            "{anotation: a}",
            "args.anotation: unknown field `anotation`, expected `annotation` (did you mean `annotation`?)",
        ),
        ("{annotation: 7}", "args.annotation: invalid type: integer `7`, expected a string"),
        ("{annotation: a b}", "args: annotation: \"a b\": "),
    ] {
        let error = built(args).unwrap_err().to_string();
        assert!(error.starts_with("scheduler.yaml:") && error.contains(expected), "{error}");
    }
}
