//! The tables of Kubernetes API types in `crates/validation/src` match the real types: `schema.txt` those of the main
//! release, `schema_1.37.txt` those of kinds that only release 1.37 serves, and fields that it adds to other types.
//!
//! `UPDATE_EXPECT=1 cargo test -p harbormaster-oracle --test it types::` regenerates the first table, and with `--
//! --ignored` the second. To add a kind, first add a line with only its name, for example `networking.Ingress`. To add
//! the new fields of a type to the second table, first add a line with its name and a plus sign.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harbormaster_api::Release;
use harbormaster_oracle::components::RealBinary;
use regex::Regex;

use crate::releases::MAIN;

const TABLES: &str = "../validation/src";
const MAIN_TABLE: &str = "schema.txt";
/// Sign of a line with the fields that a release adds to a type.
const ADDS: &str = "+";
/// Mark of a field whose feature gate is off by default.
const OFF: &str = "~";

/// Returns the type of the field that a word defines.
fn of_field(word: &str) -> Option<&str> {
    let of = word.trim_end_matches(OFF).rsplit(':').next()?;
    let of = of.rsplit_once(']').map_or(of, |(_, of)| of);
    Some(of.trim_start_matches(['+', '!', '@', '?', '*', '%', '^']))
}

/// Returns the kinds, which are the types that no other type has as a field.
fn kinds<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let used: BTreeSet<&str> =
        lines.iter().flat_map(|line| line.split(' ').skip(1)).filter_map(of_field).collect();
    let whole = lines.iter().filter(|line| !adds(line));
    whole.map(|line| name(line)).filter(|name| !used.contains(name)).collect()
}

fn path_of(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLES).join(table)
}

/// Returns the name of the type that a line defines.
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Returns true if a line has the fields that a release adds to a type.
fn adds(line: &str) -> bool {
    line.split(' ').nth(1) == Some(ADDS)
}

/// Splits a table into its comments and its lines.
fn parts(text: &str) -> (Vec<&str>, Vec<&str>) {
    text.lines().partition(|line| line.starts_with('#'))
}

/// Returns the real types of these kinds and the types that they contain, one per line.
fn real_types(release: Release, kinds: &[&str]) -> String {
    let binary = RealBinary::ensure(release).expect("the components can be built");
    let output = Command::new(binary.path()).arg("types").args(kinds).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("types are text");
    // Kubernetes 1.37 inlines types by an empty name.
    let unnamed = Regex::new(r" (\d+)::!").expect("the pattern is valid");
    unnamed.replace_all(&text, " $1:-:^").into_owned()
}

/// Compares the lines of a table with the expected ones, or writes these.
fn matches(table: &str, ours: (Vec<&str>, Vec<&str>), real: &[String]) {
    let (head, lines) = ours;
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path_of(table), format!("{}\n{}\n", head.join("\n"), real.join("\n")))
            .expect("the table is writable");
        return;
    }
    let real: BTreeSet<&str> = real.iter().map(String::as_str).collect();
    let ours = BTreeSet::from_iter(lines);
    let only_ours: Vec<_> = ours.difference(&real).collect();
    let only_theirs: Vec<_> = real.difference(&ours).collect();
    assert!(ours == real, "only in the table: {only_ours:#?}\nonly in Kubernetes: {only_theirs:#?}");
}

/// Returns the lines of a release's own table: the types that its kinds and its additions to types contain, as far as
/// the main table lacks them.
fn own_lines(lines: &[&str], main: &[&str], real: &str) -> Vec<String> {
    let main: BTreeMap<&str, &str> = main.iter().map(|line| (name(line), *line)).collect();
    let real: BTreeMap<&str, &str> = real.lines().map(|line| (name(line), line)).collect();
    let extended = lines.iter().filter(|line| adds(line)).map(|line| {
        let name = name(line);
        (*line, name, changed_words(main[name], real[name]))
    });
    let extended: Vec<(&str, &str, Vec<Cow<'_, str>>)> = extended.collect();
    let changed = extended.iter().flat_map(|(_, _, words)| words);
    let mut wanted: Vec<&str> =
        kinds(lines).into_iter().chain(changed.filter_map(|word| of_field(word))).collect();
    let mut own: BTreeMap<&str, String> = BTreeMap::new();
    for (line, name, words) in &extended {
        own.insert(name, format!("{name} {ADDS} {}", marked(words, line).join(" ")));
    }
    while let Some(next) = wanted.pop() {
        let Some(line) = real.get(next).filter(|_| !main.contains_key(next)) else { continue };
        if own.insert(next, (*line).to_owned()).is_none() {
            wanted.extend(line.split(' ').skip(1).filter_map(of_field));
        }
    }
    own.into_values().collect()
}

/// Returns the words of `line` that `main` does not have, and a word for each field that only `main` has.
fn changed_words<'a>(main: &str, line: &'a str) -> Vec<Cow<'a, str>> {
    let known: BTreeSet<&str> = main.split(' ').collect();
    let number = |word: &str| word.split_once(':').map(|(number, _)| number.to_owned());
    let numbers: BTreeSet<String> = line.split(' ').filter_map(number).collect();
    let added = line.split(' ').filter(|word| !known.contains(word)).map(Cow::Borrowed);
    let removed = main.split(' ').filter(|word| number(word).is_some_and(|it| !numbers.contains(&it)));
    let removed = removed.filter_map(|word| Some(Cow::Owned(format!("{}:-", word.rsplit_once(':')?.0))));
    added.chain(removed).collect()
}

/// Returns the words with the marks that they have in `line`.
fn marked(words: &[Cow<'_, str>], line: &str) -> Vec<String> {
    let mark = |word: &Cow<'_, str>| {
        let with_mark = format!("{word}{OFF}");
        if line.split(' ').any(|other| other == with_mark) { with_mark } else { word.to_string() }
    };
    words.iter().map(mark).collect()
}

#[test]
fn the_table_of_types_matches_the_real_types() {
    let text = fs::read_to_string(path_of(MAIN_TABLE)).unwrap();
    let ours = parts(&text);
    let real: Vec<String> = real_types(MAIN, &kinds(&ours.1)).lines().map(str::to_owned).collect();
    matches(MAIN_TABLE, ours, &real);
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_table_of_types_of_1_37_matches_the_real_types() {
    const TABLE: &str = "schema_1.37.txt";
    let (main, text) = [MAIN_TABLE, TABLE].map(|table| fs::read_to_string(path_of(table)).unwrap()).into();
    let ((_, main), ours) = (parts(&main), parts(&text));
    let all = [kinds(&main), kinds(&ours.1)].concat();
    let real = own_lines(&ours.1, &main, &real_types(Release::V1_37, &all));
    matches(TABLE, ours, &real);
}

#[test]
fn a_table_has_the_new_types_and_the_changed_fields_of_listed_types() {
    let main = ["a.Kind 1:spec:a.Spec 2:status:a.Status", "a.Spec 1:x:s 4:old:*s", "a.Status 1:y:s"];
    let real = "a.Kind 1:spec:a.Spec 2:status:a.Status\na.More 1:z:*a.Part\na.Part 1:s:s\n\
                a.Spec 1:x:+s 2:more:a.More 3:off:t\na.Status 1:y:s 2:part:a.Other\na.Other\na.New 1:n:a.Part\n";
    let own = own_lines(&["a.New", "a.Spec + 3:off:t~"], &main, real);
    let spec = "a.Spec + 1:x:+s 2:more:a.More 3:off:t~ 4:old:-";
    assert_eq!(own, ["a.More 1:z:*a.Part", "a.New 1:n:a.Part", "a.Part 1:s:s", spec]);
}
