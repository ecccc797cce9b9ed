//! The table of Kubernetes API types, `crates/validation/src/schema.txt`, matches the real types.
//!
//! `UPDATE_EXPECT=1 cargo test -p harbormaster-oracle --test it types::` regenerates the table. To add a kind, first
//! add a line with only its name, for example `networking.Ingress`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use harbormaster_oracle::components::RealBinary;

use crate::releases::MAIN;

const TABLE: &str = "../validation/src/schema.txt";

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

#[test]
fn the_table_of_types_matches_the_real_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    let text = fs::read_to_string(&path).unwrap();
    let (head, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let output = Command::new(RealBinary::ensure(MAIN).unwrap().path())
        .arg("types")
        .args(kinds(&lines))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let real = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{}\n{real}", head.join("\n"))).unwrap();
        return;
    }
    let (ours, theirs) = (BTreeSet::from_iter(lines), BTreeSet::from_iter(real.lines()));
    let only_ours: Vec<_> = ours.difference(&theirs).collect();
    let only_theirs: Vec<_> = theirs.difference(&ours).collect();
    assert!(ours == theirs, "only in the table: {only_ours:#?}\nonly in Kubernetes: {only_theirs:#?}");
}
