//! Dependencies have licences that `deny.toml` allows, and `CONTRIBUTING.md` states the purpose of each direct
//! dependency.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use regex::Regex;
use serde_json::Value;

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the program runs");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the crates that are built for this platform. Crates for other platforms need not have been downloaded.
fn packages() -> Vec<Value> {
    let version = output("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let platform = format!("--filter-platform={host}");
    let args = ["metadata", "--format-version=1", "--locked", &platform, "--manifest-path", manifest];
    let mut metadata: Value = serde_json::from_str(&output("cargo", &args)).expect("JSON");
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("{other}"),
    }
}

/// Returns the licences that `deny.toml` allows.
fn allowed() -> BTreeSet<String> {
    let text = read("deny.toml");
    let (_, list) = text.split_once("allow = [").expect("a list");
    let (list, _) = list.split_once(']').expect("the end of the list");
    let quoted = Regex::new("\"([^\"]+)\"").expect("a pattern");
    quoted.captures_iter(list).map(|captures| captures[1].to_owned()).collect()
}

/// Returns true if a crate may be used under allowed licences alone. `AND` binds tighter than `OR`; `/` is an old form
/// of `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let group = Regex::new(r"\(([^()]*)\)").expect("a pattern");
    let mut expression = expression.replace('/', " OR ");
    // Each group is replaced by a word: `yes` or `no`.
    while let Some(found) = group.captures(&expression) {
        let word = if is_allowed(&found[1], allowed) { "yes" } else { "no" };
        expression = expression.replace(&found[0], word);
    }
    let is_one = |licence: &str| licence == "yes" || allowed.contains(licence);
    expression.split(" OR ").any(|all| all.split(" AND ").all(|licence| is_one(licence.trim())))
}

#[test]
fn a_licence_expression_is_allowed_if_one_alternative_is() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND ISC", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSD-3-Clause", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let (packages, allowed) = (packages(), allowed());
    assert!(packages.len() > 100 && !allowed.is_empty());
    let licence = |package: &Value| package["license"].as_str().unwrap_or_default().to_owned();
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(&licence(package), &allowed))
        .map(|package| format!("{} {}: {:?}", package["name"], package["version"], licence(package)))
        .collect();
    assert!(wrong.is_empty(), "deny.toml does not allow these licences:\n{}", wrong.join("\n"));
}

#[test]
fn every_direct_dependency_has_a_purpose() {
    let text = read("CONTRIBUTING.md");
    let (_, section) = text.split_once("\n## Dependencies\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let name = Regex::new("`([a-z0-9_-]+)`").expect("a pattern");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let listed: BTreeSet<String> =
        rows.flat_map(|cell| name.captures_iter(cell)).map(|captures| captures[1].to_owned()).collect();
    let used: BTreeSet<String> = packages()
        .iter()
        .filter(|package| package["source"].is_null())
        .flat_map(|package| package["dependencies"].as_array().expect("dependencies"))
        .filter(|dependency| !dependency["source"].is_null())
        .map(|dependency| dependency["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(listed, used, "left: crates in CONTRIBUTING.md, right: crates that the workspace uses");
}
