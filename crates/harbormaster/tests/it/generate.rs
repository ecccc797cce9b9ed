//! Completions and manual pages are generated from the flags.

use std::process::Command;

fn harbormaster(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_harbormaster")).args(args).output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn shells_complete_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = harbormaster(&["generate", "completions", shell]);
        for word in ["simulate", "leader-elect-lease-duration"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    harbormaster(&["generate", "man", directory.path().to_str().unwrap()]);
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
    assert!(page("harbormaster.1").contains("A Kubernetes scheduler"));
    assert!(page("harbormaster-run.1").contains("leader\\-elect\\-lease\\-duration"));
    assert!(page("harbormaster-simulate.1").contains("without a cluster"));
}
