//! The transcript in `docs/questions.md` shows what the commands print. Set `UPDATE_GOLDEN=1` to write their output to
//! the document.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const BEGIN: &str = "```console\n$ harbormaster ";
const END: &str = "```\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Splits a command line at spaces that are not between single quotes.
fn arguments(line: &str) -> Vec<String> {
    let mut quoted = false;
    let pieces = line.split(|c: char| {
        quoted ^= c == '\'';
        c == ' ' && !quoted
    });
    pieces.map(|piece| piece.replace('\'', "")).collect()
}

/// Returns what a command prints, without notes and spaces at the ends of lines.
fn printed(line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    let output = command.args(arguments(line)).current_dir(repository()).output().expect("the program runs");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

#[test]
fn the_transcript_shows_what_the_commands_print() {
    let path = repository().join("docs/questions.md");
    let document = fs::read_to_string(&path).expect("the document");
    let mut blocks = document.split(BEGIN);
    let mut current = blocks.next().unwrap_or_default().to_owned();
    let mut commands = 0;
    for block in blocks {
        let (line, rest) = block.split_once('\n').expect("a command line");
        let (_, after) = rest.split_once(END).expect("the end of the block");
        current += &[BEGIN, line, "\n", &printed(line), END, after].concat();
        commands += 1;
    }
    assert!(commands > 10, "only {commands} commands");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &current).expect("the document can be written");
    }
    let document = fs::read_to_string(&path).expect("the document");
    assert!(current == document, "{} differs from what the commands print:\n{current}", path.display());
}
