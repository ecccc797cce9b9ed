//! Output of `harbormaster lint`. Set `UPDATE_GOLDEN=1` to accept the current output.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// A configuration with mistakes.
const MISTAKES: &str = "crates/harbormaster/tests/manifests/lint.yaml";

fn lint(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harbormaster"))
        .arg("lint")
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

#[test]
fn mistakes_are_shown_as_a_table_and_as_json() {
    for (name, format) in [("lint.txt", "table"), ("lint.json", "json")] {
        let output = lint(&["--config", MISTAKES, "-f", "examples/", "-o", format]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let printed = text(&output.stdout);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &printed).expect("the golden file can be written");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(printed, expected, "{} is no longer printed", path.display());
    }
}

#[test]
fn the_exit_code_tells_warnings_from_errors() {
    let code = |args: &[&str]| lint(args).status.code();
    assert_eq!(code(&["--config", "deploy/kustomize/base/config.yaml"]), Some(0));
    assert_eq!(code(&["--config", MISTAKES]), Some(2));
    // The plugins of this configuration are those of another program.
    assert_eq!(code(&["--config", "examples/yoda/scheduler.yaml"]), Some(1));
    let output = lint(&["--config", MISTAKES, "-f", "examples/yoda/scheduler.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
}
