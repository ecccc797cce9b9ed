//! The rules of `promtool check metrics`, applied to a scraped page and to the table.

use std::collections::{BTreeMap, BTreeSet};

use super::{Release, scheduled};
use crate::families::{METRICS, POD_RESOURCES};

/// kube-scheduler's names that break a rule: the name, the rule's message, and the reason to keep the name.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Abbreviations of units, and units that are not base units.
const NO_UNITS: &[&str] = &[
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "pb",
    "m",
    "h",
    "d",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "bits",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "percent",
];
const TYPES: [&str; 5] = ["gauge", "counter", "histogram", "summary", "untyped"];

/// A family parsed from a page.
#[derive(Clone, Debug, Default)]
struct ParsedFamily {
    help: String,
    kind: String,
    labels: BTreeSet<String>,
    /// Names of the samples.
    samples: BTreeSet<String>,
}

fn read(page: &str) -> BTreeMap<String, ParsedFamily> {
    let mut families = BTreeMap::<String, ParsedFamily>::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            assert!(!families.contains_key(name), "{name} is on the page twice");
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            assert_eq!(name, current, "TYPE follows HELP");
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let parsed = families.get_mut(&current).expect("HELP comes first");
            parsed.samples.insert(name.to_owned());
            // No value in these pages contains a quote followed by a comma.
            let labels = labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once('='));
            parsed.labels.extend(labels.map(|(label, _)| label.to_owned()));
        }
    }
    families
}

/// The families of the table, as of a release.
fn table(release: Release) -> BTreeMap<String, ParsedFamily> {
    let families = METRICS.iter().chain(POD_RESOURCES);
    let parsed = families.map(|family| {
        let labels = family.labels.iter().map(|label| (*label).to_owned()).collect();
        let kind = family.kind.name().to_owned();
        let help = family.full_help(release);
        let parsed = ParsedFamily { help, kind, labels, samples: BTreeSet::new() };
        (family.name.to_owned(), parsed)
    });
    parsed.collect()
}

fn is_snake_case(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Returns the rules that a family breaks.
fn faults(name: &str, parsed: &ParsedFamily) -> Vec<&'static str> {
    let ParsedFamily { help, kind, labels, samples } = parsed;
    let is = |wanted: &str| kind == wanted;
    let has_label = |label: &str| labels.contains(label);
    let mut rules = vec![
        (help.trim().is_empty(), "no help text"),
        (!TYPES.contains(&kind.as_str()), "no type"),
        (is("counter") != name.ends_with("_total"), "all counters, and only counters, end with \"_total\""),
        (name.contains(':'), "colons are for recording rules"),
        (!is_snake_case(name), "names are in snake_case"),
        (!labels.iter().all(|label| is_snake_case(label)), "labels are in snake_case"),
        (name.split('_').any(|word| NO_UNITS.contains(&word)), "base units in full words only"),
        (TYPES.iter().any(|kind| name.contains(&format!("_{kind}"))), "no type in the name"),
        (has_label("le") && !is("histogram"), "\"le\" is for histograms"),
        (has_label("quantile") && !is("summary"), "\"quantile\" is for summaries"),
    ];
    if is("histogram") {
        let expected = ["_bucket", "_count", "_sum"].map(|end| format!("{name}{end}"));
        let is_whole = samples.is_empty() || *samples == BTreeSet::from(expected);
        rules.push((!is_whole, "a histogram has three parts"));
    } else {
        let is_reserved = ["_bucket", "_count", "_sum"].iter().any(|end| name.ends_with(end));
        rules.push((is_reserved, "\"_bucket\", \"_count\" and \"_sum\" are for histograms"));
        rules.push((samples.iter().any(|sample| sample != name), "samples have the family's name"));
    }
    let is_exception = |rule: &str| EXCEPTIONS.iter().any(|(of, broken, _)| *of == name && *broken == rule);
    rules.into_iter().filter(|(broken, rule)| *broken && !is_exception(rule)).map(|(_, rule)| rule).collect()
}

fn all_faults(families: &BTreeMap<String, ParsedFamily>) -> Vec<(&str, Vec<&'static str>)> {
    let faults = families.iter().map(|(name, parsed)| (name.as_str(), faults(name, parsed)));
    faults.filter(|(_, faults)| !faults.is_empty()).collect()
}

#[test]
fn a_page_follows_the_rules_of_prometheus() {
    let page = read(&scheduled().0.page());
    assert!(page.len() > 20, "{page:?}");
    assert_eq!(all_faults(&page), []);
}

#[test]
fn the_table_follows_the_rules_of_prometheus() {
    for &release in Release::ALL {
        assert_eq!(all_faults(&table(release)), [], "{release}");
    }
}

#[test]
fn faults_are_found() {
    let page = "# HELP a_seconds_count  \n# TYPE a_seconds_count gauge\na_seconds_count{leX=\"1\",le=\"2\"} 1\n\
                # HELP requests Words.\n# TYPE requests counter\nrequests 2\n\
                # HELP a_gauge_ms_total Words.\n# TYPE a_gauge_ms_total gauge\na_gauge_ms_total 3\n\
                # HELP aHistogram_seconds Words.\n# TYPE aHistogram_seconds histogram\naHistogram_seconds_sum 3\n";
    let page = read(page);
    let found: BTreeMap<&str, usize> =
        all_faults(&page).into_iter().map(|(name, faults)| (name, faults.len())).collect();
    let expected =
        [("a_seconds_count", 4), ("requests", 1), ("a_gauge_ms_total", 3), ("aHistogram_seconds", 2)];
    assert_eq!(found, BTreeMap::from(expected));
}
