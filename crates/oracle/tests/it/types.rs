//! The tables of Kubernetes API types in `crates/validation/src` match the real types: `schema.txt` those of the main
//! release, `schema_1.37.txt` those of kinds that only release 1.37 serves.
//!
//! `UPDATE_EXPECT=1 cargo test -p harbormaster-oracle --test it types::` regenerates the first table, and with `--
//! --ignored` the second. To add a kind, first add a line with only its name, for example `networking.Ingress`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harbormaster_api::Release;
use harbormaster_oracle::components::RealBinary;

use crate::releases::MAIN;

const TABLES: &str = "../validation/src";
const MAIN_TABLE: &str = "schema.txt";

/// Returns the kinds, which are the types that no other type has as a field.
fn kinds<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let words = |line: &'a str| line.split(' ');
    let of_field = |word: &'a str| {
        let of = word.rsplit(':').next()?;
        let of = of.rsplit_once(']').map_or(of, |(_, of)| of);
        Some(of.trim_start_matches(['+', '!', '@', '?', '*', '%', '^']))
    };
    let used: BTreeSet<&str> =
        lines.iter().flat_map(|line| words(line).skip(1)).filter_map(of_field).collect();
    lines.iter().filter_map(|line| words(line).next()).filter(|name| !used.contains(name)).collect()
}

fn path_of(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLES).join(table)
}

/// Returns the name of the type that a line defines.
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Compares a table with the types of a release, apart from the types in another table.
fn matches_the_real_types(release: Release, table: &str, other: &str) {
    let path = path_of(table);
    let text = fs::read_to_string(&path).expect("the table is readable");
    let (head, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let binary = RealBinary::ensure(release).expect("the components can be built");
    let output =
        Command::new(binary.path()).arg("types").args(kinds(&lines)).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let known: BTreeSet<&str> = other.lines().map(name).collect();
    let real = String::from_utf8(output.stdout).expect("types are text");
    let real: Vec<&str> = real.lines().filter(|line| !known.contains(name(line))).collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{}\n{}\n", head.join("\n"), real.join("\n")))
            .expect("the table is writable");
        return;
    }
    let (ours, theirs) = (BTreeSet::from_iter(lines), BTreeSet::from_iter(real));
    let only_ours: Vec<_> = ours.difference(&theirs).collect();
    let only_theirs: Vec<_> = theirs.difference(&ours).collect();
    assert!(ours == theirs, "only in the table: {only_ours:#?}\nonly in Kubernetes: {only_theirs:#?}");
}

#[test]
fn the_table_of_types_matches_the_real_types() {
    matches_the_real_types(MAIN, MAIN_TABLE, "");
}

#[test]
#[ignore = "builds Kubernetes 1.37"]
fn the_table_of_types_of_1_37_matches_the_real_types() {
    let main = fs::read_to_string(path_of(MAIN_TABLE)).unwrap();
    matches_the_real_types(Release::V1_37, "schema_1.37.txt", &main);
}
