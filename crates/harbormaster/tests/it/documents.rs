//! Links, anchors and paths in the documents are valid, and the links in alerts lead to headings.

use std::{
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository's root")
}

/// Collects all Markdown files of the repository, except those in build folders and hidden folders.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            documents(&entry, found);
        } else if name.ends_with(".md") {
            found.push(entry);
        }
    }
}

/// Returns the text without fenced code blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Returns the anchors that Markdown renderers give to a document's headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_relative_link_leads_to_an_existing_file_and_heading() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut found = Vec::new();
    documents(&root(), &mut found);
    assert!(found.len() > 10, "only {} documents", found.len());
    let mut broken = Vec::new();
    for document in &found {
        let text = fs::read_to_string(document).expect("a document");
        for target in link.captures_iter(&prose(&text)).map(|captures| captures[1].to_owned()) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() {
                document.clone()
            } else {
                document.parent().expect("a folder").join(path)
            };
            let leads = match anchor {
                "" => file.exists(),
                anchor => fs::read_to_string(&file)
                    .is_ok_and(|text| anchors(&text).iter().any(|known| known == anchor)),
            };
            if !leads {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_alert_links_to_a_heading() {
    let runbook = Regex::new(r"runbook: ([^\s#]+)#(\S+)").expect("a pattern");
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a document");
    let alerts = read("deploy/helm/harbormaster/files/alerts.yaml");
    assert_eq!(runbook.captures_iter(&alerts).count(), alerts.matches("- alert:").count());
    for leads in runbook.captures_iter(&alerts) {
        assert!(anchors(&read(&leads[1])).iter().any(|known| *known == leads[2]), "{}", &leads[0]);
    }
}

#[test]
fn the_paths_in_the_main_documents_exist() {
    let path =
        Regex::new(r"`((?:crates|contrib|docs|examples|deploy|tests)/[A-Za-z0-9_./-]+)`").expect("a pattern");
    let mut missing = Vec::new();
    for document in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/plugins.md", "docs/operating.md"]
    {
        let text = fs::read_to_string(root().join(document)).expect("a document");
        for named in path.captures_iter(&text).map(|captures| captures[1].to_owned()) {
            if !root().join(&named).exists() {
                missing.push(format!("{document}: {named}"));
            }
        }
    }
    assert!(missing.is_empty(), "paths that do not exist:\n{}", missing.join("\n"));
}
