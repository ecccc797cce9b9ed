//! Finds the configuration files of `scheduler_perf` and the workloads in them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use harbormaster_api::Release;
use regex::RegexBuilder;
use serde::Serialize;

use super::config::{ConfigFile, TestCase, WorkloadEntry};
use super::obstacle::Obstacle;
use super::plan::{Plan, parameters};
use crate::components::kubernetes_source;

/// Folder of `scheduler_perf` in the sources of Kubernetes.
const FOLDER: &str = "test/integration/scheduler_perf";

/// Name of all configuration files.
const FILE: &str = "performance-config.yaml";

/// Workloads of `scheduler_perf`.
#[derive(Debug)]
pub struct Catalog {
    release: Release,
    files: Vec<ConfigFile>,
}

/// A workload, and whether it can run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name of the configuration file.
    pub file: String,
    /// `TEST CASE/WORKLOAD`; only the test case if it cannot be read.
    pub name: String,
    /// Labels of the test case and the workload.
    pub labels: Vec<String>,
    /// Parameters in one line.
    pub parameters: String,
    /// The plan, or the reason there is none.
    #[serde(serialize_with = "outcome")]
    pub plan: Result<Plan, Obstacle>,
}

/// Serializes whether a workload can run.
fn outcome<S: serde::Serializer>(plan: &Result<Plan, Obstacle>, serializer: S) -> Result<S::Ok, S::Error> {
    match plan {
        Ok(plan) => serde_json::json!({"size": plan.size, "notes": plan.notes}).serialize(serializer),
        Err(obstacle) => serde_json::json!({"obstacle": obstacle.reason()}).serialize(serializer),
    }
}

impl Catalog {
    /// Reads one configuration file, or all files of the release if `selected` is `None`. A file is selected by its
    /// path, or by the name of its folder in the sources of Kubernetes, such as `affinity`.
    pub fn read(release: Release, selected: Option<&str>) -> Result<Self> {
        if let Some(path) = selected.map(Path::new).filter(|path| path.is_file()) {
            let files = vec![ConfigFile::read(path, path.display().to_string())?];
            return Ok(Self { release, files });
        }
        let root = kubernetes_source(release)?.join(FOLDER);
        let mut found = Vec::new();
        find(&root, &mut found).with_context(|| format!("reading {}", root.display()))?;
        found.sort();
        let names: Vec<String> = found.iter().map(|path| folder_name(&root, path)).collect();
        let chosen = choose(&names, selected)?;
        let read = |index: usize| ConfigFile::read(&found[index], format!("{}/{FILE}", names[index]));
        Ok(Self { release, files: chosen.into_iter().map(read).collect::<Result<_>>()? })
    }

    /// Returns the workloads whose names match one of the filters, or all workloads if there are no filters. A filter
    /// is the name of a test case, or `TEST CASE/WORKLOAD`; `*` stands for any text.
    pub fn entries(&self, filters: &[String]) -> Result<Vec<Entry>> {
        let filters = filters.iter().map(|filter| pattern(filter)).collect::<Result<Vec<_>>>()?;
        let mut entries: Vec<_> = self.files.iter().flat_map(|file| self.of_file(file)).collect();
        if !filters.is_empty() {
            entries.retain(|entry| filters.iter().any(|filter| filter.is_match(&entry.name)));
        }
        Ok(entries)
    }

    /// Returns the plans of the selected workloads. Fails if there are none, or if one of them cannot run.
    pub fn plans(&self, filters: &[String]) -> Result<Vec<Plan>> {
        let entries = self.entries(filters)?;
        ensure!(
            !entries.is_empty(),
            "no workload of scheduler_perf has the name {}; --perf-list shows all names",
            filters.join(" or ")
        );
        let (mut plans, mut obstacles) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry.plan {
                Ok(plan) => plans.push(plan),
                Err(obstacle) => obstacles.push(obstacle.to_string()),
            }
        }
        if !obstacles.is_empty() {
            bail!(
                "{} of the selected workloads cannot run (select others with --perf-test):\n{}",
                obstacles.len(),
                obstacles.join("\n")
            );
        }
        Ok(plans)
    }

    fn of_file<'a>(&'a self, file: &'a ConfigFile) -> impl Iterator<Item = Entry> + 'a {
        file.cases.iter().flat_map(move |case| match case {
            Ok(case) => {
                case.workloads.iter().map(|workload| self.entry(file, case, workload)).collect::<Vec<_>>()
            }
            Err(obstacle) => vec![Entry {
                file: file.name.clone(),
                name: obstacle.workload().to_owned(),
                labels: Vec::new(),
                parameters: String::new(),
                plan: Err(obstacle.clone()),
            }],
        })
    }

    fn entry(&self, file: &ConfigFile, case: &TestCase, workload: &WorkloadEntry) -> Entry {
        Entry {
            file: file.name.clone(),
            name: format!("{}/{}", case.name, workload.name),
            labels: case.labels.iter().chain(&workload.labels).cloned().collect(),
            parameters: parameters(&workload.params),
            plan: Plan::of(file, case, workload, self.release),
        }
    }
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path.file_name().is_some_and(|name| name == FILE) {
            found.push(path);
        }
    }
    Ok(())
}

fn folder_name(root: &Path, file: &Path) -> String {
    let folder = file.parent().unwrap_or(root);
    folder.strip_prefix(root).unwrap_or(folder).display().to_string()
}

/// Returns the indices of the selected names: the whole name, else the last part of names, else names that contain it.
fn choose(names: &[String], selected: Option<&str>) -> Result<Vec<usize>> {
    let Some(selected) = selected else { return Ok((0..names.len()).collect()) };
    let selected = selected.trim_end_matches(FILE).trim_end_matches('/');
    let tests: [fn(&str, &str) -> bool; 3] = [
        |name, selected| name == selected,
        |name, selected| name.ends_with(&format!("/{selected}")),
        |name, selected| name.contains(selected),
    ];
    for test in tests {
        let fitting: Vec<_> = (0..names.len()).filter(|index| test(&names[*index], selected)).collect();
        match fitting.len() {
            0 => {}
            1 => return Ok(fitting),
            _ => {
                let names: Vec<_> = fitting.iter().map(|index| names[*index].as_str()).collect();
                bail!("several configurations of scheduler_perf match {selected}: {}", names.join(", "));
            }
        }
    }
    bail!(
        "{selected} is neither a file nor a configuration of scheduler_perf; the configurations are {}",
        names.join(", ")
    )
}

/// Returns the pattern of a filter for names of the form `TEST CASE/WORKLOAD`.
fn pattern(filter: &str) -> Result<regex::Regex> {
    let text = regex::escape(filter).replace(r"\*", ".*");
    let whole = if filter.contains('/') { format!("^{text}$") } else { format!("^{text}(/.*)?$") };
    RegexBuilder::new(&whole).case_insensitive(true).build().with_context(|| format!("the filter {filter}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_selected_by_its_whole_name_its_last_part_or_a_part_of_it() {
        let names = [
            "affinity",
            "dra",
            "dra/extendedresource",
            "dra/extendedresource/scoring",
            "podgroup/basicscheduling",
        ];
        let names = names.map(str::to_owned);
        let chosen = |selected| choose(&names, Some(selected)).map_err(|error| error.to_string());
        for (selected, expected) in [
            ("dra", 1),
            ("scoring", 3),
            ("basic", 4),
            ("affinity/performance-config.yaml", 0),
            ("dra/extendedresource", 2),
        ] {
            assert_eq!(chosen(selected), Ok(vec![expected]), "{selected}");
        }
        assert!(
            chosen("a")
                .unwrap_err()
                .starts_with("several configurations of scheduler_perf match a: affinity, dra")
        );
        assert!(chosen("nothing").unwrap_err().contains("the configurations are affinity, dra"));
        assert_eq!(choose(&names, None).unwrap().len(), 5);
    }

    #[test]
    fn a_filter_matches_whole_names() {
        let matches = |filter: &str, name: &str| pattern(filter).unwrap().is_match(name);
        assert!(matches("SchedulingBasic", "SchedulingBasic/5Nodes"));
        assert!(matches("schedulingbasic/5nodes", "SchedulingBasic/5Nodes"));
        assert!(!matches("SchedulingBasic/5Nodes", "SchedulingBasic/5Nodes_Async"));
        assert!(!matches("Scheduling", "SchedulingBasic/5Nodes"));
        assert!(matches("*/5Nodes", "SchedulingBasic/5Nodes") && matches("Sched*", "SchedulingBasic/5Nodes"));
    }
}
