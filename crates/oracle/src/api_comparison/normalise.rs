//! Replaces the values in an answer that differ from cluster to cluster.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Patterns and replacements, applied in this order. Most replacements are a placeholder for the kind of value, so the
/// comparison still notices a missing value.
const RULES: &[(&str, &str)] = &[
    // Headers of kubectl's log lines: time, process and source location.
    (r"(?m)^([WIEF])\d{4} [\d:.]+ +\d+ \S+\]", "$1<log>]"),
    // An event that kube-apiserver sometimes writes about itself when it starts.
    (r"(?m)^.*(ClusterIPNotAllocated|event/kubernetes\.[0-9a-f]{16}).*\n?", ""),
    // The header of an events table that has no other rows.
    (r"Events:[ \t]*\n +Type +Reason .*\n +---- .*\n?\z", "Events:  <none>\n"),
    // kubectl logs these lines only if its watch ends before the command's timeout, which is a race within kubectl.
    (r"(?m)^[IWE]<log>\].*reflector=.*\n?", ""),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    // Times as `kubectl describe` prints them: first for network policies, then for most other kinds.
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC", "<time>"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    // Resource versions of objects and lists: in YAML and JSON, in tables printed by `describe`, and in messages.
    (r#"((?i:resourceVersion)"?: *"?)\d+"#, "${1}<version>"),
    (r"((?i:resource ?version|current|too old|precondition)[^\n]{0,40}?:? \(?)\d{2,}", "${1}<version>"),
    // Ages of objects that a script created a moment ago: in seconds below two minutes, otherwise in minutes and
    // seconds.
    (r"\b(\d|[1-9]\d|1[01]\d)s\b", "<age>"),
    (r"\b[2-9]m(\d+s)?\b", "<age>"),
    // Names that scripts let the server generate.
    (r"\bgenerated-[a-z0-9]{5}\b", "generated-<name>"),
    // Another patch release may replace the pinned one.
    (r"\b(v1\.3[67])\.\d+\b", "$1.<patch>"),
    // Addresses of the server and of services.
    (r"127\.0\.0\.1:\d+", "<server>"),
    (r"\b10\.0\.\d{1,3}\.\d{1,3}\b", "<cluster IP>"),
    (r#"("continue": ")[^"]+"#, "${1}<token>"),
    // Cells of tables are padded to the width of their column.
    (r"(?m)(\S)[ \t]{2,}", "$1  "),
    (r"(?m)[ \t]+$", ""),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = RULES.iter().map(|(pattern, by)| Some((Regex::new(pattern).ok()?, *by)));
    compiled.flatten().collect()
});

/// Replaces the values that differ from cluster to cluster. JSON is written with sorted fields, one per line.
#[must_use]
pub fn normalise(text: &str) -> String {
    let mut text = match text.trim_start().starts_with(['{', '[']) {
        true => pretty(text).unwrap_or_else(|| text.to_owned()),
        false => text.to_owned(),
    };
    for (pattern, by) in COMPILED.iter() {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    text
}

/// Formats one JSON value, or several as sent by a watch.
fn pretty(text: &str) -> Option<String> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let mut lines = String::new();
    for mut value in values.ok()? {
        without_managers(&mut value);
        lines.push_str(&serde_json::to_string_pretty(&value).ok()?);
        lines.push('\n');
    }
    Some(lines)
}

/// Removes field managers from objects that have not been applied, and sorts those of applied objects. For an object
/// that has not been applied, our server records field managers only if the client specifies a `fieldManager`.
fn without_managers(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let managers = map.get_mut("managedFields").and_then(Value::as_array_mut);
            match managers.filter(|all| all.iter().any(|one| one["operation"] == "Apply")) {
                Some(all) => all.sort_by_key(|one| {
                    format!("{} {} {}", one["manager"], one["operation"], one["subresource"])
                }),
                None => drop(map.remove("managedFields")),
            }
            map.values_mut().for_each(without_managers);
        }
        Value::Array(list) => list.iter_mut().for_each(without_managers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rules_are_in_use() {
        assert_eq!(COMPILED.len(), RULES.len());
    }

    #[test]
    fn only_values_that_differ_between_clusters_are_replaced() {
        for (text, expected) in [
            ("NAME    AGE\na      119s   \nb      2m3s\n", "NAME  AGE\na  <age>\nb  <age>\n"),
            ("  for 300s, 30 s, 1h", "  for 300s, 30 s, 1h"),
            ("resourceVersion: \"123\"\n  key:   x", "resourceVersion: \"<version>\"\n  key:  x"),
            ("at 2026-11-21T10:00:00Z by generated-x2b4c", "at <time> by generated-<name>"),
            (
                "{\"b\":1,\"a\":{\"managedFields\":[1],\"uid\":\"5b7b1b5c-0f5e-4d8b-9d5e-0123456789ab\"}}",
                "{\n  \"a\": {\n    \"uid\": \"<uid>\"\n  },\n  \"b\": 1\n}\n",
            ),
            ("{ no JSON", "{ no JSON"),
            ("Server Version: v1.36.3, v1.35.2", "Server Version: v1.36.<patch>, v1.35.2"),
            (
                "Events:\n  Type     Reason  Age  From  Message\n  ----     ------  ---  ----  -------\n  \
                 Warning  ClusterIPNotAllocated  1s  ipallocator  gone\n",
                "Events:  <none>\n",
            ),
            ("https://127.0.0.1:4321/x 10.0.7.254", "https://<server>/x <cluster IP>"),
        ] {
            assert_eq!(normalise(text), expected);
        }
    }
}
