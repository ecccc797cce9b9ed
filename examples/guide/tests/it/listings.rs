//! Checks `docs/plugins.md`: every listing appears in a file of this crate or of `examples/own-scheduler`, and every
//! command prints the output shown.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use harbormaster::prelude::{Action, EventResource};

fn crate_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn guide() -> String {
    fs::read_to_string(crate_root().join("../../docs/plugins.md")).unwrap()
}

/// A fenced code block of the guide.
struct CodeBlock {
    language: String,
    /// Line number of the first line, starting at 1.
    line: usize,
    lines: Vec<String>,
}

fn blocks(guide: &str) -> Vec<CodeBlock> {
    let (mut blocks, mut open): (Vec<CodeBlock>, Option<CodeBlock>) = (Vec::new(), None);
    for (line, text) in (1..).zip(guide.lines()) {
        match (text.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(CodeBlock { language: language.to_owned(), line: line + 1, lines: Vec::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(text.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last code block is not closed");
    blocks
}

/// Returns the path and text of every file with the given extension below a folder.
fn files(folder: &Path, extension: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| match path.is_dir() {
        true => files(&path, extension),
        false if path.extension().is_some_and(|found| found == extension) => {
            let text = fs::read_to_string(&path).unwrap();
            vec![(path, text)]
        }
        false => Vec::new(),
    });
    below.collect()
}

/// Returns true if the text contains the lines of the block, consecutively and with the same indentation.
fn contains(text: &str, block: &[String]) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.windows(block.len()).any(|window| window.iter().eq(block))
}

#[test]
fn every_listing_is_in_a_file_of_the_examples() {
    let (rust, yaml) = (files(crate_root(), "rs"), files(crate_root(), "yaml"));
    let toml = files(&crate_root().join("../own-scheduler"), "toml");
    let guide = guide();
    let mut missing = Vec::new();
    for block in blocks(&guide) {
        let files = match block.language.as_str() {
            "rust" => &rust,
            "yaml" => &yaml,
            "toml" => &toml,
            // `every_command_prints_what_the_guide_shows` runs console blocks. Text blocks are not checked.
            "console" | "text" => continue,
            other => panic!("docs/plugins.md:{}: unknown language {other:?}", block.line - 1),
        };
        if block.lines.is_empty() || !files.iter().any(|(_, text)| contains(text, &block.lines)) {
            missing.push(format!("docs/plugins.md:{}: {}", block.line, block.lines.join("\n")));
        }
    }
    assert!(
        missing.is_empty(),
        "no file of examples/guide or examples/own-scheduler contains these listings:\n{}",
        missing.join("\n\n")
    );
}

#[test]
fn every_action_is_in_the_table_with_the_objects_that_it_applies_to() {
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
                let action = actions.next().expect("the table has more rows than there are actions");
                let happens = |resource: EventResource| resource.actions().intersects(action);
                let resources = match (happens(EventResource::Pod), happens(EventResource::Node)) {
                    (true, true) => "all kinds",
                    (true, false) => "pods",
                    _ => "nodes",
                };
                (action, resources)
            }
            std::cmp::Ordering::Equal => (Action::UPDATE, "all kinds"),
            std::cmp::Ordering::Greater => (Action::ALL, "all kinds"),
        };
        // One action is displayed under kube-scheduler's longer name.
        let known = action.to_string().to_lowercase().replace("schedulinggates", "gates");
        assert_eq!((name, *of), (known, resources));
    }
    assert!(
        actions.next().is_none() && rows.len() == Action::each().count() + 2,
        "the table lacks an action"
    );
}

#[test]
fn every_command_prints_what_the_guide_shows() {
    let guide = guide();
    let mut wrong = Vec::new();
    let mut commands = 0;
    for block in blocks(&guide).iter().filter(|block| block.language == "console") {
        let (mut at, mut rest) = (block.line, block.lines.as_slice());
        while let Some((command, output)) = rest.split_first() {
            let Some(command) = command.strip_prefix("$ guide ") else {
                panic!("docs/plugins.md:{at}: expected a line that starts with `$ guide `");
            };
            let end = output.iter().position(|line| line.starts_with("$ ")).unwrap_or(output.len());
            let printed = run(command);
            if printed.lines().map(str::trim_end).ne(output[..end].iter().map(|line| line.trim_end())) {
                wrong.push(format!("docs/plugins.md:{at}: `guide {command}` prints\n{printed}"));
            }
            at += 1 + end;
            rest = &output[end..];
            commands += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(commands > 0, "the guide has no commands");
}

/// Runs the `guide` binary and returns its output, or its error output if it failed.
fn run(arguments: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_guide"));
    let finished = program.args(arguments.split_whitespace()).current_dir(crate_root()).output().unwrap();
    let output = if finished.status.success() { finished.stdout } else { finished.stderr };
    String::from_utf8(output).unwrap()
}

#[test]
fn a_listing_with_other_indentation_or_gaps_is_detected() {
    let block = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let text = "fn a() {\n    b();\n    c();\n}\n";
    assert!(contains(text, &block(&["    b();", "    c();"])));
    assert!(!contains(text, &block(&["b();", "c();"])));
    assert!(!contains(text, &block(&["fn a() {", "    c();"])));
    let found = blocks("x\n```rust\na\n```\ny\n```text\n```\n");
    let found: Vec<_> = found.iter().map(|b| (b.language.as_str(), b.line, b.lines.len())).collect();
    assert_eq!(found, [("rust", 3, 1), ("text", 7, 0)]);
}
