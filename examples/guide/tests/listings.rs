//! The guide shows what this crate has: every listing stands in a file here, word by word, and every command says what the
//! guide says that it says.

#![allow(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use harbormaster::prelude::{Action, EventResource};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn guide() -> String {
    fs::read_to_string(here().join("../../docs/plugins.md")).unwrap()
}

/// What stands between two fences.
struct Block {
    language: String,
    /// The line of the guide on which it begins, counted from 1.
    line: usize,
    lines: Vec<String>,
}

fn blocks(guide: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (line, text) in (1..).zip(guide.lines()) {
        match (text.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), line: line + 1, lines: Vec::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(text.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last fence is not closed");
    blocks
}

/// Everything below a folder whose name ends so.
fn files(folder: &Path, ending: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| match path.is_dir() {
        true => files(&path, ending),
        false if path.extension().is_some_and(|is| is == ending) => {
            let text = fs::read_to_string(&path).unwrap();
            vec![(path, text)]
        }
        false => Vec::new(),
    });
    below.collect()
}

/// Whether the lines stand in the text, one after the other and indented as they are.
fn has(text: &str, block: &[String]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(block.len()).any(|some| some.iter().eq(block))
}

#[test]
fn every_listing_stands_in_a_file_of_this_crate() {
    let (rust, yaml) = (files(here(), "rs"), files(here(), "yaml"));
    let toml = files(&here().join("../own-scheduler"), "toml");
    let guide = guide();
    let mut missing = Vec::new();
    for block in blocks(&guide) {
        let files = match block.language.as_str() {
            "rust" => &rust,
            "yaml" => &yaml,
            "toml" => &toml,
            // Played by the other test, or said to be neither.
            "console" | "text" => continue,
            other => panic!("docs/plugins.md:{}: what is {other:?}?", block.line - 1),
        };
        if block.lines.is_empty() || !files.iter().any(|(_, text)| has(text, &block.lines)) {
            missing.push(format!("docs/plugins.md:{}: {}", block.line, block.lines.join("\n")));
        }
    }
    assert!(
        missing.is_empty(),
        "these listings are in no file of examples/guide, or of own-scheduler:\n{}",
        missing.join("\n\n")
    );
}

#[test]
fn every_action_is_in_the_table_with_what_it_happens_to() {
    let guide = guide();
    let rows: Vec<Vec<&str>> = guide
        .lines()
        .skip_while(|line| !line.starts_with("| `Action` |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut actions = Action::each();
    for (at, row) in rows.iter().enumerate() {
        let [name, of, _] = row.as_slice() else { panic!("{row:?}") };
        let name = name.trim_matches('`').replace('_', "").to_lowercase();
        let (action, resources) = match (at + 2).cmp(&rows.len()) {
            std::cmp::Ordering::Less => {
                let action = actions.next().expect("there are fewer actions than rows");
                let happens = |resource: EventResource| resource.actions().intersects(action);
                let resources = match (happens(EventResource::Pod), happens(EventResource::Node)) {
                    (true, true) => "everything",
                    (true, false) => "pods",
                    _ => "nodes",
                };
                (action, resources)
            }
            std::cmp::Ordering::Equal => (Action::UPDATE, "everything"),
            std::cmp::Ordering::Greater => (Action::ALL, "everything"),
        };
        // kube-scheduler calls one of them by a longer name.
        let known = action.to_string().to_lowercase().replace("schedulinggates", "gates");
        assert_eq!((name, *of), (known, resources));
    }
    assert!(actions.next().is_none() && rows.len() == Action::each().count() + 2, "an action is missing");
}

#[test]
fn every_command_says_what_the_guide_says() {
    let guide = guide();
    let mut wrong = Vec::new();
    let mut played = 0;
    for block in blocks(&guide).iter().filter(|block| block.language == "console") {
        let (mut at, mut rest) = (block.line, block.lines.as_slice());
        while let Some((command, output)) = rest.split_first() {
            let Some(command) = command.strip_prefix("$ guide ") else {
                panic!("docs/plugins.md:{at}: a line that begins with `$ guide ` is expected");
            };
            let end = output.iter().position(|line| line.starts_with("$ ")).unwrap_or(output.len());
            let said = run(command);
            if said.lines().map(str::trim_end).ne(output[..end].iter().map(|line| line.trim_end())) {
                wrong.push(format!("docs/plugins.md:{at}: `guide {command}` says\n{said}"));
            }
            at += 1 + end;
            rest = &output[end..];
            played += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(played > 0, "the guide plays no command");
}

/// What the program of this crate says: its result, or what is wrong.
fn run(arguments: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_guide"));
    let ran = program.args(arguments.split_whitespace()).current_dir(here()).output().unwrap();
    let said = if ran.status.success() { ran.stdout } else { ran.stderr };
    String::from_utf8(said).unwrap()
}

#[test]
fn a_listing_that_is_indented_otherwise_or_has_gaps_is_found_out() {
    let block = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let text = "fn a() {\n    b();\n    c();\n}\n";
    assert!(has(text, &block(&["    b();", "    c();"])));
    assert!(!has(text, &block(&["b();", "c();"])));
    assert!(!has(text, &block(&["fn a() {", "    c();"])));
    let found = blocks("x\n```rust\na\n```\ny\n```text\n```\n");
    let found: Vec<_> = found.iter().map(|b| (b.language.as_str(), b.line, b.lines.len())).collect();
    assert_eq!(found, [("rust", 3, 1), ("text", 7, 0)]);
}
