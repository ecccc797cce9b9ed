//! Tests that every metric in the alerts, the dashboard and the documents exists and has the labels that they use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use harbormaster_metrics::{
    Family, Kind,
    families::{METRICS, POD_RESOURCES},
};
use promql_parser::{
    parser::{self, Expr, LabelModifier},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;

const ALERTS: &str = "deploy/helm/harbormaster/files/alerts.yaml";
const DASHBOARD: &str = "deploy/helm/harbormaster/files/dashboard.json";
const OPERATING: &str = "docs/operating.md";
/// Labels that Prometheus adds to the samples that it scrapes.
const TARGET: [&str; 4] = ["instance", "job", "namespace", "pod"];
/// Prefixes of metric names.
const PREFIXES: [&str; 6] =
    ["scheduler_", "rest_client_", "leader_election_", "process_", "kubernetes_", "kube_pod_resource_"];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the family of a sample's name, and true if the name is that of a bucket.
fn family(sample: &str) -> Option<(&'static Family, bool)> {
    let all = || METRICS.iter().chain(POD_RESOURCES).copied();
    let part = |end: &str| {
        let name = sample.strip_suffix(end)?;
        all().find(|family| family.name == name && family.kind == Kind::Histogram)
    };
    let whole = || all().find(|family| family.name == sample && family.kind != Kind::Histogram);
    match part("_bucket") {
        Some(family) => Some((family, true)),
        None => part("_sum").or_else(|| part("_count")).or_else(whole).map(|family| (family, false)),
    }
}

/// Labels that a query uses: those in the selectors of each sample, and those in `by` and `without` clauses.
#[derive(Debug, Default)]
struct QueryLabels {
    samples: BTreeMap<String, BTreeSet<String>>,
    grouped: BTreeSet<String>,
}

impl ExprVisitor for QueryLabels {
    type Error = String;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, String> {
        let selector = match expr {
            Expr::VectorSelector(selector) => Some(selector),
            Expr::MatrixSelector(matrix) => Some(&matrix.vs),
            Expr::Aggregate(aggregate) => {
                match &aggregate.modifier {
                    Some(LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) => {
                        self.grouped.extend(labels.labels.iter().cloned());
                    }
                    None => {}
                }
                None
            }
            _ => None,
        };
        if let Some(selector) = selector {
            let name = selector.name.clone().ok_or("a selector without a name")?;
            let labels = selector.matchers.matchers.iter().map(|matcher| matcher.name.clone());
            self.samples.entry(name).or_default().extend(labels.filter(|label| label != "__name__"));
        }
        Ok(true)
    }
}

/// Returns the faults of a query; `shown` contains the labels with which the result is displayed.
fn faults(query: &str, shown: &BTreeSet<String>) -> Vec<String> {
    let parsed = match parser::parse(query) {
        Ok(parsed) => parsed,
        Err(why) => return vec![format!("{query}: {why}")],
    };
    let mut used = QueryLabels::default();
    if let Err(why) = walk_expr(&mut used, &parsed) {
        return vec![format!("{query}: {why}")];
    }
    let mut faults = Vec::new();
    for (sample, labels) in &used.samples {
        let Some((family, is_bucket)) = family(sample) else {
            faults.push(format!("{query}: there is no {sample}"));
            continue;
        };
        let has = |label: &&String| {
            let label = label.as_str();
            family.labels.contains(&label) || TARGET.contains(&label) || (is_bucket && label == "le")
        };
        let unknown = labels.iter().chain(&used.grouped).chain(shown).filter(|label| !has(label));
        faults.extend(unknown.map(|label| format!("{query}: {sample} has no label {label}")));
    }
    if used.samples.is_empty() {
        faults.push(format!("{query}: the query selects nothing"));
    }
    faults
}

/// Returns the names between `{{` and `}}`, without the part before the last dot.
fn placeholders(text: &str) -> BTreeSet<String> {
    let names = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    names.map(|(name, _)| name.trim().rsplit('.').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the words that look like a metric's name.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).collect()
}

fn is_known(name: &str) -> bool {
    METRICS.iter().chain(POD_RESOURCES).any(|family| family.name == name) || family(name).is_some()
}

fn rules() -> Vec<Value> {
    let alerts: Value = serde_saphyr::from_str(&read(ALERTS)).unwrap();
    let groups = alerts["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).cloned().collect()
}

#[test]
fn alerts_query_only_metrics_that_exist() {
    let rules = rules();
    assert!(rules.len() > 5);
    for rule in &rules {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let shown = placeholders(&text(&rule["annotations"]["description"]));
        assert_eq!(faults(&text(&rule["expr"]), &shown), Vec::<String>::new(), "{}", rule["alert"]);
    }
    let unknown: Vec<String> =
        names(&read(ALERTS)).into_iter().filter(|name| !is_known(name)).map(str::to_owned).collect();
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn alerts_have_descriptions_and_link_to_a_runbook() {
    for rule in rules() {
        let name = rule["alert"].as_str().expect("an alert has a name");
        for field in ["summary", "description"] {
            assert!(
                rule["annotations"][field].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {field}"
            );
        }
        let runbook = rule["annotations"]["runbook"].as_str().unwrap_or_default();
        // A test of the documents checks that the heading exists.
        assert!(
            runbook.strip_prefix(OPERATING).is_some_and(|anchor| anchor.starts_with('#')),
            "{name}: {runbook}"
        );
        assert!(rule["labels"]["severity"].is_string() && rule["for"].is_string(), "{name}");
    }
}

/// Collects queries and their legends.
fn queries<'a>(value: &'a Value, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::Object(fields) => {
            if let Some(query) = fields.get("expr").and_then(Value::as_str) {
                let legend = fields.get("legendFormat").and_then(Value::as_str);
                found.push((query, legend.unwrap_or_default()));
            }
            fields.values().for_each(|value| queries(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_queries_only_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let mut all = Vec::new();
    queries(&dashboard, &mut all);
    assert!(all.len() > 10);
    let wrong: Vec<String> =
        all.iter().flat_map(|(query, legend)| faults(query, &placeholders(legend))).collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_documents_name_only_metrics_that_exist() {
    for path in [OPERATING, "docs/parity.md"] {
        let text = read(path);
        let unknown: Vec<&str> = names(&text).into_iter().filter(|name| !is_known(name)).collect();
        assert_eq!(unknown, Vec::<&str>::new(), "{path}");
    }
}

#[test]
fn faults_are_found() {
    let none = BTreeSet::new();
    for (query, fault) in [
        ("sum(scheduler_pending_pod)", "there is no scheduler_pending_pod"),
        ("rate(scheduler_pod_scheduling_attempts[5m])", "there is no scheduler_pod_scheduling_attempts"),
        ("scheduler_pending_pods_count", "there is no"),
        ("sum by (plugin) (scheduler_pending_pods)", "no label plugin"),
        ("scheduler_pending_pods{le=\"1\"}", "no label le"),
        ("rate(scheduler_schedule_attempts_total{reason=\"x\"}[5m])", "no label reason"),
        ("sum(", "sum("),
    ] {
        let found = faults(query, &none);
        assert!(found.len() == 1 && found[0].contains(fault), "{query}: {found:?}");
    }
    let shown = placeholders("{{ $labels.profile }} of {{queue}}");
    assert_eq!(faults("scheduler_pending_pods", &shown).len(), 1, "profile");
    assert_eq!(
        names("see scheduler_x, `process_y` and schedulers"),
        BTreeSet::from(["scheduler_x", "process_y"])
    );
}
